"""tests/quick_hook.py: whatever jaxtyping's hook refuses is still refused."""

from collections.abc import Callable
from typing import Any, Literal

import jaxtyping
import pytest
import torch
from beartype import beartype
from jaxtyping import Float
from quick_hook import has_shapes, jaxtyped
from torch import Tensor

Row = Float[Tensor, " n"]


def test_the_hook_uses_it() -> None:
    assert jaxtyping.jaxtyped is jaxtyped


def test_shapes_are_found_wherever_they_are() -> None:
    shaped = Row, Row | None, list[Row], dict[str, tuple[Row, ...]], Callable[[Row], int], "Row", list["Row"]
    assert all(map(has_shapes, shaped))
    plain = int, Tensor, Tensor | None, list[int], Callable[[Tensor], int], Callable[..., Any], None, Any
    assert not any(map(has_shapes, plain))
    assert has_shapes(Literal["a"])  # which costs time and nothing else


def twice(number: int, *, text: str = "") -> int:
    return text if text else 2 * number  # type: ignore[return-value]


def add(one: Row, other: Row) -> Row:
    return one + other if len(one) < 4 else one[:2]


@pytest.mark.parametrize("decorate", [jaxtyped(typechecker=beartype), lambda f: jaxtyped(f, typechecker=beartype)])
def test_types_and_shapes_are_checked(decorate: Callable[[Any], Any]) -> None:
    checked, with_shapes = decorate(twice), decorate(add)
    assert checked(3) == 6
    for arguments, options in ((("3",), {}), ((3,), {"text": 4}), ((3,), {"text": "not a number"})):
        with pytest.raises(Exception, match="twice"):
            checked(*arguments, **options)
    assert with_shapes(torch.ones(2), torch.ones(2)).sum() == 4
    for sizes in ((2, 3), (5, 5)):  # arguments that do not fit each other, a result that does not fit the arguments
        with pytest.raises(jaxtyping.TypeCheckError):
            with_shapes(*map(torch.ones, sizes))


def test_classes_and_methods_are_checked() -> None:
    class Box:
        @classmethod
        def made(cls, width: int) -> "Box":
            return cls()

    checked = jaxtyped(Box.__dict__["made"], typechecker=beartype)
    assert isinstance(checked, classmethod)
    with pytest.raises(jaxtyping.TypeCheckError):
        checked.__func__(Box, "3")
