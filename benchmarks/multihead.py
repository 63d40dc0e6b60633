"""What does MultiHead cost beside hand-written projections and SDPA? And what does a trace cost that is off?

    make bench
    python benchmarks/multihead.py --batch 8 --length 512 --dim 512 --heads 8

Outputs and gradients are compared with float64 before anything is timed: see gate.py.
"""

import argparse
import copy
import statistics
import timeit
from collections.abc import Callable

import torch
import torch.nn.functional as F
from gate import Results, check_results, describe
from timing import append, ratio, side_by_side
from torch import Tensor, nn

from regard import MultiHead
from regard.attention import attention, tracing


class ByHand(nn.Module):
    """Four projections and torch's fused kernel: what one would write without a library."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.keys, self.values, self.output = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        b, t, d = x.shape
        query, keys, values = (
            layer(x).view(b, t, self.heads, d // self.heads).transpose(1, 2)
            for layer in (self.query, self.keys, self.values)
        )
        context = F.scaled_dot_product_attention(query, keys, values)
        return self.output(context.transpose(1, 2).reshape(b, t, d))


class Packed(nn.Module):
    """The same with one projection for query, keys and values."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.inputs, self.output = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        b, t, d = x.shape
        query, keys, values = self.inputs(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        context = F.scaled_dot_product_attention(query, keys, values)
        return self.output(context.transpose(1, 2).reshape(b, t, d))


def same_weights(ours: MultiHead, hand: ByHand, packed: Packed, theirs: nn.MultiheadAttention) -> None:
    projections = [ours.to_query, ours.to_keys, ours.to_values]
    with torch.no_grad():
        for source, target in zip([*projections, ours.to_output], hand.children(), strict=True):
            target.load_state_dict(source.state_dict())
        packed.inputs.weight.copy_(torch.cat([layer.weight for layer in projections]))
        packed.inputs.bias.copy_(torch.cat([layer.bias for layer in projections]))
        packed.output.load_state_dict(ours.to_output.state_dict())
        theirs.in_proj_weight.copy_(packed.inputs.weight)
        theirs.in_proj_bias.copy_(packed.inputs.bias)
        theirs.out_proj.load_state_dict(ours.to_output.state_dict())


def projections_of(module: nn.Module) -> list[list[Tensor]]:
    """Weights and biases in one layout: of query, keys and values, one below the other, and of the output."""
    if isinstance(module, nn.MultiheadAttention):
        inputs, output = [(module.in_proj_weight, module.in_proj_bias)], module.out_proj
    elif isinstance(module, Packed):
        inputs, output = [(module.inputs.weight, module.inputs.bias)], module.output
    elif isinstance(module, MultiHead):
        three = (module.to_query, module.to_keys, module.to_values)
        inputs, output = [(layer.weight, layer.bias) for layer in three], module.to_output
    else:
        assert isinstance(module, ByHand)
        three = (module.query, module.keys, module.values)
        inputs, output = [(layer.weight, layer.bias) for layer in three], module.output
    weights, biases = zip(*inputs, strict=True)
    return [[*weights], [*biases], [output.weight], [output.bias]]


def results_of(call: Callable[[], Tensor], x: Tensor, module: nn.Module, outer: Tensor) -> Results:
    """The output, and the gradients of the input and of every weight."""
    groups = projections_of(module)
    out = call()
    gradients = iter(torch.autograd.grad(out, [x, *(each for group in groups for each in group)], outer.to(out.dtype)))
    of_input = next(gradients)
    return {"output": out, "gradients": [of_input, *(torch.cat([next(gradients) for _ in group]) for group in groups)]}


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    for name, default in (("batch", 8), ("length", 512), ("dim", 512), ("heads", 8), ("rounds", 40)):
        asked.add_argument(f"--{name}", type=int, default=default)
    asked.add_argument("--no-save", action="store_true", help="do not add to results/multihead.csv")
    sizes = asked.parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    ours = MultiHead(sizes.dim, num_heads=sizes.heads).to(device)
    hand, packed = ByHand(sizes.dim, sizes.heads).to(device), Packed(sizes.dim, sizes.heads).to(device)
    theirs = nn.MultiheadAttention(sizes.dim, sizes.heads, batch_first=True).to(device)
    same_weights(ours, hand, packed, theirs)
    x = torch.randn(sizes.batch, sizes.length, sizes.dim, device=device, requires_grad=True)

    calls: dict[str, Callable[[], Tensor]] = {
        "regard.MultiHead": lambda: ours(x).context,
        "by hand": lambda: hand(x),
        "by hand, packed": lambda: packed(x),
        "torch.nn.MultiheadAttention": lambda: theirs(x, x, x, need_weights=False)[0],
        "regard.MultiHead, no trace in the code": lambda: without_trace(lambda: ours(x).context),
    }
    outer = torch.randn_like(x)
    modules = dict(zip(calls, (ours, hand, packed, theirs, ours), strict=True))
    found = {name: results_of(call, x, modules[name], outer) for name, call in calls.items()}
    in_double, x_double = copy.deepcopy(hand).double(), x.detach().double().requires_grad_()
    exact = results_of(lambda: in_double(x_double), x_double, in_double, outer)
    print(describe(check_results(found, eager=found["by hand"], exact=exact)))

    def forward(call: Callable[[], Tensor]) -> Callable[[], object]:
        def run() -> object:
            with torch.no_grad():
                return call()

        return run

    def both(call: Callable[[], Tensor]) -> Callable[[], object]:
        return lambda: call().sum().backward()

    rows: list[dict[str, object]] = []
    shape = f"b={sizes.batch} t={sizes.length} d={sizes.dim} h={sizes.heads}"
    print(f"{shape}, float32, {device}, {torch.get_num_threads()} threads, {sizes.rounds} rounds\n")
    print(f"{'':40} {'forward':>10} {'ratio':>7}   {'+ backward':>10} {'ratio':>7}")
    modes = {"forward": forward, "forward+backward": both}
    timed = {
        mode: side_by_side({name: wrap(call) for name, call in calls.items()}, rounds=sizes.rounds)
        for mode, wrap in modes.items()
    }
    for name in calls:
        cells = []
        for mode, seconds in timed.items():
            share, median = ratio(seconds[name], seconds["by hand"]), statistics.median(seconds[name]) * 1e3
            cells.append(f"{median:7.2f} ms {share:7.3f}")
            rows.append(
                {"case": shape, "candidate": name, "mode": mode, "ms": round(median, 3), "ratio": round(share, 4)}
            )
        print(f"{name:40} " + "   ".join(cells))
    off = min(timeit.repeat(lambda: tracing.watched(ours), number=10_000, repeat=5)) / 10_000
    print(f"\nasking whether a trace is on: {off * 1e9:.0f} ns a layer")
    if not sizes.no_save:
        print(f"added to {append('multihead.csv', rows)}")


def without_trace(call: Callable[[], Tensor]) -> Tensor:
    kept, attention.watched = attention.watched, lambda module: False
    try:
        return call()
    finally:
        attention.watched = kept


if __name__ == "__main__":
    main()
