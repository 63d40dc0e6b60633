"""A studio in a process of its own, for the tools that fuzz it and load it: which files it opens is written down.

It prints its address, and from then on each opened file that is not of the package, of Python or of its own folder.
"""

import argparse
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def serve(folder: Path, hurried: bool) -> None:
    """Serve the shipped models, a small model of pictures, a trace and a run from `folder`; hurried: with less time."""
    sys.path.insert(0, str(ROOT / "src"))
    import torch

    from regard import api, trace
    from regard.recipes import RECIPES
    from regard.studio.app import Studio
    from regard.studio.limits import Limits
    from regard.studio.serve import Server
    from regard.studio.traces import Traces

    recipe = RECIPES["ram/mini"]()
    run = folder / "glimpses"
    if not run.exists():
        api.train(replace(recipe, train=replace(recipe.train, steps=2, evaluate_every=1000)), run)
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval()
    with trace(layer) as seen:
        layer(torch.randn(1, 300, 32))
    traces = Traces()
    traces.add("noise", seen)
    limits = Limits(seconds=20, slowest=5) if hurried else Limits()
    studio = Studio.of([str(run)], run_folders=[run], traces=traces, limits=limits)
    server = Server(studio)
    for name in ("tatoeba-en-fr", "glimpses"):
        studio.library.get(name)
    print(server.address.url, flush=True)
    allowed = [str(Path(place).resolve()) for place in (ROOT / "src", sys.prefix, sys.base_prefix, folder, "/usr/lib")]

    def audit(event: str, details: Any) -> None:
        if event == "open" and isinstance(details[0], str) and not details[0].startswith(("/proc/", "/sys/", "/dev/")):
            path = str(Path(details[0]).absolute())
            if not any(path.startswith(place) for place in allowed):
                print(f"opened {path}", file=sys.stderr, flush=True)

    sys.addaudithook(audit)
    server.run()


@contextmanager
def running(folder: Path, *, hurried: bool = False) -> Iterator[tuple[str, int, list[str]]]:
    """The address of a server in a new process, its number, and the lines of its errors; it is ended afterwards."""
    command = [sys.executable, str(Path(__file__).resolve()), str(folder), *(["--hurried"] if hurried else [])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder)
    assert process.stdout is not None
    assert process.stderr is not None
    lines: list[str] = []
    errors = process.stderr
    threading.Thread(target=lambda: lines.extend(errors), daemon=True).start()
    try:
        address = next((line for line in process.stdout if line.startswith("http")), "")
        if not address:
            raise SystemExit("the studio did not start:\n" + "".join(lines))
        yield address.strip(), process.pid, lines
        if process.poll() is not None:
            lines.append(f"the server ended with {process.returncode}\n")
    finally:
        process.terminate()
        process.wait(timeout=20)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--hurried", action="store_true")
    asked = parser.parse_args()
    serve(asked.folder, asked.hurried)
