"""The gate in front of every benchmark: results are compared with exact ones before anything is timed.

A candidate passes if none of its results is further from the exact one (float64) than twice the error of plain eager
PyTorch in the same precision. Where there are several tensors of one kind, such as all gradients of a model, eager's
error is the largest over all of them: which one has it is a matter of luck.

Gradients of ReLU, maxout and the like jump where an input crosses zero. An input that is nearer to zero than rounding
has one sign in one right float32 kernel and the other sign in another, and a single such jump is a hundred times as
large as rounding elsewhere. Eager may have no jump where a candidate has one. Models with such kinks therefore give
`nudged` results too, NUDGES of them: float64 at weights that are moved by some units of rounding, so that inputs near
zero change their sign. Twice the largest error of these is allowed as well. Such a limit can reach 10⁻³ and more: it
tells a wrong kernel from a right one, but not TF32 from float32.

`check_results` ends the program for a candidate that is refused. `judge_results` gives the refusals back, so that
a long program can leave out a row, time the others, and end with status 1 (`Refusals`).
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from timing import append, flags_and_device
from torch import Tensor, nn

NUDGES = 8  # draws of weights that are moved by rounding
Results = Mapping[str, Tensor | Sequence[Tensor]]  # by name: one tensor, or several of one kind, such as all gradients


class WrongResult(SystemExit):
    """A candidate computes something else; there is nothing to time."""


def relative_error(result: Tensor, exact: Tensor) -> float:
    """‖result − exact‖ / ‖exact‖ in float64; NaN or infinity where the result has one."""
    return tensor_errors([result], [exact])[0]


def tensor_errors(results: Sequence[Tensor], exact: Sequence[Tensor]) -> list[float]:
    """The relative error of each tensor of one kind.

    A tensor is measured by its own norm, or by that of a typical tensor of its kind and size if that is larger. Some
    gradients are zero by theory (that of a bias of the keys, for example), and what is computed of them is rounding.
    """
    exact = [tensor.detach().double() for tensor in exact]
    entries = sum(tensor.numel() for tensor in exact)
    typical = math.sqrt(sum(tensor.square().sum().item() for tensor in exact) / max(entries, 1))
    errors = []
    for result, wanted in zip(results, exact, strict=True):
        scale = max(wanted.norm().item(), typical * math.sqrt(wanted.numel()))
        apart = (result.detach().to(wanted.device, torch.float64) - wanted).norm().item()
        errors.append(apart / scale if scale > 0 else (0.0 if apart == 0 else math.inf))
    return errors


def judge_results(
    candidates: Mapping[str, Results],
    *,
    eager: Results,
    exact: Results,
    nudged: Sequence[Results] = (),
    factor: float = 2.0,
    rounding: float = 2.0**-23,
) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    """The largest error of each candidate under each name, and why candidates are refused, by candidate.

    Refused is an error above `factor` times the largest of `eager` and `nudged`, all measured against `exact`.
    `rounding` is the distance between neighbouring numbers of the precision in question (2⁻²³ for float32, 2⁻⁷ for
    bfloat16). An error below it always passes, since eager may be right by luck.
    """
    allowed = {}
    for name in exact:
        known = [*errors_of(eager, exact, name, "eager")]
        known += [error for results in nudged for error in errors_of(results, exact, name, "nudged")]
        if not all(map(math.isfinite, known)):
            raise WrongResult(f"eager is wrong: {name} is not finite; nothing was timed")
        allowed[name] = max(factor * max(known), rounding)
    largest: dict[str, dict[str, float]] = {}
    refusals: dict[str, str] = {}
    for candidate, results in candidates.items():
        largest[candidate] = {}
        for name, limit in allowed.items():
            try:
                errors = errors_of(results, exact, name, candidate)
            except WrongResult as error:
                refusals.setdefault(candidate, str(error))
                continue
            wrong = [number for number, error in enumerate(errors) if not error <= limit]  # NaN is refused too
            if wrong:
                which = f"{name}[{wrong[0]}]" if len(errors) > 1 else name
                message = (
                    f"{candidate} is wrong: {which} is off by {errors[wrong[0]]:.1e}, and {limit:.1e} is allowed "
                    f"({factor:g} × the error of plain eager PyTorch)"
                )
                refusals.setdefault(candidate, message)
            largest[candidate][name] = max(errors, key=lambda error: math.inf if math.isnan(error) else error)
    return largest, refusals


def check_results(
    candidates: Mapping[str, Results],
    *,
    eager: Results,
    exact: Results,
    nudged: Sequence[Results] = (),
    factor: float = 2.0,
    rounding: float = 2.0**-23,
) -> dict[str, dict[str, float]]:
    """End the program if a candidate is refused; see `judge_results`. The largest errors are returned."""
    largest, refusals = judge_results(
        candidates, eager=eager, exact=exact, nudged=nudged, factor=factor, rounding=rounding
    )
    if refusals:
        raise WrongResult("; ".join([*refusals.values(), "nothing was timed"]))
    return largest


class Refusals:
    """What was refused in a program that goes on without it: said at once and loudly, and again at the end."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def add(self, messages: Iterable[str]) -> None:
        """Say it and remember it."""
        for message in messages:
            self.messages.append(message)
            print(f"!!! REFUSED, not timed: {message}", flush=True)

    def end(self) -> None:
        """End the program with status 1 if anything was refused."""
        if self.messages:
            print(f"\n!!! {len(self.messages)} refused:", *self.messages, sep="\n!!!   ", flush=True)
            raise SystemExit(1)


def gate_then_time(
    text: str | None,
    file: str,
    gate: Callable[..., dict[str, str]],
    measured: Callable[..., list[dict[str, object]]],
    line: Callable[[dict[str, object]], str],
    *,
    rounds: int,
) -> None:
    """The command line of a benchmark: its gate, then a printed line and a row in its file for each way that passed."""
    asked, device = flags_and_device(text, rounds=rounds)
    torch.backends.cuda.matmul.allow_tf32 = False
    refused, refusals = gate(device, small=asked.check), Refusals()
    refusals.add(refused.values())
    if not asked.check:
        rows = measured(device, refused, rounds=asked.rounds)
        for row in rows:
            gain = f"{row['times_faster']} × as fast, {row['times_smaller']} × less memory than {rows[0]['way']}"
            print(f"  {line(row)}, {gain}", flush=True)
        if asked.save:
            append(file, rows)
    refusals.end()


@torch.no_grad()
def nudge(model: nn.Module, seed: int, rounding: float = 2.0**-23) -> None:
    """Move every weight by up to sixteen units of rounding, up or down at random.

    This is several times what the rounding of float32 arithmetic adds up to on the way through a model: an input whose
    sign depends on rounding then changes its sign in almost every second draw.
    """
    chance = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        drawn = torch.rand(parameter.shape, generator=chance, dtype=torch.float64) * 2 - 1
        parameter.mul_(1 + 16 * rounding * drawn.to(parameter.device))


def errors_of(results: Results, exact: Results, name: str, candidate: str) -> list[float]:
    """The errors of all tensors under one name; a result that is missing or has another shape is refused."""
    if name not in results:
        raise WrongResult(f"{candidate} is wrong: it gives no {name}")
    found, wanted = (_tensors(each[name]) for each in (results, exact))
    shapes = [tuple(tensor.shape) for tensor in found], [tuple(tensor.shape) for tensor in wanted]
    if shapes[0] != shapes[1]:
        raise WrongResult(f"{candidate} is wrong: {name} has shapes {shapes[0]}, not {shapes[1]}")
    return tensor_errors(found, wanted)


def describe(errors: Mapping[str, Mapping[str, float]]) -> str:
    """The largest errors in a few lines, as a benchmark prints them above its table."""
    lines = (
        f"  {candidate}: " + ", ".join(f"{name} {error:.1e}" for name, error in named.items())
        for candidate, named in errors.items()
    )
    return "\n".join(["compared with float64, largest relative errors:", *lines])


def _tensors(result: Tensor | Sequence[Tensor]) -> list[Tensor]:
    return [result] if isinstance(result, Tensor) else list(result)
