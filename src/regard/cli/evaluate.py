"""`regard evaluate`: every figure of a run on one test set."""

import argparse
import json
from typing import Any

from regard.cli.flags import add_device, add_files, add_run, add_settings, prediction_settings

HELP = "every figure of a run, with signatures: BLEU, errors, speed"


def add(command: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    add_run(command)
    command.add_argument(
        "--split",
        help="such as valid, test, test2016, newstest2014, or a text file for a model "
        "of text (default: the first test set)",
    )
    command.add_argument("--beam", type=int, help="beams (default: the recipe's)")
    command.add_argument("--json", action="store_true", help="print what is written into the run folder, as JSON")
    add_settings(command)
    add_files(command)
    add_device(command)


def run(asked: argparse.Namespace) -> None:
    """Judge a run on a test set and print what came out; figures and outputs stay in the run folder."""
    from regard import api
    from regard.cli.progress import Counter

    model = api.load(asked.run, device=asked.device, source=asked.source, target=asked.target)
    split = asked.split or api.first_test(model)
    settings = prediction_settings(model.task, asked.settings, beam=asked.beam)
    with Counter(f"{model.name} on {split}") as progress:
        evaluation = model.evaluate(split, progress=progress, **settings)
    written = api.write_result(model, evaluation) if api.is_writable(model.folder) else None
    if asked.json:
        details = {key: value for key, value in evaluation.details.items() if key != "outputs"}
        print(json.dumps({"run": model.name, "task": model.entry.name, **details, "figures": evaluation.figures}))
        return
    tell(model, evaluation)
    points = api.chart_points(model, evaluation.details)
    for chart in model.entry.display.charts:
        if chart.key in points:
            _tell_chart(chart, points[chart.key])
    if written is not None:
        print(f"\n{written}")


def tell(model: Any, evaluation: Any) -> None:
    """Print the figures of an evaluation, each with how it was measured, or why it was not."""
    display, details = model.entry.display, evaluation.details
    print(f"{model.name} on {details['split']}: {details['count']:,} {display.things}, {details['seconds']:.1f} s\n")
    for figure in display.figures:
        if figure.key in evaluation.figures:
            how = details["signatures"].get(figure.signature or figure.key, "")
            print(f"  {figure.label:30} {evaluation.figures[figure.key]:6.{figure.decimals}f}   {how}".rstrip())
        elif figure.key in details.get("missing", {}):
            print(f"  {figure.label:30} {'–':>6}   {details['missing'][figure.key]}")


def _tell_chart(chart: Any, points: list[Any]) -> None:
    """A table of the points of a chart; a column of counts where there are any."""
    counts = f"   {chart.things:>9}" if chart.things else ""
    print(f"\n  {chart.x:19}{counts}   {chart.y}")
    for point in points:
        count = f"   {point.size:9}" if chart.things else ""
        value = "" if point.value is None else f"{point.value:.{chart.decimals}f}"
        print(f"  {point.label:>19}{count}   {value:>{len(chart.y)}}")
