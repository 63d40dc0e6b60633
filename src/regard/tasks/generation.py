"""Continuing a text: token after token, the best one or one by chance, and what the model attended to on the way."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn

from regard.attention import trace
from regard.base import ConfigError, RegardError, check_settings
from regard.base.ranges import BatchSize, Count, Few, Natural, Range, Seed
from regard.data import BOS, EOS, PAD, UNK, TextUnits
from regard.decode import Hypothesis, Step, greedy, sample
from regard.decode.sample import Temperature, TopK, TopP
from regard.explanation import Displayed, Explanation, Matrix
from regard.nn import device_of, evaluating
from regard.tasks.distances import distance_matrix

Cells = Annotated[int, Range(least=0, most=100_000)]


@dataclass(frozen=True)
class Generation:
    """How a text is continued, and how many tokens an evaluation reads side by side."""

    max_tokens: Count = 40  # that are written
    temperature: Temperature | None = None  # a number draws tokens; None takes the likeliest
    top_k: TopK = 0  # tokens are drawn among so many; 0: all
    top_p: TopP = 1.0  # tokens are drawn among the likeliest that have this share
    seed: Seed = 0  # of what is drawn
    unknown: bool = False  # whether <unk> may be written
    shown: Count = 60  # the attention of so many last tokens is explained
    rows: BatchSize = 32  # evaluation: sentences, or streams, that are read side by side
    evaluated: Natural = 0  # evaluation: the first lines, with so many tokens at most; 0: all
    memory: Cells | None = None  # cells that a model with a memory remembers; None: as many as in training
    length: Few | None = None  # evaluation of streams: tokens of a window; None: as in training

    def __post_init__(self) -> None:
        check_settings(self)

    def describe_stream(self) -> str:
        """How streams are evaluated, for signatures."""
        return ", ".join([f"stream of {self.rows}", *(f"{name} {value}" for name, value in self._for_streams())])

    def check_for_sentences(self) -> None:
        """An error if something is set that only streams have."""
        for name, _ in self._for_streams():
            cure = f"leave {name} out, or train with task.context=stream"
            raise ConfigError(f"{name} is for streams", got="a model of single sentences", cure=cure)

    def _for_streams(self) -> list[tuple[str, int]]:
        numbers = (("memory", self.memory), ("length", self.length))
        return [(name, value) for name, value in numbers if value is not None]


@dataclass(frozen=True)
class Generated(Displayed):
    """A text and its continuation."""

    source: str  # what was given
    text: str  # the source and what follows
    continuation: str  # what follows
    log_prob: float  # of what follows, under the model itself
    finished: bool  # whether it ends because the model ended it
    ids: tuple[int, ...] = field(repr=False)  # of all tokens that were read or written
    explanations: tuple[Explanation, ...] = field(repr=False, compare=False, default=())


@torch.no_grad()
def continue_text(model: nn.Module, text: str, units: TextUnits, how: Generation, *, by_sentence: bool) -> Generated:
    """What follows a text. With `by_sentence` the text is the start of one line, which the model may end."""
    device = device_of(model)
    prompt = _prompt(text, units, by_sentence)
    with evaluating(model):
        last = prompt[-1]
        state = initial_state(model, 1, how.memory)
        if len(prompt) > 1:
            state = model(torch.tensor([prompt[:-1]], device=device), state)[1]
        best = _follow(_Stepping(model), state, last, how, device, ends=by_sentence)
        ids = [*prompt, *best.tokens]
        written = units.decode(best.tokens)
        explanations = _explanations(model, ids, units, how, device)
    between = "" if units.kind == "characters" or not text or text.endswith("\n") or not written else " "
    if units.kind == "words" and written:
        whole, between = units.decode(ids[1:]), ""
        return Generated(text, whole, written, best.log_prob, best.finished, tuple(ids), explanations)
    return Generated(text, f"{text}{between}{written}", written, best.log_prob, best.finished, tuple(ids), explanations)


@torch.no_grad()
def read_tokens(model: nn.Module, text: str, units: TextUnits, *, by_sentence: bool) -> list[str]:
    """Lets a model read one text, and gives the tokens that it read, with that which the first of them follows."""
    ids = _prompt(text, units, by_sentence)
    model(torch.tensor([ids], device=device_of(model)), None)
    return units.labels(ids)


def _prompt(text: str, units: TextUnits, by_sentence: bool) -> list[int]:
    """The numbers of the tokens of a text, after that which its first token follows."""
    if by_sentence and "\n" in text:
        cure = "give one line, or train with task.context=stream"
        raise RegardError("this model reads one sentence at a time", got=f"{text.count(chr(10)) + 1} lines", cure=cure)
    return [BOS if by_sentence else EOS, *units.stream(text).tolist()]


def _follow(
    model: "_Stepping", state: Any, last: int, how: Generation, device: torch.device, *, ends: bool
) -> Hypothesis:
    """The continuation after the token `last`. Where a line end is no end, nothing ends it: <pad> is never written."""
    forbidden = {PAD, BOS, *([] if how.unknown else [UNK])}
    options: dict[str, Any] = {"batch": 1, "bos": last, "eos": EOS if ends else PAD, "max_steps": how.max_tokens}
    options["forbidden"] = forbidden
    if how.temperature is None:
        return greedy(model, state, **options)[0]
    generator = torch.Generator(device).manual_seed(how.seed)
    chance: dict[str, Any] = {"temperature": how.temperature, "top_k": how.top_k, "top_p": how.top_p}
    return sample(model, state, generator=generator, **chance, **options)[0]


class _Stepping:
    """A model of running text, as a search wants it: one token a step."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def step(self, tokens: Int[Tensor, " n"], state: Any) -> Step:
        """Logits after `tokens`, and the new state."""
        logits, after = self.model(tokens.unsqueeze(1), state)
        return Step(logits[:, -1], after)

    def parameters(self) -> Any:
        """The parameters of the model, which say on which device it is."""
        return self.model.parameters()


def initial_state(model: Any, batch: int, memory: int | None = None) -> Any:
    """The state of a model before the first token of `batch` texts, with `memory` cells where the model offers that."""
    if memory is None:
        return model.initial_state(batch)
    if "memory" not in inspect.signature(model.initial_state).parameters:
        got, cure = f"memory={memory} for {type(model).__name__}", "leave memory out"
        raise ConfigError("this model has no memory of a size that can be chosen", got=got, cure=cure)
    return model.initial_state(batch, memory=memory)


def _explanations(
    model: nn.Module, ids: Sequence[int], units: TextUnits, how: Generation, device: torch.device
) -> tuple[Explanation, ...]:
    """For each token the earlier tokens that it attended to, one matrix for each layer that attends.

    Where layers have heads, a last matrix shows how far back each head looks.

    The text is read once more as a whole, so that every layer sees all of it. Rows are the tokens that are read.
    """
    with trace(model, may_be_empty=True) as seen:
        model(torch.tensor([list(ids)], device=device), None)
    labels = units.labels(ids)[-how.shown :]
    matrices, heads = [], {}
    for name, record in seen.items():
        weights = np.asarray(record.weights)[0]  # [*h q k]
        if weights.shape[-2] != len(ids):
            continue  # a layer that does not attend once for each token
        missing = len(ids) - weights.shape[-1]
        weights = np.pad(weights, [(0, 0)] * (weights.ndim - 1) + [(0, missing)]) if missing > 0 else weights
        heads[name] = weights = weights[..., -len(ids) :]
        weights = weights[..., -how.shown :, -how.shown :]
        matrices.append(Matrix(weights, labels, labels, layer=name, title="what each token attended to"))
    distances = distance_matrix(heads)
    return tuple(matrices) if distances is None else (*matrices, distances)
