"""`regard evaluate`: every figure of a run on one test set."""

from argparse import Namespace

from regard import api
from regard.cli.progress import Counter
from regard.cli.searching import evaluation_settings
from regard.recipes.figures import SHOWN
from regard.tasks import Score


def evaluate(asked: Namespace) -> None:
    """Judge a run on a test set and print what came out; figures and outputs stay in the run folder."""
    model = api.load(asked.run, device=asked.device, source=asked.source, target=asked.target)
    split = asked.split or api.first_test(model)
    settings = evaluation_settings(model, asked.settings)
    with Counter(f"{model.name} on {split}") as progress:
        score = model.evaluate(split, beam=asked.beam, progress=progress, **settings)
    tell(model, score)
    if "lengths" in score.details:
        print("\n  words of the source   sentences   BLEU, tokenised")
        for label, value, count in api.length_curve(score.details):
            print(f"  {label:19}   {count:9}   {'' if value is None else f'{value:.1f}':>15}")
    if "by_glimpse" in score.details:
        print("\n  after glimpse   error, %")
        for number, error in enumerate(score.details["by_glimpse"], start=1):
            print(f"  {number:13}   {error:8.2f}")
    if api.is_writable(model.folder):
        print(f"\n{api.write_result(model, score)}")


def tell(model: api.Model, score: Score) -> None:
    """Print the figures of an evaluation, each with how it was measured, or why it was not."""
    shown, details = SHOWN[model.kind], score.details
    count = details.get("count", details.get("sentences"))
    print(f"{model.name} on {details['split']}: {count:,} {shown.things}, {details['seconds']:.1f} s\n")
    for key, figure in shown.figures.items():
        if key in score.figures:
            how = details["signatures"].get(figure.signature or key, "")
            print(f"  {figure.label:30} {score.figures[key]:6.{figure.decimals}f}   {how}".rstrip())
        elif key in details.get("missing", {}):
            print(f"  {figure.label:30} {'–':>6}   {details['missing'][key]}")
