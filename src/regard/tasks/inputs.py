"""What users hand to a model: texts and pictures in the forms in which people have them, checked before any work."""

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from regard.base import ConfigError, RegardError, ShapeError, did_you_mean
from regard.data.images import read_image

Picture = str | os.PathLike[str] | bytes | NDArray[Any] | Tensor  # a file, its bytes, or pixels [h w] or [h w 3]


def checked_texts(texts: Iterable[str]) -> list[str]:
    """The texts as a list; any iterable will do, such as a column of a table.

    Python lets bytes that are not UTF-8 into a string, as lone surrogates; models cannot read them.
    """
    if isinstance(texts, str):
        raise ConfigError("several texts are expected", got="one string", cure="give a list: [text]")
    if not isinstance(texts, Iterable):
        raise ConfigError("texts", got=type(texts).__name__, expected="a string, or a list of strings")
    checked = list(texts)
    for number, text in enumerate(checked, 1):
        if not isinstance(text, str):
            raise ConfigError(f"text {number}", got=f"{type(text).__name__}, {text!r:.60}", expected="a string")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            got = f"{error.object[error.start]!r} at position {error.start}"
            raise RegardError(f"text {number} is no Unicode", got=got, cure="give it in UTF-8") from error
    return checked


def as_pixels(picture: Picture) -> NDArray[np.uint8]:
    """Red, green and blue [h w 3] of a file, of its bytes, or of pixels."""
    if isinstance(picture, str | os.PathLike | bytes):
        return read_image(picture)
    pixels = np.asarray(picture.detach().cpu() if isinstance(picture, Tensor) else picture)
    if pixels.ndim == 2:
        pixels = np.repeat(pixels[..., None], 3, axis=2)
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3 or not pixels.size:
        got, cure = f"{pixels.dtype} {list(pixels.shape)}", "write (255 * image).astype('uint8') if it is 0 to 1"
        raise ShapeError("a picture is made of bytes", got=got, expected="uint8 [h w] or [h w 3]", cure=cure)
    return np.ascontiguousarray(pixels)


def picture_name(picture: Picture, number: int) -> str:
    """The path of a picture, or "picture 3" for one that has none."""
    return os.fspath(picture) if isinstance(picture, str | os.PathLike) else f"picture {number}"


def as_bytes(picture: Tensor) -> NDArray[np.uint8]:
    """The bytes [h w 3] of a grey or coloured picture [c h w]."""
    coloured = picture.expand(3, -1, -1) if picture.shape[0] == 1 else picture
    return np.ascontiguousarray(coloured.permute(1, 2, 0).cpu().numpy())


def checked_split(split: str, splits: Iterable[str]) -> str:
    """The name of a split that is there, or an error that says which one was meant."""
    known = list(splits)
    if split not in known:
        cure = did_you_mean(split, known)
        raise ConfigError("unknown split", got=repr(split), expected=f"one of {', '.join(known)}", cure=cure)
    return split
