"""Many small cases as one test: all of them are run, and those that fail are named together; `from table import cases`.

Each test costs pytest and its workers some milliseconds, which for a thousand small cases is longer than their checks
take. `@cases("score", SCORES)` is written like `@pytest.mark.parametrize("score", SCORES)` and is stacked like it, with
all combinations inside of one test. Fixtures are made once for all cases; torch's seed is set anew for each of them.
"""

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
import torch

FAILURES = (Exception, pytest.fail.Exception, pytest.skip.Exception)  # a case that is skipped would not be missed
SHOWN = 20  # of the cases that fail


def every_third(values: Iterable[Any]) -> list[Any]:
    """Parameters of a test that takes long: the first of every three for `make test`, the others are slow."""
    return [pytest.param(value, marks=[pytest.mark.slow] * (place % 3 > 0)) for place, value in enumerate(values)]


def start_from_seed() -> None:
    """Sets torch's seed as every test finds it."""
    if torch.cuda.is_available():
        torch.manual_seed(0)
    else:
        torch.default_generator.manual_seed(0)  # where there is no GPU, `manual_seed` notes all callers for later


def all_hold(checks: Iterable[tuple[str, Callable[[], None]]]) -> None:
    """Runs all checks, each from the seed, and then names those that fail."""
    failed: list[tuple[str, BaseException]] = []
    checks = list(checks)
    assert checks, "no cases"
    for label, check in checks:
        start_from_seed()
        try:
            check()
        except FAILURES as error:
            failed.append((label, error))
    if failed:
        lines = [f"{label}: {type(error).__name__}: {error}"[:2_000] for label, error in failed]
        text = f"{len(failed)} of {len(checks)} cases fail:\n" + "\n".join(lines[:SHOWN])
        raise AssertionError(text) from failed[0][1]


def cases(
    names: str | Sequence[str], values: Iterable[Any], ids: Callable[[Any], str] | Iterable[str] | None = None
) -> Any:
    """Makes one test of a function that is called for every value, or for every row where there are more names.

    A case is named by its values, by what `ids` makes of each value, or by the names in `ids`, one for each row.
    """
    columns = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    values = list(values)
    assert not any(isinstance(value, type(pytest.param())) for value in values), "a case has no marks"
    rows = [(value,) if isinstance(names, str) and len(columns) == 1 else tuple(value) for value in values]
    assert rows, f"no cases of {names}"
    assert all(len(row) == len(columns) for row in rows), f"a row does not fit {names}"
    if ids is None or callable(ids):
        labels = [
            ", ".join(f"{name}={_short(value, ids)}" for name, value in zip(columns, row, strict=True)) for row in rows
        ]
    else:
        labels = [f"{', '.join(columns)}: {label}" for label in ids]
    table = columns, list(zip(labels, rows, strict=True))

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        return _all_cases(test, [table, *getattr(test, "tables", [])])

    return decorate


def _all_cases(one_case: Callable[..., None], tables: list[Any]) -> Callable[..., None]:
    """A test whose parameters are the fixtures of a function alone, and which calls it for all rows of all tables."""
    check = getattr(one_case, "check", one_case)  # which has tables of its own then
    in_tables = [name for columns, _ in tables for name in columns]

    @functools.wraps(one_case)  # with its marks
    def test(**fixtures: Any) -> None:
        checks = []
        for combination in itertools.product(*(rows for _, rows in tables)):
            values = [value for _, row in combination for value in row]
            case = dict(zip(in_tables, values, strict=True))
            checks.append((", ".join(label for label, _ in combination), functools.partial(check, **case, **fixtures)))
        all_hold(checks)

    signature = inspect.signature(check)
    kept = [parameter for name, parameter in signature.parameters.items() if name not in in_tables]
    missing = set(in_tables) - set(signature.parameters)
    assert not missing, f"{check.__name__} has no parameter {', '.join(sorted(missing))}"
    test.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    test.check, test.tables = check, tables  # type: ignore[attr-defined]
    return test


def _short(value: Any, name: Callable[[Any], str] | None) -> str:
    """The first line of what a value is called."""
    return str(name(value) if name else getattr(value, "__name__", value)).partition("\n")[0][:100]
