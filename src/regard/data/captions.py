"""Pictures with captions: a split of them, a reader for one's own, and batches with several captions of each picture.

A batch has the captions of a picture together, so that the picture is encoded once for all of them.

>>> batches = CaptionBatches([([n], [5 + n] * n) for n in (1, 1, 2)], batch_size=4, captions=2)
>>> batch = next(batches)
>>> batch.source[:, 0].tolist() in ([1, 1, 2, 2], [2, 2, 1, 1])  # picture 2 has one caption, which comes twice
True
"""

import os
import re
import threading
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np

from regard.base import ConfigError
from regard.data.batches import Batches, Numbers
from regard.data.parallel import DataError, Place, read_lines
from regard.data.tokenizing import tokenize
from regard.data.tokens import Pair, TokenBatch, collate

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm"})
BUCKET = 16  # batches whose pictures are sorted by length together
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
        """Gives some of the pictures, with their captions."""
        chosen = list(numbers)
        names, captions = tuple(self.names[n] for n in chosen), tuple(self.captions[n] for n in chosen)
        return Captions(names, captions, self.read, signature_of([self.signature, *names]), self.dropped)


def caption_tokens(text: str) -> list[str]:
    """The words of a caption in lower case, without punctuation; `dog's` is two of them, as in caption metrics.

    >>> caption_tokens("A man's black-and-white dog, it doesn't bark .")
    ['a', 'man', "'s", 'black-and-white', 'dog', 'it', 'does', "n't", 'bark']
    """
    words = []
    for token in tokenize(_APART.sub("", text), lower=True):
        if any(character.isalnum() for character in token):
            words += [piece for piece in _CLITIC.split(token) if piece]
    return words


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
    by_picture: dict[str, list[str]] = {}
    for number, line in enumerate(read_lines(file), 1):
        bad = _bad_line(line, root)
        if bad is None:
            name, _, caption = line.partition("\t")
            by_picture.setdefault(_NUMBERED.sub("", name.strip()), []).append(caption.strip())
        elif on_bad == "error":
            reason, got, expected = bad
            what = f"{os.fspath(file)}, line {number}: {reason}"
            raise DataError(what, got=got, expected=expected, cure="mend it, or drop such lines: on_bad='drop'")
        else:
            dropped[bad[0]] += 1
    bare = sorted(_pictures(root) - {PurePosixPath(name).as_posix() for name in by_picture})
    if bare and on_bad == "error":
        got = f"{bare[0]}" + f" and {len(bare) - 1} more" * (len(bare) > 1)
        cure = "write one, or leave such pictures out: on_bad='drop'"
        raise DataError(f"{root}: a picture without a caption in {os.fspath(file)}", got=got, cure=cure)
    if bare:
        dropped["a picture without a caption"] = len(bare)
    if not by_picture:
        raise DataError(f"{os.fspath(file)}: no caption is left", got=dict(dropped), expected="picture<TAB>caption")
    names = tuple(sorted(by_picture))
    stats = ((name, (root / name).stat()) for name in names)
    facts = [f"{name} {s.st_size} {s.st_mtime_ns} {s.st_ctime_ns}" for name, s in stats]  # `cp -p` sets no ctime
    captions = tuple(tuple(by_picture[name]) for name in names)
    return Captions(
        names, captions, _Folder(root), signature_of([str(root.resolve()), *facts]), dict(sorted(dropped.items()))
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
        """Reads the bytes of the picture of this name."""
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


def signature_of(parts: Iterable[str]) -> str:
    """A hash of whatever tells the pictures of a split from others: names, sizes, times."""
    return blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()


class CaptionBatches(Batches[TokenBatch]):
    """Batches without end, epoch after epoch, shuffled by `seed` and epoch: `captions` captions of each picture.

    A pair is ([number of the picture], ids of a caption). An epoch has each picture once, with captions that are drawn
    anew; a picture with too few has some of them again. A batch has batch_size // captions pictures or, where they do
    not come out even, one fewer. Rows p · captions … p · captions + captions − 1 belong to picture p of the batch.
    Pictures whose longest drawn captions are alike stand together, within every 16 batches.

    These are global batches: each of `world` ranks gets every world-th picture of each. Where an epoch's last pictures
    are too few for all ranks, some wait for another epoch.

    With `fit` m each batch is padded to its full number of pictures and to a multiple of m words: few shapes.

    `state_dict` after a batch is the exact position: what follows `load_state_dict` is what would have followed.
    """

    cure = "resume with the captions, the batch_size, and as many captions of each picture, that the run began with"

    def __init__(
        self,
        pairs: Iterable[Pair],
        *,
        batch_size: int,
        captions: int,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
        fit: int | None = None,
    ) -> None:
        super().__init__(seed=seed, rank=rank, world=world)
        if captions < 1:
            raise ConfigError("CaptionBatches captions", got=captions, expected="1 or more")
        if batch_size < captions * world:
            got, cure = f"{batch_size} for {captions} captions on {world} ranks", "raise batch_size"
            raise ConfigError("CaptionBatches batch_size", got=got, expected="a picture for each rank", cure=cure)
        if fit is not None and fit < 1:
            raise ConfigError("CaptionBatches fit", got=fit, expected="1 or more")
        self.pictures, self.captions, self.fit = batch_size // captions, captions, fit
        self._pairs = [(tuple(source), tuple(target)) for source, target in pairs]
        self._order, self._counts = _by_picture([source for source, _ in self._pairs])
        self._lengths = np.array([len(target) for _, target in self._pairs], np.int64)
        if len(self._counts) < world:
            got = f"{len(self._counts)} pictures and {world} ranks"
            raise DataError("too few pairs to make batches of", got=got, expected="a picture for each rank")

    @property
    def facts(self) -> dict[str, Any]:
        """The checksum of all pairs, and of how many captions a picture has in a batch."""
        return {"data": self._checksum}

    def cut(self, epoch: int) -> list[Numbers]:
        """Pairs [p c], a row for each picture, in batches of nearly one size, in random order."""
        random = self.random(epoch)
        count = min(-(-len(self._counts) // self.pictures), len(self._counts) // self.world)
        shuffled = random.permutation(self._drawn(random))[: count * self.pictures]
        longest = self._lengths[shuffled].max(1)
        cuts = len(shuffled) * np.arange(count + 1) // count  # each batch has as many, give or take one
        bucket = np.repeat(np.arange(count) // BUCKET, np.diff(cuts))
        order = shuffled[np.lexsort((longest, bucket))]
        batches = np.split(order, cuts[1:-1])
        return [batches[number] for number in random.permutation(count)]

    def collate(self, rows: Numbers) -> TokenBatch:
        """The captions of these pictures, one after the other, padded to few shapes if asked."""
        indices = rows.ravel().tolist()
        batch = replace(collate([self._pairs[row] for row in indices], source_eos=False), indices=indices)
        if self.fit is None:
            return batch
        full = -(-self.pictures // self.world) * self.captions
        return batch.fitted(rows=full, multiple=self.fit)

    @cached_property
    def _checksum(self) -> str:
        ids = np.array([number for pair in self._pairs for side in pair for number in (len(side), *side)], np.int64)
        return blake2b(ids.tobytes() + str(self.captions).encode(), digest_size=8).hexdigest()

    def _drawn(self, random: np.random.Generator) -> Numbers:
        """For each picture some of its captions, without a second time before each had its first."""
        picture = np.repeat(np.arange(len(self._counts)), self._counts)
        mixed = self._order[np.lexsort((random.random(len(picture)), picture))]
        starts = np.cumsum(self._counts) - self._counts
        return mixed[starts[:, None] + np.arange(self.captions) % self._counts[:, None]]


def _by_picture(sources: list[Sequence[int]]) -> tuple[Numbers, Numbers]:
    """An order in which the pairs of a picture stand together, and how many each picture has."""
    for row, source in enumerate(sources):
        if len(source) != 1:
            got = f"{len(source)} numbers in pair {row}"
            raise DataError("the source of a caption is its picture", got=got, expected="one number")
    pictures = np.array([number for (number,) in sources], np.int64)
    _, counts = np.unique(pictures, return_counts=True)
    return np.argsort(pictures, kind="stable"), counts.astype(np.int64)
