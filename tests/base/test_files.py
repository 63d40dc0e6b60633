"""Files are whole or not there."""

import os
import re
from pathlib import Path

import pytest

import regard
from regard.base import RegardError, Unfollowed, followed, inside, parse_json, read_json, read_stored, write_atomically
from regard.base.files import MAX_DEPTH, file_sha256, part_beside, replacing, whole_path


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


def test_a_file_that_another_function_writes(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with replacing(path) as part:
        part.write_text("new")
        assert (part.parent, whole_path(part), path.exists()) == (tmp_path, path, False)
    assert path.read_text() == "new"

    def stopped() -> None:
        with replacing(path) as part:
            part.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert [child.name for child in tmp_path.iterdir()] == ["a.txt"]
    assert path.read_text() == "new"


def test_parts_have_names_of_their_own() -> None:
    path = Path("run/log.jsonl")
    parts = {part_beside(path) for _ in range(100)}
    assert len(parts) == 100
    assert {whole_path(part) for part in parts} == {path}
    for other in ("run/.hidden", "run/a.part", ".b.0123.part", "."):
        assert whole_path(Path(other)) == Path(other)


def test_checksum_of_a_file(tmp_path: Path) -> None:
    """The example of FIPS 180-2, appendix B.1."""
    (tmp_path / "a").write_bytes(b"abc")
    assert file_sha256(tmp_path / "a") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_files_are_hashed_and_named_in_one_place() -> None:
    for path in Path(regard.__file__).parent.rglob("*.py"):
        if path.name != "files.py":
            assert not re.search(r"file_digest|token_hex\(6\)", path.read_text()), path


# ── what others may have made ───────────────────────────────────────────────────────────────────────────────────────


def test_all_json_comes_through_one_door() -> None:
    """Everywhere else 100,000 brackets would end in a RecursionError.

    What exports write to be run without regard reads the files of its own folder.
    """
    package = Path(regard.__file__).parent
    without_regard = {package / "export" / name for name in ("run_onnx.py", "transformers.py")}
    for path in package.rglob("*.py"):
        if path.name != "files.py" and path not in without_regard:
            assert not re.search(r"json\.loads?\(|from json import", path.read_text()), path


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("[" * 100_000, "brackets nested too deeply"),
        ('{"a":' * 100_000, "brackets nested too deeply"),
        ("[" * 900 + "]" * 900, "brackets nested too deeply"),  # Python could still read it, but not write it
        ("", "Expecting value: line 1 column 1 (char 0)"),
        ("{secret", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        (b"\xffsecret", "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        ("9" * 5000, "Exceeds the limit (4300 digits) for integer string conversion"),
    ],
)
def test_what_is_no_json_is_an_error_that_quotes_nothing(text: str | bytes, got: str) -> None:
    with pytest.raises(RegardError) as caught:
        parse_json(text)
    assert str(caught.value).startswith(f"this is no JSON: got {got}")
    assert "secret" not in str(caught.value)


def test_what_is_json_is_read() -> None:
    nest = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert parse_json(b'{"a": [1, 2.5, null, "\xc3\xa9"]}') == {"a": [1, 2.5, None, "é"]}
    assert str(parse_json(nest)) == nest


def test_a_file_of_values(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"a": 1}')
    assert read_json(path, cure="delete it") == {"a": 1}
    for text, got in (
        ("[]", "list; expected values by name"),
        ("{", "Expecting property name .*"),
        ("[" * 9**6, "brack"),
    ):
        path.write_text(text)
        with pytest.raises(RegardError, match=rf"a\.json cannot be read: got {got}.*Try: delete it"):
            read_json(path, cure="delete it")
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "none.json", cure="delete it")


def test_a_link_that_leads_out_is_refused(tmp_path: Path) -> None:
    secret, folder = tmp_path / "secret.json", tmp_path / "run"
    secret.write_text('{"secret": 1}')
    folder.mkdir()
    (folder / "out.json").symlink_to(secret)
    (folder / "up.json").symlink_to("../secret.json")
    (folder / "zero").symlink_to("/dev/zero")
    for name in ("out.json", "up.json", "zero"):
        with pytest.raises(RegardError, match=rf"{name} cannot be read: got a link that leads out of its folder"):
            inside(folder / name)
    (folder / "one.json").write_text("{}")
    (folder / "two.json").symlink_to("one.json")  # beside it, so nothing is shown that was not there
    (tmp_path / "other").symlink_to(folder)  # the whole folder may be anywhere
    for path in (folder / "one.json", folder / "two.json", tmp_path / "other" / "one.json", folder / "none.json"):
        assert inside(path) == path


def test_what_is_no_plain_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # to open it would be to wait for ever
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(RegardError, match=rf"{name} cannot be read: got no plain file; expected a file"):
            inside(tmp_path / name)


def test_a_path_that_is_not_followed_is_asked_for() -> None:
    path = Unfollowed("/etc/passwd")
    assert path == "/etc/passwd"
    assert followed("/mine", cure="name it") == "/mine"
    with pytest.raises(RegardError) as caught:
        followed(path, cure="name it again")
    assert str(caught.value) == (
        "this run was trained on files whose paths are not followed: got '/etc/passwd' in its recipe.json; "
        "expected paths that were given on this machine. Try: name it again."
    )


def test_a_stored_file_is_parsed_or_the_error_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "units.json"
    with pytest.raises(RegardError, match=r"cannot be read: got no such file.*; expected units. Try: restore"):
        read_stored(path, str.upper, expected="units")
    path.write_text("é", encoding="utf-8")
    assert read_stored(path, str.upper) == "É"
    with pytest.raises(RegardError, match=r"units.json cannot be read: got invalid literal.* Try: restore it"):
        read_stored(path, int)
    path.write_bytes(b"\xff")
    with pytest.raises(RegardError, match=r"units.json cannot be read: got .*can't decode"):
        read_stored(path, str.upper)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "units.json").symlink_to(path)
    with pytest.raises(RegardError, match="a link that leads out of its folder"):
        read_stored(tmp_path / "linked" / "units.json", str.upper)
