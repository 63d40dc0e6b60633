"""The gate in front of every benchmark: results are compared with exact ones before anything is timed.

A candidate passes if none of its results is further from the exact one (float64) than twice the error of plain eager
PyTorch in the same precision. Where there are several tensors of one kind, such as all gradients of a model, eager's
error is that of the same tensor or the root mean square over all of them, whichever is larger: one of them may be right
by luck. Otherwise the program ends with the name of the candidate and of the result.
"""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

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


def check_results(
    candidates: Mapping[str, Results],
    *,
    eager: Results,
    exact: Results,
    factor: float = 2.0,
    rounding: float = 2.0**-23,
) -> dict[str, dict[str, float]]:
    """Refuse every candidate with an error above `factor` times that of `eager`; both are measured against `exact`.

    `rounding` is the distance between neighbouring numbers of the precision in question (2⁻²³ for float32, 2⁻⁷ for
    bfloat16). An error below it always passes, since eager may be right by luck. The largest error of each candidate
    and each name is returned.
    """
    allowed = {}
    for name in exact:
        errors = errors_of(eager, exact, name, "eager")
        typical = math.sqrt(sum(error**2 for error in errors) / len(errors))
        allowed[name] = [max(factor * max(error, typical), rounding) for error in errors]
    largest: dict[str, dict[str, float]] = {}
    for candidate, results in candidates.items():
        largest[candidate] = {}
        for name, limits in allowed.items():
            errors = errors_of(results, exact, name, candidate)
            for number, (error, limit) in enumerate(zip(errors, limits, strict=True)):
                if not error <= limit:  # NaN is refused too
                    which = f"{name}[{number}]" if len(errors) > 1 else name
                    raise WrongResult(
                        f"{candidate} is wrong: {which} is off by {error:.1e}, and {limit:.1e} is allowed "
                        f"({factor:g} × the error of plain eager PyTorch); nothing was timed"
                    )
            largest[candidate][name] = max(errors)
    return largest


def errors_of(results: Results, exact: Results, name: str, candidate: str) -> list[float]:
    """The errors of all tensors under one name; a result that is missing or has another shape is refused."""
    if name not in results:
        raise WrongResult(f"{candidate} is wrong: it gives no {name}; nothing was timed")
    found, wanted = (_tensors(each[name]) for each in (results, exact))
    shapes = [tuple(tensor.shape) for tensor in found], [tuple(tensor.shape) for tensor in wanted]
    if shapes[0] != shapes[1]:
        raise WrongResult(f"{candidate} is wrong: {name} has shapes {shapes[0]}, not {shapes[1]}; nothing was timed")
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
