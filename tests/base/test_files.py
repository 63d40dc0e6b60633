"""Files are whole or not there."""

import os
from pathlib import Path

import pytest

from regard.base import write_atomically


@pytest.mark.parametrize(("content", "data"), [("é→\n", "é→\n".encode()), (b"\x00\xff", b"\x00\xff"), ("", b"")])
def test_content(tmp_path: Path, content: str | bytes, data: bytes) -> None:
    path = tmp_path / "new" / "folder" / "file"
    assert write_atomically(path, content) == path
    assert path.read_bytes() == data
    assert list(path.parent.iterdir()) == [path]


def test_takes_a_plain_string_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(str(path), "old and long")
    write_atomically(str(path), "new")
    assert path.read_text() == "new"


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_failure_leaves_the_old_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: type[BaseException]
) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def fail(*_: object) -> None:
        raise error("the disk is full")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(error, match="full"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_atomically(tmp_path / "folder", "new")
    assert list(tmp_path.iterdir()) == [tmp_path / "folder"]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600)])
def test_permissions_follow_the_umask(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        path = write_atomically(tmp_path / "file", "text")
        assert os.umask(umask) == umask  # and it is left as it was
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == mode
