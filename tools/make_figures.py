"""Draw the pictures of the documents that come from results and from runs.

    python tools/make_figures.py                BLEU by length on Europarl, as in Bahdanau's figure 2; time and memory
                                                of additive attention by length, from benchmarks/results
    python tools/make_figures.py runs/ram_mini  an example of each run: docs/images/ram_mini.png, and .gif if it moves
    python tools/make_figures.py --learning runs/ntm_*_0
                                                bits a sequence of Turing machines and LSTMs while they learn, a panel a
                                                problem: docs/images/ntm_learning.png

The alignment beside the first is drawn by the trained model itself; docs/papers/bahdanau.md has the command.
"""

import argparse
import csv
import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from regard import api
from regard.tasks.translation import length_points
from regard.viz import animate, can_move, draw, length_curves, save
from regard.viz.curves import COLOURS, DASHES, INK, RULE, SOFT

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
RESULTS = ROOT / "src" / "regard" / "recipes" / "results"
RUNS = {"RNNsearch": "bahdanau_europarl_en_fr", "without attention": "encoder_decoder_europarl_en_fr"}
SPLITS = {"test": "Europarl, English to French", "newstest2014": "newstest2014: the same models, out of their domain"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--split", default="test")
    parser.add_argument("--number", type=int, help="which example (default: the first that a report shows)")
    parser.add_argument("--learning", action="store_true", help="the runs are drawn as curves of learning")
    asked = parser.parse_args()
    if asked.learning:
        print(save(learning(asked.runs), IMAGES / "ntm_learning.png"))
        return
    for run in asked.runs:
        example(run, asked.split, asked.number)
    if not asked.runs:
        lengths()
        costs()


def example(run: Path, split: str, number: int | None) -> None:
    """One example of a run, under the name of its folder."""
    model = api.load(run)
    numbers = api.chosen(model, split, 1) if number is None else [number]
    (shown,) = api.examples(model, split, numbers)
    explanations = api.explanations_of(model, shown.prediction)
    for explanation in explanations[:1]:
        print(save(draw(explanation), IMAGES / f"{model.name}.png"))
        if can_move(explanation):
            print(animate(explanation, IMAGES / f"{model.name}.gif"))
    if not explanations:  # what belongs to the whole run, such as gates
        with tempfile.TemporaryDirectory() as folder:
            for path in api.draw_examples(model, split, Path(folder), samples=0):
                print(shutil.copy(path, IMAGES / f"{model.name}_{path.name}"))


def learning(runs: Sequence[Path]) -> Figure:
    """Bits a sequence over the sequences that were seen, a panel a problem: Turing machines beside LSTMs."""
    panels: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for run in runs:
        recipe = json.loads((run / "recipe.json").read_text(encoding="utf-8"))
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        batch = recipe["task"]["batch_size"]
        points = [(line["step"] * batch / 1000, line["loss"]) for line in lines if line["kind"] == "train"]
        kind = "LSTM" if recipe["paper"] == "ntm_lstm" else "Turing machine"
        panels.setdefault(recipe["task"]["problem"], {}).setdefault(kind, points)
    figure = Figure(figsize=(3.2 * len(panels), 3.2), layout="constrained")
    for ax, (problem, curves) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        for place, (kind, points) in enumerate(sorted(curves.items(), reverse=True)):
            ax.plot(*zip(*points, strict=True), color=COLOURS[place], linestyle=DASHES[place], label=kind)
        ax.set_title(problem.replace("_", " "), color=INK)
        ax.set_xlabel("thousands of sequences", color=INK)
        ax.set_ylim(bottom=0)
        ax.grid(color=RULE)
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("bits a sequence", color=INK)
    figure.axes[0].legend(frameon=False)
    return figure


def lengths() -> None:
    """BLEU by length of the source, with and without attention."""
    figure = Figure(figsize=(11, 4))
    for ax, (split, title) in zip(figure.subplots(1, len(SPLITS), sharey=True), SPLITS.items(), strict=True):
        curves = {}
        for label, name in RUNS.items():
            run = json.loads((RESULTS / f"{name}.json").read_text())["runs"][0]
            curves[label] = length_points(run["splits"][split])
        length_curves(curves, ax=ax, title=title)
    print(save(figure, IMAGES / "europarl_lengths.png"))


def costs() -> None:
    """Time and memory of additive attention by length, forward and backward, in the last run of the benchmark."""
    with open(ROOT / "benchmarks" / "results" / "attention_gpu.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["part"] == "length"]
    last = {int(row["size"].split("x")[2]): row for row in rows if row["date"] == rows[-1]["date"]}
    heads, width = (int(rows[-1]["size"].split("x")[place]) for place in (1, 3))
    x = sorted(last)
    written = [heads * length**2 * width * 4 / 2**30 for length in x]
    pairs = [float(last[x[-1]]["both"]) * (length / x[-1]) ** 2 for length in x]
    figure = Figure(figsize=(11, 4), layout="constrained")
    for ax, key, other, name, label in zip(
        figure.subplots(1, 2), ("both", "both_gib"), (pairs, written), ("length²", "one tensor [q k a]"),
        ("milliseconds, forward and backward", "GiB beyond the inputs"), strict=True,
    ):  # fmt: skip
        ax.plot(x, [float(last[length][key]) for length in x], "o-", color=COLOURS[0], label="fused, measured")
        ax.plot(x, other, "--", color=SOFT, label=name)
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.set_xticks(x, [f"{length:,}" for length in x], fontsize=8)
        ax.set_xlabel("length", color=INK)
        ax.set_ylabel(label, color=INK)
        ax.grid(color=RULE)
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False)
    print(save(figure, IMAGES / "additive_lengths.png"))


if __name__ == "__main__":
    main()
