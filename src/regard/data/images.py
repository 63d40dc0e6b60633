"""Pictures from files: any common format in, red, green and blue out, or an error that says what is wrong.

What is done with unusual ones: grey and palette pictures become coloured ones, transparent ones lie on white, of an
animation the first frame is taken, the rotation that a camera notes is done, and large ones are reduced while they are
decoded. Above `MAX_PIXELS` a picture is refused before anything is decoded.
"""

import io
import os
import warnings
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import UInt8
from numpy import ndarray

from regard.base import ConfigError, RegardError, ShapeError, first_line, require
from regard.data.parallel import DataError
from regard.data.samples import PREFIX, sample

MAX_PIXELS = 64_000_000  # a picture with more is refused: a small file may claim to be a huge picture
MAX_BYTES = 2**28  # of a file; /dev/zero has no end
ENOUGH_PIXELS = 4_000_000  # a picture with more is reduced: no model here looks at so many


@runtime_checkable
class Readable(Protocol):
    """A file that is open for reading bytes."""

    def read(self) -> Any:
        """All of it."""
        ...


class Box(NamedTuple):
    """A part of a picture, in its pixels."""

    left: float
    top: float
    right: float
    bottom: float


def read_image(
    source: str | os.PathLike[str] | bytes | Readable,
    *,
    max_pixels: int = MAX_PIXELS,
    enough_pixels: int = ENOUGH_PIXELS,
    name: str | None = None,
) -> UInt8[ndarray, "h w 3"]:
    """A picture from a path, from bytes or from an open file, as red, green and blue [h w 3].

    One of more than `max_pixels` is refused; one of more than `enough_pixels` comes back smaller, its sides divided by
    the same number. `name` is what errors call it. "sample:digit.png" and others are in the package.
    """
    if min(max_pixels, enough_pixels) < 1:
        raise ConfigError("read_image pixels", got=min(max_pixels, enough_pixels), expected="1 or more")
    pillow = require("PIL.Image", extra="vision")
    if isinstance(source, str) and source.startswith(PREFIX):
        source = sample(source)
    content, name = _content(source, name)
    if not content:
        raise DataError(f"{name}: the picture is empty", got="0 bytes", expected="a PNG, JPEG, WebP, … file")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Pillow, about odd files: what matters is checked here
            with pillow.open(io.BytesIO(content)) as picture:
                _check_size(picture.size, max_pixels, name)
                return _decoded(picture, enough_pixels)
    except RegardError:
        raise
    except pillow.UnidentifiedImageError as error:
        got = f"{len(content):,} bytes that begin with {content[:8]!r}"
        cure = "convert it to PNG or JPEG"
        raise DataError(f"{name}: this is no picture", got=got, expected="PNG, JPEG, WebP, …", cure=cure) from error
    except pillow.DecompressionBombError as error:
        raise _too_large(name, "more than Pillow decodes", max_pixels) from error
    except Exception as error:  # Pillow's readers raise whatever they meet in damaged files
        got = first_line(error)
        raise DataError(
            f"{name}: the picture is broken", got=got, expected="a whole file", cure="get it anew"
        ) from error


def fit_box(height: int, width: int, *, whole: bool = False) -> Box:
    """The part of a picture that a square view shows: the largest square in its middle, or all of it.

    >>> fit_box(100, 300)
    Box(left=100.0, top=0.0, right=200.0, bottom=100.0)
    """
    if whole:
        return Box(0.0, 0.0, float(width), float(height))
    side = min(height, width)
    left, top = (width - side) / 2, (height - side) / 2
    return Box(left, top, left + side, top + side)


def fit_image(image: UInt8[ndarray, "h w 3"], size: int, *, whole: bool = False) -> UInt8[ndarray, "s s 3"]:
    """A square view of a picture: its short side becomes `size`, and the middle is cut out (bicubic, antialiased).

    With `whole` nothing is cut off: both sides become `size`, and the picture is squeezed.
    """
    if size < 1:
        raise ConfigError("fit_image size", got=size, expected="1 or more")
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or not image.size:
        got, cure = f"{image.dtype} {list(image.shape)}", "use read_image, which gives it"
        raise ShapeError("a picture is red, green and blue", got=got, expected="uint8 [h w 3]", cure=cure)
    pillow = require("PIL.Image", extra="vision")
    box = fit_box(*image.shape[:2], whole=whole)
    return np.array(pillow.fromarray(image).resize((size, size), pillow.Resampling.BICUBIC, box=tuple(box)))


def _content(source: Any, name: str | None) -> tuple[bytes, str]:
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source), name or "a picture in memory"
    if hasattr(source, "read"):
        content = source.read()
        if not isinstance(content, bytes):
            raise DataError(
                "a file with a picture is open as text", expected="bytes", cure="open it by open(path, 'rb')"
            )
        return content, name or str(getattr(source, "name", "a picture in memory"))
    name = name or os.fspath(source)
    try:
        with open(source, "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        got = (getattr(error, "strerror", None) or str(error)).lower()
        raise DataError(f"{name}: cannot be read", got=got, expected="a picture", cure="check the path") from error
    if len(content) > MAX_BYTES:
        got = f"more than {MAX_BYTES:,} bytes"
        raise DataError(f"{name}: the file is too large", got=got, expected="a picture", cure="check the path")
    return content, name


def _check_size(size: tuple[int, int], limit: int, name: str) -> None:
    if size[0] * size[1] > limit:
        raise _too_large(name, f"{size[0]} × {size[1]} = {size[0] * size[1] / 1e6:,.0f} million pixels", limit)
    if min(size) < 1:
        raise DataError(f"{name}: the picture has no pixels", got=f"{size[0]} × {size[1]}")


def _too_large(name: str, got: str, limit: int) -> DataError:
    cure = "reduce it with another program, or raise max_pixels"
    return DataError(f"{name}: the picture is too large", got=got, expected=f"at most {limit:,} pixels", cure=cure)


def _decoded(picture: Any, enough: int) -> UInt8[ndarray, "h w 3"]:
    operations = require("PIL.ImageOps", extra="vision")
    factor = 1
    while picture.width * picture.height > enough * factor**2:
        factor += 1
    if factor > 1:
        small = (-(-picture.width // factor), -(-picture.height // factor))
        picture.draft("RGB", small)  # JPEG leaves out what is too fine, at no cost; others ignore it
    picture.load()
    if factor > 1 and picture.size != small:
        picture = _eight_bits(picture)
        rest = max(-(-picture.width // small[0]), -(-picture.height // small[1]))
        picture = picture.reduce(rest) if rest > 1 else picture
    picture = _eight_bits(operations.exif_transpose(picture))
    return np.array(_on_white(picture))


def _eight_bits(picture: Any) -> Any:
    """Of 16 bits a pixel the upper 8; palettes cannot be reduced, so they become colours."""
    if picture.mode.startswith("I"):
        pillow = require("PIL.Image", extra="vision")
        high = np.clip(np.asarray(picture).astype(np.int64), 0, 65535) >> 8
        return pillow.fromarray(high.astype(np.uint8))
    if picture.mode == "F":
        raise ValueError("pixels are real numbers without a scale")
    if picture.mode == "P":
        return picture.convert("RGBA" if "transparency" in picture.info else "RGB")
    return picture


def _on_white(picture: Any) -> Any:
    if picture.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in picture.info:
        pillow = require("PIL.Image", extra="vision")
        picture = picture.convert("RGBA")
        ground = pillow.new("RGBA", picture.size, "white")
        return pillow.alpha_composite(ground, picture).convert("RGB")
    return picture.convert("RGB")
