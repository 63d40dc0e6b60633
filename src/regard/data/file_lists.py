"""The files of a user: paths, and patterns such as corpus.*.de.gz, in an order that both sides of a corpus share.

>>> wildcards("corpus.*.de.gz", "corpus.07.de.gz")
('07',)
"""

import glob
import os
import re
from collections.abc import Sequence

from regard.data.parallel import DataError

_PARTS = re.compile(r"\[!?\]?[^\]]*\]|[*?]|[^*?\[]+|\[")
SHOWN = 3  # names in an error


def files_of(named: str | Sequence[str]) -> list[str]:
    """The files of paths and patterns, in the order in which they were named; those of one pattern by their names.

    A path at which there is something is that, whatever characters are in it.
    """
    found: list[str] = []
    for one in [named] if isinstance(named, str) else named:
        if os.path.exists(one) or not glob.has_magic(one):
            found.append(one)
            continue
        matching = sorted(path for path in glob.glob(one) if not os.path.isdir(path))
        if not matching:
            folder = os.path.dirname(one) or "."
            there = sorted(os.listdir(folder))[:SHOWN] if os.path.isdir(folder) else []
            got = f"{', '.join(there)} … in {folder}" if there else f"nothing in {folder}"
            cure = "look at the folder and the letters of the pattern; * stands for any part of a name"
            raise DataError(f"{one} matches no file", got=got, expected="one file or more", cure=cure)
        found += matching
    return found


def paired_files(source: str | Sequence[str], target: str | Sequence[str]) -> tuple[list[str], list[str]]:
    """The files of both sides; file i of one goes with file i of the other."""
    sources, targets = files_of(source), files_of(target)
    if len(sources) != len(targets):
        raise DataError(
            "source and target have different numbers of files",
            got=f"{len(sources)} ({_few(sources)}) and {len(targets)} ({_few(targets)})",
            expected="file i of one to be the translation of file i of the other",
            cure="name both sides alike, or look for a file that is missing",
        )
    both = (source, target)
    if all(isinstance(each, str) and glob.has_magic(each) and not os.path.exists(each) for each in both):
        for first, second in zip(sources, targets, strict=True):
            parts = wildcards(str(source), first), wildcards(str(target), second)
            if len(parts[0]) == len(parts[1]) and parts[0] != parts[1]:
                raise DataError(
                    "the files of source and target do not go together",
                    got=f"{os.path.basename(first)} and {os.path.basename(second)}",
                    expected="the same in place of * on both sides",
                    cure="look for a file that is missing on one side",
                )
    return sources, targets


def wildcards(pattern: str, path: str) -> tuple[str, ...]:
    """What stands in a path in the places of *, ? and [ ] of a pattern that it matches."""
    rule = ""
    for part in _PARTS.findall(pattern):
        if part in ("*", "?"):
            rule += "([^/]*)" if part == "*" else "([^/])"
        elif part.startswith("[") and len(part) > 1:
            inside = part[1:-1].replace("\\", r"\\")
            rule += f"([{'^' + inside[1:] if inside.startswith('!') else inside}])"
        else:
            rule += re.escape(part)
    match = re.fullmatch(rule, path)
    return match.groups() if match else ()


def _few(paths: Sequence[str]) -> str:
    names = [os.path.basename(path) for path in paths]
    return ", ".join(names) if len(names) <= SHOWN else f"{names[0]} … {names[-1]}"
