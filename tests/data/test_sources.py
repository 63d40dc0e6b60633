"""A table of files becomes sources: names, addresses in their order, and files that are packed otherwise."""

import dataclasses

import pytest

from regard.data.sources import Source, listed_sources

TABLE = f"""
{"a" * 64}    12 set/one.gz
{"b" * 64} 12345 set/deep/two.gz
{"c" * 64}    13 set/one.gz
"""


def test_lines_become_sources() -> None:
    files = listed_sources(TABLE, licence="CC0", addresses=("https://first/", "https://second/x/"))
    assert list(files) == ["set/one.gz", "set/deep/two.gz"]
    assert files["set/one.gz"] == Source(
        "set/one.gz", "https://first/one.gz", "a" * 64, 12, "CC0", ("https://second/x/one.gz",), (("c" * 64, 13),)
    )
    assert files["set/deep/two.gz"].mirrors == ("https://second/x/two.gz",)
    assert files["set/deep/two.gz"].others == ()


def test_no_address() -> None:
    files = listed_sources(TABLE, licence="CC0")
    assert {(source.url, source.mirrors) for source in files.values()} == {(None, ())}


def test_a_source_is_frozen() -> None:
    source = listed_sources(TABLE, licence="CC0")["set/one.gz"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        source.url = "https://elsewhere"  # type: ignore[misc]
