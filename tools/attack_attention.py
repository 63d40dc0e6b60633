"""Random cases of attention against float64: no number further off than twice eager's error, no traceback, no NaN.

    python tools/attack_attention.py --where eager --cases 20000 --seed 1
    python tools/attack_attention.py --where eager --seed 1 --case 4711          # one case again, in words

A case is drawn from its number and the seed alone: a score, an alignment, a mask, a bias, shapes, strides, types, a
fused way, and what is done with it (a backward pass, a second one, jvp, vmap, grad, …). It is run three times: as asked
for; by plain operations (`impl="reference"`) in the same types; and by plain operations in float64, which is the truth.
What `impl` asks for may be refused where it cannot be done, and then must be; only our own errors may be raised.

Gradients go through the weights too, where a case asks for them; with `--weights` all cases do: on a GPU, `--where gpu
--weights --cases 2000`. `--where eager` has the CPU's ways, with the blocked kernel at every size; `interpreter` the
Triton kernels by Triton's interpreter; `gpu` all ways of a GPU; `compile` graphs of torch.compile(fullgraph=True). The
exit status is 1 if a case failed.
"""

import argparse
import contextlib
import copy
import json
import os
import random
import re
import subprocess
import sys
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

WHERE = ("eager", "gpu", "interpreter", "compile")
if __name__ == "__main__" and "interpreter" in sys.argv:
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported

    import quick_interpreter

    quick_interpreter.install()

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402

from regard import Attention, Mask, MultiHead, align, attention, base, score  # noqa: E402

ROUNDING = {torch.float64: 1e-12, torch.float32: 4e-6, torch.float16: 3e-3, torch.bfloat16: 2e-2}
TYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
DOTS = ("dot", "scaled_dot", "general", "cosine", "cosine_tensor", "projected_dot")
ADDITIVES = ("additive", "concat", "projected_additive")
OTHERS = ("distance", "gaussian", "location", "location_aware", "callable")
ALIGNS = ("softmax", "cold_softmax", "sparsemax", "entmax", "normalize", "sigmoid", "top_k", "hard", "local_monotonic",
          "local_predictive", "monotonic", "shift", "identity")  # fmt: skip
SMOOTH = ("softmax", "cold_softmax")
MASKS = ("none", "none", "padding", "padding", "padding_all", "causal", "window", "causal_padding",
         "window_padding", "block", "segment", "pairs", "sentences", "whole", "query_padding", "either",
         "not", "huge_window")  # fmt: skip
STRIDES = ("plain", "plain", "transposed", "expanded", "sliced", "heads")
TRANSFORMS = ("backward", "backward", "inference", "second", "jvp", "dual", "vmap", "grad", "vmap_grad", "hvp",
              "batched")  # fmt: skip
REVERSE = ("backward", "inference", "second", "batched")  # without a transform of torch.func or forward mode
SHAPES = (  # leading axes, queries, keys, width, values
    ((), 3, 5, 4, 3), ((1,), 1, 7, 8, 8), ((2,), 1, 1, 1, 1), ((1, 3), 15, 33, 20, 20), ((2, 2), 6, 6, 8, 8),
    ((3, 1), 5, 9, 16, 5), ((2,), 17, 40, 24, 3), ((1,), 20, 18, 33, 7), ((4, 2), 1, 32, 16, 16), ((1, 1), 4, 2, 3, 2),
    ((1, 2), 8, 16, 16, 16), ((5,), 1, 20, 10, 4),
)  # fmt: skip
EMPTY = (((0,), 3, 4, 4, 2), ((2,), 0, 3, 4, 2), ((2,), 3, 0, 4, 2), ((2,), 3, 4, 0, 2), ((2,), 3, 4, 4, 0))
WIDE = (((3,), 1, 20, 300, 280), ((1, 2), 1, 33, 272, 260))  # one query, beyond what torch's own kernels take


@dataclass(frozen=True)
class Case:
    """What a number stands for."""

    layer: str  # "attention", or the position of a MultiHead
    score: str
    align: str
    mask: str
    impl: str
    transform: str
    shape: tuple[Any, ...]
    features: int
    strides: tuple[str, str, str]  # of query, keys, values
    dtypes: tuple[str, str, str]
    bias: str | None  # its axes
    bias_dtype: str
    bias_size: float
    size: float  # of query and keys
    fewer: bool  # keys and values are shared by all batch items
    prepared: bool
    need_weights: bool
    seed: int


def draw(number: int, seed: int, where: str, weights: bool = False) -> Case:
    """The case of that number; with `weights`, one that asks for weights and sends gradients through them."""
    dice = random.Random(f"{seed}/{number}/{where}")
    pick = dice.choice
    kinds = DOTS * 3 + ADDITIVES * 6 + (() if where == "interpreter" else OTHERS * 2)
    name = pick(kinds)
    aligned = pick(ALIGNS) if where not in ("interpreter", "gpu") and dice.random() < 0.4 else pick(SMOOTH)
    fused = "sdpa" if name in DOTS else "triton" if where in ("gpu", "interpreter") else "blocked"
    impl = pick(("auto", "auto", fused)) if where != "interpreter" else pick((fused, fused, fused, "auto"))
    shape = pick(SHAPES)
    if where in ("eager", "compile") and dice.random() < 0.5:
        lead, width = pick(((), (1,), (2,), (3,), (1, 3), (2, 1), (2, 3), (2, 1, 2))), dice.randint(1, 12)
        shape = (lead, dice.randint(1, 9), dice.randint(1, 11), width, dice.randint(1, 7))
    wide = where in ("gpu", "interpreter") and name in ("dot", "scaled_dot", "cosine") and dice.random() < 0.15
    shape = pick(WIDE) if wide else pick(EMPTY) if dice.random() < 0.04 else shape
    if name.startswith("cosine") and shape[3] == 1:
        name = "dot"  # a cosine of single numbers is ±1, and its derivatives are nothing but rounding
    mixed = dice.random() < 0.2
    common = pick(("f32", "f32", "f32", "bf16", "f16", "f64") if fused != "triton" else ("f32", "f32", "bf16"))
    dtypes = tuple(pick(tuple(TYPES)) if mixed else common for _ in range(3))
    if name not in ("dot", "scaled_dot", "cosine", "distance", "gaussian") and dice.random() < 0.8:
        dtypes = (dtypes[0], dtypes[0], dtypes[2])  # a layer projects what has its own type
    bias = pick(("keys", "pairs", "heads", "whole"))
    bias = bias if dice.random() < (0.05 if name in ADDITIVES else 0.3) else None
    ways = TRANSFORMS
    if where == "compile":  # which cannot follow an error of ours to its end: only what is not refused
        impl = impl if name in DOTS + ADDITIVES else "auto"
        ways = ("backward", "backward", "inference", "jvp", "vmap", "grad") if impl == "auto" else ("backward",)
        dtypes = (common,) * 3
        aligned, bias = (aligned, bias) if impl == "auto" else ("softmax", None)
        shape = shape if shape not in EMPTY else SHAPES[0]
    if impl != "auto" and dice.random() < 0.75:
        ways = [way for way in ways if way in REVERSE]  # the others are refused
    if weights:
        ways = [way for way in ways if way in ("backward", "second", "batched")]
    return Case(
        layer=pick(("none", "rotary", "alibi", "relative")) if dice.random() < 0.1 else "attention",
        score=name,
        align=aligned,
        mask=pick(MASKS),
        impl=impl,
        transform=pick(ways),
        shape=shape,
        features=pick((1, 5, 16, 24)),
        strides=tuple(pick(STRIDES) for _ in range(3)),
        dtypes=dtypes,
        bias=bias,
        bias_dtype=pick((common, "f32", "f64")),
        bias_size=pick((1.0, 1.0, 50.0)),
        size=pick((1.0, 1.0, 1.0, 2.0 if name in ("dot", "general") else 4.0)),
        fewer=dice.random() < 0.15,
        prepared=dice.random() < 0.2,
        need_weights=dice.random() < 0.3 or weights,
        seed=dice.randrange(1 << 30),
    )  # fmt: skip


# ── what a case is made of ──────────────────────────────────────────────────────────────────────────────────────────


def strided(x: Tensor, how: str) -> Tensor:
    """The same shape and mostly the same numbers, lying otherwise in memory."""
    if how == "transposed":
        return x.mT.contiguous().mT
    if how == "expanded":  # an axis that is one number in memory
        axis = next((axis for axis in range(x.ndim) if x.shape[axis] > 1), 0)
        return x.narrow(axis, 0, min(1, x.shape[axis])).expand(x.shape)
    if how == "sliced":
        wider = x.new_full((*x.shape[:-2], 2 * x.shape[-2] + 1, x.shape[-1] + 3), 99.0)
        view = wider[..., 1::2, 2:-1]
        return view.copy_(x)
    if how == "heads" and x.ndim > 2:  # [b h t d] out of [b t h d]
        return x.transpose(-2, -3).contiguous().transpose(-2, -3)
    return x.contiguous()


def make_score(case: Case) -> Any:
    d, a = case.shape[3], case.features
    wide = max(1, d)
    makers = {
        "dot": lambda: score.Dot(),
        "scaled_dot": lambda: score.ScaledDot(),
        "general": lambda: score.General(wide, wide),
        "cosine": lambda: score.Cosine(3.0),
        "cosine_tensor": lambda: score.Cosine(4.0, learned=True),
        "projected_dot": lambda: score.Projected(score.ScaledDot(), wide, wide, a),
        "additive": lambda: score.Additive(wide, wide, a),
        "concat": lambda: score.Concat(wide, wide, a),
        "projected_additive": lambda: score.Projected(score.Additive(a, a, a), wide, wide, a),
        "distance": lambda: score.Distance(log=True),
        "gaussian": lambda: score.Distance("gaussian", bandwidth=2.0),
        "location": lambda: score.Location(wide, max(1, case.shape[2] - 1)),
        "location_aware": lambda: score.LocationAware(wide, wide, a, filters=2, width=3),
        "callable": lambda: lambda query, keys: query.mean(-1, True) - keys.mean(-1).unsqueeze(-2),
    }
    return makers[case.score]()


def make_align(case: Case) -> Any:
    makers = {
        "softmax": lambda: align.Softmax(),
        "cold_softmax": lambda: align.Softmax(0.7),
        "sparsemax": lambda: align.Sparsemax(),
        "entmax": lambda: align.Entmax(1.5),
        "normalize": lambda: align.Normalize(),
        "sigmoid": lambda: align.Sigmoid(-0.5),
        "top_k": lambda: align.TopK(2),
        "hard": lambda: align.Hard(),
        "local_monotonic": lambda: align.LocalMonotonic(2),
        "local_predictive": lambda: align.LocalPredictive(max(1, case.shape[3]), window=3),
        "monotonic": lambda: align.Monotonic(noise=0.0),
        "shift": lambda: align.Shift(0.6, (0.2, 0.5, 0.3), 1.5),
        "identity": lambda: align.Identity(),
    }
    return makers[case.align]()


def make_mask(case: Case, dice: torch.Generator) -> Mask | None:
    lead, q, k = case.shape[:3]
    batch = lead[:1]

    def lengths(most: int, shape: tuple[int, ...] = batch) -> Tensor:
        return torch.randint(0, most + 1, shape, generator=dice)

    def some(*shape: int) -> Tensor:
        return torch.rand(shape, generator=dice) < 0.6

    def dense(*shape: int) -> Mask:
        flat = some(*shape)
        return Mask.of(flat if case.seed % 2 else flat.mT.contiguous().mT)

    padding = Mask.padding(lengths(k))
    return {
        "none": lambda: None,
        "padding": lambda: padding,
        "padding_all": lambda: Mask.padding(lengths(k, lead)),
        "causal": Mask.causal,
        "window": lambda: Mask.window(3, 1),
        "huge_window": lambda: Mask.window(10**20, 2),
        "causal_padding": lambda: Mask.causal() & padding,
        "window_padding": lambda: Mask.window(2) & padding,
        "block": lambda: Mask.block(3),
        "segment": lambda: Mask.segment(*(torch.randint(0, 2, (*batch, n), generator=dice) for n in (q, k))),
        "pairs": lambda: dense(q, k),
        "sentences": lambda: dense(*batch, q, k),
        "whole": lambda: dense(*lead, q, k),
        "query_padding": lambda: Mask.query_padding(lengths(q)),
        "either": lambda: Mask.window(1) | padding,
        "not": lambda: ~Mask.causal(),
    }[case.mask]()


@dataclass
class Scene:
    """A layer, its inputs, and what goes back through the results; `to` changes the types."""

    case: Case
    layer: nn.Module
    tensors: list[Tensor]  # query, keys, values, and the bias; of a MultiHead the input alone, and a bias
    mask: Mask | None

    @property
    def of_heads(self) -> bool:
        return self.case.layer != "attention"

    def exact(self) -> "Scene":
        """The same in float64 by plain operations."""
        plain = self.plain()
        return replace(plain, layer=plain.layer.double(), tensors=[x.double() for x in self.tensors])

    def plain(self) -> "Scene":
        """The same by plain operations."""
        layer = copy.deepcopy(self.layer)
        (layer.attention if self.of_heads else layer).impl = "reference"
        return replace(self, layer=layer)

    def call(self, *given: Tensor, need_weights: bool | None = None) -> tuple[Tensor, ...]:
        """Context, and weights where they are asked for."""
        case = self.case
        need = case.need_weights if need_weights is None else need_weights
        if self.of_heads:
            out = self.layer(given[0], mask=self.mask, need_weights=need)
        else:
            query, keys, values, *bias = given
            keys = self.layer.prepare(keys) if case.prepared else keys
            out = self.layer(query, keys, values, mask=self.mask, bias=bias[0] if bias else None, need_weights=need)
        return (out.context, out.weights) if need else (out.context,)


def build(case: Case, device: str) -> Scene:
    """Everything that a case needs, from its own seed."""
    torch.manual_seed(case.seed)
    dice = torch.Generator().manual_seed(case.seed)
    lead, q, k, d, v = case.shape
    query_type, key_type, value_type = (TYPES[name] for name in case.dtypes)

    def numbers(*shape: int) -> Tensor:
        return torch.randn(shape, generator=dice)

    if case.layer != "attention":
        batch, heads, width = lead[:1] or (1,), 2, 8
        position = {"rotary": attention.Rotary, "alibi": lambda: attention.ALiBi(heads)}
        position["relative"] = lambda: attention.Relative(heads, width)
        placed = position[case.layer]() if case.layer != "none" else None
        layer = MultiHead(heads * width, num_heads=heads, position=placed, impl=None if case.impl != "sdpa" else "sdpa")
        x = strided(numbers(*batch, k, heads * width).to(device, query_type), case.strides[0])
        return Scene(case, layer.to(query_type).eval().to(device), [x], Mask.causal() if k else None)
    shared = tuple(1 for _ in lead) if case.fewer else lead
    given = [case.size * numbers(*lead, q, d), case.size * numbers(*shared, k, d), numbers(*shared, k, v)]
    types = (query_type, key_type, value_type)
    tensors = [strided(x.to(device, t), how) for x, t, how in zip(given, types, case.strides, strict=True)]
    if case.bias is not None:
        axes = {"keys": (k,), "pairs": (q, k), "heads": (*lead[-1:], q, k), "whole": (*lead, q, k)}[case.bias]
        bias = case.bias_size * numbers(*axes)
        tensors.append(bias.to(TYPES[case.bias_dtype]).to(device))
    layer = Attention(make_score(case), make_align(case), impl=case.impl).to(query_type).eval().to(device)
    return Scene(case, layer, tensors, make_mask(case, dice))


# ── what is done with it ────────────────────────────────────────────────────────────────────────────────────────────


def outcome(scene: Scene, noise: list[Tensor], transform: str) -> list[tuple[str, Tensor]]:
    """The results of one run, by name. `noise` has what goes back or forth through them, made of float64 numbers."""
    leaves = [x.detach() for x in scene.tensors]
    if transform in REVERSE:
        leaves = [x.requires_grad_() for x in leaves]
    names = ["x"] if scene.of_heads else ["query", "keys", "values", "bias"][: len(leaves)]

    def like(x: Tensor, number: int) -> Tensor:
        flat = noise[number % len(noise)]
        return flat.repeat(x.numel() // len(flat) + 1)[: x.numel()].reshape(x.shape).to(x)

    def context(*given: Tensor) -> Tensor:
        return scene.call(*given, need_weights=False)[0]

    def loss(*given: Tensor) -> Tensor:
        made = context(*given)
        return (made * like(made, 0)).sum()

    def total(*results: Tensor) -> Tensor:
        return sum((x * like(x, number)).sum() for number, x in enumerate(results))

    plain = [x.detach() for x in leaves]
    if transform in ("jvp", "dual", "hvp"):  # torch makes no tangent of a tensor whose numbers share their place
        plain = [x.clone() if 0 in x.stride() else x for x in plain]
    if transform == "inference":
        with torch.inference_mode():
            return list(zip(("context", "weights"), scene.call(*plain), strict=False))
    if transform == "backward":
        results = scene.call(*leaves)
        wanted = [*leaves, *scene.layer.parameters()]
        found = torch.autograd.grad(total(*results), wanted, allow_unused=True)
        labels = [*names, *(f"parameter {name}" for name, _ in scene.layer.named_parameters())]
        gradients = [(f"∂{name}", g) for name, g in zip(labels, found, strict=True) if g is not None]
        return [*zip(("context", "weights"), (x.detach() for x in results), strict=False), *gradients]
    if transform == "second":
        first = torch.autograd.grad(total(*scene.call(*leaves)), leaves, create_graph=True, allow_unused=True)
        there = [g for g in first if g is not None and g.requires_grad]
        second = torch.autograd.grad(total(*there), leaves, allow_unused=True) if there else [None] * len(leaves)
        pairs = [*zip(names, first, strict=True), *((f"∂{n}", g) for n, g in zip(names, second, strict=True))]
        return [(f"∂{name}", g.detach()) for name, g in pairs if g is not None]
    if transform == "batched":
        made = [x for x in scene.call(*leaves) if x.requires_grad]
        several = [torch.stack([like(x, 2 * number), like(x, 2 * number + 1)]) for number, x in enumerate(made)]
        found = torch.autograd.grad(made, leaves, several, is_grads_batched=True, allow_unused=True)
        return [(f"∂{name}", g) for name, g in zip(names, found, strict=True) if g is not None]
    tangents = tuple(like(x, number) for number, x in enumerate(plain))
    places = tuple(range(len(plain)))
    if transform == "jvp":
        made, change = torch.func.jvp(context, tuple(plain), tangents)
        return [("context", made), ("change", change)]
    if transform == "dual":
        with forward_ad.dual_level():
            made = context(*(forward_ad.make_dual(x, t) for x, t in zip(plain, tangents, strict=True)))
            primal, change = forward_ad.unpack_dual(made)
            return [("context", primal), ("change", torch.zeros_like(primal) if change is None else change)]
    pairs = [torch.stack([x, x + t]) for x, t in zip(plain, tangents, strict=True)]
    if transform == "vmap":
        return [("context", torch.func.vmap(context)(*pairs))]
    gradient = torch.func.grad(loss, argnums=places)
    if transform == "grad":
        found = gradient(*plain)
    elif transform == "vmap_grad":
        found = torch.func.vmap(gradient)(*pairs)
    else:
        found = torch.func.jvp(gradient, tuple(plain), tangents)[1]
    return [(f"∂{name}", g) for name, g in zip(names, found, strict=True)]


def refusal(case: Case, scene: Scene) -> bool:
    """Whether `impl` has to refuse this case: where a transform is active, and what a kernel does not take."""
    if case.impl == "auto" or (scene.of_heads and case.impl != "sdpa") or case.shape[2] == 0:
        return False  # of no keys, nothing is asked
    if case.transform not in REVERSE:
        return True
    if scene.of_heads:
        return False
    unknown = case.impl != "sdpa" and (case.bias is not None or case.score not in ADDITIVES)
    wide = case.impl == "triton" and "f64" in (case.dtypes[0], case.dtypes[2])
    return case.align not in SMOOTH or case.shape[3] == 0 or unknown or wide


def judge(case: Case, where: str) -> str:
    """ "right" or "refused", or what is wrong."""
    device = "cuda" if where == "gpu" else "cpu"
    scene = build(case, device)
    dice = torch.Generator().manual_seed(case.seed + 1)
    noise = [torch.randn(4093, generator=dice, dtype=torch.float64) for _ in range(4)]
    try:
        eager = outcome(scene.plain(), noise, case.transform)
    except base.RegardError as error:
        eager = error
    try:
        found = (compiled if where == "compile" else outcome)(scene, noise, case.transform)
    except base.RegardError as error:
        if isinstance(eager, base.RegardError):
            return "refused"
        must = refusal(case, scene) and isinstance(error, base.ImplementationUnavailable)
        return "refused" if must else f"raised {type(error).__name__}: {error}"
    if isinstance(eager, base.RegardError):
        return f"did not raise: {eager}"
    if refusal(case, scene):
        return f"impl={case.impl!r} did not refuse"
    exact = dict(outcome(scene.exact(), noise, case.transform))
    plain = dict(eager)
    if [name for name, _ in found] != list(plain):
        return f"results {[name for name, _ in found]}, eager has {list(plain)}"
    wrong = [compare(name, x, plain[name], exact[name], scene) for name, x in found]
    return "; ".join(filter(None, wrong)) or "right"


def compare(name: str, found: Tensor, eager: Tensor, exact: Tensor, scene: Scene) -> str | None:
    if found.shape != eager.shape or found.dtype != eager.dtype:
        return f"{name} is {list(found.shape)} {found.dtype}, eager {list(eager.shape)} {eager.dtype}"
    if not found.numel():
        return None
    if not torch.isfinite(found).all() and torch.isfinite(exact).all() and torch.isfinite(eager).all():
        return f"{name} is not finite"
    error, allowed = ((x.double() - exact).abs().nan_to_num(0.0, 0.0, 0.0).max().item() for x in (found, eager))
    coarsest = max([found.dtype, *(x.dtype for x in scene.tensors)], key=ROUNDING.__getitem__)
    size = max(1.0, exact.abs().max().item(), *(x.abs().max().item() for x in scene.tensors if x.numel()))
    if error > 2.0 * allowed + ROUNDING[coarsest] * size:
        return f"{name} is off by {error:.2e}, eager by {allowed:.2e}"
    return None


def compiled(scene: Scene, noise: list[Tensor], transform: str) -> list[tuple[str, Tensor]]:
    """The same through one graph. Transforms stand inside of it; its backward pass is made ahead of time."""
    torch.compiler.reset()
    if transform in ("jvp", "vmap", "grad"):
        return torch.compile(lambda: outcome(scene, noise, transform), fullgraph=True, backend="eager")()
    layer = torch.compile(scene.layer, fullgraph=True, backend="aot_eager")
    graph = replace(scene, layer=_Called(layer, scene.layer))
    return [(name.replace("parameter plain.", "parameter "), x) for name, x in outcome(graph, noise, transform)]


class _Called(nn.Module):
    """A compiled layer with the other methods of the plain one."""

    def __init__(self, graph: Any, plain: nn.Module) -> None:
        super().__init__()
        self.plain, self.graph = plain, [graph]

    def prepare(self, keys: Tensor) -> Any:
        return self.plain.prepare(keys)

    def forward(self, *given: Any, **named: Any) -> Any:
        return self.graph[0](*given, **named)


# ── all of them ─────────────────────────────────────────────────────────────────────────────────────────────────────


def prepare(where: str) -> None:
    """Kernels at every size: those of a CPU for a few pairs too; in the interpreter, those that ask for a GPU."""
    from regard.kernels import blocked

    blocked.PAYING_QUERIES, blocked.PAYING_SIZE, blocked.BLOCK, blocked.ROWS = 1, 1, 1 << 11, 1 << 5
    if where == "interpreter":
        from regard.attention import fused
        from regard.kernels.derivatives import transformed
        from regard.kernels.limits import reasons_against_triton, width_limit
        from regard.score import cosine

        def is_wide(*tensors: Tensor) -> bool:
            return not reasons_against_triton("cpu", *tensors, widest=width_limit(1))

        fused._is_wide = is_wide  # type: ignore[assignment]
        cosine._has_kernel = lambda x: x.dtype in cosine.DTYPES and not transformed()  # type: ignore[assignment]
    warnings.simplefilter("ignore")


def run(numbers: range, seed: int, where: str, weights: bool) -> dict[str, Any]:
    """How many were right, of which kinds, what failed; and `broken`, the case after which the GPU answers no more."""
    prepare(where)
    counts: Counter[str] = Counter()
    failed: dict[str, str] = {}
    for number in numbers:
        case = draw(number, seed, where, weights)
        try:
            verdict = judge(case, where)
        except Exception as error:  # any traceback but our own is what this is looking for
            verdict = f"{type(error).__name__}: {error}".splitlines()[0][:300]
            if where == "gpu" and re.search(r"CUDA|misaligned|launch failure|cuDNN|mha_graph", verdict):
                return {"counts": dict(counts), "failed": failed, "broken": number}
        counts[verdict if verdict in ("right", "refused") else "failed"] += 1
        counts[f"impl {case.impl}"] += 1
        counts[f"transform {case.transform}"] += 1
        if verdict not in ("right", "refused"):
            failed[str(number)] = verdict
            print(f"case {number}: {verdict}\n    {case}\n{described(case)}", file=sys.stderr, flush=True)
    return {"counts": dict(counts), "failed": failed}


def described(case: Case) -> str:
    """Where the tensors of a case lie."""
    try:
        tensors = build(case, "cpu").tensors
    except Exception as error:
        return f"    it cannot be built: {error}"
    lines = (f"{list(x.shape)} {x.dtype} strides {x.stride()} offset {x.storage_offset()}" for x in tensors)
    return "\n".join(f"    {line}" for line in lines)


def share(args: argparse.Namespace) -> dict[str, Any]:
    """The same by several processes; one whose GPU broke is followed by another, which begins with the next case."""
    with ThreadPoolExecutor(args.jobs) as pool:
        results = list(pool.map(lambda first: _follow(args, first), range(args.jobs)))
    counts: Counter[str] = Counter()
    failed: dict[str, str] = {}
    for result in results:
        counts.update(result["counts"])
        failed |= result["failed"]
    return {"counts": dict(counts), "failed": failed}


def _follow(args: argparse.Namespace, first: int) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    failed: dict[str, str] = {}
    command = [sys.executable, str(Path(__file__)), "--where", args.where, "--seed", str(args.seed)]
    command += ["--weights"] * args.weights
    while first < args.cases:
        part = [*command, "--cases", str(args.cases), "--part", f"{first}/{args.jobs}"]
        done = subprocess.run(part, stdout=subprocess.PIPE, text=True)
        if not done.stdout:
            failed[f"from {first}"] = f"a process ended with {done.returncode}"
            break
        result = json.loads(done.stdout)
        counts.update(result["counts"])
        failed |= result["failed"]
        broken = result.get("broken")
        if broken is None:
            break
        alone = subprocess.run(
            [*command, "--case", str(broken)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        counts["right" if alone.returncode == 0 else "failed"] += 1
        if alone.returncode != 0:
            failed[str(broken)] = (alone.stdout.strip().splitlines() or ["?"])[-1]
            print(f"case {broken}, alone: {alone.stdout[-3000:]}", file=sys.stderr, flush=True)
        else:
            print(f"case {broken} broke the GPU's context, and is right alone", file=sys.stderr, flush=True)
        first = broken + args.jobs
    return {"counts": dict(counts), "failed": failed}


def main() -> int:
    """Reads the command line, runs, and says what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--where", choices=WHERE, default="eager")
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="this one alone, with its traceback")
    parser.add_argument(
        "--weights", action="store_true", help="gradients of context and weights together, in every case"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.case is not None:
        prepare(args.where)
        case = draw(args.case, args.seed, args.where, args.weights)
        print(case)
        print(described(case))
        verdict = judge(case, args.where)
        print(verdict)
        return int(verdict not in ("right", "refused"))
    if args.part:  # first/jobs
        first, jobs = map(int, args.part.split("/"))
        result = run(range(first, args.cases, jobs), args.seed, args.where, args.weights)
        print(json.dumps(result))
        return int(bool(result["failed"]))
    with contextlib.suppress(KeyboardInterrupt):
        alone = args.jobs == 1 and args.where != "gpu"
        result = run(range(args.cases), args.seed, args.where, args.weights) if alone else share(args)
        counts, failed = result["counts"], result["failed"]
        kinds = ", ".join(f"{name} {counts[name]}" for name in sorted(counts) if " " in name)
        print(f"{args.where}, seed {args.seed}: {args.cases} cases, {counts.get('right', 0)} right,"
              f" {counts.get('refused', 0)} refused with a reason, {len(failed)} failed")  # fmt: skip
        print(kinds)
        if failed:
            print("failed:", ", ".join(map(str, failed)))
        return int(bool(failed))
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
