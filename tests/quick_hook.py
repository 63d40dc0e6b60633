"""Makes jaxtyping's hook quicker: a function without shapes in its annotations is checked by beartype alone.

Nine in ten functions of the package have no shape. jaxtyping binds the arguments of each call of them, checks them, and
checks them again with the result; beartype does the same check of all types once.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, get_args

import jaxtyping
from beartype import BeartypeConf, beartype

_with_shapes = jaxtyping.jaxtyped
_AS_BEFORE = BeartypeConf(violation_type=jaxtyping.TypeCheckError)  # the error of jaxtyping's own check


def has_shapes(annotation: Any) -> bool:
    """Whether a type, or a type inside of it, has a shape; texts might have one."""
    if isinstance(annotation, list | tuple):  # the arguments of a Callable
        return any(has_shapes(inner) for inner in annotation)
    if isinstance(annotation, str):
        return True
    if inspect.isclass(annotation) and issubclass(annotation, jaxtyping.AbstractArray):
        return True
    return has_shapes(get_args(annotation))


def jaxtyped(function: Any = None, *, typechecker: Any = None) -> Any:
    """The decorator that the hook puts on every function and class."""
    if function is None:
        return functools.partial(jaxtyped, typechecker=typechecker)
    if typechecker is None or not inspect.isfunction(function) or has_shapes([*function.__annotations__.values()]):
        return _with_shapes(function, typechecker=typechecker)
    checked: Callable[..., Any] = beartype(conf=_AS_BEFORE)(function)
    return checked


def install() -> None:
    """Replaces the decorator, for all modules that are imported after this."""
    jaxtyping.jaxtyped = jaxtyped
