"""Export translators and compare them with ours on held-out sentences.

    python tools/compare_exports.py tatoeba-en-fr rnnsearch-en-fr runs/luong_small_en_fr --sentences 200
    python tools/compare_exports.py tatoeba-en-fr --to transformers --sentences 1000

To ONNX it counts the sentences that are translated as our greedy search does. To transformers it compares the logits of
every word, in float32, by both ways of attention and in batches of several sizes; `float64` is how far our own logits
are from those of the same weights in float64.

Names are those of runs or of models that ship; the sentences are the first ones of `tatoeba_small`, in the package.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch

import regard
from regard.data import PAD, collate
from regard.datasets.tatoeba_small import tatoeba_small
from regard.export import export_model
from regard.export.run_onnx import load


def same(name: str, texts: list[str]) -> int:
    """How many of the texts the exported model translates as ours does."""
    model = regard.load(name, device="cpu")
    with tempfile.TemporaryDirectory() as folder:
        exported = load(export_model(model, "onnx", Path(folder) / "model"))
        theirs = exported.translate(texts, batch_size=50)
    return sum(one.text == other.text for one, other in zip(theirs, model.translate(texts, beam=1), strict=True))


def compare_logits(name: str, sentences: int) -> None:
    """Print the largest difference of logits, and how many are equal to the last bit."""
    from transformers import AutoModelForSeq2SeqLM

    model, pairs = regard.load(name, device="cpu"), tatoeba_small()
    source, target = model.task.codecs
    texts = zip(pairs.source[:sentences], pairs.target[:sentences], strict=True)
    numbers = [(source.encode_text(one), target.encode_text(other)) for one, other in texts]
    with tempfile.TemporaryDirectory() as folder:
        exported = export_model(model, "transformers", Path(folder) / "model")
        for attention in ("sdpa", "eager"):
            theirs = AutoModelForSeq2SeqLM.from_pretrained(exported, attn_implementation=attention).eval()
            for size in (1, 7, 40):
                count, equal, largest, rounding = 0, 0, 0.0, 0.0
                for start in range(0, len(numbers) if size > 1 else len(numbers) // 10, size):
                    batch = collate(numbers[start : start + size])
                    ours, other, exact = _logits(model.module, theirs, batch)
                    difference = (other - ours).abs()
                    count, equal = count + ours.numel(), equal + int((difference == 0).sum())
                    largest = max(largest, float(difference.max()))
                    rounding = max(rounding, float((ours - exact).abs().max()))
                print(
                    f"{name}, {theirs.config.model_type}, {attention}, batches of {size}: largest difference "
                    f"{largest:.1e}, {100 * equal / count:.1f} % of {count:,} equal to the last bit; "
                    f"ours to float64 {rounding:.1e}",
                    flush=True,
                )


@torch.no_grad()
def _logits(module: Any, theirs: Any, batch: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Logits of the words that are there: ours, theirs, and ours in float64."""
    inputs, real = (batch.source, batch.source_lengths, batch.inputs), batch.inputs != PAD
    mask = (torch.arange(batch.source.shape[1]) < batch.source_lengths.unsqueeze(1)).long()
    other = theirs(input_ids=batch.source, attention_mask=mask, decoder_input_ids=batch.inputs).logits[real]
    ours = module.float()(*inputs).logits[real]
    exact = module.double()(*inputs).logits[real]
    module.float()
    return ours, other[:, : ours.shape[1]], exact


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--to", choices=["onnx", "transformers"], default="onnx")
    asked = parser.parse_args()
    if asked.to == "transformers":
        for name in asked.models:
            compare_logits(name, asked.sentences)
        return
    texts = list(dict.fromkeys(tatoeba_small().source))[: asked.sentences]
    for name in asked.models:
        print(f"{name}: {same(name, texts)} of {len(texts)} the same", flush=True)


if __name__ == "__main__":
    main()
