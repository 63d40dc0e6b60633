"""`regard`: the door. Each command lives in the file of its name."""

import argparse
import sys
from collections.abc import Sequence

from regard import __version__
from regard.base.errors import RegardError


def parser() -> argparse.ArgumentParser:
    """All commands and their flags."""
    top = argparse.ArgumentParser(prog="regard", description="Attention mechanisms: score → align → context.")
    top.add_argument("--version", action="version", version=f"regard {__version__}")
    commands = top.add_subparsers(dest="command", metavar="command", required=True)

    demo = commands.add_parser("demo", help="soft look-up and the six scores on one sentence, with pictures")
    demo.add_argument("--out", default="demo", metavar="FOLDER", help="where the pictures go (default: demo)")

    commands.add_parser("info", help="versions, hardware, and which path each score and alignment takes here")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; a mistake of the caller is one line on stderr and exit status 2."""
    asked = parser().parse_args(arguments)
    try:
        if asked.command == "demo":
            from regard.cli.demo import demo

            demo(asked.out)
        else:
            from regard.cli.info import info

            info()
    except (RegardError, OSError) as error:
        print(f"regard: {error}", file=sys.stderr)
        return 2
    return 0
