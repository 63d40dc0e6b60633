"""The tables of docs/planning.md: time, memory, checkpoints, input and failures of trainings beyond one GPU.

    python tools/plan_training.py                            # the tables of the page
    python tools/plan_training.py --set mfu=0.35 network=25e9 corpus_pairs=2e7
    python tools/plan_training.py --list                     # every input: its value, its unit, where it is from
    python tools/plan_training.py --measure                  # measures the inputs of this machine's processor anew

Every figure is computed from the inputs below by the formula that stands beside it. Inputs are measured, counted,
published, taken from a data sheet, or assumed; `--list` says which.
"""

import argparse
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
GPUS = (8, 64, 512)
MODELS = ("small", "base", "big")


@dataclass(frozen=True)
class Input:
    value: float
    unit: str
    origin: str


INPUTS: dict[str, Input] = {
    # the models
    "small_parameters": Input(6.0e6, "parameters", "counted: transformer/multi30k_de_en"),
    "base_parameters": Input(63_082_496, "parameters", "counted: transformer_base, 37,000 joint units"),
    "big_parameters": Input(214_245_376, "parameters", "counted: transformer_big, 37,000 joint units"),
    "small_rate": Input(818_147, "target tokens a second a GPU", "measured: H200, captured, autocast, docs/speed.md"),
    "small_eager": Input(541_424, "target tokens a second", "measured: H200, eager, autocast, docs/speed.md"),
    "small_pairs": Input(1024, "pairs an update", "of this measurement"),
    "small_length": Input(14, "target tokens a pair", "counted: Multi30k in words, with <eos>"),
    "small_layers": Input(6, "layers, encoder and decoder", "counted"),
    "large_layers": Input(12, "layers, encoder and decoder, of base and big", "counted"),
    "mfu": Input(0.2, "share of the peak", "assumed for base and big"),
    "peak": Input(989e12, "operations a second", "data sheet: H200, bfloat16 without sparsity"),
    "small_activations": Input(1.007e5, "bytes a target token", "measured on a CPU"),
    "base_activations": Input(4.723e5, "bytes a target token", "measured on a CPU"),
    "big_activations": Input(8.704e5, "bytes a target token", "measured on a CPU"),
    "small_units": Input(8000, "units of the vocabulary", "counted"),
    "large_units": Input(37_000, "units of the vocabulary, of base and big", "counted"),
    # the data
    "corpus_pairs": Input(4.5e6, "pairs", "published: WMT14 English–German, Vaswani et al. 2017"),
    "times": Input(1000, "times as many pairs", "the second corpus"),
    "pair_tokens": Input(28, "target tokens a pair", "assumed: BPE of 37,000 units"),
    "updates": Input(100_000, "updates", "published: base model, Vaswani et al. 2017"),
    "batch": Input(25_000, "target tokens an update", "published: Vaswani et al. 2017"),
    "largest_batch": Input(400_000, "target tokens an update", "published: Ott et al. 2018, Scaling NMT"),
    "passes": Input(1, "passes over the second corpus", "assumed"),
    # the processor: seconds of one core
    "scan_pair": Input(7.9e-6, "seconds a pair", "measured: first pass over a corpus"),
    "read_pair": Input(6.1e-6, "seconds a pair", "measured: reading and hashing in the second pass"),
    "words_sentence": Input(6.8e-6, "seconds a sentence", "measured: words"),
    "bpe_sentence": Input(7.6e-6, "seconds a sentence", "measured: BPE of 3,500 units"),
    "measured_words": Input(5.5, "words a sentence", "counted: the text of these two"),
    "cut_pair": Input(8.3e-7, "seconds a pair", "measured: a window read and cut into batches"),
    "collate_pair": Input(1.2e-6, "seconds a pair", "measured: a batch made of its rows"),
    "write": Input(5e8, "bytes a second", "assumed: a local disk, and the sha256 of one core"),
    # the machines
    "node": Input(8, "GPUs a node", "assumed"),
    "nvlink": Input(450e9, "bytes a second a GPU, one direction", "data sheet: H200, NVLink 900 GB/s both ways"),
    "network": Input(50e9, "bytes a second a GPU", "data sheet: one 400 Gb/s adapter a GPU"),
    "efficiency": Input(0.7, "share of a link that all-reduce reaches", "assumed"),
    "memory": Input(141e9, "bytes a GPU", "data sheet: H200"),
    "failure": Input(50_700, "GPU hours to a failure", "published: 419 in 54 days on 16,384 GPUs, Llama 3, 2024"),
    "restart": Input(600, "seconds", "assumed: until a lost node is noticed and replaced"),
    "imbalance_8": Input(1.018, "places of the fullest rank by their mean", "measured: batches of 400,000 tokens"),
    "imbalance_64": Input(1.051, "places of the fullest rank by their mean", "measured: batches of 400,000 tokens"),
    "imbalance_512": Input(1.131, "places of the fullest rank by their mean", "measured: batches of 400,000 tokens"),
    "spread": Input(0.02, "share of a step", "assumed: standard deviation of a rank's time for equal work"),
}


class Plan:
    """All that the tables show, each value by its formula."""

    def __init__(self, inputs: dict[str, float]) -> None:
        self.inputs = inputs

    def __getitem__(self, name: str) -> float:
        return self.inputs[name]

    def rate(self, model: str) -> float:
        """Target tokens a second a GPU: measured; or mfu · peak / (6 · parameters)."""
        if model == "small":
            return self["small_rate"]
        return self["mfu"] * self["peak"] / (6 * self[f"{model}_parameters"])

    def launching(self, model: str) -> float:
        """Seconds that an eager update takes at least: those of the small model's, by the number of layers."""
        layers = self["small_layers"] if model == "small" else self["large_layers"]
        return self["small_pairs"] * self["small_length"] / self["small_eager"] / self["small_layers"] * layers

    def computing(self, model: str, gpus: int, batch: float) -> float:
        """Seconds of arithmetic: batch / gpus / rate."""
        return batch / gpus / self.rate(model)

    def compute(self, model: str, gpus: int, batch: float) -> float:
        """Seconds of an update without waiting: its arithmetic, or its launches, if they take longer."""
        return max(self.computing(model, gpus, batch), self.launching(model))

    def all_reduce(self, model: str, gpus: int) -> float:
        """Seconds of the ring: 2 · (gpus − 1) / gpus · 4 bytes · parameters / (efficiency · slowest link)."""
        link = self["nvlink"] if gpus <= self["node"] else self["network"]
        return 2 * (gpus - 1) / gpus * 4 * self[f"{model}_parameters"] / (self["efficiency"] * link)

    def waited(self, model: str, gpus: int, batch: float) -> float:
        """Seconds of it that backward, two thirds of the computation, does not hide."""
        return max(0.0, self.all_reduce(model, gpus) - 2 / 3 * self.compute(model, gpus, batch))

    def straggling(self, gpus: int) -> float:
        """By which factor the slowest of all ranks is later than their mean: imbalance + spread · √(2 ln gpus)."""
        return self[f"imbalance_{gpus}"] + self["spread"] * math.sqrt(2 * math.log(gpus))

    def input_bound(self, gpus: int) -> float:
        """Target tokens a second of all GPUs that one core a rank can feed: every rank cuts all, collates its share."""
        return self["pair_tokens"] / (self["cut_pair"] + self["collate_pair"] / gpus)

    def feeding(self, gpus: int, batch: float) -> float:
        """Seconds of the input of an update: batch / input_bound."""
        return batch / self.input_bound(gpus)

    def step(self, model: str, gpus: int, batch: float) -> float:
        """Seconds of an update: computation · straggling + waiting + input; the loop makes no batch ahead."""
        busy = self.compute(model, gpus, batch) * self.straggling(gpus)
        return busy + self.waited(model, gpus, batch) + self.feeding(gpus, batch)

    def bound(self, model: str, gpus: int, batch: float) -> str:
        """What most of the time of an update goes into."""
        launched = self.launching(model) > self.computing(model, gpus, batch)
        parts = {
            "launches" if launched else "arithmetic": self.compute(model, gpus, batch),
            "all-reduce": self.waited(model, gpus, batch),
            "input": self.feeding(gpus, batch),
        }
        return max(parts, key=lambda name: parts[name])

    def states(self, model: str) -> float:
        """Bytes of weights, gradients and both moments of Adam: 16 a parameter."""
        return 16 * self[f"{model}_parameters"]

    def sharded(self, model: str, gpus: int) -> float:
        """The same by FSDP2: a share of all, and the weights of one layer of twelve, twice, for now and next."""
        return self.states(model) / gpus + 2 * 4 * self[f"{model}_parameters"] / 12

    def activations(self, model: str, gpus: int, batch: float) -> float:
        """Bytes: (activations a token + 8 a unit: the logits in float32, and their gradient) · batch / gpus."""
        units = self["small_units"] if model == "small" else self["large_units"]
        return (self[f"{model}_activations"] + 8 * units) * batch / gpus

    def checkpoint(self, model: str) -> float:
        """Bytes of weights and moments: 12 a parameter."""
        return 12 * self[f"{model}_parameters"]

    def saving(self, model: str) -> float:
        """Seconds that all wait while rank 0 writes: checkpoint / write."""
        return self.checkpoint(model) / self["write"]

    def between_failures(self, gpus: int) -> float:
        """Seconds: failure / gpus."""
        return self["failure"] * 3600 / gpus

    def interval(self, model: str, gpus: int) -> float:
        """Seconds between checkpoints that lose least (Young 1974): √(2 · saving · between failures)."""
        return math.sqrt(2 * self.saving(model) * self.between_failures(gpus))

    def lost(self, model: str, gpus: int) -> float:
        """The share of time for saving, for work done twice and for restarts."""
        between, every = self.between_failures(gpus), self.interval(model, gpus)
        return self.saving(model) / every + (every / 2 + self["restart"]) / between


# ── the tables ──────────────────────────────────────────────────────────────────────────────────────────────────────


def tables(plan: Plan) -> Iterator[str]:
    big_pairs = plan["corpus_pairs"] * plan["times"]
    big_tokens = big_pairs * plan["pair_tokens"] * plan["passes"]
    yield "### Rates"
    yield from table(
        ["model", "parameters", "target tokens a second a GPU", "from"],
        [
            [model, amount(plan[f"{model}_parameters"]), f"{plan.rate(model):,.0f}", INPUTS[origin].origin]
            for model, origin in zip(MODELS, ("small_rate", "mfu", "mfu"), strict=True)
        ],
    )
    for title, batch, tokens in (
        ("The published training of the base model", plan["batch"], plan["updates"] * plan["batch"]),
        ("The same tokens in larger batches", plan["largest_batch"], plan["updates"] * plan["batch"]),
        (f"The corpus {plan['times']:,.0f} times as large", plan["largest_batch"], big_tokens),
    ):
        yield f"### {title}: {amount(tokens)} target tokens, {batch:,.0f} an update"
        rows = []
        for model in MODELS:
            for gpus in GPUS:
                step, busy = plan.step(model, gpus, batch), plan.computing(model, gpus, batch)
                times = (busy, plan.all_reduce(model, gpus), plan.feeding(gpus, batch), step)
                whole = span(tokens / batch * step * (1 + plan.lost(model, gpus)))
                by = plan.bound(model, gpus, batch)
                rows.append(
                    [model, gpus, f"{batch / gpus:,.0f}", *map(milliseconds, times), by, whole, f"{busy / step:.0%}"]
                )
        names = ["model", "GPUs", "tokens a GPU", "arithmetic", "all-reduce", "input", "update", "bound by"]
        names += ["training", "in use"]
        yield from table(names, rows)
    batch = plan["largest_batch"]
    yield f"### Memory of a GPU, of {plan['memory'] / 1e9:,.0f} GB, at {batch:,.0f} target tokens an update"
    rows = []
    for model in MODELS:
        for gpus in GPUS:
            states, needed = plan.states(model), plan.activations(model, gpus, batch)
            parts = math.ceil(needed / (0.9 * plan["memory"] - states))
            rows.append([model, gpus, size(states), size(plan.sharded(model, gpus)), size(needed), parts])
    yield from table(["model", "GPUs", "DDP: states", "FSDP2: states", "activations", "train.accumulate"], rows)
    yield "### Checkpoints and failures"
    rows = [
        [model, gpus, size(plan.checkpoint(model)), f"{plan.saving(model):.1f} s", span(plan.between_failures(gpus)),
         span(plan.interval(model, gpus)), f"{plan.lost(model, gpus):.2%}"]
        for model in MODELS for gpus in GPUS
    ]  # fmt: skip
    names = ["model", "GPUs", "checkpoint", "saved in", "between failures", "best interval", "time lost"]
    yield from table(names, rows)
    yield "### Preparing the data, in processor time of one core"
    rows = []
    for pairs in (plan["corpus_pairs"], big_pairs):
        scan, first = pairs * plan["scan_pair"], pairs * plan["read_pair"]
        longer = plan["pair_tokens"] / plan["measured_words"]  # time of a sentence grows with its words
        units = [first + 2 * pairs * plan[name] * longer for name in ("words_sentence", "bpe_sentence")]
        shards = pairs * (2 * plan["pair_tokens"] * 2 + 8)
        rows.append([amount(pairs), span(scan), *map(span, units), size(shards), f"{pairs / 1024 * 20 / 1e6:,.1f} MB"])
    yield from table(["pairs", "scan", "shards of words", "shards of BPE", "shards on disk", "table of blocks"], rows)
    yield "### Reading, one core a rank"
    rows = [
        [gpus, f"{plan.input_bound(gpus):,.0f}", *(f"{plan.rate(m) * gpus:,.0f}" for m in MODELS),
         size(4 * plan.input_bound(gpus))]
        for gpus in (1, *GPUS)
    ]  # fmt: skip
    wanted = [f"{model} wants" for model in MODELS]
    names = ["GPUs", "target tokens a second at most", *wanted, "read by a rank at most, a second"]
    yield from table(names, rows)


def table(names: list[str], rows: list[list[Any]]) -> Iterator[str]:
    yield ""
    yield "| " + " | ".join(names) + " |"
    yield "|" + "---|" * len(names)
    for row in rows:
        yield "| " + " | ".join(map(str, row)) + " |"
    yield ""


def amount(number: float) -> str:
    for unit, name in ((1e9, "G"), (1e6, "M")):
        if number >= unit:
            return f"{number / unit:,.1f} {name}"
    return f"{number:,.0f}"


def size(number: float) -> str:
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if number >= unit:
            return f"{number / unit:,.1f} {name}"
    return f"{number / 1e3:,.1f} kB"


def span(seconds: float) -> str:
    for unit, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:,.1f} {name}"
    return f"{seconds:,.1f} seconds"


def milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:,.2f} ms"


# ── measuring on this machine: seconds of the processor, so that other work beside it counts less ───────────────────


def measure() -> Iterator[tuple[str, float]]:
    import gzip

    import torch

    from regard.data import BOS, ShardBatches, Shards, ShardWriter, SubwordCodec, WordCodec, tokenize
    from regard.data.scans import scan_corpus, training_pairs
    from regard.datasets import DATASETS
    from regard.models.transformer import Transformer, transformer_base, transformer_big
    from regard.train import save_checkpoint

    torch.set_num_threads(1)
    text = DATASETS["tatoeba_plain"].read(source="en", target="fr")["train"]
    lines = [*text.source, *text.target][:20_000]
    folder = Path(tempfile.mkdtemp())
    pairs = 50_000
    files = [folder / "a.gz", folder / "b.gz"]
    for path, side in zip(files, (text.source, text.target), strict=True):
        with gzip.open(path, "wt", compresslevel=6, encoding="utf-8") as file:
            file.writelines(f"{side[n % len(side)]} {n}\n" for n in range(pairs))
    sides: Any = [files[0]], [files[1]]
    options: Any = {"held_out": lambda size: 2000, "most_held_out": 2000, "sample": 1000}
    scan, _ = scan_corpus(*sides, **options)
    yield "scan_pair", processor(lambda: scan_corpus(*sides, **options)) / pairs
    yield "read_pair", processor(lambda: sum(1 for _ in training_pairs(scan, *sides))) / pairs
    words, bpe = WordCodec.train(lines), SubwordCodec.train(lines, size=3500)
    yield "words_sentence", processor(lambda: [words.encode_text(line) for line in lines]) / len(lines)
    yield "bpe_sentence", processor(lambda: [bpe.encode_text(line) for line in lines]) / len(lines)
    yield "measured_words", sum(len(tokenize(line)) for line in lines) / len(lines)

    count, length = 2**19, int(INPUTS["pair_tokens"].value)
    draw = torch.Generator().manual_seed(0)
    lengths = torch.randint(length // 2, 2 * length - length // 2, (2, count), generator=draw).tolist()
    ids = torch.randint(4, 37_000, (4 * length,), generator=draw).tolist()
    place = folder / "shards"
    place.mkdir()
    with ShardWriter(place, vocabulary=37_000) as writer:
        for source, target in zip(*lengths, strict=True):
            writer.add(ids[:source], ids[:target])
    batches = ShardBatches(Shards(place), max_tokens=25_000)
    next(batches)
    per_window = count / batches.windows
    yield "cut_pair", processor(lambda: batches.cut(1)) / per_window
    rows = batches.cut(2)
    yield "collate_pair", processor(lambda: [batches.collate(each) for each in rows[:200]]) / sum(map(len, rows[:200]))

    with ShardWriter(other := Path(tempfile.mkdtemp()), vocabulary=37_000) as writer:
        for source, target in uneven(2**19):
            writer.add([5] * source, [5] * target)
    wide = ShardBatches(Shards(other), max_tokens=int(INPUTS["largest_batch"].value))
    for gpus in GPUS:
        fullest = [filled(wide, rows, gpus) for rows in wide.cut(0)]
        yield f"imbalance_{gpus}", sum(fullest) / len(fullest)

    for name, config in (("small", None), ("base", transformer_base), ("big", transformer_big)):
        model = Transformer(small_config() if config is None else config(37_000))
        yield f"{name}_activations", activations(model, BOS)
        if name == "base":
            state = {key: value.detach() for key, value in model.state_dict().items()}
            begun = time.perf_counter()
            save_checkpoint(folder / "checkpoints", 1, {"model": state, "optimiser": state}, {})
            saved = sum(path.stat().st_size for path in (folder / "checkpoints").rglob("*.safetensors"))
            yield "write", saved / (time.perf_counter() - begun)


def uneven(pairs: int, mean: float = 28.0) -> Iterator[tuple[int, int]]:
    """Lengths of source and target: log-normal, with a spread of a half; the sides differ by a fifth."""
    import numpy as np

    draw = np.random.default_rng(0)
    target = np.clip(mean * np.exp(draw.normal(0, 0.5, pairs)), 1, 200)
    source = np.clip(target * np.exp(draw.normal(0, 0.2, pairs)), 1, 200)
    return zip(source.astype(int).tolist(), target.astype(int).tolist(), strict=True)


def filled(batches: Any, rows: Any, gpus: int) -> float:
    """The places of the fullest rank of a global batch, padding included, by the mean of all ranks."""
    places = []
    for rank in range(gpus):
        share = rows[rank::gpus]
        sides = batches._window.source_lengths[share], batches._window.target_lengths[share]
        places.append(len(share) * sum(int(side.max(initial=0)) for side in sides))
    return max(places) * gpus / sum(places)


def small_config() -> Any:
    from regard.recipes import RECIPES, change

    sizes = ["model.source_vocabulary=8000", "model.target_vocabulary=8000"]
    return change(RECIPES["transformer/multi30k_de_en"](), sizes).model


def processor(work: Callable[[], object], rounds: int = 3) -> float:
    """The least processor seconds of some rounds."""
    times = []
    for _ in range(rounds):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return min(times)


def activations(model: Any, begin: int, *, rows: int = 8, length: int = 28) -> float:
    """Bytes a target token that autograd keeps for backward under bfloat16 autocast, weights apart."""
    import torch

    from regard.nn import token_loss

    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, int] = {}
    alive: list[Any] = []

    def keep(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
            alive.append(tensor)  # so that no place is used twice
        return tensor

    model.train()
    tokens = torch.randint(4, 8000, (rows, length))
    inputs = torch.cat([torch.full((rows, 1), begin), tokens[:, 1:]], dim=1)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor), torch.autocast("cpu", torch.bfloat16):
        token_loss(model(tokens, torch.full((rows,), length), inputs).logits, tokens, smoothing=0.1, ignore=0)
    weights = sum(parameter.numel() * 2 for parameter in model.parameters())  # copies that autocast makes
    return max(0.0, sum(kept.values()) - weights) / (rows * length)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", nargs="+", default=[], metavar="NAME=VALUE", dest="settings", help="other inputs")
    parser.add_argument("--list", action="store_true", help="the inputs, with their origins")
    parser.add_argument("--measure", action="store_true", help="measure what this machine's processor decides")
    asked = parser.parse_args()
    inputs = {name: each.value for name, each in INPUTS.items()}
    for setting in asked.settings:
        name, equals, value = setting.partition("=")
        if name not in inputs or not equals:
            parser.error(f"unknown input {setting!r}; --list shows all")
        try:
            inputs[name] = float(value)
        except ValueError:
            parser.error(f"{name} is a number, not {value!r}")
        if not 0 < inputs[name] < math.inf:
            parser.error(f"{name} must be more than 0, not {value}")
    if asked.measure:
        for name, measured in measure():
            print(f"{name}={measured:.4g}", flush=True)
    elif asked.list:
        rows = [[name, f"{inputs[name]:,.6g}", each.unit, each.origin] for name, each in INPUTS.items()]
        print(*table(["input", "value", "unit", "origin"], rows), sep="\n")
    else:
        print(*tables(Plan(inputs)), sep="\n")


if __name__ == "__main__":
    main()
