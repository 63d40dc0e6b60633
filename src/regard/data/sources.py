"""What a file of a data set is: its name, its addresses, its size, its checksum, its licence.

Every data set lists its own files beside its reader, in the folder `datasets`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Source:
    """One file: its name is its path below the folder that `REGARD_DATA` names, and below the cache."""

    name: str
    url: str | None  # None: these very bytes cannot be downloaded
    sha256: str
    num_bytes: int
    licence: str
    mirrors: tuple[str, ...] = ()  # further addresses of the same bytes
    others: tuple[tuple[str, int], ...] = ()  # sha256 and size of files with the same content, packed otherwise


def listed_sources(table: str, *, licence: str, addresses: Sequence[str] = ()) -> dict[str, Source]:
    """The files of a table, by name: a line has sha256, bytes and name.

    Each of `addresses`, in the order in which they are tried, is followed by the last part of the name. A second line
    with the same name is of the same content, packed otherwise.

    >>> files = listed_sources(f"{'0' * 64} 12 set/a.gz", licence="CC0", addresses=["https://example.org/"])
    >>> files["set/a.gz"].url
    'https://example.org/a.gz'
    """
    sources: dict[str, Source] = {}
    for line in table.strip().splitlines():
        sha256, num_bytes, name = line.split()
        if name in sources:
            first = sources[name]
            sources[name] = replace(first, others=(*first.others, (sha256, int(num_bytes))))
            continue
        urls = tuple(address + name.rpartition("/")[2] for address in addresses)
        sources[name] = Source(name, next(iter(urls), None), sha256, int(num_bytes), licence, urls[1:])
    return sources
