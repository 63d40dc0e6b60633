"""Flickr8k (Hodosh, Young & Hockenmaier 2013): 8,000 photographs with five captions each.

It is for non-commercial research and education. The pictures are read from zip files, in which they are reduced to a
short side of 176 pixels.
"""

import re
from pathlib import Path, PurePosixPath

from regard.data.captions import Captions, Zip, signature_of
from regard.data.download import find
from regard.data.parallel import DataError, read_lines
from regard.data.sources import listed_sources
from regard.datasets.dataset import Dataset

SPLITS = {"train": "train", "valid": "dev", "test": "test"}
LICENCE = "no open licence; handed out for non-commercial research and education"
SOURCES = listed_sources(
    """
66568297576898cbb848150e94448b201e2c396d6f94597fa932528022a1db13   867657 flickr8k/Flickr8k.token.txt.gz
18ba829f47f6df1cb830bf7f0506e2ddf333818925299babbd1bbcaf50fdc504    25801 flickr8k/Flickr_8k.devImages.txt
c0924146c131458ceba45da59670fe9520eadce1e5cafffa16a817672a9b1f17    25775 flickr8k/Flickr_8k.testImages.txt
e330ddd5156a4c2d2e2b67bc587e70e588f2d132bd8a10dc54dcb71e58115d8e   154678 flickr8k/Flickr_8k.trainImages.txt
3113f2691f623857606dd4615930775e015d558efe7fe2c8d85cd3b79be1ca0f  6257520 flickr8k/dev.zip
14cb851a2342ab8574a4523a27622eb40b707684752d00f56041439c0c1f5343  6173084 flickr8k/test.zip
947fbde4d448c5ee2271426e23ad9c512e649e9880c956cdd15a1d7e5b25f7dd 37323640 flickr8k/train.zip
""",
    licence=LICENCE,
)
_NUMBERED = re.compile(r"#\d+$")


def flickr8k() -> dict[str, Captions]:
    """Flickr8k in its official split: 6,000 pictures train, 1,000 valid, 1,000 test, five captions each."""
    captions = _by_name(find(SOURCES["flickr8k/Flickr8k.token.txt.gz"]))
    splits = {}
    for split, file_name in SPLITS.items():
        place = f"flickr8k/{file_name}.zip"
        listed = find(SOURCES[f"flickr8k/Flickr_8k.{file_name}Images.txt"])
        names = [line.strip() for line in read_lines(listed) if line.strip()]
        for number, name in enumerate(names, 1):
            if name not in captions:
                raise DataError(f"{listed}, line {number}: a picture without a caption", got=name)
        packed = Zip(find(SOURCES[place]))
        inside = tuple(PurePosixPath(name).with_suffix(".webp").name for name in names)
        if missing := [name for name in inside if name not in packed]:
            raise DataError(f"{packed.path}: a picture is missing", got=missing[0], expected=f"{len(names)} pictures")
        texts = tuple(tuple(captions[name]) for name in names)
        splits[split] = Captions(inside, texts, packed, signature_of([place, *inside]))
    return splits


def _by_name(path: Path) -> dict[str, list[str]]:
    """Captions in the form of Flickr8k: `name.jpg#0<TAB>caption`."""
    captions: dict[str, list[str]] = {}
    for number, line in enumerate(read_lines(path), 1):
        name, tab, caption = line.partition("\t")
        if not tab or not caption.strip():
            raise DataError(f"{path}, line {number}: no caption", got=repr(line[:60]), expected="picture#0<TAB>caption")
        captions.setdefault(_NUMBERED.sub("", name), []).append(caption.strip())
    return captions


DATASET = Dataset(
    "flickr8k",
    kind="captions",
    read=flickr8k,
    splits=tuple(SPLITS),
    licence=LICENCE,
    sources=SOURCES,
    note="8,000 photographs with five captions each",
)
