"""States of any shape, and what a model must give."""

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from regard.attention import Cache, Mask, Memory
from regard.base import ConfigError, RegardError, ShapeError
from regard.decode import Decodable, Shared, Step, beam_search, greedy, pick, sample
from regard.decode.protocol import bar
from regard.score import Prepared

INDEX = torch.tensor([2, 0, 0, 1])
HIDDEN = torch.arange(6.0).view(3, 2)
SEARCHES = pytest.mark.parametrize("search", [greedy, beam_search, sample])


class Pair(NamedTuple):
    hidden: Tensor
    cell: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Frozen:
    hidden: Tensor
    depth: int = 2


@dataclass
class Strict:
    hidden: Tensor

    def __post_init__(self) -> None:
        if len(self.hidden) != 3:
            raise AssertionError("made anew")


class Fixed:
    """Gives what it is told, whatever the state."""

    def __init__(self, step: Step) -> None:
        self.answer = step

    def step(self, tokens: Tensor, state: Any) -> Step:
        return self.answer


def test_every_kind_of_nest_is_picked() -> None:
    state = {
        "pair": Pair(HIDDEN),
        "frozen": Frozen(HIDDEN),
        "strict": Strict(HIDDEN),
        "list": [HIDDEN, (HIDDEN.bool(), HIDDEN.long())],
        "ordered": OrderedDict(layer=HIDDEN),
        "plain": (None, 1, 2.5, True, "word", b"bytes", torch.float32, torch.device("cpu")),
        "scalar": torch.tensor(7),
    }
    found, expected = pick(state, INDEX), HIDDEN[INDEX]
    assert isinstance(found["pair"], Pair)
    assert isinstance(found["frozen"], Frozen)
    assert isinstance(found["ordered"], OrderedDict)
    assert isinstance(found["list"][1], tuple)
    hidden = (
        found["pair"][0],
        found["frozen"].hidden,
        found["strict"].hidden,
        found["list"][0],
        found["ordered"]["layer"],
    )
    for tensor in hidden:
        assert torch.equal(tensor, expected)
    assert torch.equal(found["list"][1][0], expected.bool())
    assert torch.equal(found["list"][1][1], expected.long())
    assert found["pair"].cell is None
    assert found["frozen"].depth == 2
    assert found["plain"] == state["plain"]
    assert found["scalar"] is state["scalar"]


def test_the_old_state_is_not_touched() -> None:
    state = {"frozen": Frozen(HIDDEN.clone()), "list": [HIDDEN.clone()]}
    pick(state, INDEX)
    assert torch.equal(state["frozen"].hidden, HIDDEN)
    assert torch.equal(state["list"][0], HIDDEN)


def test_states_of_attention_are_picked() -> None:
    keys, values = torch.randn(3, 2, 5, 4), torch.randn(3, 2, 5, 4)
    for state in (Memory(Prepared(keys), values), Cache(keys, values)):
        found, expected = pick(state, INDEX), state.reorder(INDEX)
        assert type(found) is type(state)
        assert torch.equal(found.values, expected.values)
    assert pick(Cache(), INDEX) == Cache()
    mask = pick(Mask.padding(torch.tensor([1, 2, 3])), INDEX)
    assert mask.dense(1, 3).sum((-1, -2)).tolist() == [3, 1, 1, 2]


def test_what_is_shared_is_picked_by_sentence() -> None:
    state = {"hidden": torch.arange(6).view(6, 1), "shared": Shared((HIDDEN, {"mask": HIDDEN.bool()}))}
    found = pick(state, torch.tensor([5, 4, 1, 0]), sentences=torch.tensor([0, 2]))  # two of three stay, two beams each
    assert found["hidden"].flatten().tolist() == [5, 4, 1, 0]
    assert isinstance(found["shared"], Shared)
    assert torch.equal(found["shared"].value[0], HIDDEN[[0, 2]])
    assert torch.equal(found["shared"].value[1]["mask"], HIDDEN[[0, 2]].bool())
    kept = pick(state, torch.tensor([1, 1, 3, 2, 5, 4]), sentences=torch.arange(3))
    assert kept["shared"].value[0] is HIDDEN  # nobody leaves, nothing is copied
    alone = pick(Shared(HIDDEN), torch.tensor([2, 0]))
    assert torch.equal(alone.value, HIDDEN[[2, 0]])


class Sharing:
    """Random logits by sentence and prefix, with the sentence in every row of the state or once for all prefixes."""

    def __init__(self, shared: bool) -> None:
        self.shared = shared
        self.table = 2 * torch.randn(997, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def start(self, sentences: list[int]) -> dict[str, Any]:
        numbers = torch.tensor(sentences)
        return {"key": torch.zeros_like(numbers), "sentence": Shared(numbers) if self.shared else numbers}

    def step(self, tokens: Tensor, state: dict[str, Any]) -> Step:
        sentence = state["sentence"]
        if isinstance(sentence, Shared):
            sentence = sentence.value.repeat_interleave(len(tokens) // len(sentence.value))
        key = (state["key"] * 31 + tokens * 17 + sentence) % 997
        return Step(self.table[key], {**state, "key": key})


@SEARCHES
def test_sharing_changes_no_result(search: Any) -> None:
    def run(shared: bool) -> Any:
        model, options = Sharing(shared), {"batch": 5, "bos": 0, "eos": 1, "max_steps": torch.tensor([9, 2, 5, 9, 1])}
        options |= {"generator": torch.Generator().manual_seed(1)} if search is sample else {}
        return search(model, model.start([11, 5, 7, 3, 2]), **options)

    assert run(True) == run(False)


def test_what_is_shared_has_a_row_for_each_sentence() -> None:
    class Spread(Sharing):
        def step(self, tokens: Tensor, state: dict[str, Any]) -> Step:
            spread = Shared(state["sentence"].value.repeat_interleave(len(tokens) // len(state["sentence"].value)))
            return Step(self.table[tokens], {**state, "key": tokens, "sentence": spread})

    model = Spread(True)
    with pytest.raises(ShapeError, match=r"got \[6\]; expected \[2 …\]: one row for each sentence, as it is Shared"):
        beam_search(model, model.start([1, 2]), batch=2, bos=0, eos=1, beams=3, max_steps=4)


def test_what_cannot_be_picked_is_named() -> None:
    with pytest.raises(
        RegardError, match=r"cannot be picked along its first axis: got generator; .*keep it in the mod"
    ):
        pick([HIDDEN, (token for token in range(3))], INDEX)


def test_decodable_is_known_by_its_step() -> None:
    assert isinstance(Fixed(Step(HIDDEN, None)), Decodable)
    assert not isinstance(object(), Decodable)
    with pytest.raises((ConfigError, TypeError)):  # the import hook may be faster
        greedy(object(), None, batch=1, bos=0, eos=1, max_steps=2)


def test_barred_tokens_take_nothing_from_the_others() -> None:
    log_probs = torch.randn(2, 5).log_softmax(-1)
    barred = bar(log_probs, [3, 0])
    assert (barred[:, [0, 3]] == -math.inf).all()
    assert torch.equal(barred[:, [1, 2, 4]], log_probs[:, [1, 2, 4]])
    assert bar(log_probs, ()) is log_probs


@SEARCHES
def test_errors_of_the_model_are_clear(search: Any) -> None:
    def run(step: Step, state: Any = None, **options: Any) -> Any:
        return search(Fixed(step), state, **{"batch": 3, "bos": 0, "eos": 1, "max_steps": 4, **options})

    logits = torch.zeros(3, 2)
    with pytest.raises(ShapeError, match=r"another first axis: got \[1, 3, 4\]; expected \[3 …\].*put the batch first"):
        run(Step(logits, None), torch.zeros(1, 3, 4))
    with pytest.raises(ShapeError, match="another first axis"):
        run(Step(logits, torch.zeros(1, 3, 4)))
    with pytest.raises(ShapeError, match=r"logits of a step: got \[3, 1, 2\]; expected \[3 v\]"):
        run(Step(logits.unsqueeze(1), None))
    with pytest.raises(ShapeError, match=r"weights of a step: got \[3, 8, 5\].*mean over heads"):
        run(Step(logits, None, torch.zeros(3, 8, 5)))
    for bad in (math.nan, math.inf):
        with pytest.raises(RegardError, match="not numbers"):
            run(Step(torch.full((3, 2), bad), None))
        for place in (0, 9):  # one such number in a row of others, −∞ among them
            spoilt = torch.zeros(3, 20)
            spoilt[1, 4:7], spoilt[1, place] = -math.inf, bad
            with pytest.raises(RegardError, match="not numbers"):
                run(Step(spoilt, None))
    with pytest.raises(ConfigError, match="eos: got 2; expected a token of the vocabulary: 0 to 1"):
        run(Step(logits, None), eos=2)
    with pytest.raises(ConfigError, match=r"forbidden tokens: got \[5\]"):
        run(Step(logits, None), forbidden=[5])
    with pytest.raises(ConfigError, match="max_steps: got 0; expected 1 or more"):
        run(Step(logits, None), max_steps=0)
    with pytest.raises((ShapeError, TypeError)):
        run(Step(logits, None), max_steps=torch.tensor([1, 2]))
    with pytest.raises(ConfigError, match="min_steps: got 5; expected at most max_steps, which is 4"):
        run(Step(logits, None), min_steps=5)


@SEARCHES
def test_no_sentences(search: Any) -> None:
    assert search(Fixed(Step(HIDDEN, None)), None, batch=0, bos=0, eos=1, max_steps=3) == []


@SEARCHES
def test_the_default_device_plays_no_part(search: Any) -> None:
    model, options = Sharing(True), {"batch": 3, "bos": 0, "eos": 1, "max_steps": 6, "min_steps": 2, "forbidden": [3]}

    def run() -> Any:
        seeded = {"generator": torch.Generator().manual_seed(1)} if search is sample else {}
        return search(model, model.start([11, 5, 7]), **options, **seeded)

    expected, start = run(), model.start([11, 5, 7])
    model.start = lambda sentences: start  # type: ignore[method-assign]
    with torch.device("meta"):  # a tensor that is made without a device of its own is there, and has no numbers
        assert run() == expected


@SEARCHES
def test_the_least_number_of_steps_may_be_the_most(search: Any) -> None:
    model = Sharing(True)
    several = search(model, model.start([11, 5, 7]), batch=3, bos=0, eos=1, min_steps=4, max_steps=4)
    for hypotheses in several:
        [hypothesis] = hypotheses if isinstance(hypotheses, list) else [hypotheses]
        assert hypothesis.length == 4
