"""A search over fixed shapes whose steps run through kernels equals the plain search. `child.py` runs this file."""

import random

import pytest
import torch
from cases import DEVICE

from regard.decode import beam_search, greedy
from regard.decode.fixed_search import fixed_beam_search, fixed_greedy
from regard.kernels import back_track, few_queries, next_words
from regard.kernels.back_track import way_back
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
    for module, name in ((few_queries, "_few"), (next_words, "_best"), (next_words, "_groups"),
                         (back_track, "_back")):  # fmt: skip
        kernel = getattr(module, name)

        class Seen:
            def __init__(self, kernel: object, name: str) -> None:
                self.kernel, self.name = kernel, name

            def __getitem__(self, grid: object) -> object:
                launched.add(self.name)
                return self.kernel[grid]  # type: ignore[index]

        monkeypatch.setattr(module, name, Seen(kernel, name))
    torch.manual_seed(1)
    sizes = {"dim": 32, "hidden_dim": 32, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 2}
    model = Transformer(TransformerConfig(50, 1400, position=position, tie="output", **sizes)).to(DEVICE).eval()
    source = torch.randint(4, 50, (3, 6), device=DEVICE)
    options = {"batch": 3, "bos": 1, "eos": 2, "max_steps": torch.tensor([6, 4, 5]), "forbidden": (0, 1)}
    with torch.no_grad():
        memory = model.encode(source, torch.tensor([6, 3, 5], device=DEVICE))
        plain = beam_search(model, model.init_state(memory), beams=3, min_steps=3, **options)
        fixed = fixed_beam_search(model, model.init_state(memory), beams=3, min_steps=3, **options)
        paths = greedy(model, model.init_state(memory), min_steps=2, **options)
        again = fixed_greedy(model, model.init_state(memory), min_steps=2, **options)
    assert launched == {"_few", "_best", "_groups", "_back"}
    for ours, right in zip([one for [one] in fixed] + again, [one for [one] in plain] + paths, strict=True):
        assert ours.tokens == right.tokens
        assert ours.score == pytest.approx(right.score, abs=1e-4)
        assert ours.weights is not None
        assert right.weights is not None
        torch.testing.assert_close(ours.weights, right.weights.to(ours.weights.device), rtol=1e-4, atol=1e-5)
