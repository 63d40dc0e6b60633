"""The wheel alone: build it, install it in a new environment, and run there what README and the guide promise.

    python tools/check_wheel.py                       # in an environment that has hatchling: .venv after `make setup`
    python tools/check_wheel.py --all                 # also those lines that take minutes
    python tools/check_wheel.py --folder somewhere    # keep environment and files there, and use the environment again
    python tools/check_wheel.py --parts zoo studio    # some of PARTS

The parts: `lines` of PAGES that begin with `regard` are run as they stand, in their order, in an empty folder, and so
are the Python blocks of README; `notebooks`, all their cells; `zoo`, `regard evaluate` and `regard report` of each
model that ships; `studio`, which is installed with its extra, started, and asked for its page and a translation.
A comment that says "needs …" names what the package does not ship, or a run that no line has made; "takes N minutes"
marks what only --all runs. What the wheel depends on comes from the package index.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PARTS = ("lines", "notebooks", "zoo", "studio")
LARGEST = 60  # MiB of the wheel
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


def programs() -> dict[str, str]:
    """The Python blocks of README, and all cells of each notebook, by their names."""
    readme = "\n".join(PYTHON.findall((ROOT / "README.md").read_text(encoding="utf-8")))
    found = {"README.md": readme}
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        found[path.stem] = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    return found


def zoo(environment: Path) -> list[Line]:
    """`evaluate` and `report` of each model of the wheel."""
    code = "from regard.api import shipped; print(*shipped())"
    names = subprocess.run(
        [environment / "bin" / "python", "-c", code],
        env=_clean(environment), cwd=environment, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    return [Line(["regard", verb, name], "", 0.0) for name in names for verb in ("evaluate", "report")]


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


def ask_studio(environment: Path, folder: Path) -> tuple[int, str, float]:
    """`regard studio`: 0 if it gives its page, a file of it, and a translation; else 1 and what went wrong."""
    start = time.monotonic()
    process = subprocess.Popen(
        [environment / "bin" / "regard", "studio", "--no-open"],
        env=_clean(environment), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        said = next((line for line in process.stdout if "http://" in line), "")
        base, _, token = said[said.find("http://") :].strip().partition("?token=")
        headers = {"X-Regard-Token": token, "Content-Type": "application/json"}
        body = json.dumps({"model": "tatoeba-en-fr", "text": "I lost my keys."}).encode()
        for path, content, expected in (
            ("", None, b"<script"), ("views/translate.js", None, b"export"), ("api/predict", body, b"perdu"),
        ):  # fmt: skip
            with urllib.request.urlopen(urllib.request.Request(base + path, content, headers), timeout=120) as answer:
                text = answer.read()
            if expected not in text:
                return 1, f"/{path}: {expected!r} is not in {text[:300]!r}", time.monotonic() - start
    except OSError as error:
        return 1, f"{type(error).__name__}: {error}", time.monotonic() - start
    finally:
        process.terminate()
        process.wait(timeout=20)
    return 0, "", time.monotonic() - start


def _clean(environment: Path) -> Mapping[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    return {**kept, "PATH": f"{environment / 'bin'}{os.pathsep}{kept.get('PATH', '')}"}


def _call(words: list[str]) -> None:
    done = subprocess.run(words, env={k: v for k, v in os.environ.items() if k not in VARIABLES})
    if done.returncode:
        raise SystemExit(f"{shlex.join(words)} ended with {done.returncode}")


def attempts(parts: list[str], environment: Path, wheel: Path, folder: Path) -> Iterator[tuple[str, Line | None]]:
    """What is to be run: how it is called, and its line; None is the studio, which has no end of its own."""
    if "lines" in parts:
        for line in all_lines():
            yield shlex.join(line.words), line
    written = {
        name: text for name, text in programs().items() if ("lines" if name == "README.md" else "notebooks") in parts
    }
    for name, text in written.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
        yield f"the Python of {name}", Line(["python", f"{name}.py"], "", 0.0)
    if "zoo" in parts:
        for line in zoo(environment):
            yield shlex.join(line.words), line
    if "studio" in parts:
        _call([str(environment / "bin" / "python"), "-m", "pip", "install", "-q", f"{wheel}[studio]"])
        yield "regard studio", None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="also the lines that take minutes")
    parser.add_argument("--folder", type=Path, help="keep all there (default: a folder that goes afterwards)")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    asked = parser.parse_args()
    failed = count = skipped = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(asked.folder or temporary).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        environment = folder / "environment"
        with tempfile.TemporaryDirectory(dir=folder) as built, tempfile.TemporaryDirectory(dir=folder) as empty:
            wheel = build(Path(built))
            size = wheel.stat().st_size / 2**20
            print(f"{wheel.name}, {size:.1f} MiB", flush=True)
            if size > LARGEST:
                raise SystemExit(f"the wheel has {size:.1f} MiB, and may have {LARGEST}")
            install(wheel, environment)
            for text, line in attempts(asked.parts, environment, wheel, Path(empty)):
                if line and (line.needs or (line.minutes and not asked.all)):
                    why = f"needs {line.needs}" if line.needs else f"takes {line.minutes:g} minutes: --all"
                    print(f"skipped   {text}   ({why})", flush=True)
                    skipped += 1
                    continue
                status, said, seconds = (
                    run(line, environment, Path(empty)) if line else ask_studio(environment, Path(empty))
                )
                good = status == 0 and "Traceback" not in said
                failed, count = failed + (not good), count + 1
                print(f"{'ran' if good else 'FAILED':6} {seconds:5.0f} s   {text}", flush=True)
                if not good:
                    print(f"exit status {status}\n{said[-2000:]}", flush=True)
    print(f"{count} attempts, {failed} failed; {skipped} lines were skipped ({', '.join(asked.parts)})")
    return 1 if failed or not count else 0


if __name__ == "__main__":
    sys.exit(main())
