"""The wheel alone: build it, install it in a new environment, and run the command lines of README and the guide there.

    python tools/check_wheel.py                       # in an environment that has hatchling: .venv after `make setup`
    python tools/check_wheel.py --all                 # also those lines that take minutes
    python tools/check_wheel.py --folder somewhere    # keep environment and files there, and use the environment again

Lines of PAGES that begin with `regard` are run as they stand, in their order, in an empty folder. A comment that
says "needs …" names what the package does not ship, or a run that no line has made; "takes N minutes" marks what only
--all runs. What the wheel depends on comes from the package index.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = ("README.md", "docs/start.md", "docs/pictures.md", "docs/reading_and_memory.md")
VARIABLES = ("PYTHONPATH", "REGARD_DATA", "VIRTUAL_ENV")  # that would let in what a new user does not have


class Line(NamedTuple):
    """A command of a page."""

    words: list[str]
    needs: str  # what the package does not ship; "" if nothing
    minutes: float  # that it takes, where the page says so


def command_lines(text: str) -> list[Line]:
    """The lines of all shell blocks that call `regard`, with their marks."""
    found = []
    for row in "".join(BLOCK.findall(text)).splitlines():
        command, comment = _parted(row)
        if command.startswith("regard "):
            needs = re.search(r"\bneeds ([^;]+)", comment)
            takes = re.search(r"\btakes (?:about )?([\d.]+) minutes?", comment)
            found.append(
                Line(shlex.split(command), needs[1].strip() if needs else "", float(takes[1]) if takes else 0.0)
            )
    return found


def all_lines() -> list[Line]:
    """Those of all pages, in the order in which a reader meets them."""
    return [line for page in PAGES for line in command_lines((ROOT / page).read_text(encoding="utf-8"))]


def _parted(row: str) -> tuple[str, str]:
    """A line without its comment, and the comment; a # inside quotation marks or a word begins none."""
    lexer = re.match(r"""((?:'[^']*'|"[^"]*"|[^'"])*?)(?:\s#\s?(.*))?$""", row)
    assert lexer is not None, row
    return lexer[1].strip(), lexer[2] or ""


def build(folder: Path) -> Path:
    """The wheel of this clone."""
    _call(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder), str(ROOT)]
    )
    [wheel] = folder.glob("regard-*.whl")
    return wheel


def install(wheel: Path, environment: Path) -> None:
    """Torch as it is pinned, then the wheel and what it names, whatever the index has; nothing of the clone."""
    python = environment / "bin" / "python"
    if not python.exists():
        _call([sys.executable, "-m", "venv", str(environment)])
    pin = next(line for line in (ROOT / "requirements.txt").read_text().splitlines() if line.startswith("torch=="))
    pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    _call([*pip, pin])
    _call([*pip, str(wheel)])
    _call([*pip, "--force-reinstall", "--no-deps", str(wheel)])  # an environment that is used again has an older one
    where = subprocess.run(
        [python, "-c", "import regard; print(regard.__file__)"],
        env=_clean(environment), cwd=environment, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    if not Path(where.strip()).is_relative_to(environment):
        raise SystemExit(f"regard is imported from {where.strip()}, not from the wheel")


def run(line: Line, environment: Path, folder: Path) -> tuple[int, str, float]:
    """Exit status, what was said on stderr, and seconds."""
    start = time.monotonic()
    done = subprocess.run(
        [environment / "bin" / line.words[0], *line.words[1:]],
        env=_clean(environment), cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    return done.returncode, done.stderr, time.monotonic() - start


def _clean(environment: Path) -> Mapping[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    return {**kept, "PATH": f"{environment / 'bin'}{os.pathsep}{kept.get('PATH', '')}"}


def _call(words: list[str]) -> None:
    done = subprocess.run(words, env={k: v for k, v in os.environ.items() if k not in VARIABLES})
    if done.returncode:
        raise SystemExit(f"{shlex.join(words)} ended with {done.returncode}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="also the lines that take minutes")
    parser.add_argument("--folder", type=Path, help="keep all there (default: a folder that goes afterwards)")
    asked = parser.parse_args()
    lines, failed, count = all_lines(), 0, 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(asked.folder or temporary).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as built, tempfile.TemporaryDirectory(dir=folder) as empty:
            wheel = build(Path(built))
            print(f"{wheel.name}, {wheel.stat().st_size / 2**20:.1f} MiB", flush=True)
            install(wheel, folder / "environment")
            for line in lines:
                text = shlex.join(line.words)
                if line.needs or (line.minutes and not asked.all):
                    why = f"needs {line.needs}" if line.needs else f"takes {line.minutes:g} minutes: --all"
                    print(f"skipped   {text}   ({why})", flush=True)
                    continue
                status, said, seconds = run(line, folder / "environment", Path(empty))
                good = status == 0 and "Traceback" not in said
                failed, count = failed + (not good), count + 1
                print(f"{'ran' if good else 'FAILED':6} {seconds:5.0f} s   {text}", flush=True)
                if not good:
                    print(f"exit status {status}\n{said[-2000:]}", flush=True)
    print(f"{count} lines of {len(PAGES)} pages ran, {failed} failed, {len(lines) - count} were skipped")
    return 1 if failed or not count else 0


if __name__ == "__main__":
    sys.exit(main())
