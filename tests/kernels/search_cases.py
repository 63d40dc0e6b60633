"""A search over fixed shapes whose steps run through kernels equals the plain search. `child.py` runs this file."""

import random
from itertools import chain

import pytest
import torch
from cases import DEVICE
from torch.testing import assert_close

from regard.decode import beam_search, fixed_beam, greedy
from regard.decode.beam import Rules
from regard.decode.fixed_beam import BeamBoard
from regard.decode.fixed_search import fixed_beam_search, fixed_greedy
from regard.kernels import back_track, beam_step, few_queries, next_words, path_step
from regard.kernels.back_track import way_back
from regard.kernels.beam_step import reorder
from regard.models import Transformer, TransformerConfig


@pytest.mark.parametrize("seed", range(4))
def test_the_way_back_is_that_of_a_loop(seed: int) -> None:
    chance = random.Random(seed)
    torch.manual_seed(seed)
    ran, sentences, beams, batch, count = (chance.randint(1, 6) for _ in range(5))
    sentences = max(sentences, batch)
    words, slots = (torch.randint(0, top, (ran + 2, sentences, beams), device=DEVICE) for top in (99, beams))
    slot = torch.randint(0, beams, (batch, count), device=DEVICE)
    token, step = (torch.randint(1, top, (batch, count), device=DEVICE) for top in (99, ran + 1))
    found, before = way_back(words, slots, slot, token, step, ran=ran)
    for b in range(batch):
        for h in range(count):
            here, line = int(slot[b, h]), [int(token[b, h])]
            looked = [here]
            for time in range(int(step[b, h]) - 1, 0, -1):
                line.append(int(words[time, b, here]))
                here = int(slots[time, b, here])
                looked.append(here)
            last = int(step[b, h])
            assert found[b, h, :last].tolist() == line[::-1]
            assert before[b, h, :last].tolist() == looked[::-1]


@pytest.mark.parametrize("position", ["sinusoidal", pytest.param("rotary", marks=pytest.mark.slow)])
def test_search_of_a_transformer(position: str, monkeypatch: pytest.MonkeyPatch) -> None:
    launched: set[str] = set()
    for module, name in ((few_queries, "_few"), (path_step, "_path"), (next_words, "_groups"),
                         (back_track, "_back"), (beam_step, "_choose"), (beam_step, "_reorder")):  # fmt: skip
        kernel = getattr(module, name)

        class Seen:
            def __init__(self, kernel: object, name: str) -> None:
                self.kernel, self.name = kernel, name

            def __getitem__(self, grid: object) -> object:
                launched.add(self.name)
                return self.kernel[grid]  # type: ignore[index]

        monkeypatch.setattr(module, name, Seen(kernel, name))
    torch.manual_seed(1)
    sizes = {"dim": 32, "hidden_dim": 32, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    model = Transformer(TransformerConfig(50, 1400, position=position, tie="output", **sizes)).to(DEVICE).eval()
    source = torch.randint(4, 50, (2, 6), device=DEVICE)
    options = {"batch": 2, "bos": 1, "eos": 2, "max_steps": torch.tensor([4, 3]), "forbidden": (0, 1)}
    with torch.no_grad():
        memory = model.encode(source, torch.tensor([6, 3], device=DEVICE))
        plain = beam_search(model, model.init_state(memory), beams=3, min_steps=3, **options)
        fixed = fixed_beam_search(model, model.init_state(memory), beams=3, min_steps=3, **options)
        paths = greedy(model, model.init_state(memory), min_steps=2, **options)
        again = fixed_greedy(model, model.init_state(memory), min_steps=2, **options)
    assert launched == {"_few", "_path", "_groups", "_back", "_choose", "_reorder"}
    for ours, right in zip([one for [one] in fixed] + again, [one for [one] in plain] + paths, strict=True):
        assert ours.tokens == right.tokens
        assert ours.score == pytest.approx(right.score, abs=1e-4)
        assert ours.weights is not None
        assert right.weights is not None
        torch.testing.assert_close(ours.weights, right.weights.to(ours.weights.device), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_rows_are_moved_in_place(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    room = torch.randn(12, 2, 9, 24, device=DEVICE).to(dtype)  # of which four sentences, three beams, seven items
    data, before = room[:, :, :7], room.clone()
    origin = (torch.randint(0, 3, (4, 3)) + 3 * torch.arange(4).unsqueeze(1)).flatten().to(DEVICE)
    reorder(data, origin, 3, torch.tensor(5, device=DEVICE))
    before[:, :, :5] = before[origin][:, :, :5]
    assert torch.equal(room, before)


@pytest.mark.parametrize("seed", range(8))
def test_a_step_in_one_kernel_is_that_of_plain_operations(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some steps of random logits: few words that are possible, ends early and late, sentences that are done."""
    chance = random.Random(seed)
    torch.manual_seed(seed)
    beams, size, steps = chance.choice([1, 2, 3, 5]), 4200, 4
    sentences = chance.choice([1, 3])
    rules = Rules(2, beams, 1, chance.choice([0, 2]), chance.choice([0.0, 1.0]), 0.0, 0, frozenset({0}))
    device = torch.device(DEVICE)
    boards = [BeamBoard(rules, sentences=4, steps=steps, dtype=torch.float32, device=device) for _ in range(2)]
    last = torch.tensor([chance.randint(1, steps) for _ in range(sentences)], device=device)
    for board in boards:
        board.start(last, bos=1)
    for _ in range(steps):
        logits = torch.randn(sentences * beams, size, device=device)
        logits[:, 2] += chance.choice([0.0, 4.0, 8.0])
        if chance.random() < 0.4:  # some rows have few words, or none
            logits[torch.rand(len(logits), device=device) < 0.6, chance.choice([0, 4]) :] = -torch.inf
        origins = []
        for board, by_kernel in zip(boards, (True, False), strict=True):
            with monkeypatch.context() as patch:
                if not by_kernel:
                    patch.setattr(fixed_beam, "can_read_logits", lambda logits: False)
                origins.append(board.advance(logits, None, sentences))
        ours, right = boards
        for name, buffer in ours.rows.now.items():
            other, going = right.rows.now[name][:sentences], ~right.rows.now["done"][:sentences]
            here = buffer[:sentences]
            if name in ("tokens", "log_prob"):
                here, other = here[going], other[going]
            possible = right.rows.now["end_group"][:sentences, 0] < 2
            if name.startswith("end_") and name != "end_group":
                here, other = here[possible], other[possible]
            if name == "tokens":
                continue  # those of impossible prefixes may differ
            assert_close(here, other, rtol=1e-5, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}")
    found, expected = (board.results(sentences, steps) for board in boards)
    assert [len(each) for each in found] == [len(each) for each in expected]  # none, where nothing was possible
    for one, other in zip(chain(*found), chain(*expected), strict=True):
        assert (one.tokens, one.finished) == (other.tokens, other.finished)
        assert one.score == pytest.approx(other.score, abs=1e-4)
