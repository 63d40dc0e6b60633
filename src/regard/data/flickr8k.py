"""Pictures with captions: Flickr8k, or a folder of one's own with a file of `picture<TAB>caption` lines.

Flickr8k (Hodosh, Young & Hockenmaier 2013): 8,000 photographs with five captions each, for non-commercial research and
education. The pictures are read here from zip files in which they are reduced to a short side of 176 pixels.
"""

import os
import re
import threading
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import Literal

from regard.base import ConfigError
from regard.data.download import find
from regard.data.parallel import DataError, Place, read_lines
from regard.data.text import tokenize

SPLITS = {"train": "train", "valid": "dev", "test": "test"}
SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm"})
_NUMBERED = re.compile(r"#\d+$")
_CLITIC = re.compile(r"(?<=\w)('s|'re|'ve|'ll|'d|'m|n't)$")
_APART = re.compile(r"(?<=\w)\s+(?=(?:'(?:s|re|ve|ll|d|m)|n't)\b)", re.IGNORECASE)  # dog 's


@dataclass(frozen=True, eq=False)
class Captions:
    """One split: pictures by name, the captions of each, and how to get at the bytes of a picture."""

    names: tuple[str, ...]
    captions: tuple[tuple[str, ...], ...]
    read: Callable[[str], bytes] = field(repr=False)
    signature: str  # changes when the pictures do
    dropped: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.names)

    def pick(self, numbers: Iterable[int]) -> "Captions":
        """Some of the pictures."""
        chosen = list(numbers)
        names, captions = tuple(self.names[n] for n in chosen), tuple(self.captions[n] for n in chosen)
        return Captions(names, captions, self.read, _digest([self.signature, *names]), self.dropped)


def caption_tokens(text: str) -> list[str]:
    """The words of a caption in lower case, without punctuation; `dog's` is two of them, as in caption metrics.

    >>> caption_tokens("A man's black-and-white dog, it doesn't bark .")
    ['a', 'man', "'s", 'black-and-white', 'dog', 'it', 'does', "n't", 'bark']
    """
    words = []
    for token in tokenize(_APART.sub("", text), lower=True):
        if any(character.isalnum() for character in token):
            words += [part for part in _CLITIC.split(token) if part]
    return words


def flickr8k() -> dict[str, Captions]:
    """Flickr8k in its official split: 6,000 pictures train, 1,000 valid, 1,000 test, five captions each."""
    captions = _by_name(find("flickr8k/Flickr8k.token.txt.gz"))
    splits = {}
    for split, part in SPLITS.items():
        place = f"flickr8k/{part}.zip"
        listed = find(f"flickr8k/Flickr_8k.{part}Images.txt")
        names = [line.strip() for line in read_lines(listed) if line.strip()]
        for number, name in enumerate(names, 1):
            if name not in captions:
                raise DataError(f"{listed}, line {number}: a picture without a caption", got=name)
        packed = Zip(find(place))
        inside = tuple(PurePosixPath(name).with_suffix(".webp").name for name in names)
        if missing := [name for name in inside if name not in packed]:
            raise DataError(f"{packed.path}: a picture is missing", got=missing[0], expected=f"{len(names)} pictures")
        texts = tuple(tuple(captions[name]) for name in names)
        splits[split] = Captions(inside, texts, packed, _digest([place, *inside]))
    return splits


def read_captions(file: Place, folder: Place, *, on_bad: Literal["error", "drop"] = "error") -> Captions:
    """Captions of the user's own pictures: lines `picture<TAB>caption`, and the folder in which the pictures are.

    A picture may have several lines; `picture.jpg#0` is `picture.jpg`. A line without a tab or a caption, a picture
    that is not there, and a picture in the folder without a caption are errors, or are dropped and counted. No file
    outside the folder is read.
    """
    if on_bad not in ("error", "drop"):
        raise ConfigError("read_captions on_bad", got=repr(on_bad), expected="'error' or 'drop'")
    root, dropped = Path(folder), Counter[str]()
    if not root.is_dir():
        raise DataError(f"{root}: no folder with pictures", got="nothing" if not root.exists() else "a file")
    found: dict[str, list[str]] = {}
    for number, line in enumerate(read_lines(file), 1):
        bad = _bad_line(line, root)
        if bad is None:
            name, _, caption = line.partition("\t")
            found.setdefault(_NUMBERED.sub("", name.strip()), []).append(caption.strip())
        elif on_bad == "error":
            reason, got, expected = bad
            what = f"{os.fspath(file)}, line {number}: {reason}"
            raise DataError(what, got=got, expected=expected, cure="mend it, or drop such lines: on_bad='drop'")
        else:
            dropped[bad[0]] += 1
    bare = sorted(_pictures(root) - {PurePosixPath(name).as_posix() for name in found})
    if bare and on_bad == "error":
        got = f"{bare[0]}" + f" and {len(bare) - 1} more" * (len(bare) > 1)
        cure = "write one, or leave such pictures out: on_bad='drop'"
        raise DataError(f"{root}: a picture without a caption in {os.fspath(file)}", got=got, cure=cure)
    if bare:
        dropped["a picture without a caption"] = len(bare)
    if not found:
        raise DataError(f"{os.fspath(file)}: no caption is left", got=dict(dropped), expected="picture<TAB>caption")
    names = tuple(sorted(found))
    stats = ((name, (root / name).stat()) for name in names)
    facts = [f"{name} {s.st_size} {s.st_mtime_ns} {s.st_ctime_ns}" for name, s in stats]  # `cp -p` sets no ctime
    captions = tuple(tuple(found[name]) for name in names)
    return Captions(
        names, captions, _Folder(root), _digest([str(root.resolve()), *facts]), dict(sorted(dropped.items()))
    )


def split_captions(captions: Captions, *, valid: int, test: int) -> dict[str, Captions]:
    """Three splits by a hash of the picture's name: they do not depend on the order of lines."""
    if min(valid, test) < 0 or valid + test >= len(captions):
        got = f"{len(captions)} pictures, valid={valid}, test={test}"
        raise DataError("nothing is left to train on", got=got, cure="ask for less, or bring more pictures")
    order = sorted(range(len(captions)), key=lambda n: blake2b(captions.names[n].encode(), digest_size=8).digest())
    parts = {"train": order[valid + test :], "valid": order[:valid], "test": order[valid : valid + test]}
    return {split: captions.pick(sorted(numbers)) for split, numbers in parts.items()}


class Zip:
    """The files of a zip by name; it is opened when it is first read, and may be read by several threads."""

    def __init__(self, path: Place) -> None:
        self.path = Path(path)
        self._lock, self._file = threading.Lock(), None  # type: threading.Lock, zipfile.ZipFile | None

    def __call__(self, name: str) -> bytes:
        """The bytes of one file."""
        with self._lock:
            try:
                return self._open().read(name)
            except (KeyError, OSError, zipfile.BadZipFile) as error:
                got = f"{name}: {error}"
                raise DataError(f"{self.path}: a picture cannot be read", got=got, cure="get the file anew") from error

    def __contains__(self, name: str) -> bool:
        with self._lock:
            return name in self._open().NameToInfo

    def _open(self) -> zipfile.ZipFile:
        if self._file is None:
            try:
                self._file = zipfile.ZipFile(self.path)
            except (OSError, zipfile.BadZipFile) as error:
                raise DataError(f"{self.path}: cannot be read", got=str(error), expected="a zip file") from error
        return self._file


@dataclass(frozen=True)
class _Folder:
    root: Path

    def __call__(self, name: str) -> bytes:
        try:
            return (self.root / name).read_bytes()
        except OSError as error:
            raise DataError(f"{self.root / name}: cannot be read", got=(error.strerror or "").lower()) from error


def _by_name(path: Path) -> dict[str, list[str]]:
    """Captions in the form of Flickr8k: `name.jpg#0<TAB>caption`."""
    found: dict[str, list[str]] = {}
    for number, line in enumerate(read_lines(path), 1):
        name, tab, caption = line.partition("\t")
        if not tab or not caption.strip():
            raise DataError(f"{path}, line {number}: no caption", got=repr(line[:60]), expected="picture#0<TAB>caption")
        found.setdefault(_NUMBERED.sub("", name), []).append(caption.strip())
    return found


def _bad_line(line: str, root: Path) -> tuple[str, str, str] | None:
    """What is wrong with a line: the reason, what stands there, what should."""
    name, tab, caption = line.partition("\t")
    name = _NUMBERED.sub("", name.strip())
    if not tab:
        return "no tab", repr(line[:60]), "picture<TAB>caption"
    if not name:
        return "no picture is named", repr(line[:60]), "picture<TAB>caption"
    if not caption_tokens(caption):
        return "no caption", repr(line[:60]), "picture<TAB>caption"
    if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
        return "a picture outside the folder", name, f"a path below {root}"
    if not (root / name).is_file():
        return "a picture that is not there", name, f"a file in {root}"
    return None


def _pictures(root: Path) -> set[str]:
    """Files in the folder that look like pictures."""
    return {
        path.relative_to(root).as_posix()
        for path in root.rglob("*")
        if path.suffix.lower() in SUFFIXES and path.is_file() and not path.name.startswith(".")
    }


def _digest(parts: Iterable[str]) -> str:
    return blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()
