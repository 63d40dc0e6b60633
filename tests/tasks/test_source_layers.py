import numpy as np
import pytest
import torch

from regard.base import ConfigError
from regard.explanation import Matrix
from regard.models import Transformer, TransformerConfig
from regard.tasks.source_layers import best_head, chosen_head, self_layers, source_layers, word_alignments

CONFIG = TransformerConfig(30, 30, dim=16, hidden_dim=16, num_heads=4, encoder_layers=2, decoder_layers=2, dropout=0.0)


def pairs(count: int = 60, seed: int = 0) -> list[tuple[list[int], list[int]]]:
    """Word n becomes word n + 10, in the same order."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        source = rng.integers(4, 14, rng.integers(2, 7)).tolist()
        found.append((source, [word + 10 for word in source]))
    return found


def test_a_word_alignment_is_learnt_without_a_model() -> None:
    for (source, _), links in zip(pairs(), word_alignments(pairs()), strict=True):
        assert links.shape == (len(source), len(source))
        assert (links.sum(1) <= 1 + 1e-9).all()
        asked = [source.index(word) == place for place, word in enumerate(source)]
        best = [links[row].argmax() == row for row, is_first in enumerate(asked) if is_first and links[row].sum() > 0.5]
        assert np.mean(best) > 0.6
    mean = np.mean([np.diag(links).mean() for links in word_alignments(pairs())])
    assert mean > 0.7


def test_the_aligned_head_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """One head of an untrained model is made to look at the word of the same place; that one is chosen."""
    torch.manual_seed(0)
    model = Transformer(CONFIG).eval()
    attention = model.decoder[1].cross.attention
    whole = type(attention).forward

    def forward(self, *given, **named):  # type: ignore[no-untyped-def]
        out = whole(self, *given, **named)
        if self is not attention or out.weights is None:
            return out
        weights = out.weights.clone()
        high, wide = weights.shape[-2:]
        weights[:, 2] = torch.eye(high, wide)
        return out._replace(weights=weights)

    monkeypatch.setattr(type(attention), "forward", forward)
    choice = best_head(model, pairs())
    assert choice is not None
    seen = {layer: len(each) for layer, each in choice.agreements.items()}
    assert seen == {"decoder.0.cross": 4, "decoder.1.cross": 4}
    assert all(0 <= value <= 1 for each in choice.agreements.values() for value in each)
    assert choice.agreement == max(value for each in choice.agreements.values() for value in each)


def test_step_and_forward_give_the_weights_of_the_head() -> None:
    torch.manual_seed(0)
    model = Transformer(CONFIG).eval()
    source, lengths = torch.randint(4, 30, (2, 5)), torch.tensor([5, 4])
    inputs = torch.randint(4, 30, (2, 3))
    assert model.weights_from == "mean of the 4 heads of decoder.1.cross"
    for choice in (None, ("decoder.0.cross", 3), ("decoder.1.cross", 0)):
        model.best_head = choice
        whole = model(source, lengths, inputs, need_weights=True).weights
        state = model.init_state(model.encode(source, lengths))
        for place in range(3):
            _, state, weights = model.step(inputs[:, place], state)
            assert weights is not None
            assert torch.allclose(weights, whole[:, place], atol=1e-6)
    assert model.weights_from == "decoder.1.cross, head 0: the best aligned"


def test_all_layers_and_their_labels() -> None:
    model = Transformer(CONFIG).eval()
    pair = ([5, 6, 7], [15, 16])
    over = source_layers(model, pair, ["a", "b"], ["x", "y", "z", "<eos>"])
    assert [each.layer for each in over] == ["decoder.0.cross", "decoder.1.cross"]
    assert over[0].weights.shape == (4, 2, 4)
    assert over[0].axes == ("translation", "source")
    words = self_layers(model, pair, ["x", "y", "z", "<eos>"], "source")
    assert words[0].weights.shape == (4, 4, 4)
    before = self_layers(model, pair, ["a", "b"], "target")
    assert before[1].columns == ("<bos>", "a")
    assert np.allclose(before[1].weights[:, 0, 1], 0)  # the first word has not seen the second place


def test_one_of_them_is_chosen() -> None:
    model = Transformer(CONFIG).eval()
    over = source_layers(model, ([5, 6], [15]), ["a"], ["x", "y", "<eos>"])
    assert chosen_head(over, None, None).layer == "mean of the 4 heads of decoder.1.cross"
    assert np.allclose(chosen_head(over, 0, 3).weights, over[0].weights[3])
    plain = Matrix([[1.0]], ["a"], ["x"], layer="attention")
    assert chosen_head([plain], None, 0) is plain
    with pytest.raises(ConfigError, match="attention has one head: got head 1"):
        chosen_head([plain], 0, 1)
    with pytest.raises(ConfigError, match="there is no layer to choose"):
        chosen_head([], None, None)
