"""Parallel files: what is read, what is an error and what is dropped; splits that do not leak."""

import bz2
import gzip
import io
import lzma
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.base import ConfigError, RegardError
from regard.data.parallel import (
    OPENERS,
    DataError,
    ParallelText,
    read_lines,
    read_parallel,
    split_by_source,
    stream_parallel,
)

PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
}


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("suffix", PACK)
def test_lines_of_every_compression(tmp_path: Path, suffix: str) -> None:
    content = "\ufeffun chat\r\nzwölf  Boxkämpfer\u2028\x0b\x85!\n\nlast".encode()
    path = write(tmp_path, f"text{suffix}", PACK[suffix](content))
    assert list(read_lines(path)) == ["un chat", "zwölf  Boxkämpfer\u2028\x0b\x85!", "", "last"]
    assert list(read_lines(str(path))) == list(read_lines(path))


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2"])
def test_a_file_that_breaks_off_is_named(tmp_path: Path, suffix: str) -> None:
    content = PACK[suffix](os.urandom(50_000).hex().encode())
    path = write(tmp_path, f"text{suffix}", content[: len(content) // 2])
    with pytest.raises(DataError, match=rf"text{suffix}, after line \d+: the file breaks off: .* Try: delete it"):
        list(read_lines(path))


def test_lines_are_read_one_at_a_time(tmp_path: Path) -> None:
    lines = read_lines(write(tmp_path, "text", b"good\n\xff\n"))
    assert next(lines) == "good"
    with pytest.raises(DataError, match="text, line 2: invalid UTF-8: got byte 0xff at position 0; expected UTF-8"):
        next(lines)


@pytest.mark.parametrize("suffix", PACK)
def test_two_files_and_one_file_agree(tmp_path: Path, suffix: str) -> None:
    pack = PACK[suffix]
    source = write(tmp_path, f"text.fr{suffix}", pack("un chat \nl’été\n".encode()))
    target = write(tmp_path, f"text.en{suffix}", pack(b"a cat\r\nthe summer"))
    both = write(tmp_path, f"text.tsv{suffix}", pack("7\tun chat\ta cat\tCC\n8\tl’été\tthe summer\n".encode()))
    expected = ParallelText(["un chat", "l’été"], ["a cat", "the summer"], {})
    assert read_parallel(source, target) == expected == read_parallel(both, columns=(1, 2))
    assert expected.size == 2
    assert read_parallel(both, columns=(2, 1)).source == ["a cat", "the summer"]


BAD: dict[str, tuple[bytes, bytes, str]] = {
    "encoding": (b"one\ntwo\n", b"un\ncaf\xe9\n", "fr, line 2: invalid UTF-8: got byte 0xe9 at position 3;"
        " expected UTF-8. Try: convert the file: iconv -f latin1 -t utf-8."),
    "empty": (b"one\n \t\n", b"un\ndeux\n", "en, line 2: empty side: got no source; expected a sentence on both sides."
        " Try: drop it: on_bad='drop'."),
    "long": (b"one\n" + b"x" * 51, b"un\ndeux\n", "en, line 2: too many characters: got 51 in the source;"
        " expected at most 50. Try: drop it: on_bad='drop'; or raise max_characters."),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_pairs_are_errors_or_counted(tmp_path: Path, case: str) -> None:
    left, right, message = BAD[case]
    source, target = write(tmp_path, "en", left), write(tmp_path, "fr", right)
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        read_parallel(source, target, max_characters=50)
    assert str(tmp_path) in str(caught.value)
    reason = message.split(": ")[1]
    assert read_parallel(source, target, max_characters=50, on_bad="drop") == (["one"], ["un"], {reason: 1})


@pytest.mark.parametrize(("columns", "got"), [((0, 1), "1 column"), ((1, 0), "1 column"), ((0, 3), "1 column")])
def test_too_few_columns(tmp_path: Path, columns: tuple[int, int], got: str) -> None:
    path = write(tmp_path, "text.tsv", "a\tb\tc\td\nonly\n")
    message = f"text.tsv, line 2: too few columns: got {got}; expected {max(columns) + 1} or more, parted by tabs"
    with pytest.raises(DataError, match=message):
        read_parallel(path, columns=columns)
    assert read_parallel(path, columns=columns, on_bad="drop").dropped == {"too few columns": 1}


@pytest.mark.parametrize("on_bad", ["error", "drop"])
@pytest.mark.parametrize(("left", "right"), [(3, 5), (5, 3), (1, 2)])
def test_unequal_counts_are_always_an_error(tmp_path: Path, on_bad: str, left: int, right: int) -> None:
    source, target = write(tmp_path, "en", "a\n" * left), write(tmp_path, "fr", "b\n" * right)
    with pytest.raises(
        DataError, match=rf"en and .*fr: unequal line counts: got {left} and {right} lines; expected line"
    ):
        read_parallel(source, target, on_bad=on_bad)


@pytest.mark.parametrize("on_bad", ["error", "drop"])
def test_empty_and_missing_files_are_always_an_error(tmp_path: Path, on_bad: str) -> None:
    full, empty = write(tmp_path, "full", "a\tb\n"), write(tmp_path, "empty", "")
    for pair in ((empty, full), (full, empty), (empty, None), (write(tmp_path, "e.gz", gzip.compress(b"")), None)):
        with pytest.raises(DataError, match="the file is empty: got 0 lines; expected 1 or more"):
            read_parallel(*pair, on_bad=on_bad)
    for lost in (tmp_path / "none", tmp_path / "none.gz", full / "below", tmp_path):
        with pytest.raises(DataError, match=r"cannot be read: got .*; expected a file. Try: check the path"):
            read_parallel(lost, on_bad=on_bad)


def test_several_files_are_read_one_after_the_other(tmp_path: Path) -> None:
    sources = [write(tmp_path, f"{n}.de.gz", gzip.compress(f"eins {n}\nzwei {n}\n".encode())) for n in range(3)]
    targets = [write(tmp_path, f"{n}.en", f"one {n}\ntwo {n}\n".encode()) for n in range(3)]
    text = read_parallel(sources, targets)
    assert text.source == [f"{word} {n}" for n in range(3) for word in ("eins", "zwei")]
    assert text.target == [f"{word} {n}" for n in range(3) for word in ("one", "two")]
    targets[1].write_bytes(b"one\n\xff\n")
    with pytest.raises(DataError, match=r"1.en, line 2: invalid UTF-8"):
        read_parallel(sources, targets)
    assert read_parallel(sources, targets, on_bad="drop").dropped == {"invalid UTF-8": 1}


def test_the_bytes_of_a_file_are_seen(tmp_path: Path) -> None:
    """All of them, packed as they are, with what stands after the end of an archive; and once."""
    for suffix, pack in (("", bytes), (".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress)):
        data, seen = pack("".join(f"a {n}\tb {n}\n" for n in range(5000)).encode()), bytearray()
        path = write(tmp_path, f"t.tsv{suffix}", data)
        pairs = stream_parallel([path], None, dropped=Counter(), seen=lambda side, number, seen=seen: seen.extend)
        assert sum(1 for _ in pairs) == 5000
        assert bytes(seen) == data


def test_zstandard_needs_a_new_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "t.zst", b"(\xb5/\xfd")
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    with pytest.raises(DataError, match=r"a .zst file cannot be unpacked: got Python 3.\d+; expected Python 3.14"):
        list(read_lines(path))


def test_filters_drop_and_count(tmp_path: Path) -> None:
    lines = ["a b\tc d", "a\tc d", "a b c d e\tf g h i", "a b c d\te f", "a b c\td e"]
    path = write(tmp_path, "text.tsv", "\n".join(lines))
    read = read_parallel(path, min_words=2, max_words=4, max_ratio=1.5)
    assert read.source == ["a b", "a b c"]
    assert read.dropped == {"too few words": 1, "too many words": 1, "unlike lengths": 1}
    assert read_parallel(path).size == 5
    assert read_parallel(path, max_ratio=2.0).dropped == {}


@pytest.mark.bare
def test_settings_are_checked(tmp_path: Path) -> None:
    path = write(tmp_path, "text.tsv", "a\tb")
    with pytest.raises(ConfigError, match="on_bad: got 'skip'; expected 'error' or 'drop'"):
        read_parallel(path, on_bad="skip")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="columns"):
        read_parallel(path, columns=(-1, 0))


def test_data_errors_are_ours() -> None:
    assert issubclass(DataError, RegardError)


def numbered(size: int) -> ParallelText:
    return ParallelText(
        [f"sentence {i % (size - size // 5)}" for i in range(size)], [f"Satz {i}" for i in range(size)], {}
    )


@given(seed=st.integers(0, 1000), valid=st.sampled_from([0, 7, 0.1]), test=st.sampled_from([0, 5, 0.2]))
@settings(max_examples=25, deadline=None)
def test_splits_part_the_pairs_and_share_no_source(seed: int, valid: float, test: float) -> None:
    pairs = numbered(2000)
    splits = split_by_source(pairs, valid=valid, test=test, seed=seed)
    assert sorted(t for split in splits.values() for t in split.target) == sorted(pairs.target)
    for one, other in (("train", "valid"), ("train", "test"), ("valid", "test")):
        assert not set(splits[one].source) & set(splits[other].source)
    for name, asked in (("valid", valid), ("test", test)):
        if isinstance(asked, int):
            assert asked <= splits[name].size <= asked + 1
        else:
            assert 0.3 * asked < splits[name].size / 2000 < 2 * asked


def test_sources_that_differ_in_case_and_space_stay_together() -> None:
    forms = ["Le Chat  dort", "le chat dort", " LE\u00a0CHAT DORT ", "e\u0301te\u0301", "Été", "straße", "STRASSE"]
    for seed in range(30):
        pairs = ParallelText(forms + [f"other {i}" for i in range(9)], [str(i) for i in range(16)], {})
        splits = split_by_source(pairs, valid=0.3, test=0.3, seed=seed)
        home = {source: name for name, split in splits.items() for source in split.source}
        assert len({home[form] for form in forms[:3]}) == len({home[form] for form in forms[3:5]}) == 1
        assert home["straße"] == home["STRASSE"]


def test_splits_do_not_depend_on_order_and_do_on_seed() -> None:
    pairs = numbered(100)
    turned = ParallelText(pairs.source[::-1], pairs.target[::-1], {})
    for amounts in ({"valid": 10, "test": 10}, {"valid": 0.1, "test": 0.1}):
        one, other = split_by_source(pairs, **amounts, seed=1), split_by_source(turned, **amounts, seed=1)
        assert {name: sorted(split.target) for name, split in one.items()} == {
            name: sorted(split.target) for name, split in other.items()
        }
        assert one != split_by_source(pairs, **amounts, seed=2)


def test_shares_are_stable_when_data_grows() -> None:
    small, large = (split_by_source(numbered(size), valid=0.1, test=0.1) for size in (100, 400))
    assert set(small["test"].source) <= set(large["test"].source)
    assert set(small["valid"].source) <= set(large["valid"].source)


def test_splits_are_the_same_in_every_process() -> None:
    code = (
        "from regard.data.parallel import ParallelText, split_by_source;"
        "pairs = ParallelText([f's {i}' for i in range(50)], [str(i) for i in range(50)], {});"
        "print(split_by_source(pairs, valid=5, test=5, seed=3)['test'].target)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    pairs = ParallelText([f"s {i}" for i in range(50)], [str(i) for i in range(50)], {})
    assert run.stdout == f"{split_by_source(pairs, valid=5, test=5, seed=3)['test'].target}\n"


def test_wrong_amounts() -> None:
    with pytest.raises(DataError, match="nothing is left to train on: got 10 pairs, valid=6, test=4"):
        split_by_source(numbered(10), valid=6, test=4)
    with pytest.raises(DataError, match="nothing is left"):
        split_by_source(numbered(10), valid=60, test=0)
    for amount in (-1, 1.0, 1.5):
        with pytest.raises(ConfigError, match="split_by_source test: got"):
            split_by_source(numbered(10), valid=1, test=amount)


def test_a_line_without_end_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.data.parallel.MAX_LINE", 1000)
    asked: list[int] = []

    class Endless(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any, /) -> int:
            asked.append(len(buffer))
            assert sum(asked) < 10**6, "a whole line was asked for"
            buffer[:] = b"\x01" * len(buffer)
            return len(buffer)

    (tmp_path / "a.gz").touch()
    monkeypatch.setitem(OPENERS, ".gz", lambda path, mode: Endless())
    text = r"a.gz, line 1: the line does not end: got more than 1,000 bytes; expected one sentence a line. Try: look"
    for read in (lambda path: list(read_lines(path)), lambda path: read_parallel(path, on_bad="drop")):
        with pytest.raises(DataError, match=text):
            read(tmp_path / "a.gz")
    assert len(asked) == 2


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.data.parallel.MAX_LINE", 2**16)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b"a" * 2**22))
    with pytest.raises(DataError, match=r"bomb.gz, line 1: the line does not end"):
        list(read_lines(tmp_path / "bomb.gz"))


def test_more_text_than_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.tsv").write_text("a cat\tun chat\n" * 1000)
    monkeypatch.setattr("regard.data.parallel.free_memory", lambda: 5000)
    with pytest.raises(
        DataError, match=r"a.tsv: there is more text than memory: got \d\d pairs so far. Try: set task.reading"
    ):
        read_parallel(tmp_path / "a.tsv")


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/urandom"])
def test_devices_are_no_text(device: str) -> None:
    with pytest.raises(DataError, match=f"{device}: cannot be read: got a device; expected a file. Try: name a file"):
        list(read_lines(device))


def test_a_pipe_is_a_text(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["sh", "-c", f"printf 'a\\tb\\nc\\td\\n' > {tmp_path / 'pipe'}"]):
        assert read_parallel(tmp_path / "pipe").source == ["a", "c"]


def test_a_name_that_no_file_has() -> None:
    with pytest.raises(DataError, match="cannot be read: got embedded null byte"):
        list(read_lines("a\0b"))


@pytest.mark.parametrize(
    ("content", "cure"),
    [
        ("café\n".encode("utf-16"), "convert the file: iconv -f utf-16 -t utf-8"),
        ("tea\n".encode("utf-16-le"), "convert the file: iconv -f utf-16 -t utf-8"),  # valid UTF-8, with NULs
        ("café\n".encode("latin1"), "convert the file: iconv -f latin1 -t utf-8"),
        (gzip.compress(b"a line\n", mtime=0), "convert the file: gunzip, or give its name the ending .gz"),
    ],
)
def test_the_cure_fits_the_encoding(tmp_path: Path, content: bytes, cure: str) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(DataError, match=rf"a.txt, line 1: invalid UTF-8: got byte 0x.* Try: {cure}\.$"):
        list(read_lines(tmp_path / "a.txt"))
