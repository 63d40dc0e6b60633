"""The door of every export: checks first, then all files into a folder beside the wanted one, then one rename."""

import os
import shutil
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.base import ConfigError, RegardError, check_installed, did_you_mean, part_beside

if TYPE_CHECKING:  # so that files of this area can be used without torch
    from regard.api import Model

FORMATS = {  # what `--to` takes, and what it gives; each is the file of this area with the same name
    "onnx": "encoder and decoder step for onnxruntime, or a classifier, with a greedy loop in numpy",
    "ctranslate2": "a Transformer for CTranslate2",
    "transformers": "a Transformer as a folder that AutoModelForSeq2SeqLM loads",
}


def export_model(model: "Model", to: str, out: str | Path | None = None) -> Path:
    """Write a model in the format `to`, of FORMATS, into a new folder, and give that folder.

    `out` is RUN_onnx, RUN_ctranslate2 or RUN_transformers in the working folder unless told. It must not exist, or be
    empty. What cannot be exported, or a package that is missing, is an error before anything is written; after an
    error nothing stays.
    """
    check_format(to)
    writer: Any = import_module(f"regard.export.{to}")
    folder = Path(f"{model.name}_{to}" if out is None else out)
    _check_place(folder)
    writer.check(model)
    check_installed(*writer.PACKAGES, what=f"export to {to}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = part_beside(folder.absolute())
    unfinished.mkdir()
    try:
        writer.write(model, unfinished)
        if folder.is_dir():
            folder.rmdir()  # it is empty
        os.replace(unfinished, folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return folder


def check_format(to: str) -> None:
    """An error that names the formats, unless `to` is one of them."""
    if to not in FORMATS:
        expected = f"one of {', '.join(FORMATS)}"
        raise ConfigError("there is no such format", got=repr(to), expected=expected, cure=did_you_mean(to, FORMATS))


def _check_place(folder: Path) -> None:
    if folder.is_dir() and any(folder.iterdir()):
        raise RegardError(f"{folder} exists and is not empty", cure="name another folder: --out FOLDER")
    if folder.exists() and not folder.is_dir():
        raise RegardError(f"{folder} is not a folder", got="a file", cure="name another folder: --out FOLDER")
