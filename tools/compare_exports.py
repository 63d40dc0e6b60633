"""Export translators to ONNX, and count the held-out sentences that they translate as our greedy search does.

    python tools/compare_exports.py tatoeba-en-fr rnnsearch-en-fr runs/luong_small_en_fr --sentences 200

Names are those of runs or of models that ship; the sentences are the first ones of `tatoeba_small`, in the package.
"""

import argparse
import tempfile
from pathlib import Path

import regard
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--sentences", type=int, default=200)
    asked = parser.parse_args()
    texts = list(dict.fromkeys(tatoeba_small().source))[: asked.sentences]
    for name in asked.models:
        print(f"{name}: {same(name, texts)} of {len(texts)} the same", flush=True)


if __name__ == "__main__":
    main()
