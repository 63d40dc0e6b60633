"""Blocks of CONTRIBUTING that bear the name of a file: what a contributor adds, put into a copy of the project.

A block of the language `diff` has lines of a file that is there, and behind a plus the lines that are added below them;
every other block is a new file.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
NAMED = re.compile(r"^```(?P<language>\w+) (?P<path>\S+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
COPIED = ("src", "tests", "docs", "notebooks", "tools", "benchmarks")


def section(title: str) -> str:
    """The text below a title of the page, up to the next title; titles inside a block are part of the block."""
    text, inside_block, below_title = [], False, False
    for line in PAGE.read_text().splitlines(keepends=True):
        inside_block ^= line.startswith("```")
        if line.startswith("## ") and not inside_block:
            below_title = line == f"## {title}\n"
        elif below_title:
            text.append(line)
    return "".join(text)


def files_of(title: str) -> dict[str, tuple[str, str]]:
    """The blocks of a section by the path of their file, each with its language."""
    return {match["path"]: (match["language"], match["text"]) for match in NAMED.finditer(section(title))}


def files_to_touch(what: str) -> list[str]:
    """The files of a row in the table “Files to touch”."""
    [row] = [line for line in section("Files to touch").splitlines() if line.startswith(f"| {what} |")]
    return re.findall(r"`([^`]+)`", row)


def copy_of_the_project(folder: Path) -> Path:
    """All that the tests read, in a folder where it may be changed."""
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name)
    for path in ROOT.iterdir():
        if path.is_file():  # README.md names several
            shutil.copy2(path, folder / path.name)
    return folder


def add(root: Path, path: str, language: str, text: str) -> None:
    """Put one block into a copy of the project."""
    if language != "diff":
        assert not (root / path).exists(), f"{path} is there already"
        (root / path).write_text(text)
        return
    lines = (root / path).read_text().splitlines()
    place = 0
    for line in text.splitlines():
        if line.startswith("+"):
            lines.insert(place, line[1:])
            place += 1
        else:
            assert line[1:] in lines[place:], f"{path} has no line {line[1:]!r} there"
            place = lines.index(line[1:], place) + 1
    (root / path).write_text("\n".join(lines) + "\n")


def run_tests(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run tests of a copy of the project in a process of its own, which sees this copy alone."""
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--no-header", *arguments]
    variables = os.environ | {"PYTHONPATH": str(root / "src")}
    return subprocess.run(command, cwd=root, env=variables, capture_output=True, text=True, check=False)


def python_block(words: str) -> str:
    """The first block of Python on the page that has these words."""
    blocks = re.findall(r"```python[^\n]*\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return next(text for text in blocks if words in text)


def as_module(name: str, code: str, path: Path) -> ModuleType:
    """The code as a module from a file, so that its source can be read; it is known by its name until it is deleted."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(code)
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    exec(compile(code, str(path), "exec"), module.__dict__)
    return module
