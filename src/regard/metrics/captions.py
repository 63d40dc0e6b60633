"""How good captions are: BLEU-1 to BLEU-4, CIDEr and METEOR, each with the signature that makes a number comparable.

Everything is on tokens as they are; references are a list for each picture; figures are in percent. `caption_bleu` and
`cider` give what coco-caption gives on the same tokens. `meteor` gets METEOR 1.5 from the published program.
"""

import math
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import NamedTuple

from regard.base import ConfigError, ImplementationUnavailable, require
from regard.metrics.translation import Tokens, tokenized_bleu

Gram = tuple[str, ...]
METRICS = ("bleu", "cider", "meteor")
REMOVED = ("meteor_exact_stem",)  # recipes of older versions may name it; it is left out
ORDER = 4
_SIGMA = 6.0  # of CIDEr-D's penalty on lengths


class CaptionBleu(NamedTuple):
    """BLEU-1 to BLEU-4, without and with the brevity penalty."""

    plain: tuple[float, ...]  # 0 to 100; Xu et al. 2015 report these
    penalised: tuple[float, ...]  # 0 to 100; coco-caption reports these
    brevity: float
    hypothesis_length: int
    reference_length: int
    signature: str


class Measured(NamedTuple):
    """One number and what it means."""

    score: float  # percent
    signature: str


@dataclass(frozen=True)
class Judged:
    """All figures of a set of captions; what could not be measured is in `missing`, with the reason."""

    figures: dict[str, float]
    signatures: dict[str, str]
    missing: dict[str, str] = field(default_factory=dict)


def score_captions(
    hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]], *, metrics: Sequence[str] = METRICS
) -> Judged:
    """Several measures at once, by name."""
    if unknown := [name for name in metrics if name not in (*METRICS, *REMOVED)]:
        raise ConfigError("unknown metric", got=repr(unknown[0]), expected=f"some of {', '.join(METRICS)}")
    judged = Judged({}, {}, {})
    if "bleu" in metrics:
        measured = caption_bleu(hypotheses, references)
        judged.figures.update({f"bleu_{n}": value for n, value in enumerate(measured.plain, 1)})
        judged.figures.update({f"bleu_{n}_brevity": value for n, value in enumerate(measured.penalised, 1)})
        judged.figures["brevity"] = measured.brevity
        judged.signatures.update(
            {"bleu": measured.signature + "|bp:no", "bleu_brevity": measured.signature + "|bp:closest"}
        )
    for name, measure in _MEASURES.items():
        if name not in metrics:
            continue
        if name == "meteor" and (why := reason_against_meteor()):
            judged.missing[name] = why
            continue
        one = measure(hypotheses, references)
        judged.figures[name], judged.signatures[name] = one.score, one.signature
    return judged


# ── BLEU ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def caption_bleu(hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]]) -> CaptionBleu:
    """BLEU-n = (p_1 … p_n)^(1/n) over the whole set, without smoothing, for n = 1 to 4; with the penalty beside it.

    >>> found = caption_bleu(["the cat was sat on the mat".split()], [["the cat sat on the mat".split()]])
    >>> [round(value, 4) for value in found.plain]
    [85.7143, 75.5929, 61.1421, 48.8923]
    """
    measured = tokenized_bleu(hypotheses, references, max_order=ORDER)
    plain, logs = [], 0.0
    for n, precision in enumerate(measured.precisions, 1):
        logs += math.log(precision / 100) if precision else -math.inf
        plain.append(100 * math.exp(logs / n))
    penalised = tuple(measured.brevity * value for value in plain)
    signature = measured.signature.replace("|order:4", "|order:1-4")
    if _is_lower(hypotheses) and all(map(_is_lower, references)):
        signature = signature.replace("|case:mixed", "|case:lc")  # letters were made small before
    lengths = measured.hypothesis_length, measured.reference_length
    return CaptionBleu(tuple(plain), penalised, measured.brevity, *lengths, signature)


def _is_lower(lines: Sequence[Tokens]) -> bool:
    return all(token == token.lower() for tokens in lines for token in tokens)


# ── CIDEr ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Vector(NamedTuple):
    """n-grams of one caption with their weights, for each n, and the length that CIDEr-D compares."""

    weights: list[dict[Gram, float]]
    norms: list[float]
    length: int


def cider(hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]]) -> Measured:
    """CIDEr-D (Vedantam et al. 2015): cosine of n-gram vectors weighted by rarity, clipped, mean over n and references.

    How rare an n-gram is, the references of this set say. 100 times what coco-caption prints; on one picture it is 0,
    since nothing is rare there.

    >>> pictures = [["a dog runs on grass".split()], ["two men sit on a bench".split()]]
    >>> round(cider(["a dog runs on grass".split(), "a man sits".split()], pictures).score, 2)
    500.0
    """
    tokenized_bleu(hypotheses, references)  # for its checks
    grams = [[_grams(reference) for reference in picture_references] for picture_references in references]
    seen: Counter[Gram] = Counter()
    for picture_grams in grams:
        seen.update(set().union(*picture_grams))
    pictures = math.log(len(references))
    scores = []
    for hypothesis, picture_grams in zip(hypotheses, grams, strict=True):
        mine = _vector(_grams(hypothesis), seen, pictures)
        alike = [_alike(mine, _vector(reference, seen, pictures)) for reference in picture_grams]
        scores.append(10 * sum(alike) / len(alike))
    mean = 100 * sum(scores) / len(scores)
    return Measured(mean, _signature("cider-d", references, f"n:{ORDER}|sigma:{_SIGMA:g}|df:references"))


def _grams(tokens: Tokens) -> Counter[Gram]:
    return Counter(tuple(tokens[i : i + n]) for n in range(1, ORDER + 1) for i in range(len(tokens) - n + 1))


def _vector(grams: Counter[Gram], seen: Counter[Gram], pictures: float) -> _Vector:
    weights: list[dict[Gram, float]] = [{} for _ in range(ORDER)]
    for gram, count in grams.items():
        weights[len(gram) - 1][gram] = count * (pictures - math.log(max(1, seen[gram])))
    norms = [math.sqrt(sum(value**2 for value in order_weights.values())) for order_weights in weights]
    return _Vector(weights, norms, sum(count for gram, count in grams.items() if len(gram) == 2))


def _alike(mine: _Vector, other: _Vector) -> float:
    total = 0.0
    for n in range(ORDER):
        dot = sum(min(value, other.weights[n].get(gram, 0.0)) * other.weights[n].get(gram, 0.0)
                  for gram, value in mine.weights[n].items())  # fmt: skip
        if mine.norms[n] and other.norms[n]:
            total += dot / (mine.norms[n] * other.norms[n])
    return total / ORDER * math.exp(-((mine.length - other.length) ** 2) / (2 * _SIGMA**2))


# ── METEOR ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def meteor(hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]]) -> Measured:
    """METEOR 1.5 (Denkowski & Lavie 2014), by the published program; it needs Java and the extra `captions`."""
    if why := reason_against_meteor():
        cure = "install Java, and pip install pycocoevalcap"
        raise ImplementationUnavailable(f"METEOR 1.5 cannot run here: {why}", cure=cure)
    tokenized_bleu(hypotheses, references)  # for its checks
    program = require("pycocoevalcap.meteor.meteor", extra="captions").Meteor()
    outputs = {number: [" ".join(tokens)] for number, tokens in enumerate(hypotheses)}
    wanted = {
        number: [" ".join(tokens) for tokens in picture_references]
        for number, picture_references in enumerate(references)
    }
    try:
        score, _ = program.compute_score(wanted, outputs)
    finally:
        for stream in (program.meteor_p.stdin, program.meteor_p.stdout, program.meteor_p.stderr):
            stream.close()
        program.meteor_p.kill()
        program.meteor_p.wait()
    return Measured(
        100 * score, _signature("meteor-1.5", references, "match:exact,stem,synonym,paraphrase|lang:en|norm")
    )


def reason_against_meteor() -> str | None:
    """Why METEOR 1.5 cannot run here; None if it can."""
    reasons = [] if shutil.which("java") else ["there is no Java"]
    if find_spec("pycocoevalcap") is None:
        reasons.append("pycocoevalcap is not installed")
    return " and ".join(reasons) or None


def _signature(name: str, references: Sequence[Sequence[Tokens]], parts: str) -> str:
    from regard import __version__

    numbers = {len(picture_references) for picture_references in references}
    count = numbers.pop() if len(numbers) == 1 else "var"
    return f"{name}|nrefs:{count}|tok:given|{parts}|version:regard-{__version__}"


_MEASURES: dict[str, Callable[..., Measured]] = {
    "cider": cider,
    "meteor": meteor,
}
