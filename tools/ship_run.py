"""Put a run into the package: weights in half precision, figures on a test set that the package holds, and its card.

    python tools/ship_run.py copy-tape runs/ntm_smoke          # the facts of its card are in tools/zoo.toml
    python tools/ship_run.py copy-tape runs/ntm_smoke --measure   # only the figures, by type of the weights
    python tools/ship_run.py tatoeba-en-fr src/regard/recipes/shipped/tatoeba-en-fr    # one that ships: its facts anew

Weights are stored as float16, or as bfloat16 where that is nearer to the figure of float32; they are computed with in
float32. The log keeps the evaluations and every tenth line of the training.
"""

import argparse
import json
import os
import shlex
import shutil
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from regard import api
from regard.base import read_json, write_atomically
from regard.recipes.recipe import RECIPE
from regard.recipes.zoo import CARD
from regard.train import load_tensors, save_tensors
from regard.train.trainer import FINAL

ROOT = Path(__file__).parents[1]
SHIPPED = ROOT / "src" / "regard" / "recipes" / "shipped"
FACTS = Path(__file__).with_name("zoo.toml")
LEFT = ("checkpoints", "pictures")
TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("run", type=Path)
    parser.add_argument("--measure", action="store_true", help="write nothing")
    asked = parser.parse_args()
    facts = tomllib.loads(FACTS.read_text(encoding="utf-8"))[asked.name]
    figures = measured(asked.run, facts["split"])
    key = facts["figure"]
    for kind, found in figures.items():
        print(f"{kind:9} {key} {found[key]:.4f}")
    if asked.measure:
        return
    stored = choose({kind: found[key] for kind, found in figures.items()}, already=half_of(asked.run))
    folder = SHIPPED / asked.name
    ship(asked.run, folder, stored)
    model = api.load(asked.run, device="cpu")
    card = facts_of(model, facts, figures[stored][key], stored)
    write_atomically(folder / CARD, json.dumps(card, indent=1, ensure_ascii=False) + "\n")
    if not facts.get("written"):
        write_atomically(folder / "card.md", page(asked.name, model, facts, figures, card))
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{folder.relative_to(ROOT)}: {size / 1e6:.2f} MB, {stored}")


def measured(run: Path, split: str) -> dict[str, dict[str, float]]:
    """The figures of a run on a split, by the type that its weights are stored as."""
    model = api.load(run, device="cpu")
    exact = {name: tensor.clone() for name, tensor in model.module.state_dict().items()}
    found = {}
    for kind, dtype in TYPES.items():
        model.module.load_state_dict({name: halved(tensor, dtype).to(tensor.dtype) for name, tensor in exact.items()})
        found[kind] = model.evaluate(split).figures
    return found


def halved(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Weights as they are stored; whole numbers, and what does not fit, stay as they are."""
    if not tensor.is_floating_point() or (dtype == torch.float16 and tensor.numel() and tensor.abs().max() > 65_000):
        return tensor
    return tensor.to(dtype)


def half_of(run: Path) -> str | None:
    """The type of a run whose weights are stored in half precision already."""
    kinds = {tensor.dtype for tensor in load_tensors(run / FINAL).values()}
    return next((kind for kind, dtype in TYPES.items() if dtype in kinds and kind != "float32"), None)


def choose(values: Mapping[str, float], *, already: str | None = None) -> str:
    """float16, unless bfloat16 is nearer to the figure of float32.

    >>> choose({"float32": 1.0, "float16": 1.1, "bfloat16": 1.1})
    'float16'
    """
    away = {kind: abs(values[kind] - values["float32"]) for kind in ("float16", "bfloat16")}
    return already or ("bfloat16" if away["bfloat16"] < away["float16"] else "float16")


def ship(run: Path, folder: Path, kind: str) -> None:
    """Copies what a run folder needs, with its weights in half precision and a short log."""
    if folder.resolve() == run.resolve():
        return
    tensors = {name: halved(tensor, TYPES[kind]) for name, tensor in load_tensors(run / FINAL).items()}
    with tempfile.TemporaryDirectory(dir=SHIPPED) as temporary:
        new = Path(temporary) / folder.name
        new.mkdir()
        for path in run.iterdir():
            if path.suffix == ".json" and not path.name.startswith(("result", "figures")):
                shutil.copyfile(path, new / path.name)
        recipe = read_json(new / RECIPE, cure="train it anew")
        recipe["start"] = None  # its weights are there: it needs no other run
        recipe.pop("signed", None)
        write_atomically(new / RECIPE, json.dumps(recipe, indent=1, ensure_ascii=False) + "\n")
        save_tensors(new / FINAL, tensors)
        records = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        write_atomically(new / "metrics.jsonl", "\n".join(short(records)) + "\n")
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(new, folder)


def short(records: list[str]) -> list[str]:
    """A log with few lines of the training: at most thirty, beside all evaluations."""
    train = [number for number, record in enumerate(records) if '"kind": "train"' in record]
    step = max(1, len(train) // 30)
    kept = {*train[::step], *(number for number in range(len(records)) if number not in set(train))}
    return [record for number, record in enumerate(records) if number in kept]


def facts_of(model: Any, facts: Mapping[str, Any], value: float, stored: str) -> dict[str, Any]:
    """What `card.json` holds."""
    machine = read_json(model.folder / "environment.json", cure="train it anew")
    records = [json.loads(line) for line in (model.folder / "metrics.jsonl").read_text().splitlines()]
    end = next(record for record in records if record["kind"] == "end")
    where = (
        machine.get("gpu") or f"{machine['processor']}, {machine['threads']} thread{'s' * (machine['threads'] != '1')}"
    )
    return {
        "does": facts["does"],
        "recipe": facts["recipe"],
        "trained": f"{command(facts)}: {end['step']:,} updates, {end['seconds']:.0f} s of training on {where}",
        "split": facts["split"],
        "figure": facts["figure"],
        "value": value,
        "stored": stored,
        "licence": facts["licence"],
        "example": facts["example"],
    }


def command(facts: Mapping[str, Any]) -> str:
    """How it is trained once more."""
    settings = [shlex.quote(setting) for setting in facts.get("settings", ())]
    return " ".join(["regard train", facts["recipe"], *(["--set", *settings] if settings else [])])


def page(
    name: str,
    model: Any,
    facts: Mapping[str, Any],
    figures: Mapping[str, Mapping[str, float]],
    card: Mapping[str, Any],
) -> str:
    """The card, in Markdown."""
    display, machine = model.entry.display, read_json(model.folder / "environment.json", cure="train it anew")
    rows = []
    for figure in display.figures:
        if figure.key in figures["float32"] and "per_second" not in figure.key:
            cells = [f"{figures[kind][figure.key]:.{max(figure.decimals, 2)}f}" for kind in TYPES]
            rows.append(f"| {figure.label} | {' | '.join(cells)} |")
    paper, size = model.recipe.paper, model.num_parameters
    bytes_of = sum(tensor.nbytes for tensor in load_tensors(SHIPPED / name / FINAL).values())
    return f"""# {name}

`{name}` {facts["does"]}. It ships with regard; its page is [{paper}](../../../../../docs/papers/{PAGES.get(paper, paper)}.md).

| | |
|---|---|
| model | `{paper}`, {size:,} parameters |
| size | {bytes_of / 1e6:.2f} MB of weights, stored as {card["stored"]}; computes in float32 |
| data | {facts["data"]} |
| training | `{command(facts)}` |
| cost | {card["trained"].partition(": ")[2]}, torch {machine["torch"]} |

## Held-out data

The split `{facts["split"]}`, which the package holds or makes: `regard evaluate {name}` and `regard report {name}` need no network and no
other file. On a CPU with torch {torch.__version__.partition("+")[0]}, by the type that the weights are stored as:

| figure | float32 | float16 | bfloat16 |
|---|---|---|---|
{chr(10).join(rows)}

## Use

```sh
{facts["example"]}
```

For trying out the library, for lessons on attention, for tests.

## Limits

{facts["limits"]}

## Licence

{facts["licence"]}.
"""  # noqa: E501


PAGES = {"cho": "encoder_decoder"}  # papers whose page has another name


if __name__ == "__main__":
    main()
