"""How captions of a run are best searched: figures of several searches, on the validation set unless told.

    python tools/tune_search.py runs/show_attend_tell_flickr8k_soft 5:1 10:0 20:0 20:0.5

A search is BEAMS:LENGTH_PENALTY, or BEAMS:LENGTH_PENALTY:CONSENSUS. The captions of each go to FOLDER, if one is named.
"""

import argparse
from dataclasses import replace
from pathlib import Path

from regard import api
from regard.tasks import Captioning, Search


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("searches", nargs="+")
    parser.add_argument("--split", default="valid")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--meteor", action="store_true", help="METEOR 1.5 too, which needs Java and takes long")
    asked = parser.parse_args()
    model = api.load(asked.run)
    if not isinstance(model.task, Captioning):
        raise SystemExit(f"{asked.run} writes no captions")
    metrics = ("bleu", "cider", "meteor_exact_stem", *(["meteor"] if asked.meteor else []))
    model.task.config = replace(model.task.config, metrics=metrics)
    for text in asked.searches:
        beams, penalty, *agreed = text.split(":")
        how = Search(int(beams), length_penalty=float(penalty), consensus=float(agreed[0]) if agreed else None)
        score = model.task.evaluate(model.module, asked.split, how, full=True)
        found = score.figures
        bleu = " / ".join(f"{found[f'bleu_{n}']:.2f}" for n in (1, 2, 3, 4))
        more = {"bleu_4_brevity": "with penalty", "cider": "CIDEr-D", "meteor_exact_stem": "METEOR, exact and stem",
                "meteor": "METEOR", "words": "words"}  # fmt: skip
        rest = ", ".join(f"{name} {found[key]:.2f}" for key, name in more.items() if key in found)
        print(f"{asked.split} {text}: {bleu}, {rest}", flush=True)
        if asked.folder is not None:
            asked.folder.mkdir(parents=True, exist_ok=True)
            name = f"{asked.run.name}_{asked.split}_{text.replace(':', '_')}.txt"
            (asked.folder / name).write_text("\n".join(score.details["outputs"]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
