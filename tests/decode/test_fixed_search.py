"""Every model, over fixed shapes: the same tokens, scores and weights as by the plain search; no step waits for a host.

What a recorded step may not do is looked for operation by operation: ask for a number of the device, for a shape that
depends on data, or for something that lies on the host.
"""

from typing import Any

import pytest
import torch
from test_translators import BOS, CASES, EOS, batch, build
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from regard.base import ConfigError
from regard.decode import Hypothesis, beam_search, greedy
from regard.decode.beam import Rules
from regard.decode.fixed_path import PathRules
from regard.decode.fixed_search import AtOnce, FixedSearch, fixed_beam_search, fixed_greedy
from regard.decode.protocol import mapped, tensors
from regard.models import ShowAttendTell, ShowAttendTellConfig

GROWING = {"lstmn_translator-0", "lstmn_translator-1", "lstmn_translator-2"}
HISTORY = {"transformer-4", "convs2s-2"}  # each word needs the weights of the word before
FIXED = [case for case in CASES if case not in GROWING | HISTORY]
LOOKS = [{}, {"align": "sample", "at_test": "argmax"}, {"mean_pooled": True, "gate": False}]
WAITING = {
    "_local_scalar_dense", "nonzero", "masked_select", "lift_fresh", "equal", "unique_dim", "_unique2", "bincount",
    "unique_consecutive", "repeat_interleave.Tensor", "pin_memory", "_pin_memory", "allclose", "is_nonzero",
}  # fmt: skip


class NothingWaits(TorchDispatchMode):
    """Fails at every operation for which a recorded step would have to wait."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.name().removeprefix("aten::")
        assert name not in WAITING, name
        assert name.partition(".")[0] not in WAITING, name
        if name.startswith("index") and isinstance(args[1], list | tuple):
            assert not any(index is not None and index.dtype == torch.bool for index in args[1]), name
        assert (kwargs or {}).get("pin_memory") in (None, False), name
        return function(*args, **kwargs or {})


class OnePlace(TorchDispatchMode):
    """Fails at every operation that reads or makes a tensor elsewhere than on the device `meta`."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **kwargs or {})
        for each in tree_leaves((args, kwargs, made)):
            if isinstance(each, torch.Tensor):
                assert each.device.type == "meta", f"{function} on {each.device}"
        return made


class Watched(AtOnce):
    """Ticks as they come, watched from the second one of each shape on, which is the one that would be recorded."""

    def __init__(self) -> None:
        self.seen: set[tuple[int, ...]] = set()
        self.watched = 0

    def run(self, key: tuple[int, ...], tick: Any) -> None:
        if key not in self.seen:
            self.seen.add(key)
            tick()
            return
        with NothingWaits():
            tick()
        self.watched += 1


def captioner(**look: Any) -> tuple[Any, Any]:
    sizes = {"feature_dim": 6, "embed_dim": 8, "hidden_dim": 10, "align_dim": 7}
    model = ShowAttendTell(ShowAttendTellConfig(11, **sizes, **look)).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model, model.init_state(model.encode(torch.rand(3, 9, 6)))


def translator(case: str) -> tuple[Any, Any]:
    model, (source, lengths, _) = build(case), batch()
    return model, model.init_state(model.encode(source, lengths))


@torch.no_grad()
def make(case: str) -> tuple[Any, Any]:
    return captioner(**LOOKS[int(case[-1])]) if case.startswith("captions") else translator(case)


EVERY = [*FIXED, *(f"captions-{number}" for number in range(len(LOOKS)))]
every_model = pytest.mark.parametrize(  # of many variants the first
    "case", [pytest.param(case, marks=[pytest.mark.slow] * (not case.endswith("-0"))) for case in EVERY]
)


def assert_same(found: list[Hypothesis], expected: list[Hypothesis], tolerance: float = 1e-9) -> None:
    assert [(one.tokens, one.finished) for one in found] == [(one.tokens, one.finished) for one in expected]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.score == pytest.approx(theirs.score, abs=tolerance)
        assert ours.log_prob == pytest.approx(theirs.log_prob, abs=tolerance)
        assert (ours.weights is None) == (theirs.weights is None)
        if ours.weights is not None:
            torch.testing.assert_close(ours.weights, theirs.weights, atol=max(tolerance, 1e-7), rtol=1e-4)


@every_model
def test_every_model_finds_the_same(case: str) -> None:
    model, state = make(case)
    last = torch.tensor([8, 3, 20])
    options: dict[str, Any] = {"batch": 3, "bos": BOS, "eos": EOS, "max_steps": last.clamp(max=15)}
    assert_same(fixed_greedy(model, state, sizes=[1, 2, 4], **options), greedy(model, state, **options))
    more: dict[str, Any] = {"beams": 3, "nbest": 2, "length_penalty": 0.6, "min_steps": 2, "forbidden": (0, BOS)}
    mask = torch.arange(6) < torch.tensor([[6], [3], [1]])
    if hasattr(state, "allowed"):
        more |= {"coverage_penalty": 0.2, "source_mask": mask}
    expected = beam_search(model, state, **options | more)
    for sizes in ([3], [1, 2, 4]):
        for ours, theirs in zip(fixed_beam_search(model, state, sizes=sizes, **options | more), expected, strict=True):
            assert_same(ours, theirs)


@every_model
def test_float32_and_sentences_alone(case: str) -> None:
    """Neither the batch nor its order changes more than rounding."""
    model, _ = make(case)
    model.float()
    source, lengths, _ = batch()
    inputs = (torch.rand(3, 9, 6),) if case.startswith("captions") else (source, lengths)
    options: dict[str, Any] = {"bos": BOS, "eos": EOS, "beams": 4, "max_steps": 9, "length_penalty": 1.0}
    with torch.no_grad():
        states = [model.init_state(model.encode(*(each[i : i + 1] for each in inputs))) for i in range(3)]
        together = model.init_state(model.encode(*inputs))
    found = fixed_beam_search(model, together, batch=3, sizes=[2, 3], **options)
    for i, expected in enumerate(beam_search(model, together, batch=3, **options)):
        assert_same(found[i], expected, 1e-5)
        alone = fixed_beam_search(model, states[i], batch=1, **options)[0]
        assert [one.tokens for one in alone] == [one.tokens for one in expected]
        assert alone[0].score == pytest.approx(expected[0].score, abs=1e-5)


@every_model
def test_no_step_waits_for_the_host(case: str) -> None:
    model, state = make(case)
    look = {"coverage_penalty": 0.2} if hasattr(state, "allowed") else {"coverage_penalty": 0.0}
    some = frozenset({0, BOS})
    beam = Rules(EOS, 3, 2, 3, 0.6, look["coverage_penalty"], 2, some)
    for rules in (PathRules(EOS, 3, some), PathRules(EOS, 3, some, 1.0, 5, 0.9), beam):
        runner = Watched()
        search = FixedSearch(model, rules, state, sizes=[1, 2, 3], steps=15, runner=runner)
        last = torch.tensor([15, 9, 4])
        with torch.no_grad():
            assert len(search(state, batch=3, bos=BOS, last=last, longest=15)) == 3
        assert runner.watched > 0


@every_model
@torch.no_grad()
def test_all_of_a_step_is_on_one_device(case: str) -> None:
    """With the device `meta` as a stand-in: a step that also used a tensor of the host could not be recorded."""
    model, state = make(case)
    model.to("meta")
    there = mapped(state, lambda tensor, shared: tensor.to("meta"), numbers=True)
    beam = Rules(EOS, 3, 2, 3, 0.6, 0.2 if hasattr(state, "allowed") else 0.0, 2, frozenset({0}))
    for rules in (PathRules(EOS, 3, frozenset({0})), PathRules(EOS, 3, frozenset({0}), 1.0, 5, 0.9), beam):
        search = FixedSearch(model, rules, there, sizes=[1, 2, 3], steps=15)
        search.places.fill(model.fixed_state(there, steps=15))
        search.board.start(torch.empty(3, dtype=torch.long, device="meta"), bos=BOS)
        search._tick(3, 15)()  # the first one may make what later ones use
        with OnePlace():
            search._tick(3, 15)()
            search.places.gather(search.board.rows.gather(3, 2))
            search._tick(2, 15)()


@every_model
@torch.no_grad()
def test_new_states_share_no_memory_with_the_places(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All are written at once: what is read from a place would be there or not, as it comes."""
    model, state = make(case)
    search, seen = FixedSearch(model, PathRules(EOS, 3, frozenset({0})), state, sizes=[3], steps=15), list[int]()
    keep = search.places.keep

    def watched(before: Any, after: Any, origin: Any) -> None:
        places = tensors(before)
        owners = {place.untyped_storage().data_ptr() for place in places}
        new = [x for x in tensors(after) if not any(x is place for place in places)]
        assert not any(x.untyped_storage().data_ptr() in owners for x in new)
        seen.append(len(new))
        keep(before, after, origin)

    monkeypatch.setattr(search.places, "keep", watched)
    search(state, batch=3, bos=BOS, last=torch.tensor([15, 9, 4]), longest=15)
    assert len(seen) >= 3


def test_what_is_elsewhere_is_found() -> None:
    with pytest.raises(AssertionError, match="on cpu"), OnePlace():
        torch.zeros(3, device="meta") + torch.tensor(1.0)


@pytest.mark.parametrize(
    "wait", [lambda x: x.sum().item(), lambda x: x[x > 1], lambda x: torch.tensor([1.0]), lambda x: x.nonzero()]
)
def test_what_waits_is_found(wait: Any) -> None:
    with pytest.raises(AssertionError), NothingWaits():
        wait(torch.arange(3.0))


@pytest.mark.parametrize("case", sorted(GROWING | HISTORY))
def test_models_whose_state_grows_say_so(case: str) -> None:
    model, state = make(case)
    assert model.fixed_state(state, steps=4) is None
    with pytest.raises(ConfigError, match="no state of fixed shapes"):
        fixed_greedy(model, state, batch=3, bos=BOS, eos=EOS, max_steps=4)


def test_learned_positions_end() -> None:
    model, state = make("transformer-1")
    assert model.fixed_state(state, steps=1024) is not None
    assert model.fixed_state(state, steps=1025) is None
