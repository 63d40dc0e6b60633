"""`torchrun … ranks.py FOLDER`: every run of RUNS on two ranks; FOLDER/alone, begun by one process, is gone on with.

Each rank writes down what it saw: FOLDER/rank_0.json and FOLDER/rank_1.json.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
import toy

from regard.base import ConfigError
from regard.train import World, joined

RUNS: dict[str, dict[str, Any]] = {
    "plain": {"steps": 8, "ema": 0.9, "evaluate_every": 4, "save_every": 4},
    "accumulated": {"steps": 5, "accumulate": 2},
    "average": {"steps": 6, "log_every": 2, "save_every": 2, "average": 2},
}
HALF, WHOLE = {"steps": 5, "log_every": 2}, {"steps": 9, "log_every": 2, "save_every": 3}


def one(folder: Path, world: World | None = None, **settings: Any) -> torch.nn.Module:
    task = toy.translation()
    return toy.run(folder, task=task, model=toy.translator(task, dropout=0.0), world=world, **settings)


def written(place: Path) -> list[str]:
    """A list that gets the name of every file below `place` that this process opens to write."""
    names: list[str] = []

    def see(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and str(place) in str(arguments[0]) and arguments[1] not in ("r", "rb", None):
            names.append(Path(str(arguments[0])).name)

    sys.addaudithook(see)
    return names


def refused(folder: Path, world: World, **settings: Any) -> str:
    try:
        one(folder, world, **settings)
    except ConfigError as error:
        return str(error)
    return "not refused"


if __name__ == "__main__":
    place = Path(sys.argv[1])
    names = written(place)
    with joined("cpu") as world:
        models = {name: one(place / name, world, **settings) for name, settings in RUNS.items()}
        one(place / "resumed", world, **HALF)
        one(place / "resumed", world, resume=True, **WHOLE)
        one(place / "alone", world, resume=True, **WHOLE)
        facts = {
            "world": [world.rank, world.size, world.is_first, str(world.device)],
            "count": world.count(world.rank + 1),
            "sum": world.sum(torch.tensor([1.5, 10.0 * world.rank])).tolist(),
            "same": world.same({"from": world.rank}),
            "weights": {
                name: sum(p.double().sum().item() for p in model.parameters()) for name, model in models.items()
            },
            "pure": refused(place / "pure", world, precision="pure_bfloat16"),
            "again": refused(place / "plain", world),
            "written": sorted(set(names)),
        }
    (place / f"rank_{world.rank}.json").write_text(json.dumps(facts))
