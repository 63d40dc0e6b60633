"""The whole files of Tatoeba follow the split of the corpus inside the package; the tool that makes that one."""

import hashlib
import importlib.util
import lzma
import re
from pathlib import Path

import pytest

from regard.base import ConfigError
from regard.data.download import DownloadError
from regard.data.parallel import ParallelText
from regard.data.sources import Source
from regard.datasets.tatoeba import DATASET, SOURCES, tatoeba
from regard.datasets.tatoeba_plain import tatoeba_plain


@pytest.fixture(scope="module")
def plain() -> dict[str, ParallelText]:
    return tatoeba_plain()


def key(sentence: str) -> str:
    """What makes a sentence: its letters."""
    return re.sub(r"[\W_]+", "", sentence).casefold()


def give(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, lines: list[str]) -> None:
    """Put a small file in place of a source."""
    data = lzma.compress("".join(line + "\n" for line in lines).encode())
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    monkeypatch.setitem(SOURCES, name, Source(name, None, hashlib.sha256(data).hexdigest(), len(data), "free"))
    monkeypatch.setenv("REGARD_DATA", str(folder))
    monkeypatch.setenv("REGARD_CACHE", str(folder / "cache"))


@pytest.mark.parametrize(("language", "name"), [("fr", "tatoeba/fra.txt.xz"), ("de", "tatoeba/deu.txt.xz")])
def test_the_whole_file_holds_out_the_same_sentences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain: dict[str, ParallelText], language: str, name: str
) -> None:
    english = plain["test"].source[:300] + plain["valid"].source[:100] + plain["train"].source[:2000]
    more = [f"Sentence number {number}." for number in range(500)]
    louder = [sentence.upper().replace(".", "  !") for sentence in english]  # the same words
    lines = [f"{sentence}\tÜbersetzung {row}" for row, sentence in enumerate([*english, *more, *louder])]
    give(tmp_path, monkeypatch, name, lines)
    whole = tatoeba(language)
    assert list(whole) == ["train", "valid", "test"]
    homes = {key(sentence): split for split, text in whole.items() for sentence in text.source}
    for split, text in plain.items():
        for sentence in text.source:
            assert homes.get(key(sentence), split) == split
    assert sum(homes[key(sentence)] == "test" for sentence in english) >= 300
    assert {split for sentence, split in homes.items() if "sentencenumber" in sentence} == {"train", "valid", "test"}
    for split, text in whole.items():
        for sentence in text.source:
            assert homes[key(sentence)] == split  # none is in two
    assert len(set(whole["test"].source)) == whole["test"].size


def test_further_translations_stay_in_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"Number {row}.\t{word} {row}." for row in range(200) for word in ("Zahl", "Nummer")]
    give(tmp_path, monkeypatch, "tatoeba/deu.txt.xz", lines)
    whole = tatoeba("de")
    for name in ("valid", "test"):
        assert whole[name].size > 0
        assert whole[name].dropped == {"further translations": whole[name].size}
        assert all(target.startswith("Zahl") for target in whole[name].target)
    assert whole["train"].size + 2 * whole["valid"].size + 2 * whole["test"].size == 400


def test_unknown_language() -> None:
    with pytest.raises(ConfigError, match="tatoeba language: got 'it'; expected 'fr' or 'de'"):
        tatoeba("it")


def test_a_missing_file_says_how_to_bring_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REGARD_DATA", raising=False)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    with pytest.raises(
        DownloadError,
        match=r"tatoeba/fra\.txt\.xz cannot be downloaded automatically.*3,711,932 bytes, sha256 481a.*REGARD_DATA",
    ):
        tatoeba()


def test_the_menu_reads_by_source_and_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"Number {row}.\tZahl {row}." for row in range(200)]
    give(tmp_path, monkeypatch, "tatoeba/deu.txt.xz", lines)
    assert DATASET.read(source="en", target="de") == tatoeba("de")
    with pytest.raises(ConfigError, match="languages of tatoeba: got de → en; expected en → fr or en → de"):
        DATASET.read(source="de", target="en")


def test_the_tool_that_makes_the_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(__file__).parents[2] / "tools" / "make_tatoeba_plain.py"
    spec = importlib.util.spec_from_file_location("make_tatoeba_plain", path)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    owners = "CC-BY 2.0 (France) Attribution: tatoeba.org #1 (CM) & #22 (Wittydev)"
    pairs = [
        ("The cat sleeps.", "Le chat dort."),
        ("The cat sleeps!", "Le chat dort !"),
        ("The cat hibernates.", "Le chat dort."),  # a rare word
        ("The cat sleeps.", "Le chat hiberne."),
        ("The cat.", "Le chat dort."),  # too short
        ("The cat sleeps.", "Le chat."),
        ("The cat " * 11, "Le chat dort."),  # too long
    ]
    give(tmp_path, monkeypatch, "tatoeba/fra.txt.xz", [f"{english}\t{french}\t{owners}" for english, french in pairs])
    monkeypatch.setattr(tool, "NUM_WORDS", 3)
    monkeypatch.setattr(tool, "OUTPUT", tmp_path / "plain.tsv.xz")
    tool.main()
    expected = [f"{english}\t{french}\t1 CM 22 Wittydev\n" for english, french in pairs[:2]]
    assert lzma.decompress((tmp_path / "plain.tsv.xz").read_bytes()).decode() == "".join(expected)
