"""`regard export`: a trained model as a folder that another library loads."""

import argparse

from regard.cli.flags import add_run

HELP = "write a trained model for onnxruntime, CTranslate2 or transformers"


def add(command: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    from regard.export import FORMATS

    add_run(command)
    command.add_argument("--to", required=True, metavar="FORMAT", help=f"one of {', '.join(FORMATS)}")
    command.add_argument("--out", metavar="FOLDER", help="a new folder (default: RUN_FORMAT)")


def run(asked: argparse.Namespace) -> None:
    """Write the folder, and print the size and the name of each file."""
    from regard.export import check_format, export_model

    check_format(asked.to)
    from regard import api

    folder = export_model(api.load(asked.run, device="cpu"), asked.to, asked.out)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        print(f"{path.stat().st_size:>12,}  {path}")
