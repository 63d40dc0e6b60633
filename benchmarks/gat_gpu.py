"""A layer of graph attention, forward and backward: seconds and peak memory, ours beside PyG's GATConv.

    python benchmarks/gat_gpu.py
    python benchmarks/gat_gpu.py --check        # only compares, at small sizes; on a CPU too

The layer has 8 heads of 32 and 256 features, over a random graph of 100,000 nodes and 2,000,000 edges, self-loops among
them. All ways have the same weights, the same edges and no dropout, and take turns in one run. PyG is left out where it
is not installed (`pip install torch_geometric`). Before anything is timed, outputs and gradients are compared with our
plain operations in float64, at 2,000 nodes: see gate.py. The gradient of a LeakyReLU jumps at zero, so `nudged` results
are allowed too. Rows are added to results/gat_gpu.csv.
"""

import importlib.util
import os
import statistics
from collections.abc import Callable

import torch
from gate import NUDGES, Results, describe, gate_then_time, judge_results, nudge
from timing import peak_memory, side_by_side
from torch import Tensor, nn

from regard.models.gat import GATConfig, GraphAttention
from regard.score import Edges

HEADS, DIM, FEATURES = 8, 32, 256
LARGE, MIDDLE, SMALL = (100_000, 2_000_000), (2_000, 40_000), (24, 90)  # nodes and edges
OFF = GATConfig(input_dropout=0.0, weight_dropout=0.0, feature_dropout=0.0)


def graph(nodes: int, edges: int, device: torch.device) -> Edges:
    """A random graph with a loop at every node, in no order; each pair once."""
    chance = torch.Generator().manual_seed(0)
    loops = torch.arange(nodes) * (nodes + 1)
    drawn = torch.randint(nodes * nodes, (2 * edges,), generator=chance)
    pairs = torch.cat([loops, drawn]).unique()
    others = pairs[pairs % (nodes + 1) != 0]
    others = others[torch.randperm(len(others), generator=chance)[: edges - nodes]]
    pairs = torch.cat([loops, others])
    pairs = pairs[torch.randperm(len(pairs), generator=chance)]
    return Edges(pairs // nodes, pairs % nodes, nodes, nodes).to(device)


def our_layer(impl: str, device: torch.device, *, seed: int | None = None) -> GraphAttention:
    """The layer with the weights that all ways have; moved by rounding where a seed is given."""
    torch.manual_seed(1)
    layer = GraphAttention(FEATURES, DIM, HEADS, OFF)
    nn.init.normal_(layer.bias)
    if seed is not None:
        nudge(layer, seed)
    layer.attention.impl = impl
    return layer.to(device)


def our_parameters(layer: nn.Module) -> list[Tensor]:
    """Weights of the projection, of the query's half, of the keys' half, and the bias: their gradients."""
    halves = layer.attention.score.weight.grad
    return [layer.project.weight.grad, halves[0], halves[1], layer.bias.grad]


def pyg_layer(device: torch.device) -> nn.Module:
    """PyG's layer with the same weights."""
    from torch_geometric.nn import GATConv

    ours, theirs = our_layer("reference", device), GATConv(FEATURES, DIM, heads=HEADS, add_self_loops=False).to(device)
    named = dict(theirs.named_parameters())
    with torch.no_grad():
        named["lin.weight"].copy_(ours.project.weight)
        named["att_dst"].copy_(ours.attention.score.weight[0][None])
        named["att_src"].copy_(ours.attention.score.weight[1][None])
        named["bias"].copy_(ours.bias)
    return theirs


def pyg_parameters(layer: nn.Module) -> list[Tensor]:
    """The gradients in the order of `our_parameters`."""
    named = dict(layer.named_parameters())
    halves = [named[name].grad.squeeze(0) for name in ("att_dst", "att_src")]
    return [named["lin.weight"].grad, *halves, named["bias"].grad]


def results(
    layer: nn.Module, gradients: Callable[[nn.Module], list[Tensor]], edges: object, nodes: Tensor, wanted: Tensor
) -> Results:
    """The output, and the gradients of inputs and weights."""
    inputs = nodes.clone().requires_grad_()
    output = layer(inputs, edges)
    (output * wanted).sum().backward()
    return {"output": output.detach(), "inputs": inputs.grad, "weights": gradients(layer)}


def ways_here(device: torch.device) -> list[str]:
    """What can run on this machine."""
    fused = device.type == "cuda" or os.environ.get("TRITON_INTERPRET") == "1"
    pyg = importlib.util.find_spec("torch_geometric") is not None
    return [*["PyG GATConv"] * pyg, "regard, plain", *["regard, fused"] * fused]


def built(
    way: str, edges: Edges, device: torch.device
) -> tuple[nn.Module, object, Callable[[nn.Module], list[Tensor]]]:
    """A layer, the edges as it takes them, and what gives its gradients."""
    if way == "PyG GATConv":
        return pyg_layer(device), torch.stack([edges.sources, edges.targets]), pyg_parameters
    return our_layer("triton" if way == "regard, fused" else "reference", device), edges, our_parameters


def gate(device: torch.device, *, small: bool) -> dict[str, str]:
    """Each way against plain operations in float64; what is refused."""
    nodes, count = SMALL if small else MIDDLE
    edges = graph(nodes, count, device)
    torch.manual_seed(2)
    features, wanted = torch.randn(nodes, FEATURES, device=device), torch.randn(nodes, HEADS * DIM, device=device)

    def plain(dtype: torch.dtype, seed: int | None = None) -> Results:
        layer = our_layer("reference", device, seed=seed).to(dtype)
        return results(layer, our_parameters, edges, features.to(dtype), wanted.to(dtype))

    made = {}
    for way in ways_here(device):
        layer, pairs, gradients = built(way, edges, device)
        made[way] = results(layer, gradients, pairs, features, wanted)
    nudged = [plain(torch.float64, seed) for seed in range(NUDGES)]
    errors, refused = judge_results(made, eager=plain(torch.float32), exact=plain(torch.float64), nudged=nudged)
    print(describe(errors), flush=True)
    return refused


def measured(device: torch.device, refused: dict[str, str], *, rounds: int) -> list[dict[str, object]]:
    """Median milliseconds of a forward and a backward pass, and the peak of memory above what was there before."""
    edges = graph(*LARGE, device)
    torch.manual_seed(2)
    features = torch.randn(LARGE[0], FEATURES, device=device, requires_grad=True)
    wanted = torch.randn(LARGE[0], HEADS * DIM, device=device)
    passes, peaks = {}, {}
    for way in ways_here(device):
        if way in refused:
            continue
        layer, pairs, _ = built(way, edges, device)

        def one(layer: nn.Module = layer, pairs: object = pairs) -> None:
            layer.zero_grad(set_to_none=True)
            features.grad = None
            layer(features, pairs).backward(wanted)

        one()  # what is made once, such as sorted edges and compiled kernels, is not counted
        one()
        features.grad = None
        layer.zero_grad(set_to_none=True)
        peaks[way], passes[way] = peak_memory(one), one
    seconds = side_by_side(passes, rounds=rounds)
    first = next(iter(passes))
    base = statistics.median(seconds[first]), peaks[first]
    return [
        {"nodes": LARGE[0], "edges": LARGE[1], "heads": HEADS, "dim": DIM, "way": way,
         "ms": round(1000 * statistics.median(times), 3), "peak_mib": round(peaks[way]),
         "times_faster": round(base[0] / statistics.median(times), 2), "times_smaller": round(base[1] / peaks[way], 2)}
        for way, times in seconds.items()
    ]  # fmt: skip


def line(row: dict[str, object]) -> str:
    """What is printed of a row."""
    return f"{row['way']:16} {row['ms']:10,.2f} ms {row['peak_mib']:8,} MiB"


def main() -> None:
    gate_then_time(__doc__, "gat_gpu.csv", gate, measured, line, rounds=20)


if __name__ == "__main__":
    main()
