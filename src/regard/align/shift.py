"""Addressing by content and place (Graves 2014): weights that stay, move along the keys, and become sharper."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.align.align import Align, Alignment, align_with, base_of, check_boolean, joined, masked_scores, zero_masked
from regard.align.softmax import Softmax
from regard.base import ConfigError, ShapeError


def interpolate(
    content: Float[Tensor, "*#b k"], previous: Float[Tensor, "*#b k"], gate: float | Tensor
) -> Float[Tensor, "*#b k"]:
    """g · content + (1 − g) · previous; g is a number, or a tensor [*b 1].

    >>> interpolate(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]), 0.25)
    tensor([0.2500, 0.7500])
    """
    return previous + gate * (content - previous)


def move_focus(
    weights: Float[Tensor, "*#b k"], shift: Float[Tensor, "*#b s"], allowed: Bool[Tensor, "*#b k"] | None = None
) -> Float[Tensor, "*#b k"]:
    """w̃_i = Σ_o s_o · w_{i−o}: the keys form a circle, and s_o is how much of the weights moves by o keys.

    `shift` has an odd number of entries, for o = −1, 0, 1 or −2 … 2: its last entry moves the focus to the next keys.
    `allowed` are the keys that form the circle; without it all keys do.

    >>> move_focus(torch.tensor([0.0, 0.0, 1.0]), torch.tensor([0.0, 0.2, 0.8]))
    tensor([0.8000, 0.0000, 0.2000])
    >>> move_focus(torch.tensor([0.0, 1.0, 0.0]), torch.tensor([0.0, 0.0, 1.0]), torch.tensor([True, True, False]))
    tensor([1., 0., 0.])
    """
    num_keys, num_shifts = weights.shape[-1], shift.shape[-1]
    reach = num_shifts // 2
    if allowed is None and reach <= num_keys:
        circle = torch.cat([weights[..., num_keys - reach :], weights, weights[..., :reach]], -1)
        return (circle.unfold(-1, num_shifts, 1) * shift.flip(-1).unsqueeze(-2)).sum(-1)  # a window for each key
    if allowed is None:
        allowed = torch.ones_like(weights, dtype=torch.bool)
    if weights.shape != allowed.shape:
        weights = weights + torch.zeros_like(allowed, dtype=weights.dtype)
        allowed = allowed.expand_as(weights)
    order = (~allowed).to(torch.uint8).argsort(dim=-1, stable=True)  # allowed keys first, as they stand
    rank = allowed.cumsum(-1) - 1
    count = allowed.sum(-1, keepdim=True).clamp(min=1)
    moved = torch.zeros_like(weights)
    for place in range(num_shifts):
        source = order.gather(-1, torch.remainder(rank - (place - reach), count))
        moved = moved + shift[..., place : place + 1] * weights.gather(-1, source)
    return moved.masked_fill(~allowed, 0.0)


def sharpen(weights: Float[Tensor, "*#b k"], sharpness: float | Tensor) -> Float[Tensor, "*#b k"]:
    """w_i = w̃_i^γ / Σ_j w̃_j^γ for γ ≥ 1; zeros where all weights are zero.

    The weights are divided by the largest one first, so that a large γ leaves a one and no division by zero.

    >>> sharpen(torch.tensor([0.4, 0.2, 0.0]), 2.0)
    tensor([0.8000, 0.2000, 0.0000])
    """
    peak = weights.detach().amax(-1, keepdim=True)
    power = (weights / peak.masked_fill(peak == 0, 1.0)) ** sharpness
    total = power.sum(-1, keepdim=True)
    return power / total.masked_fill(peak == 0, 1.0)


class Shift(Align):
    """What the content says, mixed with the weights of the query before, moved along the keys, and sharpened.

    content     w_c = base(scores), the softmax unless told
    interpolate w_g = g · w_c + (1 − g) · w_before
    shift       w̃_i = Σ_o s_o · w_g,i−o over the circle of the keys that the mask allows
    sharpen     w_i = w̃_i^γ / Σ_j w̃_j^γ

    `gate` is g from 0 to 1, `shift` are the shares s of an odd number of shifts (backward, stay, forward), `sharpness`
    is γ ≥ 1. Each is a number, or a tensor [*b q 1] or [*b q s] that broadcasts: a controller that emits them at each
    step builds `Shift(gate, shift, sharpness)` on the spot. With `learned=True` the numbers are starts of parameters.

    `previous` is [*b k], the weights of the query before. Without it the first query goes by content alone. A row of
    zero weights follows where g is 0 and nothing went before. `every_key=True` promises that no key is masked, as in a
    memory of fixed size, and saves the search for the circle.

    >>> Shift(gate=0.0, shift=(0.0, 0.0, 1.0))(torch.zeros(1, 3), previous=torch.tensor([0.0, 0.0, 1.0])).weights
    tensor([[1., 0., 0.]])
    """

    needs: tuple[str, ...] = ("previous",)

    def __init__(
        self,
        gate: float | Tensor = 0.5,
        shift: Sequence[float] | Tensor = (0.1, 0.8, 0.1),
        sharpness: float | Tensor = 1.0,
        *,
        learned: bool = False,
        every_key: bool = False,
        base: Align | Callable[..., Any] | None = None,
    ) -> None:
        super().__init__()
        self.base = base_of(Softmax() if base is None else base)
        self.needs = joined(("previous",), self.base)
        self.learned, self.every_key = learned, every_key
        shares = shift if isinstance(shift, Tensor) else torch.tensor([float(share) for share in shift])
        if shares.ndim == 0 or shares.shape[-1] % 2 == 0:
            got, cure = list(shares.shape), "name shares for backward, stay and forward, such as (0.1, 0.8, 0.1)"
            raise ConfigError("the number of shifts", got=got, expected="an odd number of shares", cure=cure)
        if not isinstance(shift, Tensor):
            _check_shares(shift, learned)
        if not isinstance(gate, Tensor) and not (0 < gate < 1 if learned else 0 <= gate <= 1):
            raise ConfigError("Shift gate", got=gate, expected="between 0 and 1", cure="1 is content alone")
        if not isinstance(sharpness, Tensor) and not 1 <= sharpness < float("inf"):
            raise ConfigError("Shift sharpness", got=sharpness, expected="1 or more", cure="1 changes nothing")
        if learned:
            self._learn(gate, shares, sharpness)
        else:
            for name, value in (("_gate", gate), ("_shift", shares), ("_sharpness", sharpness)):
                if isinstance(value, Tensor):
                    self.register_buffer(name, value, persistent=False)
                else:
                    setattr(self, name, value)

    @classmethod
    def for_queries(cls, query_dim: int, *, window: int) -> Align:
        """A gate, shifts and a sharpness that are learnt."""
        return cls(learned=True)

    def _learn(self, gate: float | Tensor, shares: Tensor, sharpness: float | Tensor) -> None:
        """Makes parameters without limits, of which `settings` makes numbers inside them."""
        if isinstance(gate, Tensor) or shares.ndim > 1 or isinstance(sharpness, Tensor):
            raise ConfigError("Shift to learn", got="tensors", expected="plain numbers, from which learning starts")
        self.gate_logit = nn.Parameter(torch.logit(torch.tensor(float(gate))))
        self.shift_logits = nn.Parameter(shares.log())
        above_one = max(float(sharpness) - 1, 1e-2)  # softplus is never 0
        self.sharpness_logit = nn.Parameter(torch.tensor(above_one).expm1().log())

    def settings(self) -> tuple[float | Tensor, Tensor, float | Tensor]:
        """The gate, the shares of the shifts and the sharpness that hold now."""
        if self.learned:
            gate, sharpness = torch.sigmoid(self.gate_logit), 1 + F.softplus(self.sharpness_logit)
            return gate, self.shift_logits.softmax(-1), sharpness
        shift: Tensor = self._shift  # type: ignore[assignment]
        return self._gate, shift, self._sharpness  # type: ignore[return-value]

    def forward(
        self, scores: Tensor, mask: Tensor | None = None, *, previous: Tensor | None = None, **history: Any
    ) -> Alignment:
        """Weights that sum to one in every row that is not empty; each row follows the one before it."""
        num_queries, num_keys = scores.shape[-2:]
        if previous is not None and previous.shape[-1] != num_keys:
            raise ShapeError(
                "previous weights and scores differ in length",
                got=f"{previous.shape[-1]} and {num_keys}",
                cure="pass out.weights[..., -1, :] of the step before",
            )
        if mask is not None:
            check_boolean(mask)
            if self.every_key:
                cure = "leave every_key out"
                raise ConfigError("Shift(every_key=True) takes no mask", got=f"a mask {list(mask.shape)}", cure=cure)
        _, allowed = masked_scores(scores, mask)
        if num_queries == 0:
            return Alignment(scores)
        full = torch.promote_types(scores.dtype, torch.float32)
        settings = [value.to(full) if isinstance(value, Tensor) else value for value in self.settings()]
        content = align_with(self.base, scores.to(full), allowed, {"previous": previous, **history})
        before = torch.zeros_like(content.weights[..., 0, :]) if previous is None else previous.to(full)
        rows = []
        for number in range(num_queries):
            gate, shift, sharpness = (_of_query(value, number, num_queries) for value in settings)
            mixed = interpolate(content.weights[..., number, :], before, gate)
            moved = move_focus(mixed, shift, None if self.every_key else allowed[..., number, :])
            before = sharpen(moved.masked_fill(~allowed[..., number, :], 0.0) if self.every_key else moved, sharpness)
            rows.append(before)
        weights = torch.stack(rows, -2) if num_queries > 1 else before.unsqueeze(-2)
        return content._replace(weights=zero_masked(weights, allowed, scores.dtype))

    def extra_repr(self) -> str:
        """The numbers, where they are plain."""
        if self.learned:
            return "learned=True"
        values = (("gate", self._gate), ("sharpness", self._sharpness))
        return ", ".join(f"{name}={'tensor' if isinstance(value, Tensor) else value}" for name, value in values)


def _of_query(value: Any, number: int, num_queries: int) -> Any:
    """The setting of one query: of a tensor [*b q n] its entry [*b n]; a number or a tensor [n] is of all queries."""
    if not isinstance(value, Tensor) or value.ndim < 2:
        return value
    if value.shape[-2] not in (1, num_queries):
        expected = f"one entry for each of {num_queries} queries, or one for all"
        raise ShapeError("the settings of Shift do not fit the queries", got=list(value.shape), expected=expected)
    return value[..., number if value.shape[-2] > 1 else 0, :]


def _check_shares(shift: Sequence[float], learned: bool) -> None:
    """Shares are not negative and sum to one; learnt ones are above zero too."""
    wrong = any(not share >= 0 or (learned and share == 0) for share in shift) or abs(sum(shift) - 1) > 1e-4
    if wrong:
        expected = f"shares {'above 0' if learned else 'of 0 or more'} that sum to 1"
        raise ConfigError("Shift shift", got=tuple(shift), expected=expected, cure="(0.1, 0.8, 0.1), for example")
