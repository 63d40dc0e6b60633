"""Make the small sample of bAbI inside the package from the archive of the whole set.

    REGARD_DATA=FOLDER python tools/make_babi_small.py

It keeps the first stories of tasks 1, 2 and 6 and changes no line. The archive has no dates, so the bytes are the same
every time.
"""

import io
import lzma
import re
import tarfile
from pathlib import Path

from regard.data import find
from regard.datasets.babi import SOURCES
from regard.datasets.babi_small import FILE, TASKS

OUT = Path(__file__).parents[1] / "src" / "regard" / "datasets" / "corpora" / FILE
STORIES = {"train": 150, "test": 40}  # of each task; each story has five questions


def main() -> None:
    """Write the archive."""
    packed = io.BytesIO()
    with (
        tarfile.open(find(SOURCES["babi/tasks_1-20_v1-2_en.tar.xz"])) as whole,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as small,
    ):
        for member in sorted(whole.getmembers(), key=lambda member: member.name):
            name = re.fullmatch(r".*/en/qa(\d+)_[\w-]+_(train|test)\.txt", member.name)
            if name is None or name[1] not in TASKS:
                continue
            content = whole.extractfile(member)
            assert content is not None
            kept = first_stories(content.read().decode(), STORIES[name[2]]).encode()
            entry = tarfile.TarInfo("/".join(member.name.split("/")[-3:]))
            entry.size = len(kept)
            small.addfile(entry, io.BytesIO(kept))
    OUT.write_bytes(lzma.compress(packed.getvalue(), preset=9 | lzma.PRESET_EXTREME))
    print(f"{OUT}: {OUT.stat().st_size:,} bytes")


def first_stories(text: str, count: int) -> str:
    """The lines of the first stories.

    >>> first_stories("1 A b.\\n2 C d.\\n1 E f.\\n", 1)
    '1 A b.\\n2 C d.\\n'
    """
    begins = [match.start() for match in re.finditer(r"^1 ", text, re.MULTILINE)]
    return text[: begins[count]] if count < len(begins) else text


if __name__ == "__main__":
    main()
