"""`regard evaluate`: every figure of a run on one test set."""

from argparse import Namespace

from regard import api


def evaluate(asked: Namespace) -> None:
    """Translate a test set and print what came out; figures and outputs stay in the run folder."""
    model = api.load(asked.run, device=asked.device)
    split = asked.split or api.first_test(model)
    score = model.evaluate(split, beam=asked.beam)
    figures, details = score.figures, score.details
    print(f"{model.name} on {split}: {details['sentences']} sentences, {details['seconds']:.1f} s\n")
    for name, label in (("bleu", "BLEU"), ("tokenized_bleu", "BLEU, tokenised, lower-cased"), ("chrf", "chrF")):
        print(f"  {label:30} {figures[name]:6.2f}   {details['signatures'][name]}")
    print(f"  {'loss (nats a token)':30} {figures['loss']:6.3f}")
    print(f"  {'sentences a second':30} {figures['sentences_per_second']:6.1f}\n")
    print("  words of the source   sentences   BLEU, tokenised")
    for label, value, count in api.length_curve(details):
        print(f"  {label:19}   {count:9}   {'' if value is None else f'{value:.1f}':>15}")
    if api.is_writable(model.folder):
        print(f"\n{api.write_result(model, score)}")
