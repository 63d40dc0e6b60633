"""Weights in float32 and what computes in bfloat16."""

from contextlib import suppress

import pytest
import torch
import toy

from regard.attention import MultiHead
from regard.kernels.joined import are_side_by_side
from regard.models import MODELS, Translator
from regard.train.mixed_precision import Masters


def test_without_half_there_is_one_set_of_weights() -> None:
    model = toy.network()
    masters = Masters(model, half=False)
    masters.start()
    assert all(one is other for one, other in zip(masters.full, model.parameters(), strict=True))
    model(torch.ones(1, 2)).sum().backward()
    before = model[0].weight.grad
    masters.collect()
    masters.publish()
    with masters.in_full():
        assert model[0].weight.grad is before
    masters.stop()
    assert model[0].weight.dtype == torch.float32


def test_copies_and_originals() -> None:
    model = toy.network()
    masters = Masters(model, half=True)
    masters.start()
    original = masters.named()["0.weight"]
    assert (model[0].weight.dtype, original.dtype, model.shift.dtype) == (torch.bfloat16, torch.float32, torch.float32)
    assert model[3].bias is model[0].bias  # still tied
    assert torch.equal(model[0].weight, toy.network()[0].weight.bfloat16())

    model(torch.ones(1, 2)).sum().backward()
    half = model[0].weight.grad
    masters.collect()
    assert half is not None
    assert original.grad is not None
    assert original.grad.dtype == torch.float32
    assert torch.equal(original.grad, half.float())
    assert model[0].weight.grad is None

    with torch.no_grad():
        original.add_(1e-4)  # too little for most numbers in bfloat16
    masters.publish()
    assert torch.equal(model[0].weight, original.bfloat16())
    with suppress(toy.Stop), masters.in_full():
        assert model[0].weight.data_ptr() == original.data_ptr()
        with torch.no_grad():
            model[0].weight.fill_(2.0)  # to load, for example
        raise toy.Stop
    assert model[0].weight.dtype == torch.bfloat16
    assert (model[0].weight == 2).all()
    masters.stop()
    assert model[0].weight.data_ptr() == original.data_ptr()
    assert not masters.copies


def test_copies_lie_side_by_side_and_are_apart() -> None:
    """Queries, keys and values of a layer: one matrix, one vector of biases; each tensor begins at 16 bytes."""
    layers = torch.nn.ModuleList([MultiHead(16, num_heads=2), torch.nn.Linear(3, 5), MultiHead(8, num_heads=1)])
    before = [parameter.detach().clone() for parameter in layers.parameters()]
    masters = Masters(layers, half=True)
    masters.start()
    for layer in (layers[0], layers[2]):
        three = (layer.to_query, layer.to_keys, layer.to_values)
        assert are_side_by_side([each.weight for each in three], 0)
        assert are_side_by_side([each.bias for each in three], 0)
    assert all(parameter.data_ptr() % 16 == 0 for parameter in layers.parameters())
    assert all(torch.equal(x, y.bfloat16()) for x, y in zip(layers.parameters(), before, strict=True))
    for number, parameter in enumerate(layers.parameters()):
        parameter.data.fill_(number)
    assert all((parameter == number).all() for number, parameter in enumerate(layers.parameters()))
    masters.stop()
    assert all(torch.equal(x, y) for x, y in zip(layers.parameters(), before, strict=True))


def test_a_parameter_without_gradient_gets_zeros() -> None:
    model = toy.network()
    masters = Masters(model, half=True)
    masters.start()
    masters.collect()
    assert all(full.grad is not None and (full.grad == 0).all() for full in masters.full)


def test_what_does_not_learn_stays() -> None:
    model = toy.network()
    model[4].requires_grad_(False)
    masters = Masters(model, half=True)
    assert masters.names == ["0.weight", "0.bias", "3.weight"]


SMALL = {"embed_dim": 8, "hidden_dim": 8, "align_dim": 8, "maxout_dim": 8, "layers": 1, "dim": 8, "num_heads": 2,
         "encoder_layers": 2, "decoder_layers": 2}  # fmt: skip


@pytest.mark.parametrize("name", [name for name, paper in MODELS.items() if issubclass(paper.model, Translator)])
def test_every_model_computes_with_copies(name: str) -> None:
    paper = MODELS[name]
    sizes = {key: value for key, value in SMALL.items() if key in paper.config.__dataclass_fields__}
    model = paper.model(paper.config(9, 9, **sizes))
    masters = Masters(model, half=True)
    masters.start()
    source, lengths, inputs = torch.tensor([[4, 5, 2], [6, 2, 0]]), torch.tensor([3, 2]), torch.tensor([[1, 4], [1, 5]])
    model(source, lengths, inputs).logits.float().sum().backward()
    masters.collect()
    assert all(full.grad is not None and full.grad.isfinite().all() for full in masters.full)


@pytest.mark.parametrize("half", [False, True])
def test_what_does_not_learn_is_left_alone(half: bool) -> None:
    model = toy.network(dropout=0.0)
    model[4].requires_grad_(False)
    before = model[4].weight
    masters = Masters(model, half=half)
    masters.start()
    assert not any(name.startswith("4.") for name in masters.named())
    assert model[4].weight is before
    assert model[4].weight.dtype == torch.float32
    masters.publish()
    with masters.in_full():
        assert torch.equal(model.state_dict()["4.weight"], toy.network()[4].weight)
