"""The table of costs for a layer (Vaswani et al. 2017, table 1) as a measurement: fitted exponents beside the theory.

    python benchmarks/complexity.py

n is the length, d the width, k the width of a kernel, r the size of a neighbourhood. Each layer runs forward at growing
n, d, k or r while the rest stays; the slope of log(time) against log(size) is the exponent. Layers are bare: no
projections in the attentions, since they cost n·d² in all of them alike. Rows go to results/complexity.csv.

Before anything is timed, each layer is compared with its formula, written out in float64: see gate.py.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from gate import check_results, describe
from timing import append, side_by_side
from torch import Tensor, nn

from regard import attend

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


Call = Callable[[], Tensor]
Formula = Callable[[torch.dtype], Tensor]  # the layer as it is written down, in a precision


def self_attention(n: int, d: int, _: int) -> tuple[Call, Formula]:
    x = torch.randn(1, n, d, device=DEVICE)
    return lambda: attend(x, x, x, need_weights=False).context, lambda dtype: written_out(x.to(dtype))


def restricted(n: int, d: int, r: int) -> tuple[Call, Formula]:
    """Each query sees the keys of its own neighbourhood of r: as many small attentions as there are."""
    x = torch.randn(1, n // r, r, d, device=DEVICE)
    return lambda: attend(x, x, x, need_weights=False).context, lambda dtype: written_out(x.to(dtype))


def written_out(x: Tensor) -> Tensor:
    """Attention as its formula says."""
    return (x @ x.mT / x.shape[-1] ** 0.5).softmax(-1) @ x


def recurrent(n: int, d: int, _: int) -> tuple[Call, Formula]:
    layer, x = nn.RNN(d, d, batch_first=True, device=DEVICE), torch.randn(8, n, d, device=DEVICE)

    def step_by_step(dtype: torch.dtype) -> Tensor:
        names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
        from_input, from_state, *biases = (getattr(layer, name).detach().to(dtype) for name in names)
        states = [torch.zeros(len(x), d, device=DEVICE, dtype=dtype)]
        for word in x.to(dtype).unbind(1):
            states.append((word @ from_input.T + states[-1] @ from_state.T + sum(biases)).tanh())
        return torch.stack(states[1:], 1)

    return lambda: layer(x)[0], step_by_step


def convolution(n: int, d: int, k: int) -> tuple[Call, Formula]:
    layer, x = nn.Conv1d(d, d, k, padding=k // 2, device=DEVICE), torch.randn(1, d, n, device=DEVICE)

    def windows(dtype: torch.dtype) -> Tensor:
        seen = F.pad(x.to(dtype), (k // 2, k // 2)).unfold(-1, k, 1)  # [1 d n k]
        return torch.einsum("bink,oik->bon", seen, layer.weight.to(dtype)) + layer.bias.to(dtype)[:, None]

    return lambda: layer(x), windows


@dataclass(frozen=True)
class Layer:
    """A layer with its formula in float64, its theory, and the sizes at which arithmetic, not overhead, decides."""

    build: Callable[[int, int, int], tuple[Call, Formula]]
    theory: str
    exponents: dict[str, int]
    base: dict[str, int]
    sizes: dict[str, list[int]]


LAYERS = {
    "self-attention": Layer(self_attention, "n²·d", {"n": 2, "d": 1}, {"n": 2048, "d": 256},
                            {"n": [2048, 4096, 8192, 16384], "d": [128, 256, 512, 1024]}),
    "recurrent": Layer(recurrent, "n·d²", {"n": 1, "d": 2}, {"n": 64, "d": 768},
                       {"n": [32, 64, 128, 256], "d": [512, 768, 1024, 1536]}),
    "convolution": Layer(convolution, "k·n·d²", {"n": 1, "d": 2, "k": 1}, {"n": 4096, "d": 256, "k": 5},
                         {"n": [2048, 4096, 8192, 16384], "d": [256, 384, 512, 768], "k": [5, 9, 17, 33]}),
    "restricted attention": Layer(restricted, "r·n·d", {"n": 1, "d": 1, "r": 1}, {"n": 8192, "d": 256, "r": 512},
                                  {"n": [4096, 8192, 16384, 32768], "d": [128, 256, 512, 1024],
                                   "r": [512, 1024, 2048, 4096]}),
}  # fmt: skip


def slope(sizes: list[int], seconds: list[float]) -> float:
    """Least squares through log(time) against log(size)."""
    x, y = torch.tensor(sizes).double().log(), torch.tensor(seconds).double().log()
    return float(((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum())


@torch.no_grad()
def gate() -> None:
    """Every layer at a small size against its formula; eager is the formula in float32, as plain PyTorch has it."""
    plain = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    for name, layer in LAYERS.items():
        torch.manual_seed(0)
        call, formula = layer.build(32, 16, 4 if "r" in layer.sizes else 5)
        eager, exact = ({"output": formula(dtype)} for dtype in (torch.float32, torch.float64))
        print(describe(check_results({name: {"output": call()}}, eager=eager, exact=exact)))
    torch.backends.cudnn.allow_tf32 = plain


@torch.no_grad()
def main() -> None:
    gate()
    print(f"on {DEVICE}, {torch.get_num_threads()} threads\n")
    print(f"{'layer':22}{'theory':10}fitted exponents")
    for name, layer in LAYERS.items():
        found = {}
        for letter, sizes in layer.sizes.items():
            settings = [layer.base | {letter: size} for size in sizes]
            calls = [layer.build(s["n"], s["d"], s.get("k", s.get("r", 0)))[0] for s in settings]
            times = side_by_side({str(number): call for number, call in enumerate(calls)}, rounds=9)
            found[letter] = slope(sizes, [statistics.median(each) for each in times.values()])
        shown = "   ".join(f"{letter}: {value:.2f} ({layer.exponents[letter]})" for letter, value in found.items())
        print(f"{name:22}{layer.theory:10}{shown}")
        row = {"layer": name, "theory": layer.theory, **{letter: found.get(letter, "") for letter in "ndkr"}}
        append("complexity.csv", [row])


if __name__ == "__main__":
    main()
