"""Locked dropout inside of kernels: at all places of a text the same numbers are zero, and each text has its own draw.

The noise of a call is read by a call with the same seed over ones. On a GPU, or with TRITON_INTERPRET=1.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from cases import DEVICE
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from regard.kernels import limits, serving
from regard.kernels.embedding import fused_embedding
from regard.kernels.hidden import fused_hidden, plain_hidden
from regard.kernels.residual import fused_residual, plain_residual
from regard.models import TransformerXL, TransformerXLConfig
from regard.nn import FeedForward, Residual

pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in :RuntimeWarning")  # numpy, of what is masked after
SHAPES = [(1, 1, 1), (4, 1, 9), (1, 33, 20), (17, 11), (2, 3, 5, 6), (3, 150, 4), (2, 2, 300)]


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, device=DEVICE)


def shape_of(seed: int) -> tuple[int, ...]:
    """One of the shapes above, and then shapes by chance: some texts, rows that are no multiple of a block."""
    if seed < len(SHAPES):
        return SHAPES[seed]
    return tuple(int(torch.randint(1, most, ())) for most in (6, 70, 45))


def residual_noise(shape: tuple[int, ...], seed: int, dropout: float) -> Tensor:
    torch.manual_seed(seed)
    ones = torch.ones(shape, device=DEVICE)
    return fused_residual(ones * 0, ones, dropout=dropout, locked=True)[0]


def hidden_noise(shape: tuple[int, ...], seed: int, dropout: float) -> Tensor:
    torch.manual_seed(seed)
    return fused_hidden(torch.ones(shape, device=DEVICE), dropout=dropout, locked=True)


def agree(found: Sequence[Tensor], wanted: Sequence[Tensor]) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert one.shape == other.shape
        assert (one - other).norm() <= 1e-4 * other.norm() + 1e-5


# ── the noise ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("noise_of", [residual_noise, hidden_noise])
@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[pytest.mark.slow] * (seed > 2)) for seed in range(10)])
def test_a_text_loses_the_same_numbers_at_all_places(noise_of: Callable[..., Tensor], seed: int) -> None:
    torch.manual_seed(seed)
    noise = noise_of(shape_of(seed), seed, 0.25)
    assert torch.equal(noise, noise[..., :1, :].expand_as(noise))
    assert set(noise.unique().tolist()) <= {0.0, torch.tensor(4 / 3).item()}


@pytest.mark.parametrize("noise_of", [residual_noise, hidden_noise])
def test_texts_and_calls_have_draws_of_their_own_and_the_mean_stays(noise_of: Callable[..., Tensor]) -> None:
    noise = noise_of((500, 3, 40), 0, 0.3)
    first = noise[:, 0]
    assert noise.mean().item() == pytest.approx(1.0, abs=0.025)  # five standard deviations
    assert (first.mean(0) - 1).abs().max().item() < 0.15
    kept = (first > 0).float() - 0.7
    assert (kept[1:] * kept[:-1]).mean().abs().item() < 0.01  # neighbouring texts
    assert (kept[:, 1:] * kept[:, :-1]).mean().abs().item() < 0.01  # neighbouring numbers
    assert 0.4 < (noise_of((500, 3, 40), 1, 0.3) == noise).float().mean().item() < 0.7


def test_texts_of_one_place_lose_what_free_dropout_takes() -> None:
    x = draw(5, 1, 12)
    for way in (lambda locked: fused_residual(x, x + 1, dropout=0.4, locked=locked)[0],
                lambda locked: fused_hidden(x, dropout=0.4, locked=locked)):  # fmt: skip
        outputs = []
        for locked in (True, False):
            torch.manual_seed(2)
            outputs.append(way(locked))
        assert torch.equal(*outputs)


def test_rows_of_a_view_belong_to_their_texts() -> None:
    turned = torch.ones(7, 4, 30, device=DEVICE).transpose(0, 1)  # four texts of seven places
    for out in (
        fused_residual(turned * 0, turned, dropout=0.5, locked=True)[0],
        fused_hidden(turned, dropout=0.5, locked=True),
    ):
        assert torch.equal(out, out[:, :1].expand_as(out))
        assert not torch.equal(out[0], out[1])


@pytest.mark.parametrize("shape", [(0, 5, 8), (3, 0, 8), (0, 8)])
def test_nothing_is_dropped_of_nothing(shape: tuple[int, ...]) -> None:
    x, weight = draw(*shape).requires_grad_(), draw(8).requires_grad_()
    total, normed = fused_residual(x, x * 2, weight=weight, shift=weight, dropout=0.5, locked=True)
    assert normed is not None
    hidden = fused_hidden(x, weight, dropout=0.5, locked=True)
    (total.sum() + normed.sum() + hidden.sum()).backward()
    assert total.shape == normed.shape == hidden.shape == shape
    assert weight.grad is not None
    assert (weight.grad == 0).all()


# ── results and gradients ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[pytest.mark.slow] * (seed > 2)) for seed in range(12)])
def test_residual_is_that_of_plain_operations(seed: int) -> None:
    torch.manual_seed(seed)
    shape = shape_of(seed)
    vectors = ["bias"] * (seed % 2) + ["weight", "shift"] * (seed % 3 > 0)
    inputs = {"x": draw(*shape), "y": draw(*shape)} | {name: draw(shape[-1]) for name in vectors}
    for tensor in inputs.values():
        tensor.requires_grad_()
    noise = residual_noise(shape, seed, 0.4)
    torch.manual_seed(seed)
    found = fused_residual(**inputs, dropout=0.4, locked=True)
    wanted = plain_residual(**inputs, noise=noise)
    assert (found[1] is None) == (wanted[1] is None)
    pairs = [(one, other) for one, other in zip(found, wanted, strict=True) if one is not None and other is not None]
    agree(*zip(*pairs, strict=True))
    outer = [draw(*shape) for _ in pairs]
    leaves = list(inputs.values())
    agree(*(torch.autograd.grad(outputs, leaves, outer) for outputs in zip(*pairs, strict=True)))


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[pytest.mark.slow] * (seed > 2)) for seed in range(10)])
def test_hidden_is_that_of_plain_operations(seed: int) -> None:
    torch.manual_seed(seed)
    shape = shape_of(seed)
    inputs = [draw(*shape).requires_grad_(), *[draw(shape[-1]).requires_grad_()] * (seed % 2)]
    noise = hidden_noise(shape, seed, 0.4)
    torch.manual_seed(seed)
    found, wanted = fused_hidden(*inputs, dropout=0.4, locked=True), plain_hidden(*inputs, noise=noise)
    agree([found], [wanted])
    outer = draw(*shape)
    agree(torch.autograd.grad(found, inputs, outer), torch.autograd.grad(wanted, inputs, outer))


def embedding_noise(tokens: Tensor, width: int) -> Tensor:
    torch.manual_seed(4)
    return fused_embedding(torch.ones(9, width, device=DEVICE), tokens, dropout=0.4, locked=True)


def test_embedding_is_that_of_plain_operations() -> None:
    tokens, places = torch.randint(0, 9, (5, 13), device=DEVICE), draw(13, 11)
    weight, noise = draw(9, 11).requires_grad_(), embedding_noise(tokens, 11)
    assert torch.equal(noise, noise[:, :1].expand_as(noise))
    assert not torch.equal(noise[0], noise[1])
    torch.manual_seed(4)
    found = fused_embedding(weight, tokens, scale=3.0, places=places, dropout=0.4, locked=True)
    wanted = (F.embedding(tokens, weight) * 3 + places) * noise
    agree([found], [wanted])
    outer = torch.randn_like(found)
    for graph in (False, True):
        ways = (torch.autograd.grad(x, weight, outer, retain_graph=True, create_graph=graph) for x in (found, wanted))
        agree(*ways)


def second(output: Tensor, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    [first] = torch.autograd.grad(output.pow(3).sum(), inputs[0], create_graph=True)
    return torch.autograd.grad(first.square().sum(), inputs)


@pytest.mark.parametrize("shape", [(3, 4, 9), (6, 5)])
def test_second_derivatives_have_the_noise_of_the_first(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x, y, weight = (draw(*size).requires_grad_() for size in (shape, shape, shape[-1:]))
    shift, noise = draw(shape[-1]), residual_noise(shape, 7, 0.4)
    torch.manual_seed(7)
    outputs = fused_residual(x, y, weight=weight, shift=shift, dropout=0.4, locked=True)
    expected = plain_residual(x, y, None, weight, shift, noise=noise)
    both = [torch.cat([each for each in pair if each is not None]) for pair in (outputs, expected)]
    assert len(both[0]) == 2 * shape[0]
    agree(second(both[0], (y, x, weight)), second(both[1], (y, x, weight)))
    noise = hidden_noise(shape, 7, 0.4)
    torch.manual_seed(7)
    agree(
        second(fused_hidden(x, weight, dropout=0.4, locked=True), (x, weight)),
        second(plain_hidden(x, weight, noise=noise), (x, weight)),
    )


# ── layers and a model ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(autouse=True)
def chosen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Switches kernels on; without a call all ways are plain."""
    monkeypatch.setattr(limits, "CHOSEN_ON_A_GPU", frozenset())
    with serving.recording():
        yield lambda *names: monkeypatch.setattr(limits, "CHOSEN_ON_A_GPU", frozenset(names))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether dropout was locked in each call of the two kernels."""
    from regard.kernels import hidden, residual

    seen: list[bool] = []

    def watched(kernel: Callable[..., Any]) -> Callable[..., Any]:
        def call(*inputs: Any, **settings: Any) -> Any:
            seen.append(settings["locked"])
            return kernel(*inputs, **settings)

        return call

    monkeypatch.setattr(hidden, "fused_hidden", watched(fused_hidden))
    monkeypatch.setattr(residual, "fused_residual", watched(fused_residual))
    return seen


@pytest.mark.parametrize("locked", [True, False])
def test_layers_take_the_kernels_unless_somebody_watches(
    chosen: Callable[..., None], calls: list[bool], locked: bool
) -> None:
    chosen("hidden", "residual", "linear")
    feed = FeedForward(8, 12, dropout=0.5, locked=locked).to(DEVICE)
    around = Residual(8, dropout=0.5, pre_norm=False, locked=locked).to(DEVICE)
    x = draw(2, 5, 8)
    around.leave(x, feed(x))
    assert calls == [locked, locked]
    seen: list[Tensor] = []
    for layer in (feed, around):
        layer.dropout.register_forward_hook(lambda _m, _i, out: seen.append(out))
    around.leave(x, feed(x))
    assert len(calls) == len(seen) == 2


@pytest.mark.parametrize("reentrant", [pytest.param(True, marks=pytest.mark.slow), False])
def test_a_checkpoint_draws_the_same_noise(chosen: Callable[..., None], reentrant: bool) -> None:
    chosen("hidden", "residual", "linear")
    torch.manual_seed(0)
    feed = FeedForward(8, 12, dropout=0.5, locked=True).to(DEVICE)
    around = Residual(8, dropout=0.5, pre_norm=False, locked=True).to(DEVICE)
    x = draw(2, 5, 8).requires_grad_()

    def pass_on(x: Tensor) -> Tensor:
        return around.leave(x, feed(x))

    outer, leaves, gradients = draw(2, 5, 8), [x, *feed.parameters(), *around.parameters()], []
    for way in (pass_on, lambda x: checkpoint(pass_on, x, use_reentrant=reentrant)):
        for leaf in leaves:
            leaf.grad = None
        torch.manual_seed(3)
        way(x).backward(outer)
        gradients.append([leaf.grad for leaf in leaves])
    for one, other in zip(*gradients, strict=True):
        assert torch.equal(one, other)


def model_of(**settings: Any) -> TransformerXL:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"dim": 8, "hidden_dim": 12, "num_heads": 2, "layers": 2, "memory": 3, "init_std": 0.4}
    return TransformerXL(TransformerXLConfig(11, **sizes, **settings)).to(DEVICE).train()


@pytest.mark.parametrize("pre_norm", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_without_dropout_a_transformer_xl_is_the_same(
    chosen: Callable[..., None], calls: list[bool], pre_norm: bool
) -> None:
    model, tokens = model_of(dropout=0.0, locked=True, pre_norm=pre_norm), torch.randint(4, 11, (3, 9), device=DEVICE)
    results = []
    for kernels in ((), limits.SMALL):
        chosen(*kernels)
        model.zero_grad()
        first, state = model(tokens[:, :4])
        logits = torch.cat([first, model(tokens[:, 4:], state).logits], 1)
        logits.log_softmax(-1)[..., 5].sum().backward()
        results.append([logits, *(parameter.grad.clone() for parameter in model.parameters())])
        assert bool(calls) == bool(kernels)
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_with_dropout_a_transformer_xl_has_the_same_statistics(chosen: Callable[..., None], calls: list[bool]) -> None:
    model, texts = model_of(dropout=0.2, locked=True), 1500
    tokens = torch.tensor([[4, 7, 5, 9]], device=DEVICE).expand(texts, 4)  # one text, as many times
    logits = []
    for kernels in ((), ("residual", "hidden", "linear")):
        chosen(*kernels)
        torch.manual_seed(1)
        with torch.no_grad():
            logits.append(model(tokens).logits.double())
    assert calls == [True] * 6
    (plain, fused), places = logits, [x.mean(1) for x in logits]  # a mean over places tells locked from free dropout
    for one, other in ((plain, fused), (places[0], places[1])):
        spread = ((one.var(0) + other.var(0)) / texts).sqrt()
        assert ((one.mean(0) - other.mean(0)).abs() <= 5 * spread).all()
        assert (one.std(0) / other.std(0) - 1)[..., 1:].abs().max().item() < 0.15
