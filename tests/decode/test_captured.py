"""Recorded ticks: on a GPU the same results as without recording; elsewhere the order of things, with stand-ins."""

from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from regard.decode import beam_search, greedy
from regard.decode.beam import Rules
from regard.decode.captured import Captured
from regard.decode.fixed_path import PathRules
from regard.decode.fixed_search import FixedSearch
from regard.kernels.serving import pays
from regard.models import Transformer, TransformerConfig

BOS, EOS = 1, 2


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What would be asked of CUDA, in order."""
    log: list[str] = []

    class Graph:
        def replay(self) -> None:
            log.append("replay")

    class Stream:
        def __init__(self, device: object = None) -> None: ...

        def wait_stream(self, other: object) -> None: ...

    @contextmanager
    def record(graph: Graph, pool: object, stream: object) -> Any:
        log.append("record")
        yield

    event = SimpleNamespace(record=lambda: log.append("event"), synchronize=lambda: log.append("wait"))
    stand_ins = {
        "CUDAGraph": Graph, "Stream": Stream, "graph": record, "current_stream": Stream, "graph_pool_handle": object,
        "stream": lambda stream: nullcontext(), "synchronize": lambda device: None, "Event": lambda: event,
    }  # fmt: skip
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    zeros = torch.zeros
    monkeypatch.setattr(torch, "zeros", lambda *shape, pin_memory=False, **options: zeros(*shape, **options))
    return log


def test_the_first_tick_of_a_shape_is_a_step_and_then_recorded(said: list[str]) -> None:
    runner = Captured(torch.device("cuda"))
    for key in [(4, 16), (4, 16), (2, 16), (4, 16)]:
        runner.run(key, lambda: said.append("tick"))
    assert said == ["tick", "record", "tick", "replay", "tick", "record", "tick", "replay"]
    assert runner.seconds > 0


def test_kernels_pay_where_launches_are_recorded(said: list[str]) -> None:
    inside: list[bool] = []
    Captured(torch.device("cuda")).run((4, 16), lambda: inside.append(pays("cuda", 1)))
    assert inside == [True, True]
    assert not pays("cuda", 1)


def test_what_cannot_be_recorded_runs_as_it_is(said: list[str]) -> None:
    def tick() -> None:
        said.append("tick")
        if said[-2:-1] == ["record"]:
            raise RuntimeError("operation not permitted when stream is capturing\nand more")

    runner = Captured(torch.device("cuda"))
    with pytest.warns(UserWarning, match="cannot be recorded, and runs launch by launch: operation not permitted"):
        runner.run((4, 16), tick)
    runner.run((4, 16), tick)
    assert said == ["tick", "record", "tick", "tick"]


def test_an_answer_waits_when_it_is_read(said: list[str]) -> None:
    runner = Captured(torch.device("cuda"))
    answers = [runner.ask(torch.tensor(number)) for number in (5, 3)]
    assert said == ["event", "event"]
    assert [answer() for answer in answers] == [5, 3]
    assert said[2:] == ["wait", "wait"]
    assert runner.ask(torch.tensor(7))() == 7  # a place is used again


@pytest.mark.gpu
@pytest.mark.parametrize("beams", [1, 3])
@torch.no_grad()
def test_recorded_steps_equal_the_plain_search(beams: int) -> None:
    sizes = {"dim": 32, "hidden_dim": 64, "num_heads": 4, "encoder_layers": 2, "decoder_layers": 2}
    model = Transformer(TransformerConfig(50, 50, **sizes)).cuda().eval()
    source, lengths = torch.randint(4, 50, (20, 9), device="cuda"), torch.randint(2, 10, (20,), device="cuda")
    state, last = model.init_state(model.encode(source, lengths)), torch.arange(20, device="cuda") + 5
    options: dict[str, Any] = {"batch": 20, "bos": BOS, "eos": EOS, "max_steps": last}
    rules = PathRules(EOS) if beams == 1 else Rules(EOS, beams, 1, 0, 1.0, 0.0, 0, frozenset())
    search = FixedSearch(model, rules, state, sizes=[4, 16, 20], steps=32, runner=Captured(torch.device("cuda")))
    plain = (
        greedy(model, state, **options)
        if beams == 1
        else [best for [best] in beam_search(model, state, beams=beams, length_penalty=1.0, **options)]
    )
    for _ in range(3):  # recorded, then replayed
        found = search(state, batch=20, bos=BOS, last=last, longest=24)
        for [ours], theirs in zip(found, plain, strict=True):
            assert ours.tokens == theirs.tokens
            assert ours.score == pytest.approx(theirs.score, abs=1e-5)
            torch.testing.assert_close(ours.weights, theirs.weights.cpu(), atol=1e-5, rtol=1e-4)
