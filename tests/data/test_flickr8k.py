"""Pictures with captions: Flickr8k's files in small, and folders of one's own, sound and broken."""

import gzip
import hashlib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from regard.base import ConfigError
from regard.data import SOURCES
from regard.data.flickr8k import Captions, Zip, caption_tokens, flickr8k, read_captions, split_captions
from regard.data.parallel import DataError
from regard.data.sources import Source


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("A dog 's black-and-white ball , on the GRASS .", "a dog 's black-and-white ball on the grass"),
        ("The man's dog doesn't bark!", "the man 's dog does n't bark"),
        ('A boy in a "Superman" shirt (number 7).', "a boy in a superman shirt number 7"),
        (" . , ", ""),
    ],
)
def test_words_of_a_caption(text: str, tokens: str) -> None:
    assert caption_tokens(text) == tokens.split()


# ── Flickr8k ────────────────────────────────────────────────────────────────────────────────────────────────────────


def small_set(folder: Path, monkeypatch: pytest.MonkeyPatch, *, leave_out: str = "") -> None:
    """Two pictures a split, five captions each, in the published layout."""
    home = folder / "flickr8k"
    home.mkdir()
    lines = []
    for part in ("train", "dev", "test"):
        names = [f"{part}{i}" for i in range(2)]
        (home / f"Flickr_8k.{part}Images.txt").write_text("".join(f"{name}.jpg\n" for name in names))
        with zipfile.ZipFile(home / f"{part}.zip", "w") as packed:
            for name in names:
                if f"{name}.webp" != leave_out:
                    packed.writestr(f"{name}.webp", name.encode())
        lines += [f"{name}.jpg#{i}\tcaption {i} of {name} .\n" for name in names for i in range(5)]
    lines = [line for line in lines if not leave_out or not line.startswith(leave_out)]
    (home / "Flickr8k.token.txt.gz").write_bytes(gzip.compress("".join(lines).encode()))
    for path in home.iterdir():
        name, content = f"flickr8k/{path.name}", path.read_bytes()
        source = Source(name, None, hashlib.sha256(content).hexdigest(), len(content), "")
        monkeypatch.setitem(SOURCES, name, source)
    monkeypatch.setenv("REGARD_DATA", str(folder))
    monkeypatch.setenv("REGARD_CACHE", str(folder / "cache"))


def test_flickr8k(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_set(tmp_path, monkeypatch)
    splits = flickr8k()
    assert {name: len(split) for name, split in splits.items()} == {"train": 2, "valid": 2, "test": 2}
    valid = splits["valid"]
    assert valid.names == ("dev0.webp", "dev1.webp")
    assert valid.captions[1] == tuple(f"caption {i} of dev1 ." for i in range(5))
    assert valid.read("dev1.webp") == b"dev1"
    assert len({split.signature for split in splits.values()}) == 3
    assert flickr8k()["valid"].signature == valid.signature
    with pytest.raises(DataError, match=r"dev\.zip: a picture cannot be read: got no\.webp"):
        valid.read("no.webp")


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("dev1.webp", r"dev\.zip: a picture is missing: got dev1\.webp"),
        ("test1.jpg", r"testImages\.txt, line 2: a picture without"),
    ],
)
def test_flickr8k_with_a_hole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str, message: str) -> None:
    small_set(tmp_path, monkeypatch, leave_out=missing)
    with pytest.raises(DataError, match=message):
        flickr8k()


def test_a_broken_zip(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(b"PK no zip")
    with pytest.raises(DataError, match=r"x\.zip: cannot be read"):
        Zip(path)("a")


# ── one's own ───────────────────────────────────────────────────────────────────────────────────────────────────────


def own(folder: Path, lines: str, *pictures: str) -> tuple[Path, Path]:
    (folder / "pictures" / "deep").mkdir(parents=True)
    for name in pictures:
        (folder / "pictures" / name).write_bytes(name.encode())
    (folder / "captions.tsv").write_text(lines)
    return folder / "captions.tsv", folder / "pictures"


def test_a_folder_with_captions(tmp_path: Path) -> None:
    lines = "a.png\tA dog .\nb.jpg#0\tA cat\nb.jpg#1\tTwo cats\ndeep/c.png\tA cow\n"
    found = read_captions(*own(tmp_path, lines, "a.png", "b.jpg", "deep/c.png", "notes.txt"))
    assert found.names == ("a.png", "b.jpg", "deep/c.png")
    assert found.captions == (("A dog .",), ("A cat", "Two cats"), ("A cow",))
    assert found.read("deep/c.png") == b"deep/c.png"
    assert found.dropped == {}


@pytest.mark.parametrize(
    ("line", "reason", "got"),
    [
        ("no tab at all", "no tab", "'no tab at all'"),
        ("a.png\t . ", "no caption", "a.png"),
        ("\ta dog", "no picture is named", "a dog"),
        ("lost.png\ta dog", "a picture that is not there", "lost.png"),
        ("../a.png\ta dog", "a picture outside the folder", "../a.png"),
        ("/etc/a.png\ta dog", "a picture outside the folder", "/etc/a.png"),
    ],
)
def test_bad_lines(tmp_path: Path, line: str, reason: str, got: str) -> None:
    places = own(tmp_path, f"a.png\tA dog\n{line}\n", "a.png")
    with pytest.raises(DataError, match=rf"captions\.tsv, line 2: {reason}: got .*{got}.*on_bad='drop'"):
        read_captions(*places)
    found = read_captions(*places, on_bad="drop")
    assert found.names == ("a.png",)
    assert found.dropped == {reason: 1}


def test_pictures_without_a_caption(tmp_path: Path) -> None:
    places = own(tmp_path, "a.png\tA dog\n", "a.png", "b.png", "deep/c.webp", ".hidden.png")
    with pytest.raises(DataError, match=r"a picture without a caption in .*: got b\.png and 1 more"):
        read_captions(*places)
    assert read_captions(*places, on_bad="drop").dropped == {"a picture without a caption": 2}


def test_nothing_to_read(tmp_path: Path) -> None:
    file, folder = own(tmp_path, "x\n", "a.png")
    with pytest.raises(DataError, match="no caption is left"):
        read_captions(file, folder, on_bad="drop")
    with pytest.raises(DataError, match="no folder with pictures: got nothing"):
        read_captions(file, tmp_path / "none")
    with pytest.raises(DataError, match=r"none\.tsv: cannot be read"):
        read_captions(tmp_path / "none.tsv", folder)


@pytest.mark.bare
def test_a_wrong_wish(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="on_bad: got 'skip'"):
        read_captions("x", tmp_path, on_bad="skip")  # type: ignore[arg-type]


def test_the_signature_follows_the_pictures(tmp_path: Path) -> None:
    places = own(tmp_path, "a.png\tA dog\n", "a.png")
    before = read_captions(*places).signature
    assert read_captions(*places).signature == before
    (places[1] / "a.png").write_bytes(b"another picture")
    assert read_captions(*places).signature != before


def test_splits_do_not_depend_on_the_order() -> None:
    def made(names: list[str]) -> dict[str, Captions]:
        captions = Captions(tuple(names), tuple((f"a {name}",) for name in names), str.encode, "x")
        return split_captions(captions, valid=3, test=2)

    names = [f"{i}.png" for i in range(20)]
    one, other = made(names), made(names[::-1])
    sizes: dict[str, Any] = {name: len(split) for name, split in one.items()}
    assert sizes == {"train": 15, "valid": 3, "test": 2}
    assert {name: set(split.names) for name, split in one.items()} == {n: set(s.names) for n, s in other.items()}
    assert one["valid"].captions[0] == (f"a {one['valid'].names[0]}",)
    with pytest.raises(DataError, match="nothing is left to train on"):
        made(names[:5])
