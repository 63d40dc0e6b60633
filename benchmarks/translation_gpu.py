"""Training a Transformer on one GPU beside the same one of Hugging Face, and BLEU after a few seconds of training.

    python benchmarks/translation_gpu.py speed           # needs CUDA, Multi30k and transformers
    python benchmarks/translation_gpu.py shapes          # what batches of ever new shapes cost
    python benchmarks/translation_gpu.py quality         # needs CUDA and Multi30k
    python benchmarks/translation_gpu.py --device cpu --small --no-save      # tries every part, on a CPU

Speed: the model of the recipe transformer/multi30k_de_en (3 + 3 layers, width 256, feed-forward 512, 8 heads, 8,000
joint sub-words, norms before the layers). The peer is Pegasus of Hugging Face, which is Marian with the norms before
the layers: see hugging_face.py. Both have the same weights, activation, scaling and dropout, and see the same batches,
which lie on the device beforehand: 256 or 1,024 pairs, lengths padded to multiples of 8. Both are trained by the same
steps: clipping, and Adam with `fused=True`; no running mean of weights. Rows name the precision: "autocast" is float32
weights under bfloat16 autocast, "bfloat16 copies" computes with bfloat16 copies of float32 weights. Marian itself, with
its norms after the layers, has a row too. Figures are real target tokens a second, medians over rounds in turns.
Recording graphs and compiling happen in rounds that are not counted; their seconds are printed.

Shapes: batches of about 4,096 padded tokens whose shapes nobody has seen before. Every way gets batches of its own, so
that nobody profits from what another one has prepared.

Before anything is timed, logits and gradients of every way, before clipping, are compared with float64: see gate.py. A
way that is refused has no row; the others are timed, and the program ends with status 1.

Quality: each recipe is trained with some settings for a few seconds. Multi30k's validation set (val) chooses the
settings by greedy, tokenised, lower-cased BLEU, and only the model that was chosen is judged on test2016.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from gate import NUDGES, Refusals, Results, check_results, describe, judge_results, nudge
from hugging_face import Peer, PeerTask, build_peer, copy_weights, parameter_pairs
from timing import append, ratio, side_by_side
from torch import nn
from updates import Updates

from regard.data import PAD, TokenBatch
from regard.models import Transformer
from regard.recipes import RECIPES, Recipe, build_model, change
from regard.tasks import Translation
from regard.train import Trainer, World

RECIPE = "transformer/multi30k_de_en"
PRECISIONS = {"float32": "float32", "bfloat16": "autocast", "pure_bfloat16": "bfloat16 copies"}
ROUNDING = {"float32": 2.0**-23, "bfloat16": 2.0**-7, "pure_bfloat16": 2.0**-7}  # between neighbouring numbers
SMALL = [
    "task.corpus=tatoeba_plain", "task.source=en", "task.target=fr", "task.vocabulary=700",
    "model.dim=32", "model.hidden_dim=64", "model.num_heads=4", "model.encoder_layers=2", "model.decoder_layers=2",
]  # fmt: skip
FOREVER = ["train.steps=1000000", "train.log_every=1000000", "train.evaluate_every=1000000", "train.save_every=1000000"]
SHORT = ["train.warmup=120", "train.schedule=linear", "train.ema=0.99"]


@dataclass(frozen=True)
class Way:
    """A row of the table: whose model, how it runs, and in which precision."""

    owner: str  # "regard", or the class of Hugging Face
    how: str  # "captured", "eager", or "compiled" with the mode of torch.compile
    precision: str
    mode: str | None = None

    @property
    def name(self) -> str:
        """The row's name in the table."""
        return f"{self.owner}, {self.how}, {PRECISIONS[self.precision]}"


def ways_of(device: torch.device, modes: list[str]) -> list[Way]:
    """All rows, the eager peer under autocast first: it is what ratios refer to."""
    halves = ("bfloat16", "pure_bfloat16")
    peer = [Way("Pegasus", "eager", precision) for precision in halves]
    named = {mode: "compiled" if mode == "default" else f"compiled ({mode})" for mode in modes}
    compiled = [Way("Pegasus", how, "bfloat16", mode) for mode, how in named.items()]
    ours = [Way("regard", "eager", precision) for precision in halves]
    captured = [Way("regard", "captured", precision) for precision in halves] if device.type == "cuda" else []
    return [*peer, *compiled, Way("Marian", "eager", "bfloat16"), *ours, *captured]


class Bench:
    """The recipe, its data, and models with the same weights."""

    def __init__(self, device: torch.device, *, small: bool) -> None:
        start = time.perf_counter()
        self.device, self.small = device, small
        self.refusals, self.refused, self.gated = Refusals(), set[str](), False
        self.recipe = change(RECIPES[RECIPE](), SMALL if small else [])
        self.task = Translation(self.recipe.task)
        self.settings = replace(self.recipe.train, lr=1e-4, ema=None, capture=False)
        self.weights: dict[str, dict[str, torch.Tensor]] = {}
        for pre_norm in (True, False):
            torch.manual_seed(0)
            self.weights[self._peer(pre_norm)] = self.transformer(pre_norm).state_dict()
        parameters = sum(parameter.numel() for parameter in self.transformer(True).parameters())
        spent = time.perf_counter() - start
        print(f"{RECIPE}, {parameters / 1e6:.2f} M parameters; data read in {spent:.1f} s", flush=True)

    def transformer(self, pre_norm: bool) -> Transformer:
        """Our model, with the weights of all others where they are drawn already."""
        config = replace(self.recipe.model, pre_norm=pre_norm)
        model = Transformer(self.task.complete(config))
        if self._peer(pre_norm) in self.weights:
            model.load_state_dict(self.weights[self._peer(pre_norm)])
        return model

    def updates(
        self, way: Way, *, training: bool = True, exact: bool = False, nudged: int | None = None
    ) -> tuple[Updates, list[nn.Parameter]]:
        """The way's updates from the common start, and its parameters in the common order.

        Without `training` there is no dropout and no clipping: the norm of all gradients is itself rounded (by 10⁻⁴ on
        a CPU, where float32 adds up millions of squares), and this would hide what a gate looks for.
        """
        pre_norm = way.owner != "Marian"
        ours = self.transformer(pre_norm)
        theirs = build_peer(ours.config)
        copy_weights(ours, theirs)
        here, there = parameter_pairs(ours, theirs)
        settings = replace(self.settings, precision=way.precision, capture=way.how == "captured")
        settings = settings if training else replace(settings, clip=None)
        model: nn.Module = ours
        task: Any = self.task
        if way.owner != "regard":
            model, task = Peer(theirs, ours.config.dropout), PeerTask(way.mode)
            if way.precision == "pure_bfloat16":
                model.to_half()
        model.train(training)
        if exact:
            model.double()
        if nudged is not None:
            nudge(model, nudged)
        return Updates(model, task, settings, self.device), here if way.owner == "regard" else there

    def batches(self, size: int, number: int) -> list[TokenBatch]:
        """Some batches of an epoch on the device, full ones, lengths padded to multiples of 8."""
        task = Translation(replace(self.recipe.task, batch_size=size), codecs=self.task.codecs, splits=self.task.splits)
        stream = task.batches(seed=0)
        epoch = [batch for batch in (next(stream) for _ in range(stream.epoch_length())) if len(batch) == size]
        return [batch.to(self.device) for batch in epoch[:: max(1, len(epoch) // number)][:number]]

    def new_shapes(self, ways: list[Way], number: int, seen: list[int]) -> dict[Way, list[TokenBatch]]:
        """For each way its own batches of about 4,096 padded tokens, each with a number of pairs that nobody has seen.

        Every shape that a kernel is prepared for has the number of pairs in it, so each of these is a new one.
        """
        most = 256 if self.small else 4096
        by_pairs: dict[int, TokenBatch] = {}
        for tokens in range(most, most // 2, -max(1, most // 128)):
            changed = replace(self.recipe.task, batch_size=None, batch_tokens=tokens, fit=None)
            stream = Translation(changed, codecs=self.task.codecs, splits=self.task.splits).batches(seed=0)
            for batch in (next(stream) for _ in range(stream.epoch_length())):
                if len(batch) not in seen:
                    by_pairs.setdefault(len(batch), batch)
            if len(by_pairs) >= number * len(ways):
                break
        kept = sorted(by_pairs)[: len(by_pairs) // len(ways) * len(ways)]
        dealt = {way: kept[place :: len(ways)][:: max(1, len(kept) // len(ways) // number)][:number]
                 for place, way in enumerate(ways)}  # fmt: skip
        return {way: [by_pairs[count].to(self.device) for count in counts] for way, counts in dealt.items()}

    @staticmethod
    def _peer(pre_norm: bool) -> str:
        return "Pegasus" if pre_norm else "Marian"


def results_of(
    bench: Bench, way: Way, batch: TokenBatch, *, exact: bool = False, nudged: int | None = None
) -> dict[str, torch.Tensor | list[torch.Tensor]]:
    """Logits of the real targets, and all gradients as the first update sees them; without dropout and clipping."""
    run, parameters = bench.updates(way, training=False, exact=exact, nudged=nudged)
    mixed = way.precision == "bfloat16" and not exact
    with torch.no_grad(), torch.autocast(bench.device.type, dtype=torch.bfloat16, enabled=mixed):
        logits = run.model(batch.source, batch.source_lengths, batch.inputs).logits[batch.targets != PAD]
    run.update(batch)
    return {"logits": logits, "gradients": run.gradients(parameters)}


def gate(bench: Bench, ways: list[Way], batch: TokenBatch) -> None:
    """Refuse what computes something else than the peer in float64."""
    by_precision: dict[str, list[Way]] = {"float32": [Way("regard", "eager", "float32")]}
    for way in ways:
        if way.owner != "Marian":
            by_precision.setdefault(way.precision, []).append(way)
    peer = Way("Pegasus", "eager", "float32")
    exact = results_of(bench, peer, batch, exact=True)
    nudged = [results_of(bench, peer, batch, exact=True, nudged=seed) for seed in range(NUDGES)]  # ReLU has a kink
    for precision, alike in by_precision.items():
        peer = Way("Pegasus", "eager", precision)
        eager = results_of(bench, peer, batch)
        others = {way.name: results_of(bench, way, batch) for way in alike if way != peer}
        errors, refusals = judge_results({peer.name: eager, **others}, eager=eager, exact=exact, nudged=nudged,
                                         rounding=ROUNDING[precision])  # fmt: skip
        print(describe(errors), flush=True)
        bench.refusals.add(refusals.values())
        bench.refused |= {*refusals}
    bench.gated = True


def gate_marian(bench: Bench, ways: list[Way], batch: TokenBatch) -> None:
    """Marian has its norms after the layers: it is compared with our model of that kind, in float32."""
    ours = bench.transformer(False)
    theirs = build_peer(ours.config)
    copy_weights(ours, theirs)
    models = {"regard, norms after": ours.eval(), "Marian": Peer(theirs, ours.config.dropout).eval()}
    inputs = batch.source, batch.source_lengths, batch.inputs
    with torch.no_grad():
        found = {
            name: {"logits": model.to(bench.device)(*inputs).logits[batch.targets != PAD]}
            for name, model in models.items()
        }
        exact = {"logits": models["Marian"].double()(*inputs).logits[batch.targets != PAD]}
    errors, refusals = judge_results(found, eager=found["Marian"], exact=exact)
    print(describe(errors), flush=True)
    if refusals:
        bench.refusals.add(refusals.values())
        bench.refused |= {way.name for way in ways if way.owner == "Marian"}


def speed(bench: Bench, asked: argparse.Namespace) -> None:
    """Tokens a second at equal batches, in turns."""
    ways = ways_of(bench.device, asked.modes)
    for size in asked.sizes:
        batches = bench.batches(size, asked.updates)
        tokens = sum(batch.count for batch in batches)
        shapes = len({(batch.source.shape, batch.inputs.shape) for batch in batches})
        print(f"\n{len(batches)} batches of {size} pairs in {shapes} shapes, {tokens:,} target tokens", flush=True)
        gate(bench, ways, batches[0])
        gate_marian(bench, ways, batches[0])
        ways = [way for way in ways if way.name not in bench.refused]
        runs: dict[str, Callable[[], object]] = {}
        for way in ways:
            runs[way.name] = partial(bench.updates(way)[0].updates, batches)
            spent = timed(bench, runs[way.name])
            print(f"  {way.name}: first round {spent:.1f} s", flush=True)
        seconds = side_by_side(runs, rounds=asked.rounds, warm_up=1)
        rows = []
        base = seconds[ways[0].name]
        for way in ways:
            times = seconds[way.name]
            rate, quicker = tokens / statistics.median(times), ratio(base, times)
            print(f"  {size:5} pairs  {way.name:42} {rate:10,.0f} target tokens/s  {quicker:6.2f} ×", flush=True)
            rows.append(row(way, size, "fitted", rate, quicker, updates=len(batches) * asked.rounds))
        if asked.save:
            append("translation_gpu.csv", rows)


def shapes(bench: Bench, asked: argparse.Namespace) -> None:
    """What batches of ever new shapes cost whom: no warm-up, every update has a shape of its own."""
    ways = [way for way in ways_of(bench.device, asked.modes) if way.owner != "Marian" and way.precision == "bfloat16"]
    if not bench.gated:
        gate(bench, ways, bench.batches(asked.sizes[0], 1)[0])
    ways = [way for way in ways if way.name not in bench.refused]
    dealt = bench.new_shapes(ways, asked.updates + 1, asked.sizes)
    rates: dict[Way, float] = {}
    print(f"\nabout {256 if bench.small else 4096:,} padded tokens, {asked.updates} updates, each of a new shape")
    for way in ways:
        run, _ = bench.updates(way)
        first, *rest = dealt[way]
        spent = timed(bench, partial(run.update, first))  # libraries start, the compiler compiles
        seconds = timed(bench, partial(run.updates, rest))
        rates[way] = sum(batch.count for batch in rest) / seconds
        print(f"  {way.name:42} {rates[way]:10,.0f} target tokens/s, {1000 * seconds / len(rest):7.1f} ms an update; "
              f"the first {spent:.1f} s", flush=True)  # fmt: skip
    rows = [
        row(way, "", "ever new", rate, rate / rates[ways[0]], updates=len(dealt[way]) - 1)
        for way, rate in rates.items()
    ]
    if asked.save:
        append("translation_gpu.csv", rows)


def row(way: Way, size: Any, shapes: str, rate: float, quicker: float, *, updates: int) -> dict[str, object]:
    """A row of the history; the column `marian` belongs to older rows."""
    facts = {"model": way.owner, "how": way.how, "precision": PRECISIONS[way.precision], "shapes": shapes}
    return {"batch": size, "tokens_per_second": round(rate), "ratio": round(quicker, 3), **facts, "updates": updates}


def timed(bench: Bench, call: Callable[[], object]) -> float:
    """Seconds of one call, until the device is done."""
    start = time.perf_counter()
    call()
    if bench.device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


# ── quality ─────────────────────────────────────────────────────────────────────────────────────────────────────────

QUALITY: dict[str, tuple[float, list[str], list[list[str]]]] = {  # the notebooks' BLEU, common settings, those tried
    RECIPE: (
        36.5,
        ["train.seconds=5", "model.dropout=0.1", *SHORT],
        [["train.lr=2e-3"], ["train.lr=3e-3"]],
    ),
    "bahdanau/multi30k_de_en": (
        28.3,
        ["train.seconds=5", "model.dropout=0.3", *SHORT],
        [["train.lr=1e-3"], ["train.lr=2e-3"]],
    ),
}
SMALL_QUALITY = ["train.seconds=1", "train.precision=float32", "train.capture=false", "task.batch_size=16"]


def trainer(recipe: Recipe, task: Translation, device: torch.device) -> Trainer:
    torch.manual_seed(0)
    folder = Path(tempfile.mkdtemp())
    return Trainer(build_model(recipe, task), task, recipe.train, folder, World(device=device), False, None)


def gate_recipe(recipe: Recipe, task: Translation, device: torch.device) -> None:
    """The step that trains, captured, beside the eager one in the same precision, both against float64."""
    batch = next(task.batches(seed=0)).to(device)
    settings = replace(recipe.train, ema=None)
    kinds = {"exact": replace(settings, capture=False, precision="float32")}
    kinds |= {"eager": replace(settings, capture=False), "as trained": settings}
    found: dict[str, Results] = {}
    for name, changed in kinds.items():
        torch.manual_seed(0)
        model = build_model(change(recipe, ["model.dropout=0"]), task).train()  # cuDNN wants training for gradients
        run = Updates(model.double() if name == "exact" else model, task, changed, device)
        run.update(batch)
        found[name] = {"gradients": run.gradients()}
    rounding = ROUNDING[settings.precision]
    errors = check_results({"as trained": found["as trained"]}, eager=found["eager"], exact=found["exact"],
                           rounding=rounding)  # fmt: skip
    print(describe(errors), flush=True)


def quality(asked: argparse.Namespace, device: torch.device) -> None:
    """Train with each of the settings; val chooses, test2016 is looked at once."""
    test = "test" if asked.small else "test2016"
    for name, (mark, common, tried) in QUALITY.items():
        more = [*(setting for setting in SMALL if "model." not in setting), "model.hidden_dim=32", *SMALL_QUALITY]
        start = time.perf_counter()
        base = change(RECIPES[name](), [*FOREVER, *common, *(more if asked.small else [])])
        task = Translation(base.task)
        task.codecs  # noqa: B018  # reads the text
        ready = time.perf_counter() - start
        print(f"\n{name}: data {ready:.1f} s", flush=True)
        gate_recipe(base, task, device)
        best: tuple[float, nn.Module, dict[str, object]] | None = None
        for settings in tried:
            run = trainer(change(base, settings), task, device)
            model = run.run()
            assert run.best is not None
            seconds, capture = run.clock.seconds - run.stepper.preparing, run.stepper.preparing
            print(f"  {' '.join(settings)}: val {run.best:.2f} after {seconds:.1f} s of training, {run.step} steps; "
                  f"capture {capture:.1f} s", flush=True)  # fmt: skip
            if best is None or run.best > best[0]:
                facts = {"seconds": seconds, "steps": run.step, "capture": capture, "settings": " ".join(settings)}
                best = run.best, model, facts
        assert best is not None
        valid, model, facts = best
        score = task.evaluate(model, test).figures["tokenized_bleu"]
        print(f"  {facts['settings']} is best on val; greedy BLEU on {test}: {score:.2f} (mark {mark})", flush=True)
        if asked.save:
            row = {"recipe": name, "bleu": score, "wanted": mark, **facts, "data": ready}
            append("time_to_quality.csv", [{**row, "valid_bleu": valid, "tried": len(tried), "chosen_on": "valid"}])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=["speed", "shapes", "quality", []], default=[])
    parser.add_argument("--sizes", nargs="+", type=int, help="pairs in a batch; 256 and 1,024 unless told")
    parser.add_argument("--updates", type=int, help="batches in a round, 12 unless told")
    parser.add_argument("--rounds", type=int, help="rounds that are timed, 5 unless told")
    parser.add_argument("--modes", nargs="*", default=["default"], help="of torch.compile, for the peer; none: no row")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="a tiny model on the embedded corpus: to try the program")
    parser.add_argument("--no-save", dest="save", action="store_false", help="add nothing to the results")
    asked = parser.parse_args()
    device = torch.device(asked.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SystemExit("this benchmark needs a CUDA device; --device cpu --small tries the program without one")
    asked.sizes = asked.sizes or ([8, 16] if asked.small else [256, 1024])
    asked.updates, asked.rounds = (
        number or default for number, default in ((asked.updates, 3 if asked.small else 12), (asked.rounds, 5))
    )
    parts = asked.parts or ["speed", "shapes", "quality"]
    refusals = Refusals()
    if {"speed", "shapes"} & {*parts}:
        bench = Bench(device, small=asked.small)
        for name, part in (("speed", speed), ("shapes", shapes)):
            if name in parts:
                part(bench, asked)
        refusals = bench.refusals
    if "quality" in parts:
        quality(asked, device)
    refusals.end()


if __name__ == "__main__":
    main()
