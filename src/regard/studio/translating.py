"""A translation word by word: every step of the search is told while it happens, and a beginning can be given.

The search is that of `regard.decode`, unchanged. It is given a model that notes what each step said, and a state in
which each prefix carries its number. The search reorders the state, so the number of the row before a step is the
prefix that the row came from: that is the tree of the beams.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.parametrize import cached

from regard.base import ConfigError, shown
from regard.data import BOS, EOS, PAD, SPECIALS
from regard.decode import Step, sample
from regard.nn import device_of, evaluating
from regard.tasks.parallel_text import cased
from regard.tasks.search import Prediction, find_best

Event = dict[str, Any]
ROOT = 0
ALTERNATIVES = 8  # tokens that are offered in place of each


class _Numbered(NamedTuple):
    """The state of a model, and the number of the prefix in each row."""

    inner: Any
    nodes: Tensor  # [n]


@dataclass
class _Node:
    """A prefix: what came before, its last token, and what the model said after it."""

    parent: int
    token: int
    log_prob: float  # of all tokens of it, those that were given included
    ids: tuple[int, ...]
    likely: list[tuple[int, float]] = field(default_factory=list)  # the best tokens after it
    weights: Tensor | None = None  # [k] where the step after it looked


class Watched:
    """A model that tells each of its steps, and walks through a given beginning at the first one."""

    def __init__(self, model: Any, prefix: Sequence[int], tell: Callable[["Watched", list[int]], None]) -> None:
        self.model, self.prefix, self.tell = model, list(prefix), tell
        self.nodes: dict[int, _Node] = {ROOT: _Node(-1, BOS, 0.0, ())}
        self.children: dict[tuple[int, int], int] = {}
        self.start = ROOT  # the node of the whole beginning
        self._log_probs: Tensor | None = None  # [n v] of the last step
        self._rows: dict[int, int] = {}  # the row of each node in it

    def parameters(self) -> Any:
        """The parameters of the model, which say on which device it is."""
        return self.model.parameters()

    def begin(self, state: Any, device: torch.device) -> _Numbered:
        """The state before the first step, of one sentence."""
        return _Numbered(state, torch.zeros(1, dtype=torch.long, device=device))

    def step(self, tokens: Tensor, state: _Numbered) -> Step:
        """One step of the model; the first one goes through the beginning."""
        if self._log_probs is None:
            return self._first(tokens, state)
        before = state.nodes.tolist()
        chances = self._log_probs[[self._rows[node] for node in before], tokens].tolist()
        rows = [self._node(*each) for each in zip(before, tokens.tolist(), chances, strict=True)]
        out = self.model.step(tokens, state.inner)
        self._see(rows, out)
        self.tell(self, rows)
        return Step(out.logits, _Numbered(out.state, torch.tensor(rows, device=tokens.device)), out.weights)

    def _first(self, tokens: Tensor, state: _Numbered) -> Step:
        out, node = self.model.step(tokens, state.inner), ROOT
        self._see([node], out)
        for token in self.prefix:
            assert self._log_probs is not None
            node = self._node(node, token, float(self._log_probs[0, token]))
            out = self.model.step(torch.full_like(tokens, token), out.state)
            self._see([node], out)
            self.tell(self, [node])
        self.start = node
        return Step(out.logits, _Numbered(out.state, torch.full_like(tokens, node)), out.weights)

    def _node(self, parent: int, token: int, chance: float) -> int:
        number = len(self.nodes)
        before = self.nodes[parent]
        self.nodes[number] = _Node(parent, token, before.log_prob + chance, (*before.ids, token))
        self.children[parent, token] = number
        return number

    def _see(self, rows: list[int], out: Step) -> None:
        """Keep what the model says after the prefixes of these rows."""
        self._log_probs = out.logits.float().log_softmax(-1)
        self._rows = {node: row for row, node in enumerate(rows)}
        best = self._log_probs.topk(min(ALTERNATIVES + 3, self._log_probs.shape[1]), dim=-1)
        for row, (node, values, tokens) in enumerate(
            zip(rows, best.values.tolist(), best.indices.tolist(), strict=True)
        ):
            likely = [(token, value) for token, value in zip(tokens, values, strict=True) if token not in (PAD, BOS)]
            self.nodes[node].likely = likely[:ALTERNATIVES]
            self.nodes[node].weights = None if out.weights is None else out.weights[row].float().cpu()


@dataclass(frozen=True)
class Wanted:
    """What is asked for: a sentence, how to search, and the tokens that a translation begins with."""

    text: str
    how: Any  # a Search
    prefix: tuple[int, ...] = ()


def prefix_of(body: Any, model: Any, limit: int) -> tuple[int, ...]:
    """The numbers of the tokens that a translation is to begin with; a word in letters may follow them."""
    ids = body.get("prefix") or []
    size = len(model.task.codecs[1])
    if not isinstance(ids, list) or not all(type(each) is int and EOS < each < size for each in ids):
        raise ConfigError("the beginning of a translation", got=shown(ids), expected=f"numbers of tokens below {size}")
    word = body.get("word") or ""
    if not isinstance(word, str) or len(word) > 100:
        raise ConfigError("the word of a request", got=shown(word), expected="a string of at most 100 characters")
    ids = [*ids, *model.task.codecs[1].encode_text(word)]
    if len(ids) > limit:
        raise ConfigError("the beginning of a translation", got=f"{len(ids)} tokens", expected=f"at most {limit}")
    return tuple(ids)


@torch.no_grad()
def translate(model: Any, wanted: Wanted, send: Callable[[Event], None]) -> None:
    """Translate one sentence and send an event for each step; the last one is `done`."""
    task, module, how = model.task, model.module, wanted.how
    source, target = task.codecs
    [line] = cased([wanted.text], task._lowers)
    ids = source.encode_text(line)
    columns = [*source.tokens(line), SPECIALS[EOS]]
    send({"kind": "start", "source_tokens": columns if ids else [], "specials": list(SPECIALS), "beams": how.beams})
    if not ids:
        send({"kind": "done", "prediction": None, "alternatives": [], "others": [], "prefix": 0})
        return
    device = device_of(module)
    padded = torch.tensor([[*ids, EOS]], device=device)
    lengths = torch.tensor([len(ids) + 1], device=device)
    steps = 0

    def tell(watched: Watched, rows: list[int]) -> None:
        nonlocal steps
        steps += 1
        best = max(rows, key=lambda node: watched.nodes[node].log_prob)
        node = watched.nodes[best]
        event: Event = {"step": steps, "text": target.decode_text(list(node.ids)), "tokens": _tokens(target, node.ids)}
        if how.beams == 1:
            looked = watched.nodes[node.parent].weights
            event |= {"kind": "token", "token": event["tokens"][-1], "id": node.token, "log_prob": node.log_prob}
            event["weights"] = None if looked is None else _rounded(looked)
        else:
            event |= {"kind": "beam", "prefixes": [_prefix(target, watched, each) for each in rows]}
        send(event)

    watched = Watched(module, wanted.prefix, tell)
    with evaluating(module), cached():
        state = watched.begin(module.init_state(module.encode(padded, lengths)), device)
        left = int(how.max_ratio * len(columns)) + 10 - len(wanted.prefix)
        options: dict[str, Any] = {
            "batch": 1, "bos": BOS, "eos": EOS, "max_steps": max(1, left), "forbidden": (PAD, BOS),
            "min_steps": min(max(0, how.min_steps - len(wanted.prefix)), max(1, left)),
        }  # fmt: skip
        if how.temperature is not None:
            generator = torch.Generator(device).manual_seed(how.seed)
            chance = {"temperature": how.temperature, "top_k": how.top_k, "top_p": how.top_p}
            hypotheses = sample(watched, state, generator=generator, **chance, **options)
        else:
            mask = torch.ones(1, len(columns), dtype=torch.bool, device=device)
            [hypotheses] = find_best(
                watched, state, how, coverage_penalty=how.coverage_penalty, source_mask=mask, **options
            )
    place = str(getattr(module, "weights_from", ""))
    predictions = [
        replace(_prediction(wanted.text, columns, target, watched, each), weights_from=place) for each in hypotheses
    ]
    best = [*wanted.prefix, *hypotheses[0].tokens]
    send(
        {
            "kind": "done",
            "prediction": _json(predictions[0], best, hypotheses[0].finished),
            "alternatives": _alternatives(target, watched, best),
            "others": [
                _json(prediction, [*wanted.prefix, *hypothesis.tokens], hypothesis.finished, whole=False)
                for prediction, hypothesis in zip(predictions, hypotheses, strict=True)
            ],
            "prefix": len(wanted.prefix),
        }
    )


def _prediction(text: str, columns: list[str], target: Any, watched: Watched, hypothesis: Any) -> Prediction:
    """A hypothesis after its beginning, as `regard.load(…).translate` gives it."""
    ids = [*watched.prefix, *hypothesis.tokens]
    rows = target.decode_tokens(ids)
    seen = [watched.nodes[node].weights for node in _path(watched, ids[: len(watched.prefix)])][:-1]
    weights = None
    if hypothesis.weights is not None:
        known = [each for each in seen if each is not None]
        every = torch.cat([*(each.unsqueeze(0) for each in known), hypothesis.weights.float().cpu()])
        weights = every[: len(rows), : len(columns)].numpy()
    log_prob = hypothesis.log_prob + watched.nodes[watched.start].log_prob
    output = target.decode_text(ids)
    return Prediction(text, output, rows, columns, hypothesis.score, log_prob, hypothesis.finished, weights)


def _path(watched: Watched, ids: Sequence[int]) -> list[int]:
    """The nodes of a translation from the root on, as far as they were walked."""
    node, path = ROOT, [ROOT]
    for token in ids:
        if (node, token) not in watched.children:
            break
        node = watched.children[node, token]
        path.append(node)
    return path


def _alternatives(target: Any, watched: Watched, ids: Sequence[int]) -> list[list[Event]]:
    """For each place of a translation the tokens that the model found likely there, and the end of it."""
    every = []
    for node in _path(watched, ids):
        likely = watched.nodes[node].likely
        every.append(
            [{"id": token, "token": _token(target, token), "log_prob": _number(value)} for token, value in likely]
        )
    return every


def _json(prediction: Prediction, ids: Sequence[int], finished: bool, *, whole: bool = True) -> Event:
    short = {
        "text": prediction.text,
        "tokens": prediction.tokens,
        "ids": list(ids),
        "score": _number(prediction.score),
        "log_prob": _number(prediction.log_prob),
        "finished": finished,
    }
    if not whole:
        return short
    explanations = [explanation.to_json() for explanation in prediction.explanations]
    return short | {"source_tokens": prediction.source_tokens, "explanations": explanations}


def _prefix(target: Any, watched: Watched, number: int) -> Event:
    node = watched.nodes[number]
    token = _token(target, node.token)
    return {"node": number, "parent": node.parent, "token": token, "id": node.token, "log_prob": _number(node.log_prob)}


def _token(target: Any, number: int) -> str:
    if number < len(SPECIALS):
        return str(SPECIALS[number])
    return str(target.decode_tokens([number])[0])


def _tokens(target: Any, ids: Sequence[int]) -> list[str]:
    return [str(token) for token in target.decode_tokens(list(ids))]


def _number(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None


def _rounded(weights: Tensor) -> list[float]:
    return [round(value, 6) for value in weights.tolist()]


def forced(model: Any, text: str, ids: Sequence[int]) -> Prediction:
    """A translation that is known already, so that its layers can be looked at."""
    source, target = model.task.codecs
    [line] = cased([text], model.task._lowers)
    columns = [*source.tokens(line), SPECIALS[EOS]]
    rows = target.decode_tokens(list(ids))
    return Prediction(text, target.decode_text(list(ids)), rows, columns, 0.0, 0.0, True, None)
