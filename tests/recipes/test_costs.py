"""What trainings cost: estimates follow the measured updates, and every paper has a recipe that ends soon."""

from dataclasses import replace
from typing import Any

import pytest

from regard.recipes import RECIPES, change, costs, find_recipe
from regard.recipes.costs import Cost, cost, duration, machine

SOON = 300.0  # seconds on two cores; measured with one thread
SMALL = [
    "encoder_decoder/small_en_fr", "bahdanau/small_en_fr", "luong/small_en_fr", "gnmt/small_en_fr",
    "convs2s/small_en_fr", "transformer/small_en_fr", "ram/mini", "dram/small", "dt_ram/mini",
    "show_attend_tell/shapes", "senet/small", "nonlocal/small", "lstmn/smoke", "transformer_xl/smoke", "ntm/smoke",
    "self_attentive/smoke", "memn2n/smoke", "gat/smoke", "image_transformer/smoke", "scene_text/smoke",
    "video_action/smoke",
]  # fmt: skip


def test_every_paper_has_a_small_recipe() -> None:
    assert {name.partition("/")[0] for name in SMALL} == {name.partition("/")[0] for name in RECIPES}


@pytest.mark.parametrize("name", SMALL)
def test_a_small_recipe_ends_soon_and_needs_no_files(name: str) -> None:
    found = cost(find_recipe(name, RECIPES))
    assert found.seconds is not None, "run tools/measure_costs.py"
    assert 0 < found.seconds <= SOON
    assert found.megabytes is not None
    assert 50 < found.megabytes < 4000
    assert found.data == "in the package"


def test_twice_the_updates_take_longer() -> None:
    recipe = find_recipe("ram/mini", RECIPES)
    once, twice = cost(recipe), cost(change(recipe, [f"train.steps={2 * recipe.train.steps}"]))
    assert once.seconds is not None
    assert twice.seconds is not None
    assert once.seconds < twice.seconds < 2 * once.seconds
    limited = cost(replace(recipe, train=replace(recipe.train, seconds=1.0)))
    assert limited.seconds is not None
    assert limited.seconds < once.seconds


def test_what_was_measured_is_on_the_menu() -> None:
    for name, measured in costs._measured().items():
        assert name in RECIPES, f"{name} is no recipe any more: take it out of costs.json"
        assert measured.keys() - {"evaluation", "part", "stand_in"} == {"prepare", "step", "timed", "memory"}, name
        assert all(measured[each] > 0 for each in ("prepare", "step", "timed", "memory")), name


@pytest.mark.parametrize(
    ("name", "changes", "measured", "seconds", "remark"),
    [
        ("ram/mini", [], {}, 10 + 350 * 2.0, ""),
        ("ram/mini", [], {"evaluation": 0.5}, 10 + 350 * 2.0 + 2 * 0.5, "with its evaluations"),
        ("ram/mini", [], {"part": 8}, 710, "from an update with 1/8 of the batch"),
        ("ram/mini", [], {"stand_in": "mnist"}, 710, "measured on mnist"),
        ("ram/mini", ["train.seconds=60"], {}, 10 + 60, "its time limit; 350 updates would take ≈ 12 min"),
        ("ram/mini", ["train.seconds=700"], {}, 710, ""),
    ],
)
def test_what_an_estimate_rests_on(
    name: str,
    changes: list[str],
    measured: dict[str, Any],
    seconds: float,
    remark: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = {name: {"prepare": 10.0, "step": 2.0, "timed": 3, "memory": 500} | measured}
    monkeypatch.setattr(costs, "_measured", lambda: known)
    found = cost(change(find_recipe(name, RECIPES), changes))
    assert (found.seconds, found.remark) == (seconds, remark)
    assert (f"({remark})" in found.sentence()) == bool(remark)


def test_who_stops_early_takes_as_many_updates_as_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        costs, "_measured", lambda: {"gat/cora": {"prepare": 0, "step": 1.0, "timed": 3, "memory": 500}}
    )
    recipe = find_recipe("gat/cora", RECIPES)
    found = cost(recipe)
    assert found.seconds is not None
    assert 100 < found.seconds < recipe.train.steps / 4
    assert found.remark == f"{round(found.seconds):,} updates, as many as it took"
    few = cost(change(recipe, ["train.steps=5"]))
    assert (few.seconds, few.remark) == (5, "")


def test_a_gpu_that_was_there_is_named() -> None:
    found = cost(find_recipe("senet/cifar10", RECIPES))
    assert (found.gpu, found.gpu_text) == ("NVIDIA H200", "≤ 4.9 min")  # three seeds shared it
    assert "4.9 min on one NVIDIA H200" in found.sentence()


def test_what_must_be_brought() -> None:
    assert cost(find_recipe("transformer/tatoeba_en_fr", RECIPES)).data.startswith(
        "to be brought below REGARD_DATA (tato"
    )
    assert cost(find_recipe("bahdanau/multi30k_de_en", RECIPES)).data.startswith("fetched once (multi30k")
    mixed = cost(find_recipe("scene_text/iiit5k", RECIPES)).data
    assert "iiit5k" in mixed


def test_words() -> None:
    assert Cost(None, None, "", False, None, "in the package").sentence() == (
        "its time was not measured; its data are in the package"
    )
    told = Cost(150.0, 2.0, "GPU", True, 512, "in the package")
    assert told.sentence() == (
        "≈ 2.5 min on a CPU with one thread, 0.5 GB of memory; ≤ 2.0 min on one GPU; its data are in the package"
    )
    assert (told.cpu_text, told.gpu_text, told.memory_text) == ("≈ 2.5 min", "≤ 2.0 min", "0.5 GB")
    assert [duration(seconds) for seconds in (0.2, 8.0, 89.0, 599.0, 5000.0, 100_000.0)] == [
        "1 s", "8 s", "90 s", "10.0 min", "83 min", "28 h",
    ]  # fmt: skip
    assert "one thread" in machine()
