from collections.abc import Callable

import pytest
import torch

from regard import trace
from regard.base import ConfigError
from regard.models import Transformer, TransformerConfig, transformer_base, transformer_big

SMALL = {"dim": 8, "hidden_dim": 12, "num_heads": 2, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0}


def small(**settings: object) -> Transformer:
    return Transformer(TransformerConfig(11, 11, **(SMALL | settings))).double().eval()


def batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.randint(4, 11, (2, 6)), torch.tensor([6, 4]), torch.randint(4, 11, (2, 5))


@pytest.mark.parametrize(("preset", "count"), [(transformer_base, 63_082_496), (transformer_big, 214_245_376)])
def test_size_of_the_paper(preset: Callable[[int], TransformerConfig], count: int) -> None:
    with torch.device("meta"):
        model = Transformer(preset(37_000))
    assert sum(p.numel() for p in model.parameters()) == count
    assert preset.__doc__ is not None
    assert preset.__doc__.startswith(f"{count / 1e6:.2f} M parameters")  # what is counted, not what the paper says


def test_size_of_the_small_recipe() -> None:
    """transformer_iwslt_de_en of fairseq: 39,469,056 parameters at these vocabularies."""
    with torch.device("meta"):
        config = TransformerConfig(8848, 6632, dim=512, hidden_dim=1024, num_heads=4, tie="output")
        model = Transformer(config)
    assert sum(p.numel() for p in model.parameters()) == 39_469_056


def test_ties() -> None:
    one, two, three = (small(tie=tie) for tie in ("all", "output", "none"))
    assert one.source.weight is one.target.weight is one.to_logits.weight
    assert two.source.weight is not two.target.weight
    assert two.target.weight is two.to_logits.weight
    assert three.target.weight is not three.to_logits.weight


def test_without_positions_the_encoder_does_not_see_the_order() -> None:
    model, (source, lengths, _) = small(), (torch.randint(4, 11, (1, 6)), torch.tensor([6]), None)
    order = torch.randperm(6)
    with_places = model.encode(source[:, order], lengths).values
    assert not torch.allclose(with_places, model.encode(source, lengths).values[:, order])
    model.place = None
    plain = model.encode(source, lengths).values
    torch.testing.assert_close(model.encode(source[:, order], lengths).values, plain[:, order])


def test_a_trace_has_all_layers_and_heads() -> None:
    model, (source, lengths, inputs) = small(), batch()
    with trace(model, layers="decoder.*.cross") as seen:
        model(source, lengths, inputs)
    assert list(seen) == ["decoder.0.cross", "decoder.1.cross"]
    assert seen["decoder.0.cross"].weights.shape == (2, 2, 5, 6)
    state = model.init_state(model.encode(source, lengths))
    last = [model.step(inputs[:, 0], state).weights]
    torch.testing.assert_close(
        torch.as_tensor(seen["decoder.1.cross"].weights)[:, :, 0].mean(1), last[0], check_dtype=False
    )


@pytest.mark.parametrize(("settings", "text"), [
    ({"position": "polar"}, "position: got 'polar'; expected one of sinusoidal"),
    ({"tie": "some"}, "tie: got 'some'; expected one of all, output, none"),
    ({"num_heads": 3}, "num_heads does not divide dim"),
])  # fmt: skip
def test_bad_settings(settings: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        small(**settings)


def test_one_matrix_needs_one_vocabulary() -> None:
    with pytest.raises(ConfigError, match="tie='all' needs one vocabulary: got source 11, target 12"):
        Transformer(TransformerConfig(11, 12, **SMALL))


@pytest.mark.slow
def test_learns_to_copy() -> None:
    torch.manual_seed(0)
    sizes = SMALL | {"dim": 32, "hidden_dim": 64, "num_heads": 4, "encoder_layers": 1, "decoder_layers": 1}
    model = Transformer(TransformerConfig(14, 14, **sizes, pre_norm=True))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(150):
        words = torch.randint(4, 14, (64, 5))
        inputs = torch.cat([torch.ones(64, 1, dtype=torch.long), words[:, :-1]], 1)
        logits = model(words, torch.full((64,), 5), inputs).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), words.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss < 0.1


def test_a_seed_decides_the_weights_wherever_they_lie() -> None:
    """Two tables of words are drawn one after the other; the order of a set would be that of their addresses."""
    sizes = {"dim": 8, "hidden_dim": 8, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    models = []
    for _ in range(24):
        torch.manual_seed(3)
        models.append(Transformer(TransformerConfig(9, 9, **sizes, tie="output")))
    assert all(torch.equal(model.source.weight, models[0].source.weight) for model in models)
