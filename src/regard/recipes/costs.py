"""What a training costs: time on a CPU and on a GPU, memory, and the files that it needs.

`costs.json` holds seconds of an update with one thread, and memory, which `tools/measure_costs.py` has measured. Times
on a CPU are estimated from them, and marked by ≈; those on a GPU are of trainings that were run, from the ledger. What
an estimate rests on beside that is its remark.
"""

from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from regard.base import parse_json
from regard.datasets import DATASETS
from regard.recipes.ledger import entry
from regard.recipes.recipe import Recipe

THERE = "in the package"


class Cost(NamedTuple):
    """What a recipe costs; None is what nobody has measured."""

    seconds: float | None  # of a processor with one thread; two cores are up to twice as fast
    gpu_minutes: float | None  # of training, in the ledger
    gpu: str  # its name
    gpu_shared: bool  # whether other trainings ran on it at the same time: alone it takes less
    megabytes: int | None  # of memory, on the CPU
    data: str  # where its data come from
    remark: str = ""  # what else the estimate rests on

    @property
    def cpu_text(self) -> str:
        """The time on a CPU in words: "≈ 2 min", or "" where nobody has measured it."""
        return "" if self.seconds is None else f"≈ {duration(self.seconds)}"

    @property
    def gpu_text(self) -> str:
        """The time on a GPU in words."""
        at_most = "≤ " if self.gpu_shared else ""
        return "" if self.gpu_minutes is None else at_most + duration(60 * self.gpu_minutes)

    @property
    def memory_text(self) -> str:
        """The memory in words: "0.5 GB"."""
        return "" if self.megabytes is None else f"{self.megabytes / 1024:.1f} GB"

    def sentence(self) -> str:
        """All that is known, in a sentence or two."""
        known = []
        if self.seconds is not None:
            known.append(f"{self.cpu_text} on a CPU with one thread, {self.memory_text} of memory")
            known[-1] += f" ({self.remark})" if self.remark else ""
        if self.gpu_minutes is not None:
            known.append(f"{self.gpu_text} on one {self.gpu}")
        return f"{'; '.join(known) or 'its time was not measured'}; its data are {self.data}"


def cost(recipe: Recipe) -> Cost:
    """What a recipe of the menu costs, with as many updates as it has now."""
    measured, run = _measured().get(recipe.name), entry(recipe.name)
    gpu, minutes, shared = "", None, False
    if run is not None and run["runs"][0]["environment"].get("gpu"):
        each = [one["minutes_of_training"] for one in run["runs"]]
        gpu, minutes = run["runs"][0]["environment"]["gpu"], sum(each) / len(each)
        shared = _shared(run)
    if measured is None:
        return Cost(None, minutes, gpu, shared, None, _data(recipe), "not measured")
    seconds, remark = _estimate(recipe, measured, run)
    return Cost(seconds, minutes, gpu, shared, measured["memory"], _data(recipe), remark)


def _shared(run: dict[str, Any]) -> bool:
    """Whether the trainings of a row ran side by side, with one another or with those of other rows.

    >>> _shared({"runs": [{}], "command": "python tools/reproduce.py ram/small --seeds 1 --jobs 4"})
    False
    >>> _shared({"runs": [{}, {}], "command": "python tools/reproduce.py ram/small --seeds 2 --jobs 4"})
    True
    """
    words = run["command"].split()
    recipes = words[2 : words.index("--seeds")]
    at_once = int(words[words.index("--jobs") + 1]) if "--jobs" in words else 1
    return ("--together" in words or at_once > 1) and (len(run["runs"]) > 1 or len(recipes) > 1 or "beside" in run)


def _estimate(recipe: Recipe, measured: dict[str, Any], run: dict[str, Any] | None) -> tuple[float, str]:
    """Seconds of a processor, and what they rest on beside a measured update of the whole batch."""
    train = recipe.train
    steps, remarks = train.steps, list[str]()
    if train.patience is not None and run is not None:
        taken = round(sum(one["steps"] for one in run["runs"]) / len(run["runs"]))
        if taken < steps:
            steps = taken
            remarks.append(f"{steps:,} updates, as many as it took")
    evaluations = steps // train.evaluate_every * measured.get("evaluation", 0.0)
    updates = steps * measured["step"] + evaluations
    if "evaluation" in measured:
        remarks.append("with its evaluations")
    if train.seconds is not None and train.seconds < updates:
        remarks.append(f"its time limit; {steps:,} updates would take ≈ {duration(updates)}")
        updates = train.seconds
    if "part" in measured:
        remarks.append(f"from an update with 1/{measured['part']} of the batch")
    if "stand_in" in measured:
        remarks.append(f"measured on {measured['stand_in']}")
    return measured["prepare"] + updates, "; ".join(remarks)


def machine() -> str:
    """Where the seconds were measured, and when."""
    content = _content()
    return f"{content['machine']}, {content['date']}"


def duration(seconds: float) -> str:
    """Seconds in words, as exact as they deserve.

    >>> duration(41.7), duration(150.0), duration(7000.0), duration(400_000.0)
    ('40 s', '2.5 min', '2 h', '5 days')
    """
    if seconds < 90:
        return f"{max(1, round(seconds)) if seconds < 10 else 5 * round(seconds / 5)} s"
    if seconds < 600:
        return f"{seconds / 60:.1f} min"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"


def _data(recipe: Recipe) -> str:
    """Where the data of a recipe come from: inside, fetched once, or to be brought, with their size."""
    names = [word.strip() for word in recipe.task.data_set().split(",")]
    names += [str(getattr(recipe.task, "vectors", None))]
    brought, fetched = [], []
    for dataset in (DATASETS[name] for name in names if name in DATASETS):
        size = sum(source.num_bytes for source in dataset.sources.values()) / 1e6
        if dataset.access == "bring":
            brought.append(f"{dataset.name}, {size:,.0f} MB")
        elif dataset.access == "download":
            fetched.append(f"{dataset.name}, {size:,.0f} MB")
    told = [f"fetched once ({'; '.join(fetched)})"] * bool(fetched)
    told += [f"to be brought below REGARD_DATA ({'; '.join(brought)})"] * bool(brought)
    return " and ".join(told) or THERE


@cache
def _content() -> dict[str, Any]:
    path = files("regard") / "recipes" / "costs.json"
    content: dict[str, Any] = parse_json(path.read_text(encoding="utf-8"))
    return content


def _measured() -> dict[str, Any]:
    measured: dict[str, Any] = _content()["recipes"]
    return measured
