"""Rewrite the table of the 20 bAbI tasks in docs/papers/memn2n.md: published errors, and ours where there are any.

    python tools/make_babi_table.py            rewrite it
    python tools/make_babi_table.py --check    change nothing; exit status 1 if it is stale

Ours are read from src/regard/recipes/results: `memn2n_babi.json` holds the tasks alone, as join_rows.py joins them,
`memn2n_babi_joint.json` and `memn2n_babi_10k.json` are joint. Where restarts were chosen from, the chosen one is shown.
A column without results is left out, and so is a mean of ours over tasks that were not all measured.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from regard.base import write_atomically
from regard.recipes import entry

PAGE = Path(__file__).parents[1] / "docs" / "papers" / "memn2n.md"
START, END = "<!-- babi: made by tools/make_babi_table.py -->", "<!-- end babi -->"
TASKS = (
    "one supporting fact", "two supporting facts", "three supporting facts", "two-argument relations",
    "three-argument relations", "yes or no", "counting", "lists and sets", "negation", "indefinite knowledge",
    "coreference", "conjunction", "compound coreference", "time", "deduction", "induction", "positions", "sizes",
    "paths", "motivations",
)  # fmt: skip
PUBLISHED = {  # errors in % of Sukhbaatar et al. 2015, tasks 1 to 20
    "BoW": (0.6, 17.6, 71.0, 32.0, 18.3, 8.7, 23.5, 11.4, 21.1, 22.8, 4.1, 0.3, 10.5, 1.3, 24.3, 52.0, 45.4, 48.1, 89.7,
            0.1),
    "PE": (0.1, 21.6, 64.2, 3.8, 14.1, 7.9, 21.6, 12.6, 23.3, 17.4, 4.3, 0.3, 9.9, 1.8, 0.0, 52.1, 50.1, 13.6, 87.4,
           0.0),
    "PE LS RN": (0.0, 8.3, 40.3, 2.8, 13.1, 7.6, 17.3, 10.0, 13.2, 15.1, 0.9, 0.2, 0.4, 1.7, 0.0, 1.3, 51.0, 11.1, 82.8,
                 0.0),
    "joint, 1 hop": (0.8, 62.0, 76.9, 22.8, 11.0, 7.2, 15.9, 13.2, 5.1, 10.6, 8.4, 0.4, 6.3, 36.9, 46.4, 47.4, 44.4,
                     9.6, 90.7, 0.0),
    "joint, 2 hops": (0.0, 15.6, 31.6, 2.2, 13.4, 2.3, 25.4, 11.7, 2.0, 5.0, 1.2, 0.0, 0.2, 8.1, 0.5, 51.3, 41.2, 10.3,
                      89.9, 0.1),
    "joint, 3 hops": (0.0, 11.4, 21.9, 13.4, 14.4, 2.8, 18.3, 9.3, 1.9, 6.5, 0.3, 0.1, 0.2, 6.9, 0.0, 2.7, 40.4, 9.4,
                      88.0, 0.0),
    "10k joint": (0.0, 1.0, 6.8, 0.0, 6.1, 0.1, 6.6, 2.7, 0.0, 0.5, 0.0, 0.1, 0.0, 0.0, 0.2, 0.2, 41.8, 8.0, 75.7, 0.0),
}  # fmt: skip
OURS = {
    "BoW": "memn2n/babi_bow",
    "PE": "memn2n/babi_pe",
    "PE LS RN": "memn2n/babi",
    "joint, 3 hops": "memn2n/babi_joint",
    "10k joint": "memn2n/babi_10k",
}
Entry = Callable[[str], Mapping[str, Any] | None]


def ours(name: str, task: int, find: Entry) -> float | None:
    """Our error on a task, of the chosen restart or the mean of all seeds; None where it was not measured."""
    content = find(name)
    if content is None:
        return None
    value = content["summary"]["test"].get(f"error_{task}")
    return None if value is None else float(value.get("chosen", value["mean"]))


def table(find: Entry = entry) -> str:
    """Markdown: a row for each task, and the mean."""
    columns: list[tuple[str, list[float | None]]] = []
    for label, errors in PUBLISHED.items():
        columns.append((label, list(errors)))
        if label in OURS:
            measured = [ours(OURS[label], task, find) for task in range(1, 21)]
            if any(error is not None for error in measured):
                columns.append((f"**ours, {label}**", measured))
    lines = [f"| task | | {' | '.join(label for label, _ in columns)} |", "|---" * (len(columns) + 2) + "|"]
    for number, name in enumerate(TASKS):
        cells = [_cell(errors[number]) for _, errors in columns]
        lines.append(f"| {number + 1} | {name} | {' | '.join(cells)} |")
    lines.append(f"| mean | | {' | '.join(_mean(errors) for _, errors in columns)} |")
    return "\n".join(lines)


def _mean(errors: list[float | None]) -> str:
    """The mean over all tasks; of 19, where one was not measured, and then it says so."""
    known = [error for error in errors if error is not None]
    if len(known) == len(errors):
        return f"{fmean(known):.1f}"
    return f"{fmean(known):.1f} of 19" if len(known) == len(errors) - 1 else "–"


def _cell(error: float | None) -> str:
    return "–" if error is None else f"{error:.1f}"


def rewritten(text: str, find: Entry = entry) -> str:
    """The page with its table made anew."""
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n\n{table(find)}\n\n{END}{after}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit status 1 if the table is stale")
    asked = parser.parse_args()
    text = PAGE.read_text(encoding="utf-8")
    new = rewritten(text)
    if new != text and not asked.check:
        write_atomically(PAGE, new)
        print(f"{PAGE.name} is new")
    return int(new != text and asked.check)


if __name__ == "__main__":
    sys.exit(main())
