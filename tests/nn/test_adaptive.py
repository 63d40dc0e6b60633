"""Adaptive input and softmax: against torch's own, against a softmax that is spelt out, and in a training."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.base import ConfigError, ShapeError
from regard.nn import AdaptiveEmbedding, AdaptiveSoftmax, predicted_loss, predicted_losses, token_loss
from regard.nn.adaptive import cluster_sizes, cluster_widths

WORDS, DIM, CUTOFFS = 40, 12, (8, 20)


def softmax(**settings: Any) -> AdaptiveSoftmax:
    torch.manual_seed(0)
    layer = AdaptiveSoftmax(WORDS, DIM, **{"cutoffs": CUTOFFS, "div_value": 2, **settings}).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn_like(parameter))
    return layer


def embedding(div_value: int = 2) -> AdaptiveEmbedding:
    torch.manual_seed(1)
    return AdaptiveEmbedding(WORDS, DIM, cutoffs=CUTOFFS, div_value=div_value).double()


def states(*shape: int) -> Tensor:
    return torch.randn(*shape, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


def words(*shape: int) -> Tensor:
    return torch.randint(0, WORDS, shape, generator=torch.Generator().manual_seed(3))


def twin_of(layer: AdaptiveSoftmax) -> nn.AdaptiveLogSoftmaxWithLoss:
    """torch's layer with the same parameters."""
    other = nn.AdaptiveLogSoftmaxWithLoss(DIM, WORDS, list(CUTOFFS), div_value=2.0, head_bias=True).double()
    with torch.no_grad():
        other.head.weight.copy_(torch.cat([layer.weights[0], layer.to_tails]))
        other.head.bias.copy_(layer.bias)
        for tail, projection, weight in zip(other.tail, layer.projections, layer.weights[1:], strict=True):
            tail[0].weight.copy_(projection.weight)
            tail[1].weight.copy_(weight)
    return other


def test_losses_and_gradients_are_those_of_torch() -> None:
    layer = softmax()
    other = twin_of(layer)
    ours, theirs = (states(30).requires_grad_() for _ in range(2))
    targets = words(30)
    losses = layer(ours).losses(targets)
    expected = other(theirs, targets)
    torch.testing.assert_close(losses, -expected.output, rtol=0, atol=1e-12)
    losses.sum().backward()
    (-expected.output.sum()).backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=0, atol=1e-11)
    head = torch.cat([layer.weights[0].grad, layer.to_tails.grad])
    torch.testing.assert_close(head, other.head.weight.grad, rtol=0, atol=1e-11)
    for tail, projection, weight in zip(other.tail, layer.projections, layer.weights[1:], strict=True):
        torch.testing.assert_close(projection.weight.grad, tail[0].weight.grad, rtol=0, atol=1e-11)
        torch.testing.assert_close(weight.grad, tail[1].weight.grad, rtol=0, atol=1e-11)


def test_log_probabilities_are_those_of_torch_and_sum_to_one() -> None:
    layer, hidden = softmax(), states(2, 5)
    log_probs = layer(hidden).log_probs()
    torch.testing.assert_close(log_probs.flatten(0, 1), twin_of(layer).log_prob(hidden.flatten(0, 1)))
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(2, 5, dtype=torch.float64))
    assert torch.equal(layer(hidden)[:, -1], layer(hidden[:, -1]).log_probs())


@pytest.mark.parametrize("div_value", [1, 3])
@pytest.mark.parametrize("tied", [False, True])
def test_losses_pick_from_the_log_probabilities(div_value: int, tied: bool) -> None:
    layer, table = softmax(div_value=div_value, tied=tied), embedding(div_value)
    logits, targets = layer(states(3, 7), table if tied else None), words(3, 7)
    expected = -logits.log_probs().gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(logits.losses(targets), expected, rtol=0, atol=1e-12)
    ignored = expected.masked_fill(targets == 0, 0.0)
    torch.testing.assert_close(predicted_losses(logits, targets, ignore=0), ignored, rtol=0, atol=1e-12)
    torch.testing.assert_close(predicted_loss(logits, targets, ignore=0), ignored.sum(), rtol=0, atol=1e-11)


def test_where_a_graph_is_captured_every_tail_is_computed_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, targets = softmax(), words(4, 6)
    expected, results = layer(states(4, 6)).losses(targets), []
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda tensor: True))
    monkeypatch.setattr(torch.Tensor, "nonzero", lambda *_: pytest.fail("this waits for the device"))
    results.append(layer(states(4, 6)).losses(targets))
    torch.testing.assert_close(results[0], expected, rtol=0, atol=1e-12)


def test_targets_of_the_head_alone() -> None:
    layer, targets = softmax(), words(6) % CUTOFFS[0]
    losses = layer(states(6)).losses(targets)
    losses.sum().backward()
    assert all((weight.grad is None or not weight.grad.any()) for weight in layer.weights[1:])
    assert losses.isfinite().all()


def test_plain_logits_have_the_losses_of_cross_entropy() -> None:
    logits = torch.randn(3, 5, 11, generator=torch.Generator().manual_seed(0))
    targets = torch.randint(0, 11, (3, 5), generator=torch.Generator().manual_seed(1))
    targets[0, 0] = 0
    losses = predicted_losses(logits, targets, ignore=0)
    expected = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=0, reduction="none")
    torch.testing.assert_close(losses.flatten(), expected)
    torch.testing.assert_close(predicted_loss(logits, targets, ignore=0), token_loss(logits, targets, ignore=0))


@pytest.mark.parametrize("div_value", [1, 2])
def test_vectors_come_from_the_cluster_of_their_word(div_value: int) -> None:
    table, tokens = embedding(div_value), words(5, 9)
    tokens[0, 0] = 0
    vectors = table(tokens)
    assert vectors.shape == (5, 9, DIM)
    assert (vectors[0, 0] == 0).all()
    starts = [0, *CUTOFFS]
    for token, vector in zip(tokens.flatten().tolist(), vectors.flatten(0, 1), strict=True):
        cluster = sum(token >= start for start in CUTOFFS)
        row = table.tables[cluster].weight[token - starts[cluster]]
        expected = table.projections[cluster - 1](row) if cluster else row
        torch.testing.assert_close(vector, expected, rtol=0, atol=1e-12)
    vectors.square().sum().backward()
    assert not table.tables[0].weight.grad[0].any()  # padding does not learn
    for number, start in enumerate(starts):
        end = [*CUTOFFS, WORDS][number]
        read = torch.tensor([token in tokens for token in range(max(start, 1), end)])
        gradient = table.tables[number].weight.grad[max(start, 1) - start :]
        assert torch.equal(gradient.abs().sum(1) > 0, read)


def test_tied_weights_are_those_of_the_embedding() -> None:
    layer, table = softmax(tied=True), embedding()
    assert {name for name, _ in layer.named_parameters()} == {"to_tails", "bias"}
    layer(states(20), table).losses(words(20)).sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in table.parameters())
    with pytest.raises(ConfigError, match="a tied AdaptiveSoftmax: got no embedding"):
        layer(states(2))


def test_wrong_clusters() -> None:
    assert cluster_sizes(10, ()) == [10]
    assert cluster_widths(9, 3, 2) == [9, 4, 2]
    for cutoffs in [(5, 5), (10,), (0, 3), (12, 3)]:
        with pytest.raises(ConfigError, match=r"model\.cutoffs: got \[.*\] for 10 words"):
            cluster_sizes(10, cutoffs)
    with pytest.raises(ConfigError, match=r"model\.div_value: got 4 with dim 8 and 3 clusters"):
        cluster_widths(8, 3, 4)
    with pytest.raises(ShapeError, match="targets of an adaptive softmax"):
        softmax()(states(2, 3)).losses(words(3, 2))
    assert "clusters=[8, 12, 20]" in repr(embedding())
