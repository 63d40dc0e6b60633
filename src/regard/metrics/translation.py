"""How good translations are: BLEU and chrF, each with the signature that makes a number comparable.

`bleu` and `chrf` are sacreBLEU on plain text: the numbers to publish. `tokenized_bleu` is multi-bleu.perl on tokens.
References are a list for each sentence, throughout.
"""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, zip_longest
from typing import Any, NamedTuple

from regard.base import ConfigError, RegardError, require

Tokens = Sequence[str]


class Bleu(NamedTuple):
    """BLEU = brevity · (∏ p_n)^(1/N), in percent, with its parts."""

    score: float  # 0 to 100
    precisions: tuple[float, ...]  # p_1 … p_N in percent
    brevity: float  # min(1, exp(1 − reference_length / hypothesis_length))
    hypothesis_length: int
    reference_length: int  # of the closest reference of each sentence; of two, the shorter
    signature: str


class Chrf(NamedTuple):
    """chrF: the F-score of character n-grams."""

    score: float  # 0 to 100
    signature: str


@dataclass(frozen=True)
class Bucket:
    """The sentences of `low` to `high` words, both included; None is no limit."""

    low: int
    high: int | None
    count: int
    bleu: Bleu | None  # None where there is no sentence


def bleu(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, tokenize: str = "13a", lower: bool = False
) -> Bleu:
    """Corpus BLEU of plain text, by sacreBLEU: `tokenize` is one of its tokenizers ("13a", "intl", "char", "zh", …).

    >>> round(bleu(["The cat sat on the mat."], [["The cat sat on a mat.", "The cat sat on it."]]).score, 2)
    48.89
    """
    _check(hypotheses, references)
    metric = require("sacrebleu", extra="text").metrics.BLEU
    if tokenize not in metric.TOKENIZERS:
        raise ConfigError("tokenize", got=repr(tokenize), expected=f"one of {', '.join(sorted(metric.TOKENIZERS))}")
    judge = metric(tokenize=tokenize, lowercase=lower)
    result = judge.corpus_score(list(hypotheses), _streams(references))
    return Bleu(
        min(result.score, 100.0),  # rounding can lift it above
        tuple(result.precisions),
        result.bp,
        result.sys_len,
        result.ref_len,
        str(judge.get_signature()),
    )


def chrf(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, word_order: int = 0, lower: bool = False
) -> Chrf:
    """Corpus chrF2 of plain text, by sacreBLEU; chrF++ with `word_order=2`.

    >>> chrf(["the cat"], [["the cat"]]).score
    100.0
    """
    _check(hypotheses, references)
    judge = require("sacrebleu", extra="text").metrics.CHRF(word_order=word_order, lowercase=lower)
    result = judge.corpus_score(list(hypotheses), _streams(references))
    return Chrf(result.score, str(judge.get_signature()))


def tokenized_bleu(
    hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]], *, lower: bool = False, max_order: int = 4
) -> Bleu:
    """Corpus BLEU of tokens as they are, without smoothing: multi-bleu.perl. Compare it on one tokenization only.

    Counts are summed over the corpus before they are divided; if one order has no match, the score is 0.

    >>> found = tokenized_bleu(["the cat was sat on the mat".split()], [["the cat sat on the mat".split()]])
    >>> round(found.score, 4), [round(precision, 2) for precision in found.precisions]
    (48.8923, [85.71, 66.67, 40.0, 25.0])
    """
    _check(hypotheses, references, tokens=True)
    if max_order < 1:
        raise ConfigError("max_order", got=max_order, expected="1 or more", cure="use 4, the order of BLEU")
    matches, totals = [0] * max_order, [0] * max_order
    hypothesis_length = reference_length = 0
    for hypothesis, sentence_references in zip(hypotheses, references, strict=True):
        if lower:
            hypothesis = _lowered(hypothesis)
            sentence_references = [_lowered(reference) for reference in sentence_references]
        hypothesis_length += len(hypothesis)
        reference_length += _closest(len(hypothesis), sentence_references)
        for order in range(max_order):
            matched, total = _clipped(hypothesis, sentence_references, order + 1)
            matches[order] += matched
            totals[order] += total
    brevity = _brevity(hypothesis_length, reference_length)
    precisions = tuple(100 * match / total if total else 0.0 for match, total in zip(matches, totals, strict=True))
    logs = [math.log(precision / 100) if precision else -math.inf for precision in precisions]
    score = 100 * brevity * math.exp(sum(logs) / max_order)
    signature = _signature(references, lower, max_order)
    return Bleu(score, precisions, brevity, hypothesis_length, reference_length, signature)


def clipped_precision(hypothesis: Tokens, references: Sequence[Tokens], order: int = 1) -> Fraction:
    """p_n of one sentence: n-grams that are in a reference, each counted as often as in one reference at most.

    >>> references = ["the cat is on the mat".split(), "there is a cat on the mat".split()]
    >>> print(clipped_precision("the the the the the the the".split(), references))
    2/7
    """
    _check([hypothesis], [references], tokens=True)
    if order < 1:
        raise ConfigError("order", got=order, expected="1 or more")
    matched, total = _clipped(hypothesis, references, order)
    return Fraction(matched, total) if total else Fraction(0)


def bleu_by_length(
    hypotheses: Sequence[Any],
    references: Sequence[Sequence[Any]],
    source_lengths: Sequence[int],
    *,
    edges: Sequence[int] = (10, 20, 30, 40, 50),
    metric: Callable[..., Bleu] = bleu,
) -> list[Bucket]:
    """BLEU of short and long sentences apart: 0 … e_1, e_1 + 1 … e_2, …, more than the last edge.

    `metric` is `bleu`, or `tokenized_bleu` for tokens. All buckets are there, empty ones too.
    """
    _check(hypotheses, references, tokens=metric is tokenized_bleu)
    if len(source_lengths) != len(hypotheses):
        raise RegardError(
            "source_lengths", got=len(source_lengths), expected=f"{len(hypotheses)}: one for each hypothesis"
        )
    if not edges or any(low >= high for low, high in pairwise([-1, *edges])):
        raise ConfigError("edges", got=list(edges), expected="rising lengths, such as (10, 20, 30)")
    members: list[list[int]] = [[] for _ in range(len(edges) + 1)]
    for sentence, length in enumerate(source_lengths):
        members[bisect_left(edges, length)].append(sentence)
    limits = zip([0, *(edge + 1 for edge in edges)], [*edges, None], members, strict=True)
    return [
        Bucket(low, high, len(inside), metric(*_chosen(inside, hypotheses, references)) if inside else None)
        for low, high, inside in limits
    ]


# ── counting ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _ngrams(tokens: Tokens, order: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[start : start + order]) for start in range(len(tokens) - order + 1))


def _clipped(hypothesis: Tokens, references: Sequence[Tokens], order: int) -> tuple[int, int]:
    """Matches and all n-grams of a hypothesis."""
    limit: Counter[tuple[str, ...]] = Counter()
    for reference in references:
        limit |= _ngrams(reference, order)  # the larger count of each
    grams = _ngrams(hypothesis, order)
    return (grams & limit).total(), grams.total()


def _closest(length: int, references: Sequence[Tokens]) -> int:
    return min((len(reference) for reference in references), key=lambda other: (abs(other - length), other))


def _brevity(hypothesis_length: int, reference_length: int) -> float:
    if hypothesis_length >= reference_length:
        return 1.0
    return math.exp(1 - reference_length / hypothesis_length) if hypothesis_length else 0.0


def _lowered(tokens: Tokens) -> list[str]:
    return [token.lower() for token in tokens]


def _chosen(inside: list[int], *lists: Sequence[Any]) -> list[list[Any]]:
    return [[items[sentence] for sentence in inside] for items in lists]


def _streams(references: Sequence[Sequence[str]]) -> list[list[str | None]]:
    """sacreBLEU wants the first references of all sentences, then the second ones; None where there is none."""
    return [list(stream) for stream in zip_longest(*references)]


def _signature(references: Sequence[Sequence[Tokens]], lower: bool, max_order: int) -> str:
    from regard import __version__

    numbers = {len(sentence_references) for sentence_references in references}
    count = numbers.pop() if len(numbers) == 1 else "var"
    case = "lc" if lower else "mixed"
    return f"nrefs:{count}|case:{case}|eff:no|tok:given|smooth:none|order:{max_order}|version:regard-{__version__}"


# ── checks ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _check(hypotheses: Sequence[Any], references: Sequence[Sequence[Any]], *, tokens: bool = False) -> None:
    """One hypothesis and one list of references for each sentence; each of them text, or a list of tokens."""
    for name, lists in (("hypotheses", hypotheses), ("references", references)):
        if isinstance(lists, str):
            raise RegardError(f"{name} must be a list", got="a string", expected="one entry for each sentence")
    if not len(hypotheses):
        raise RegardError("there are no hypotheses", cure="give at least one sentence")
    if len(hypotheses) != len(references):
        raise RegardError(
            "hypotheses and references differ in number",
            got=f"{len(hypotheses)} and {len(references)}",
            expected="a list of references for each hypothesis",
            cure="write [[reference] for reference in references] if there is one for each",
        )
    for sentence, (hypothesis, sentence_references) in enumerate(zip(hypotheses, references, strict=True)):
        if isinstance(sentence_references, str) or (
            tokens and any(isinstance(reference, str) for reference in sentence_references)
        ):
            raise RegardError(
                f"references[{sentence}] must be a list of references",
                got="a string" if isinstance(sentence_references, str) else "a list of strings",
                expected="lists of tokens in a list" if tokens else "strings in a list",
                cure="write [[reference] for reference in references] if there is one for each",
            )
        if not len(sentence_references):
            raise RegardError(f"references[{sentence}] is empty", expected="one reference or more")
        for text in (hypothesis, *sentence_references):
            if isinstance(text, str) == tokens:
                raise RegardError(
                    f"sentence {sentence} is not {'a list of tokens' if tokens else 'text'}",
                    got=repr(text),
                    cure="pass text.split(), or use bleu" if tokens else "pass ' '.join(tokens), or use tokenized_bleu",
                )
