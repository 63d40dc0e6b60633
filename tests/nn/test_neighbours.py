"""Neighbours: the words beside those that are drawn, by hand; texts of one word have none."""

import torch
import torch.nn.functional as F

from regard.nn import Neighbours


def test_by_hand() -> None:
    """With two words in a text there is one pair: forward from the first, backward from the second."""
    torch.manual_seed(0)
    layer = Neighbours(11, 3, 5, places=4, dropout=0.0).double()
    states, vectors = torch.randn(2, 6, 6, dtype=torch.float64), torch.randn(11, 5, dtype=torch.float64)
    texts = torch.tensor([[7, 9, 0, 0, 0, 0], [4, 0, 0, 0, 0, 0]])
    nats = layer(states, texts, torch.tensor([2, 1]), vectors)
    forward = layer.to_words[0](states[0, 0, :3]) @ vectors.T + layer.bias
    backward = layer.to_words[1](states[0, 1, 3:]) @ vectors.T + layer.bias
    expected = F.cross_entropy(forward, torch.tensor(9)) + F.cross_entropy(backward, torch.tensor(7))
    torch.testing.assert_close(nats[0], expected)
    assert nats[1] == 0.0  # a text of one word


def test_what_stands_behind_a_text_does_not_count() -> None:
    layer = Neighbours(11, 3, 5, places=40, dropout=0.0)
    states, vectors = torch.randn(3, 9, 6), torch.randn(11, 5)
    texts, lengths = torch.randint(1, 11, (3, 9)), torch.tensor([9, 4, 0])
    behind = torch.arange(9) >= lengths.unsqueeze(1)
    results = []
    for fill in (0.0, 7.0):
        torch.manual_seed(1)
        results.append(
            layer(states.masked_fill(behind.unsqueeze(-1), fill), texts.masked_fill(behind, 5), lengths, vectors)
        )
    assert torch.equal(*results)
    assert results[0][2] == 0.0


def test_places_are_drawn_among_all_pairs() -> None:
    """The mean over many draws is the mean over all pairs of neighbours."""
    torch.manual_seed(0)
    layer = Neighbours(11, 2, 4, places=20_000, dropout=0.0)
    states, vectors, texts = torch.randn(1, 6, 4), torch.randn(11, 4), torch.tensor([[3, 8, 5, 5, 9, 10]])
    forward = F.linear(layer.to_words[0](states[0, :5, :2]), vectors, layer.bias)
    backward = F.linear(layer.to_words[1](states[0, 1:, 2:]), vectors, layer.bias)
    expected = F.cross_entropy(forward, texts[0, 1:]) + F.cross_entropy(backward, texts[0, :5])
    nats = layer(states, texts, torch.tensor([6]), vectors)
    torch.testing.assert_close(nats[0], expected, rtol=0.05, atol=0.0)
