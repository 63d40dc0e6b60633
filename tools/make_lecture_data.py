"""Write the explanations that the lecture of the studio draws: src/regard/studio/static/lecture/data/*.json.

    python tools/make_lecture_data.py               train the small models in a temporary folder, then write all files
    python tools/make_lecture_data.py --runs FOLDER take runs that are there already, and train what is missing

The shipped translator makes the matrices and the concepts. The others come from small trainings on generated or
embedded data, which took eleven minutes on two busy cores together, most of them for RNNsearch. The two tables are
read from the pages and from benchmarks/results. Every file says what made it.
"""

import argparse
import csv
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import regard
from regard.api import Model, explanations_of
from regard.api.examples import examples
from regard.base import write_atomically

ROOT = Path(__file__).parents[1]
DATA = ROOT / "src" / "regard" / "studio" / "static" / "lecture" / "data"
MADE_BY = "python tools/make_lecture_data.py"
TABLE = "`make demo` ends like this"
SENTENCE, CONCEPTS = "I lost my keys.", "The black cat sleeps on the sofa."
RUNS = {  # name → recipe, settings
    "rnnsearch": ("bahdanau/plain_en_fr", ["train.steps=900"]),
    "ram": ("ram/mini", []),
    "captions": ("show_attend_tell/shapes", []),
    "memory": ("memn2n/smoke", []),
    "reading": ("self_attentive/smoke", []),
    "graph": ("gat/smoke", []),
    "machine": ("ntm/smoke", []),
}


def command(name: str) -> list[str]:
    """The training of one run, without its folder."""
    recipe, settings = RUNS[name]
    return ["regard", "train", recipe, *(["--set", *settings] if settings else [])]


def trained(folder: Path, name: str) -> Model:
    """A run of the folder, trained if it is not there."""
    path = folder / name
    if not (path / "recipe.json").exists():
        print(*command(name), flush=True)
        subprocess.run(
            [sys.executable, "-m", *command(name), "--out", str(path)], check=True, stdout=subprocess.DEVNULL
        )
    return regard.load(str(path))


def of_split(model: Model, numbers: list[int]) -> list[dict[str, Any]]:
    """Explanations of examples of the test split."""
    made = examples(model, "test", numbers)
    return [each.to_json() for example in made for each in explanations_of(model, example.prediction)]


def shipped() -> dict[str, list[dict[str, Any]]]:
    """What the shipped translator attends to: from word to word, by layer and head, and inside its encoder."""
    model = regard.load("tatoeba-en-fr")
    prediction = model.translate(SENTENCE)
    return {
        "translation": [each.to_json() for each in prediction.explanations],
        "heads": [each.to_json() for each in model.layers(prediction) if "cross" in each.layer],
        "concepts": [model.concepts(CONCEPTS).to_json()],
    }


def demo_table() -> dict[str, Any]:
    """BLEU by length with and without attention, from the table of `make demo` on one of the pages."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    text = next((text for page in pages if TABLE in (text := page.read_text(encoding="utf-8"))), "")
    rows = re.findall(r"^ +(\d+–\d+|\d+\+|all) +(\d+) +([\d.]+) +([\d.]+) +([\d.]+)$", text, re.MULTILINE)
    where = re.search(re.escape(TABLE) + r" \((.*?)\)", text, re.DOTALL)
    if len(rows) != 5 or where is None:
        raise SystemExit("no page has the table of the demo any more: look at demo_table in this file")
    table = [
        {
            "words": words,
            "sentences": int(sentences),
            "with": float(with_),
            "without": float(without),
            "gap": float(gap),
        }
        for words, sentences, with_, without, gap in rows
    ]
    return {"command": "make demo", "machine": " ".join(where[1].split()), "rows": table}


def costs() -> dict[str, Any]:
    """The exponents of the table of costs, newest rows of benchmarks/results/complexity.csv."""
    with (ROOT / "benchmarks" / "results" / "complexity.csv").open(newline="") as file:
        rows = {row["layer"]: row for row in csv.DictReader(file)}
    first = next(iter(rows.values()))
    machine = f"{first['device']}, torch {first['torch'].partition('+')[0]}, {first['date']}"
    table = [
        {"layer": row["layer"], "theory": row["theory"]}
        | {axis: round(float(row[axis]), 2) for axis in ("n", "d", "k", "r") if row[axis]}
        for row in rows.values()
    ]
    return {"command": "python benchmarks/complexity.py", "machine": machine, "rows": table}


def write(name: str, content: dict[str, Any]) -> int:
    """One file; gives its size."""
    text = json.dumps({"made_by": MADE_BY, **content}, ensure_ascii=False, separators=(",", ":")) + "\n"
    write_atomically(DATA / f"{name}.json", text)
    return len(text.encode())


def main() -> None:
    """Write every file, and print its size."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=Path, help="a folder of runs, by the names in RUNS")
    parser.add_argument("--only", nargs="+", help="these files alone, such as ram; all, unless told")
    asked = parser.parse_args()
    DATA.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.runs or Path(temporary)
        jobs: dict[str, Callable[[], dict[str, Any]]] = {"bleu_by_length": demo_table, "costs": costs}
        for name, explanations in shipped().items():
            jobs[name] = lambda e=explanations: {"from": 'regard.load("tatoeba-en-fr")', "explanations": e}
        for name, numbers in NUMBERS.items():
            jobs[name] = lambda n=name, which=numbers: {
                "from": " ".join(command(n)),
                "explanations": of_split(trained(folder, n), which) if which else _translated(trained(folder, n)),
            }
        sizes = {name: write(name, make()) for name, make in jobs.items() if not asked.only or name in asked.only}
    print(*(f"{name}: {size:,} bytes" for name, size in sizes.items()), f"all: {sum(sizes.values()):,}", sep="\n")


def _translated(model: Model) -> list[dict[str, Any]]:
    return [each.to_json() for each in explanations_of(model, model.translate(SENTENCE))]


NUMBERS: dict[str, list[int]] = {  # examples of the test split; none: the sentence is translated
    "rnnsearch": [], "ram": [3, 19, 27], "captions": [0, 50], "memory": [8, 3], "reading": [17, 23], "graph": [0, 1],
    "machine": [36],
}  # fmt: skip

if __name__ == "__main__":
    main()
