"""`regard`: the door. Each command lives in the file that the menu VERBS names."""

import argparse
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from regard import __version__
from regard.base.errors import ConfigError, RegardError, did_you_mean, first_line, is_out_of_memory
from regard.base.files import whole_path
from regard.cli import VERBS

EXAMPLES = """examples:
  regard tour                                    what attention is, in a minute: look-up, scores, alignments
  regard demo                                    train with and without attention on embedded data, and compare
  regard list                                    every recipe, with the paper's number and ours
  regard show luong/local_p                      every setting of a recipe, with its meaning
  regard train bahdanau/plain_en_fr --set train.steps=500 model.align=entmax
  regard train luong/local_p --source a.de --target a.en
  regard translate tatoeba-en-fr "I lost my keys." --heatmap keys.png
  regard train ram/mini                          a model that looks around, on embedded digits; draws where it looked
  regard classify runs/ram_mini digit.png --path path.png
  regard caption runs/show_attend_tell_flickr8k_soft photo.jpg --overlay words.png
  regard answer runs/memn2n_smoke "Mary moved to the garden. Where is Mary?" --draw hops.png
  regard read runs/scene_text_rendered photo.png --finder runs/scene_text_signs --draw words.png
  regard report runs/a runs/b
  regard studio                                  a page in the browser: type, look, compare
"""


def command(verb: str) -> Any:
    """The file of a command: it has HELP, `add` and `run`."""
    return import_module(f"regard.cli.{VERBS[verb]}")


def parser() -> argparse.ArgumentParser:
    """All commands and their flags."""
    top = argparse.ArgumentParser(
        prog="regard",
        description="Attention mechanisms: score → align → context.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"regard {__version__}")
    commands = top.add_subparsers(dest="command", metavar="command", required=True)
    for verb in VERBS:
        file = command(verb)
        file.add(commands.add_parser(verb, help=file.HELP))
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; a mistake of the caller is one line on stderr and exit status 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without our signs shows others
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        _check_command(arguments)
        asked = parser().parse_args(arguments)
        _run(asked)
        sys.stdout.flush()
    except BrokenPipeError:  # `… | head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # where the interpreter flushes what is left
        return 1
    except (RegardError, OSError) as error:
        told = _told(error)
        if _is_new(told):
            print("regard:", *told.splitlines(), file=sys.stderr)
        return 2
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        cure = "lower task.batch_size, task.batch_tokens or the sizes model.…"
        print("regard:", RegardError("the memory is full", got=first_line(error), cure=cure), file=sys.stderr)
        return 2
    except KeyboardInterrupt as error:
        print(f"\n{error}" if str(error) else "\nregard: stopped", file=sys.stderr)
        return 130
    return 0


def _check_command(arguments: Sequence[str]) -> None:
    """An error that says which command was meant; other mistakes are argparse's."""
    name = arguments[0] if arguments else ""
    if name and not name.startswith("-") and name not in VERBS:
        cure = did_you_mean(name, VERBS) or "run `regard --help` to see them"
        raise ConfigError("there is no such command", got=repr(name), expected=f"one of {', '.join(VERBS)}", cure=cure)


def _is_new(text: str) -> bool:
    """False where another process of `torchrun` has printed the same error."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return True
    from regard.train import launch

    return launch.is_new(text)


def _told(error: Exception) -> str:
    """What to say of an error; that of a file by its own name, not that of the half-written one beside it."""
    if not isinstance(error, OSError) or isinstance(error, RegardError) or error.strerror is None:
        return str(error) or type(error).__name__
    path = Path(os.fsdecode(error.filename2 or error.filename or ""))
    return f"{whole_path(path)}: {error.strerror.lower()}" if path.name else error.strerror.lower()


def _run(asked: argparse.Namespace) -> None:
    command(asked.command).run(asked)
