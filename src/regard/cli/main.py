"""`regard`: the door. Each command lives in the file of its name."""

import argparse
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from regard import __version__
from regard.base.errors import RegardError, first_line, is_out_of_memory
from regard.base.files import whole_path

EXAMPLES = """examples:
  regard tour                                    what attention is, in a minute: look-up, scores, alignments
  regard demo                                    train with and without attention on embedded data, and compare
  regard list                                    every recipe, with the paper's number and ours
  regard train bahdanau/plain_en_fr --set train.steps=500 model.align=entmax
  regard train luong/local_p --source a.de --target a.en
  regard translate tatoeba-en-fr "I lost my keys." --heatmap keys.png
  regard train ram/mini                          a model that looks around, on embedded digits; draws where it looked
  regard classify runs/ram_mini digit.png --path path.png
  regard caption runs/show_attend_tell_flickr8k_soft photo.jpg --overlay words.png
  regard report runs/a runs/b
"""


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

    demo = commands.add_parser("demo", help="the main job on embedded data: with attention, without, and a report")
    demo.add_argument("--out", default="demo", metavar="FOLDER", help="where runs and report go (default: demo)")
    demo.add_argument("--seconds", type=float, default=1200.0,
                      help="stop training after so many, however little was learnt (default: 1200)")  # fmt: skip

    train = commands.add_parser("train", help="train a recipe")
    train.add_argument("recipe", help="its name, as `regard list` has it")
    train.add_argument("--set", nargs="+", action="extend", default=[], metavar="NAME=VALUE", dest="settings",
                       help="settings, such as train.steps=500 model.align=entmax")  # fmt: skip
    train.add_argument("--source", metavar="FILE", help="your own text, a sentence a line; without --target a TSV; "
                       "or captions, lines of picture<TAB>caption")  # fmt: skip
    train.add_argument("--target", metavar="FILE", help="its translation, line by line; or the folder of the pictures")
    train.add_argument("--out", metavar="FOLDER", help="run folder (default: runs/RECIPE)")
    train.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    train.add_argument("--device", default="auto", help="cpu, cuda or auto (default)")

    evaluate = commands.add_parser("evaluate", help="every figure of a run, with signatures: BLEU, errors, speed")
    evaluate.add_argument("run", help="a run folder, or a model that ships with the package")
    evaluate.add_argument("--split", help="such as valid, test, test2016, newstest2014 (default: the first test set)")
    evaluate.add_argument("--beam", type=int, help="beams (default: the recipe's)")
    _add_settings(evaluate)
    _add_files(evaluate)
    evaluate.add_argument("--device", default="auto", help="cpu, cuda or auto (default)")

    translate = commands.add_parser("translate", help="translate text, a file, standard input, or interactively")
    translate.add_argument("run", help="a run folder, or a model that ships with the package")
    translate.add_argument("text", nargs="*", help="sentences; none: standard input")
    translate.add_argument("--file", metavar="FILE", help="translate its lines")
    translate.add_argument("--beam", type=int, help="beams (default: the recipe's)")
    translate.add_argument("--nbest", type=int, default=1, help="translations of each sentence (default: 1)")
    _add_settings(translate)
    translate.add_argument("--heatmap", metavar="FILE", help="draw the alignment of the first sentence: .png .pdf .svg")
    translate.add_argument("--heads", action="store_true", help="one picture for each layer and head")
    translate.add_argument("--device", default="auto", help="cpu, cuda or auto (default)")

    caption = commands.add_parser("caption", help="say what pictures show, with one overlay for each word")
    caption.add_argument("run", help="a run folder")
    caption.add_argument("pictures", nargs="+", metavar="picture", help="PNG, JPEG, WebP, … files")
    caption.add_argument("--overlay", metavar="FILE", help="draw where each word looked: .png .pdf .svg")
    caption.add_argument("--beside", nargs="+", action="extend", default=[], metavar="RUN",
                         help="what other runs say of the same pictures; --overlay draws all together")  # fmt: skip
    caption.add_argument("--beam", type=int, help="beams (default: the recipe's)")
    caption.add_argument("--nbest", type=int, default=1, help="captions of each picture (default: 1)")
    _add_settings(caption)
    caption.add_argument("--device", default="auto", help="cpu, cuda or auto (default)")

    classify = commands.add_parser("classify", help="recognise pictures, with the path of the glimpses")
    classify.add_argument("run", help="a run folder")
    classify.add_argument("pictures", nargs="+", metavar="picture", help="PNG, JPEG, WebP, … files")
    classify.add_argument("--path", metavar="FILE", help="draw where it looked: .png .pdf .svg, or .gif, which moves")
    classify.add_argument("--device", default="auto", help="cpu, cuda or auto (default)")

    report = commands.add_parser("report", help="one HTML page for several runs")
    report.add_argument("runs", nargs="+", metavar="run")
    report.add_argument("--out", default="report.html", metavar="FILE", help="the page (default: report.html)")
    report.add_argument("--split", help="which test set (default: the first)")
    report.add_argument("--samples", type=int, default=8, help="sentences or pictures to show (default: 8)")
    _add_files(report)

    commands.add_parser("list", help="every recipe: paper, data, our numbers, and what they compare with")
    commands.add_parser("info", help="versions, hardware, and which path each score and alignment takes here")
    tour = commands.add_parser("tour", help="soft look-up and the six scores on one sentence, with pictures")
    tour.add_argument("--out", default="tour", metavar="FOLDER", help="where the pictures go (default: tour)")
    return top


def _add_settings(command: argparse.ArgumentParser) -> None:
    """--set, for a command that searches."""
    command.add_argument("--set", nargs="+", action="extend", default=[], metavar="NAME=VALUE", dest="settings",
                         help="settings of the search, such as length_penalty=0.6 consensus=1; of a gaze: "
                         "draws=8")  # fmt: skip


def _add_files(command: argparse.ArgumentParser) -> None:
    """--source and --target, for a command that reads the data of a run."""
    command.add_argument("--source", metavar="FILE", help="the text or captions that the run was trained on, where its "
                         "folder comes from another machine: paths in it are not followed")  # fmt: skip
    command.add_argument("--target", metavar="FILE", help="the second file, or the folder of the pictures")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; a mistake of the caller is one line on stderr and exit status 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without our signs shows others
    asked = parser().parse_args(arguments)
    try:
        _run(asked)
        sys.stdout.flush()
    except BrokenPipeError:  # `… | head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # where the interpreter flushes what is left
        return 1
    except (RegardError, OSError) as error:
        print("regard:", *_told(error).splitlines(), file=sys.stderr)
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


def _told(error: Exception) -> str:
    """What to say of an error; that of a file by its own name, not that of the half-written one beside it."""
    if not isinstance(error, OSError) or isinstance(error, RegardError) or error.strerror is None:
        return str(error) or type(error).__name__
    path = Path(os.fsdecode(error.filename2 or error.filename or ""))
    return f"{whole_path(path)}: {error.strerror.lower()}" if path.name else error.strerror.lower()


def _run(asked: argparse.Namespace) -> None:
    match asked.command:
        case "demo":
            from regard.cli.demo import demo

            demo(asked.out, asked.seconds)
        case "train":
            from regard.cli.train import train

            train(asked)
        case "evaluate":
            from regard.cli.evaluate import evaluate

            evaluate(asked)
        case "translate":
            from regard.cli.translate import translate

            translate(asked)
        case "caption":
            from regard.cli.caption import caption

            caption(asked)
        case "classify":
            from regard.cli.classify import classify

            classify(asked)
        case "report":
            from regard.cli.report import report

            report(asked)
        case "list":
            from regard.cli.listing import listing

            listing()
        case "tour":
            from regard.cli.tour import tour

            tour(asked.out)
        case _:
            from regard.cli.info import info

            info()
