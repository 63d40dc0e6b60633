"""From texts to translations: encode, search, decode, and gather the weights of what was found."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.utils.parametrize import cached

from regard.base import ConfigError, check_settings
from regard.base.ranges import Count, Natural, Range, Seed
from regard.data import (
    BOS,
    EOS,
    PAD,
    SPECIALS,
    UNK,
    Codec,
    Pair,
    SubwordCodec,
    TokenBatch,
    detokenize,
    evaluation_batches,
)
from regard.data.tokens import SourceBatch
from regard.decode import Hypothesis, beam_search, consensus, greedy, sample
from regard.decode.consensus import Sharpness
from regard.decode.hypothesis import Beams, CoveragePenalty, LengthPenalty
from regard.decode.sample import Temperature, TopK, TopP
from regard.explanation import Displayed, Explanation, Matrix
from regard.nn import device_of, evaluating
from regard.tasks.fast_search import FastSearch, fast_search, packed, rules_of
from regard.tasks.task import Progress, changed_settings

FORBIDDEN = (PAD, BOS)
Ratio = Annotated[float, Range(least=0, most=100)]
Weights = NDArray[np.float32]


@dataclass(frozen=True)
class Search:
    """How to look for a translation; one beam is greedy."""

    beams: Beams = 5  # prefixes that are followed; one is greedy
    nbest: Beams = 1  # how many results are given
    length_penalty: LengthPenalty = 1.0  # α of GNMT
    coverage_penalty: CoveragePenalty = 0.0  # β of GNMT
    min_steps: Natural = 0  # tokens at least
    max_ratio: Ratio = 2.0  # at most this many target tokens a source token, and ten more
    no_repeat: Natural = 0  # n-grams that may occur once
    consensus: Sharpness | None = None  # the beam that agrees most with all, by probability to this power
    temperature: Temperature | None = None  # a number samples instead of searching
    top_k: TopK = 0  # samples are drawn among so many; 0: all
    top_p: TopP = 1.0  # samples are drawn among the likeliest that have this share
    seed: Seed = 0  # of what is drawn
    replace_unknown: bool = False  # an unknown word becomes the source word with the largest weight (Luong 2015)
    places: Literal["expected", "argmax"] | None = None  # captions, hard attention: where to look; None: model.at_test
    batch_tokens: Count = 4096  # places that are searched at once; over fixed shapes on a GPU free memory decides
    impl: Literal["auto", "plain", "packed", "fixed"] = "auto"  # by the model, packed weights, or fixed shapes
    precision: Literal["model", "bfloat16"] = "model"  # in which it computes; bfloat16 is over fixed shapes

    def __post_init__(self) -> None:
        check_settings(self)
        if self.precision != "model" and self.impl in ("plain", "packed"):
            expected = f"model, as impl is {self.impl}"
            raise ConfigError("precision", got=self.precision, expected=expected, cure="leave impl out")


@dataclass(frozen=True)
class Prediction(Displayed):
    """One translation. `weights` [t k] belong to `tokens` × `source_tokens`, gathered along the winning beam."""

    source: str
    text: str
    tokens: list[str]
    source_tokens: list[str]
    score: float
    log_prob: float
    finished: bool
    weights: Weights | None = field(repr=False, compare=False)
    weights_from: str = field(default="", repr=False, compare=False)  # which layer and head, where there are several

    @property
    def explanations(self) -> tuple[Explanation, ...]:
        """The alignment of the translation with its source; nothing for a model without attention."""
        if self.weights is None or not self.tokens:
            return ()
        axes = ("translation", "source")
        return (Matrix(self.weights, self.tokens, self.source_tokens, self.weights_from, self.text, axes),)

    @property
    def sureness(self) -> float:
        """The geometric mean of the probabilities of its tokens: 1 is certain."""
        return math.exp(self.log_prob / (len(self.tokens) + self.finished)) if self.tokens else 1.0


@torch.no_grad()
def translate_texts(
    model: nn.Module,
    texts: Sequence[str],
    codecs: tuple[Codec, Codec],
    how: Search,
    *,
    progress: Progress | None = None,
) -> list[list[Prediction]]:
    """The `nbest` translations of each text, in the order of the texts. A blank text stays blank.

    `progress` is told how many sentences are done, after each batch.
    """
    check_search(how)
    device = device_of(model)
    generator = None if how.temperature is None else torch.Generator(device).manual_seed(how.seed)
    encoded = [codecs[0].encode_text(text) for text in texts]
    asked = [number for number, ids in enumerate(encoded) if ids]
    pairs: list[Pair] = [(encoded[number], []) for number in asked]
    predictions: list[list[Prediction]] = [[_blank(text)] for text in texts]
    done = len(texts) - len(asked)
    place = str(getattr(model, "weights_from", ""))
    with evaluating(model):
        fast = fast_search(model, how, count=len(pairs)) if pairs else None
        if fast is not None and how.impl == "auto" and not fast.has_shapes(_shortest_state):
            fast = None
        searched = model if fast is not None or not pairs else packed(model, how)
        for batch in _batches(pairs, how, fast):
            if fast is not None:
                hypotheses = _hypotheses_fast(fast, batch, how, generator)
            else:
                source, lengths = batch.source.to(device), batch.source_lengths.to(device)
                with cached():  # normalised weights are made once a batch, not once a step
                    hypotheses = _hypotheses(searched, source, lengths, how, generator)
            for number, length, best in zip(batch.indices, batch.source_lengths.tolist(), hypotheses, strict=True):
                text = texts[asked[number]]
                made = [_prediction(text, length, one, codecs, how) for one in best]
                predictions[asked[number]] = [replace(one, weights_from=place) for one in made]
            done += len(hypotheses)
            if progress is not None:
                progress("sentences", done, len(texts))
        if fast is not None:
            fast.trim()
    return predictions


@torch.no_grad()
def read_source(model: Any, text: str, codec: Codec) -> list[str]:
    """Lets the encoder of a model read one text, and gives the tokens that it read, with <eos>."""
    ids = [*codec.encode_text(text), EOS]
    source = torch.tensor([ids], device=device_of(model))
    model.encode(source, torch.tensor([len(ids)], device=source.device))
    return [*codec.tokens(text), SPECIALS[EOS]]


def changed_search(search: Search, changes: Mapping[str, Any], *, unused: Sequence[str]) -> Search:
    """The settings of a search with `changes` by name; `beam` is another name of `beams`.

    Where `nbest` is more than the beams, and no beams are given, there are as many beams as are needed.
    """
    changes = dict(changes)
    beams = changes.pop("beam", changes.get("beams"))
    changes.pop("beams", None)
    if (nbest := changes.get("nbest")) is None:
        changes.pop("nbest", None)
    changed: Search = changed_settings(search, changes, unused=(*unused, "beams"))
    if beams is None:
        beams = max(search.beams, 1 if nbest is None else changed.nbest)
    changed = replace(changed, beams=beams)
    check_search(changed)
    return changed


def check_search(how: Search) -> None:
    """Whether the settings fit together."""
    if how.nbest > 1 and how.temperature is not None:
        raise ConfigError("nbest", got=how.nbest, expected="1 with a temperature", cure="sample with several seeds")
    if how.nbest > how.beams:
        raise ConfigError(
            "nbest", got=how.nbest, expected=f"at most beams, which is {how.beams}", cure=f"add --beam {how.nbest}"
        )
    if how.consensus is not None and how.temperature is not None:
        raise ConfigError(
            "consensus", got=f"temperature {how.temperature}", expected="a search", cure="set temperature=None"
        )


def search_signature(how: Search) -> str:
    """What the search adds to the signature of a figure; settings that do nothing are left out.

    >>> search_signature(Search(40, length_penalty=0.0, consensus=0.7))
    'search:beams=40,length_penalty=0,consensus=0.7'
    """
    if how.beams == 1 and not how.no_repeat:
        parts = ["greedy"]
    else:
        parts = [f"beams={how.beams}", f"length_penalty={how.length_penalty:g}"]
        parts += [] if how.consensus is None else [f"consensus={how.consensus:g}"]
    parts += [f"{name}={getattr(how, name)}" for name in ("no_repeat", "min_steps") if getattr(how, name)]
    return f"search:{','.join(parts)}"


def _batches(pairs: list[Pair], how: Search, fast: FastSearch | None) -> Sequence[TokenBatch | SourceBatch]:
    places = max(1, how.batch_tokens // how.beams)
    if fast is None:
        return evaluation_batches(pairs, max_tokens=places)
    return fast.batches(pairs, rules_of(how, FORBIDDEN), max_tokens=places, ratio=how.max_ratio)


def _shortest_state(model: Any) -> Any:
    """The state of a source that is nothing but its end."""
    device = device_of(model)
    return model.init_state(model.encode(torch.tensor([[EOS]], device=device), torch.tensor([1], device=device)))


def _hypotheses_fast(
    fast: FastSearch, batch: TokenBatch | SourceBatch, how: Search, generator: torch.Generator | None
) -> list[list[Hypothesis]]:
    mask = torch.arange(batch.source.shape[1]) < batch.source_lengths.unsqueeze(1)
    return fast.find_texts(
        batch.source,
        batch.source_lengths,
        rules_of(how, FORBIDDEN),
        (how.max_ratio * batch.source_lengths).long() + 10,
        mask=mask if how.coverage_penalty else None,
        generator=generator,
        sharpness=how.consensus,
        count=how.nbest,
    )


def _hypotheses(
    model: Any, source: torch.Tensor, lengths: torch.Tensor, how: Search, generator: torch.Generator | None
) -> list[list[Hypothesis]]:
    state = model.init_state(model.encode(source, lengths))
    options: dict[str, Any] = {
        "batch": len(source),
        "bos": BOS,
        "eos": EOS,
        "max_steps": (how.max_ratio * lengths).long() + 10,
        "min_steps": how.min_steps,
        "forbidden": FORBIDDEN,
    }
    if how.temperature is not None:
        chance: dict[str, Any] = {"temperature": how.temperature, "top_k": how.top_k, "top_p": how.top_p}
        return [[one] for one in sample(model, state, generator=generator, **chance, **options)]
    mask = torch.arange(source.shape[1], device=source.device) < lengths.unsqueeze(1)
    return find_best(model, state, how, coverage_penalty=how.coverage_penalty, source_mask=mask, **options)


def find_best(model: Any, state: Any, how: Search, **options: Any) -> list[list[Hypothesis]]:
    """The `nbest` of each row, greedily where there is one beam; `options` are those of a search."""
    if how.beams == 1 and how.nbest == 1 and not how.no_repeat:
        plain = {name: value for name, value in options.items() if name not in ("coverage_penalty", "source_mask")}
        return [[one] for one in greedy(model, state, **plain)]
    count = how.nbest if how.consensus is None else how.beams
    options |= {"beams": how.beams, "nbest": count, "length_penalty": how.length_penalty, "no_repeat": how.no_repeat}
    hypotheses = beam_search(model, state, **options)
    if how.consensus is None:
        return hypotheses
    return [consensus(beams, sharpness=how.consensus)[: how.nbest] for beams in hypotheses]


def _prediction(text: str, length: int, hypothesis: Hypothesis, codecs: tuple[Codec, Codec], how: Search) -> Prediction:
    columns = [*codecs[0].tokens(text), SPECIALS[EOS]]
    rows = codecs[1].decode_tokens(hypothesis.tokens)
    weights = None if hypothesis.weights is None else hypothesis.weights[: len(rows), :length].float().cpu().numpy()
    output = codecs[1].decode_text(hypothesis.tokens)
    if how.replace_unknown and weights is not None and UNK in hypothesis.tokens:
        rows = [
            columns[int(weights[t, : len(columns) - 1].argmax())] if token == UNK and len(columns) > 1 else row
            for t, (token, row) in enumerate(zip(hypothesis.tokens, rows, strict=True))
        ]
        output = "".join(rows).replace("▁", " ").strip() if isinstance(codecs[1], SubwordCodec) else detokenize(rows)
    return Prediction(text, output, rows, columns, hypothesis.score, hypothesis.log_prob, hypothesis.finished, weights)


def _blank(text: str) -> Prediction:
    return Prediction(text, "", [], [], 0.0, 0.0, True, None)
