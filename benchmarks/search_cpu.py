"""Beam search on a CPU: ours, `generate` of Hugging Face and CTranslate2, with the same weights, sentences and beam.

    pip install transformers ctranslate2     (peers and not dependencies of regard)
    python benchmarks/search_cpu.py
    python benchmarks/search_cpu.py --threads 1 --processor     # processor seconds, for a machine that others use too
    python benchmarks/search_cpu.py --run runs/mine --sentences 200 --single 20

Both peers get the run through `regard export`. A run with norms after the layers becomes Marian there, one with norms
before them Pegasus, which is the same code with the norms before; the model inside the package is of the second kind.
All go from texts to texts, with 5 beams and no length penalty. Before anything is timed, the logits of our packed
weights are compared with float64 (gate.py), and the translations with those of our plain search: 95 % must be equal
(80 % in int8), and the shares are printed and kept. Each side has the best of several batch sizes, which one pass over
all sentences chooses. Then all take turns, and medians are given. "regard, int8" is what torch's products in int8 would
give us: the library does not offer it.
"""

import argparse
import copy
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ctranslate2
import torch
import transformers
from gate import WrongResult, check_results, describe
from timing import append, ratio, side_by_side
from torch import Tensor

import regard
from regard.api import Model
from regard.data import BOS, EOS, PAD, UNK, collate
from regard.datasets.tatoeba_plain import tatoeba_plain
from regard.export import export_model
from regard.models.packed_transformer import PackedTransformer

BEAMS, STEPS = 5, 6  # steps whose logits are compared
MOST_APART = 2e-5  # of scores in float32
LEAST = {"int8": 0.80}  # shares of translations that must be those of our plain search; of the others, 95 %
NEVER = [["<pad>"], ["<bos>"]]
BATCHES = {"regard": (4096, 8192, 16384), "CTranslate2": (32, 64, 128, 256), "Hugging Face": (32, 64, 128)}

Translate = Callable[[Sequence[str], int], list[str]]  # texts and the size of a batch


def ours(model: Model, impl: str) -> Translate:
    """Our search; its batches are counted in places."""

    def run(texts: Sequence[str], size: int) -> list[str]:
        settings: dict[str, Any] = {"beam": BEAMS, "length_penalty": 0.0, "batch_tokens": size, "impl": impl}
        return [translation.text for translation in model.translate(list(texts), **settings)]

    return run


class Quantised(PackedTransformer):
    """Our packed weights in int8, one scale for each channel, by torch's own dynamic quantisation: made once."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.to_logits = prepacked(*self.to_logits)
        for layer in self.layers:
            for name in ("inner", "query", "inner_output", "cross_output", "widen", "narrow"):
                setattr(layer, name, prepacked(*getattr(layer, name)))

    def _product(self, x: Tensor, weights: Any) -> Tensor:
        product: Tensor = torch.ops.quantized.linear_dynamic(x, weights, False)
        return product

    def _added(self, x: Tensor, y: Tensor, weights: Any) -> Tensor:
        return self._product(y, weights).add_(x)


def prepacked(weight: Tensor, bias: Tensor | None) -> Any:
    """Weights in int8 as torch's products read them."""
    scales, zeros = (weight.detach().abs().amax(1) / 127).double(), torch.zeros(len(weight), dtype=torch.long)
    numbers = torch.quantize_per_channel(weight.detach(), scales.clamp(min=1e-9), zeros, 0, torch.qint8)
    return torch.ops.quantized.linear_prepack(numbers, None if bias is None else bias.detach())


def ours_in_int8(model: Model) -> Translate:
    """Our search with products in int8; the model of this benchmark alone offers it."""
    quantised, plain = Quantised(model.module), model.module.packed
    search = ours(model, "packed")

    def run(texts: Sequence[str], size: int) -> list[str]:
        model.module.packed = lambda: quantised
        try:
            return search(texts, size)
        finally:
            model.module.packed = plain

    return run


def ctranslate2_search(model: Model, folder: Path, kind: str, threads: int) -> Translate:
    """CTranslate2, whose batches are counted in sentences; it sorts them by length itself."""
    translator = ctranslate2.Translator(str(folder), compute_type=kind, inter_threads=1, intra_threads=threads)
    source, target = model.task.codecs

    def run(texts: Sequence[str], size: int) -> list[str]:
        pieces = [source.tokens(text) for text in texts]
        results = translator.translate_batch(
            pieces, beam_size=BEAMS, length_penalty=0.0, suppress_sequences=NEVER, max_batch_size=size
        )
        numbers = ([target._processor.piece_to_id(piece) for piece in each.hypotheses[0]] for each in results)
        return [target.decode_text(ids) for ids in numbers]

    return run


def hugging_face_search(model: Model, folder: Path) -> tuple[str, Translate]:
    """`generate`, with sentences sorted by length; and the name of the class."""
    peer = transformers.AutoModelForSeq2SeqLM.from_pretrained(str(folder)).eval()
    peer.generation_config.max_length = None
    source, target = model.task.codecs
    options = {"num_beams": BEAMS, "do_sample": False, "length_penalty": 0.0, "early_stopping": False}
    options |= {"eos_token_id": EOS, "pad_token_id": PAD, "suppress_tokens": [PAD, BOS]}

    def run(texts: Sequence[str], size: int) -> list[str]:
        ids = [source.encode_text(text) for text in texts]
        order = sorted(range(len(ids)), key=lambda number: len(ids[number]))
        found = [""] * len(ids)
        for start in range(0, len(order), size):
            part = order[start : start + size]
            batch = collate([(ids[number], []) for number in part])
            with torch.inference_mode():
                rows = peer.generate(
                    batch.source, attention_mask=(batch.source != PAD).long(),
                    max_new_tokens=2 * batch.source.shape[1] + 10, **options,
                )  # fmt: skip
            for number, row in zip(part, rows[:, 1:].tolist(), strict=True):
                found[number] = target.decode_text(list(itertools.takewhile(lambda token: token != EOS, row)))
        return found

    return type(peer).__name__, run


@torch.no_grad()
def same_logits(model: Model, texts: Sequence[str]) -> None:
    """Refuse packed weights whose logits are further from float64 than twice the error of the model in float32."""
    batch = collate([(model.task.codecs[0].encode_text(text), []) for text in texts])
    steps = [torch.full((len(texts),), number) for number in (BOS, *range(UNK + 1, UNK + STEPS))]

    def logits(searched: Any) -> dict[str, list[Tensor]]:
        state, found = searched.init_state(searched.encode(batch.source, batch.source_lengths)), []
        for words in steps:
            step = searched.step(words, state)
            state = step.state
            found.append(step.logits)
        return {"logits": found}

    plain = model.module.eval()
    results = {"packed": logits(plain.packed())}
    print(describe(check_results(results, eager=logits(plain), exact=logits(copy.deepcopy(plain).double()))))


def same_scores(model: Model, texts: Sequence[str]) -> None:
    """Refuse packed weights where translations are those of the plain search and their scores are not."""
    found, expected = (
        model.translate(list(texts), beam=BEAMS, length_penalty=0.0, impl=impl) for impl in ("packed", "plain")
    )
    pairs = [(one, other) for one, other in zip(found, expected, strict=True) if one.tokens == other.tokens]
    scores = max(abs(one.score - other.score) for one, other in pairs)
    weights = max(float(abs(one.weights - other.weights).max()) for one, other in pairs)
    print(f"  packed and plain: scores differ by {scores:.1e} at most, weights by {weights:.1e}", flush=True)
    if not scores <= MOST_APART:
        raise WrongResult(f"scores differ by {scores:.1e}; nothing was timed")


def shares(ways: dict[str, Translate], texts: Sequence[str]) -> dict[str, float]:
    """The share of translations that are those of our plain search; too few end the program."""
    expected, equal = ways["regard, plain"](texts, BATCHES["regard"][0]), {}
    for name, way in ways.items():
        size = next(sizes[0] for side, sizes in BATCHES.items() if name.startswith(side))
        equal[name] = sum(a == b for a, b in zip(way(texts, size), expected, strict=True)) / len(expected)
        print(f"  {name}: {equal[name]:.1%} of the translations are those of our plain search", flush=True)
        least = next((share for kind, share in LEAST.items() if kind in name), 0.95)
        if not equal[name] >= least:
            raise WrongResult(f"{name}: only {equal[name]:.1%} of the translations are ours; nothing was timed")
    return equal


def best_size(name: str, way: Translate, texts: Sequence[str], clock: Callable[[], float]) -> int:
    """The size of a batch with which one pass is quickest."""
    seconds = {}
    for size in next(sizes for side, sizes in BATCHES.items() if name.startswith(side)):
        start = clock()
        way(texts, size)
        seconds[size] = clock() - start
    best = min(seconds, key=seconds.__getitem__)
    print(f"  {name}: {', '.join(f'{size}: {each:.1f} s' for size, each in seconds.items())}", flush=True)
    return best


def measured(
    case: str,
    ways: dict[str, Callable[[], object]],
    equal: dict[str, float],
    count: int,
    peer: str,
    asked: argparse.Namespace,
) -> list[dict[str, object]]:
    """A row for each way: seconds, and how often the speed of Hugging Face and of CTranslate2 in float32."""
    seconds = side_by_side(ways, rounds=asked.rounds, warm_up=1, clock=clock_of(asked))
    rows: list[dict[str, object]] = []
    for name, times in seconds.items():
        against = {f"times_{other}": f"{ratio(seconds[key], times):.2f}"
                   for other, key in (("hugging_face", peer), ("ctranslate2", "CTranslate2, float32"))}  # fmt: skip
        median = statistics.median(times)
        rows.append({
            "case": case, "way": name, "sentences": count, "threads": asked.threads,
            "clock": "processor" if asked.processor else "wall", "seconds": f"{median:.3f}",
            "sentences_per_second": f"{count / median:.1f}", **against, "equal": f"{equal[name]:.3f}",
            "load": f"{os.getloadavg()[0]:.1f}", "run": asked.run,
        })  # fmt: skip
        print(f"{case:16} {name:34} {median:8.3f} s  {' '.join(against.values())}  {equal[name]:.1%}", flush=True)
    return rows


def clock_of(asked: argparse.Namespace) -> Callable[[], float]:
    """The clock that is asked for."""
    return time.process_time if asked.processor else time.perf_counter


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", default="tatoeba-en-fr", help="a run of the Transformer in sub-words")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--single", type=int, default=50, help="sentences that are translated one by one")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--processor", action="store_true", help="processor seconds, not those of the clock")
    parser.add_argument("--no-save", action="store_true", help="do not add to results/search_cpu.csv")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    model, test = regard.load(asked.run, device="cpu"), tatoeba_plain()["test"].source
    texts = test[:: max(1, len(test) // asked.sentences)][: asked.sentences]
    single = texts[:: max(1, len(texts) // asked.single)][: asked.single]
    with tempfile.TemporaryDirectory() as temporary:
        small, folder = Path(temporary) / "ctranslate2", Path(temporary) / "transformers"
        export_model(model, "ctranslate2", small)
        export_model(model, "transformers", folder)
        kind, generate = hugging_face_search(model, folder)
        peer = f"Hugging Face, {kind}"
        ways = {"regard": ours(model, "auto"), "regard, plain": ours(model, "plain")}
        ways |= {"regard, int8": ours_in_int8(model), peer: generate}
        ways |= {f"CTranslate2, {how}": ctranslate2_search(model, small, how, asked.threads)
                 for how in ("float32", "int8")}  # fmt: skip
        print(f"{asked.run}, {len(texts)} sentences, beam {BEAMS}, {asked.threads} threads", flush=True)
        same_logits(model, texts[:32])
        same_scores(model, texts)
        equal = shares(ways, texts)
        print("sizes of batches, one pass each", flush=True)
        sizes = {name: best_size(name, way, texts, clock_of(asked)) for name, way in ways.items()}
        whole = {name: lambda way=way, name=name: way(texts, sizes[name]) for name, way in ways.items()}
        rows = measured(f"{len(texts)} sentences", whole, equal, len(texts), peer, asked)
        one = {
            name: lambda way=way, name=name: [way([text], 1 if name[0] != "r" else 4096) for text in single]
            for name, way in ways.items()
        }
        rows += measured("one by one", one, equal, len(single), peer, asked)
    rows = [{**row, "batch": sizes[str(row["way"])] if row["case"] != "one by one" else 1} for row in rows]
    if not asked.no_save:
        print(f"added to {append('search_cpu.csv', rows)}")


if __name__ == "__main__":
    main()
