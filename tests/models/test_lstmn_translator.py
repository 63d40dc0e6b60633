"""LSTMN as a translator: its layers by hand, tapes that grow, and its two ways to read the source.

What every translator must do, such as steps that equal the whole pass, is in tests/test_translators.py.
"""

from dataclasses import replace
from typing import Any

import pytest
import torch

from regard.attention import trace
from regard.base import ConfigError
from regard.models import LSTMN, LSTMNTranslator, LSTMNTranslatorConfig

SMALL = LSTMNTranslatorConfig(11, 13, embed_dim=6, hidden_dim=5, align_dim=4, layers=2)
FUSIONS = pytest.mark.parametrize("fusion", ["shallow", "deep"])


def build(**changes: Any) -> LSTMNTranslator:
    torch.manual_seed(0)
    return LSTMNTranslator(replace(SMALL, **changes)).double().eval()


def sentences() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.randint(4, 11, (2, 5)), torch.tensor([5, 3]), torch.randint(4, 13, (2, 4))


@FUSIONS
def test_layers_by_hand(fusion: Any) -> None:
    """One sentence after the other, without padding: each layer reads the words and the layer below."""
    model, (source, lengths, inputs) = build(fusion=fusion), sentences()
    logits = model(source, lengths, inputs).logits
    assert logits.shape == (2, 4, 13)
    for row, length in enumerate(lengths.tolist()):
        words = model.source(source[row : row + 1, :length])
        x, tapes = words, []
        for layer in model.encoder:
            assert isinstance(layer, LSTMN)
            tapes.append(layer(x))
            x = torch.cat([words, tapes[-1].hidden], -1)
        words = model.target(inputs[row : row + 1])
        x = words
        for below, layer in zip(tapes, model.decoder, strict=True):
            assert isinstance(layer, LSTMN)
            prepared = layer.source_tapes(below.hidden, below.memory, torch.tensor([length]))
            hidden = layer.fused(x, prepared).hidden
            x = torch.cat([words, hidden], -1)
        torch.testing.assert_close(logits[row], model.to_logits(hidden)[0], rtol=0, atol=1e-12)


def test_the_tape_grows_with_what_is_written_and_no_further() -> None:
    model, (source, lengths, inputs) = build(tape=3), sentences()
    state = model.init_state(model.encode(source, lengths))
    grown = [state.cells[0].hidden.shape[1]]
    for word in inputs.unbind(1):
        state = model.step(word, state).state
        grown.append(state.cells[1].memory.shape[1])
    assert grown == [0, 1, 2, 3, 3]
    assert state.gazes[0].time.tolist() == [4, 4]


def test_with_shut_gates_nothing_of_the_source_is_told() -> None:
    model, (source, lengths, inputs) = build(), sentences()
    other = 4 + (source - 3) % 7
    assert not torch.allclose(model(source, lengths, inputs).logits, model(other, lengths, inputs).logits)
    with torch.no_grad():
        for layer in model.decoder:
            assert isinstance(layer, LSTMN)
            assert layer.to_read_gate is not None
            layer.to_read_gate.weight.zero_()
            layer.to_read_gate.bias.fill_(-1e4)  # r = 0
    assert torch.equal(model(source, lengths, inputs).logits, model(other, lengths, inputs).logits)


def test_the_weights_are_those_of_the_top_layer() -> None:
    model, (source, lengths, inputs) = build(), sentences()
    with trace(model, layers=model.source_layers) as seen:
        weights = model(source, lengths, inputs, need_weights=True).weights
    assert list(seen) == ["decoder.0.inter_attention", "decoder.1.inter_attention"]
    torch.testing.assert_close(torch.from_numpy(seen["decoder.1.inter_attention"].weights), weights)
    assert weights is not None
    assert (weights[1, :, 3:] == 0).all()


def test_settings_that_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"unknown intra_score"):
        replace(SMALL, intra_score="dott")
    with pytest.raises(ConfigError, match=r"unknown align"):
        replace(SMALL, align="softmaxx")
    with pytest.raises(ConfigError, match=r"model\.tape"):
        replace(SMALL, tape=0)
