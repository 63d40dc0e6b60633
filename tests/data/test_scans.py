"""One pass over a corpus: the splits of a corpus in memory, a fair sample, and memory that does not grow."""

import tracemalloc
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from pair_files import PACKED, made_up, write_sides
from table import cases

from regard.base import RegardError
from regard.data.file_lists import paired_files
from regard.data.parallel import DataError, ParallelText, read_parallel, split_by_source
from regard.data.scans import (
    COPIES,
    FACTS,
    Scan,
    check_same_files,
    load_scan,
    load_text,
    save_scan,
    scan_corpus,
    training_pairs,
)


def scanned(
    folder: Path, pairs: list[tuple[str, str]], *, held_out: int = 20, sample: int = 100, ending: str = ".gz"
) -> tuple[Scan, dict[str, ParallelText], tuple[list[str], list[str]]]:
    files = paired_files(*write_sides(folder, pairs, ending=ending))
    scan, texts = scan_corpus(*files, held_out=lambda size: held_out, most_held_out=held_out, sample=sample)
    return scan, texts, files


@cases("ending", PACKED)
@cases("seed", range(4))
def test_the_splits_are_those_of_a_corpus_in_memory(tmp_path: Path, seed: int, ending: str) -> None:
    pairs = made_up(200 + 311 * seed, seed=seed, copies=0.4)
    scan, texts, files = scanned(tmp_path / f"{seed}{ending}", pairs, ending=ending)
    whole = read_parallel(*files)
    splits = split_by_source(whole, valid=20, test=20)
    assert scan.pairs == whole.size == len(pairs)
    for name in ("valid", "test"):
        assert texts[name][:2] == splits[name][:2]
    assert list(training_pairs(scan, *files)) == list(zip(*splits["train"][:2], strict=True))
    assert scan.training_pairs == splits["train"].size


def test_a_source_sentence_that_comes_often(tmp_path: Path) -> None:
    pairs = [("again", f"encore {n}") for n in range(3 * COPIES)] + made_up(400, copies=0)
    folder, least = tmp_path / "often", 0
    for held_out in range(1, 200, 30):  # until it is held out
        scan, texts, files = scanned(folder, pairs, held_out=held_out)
        kept = sum(text.source.count("again") for name, text in texts.items() if name != "sample")
        trained = [source for source, _ in training_pairs(scan, *files)]
        assert kept == (0 if "again" in trained else COPIES)
        assert scan.training_pairs == len(trained)
        least += kept > 0
    assert least


def test_one_sentence_alone_leaves_nothing_to_train_on(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nothing is left to train on: got 500 pairs, of which 20 are for validation"):
        scanned(tmp_path, [("the same", "le même")] * 500)


def test_the_sample_is_fair() -> None:
    """Of 2,000 places each is drawn as often as another; the mean of 200 samples of 50 lies near the middle."""
    from regard.data.scans import _Reservoir

    places: list[int] = []
    for seed in range(200):
        reservoir = _Reservoir(50, seed)
        for number in range(2000):
            reservoir.add(number, str(number), "")
        text = reservoir.text(0)
        assert len(set(text.source)) == 50
        places += map(int, text.source)
    assert abs(fmean(places) - 999.5) < 4 * 577 / np.sqrt(len(places))  # four standard errors
    counts = np.histogram(places, 20, (0, 2000))[0]
    assert np.abs(counts - 500).max() < 5 * np.sqrt(500)
    few = _Reservoir(50, 0)
    for number in range(30):
        few.add(number, str(number), "")
    assert few.text(10).source == [str(number) for number in range(10, 30)]  # all, but for what is held out


def test_the_sample_is_of_training_pairs(tmp_path: Path) -> None:
    pairs = made_up(900, copies=0)
    scan, texts, files = scanned(tmp_path, pairs, sample=400)
    sample = set(zip(*texts["sample"][:2], strict=True))
    assert sample <= set(training_pairs(scan, *files))
    assert 340 < len(sample) <= 400
    again, texts_again, _ = scanned(tmp_path, pairs, sample=400)
    assert (again, texts_again["sample"]) == (scan, texts["sample"])


def test_a_scan_on_disk(tmp_path: Path) -> None:
    pairs = [("a\u2028b\x0b", "c\td"), ("  é ", " ß "), *made_up(300)]
    scan, texts, _ = scanned(tmp_path / "text", pairs)
    save_scan(tmp_path, scan, texts)
    assert load_scan(tmp_path) == scan
    for name, text in texts.items():
        assert load_text(tmp_path, name)[:2] == text[:2]
    (tmp_path / "valid.source").write_text("one line\n")
    with pytest.raises(RegardError, match=r"valid is damaged: got 1 and \d+ lines. Try: delete its folder"):
        load_text(tmp_path, "valid")
    (tmp_path / FACTS).write_text('{"pairs": 1}')
    with pytest.raises(RegardError, match=r"scan.json cannot be read"):
        load_scan(tmp_path)


def test_files_that_changed(tmp_path: Path) -> None:
    scan, _, files = scanned(tmp_path, made_up(300))
    assert [facts.name for facts in scan.files] == [f"c.{n:02}.{side}.gz" for side in ("de", "en") for n in range(3)]
    check_same_files(scan.files, scan.files)
    changed = (*scan.files[:4], replace(scan.files[4], checksum="0"), scan.files[5])
    with pytest.raises(DataError, match=r"c.01.en.gz has changed since the run began: got [\d,]+ bytes, checksum 0;"):
        check_same_files(scan.files, changed)
    with pytest.raises(DataError, match=r"the corpus has changed since the run began: got 5 files; expected 6 files"):
        check_same_files(scan.files, scan.files[:5])
    Path(files[0][2]).write_bytes(PACKED[".gz"](b"another line\n" * 167))
    with pytest.raises(DataError, match=r"c.02.de.gz has changed since the run began"):
        list(training_pairs(scan, *files))


@cases("cut", [1, 10, 500, 3000])
def test_an_archive_that_breaks_off(tmp_path: Path, cut: int) -> None:
    files = paired_files(*write_sides(tmp_path / str(cut), made_up(3000)))
    path = Path(files[1][2])
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(
        DataError, match=r"c.02.en.gz, after line \d+: the file breaks off: got .*; expected a whole .gz"
    ):
        scan_corpus(*files, held_out=lambda size: 1, most_held_out=1, sample=10)


def test_unequal_files_are_named(tmp_path: Path) -> None:
    files = paired_files(*write_sides(tmp_path, made_up(90), ending=""))
    Path(files[1][1]).write_text("one\n")
    with pytest.raises(DataError, match=r"c.01.de and .*c.01.en: unequal line counts: got 30 and 1 lines"):
        scan_corpus(*files, held_out=lambda size: 1, most_held_out=1, sample=10)


def test_memory_does_not_grow(tmp_path: Path) -> None:
    """Fifty times the pairs, and less than a tenth of what they would take."""
    peaks = []
    for count in (200, 10_000):
        files = paired_files(*write_sides(tmp_path / str(count), made_up(count, copies=0)))
        tracemalloc.start()
        scan, _ = scan_corpus(*files, held_out=lambda size: 20, most_held_out=20, sample=100)
        assert sum(1 for _ in training_pairs(scan, *files)) == scan.training_pairs
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 10_000 * 2 * 70 / 10
