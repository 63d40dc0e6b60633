"""`regard studio`: a local page on which models, runs and traces are tried and looked at."""

import argparse
import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from regard.base import RegardError, did_you_mean

if TYPE_CHECKING:
    from regard.studio.app import Studio

HELP = "a page in the browser: type, look, compare; models, traces and runs"


def add(command: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    command.add_argument(
        "things", nargs="*", metavar="run", help="run folders, models by name, saved traces (default: shipped models)"
    )
    command.add_argument("--port", type=int, metavar="N", help="listen at this port (default: 8123, or the next free)")
    command.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="let other machines reach the page")
    command.add_argument(
        "--open", action=argparse.BooleanOptionalAction, default=True, help="open the page in a browser (default: yes)"
    )
    command.add_argument("--export", metavar="FOLDER", help="write the page with examples as files for any web space")


def run(asked: argparse.Namespace) -> None:
    """Serve the page until Ctrl-C, or write it to a folder."""
    from regard.studio.serve import Server, announce

    studio = _studio(asked.things)
    if asked.export is not None:
        from regard.studio.export import export

        print(export(studio, asked.export, told=lambda text: print(f"regard studio: {text} …", file=sys.stderr)))
        return
    server = Server(studio, host=asked.host, port=asked.port)
    announce(server, open_page=asked.open)
    server.warm_up()
    server.run()


def _studio(things: list[str]) -> "Studio":
    """The studio of what was named: files are traces, folders are runs, other words are shipped models."""
    from regard.studio.app import Studio
    from regard.studio.traces import Traces

    traces, models, runs = Traces(), [], []
    for thing in things:
        path = Path(thing)
        if path.is_file():
            traces.add_file(path)
        elif path.is_dir() and not (path / "recipe.json").exists():
            inside = sorted(each.parent for each in path.glob("*/recipe.json"))
            if not inside:
                raise RegardError(f"{thing} holds no runs", got="no recipe.json", cure="name a run folder")
            runs += inside
            models += [str(each) for each in inside if _has_weights(each)]
        elif path.is_dir():
            runs.append(path)
            models.append(thing)
        else:
            models.append(_shipped(thing))
    return Studio.of(models, run_folders=runs, below=Path("runs"), traces=traces)


def _shipped(name: str) -> str:
    """The name of a model that ships with the package; torch is not imported for this."""
    known = [
        path.name for path in (files("regard") / "recipes" / "shipped").iterdir() if (path / "recipe.json").is_file()
    ]
    if name not in known:
        cure = did_you_mean(name, known) or f"name a run folder, the file of a trace, or {' or '.join(sorted(known))}"
        raise RegardError(f"there is no run {name}", got="no such folder, file or model", cure=cure)
    return name


def _has_weights(folder: Path) -> bool:
    return (folder / "model.safetensors").exists() or any(folder.glob("checkpoints/*"))
