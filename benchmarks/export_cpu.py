"""How large are exported models, and how fast do they translate on a CPU, beside our own decoding?

    pip install onnx onnxscript onnxruntime ctranslate2
    python benchmarks/export_cpu.py
    python benchmarks/export_cpu.py --run runs/mine --sentences 100 --threads 1

Before anything is timed, the logits of the ONNX decoder are compared with float64 (gate.py), and the translations with
ours: those of onnxruntime and of CTranslate2 in float32 must be the same for 95 % of the sentences, and those in int8
for 80 %. The shares are printed and kept. All take turns, in batches of the same size, from texts to texts.
"""

import argparse
import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ctranslate2
import torch
from gate import WrongResult, check_results
from timing import append, side_by_side
from torch import Tensor

import regard
from regard.api import Model
from regard.data import BOS, EOS, UNK
from regard.datasets.tatoeba_plain import tatoeba_plain
from regard.export import export_model
from regard.export.onnx import plain_copy
from regard.export.run_onnx import OnnxTranslator, pad

LEAST = {"onnxruntime": 0.95, "float32": 0.95, "int8": 0.80}  # shares of translations that must be ours
NEVER = [["<pad>"], ["<bos>"]]
STEPS = 6  # whose logits are compared

Translate = Callable[[], list[str]]


@torch.no_grad()
def same_logits(model: Model, exported: OnnxTranslator, texts: list[str]) -> None:
    """Refuse an ONNX model whose logits are further from float64 than twice the error of ours in float32."""
    source, lengths = pad([[*model.task.codecs[0].encode_text(text), EOS] for text in texts])
    tokens = [torch.full((len(texts),), number) for number in (BOS, *range(UNK + 1, UNK + STEPS))]

    def ours(dtype: torch.dtype) -> list[Tensor]:
        module = plain_copy(model.module).to(dtype)
        state, logits = module.init_state(module.encode(torch.from_numpy(source), torch.from_numpy(lengths))), []
        for words in tokens:
            step = module.step(words, state)
            state = step.state
            logits.append(step.logits)
        return logits

    state, theirs = exported.call("encoder", {"source": source, "lengths": lengths}), []
    for words in tokens:
        outputs = exported.call("decoder", {"tokens": words.numpy(), **state})
        state |= {name: outputs[after] for after, name in exported.spec["graphs"]["decoder"]["carried"].items()}
        theirs.append(torch.from_numpy(outputs["logits"]))
    results = {"onnxruntime": {"logits": theirs}}
    check_results(results, eager={"logits": ours(torch.float32)}, exact={"logits": ours(torch.float64)})


def candidates(model: Model, folder: Path, texts: list[str], asked: argparse.Namespace) -> dict[str, Translate]:
    """What is timed, by name: from texts to texts."""
    exported = OnnxTranslator(export_model(model, "onnx", folder / "onnx"), threads=asked.threads)
    same_logits(model, exported, texts[: asked.batch])
    place = export_model(model, "ctranslate2", folder / "ctranslate2")
    source, target = model.task.codecs
    places = max(len(source.tokens(text)) for text in texts) + 1

    def ours(beams: int) -> Translate:
        settings: dict[str, Any] = {"beam": beams, "length_penalty": 0.0, "batch_tokens": asked.batch * places * beams}
        return lambda: [translation.text for translation in model.translate(texts, **settings)]

    def theirs(kind: str, beams: int) -> Translate:
        translator = ctranslate2.Translator(str(place), compute_type=kind, inter_threads=1, intra_threads=asked.threads)
        options = {
            "beam_size": beams,
            "length_penalty": 0.0,
            "suppress_sequences": NEVER,
            "max_batch_size": asked.batch,
        }

        def run() -> list[str]:
            results = translator.translate_batch([source.tokens(text) for text in texts], **options)
            numbers = ([target._processor.piece_to_id(piece) for piece in each.hypotheses[0]] for each in results)
            return [target.decode_text(ids) for ids in numbers]

        return run

    return {
        "ours, greedy": ours(1),
        "onnxruntime, greedy": lambda: [each.text for each in exported.translate(texts, batch_size=asked.batch)],
        "CTranslate2 float32, greedy": theirs("float32", 1),
        "CTranslate2 int8, greedy": theirs("int8", 1),
        "ours, 5 beams": ours(5),
        "CTranslate2 float32, 5 beams": theirs("float32", 5),
        "CTranslate2 int8, 5 beams": theirs("int8", 5),
    }


def shares(ways: dict[str, Translate]) -> dict[str, float]:
    """The share of translations that are ours with the same search; too few end the program."""
    texts = {name: way() for name, way in ways.items()}
    equal = {}
    for name, translations in texts.items():
        expected = texts[f"ours,{name.partition(',')[2]}"]
        equal[name] = sum(a == b for a, b in zip(translations, expected, strict=True)) / len(expected)
        least = next((share for kind, share in LEAST.items() if kind in name), 1.0)
        if equal[name] < least:
            raise WrongResult(f"{name}: only {equal[name]:.1%} of the translations are ours; nothing was timed")
    return equal


def size_of(folder: Path) -> int:
    """The bytes of all weights in a folder."""
    kinds = (".onnx", ".data", ".bin", ".safetensors")
    return sum(path.stat().st_size for path in folder.rglob("*") if path.suffix in kinds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", default="tatoeba-en-fr", help="a run of the Transformer in sub-words")
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--batch", type=int, default=32, help="sentences at once")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    model, test = regard.load(asked.run, device="cpu"), tatoeba_plain()["test"].source
    texts = test[:: max(1, len(test) // asked.sentences)][: asked.sentences]
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        ways = candidates(model, folder, texts, asked)
        equal = shares(ways)
        export_model(model, "transformers", folder / "transformers")
        seconds = side_by_side(ways, rounds=asked.rounds, warm_up=1)
        sizes = {format: size_of(folder / format) for format in ("onnx", "ctranslate2", "transformers")}
    rows: list[dict[str, object]] = []
    print(f"{len(texts)} sentences, {asked.threads} threads, batches of {asked.batch}; load before {load:.1f}")
    for name, times in seconds.items():
        median = statistics.median(times)
        rows.append({
            "case": name, "sentences": len(texts), "batch": asked.batch, "equal": f"{equal[name]:.3f}",
            "seconds": f"{median:.3f}", "sentences_per_second": f"{len(texts) / median:.1f}", "load": f"{load:.1f}",
        })  # fmt: skip
        print(f"{name:30} {median:7.3f} s   {len(texts) / median:7.1f} sentences/s   {equal[name]:6.1%} ours")
    for name, size in sizes.items():
        rows.append({"case": f"size of {name}", "bytes": size})
        print(f"{name:30} {size / 1e6:7.1f} MB")
    print(f"added to {append('export_cpu.csv', rows)}")


if __name__ == "__main__":
    main()
