"""What the kinds of explanations are made of: numbers, labels, pictures. Checked once, and then they cannot change."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Int, UInt8
from numpy import ndarray

from regard.base import ConfigError, ShapeError, shown
from regard.explanation.png import MAX_PIXELS

DIGITS = 6  # that JSON keeps of a weight


def as_numbers(what: str, value: Any, axes: Mapping[int, str]) -> Float[ndarray, "..."]:
    """Finite float64 numbers that nobody can change; `axes` says how many axes they may have, and what those are.

    Arrays, lists of lists and tensors on any device will do.

    >>> as_numbers("weights", [[0.5, 0.5]], {2: "[rows columns]"}).shape
    (1, 2)
    """
    array = _array(what, value, expected=" or ".join(axes.values()))
    if array.size == 0 and array.ndim < min(axes):
        array = array.reshape(*array.shape, *[0] * (min(axes) - array.ndim))  # an empty list has lost its later axes
    if array.ndim not in axes:
        got = f"shape {list(array.shape)}"
        raise ShapeError(f"{what} have the wrong number of axes", got=got, expected=" or ".join(axes.values()))
    if wrong := int((~np.isfinite(array)).sum()):
        got = f"{wrong} of {array.size} NaN or infinite"
        raise ConfigError(f"{what} are not finite", got=got, cure="pass weights, not masked scores")
    return _frozen(array)


def as_indices(what: str, value: Any, limit: int) -> Int[ndarray, " n"]:
    """Whole numbers [n] from 0 to below `limit`, that nobody can change."""
    expected = f"whole numbers from 0 to {limit - 1}" if limit else "nothing, since there is nothing to point at"
    array = _array(what, value, expected=expected)
    if array.ndim != 1 or (array != np.floor(array)).any():  # NaN too
        raise ShapeError(what, got=f"shape {list(array.shape)} of {shown(value)}", expected=expected)
    if array.size and not (array.min() >= 0 and array.max() < limit):
        raise ConfigError(what, got=f"{array.min():g} to {array.max():g}", expected=expected)
    return _frozen(array.astype(np.int64))


def as_labels(what: str, value: Any, length: int | None = None, *, cure: str = "") -> tuple[str, ...]:
    """Texts, as many as `length` says.

    >>> as_labels("rows", ["la", "maison"], 2)
    ('la', 'maison')
    """
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        raise ConfigError(what, got=shown(value), expected="a list of texts")
    labels = tuple(value)
    for label in labels:
        as_text(f"one of the {what}", label)
    if length is not None and len(labels) != length:
        cure = cure or f"give one label for each of the {length}"
        raise ShapeError(f"{what} do not fit the weights", got=f"{len(labels)} labels", expected=length, cure=cure)
    return tuple(str(label) for label in labels)


def as_text(what: str, value: Any) -> str:
    """A text, and nothing else."""
    if not isinstance(value, str):
        raise ConfigError(f"{what} is not a text", got=shown(value), expected="a text")
    return str(value)


def as_whole(what: str, value: Any, *, least: int = 1) -> int:
    """A whole number, at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ConfigError(what, got=shown(value), expected=f"a whole number, {least} or more")
    return int(value)


def as_image(value: Any) -> UInt8[ndarray, "h w 3"]:
    """A picture of bytes that nobody can change."""
    array = to_numpy(value)
    if not isinstance(array, ndarray):
        raise ShapeError("an explanation needs a picture", got=shown(value), expected="an array [h w 3] of bytes")
    if array.ndim != 3 or array.shape[2] != 3 or not array.size:
        got, cure = (
            f"shape {list(array.shape)}",
            "repeat a grey picture three times with np.repeat, or take one picture of a batch",
        )
        raise ShapeError("an explanation needs a picture", got=got, expected="[h w 3]", cure=cure)
    if array.dtype != np.uint8:
        cure = "write (255 * image).round().astype(np.uint8)"
        raise ConfigError("the picture of an explanation", got=array.dtype, expected="bytes (uint8)", cure=cure)
    if array.shape[0] * array.shape[1] > MAX_PIXELS:
        got = f"{array.shape[0]} × {array.shape[1]} pixels"
        raise ConfigError("the picture of an explanation is too large", got=got, expected=f"at most {MAX_PIXELS:,}")
    return _frozen(array.copy())


def as_layers(what: str, value: Any, axes: str) -> dict[str, Float[ndarray, "_ _"]]:
    """Numbers by name, each with two axes of which the first is as long for all."""
    if isinstance(value, list) and not value:  # what JSON has in place of an empty mapping
        value = {}
    if not isinstance(value, Mapping):
        raise ConfigError(what, got=shown(value), expected=f"a mapping of names to {axes}")
    layers = {as_text(f"a name of {what}", name): as_numbers(what, array, {2: axes}) for name, array in value.items()}
    if len({len(array) for array in layers.values()}) > 1:
        got = ", ".join(f"{len(array)} for {shown(name)}" for name, array in layers.items())
        raise ShapeError(f"{what} differ in length", got=got, expected=f"one length for all: {axes}")
    return layers


def to_numpy(value: Any) -> Any:
    """Tensors on any device, and lists of them, as arrays; half precision becomes float32. Anything else is unchanged.

    >>> to_numpy([0.5, 0.5])
    [0.5, 0.5]
    """
    if isinstance(value, list | tuple) and any(hasattr(item, "detach") for item in value):
        return [to_numpy(item) for item in value]
    if not hasattr(value, "detach"):
        return value
    tensor = value.detach().cpu()
    return (tensor.float() if tensor.is_floating_point() and tensor.element_size() < 4 else tensor).numpy()


def rounded(array: ndarray) -> Any:
    """The numbers of an array as nested lists, each with six digits that count.

    >>> rounded(np.array([[1 / 3, 0.0], [1e-9 / 3, 1.0]]))
    [[0.333333, 0.0], [3.33333e-10, 1.0]]
    """
    if array.dtype.kind != "f":
        return array.tolist()
    flat = np.array([float(f"{number:.{DIGITS}g}") for number in array.ravel().tolist()])
    return flat.reshape(array.shape).tolist()


def _array(what: str, value: Any, *, expected: str) -> ndarray:
    """Real numbers as float64; tensors too."""
    try:
        array = np.asarray(to_numpy(value))
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise ShapeError(f"{what} are ragged or no numbers", got=shown(type(value)), expected=expected) from None
    if array.size and array.dtype.kind not in "iuf":
        raise ShapeError(f"{what} are not numbers", got=str(array.dtype), expected=expected)
    return array.astype(np.float64)


def _frozen(array: ndarray) -> ndarray:
    array.flags.writeable = False
    return array
