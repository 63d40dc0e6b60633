"""A trace of models of transformers: the weights of fused attention are those of eager attention; nothing changes."""

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from regard.attention import Trace, trace
from regard.base import ConfigError

pytest.importorskip("transformers")

from tiny_transformers import FAMILIES, WORDS, answer, attentions, build, import_transformers

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture(autouse=True)
def _no_gradient() -> Iterator[None]:
    with torch.no_grad():
        yield


def distance(seen: list[Tensor], expected: list[Tensor]) -> float:
    """The relative error of the weights of all layers together."""
    apart = sum(float((a.double() - b.double()).square().sum()) for a, b in zip(seen, expected, strict=True))
    return float((apart / sum(float(b.double().square().sum()) for b in expected)) ** 0.5)


def traced(model: nn.Module, inputs: dict[str, Tensor], **options: Any) -> tuple[Tensor, Trace, list[Tensor]]:
    with trace(model, **options) as seen:
        output = answer(model(**inputs))
    assert not seen.unseen
    return output, seen, [torch.from_numpy(record.weights) for record in seen.values()]


@pytest.mark.bare
def test_weights_are_those_of_eager_attention_in_every_family() -> None:
    """In float32 to 1e-5, and in bfloat16 no worse than twice eager; outputs are equal bit by bit."""
    assert len(FAMILIES) >= 16
    for name, tiny in FAMILIES.items():
        torch.manual_seed(1)
        inputs, model, eager = tiny.inputs(), build(name), build(name, "eager")
        plain = answer(model(**inputs))
        output, seen, weights = traced(model, inputs)
        assert torch.equal(plain, output), name
        assert torch.equal(plain, answer(model(**inputs))), name
        expected = attentions(name, eager(**inputs, output_attentions=True))
        assert [each.shape for each in weights] == [each.shape for each in expected], name
        largest = max(float((a - b).abs().max()) for a, b in zip(weights, expected, strict=True))
        assert largest <= 1e-5, f"{name}: {largest}"
        assert set(seen) <= {module for module, _ in model.named_modules()}, name

        rows, heads = [-1, 0], [2, 0]
        _, some, chosen = traced(model, inputs, rows=rows, heads=heads)
        for part, complete in zip(chosen, weights, strict=True):
            torch.testing.assert_close(part, complete[:, heads][:, :, rows], rtol=0, atol=1e-6)
        assert all(record.head_numbers == heads for record in some.values())

        exact = attentions(name, build(name, "eager").double()(**widened(inputs), output_attentions=True))
        half = {key: value.bfloat16() if value.is_floating_point() else value for key, value in inputs.items()}
        eager_half = attentions(name, eager.bfloat16()(**half, output_attentions=True))
        _, _, half_weights = traced(model.bfloat16(), half)
        ours, theirs = distance(half_weights, exact), distance(eager_half, exact)
        assert ours <= 2 * theirs, f"{name}: {ours} beside {theirs}"


def widened(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    return {key: value.double() if value.is_floating_point() else value for key, value in inputs.items()}


# ── generation ──────────────────────────────────────────────────────────────────────────────────────────────────────

WAYS: list[dict[str, Any]] = [
    {},
    {"do_sample": True, "top_k": 8},
    {"num_beams": 3},
    {"cache_implementation": "static"},
]


def generated(model: nn.Module, inputs: dict[str, Tensor], **options: Any) -> Any:
    torch.manual_seed(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.generate(
            **inputs, max_new_tokens=5, pad_token_id=0, eos_token_id=None, return_dict_in_generate=True, **options
        )


@pytest.mark.bare
def test_rows_of_generation_are_joined_as_if_the_text_was_fed_at_once() -> None:
    """Greedy, sampled, along beams and with a static cache; one text is padded on the left; sliding windows too."""
    for name in ("llama", "gpt2", "mistral", "gpt_oss", "bloom"):
        model = build(name)
        ids, mask = torch.randint(3, WORDS, (2, 6)), torch.ones(2, 6, dtype=torch.long)
        mask[1, :2] = 0
        inputs = {"input_ids": ids, "attention_mask": mask}
        for way in WAYS if name != "bloom" else WAYS[:1]:
            plain = generated(model, inputs, **way)
            with trace(model) as seen:
                output = generated(model, inputs, **way)
            assert torch.equal(output.sequences, plain.sequences), (name, way)
            fed = output.sequences[:, :-1]  # the last token is never fed
            seen_mask = torch.cat([mask, torch.ones(2, fed.shape[1] - 6, dtype=torch.long)], 1)
            positions = (seen_mask.cumsum(-1) - 1).clamp(min=0)
            with trace(model) as at_once:
                model(
                    input_ids=fed,
                    attention_mask=seen_mask,
                    **({} if name == "bloom" else {"position_ids": positions}),
                )
            for layer, record in seen.items():
                record = record.follow(output.beam_indices) if "num_beams" in way else record
                weights, expected = record.weights, at_once[layer].weights
                assert weights.shape == expected.shape == (2, 4, 10, 10), (name, way)
                for text, first in ((0, 0), (1, 2)):  # rows of padding see whatever they like
                    np.testing.assert_allclose(weights[text, :, first:], expected[text, :, first:], atol=1e-5)


@pytest.mark.bare
def test_one_row_of_each_step_and_the_weights_over_a_source() -> None:
    model = build("llama")
    inputs = {"input_ids": torch.randint(3, WORDS, (1, 6))}
    with trace(model, rows=[-1], heads=[1]) as last, trace(model) as every:
        generated(model, inputs)
    assert last[0].weights.shape == (1, 1, 5, 10)
    np.testing.assert_allclose(last[0].weights, every[0].weights[:, [1], 5:], atol=1e-6)

    model = build("marian")
    source = {"input_ids": torch.randint(3, WORDS, (2, 7))}
    with trace(model, layers="*.encoder_attn") as seen:
        output = generated(model, source, num_beams=2)
    assert list(seen) == ["model.decoder.layers.0.encoder_attn", "model.decoder.layers.1.encoder_attn"]
    followed = seen[1].follow(output.beam_indices)
    with trace(model, layers="*.encoder_attn") as at_once:
        model(**source, decoder_input_ids=output.sequences[:, :-1])
    np.testing.assert_allclose(followed.weights, at_once[1].weights, atol=1e-5)


@pytest.mark.bare
def test_mistakes_name_what_there_is() -> None:
    model, inputs = build("llama"), {"input_ids": torch.randint(3, WORDS, (1, 6))}
    message = r"no layer has this name: got 'decoder\.\*'.*model\.layers\.0\.self_attn"
    with pytest.raises(ConfigError, match=message), trace(model, layers="decoder.*"):
        raise AssertionError("the error comes before the model runs")
    for options, message in (
        ({"layers": "*.mlp"}, r"no layer has this name: got '\*\.mlp'; expected a pattern for model\.layers\.0"),
        ({"heads": [1, 9]}, r"no layer has these heads: got \[9\]; expected numbers from -4 to 3"),
        ({"rows": [-7]}, r"no layer has these rows: got \[-7\]; expected numbers from -6 to 5"),
    ):
        with pytest.raises(ConfigError, match=message), trace(model, **options):
            model(**inputs)
        with trace(model, may_be_empty=True, **options):
            model(**inputs)


@pytest.mark.bare
def test_the_page_is_right() -> None:
    """The blocks of docs/look_into_a_model.md that need transformers, and what stands before them."""
    page = (Path(__file__).parents[1] / "docs" / "look_into_a_model.md").read_text()
    blocks = re.findall(r"^```(python|py)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert sum(kind == "py" for kind, _ in blocks) == 2
    import_transformers()
    names: dict[str, object] = {}
    for number, (kind, code) in enumerate(blocks):
        if number == 0 or kind == "py":
            exec(compile(code, "look_into_a_model.md", "exec"), names)
