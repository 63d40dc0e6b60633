"""Draw the pictures of the documents that come from results: BLEU by length on Europarl, as in Bahdanau's figure 2.

    python tools/make_figures.py

The alignment beside it is drawn by the trained model itself; docs/papers/bahdanau.md has the command.
"""

import json
from pathlib import Path

from matplotlib.figure import Figure

from regard.api import length_curve
from regard.viz import length_curves, save

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "src" / "regard" / "recipes" / "results"
RUNS = {"RNNsearch": "bahdanau_europarl_en_fr", "without attention": "encoder_decoder_europarl_en_fr"}
SPLITS = {"test": "Europarl, English to French", "newstest2014": "newstest2014: the same models, out of their domain"}


def main() -> None:
    figure = Figure(figsize=(11, 4))
    for ax, (split, title) in zip(figure.subplots(1, len(SPLITS), sharey=True), SPLITS.items(), strict=True):
        curves = {}
        for label, name in RUNS.items():
            run = json.loads((RESULTS / f"{name}.json").read_text())["runs"][0]
            curves[label] = length_curve(run["splits"][split])
        length_curves(curves, ax=ax, title=title)
    print(save(figure, ROOT / "docs" / "images" / "europarl_lengths.png"))


if __name__ == "__main__":
    main()
