"""tests/table.py: no case of a table is left out, and each one that fails is named."""

import inspect
from pathlib import Path

import pytest
import torch
from table import cases


def test_all_combinations_are_run_from_one_seed() -> None:
    seen, numbers = [], set()

    @cases("letter", {"a": 1, "b": 2})
    @cases("number, sign", [(1, "+"), (2, "-")])
    def check(letter: str, number: int, sign: str) -> None:
        seen.append((letter, number, sign))
        numbers.add(torch.rand(()).item())

    check()
    assert seen == [("a", 1, "+"), ("a", 2, "-"), ("b", 1, "+"), ("b", 2, "-")]
    torch.manual_seed(0)
    assert numbers == {torch.rand(()).item()}


def test_those_that_fail_are_named_and_the_others_are_run() -> None:
    seen = []

    @cases("number", range(6))
    def check(number: int) -> None:
        seen.append(number)
        if number == 1:
            pytest.fail("one")
        if number == 3:
            with pytest.raises(ValueError, match="never"):
                pass
        if number == 4:
            pytest.skip("four")
        assert number != 5, "five\nand more"

    with pytest.raises(AssertionError) as caught:
        check()
    first, *lines = str(caught.value).splitlines()
    assert first == "4 of 6 cases fail:"
    assert [line for line in lines if line.startswith("number=")] == [
        "number=1: Failed: one",
        "number=3: Failed: DID NOT RAISE ValueError",
        "number=4: Skipped: four",
        "number=5: AssertionError: five",
    ]
    assert seen == list(range(6))
    assert str(caught.value.__cause__) == "one"


def test_cases_are_named_as_asked() -> None:
    @cases("kind", [int, str])
    @pytest.mark.slow
    @cases(("number", "sign"), [(1, "+")], ids=["plus one"])
    @cases("length", [3.14159], ids=lambda length: f"{length:.2f}\nand more")
    def check(kind: type, number: int, sign: str, length: float) -> None:
        raise ValueError("no")

    assert [mark.name for mark in check.pytestmark] == ["slow"]
    with pytest.raises(AssertionError, match="2 of 2 cases fail") as caught:
        check()
    assert str(caught.value).splitlines()[1:] == [
        "kind=int, number, sign: plus one, length=3.14: ValueError: no",
        "kind=str, number, sign: plus one, length=3.14: ValueError: no",
    ]


@cases("number", [2, 3])
def test_fixtures_are_those_of_pytest(number: int, tmp_path: Path) -> None:
    assert tmp_path.is_dir()
    assert number in (2, 3)


def test_names_and_rows_must_fit() -> None:
    assert list(inspect.signature(test_fixtures_are_those_of_pytest).parameters) == ["tmp_path"]
    for names, values in (("number", []), ("number, sign", [(1,)]), ("number", [pytest.param(1)])):
        with pytest.raises(AssertionError):
            cases(names, values)
    with pytest.raises(AssertionError, match="no parameter other"):
        cases("other", [1])(lambda number: None)
