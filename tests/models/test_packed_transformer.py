"""Searches over packed weights beside the model itself, and beside the model without any cache."""

import math
from itertools import chain
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.decode import Hypothesis, beam, beam_search, greedy, pick, sample
from regard.models import Transformer, TransformerConfig
from regard.models.packed_transformer import PackedTransformer, Pool

BOS, EOS, WORDS = 1, 2, 23


def build(seed: int = 0, *, std: float = 0.35, **changes: Any) -> Transformer:
    torch.manual_seed(seed)
    sizes: dict[str, Any] = {"dim": 12, "hidden_dim": 20, "num_heads": 3, "encoder_layers": 1, "decoder_layers": 2}
    model = Transformer(TransformerConfig(WORDS, WORDS, **{**sizes, **changes})).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=std)
    return model.requires_grad_(False)


def sources(chance: torch.Generator, batch: int, longest: int = 9) -> tuple[Tensor, Tensor]:
    lengths = torch.randint(1, longest + 1, (batch,), generator=chance)
    source = torch.randint(3, WORDS, (batch, int(lengths.max())), generator=chance)
    return source.masked_fill(torch.arange(source.shape[1]) >= lengths.unsqueeze(1), 0), lengths


def packed(model: Transformer) -> PackedTransformer:
    made = model.packed()
    assert isinstance(made, PackedTransformer)
    return made


def search(model: Any, source: Tensor, lengths: Tensor, **options: Any) -> list[list[Hypothesis]]:
    state = model.init_state(model.encode(source, lengths))
    return beam_search(model, state, batch=len(source), bos=BOS, eos=EOS, **options)


def check_equal(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    assert [[one.tokens for one in each] for each in found] == [[one.tokens for one in each] for each in expected]
    for one, other in zip(chain(*found), chain(*expected), strict=True):
        assert one.finished == other.finished
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-10)
        assert one.score == pytest.approx(other.score, abs=1e-10)
        torch.testing.assert_close(one.weights, other.weights, atol=1e-10, rtol=0)


@pytest.mark.parametrize("seed", range(24))
def test_random_searches_find_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = torch.Generator().manual_seed(seed)

    def number(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (), generator=chance))

    model = build(
        seed, pre_norm=bool(seed % 2), position=("sinusoidal", "learned")[seed // 2 % 2], max_positions=64,
        tie=("all", "output", "none")[seed % 3],
    )  # fmt: skip
    if seed % 4 == 3:
        model.best_head = (f"decoder.{number(0, 1)}.cross", number(0, 2))
    if seed % 5:
        monkeypatch.setattr(beam, "MANY", 1)  # straight from logits, as with a large vocabulary
    batch, beams = number(1, 7), number(1, 8)
    source, lengths = sources(chance, batch)
    last = torch.randint(1, 14, (batch,), generator=chance)
    options: dict[str, Any] = {
        "beams": beams, "nbest": number(1, beams), "max_steps": last, "min_steps": number(0, 3),
        "length_penalty": (0.0, 0.6, 1.0)[seed % 3], "coverage_penalty": (0.0, 0.2)[seed % 2],
        "no_repeat": (0, 0, 2)[seed % 3], "forbidden": (0, BOS),
        "source_mask": torch.arange(source.shape[1]) < lengths.unsqueeze(1),
    }  # fmt: skip
    check_equal(search(packed(model), source, lengths, **options), search(model, source, lengths, **options))


@pytest.mark.parametrize("pre_norm", [False, True])
@torch.no_grad()
def test_hypotheses_are_those_of_a_model_without_a_cache(pre_norm: bool) -> None:
    model, chance = build(5, pre_norm=pre_norm), torch.Generator().manual_seed(5)
    source, lengths = sources(chance, 6)
    options: dict[str, Any] = {"beams": 4, "nbest": 4, "max_steps": 9}
    for number, found in enumerate(search(packed(model), source, lengths, **options)):
        for one in found:
            words = torch.tensor([[BOS, *one.tokens]])[:, : one.length]
            here = source[number : number + 1, : int(lengths[number])]
            forced = model(here, lengths[number : number + 1], words, need_weights=True)
            targets = torch.tensor([*one.tokens, EOS])[: one.length]
            gained = forced.logits[0].log_softmax(-1).gather(1, targets.unsqueeze(1)).sum().item()
            assert one.log_prob == pytest.approx(gained, abs=1e-10)
            assert one.weights is not None
            torch.testing.assert_close(one.weights[:, : here.shape[1]], forced.weights[0], atol=1e-10, rtol=0)
            assert one.weights[:, here.shape[1] :].eq(0).all()


def test_all_end_at_once_and_none_ends() -> None:
    chance = torch.Generator().manual_seed(1)
    source, lengths = sources(chance, 5)
    for bias, length in ((9.0, 1), (-9.0, 6)):  # EOS is certain, or never comes
        changed = build(1, tie="none")
        changed.to_logits.weight[EOS] = bias * torch.randn(12, generator=chance, dtype=torch.float64).abs() * 3
        options: dict[str, Any] = {"beams": 5, "nbest": 5, "max_steps": 6, "forbidden": () if length == 1 else (EOS,)}
        found = search(packed(changed), source, lengths, **options)
        check_equal(found, search(changed, source, lengths, **options))
        assert length == 1 or all(one.length == 6 and not one.finished for each in found for one in each)


def test_ties_have_the_same_scores() -> None:
    model, (source, lengths) = build(2, tie="none"), sources(torch.Generator().manual_seed(2), 4)
    model.to_logits.weight[3:13] = model.to_logits.weight[13:23]  # every word has a twin
    options: dict[str, Any] = {"beams": 6, "nbest": 6, "max_steps": 5}
    for found, expected in zip(
        search(packed(model), source, lengths, **options), search(model, source, lengths, **options), strict=True
    ):
        scores = [[one.score for one in each] for each in (found, expected)]
        assert scores[0] == pytest.approx(scores[1], abs=1e-10)
        assert len({tuple(one.tokens) for one in found}) == 6


def test_one_beam_and_samples() -> None:
    model, (source, lengths) = build(3), sources(torch.Generator().manual_seed(3), 7)
    other = packed(model)
    options: dict[str, Any] = {"batch": 7, "bos": BOS, "eos": EOS, "max_steps": torch.tensor([1, 9, 2, 9, 9, 3, 9])}
    states = [each.init_state(each.encode(source, lengths)) for each in (other, model)]
    check_equal([greedy(other, states[0], **options)], [greedy(model, states[1], **options)])
    states = [each.init_state(each.encode(source, lengths)) for each in (other, model)]
    drawn = [
        sample(each, state, generator=torch.Generator().manual_seed(4), **options)
        for each, state in zip((other, model), states, strict=True)
    ]
    check_equal([drawn[0]], [drawn[1]])


def test_a_source_without_words_is_looked_at_by_nobody() -> None:
    model, source = build(4), torch.tensor([[5, 6, 7], [0, 0, 0]])
    lengths = torch.tensor([3, 0])
    options: dict[str, Any] = {"beams": 3, "max_steps": 4}
    found = search(packed(model), source, lengths, **options)
    check_equal(found, search(model, source, lengths, **options))
    weights = found[1][0].weights
    assert weights is not None
    assert weights.eq(0).all()


def test_weights_are_those_of_now() -> None:
    model, (source, lengths) = build(6), sources(torch.Generator().manual_seed(6), 3)
    before = search(packed(model), source, lengths, max_steps=5)
    for parameter in model.parameters():
        parameter.data.mul_(1.5)
    after = search(packed(model), source, lengths, max_steps=5)
    check_equal(after, search(model, source, lengths, max_steps=5))
    assert after[0][0].log_prob != before[0][0].log_prob


@pytest.mark.parametrize("seed", range(4))
def test_a_pool_keeps_what_stays(seed: int) -> None:
    chance = torch.Generator().manual_seed(seed)
    source_keys, source_values = torch.rand(2, 7, 3, 4, 5), torch.rand(2, 7, 3, 5, 4)
    pool, names = Pool(source_keys.clone(), source_values.clone()), torch.arange(7)
    while len(names):
        pool.make_room(2)
        for places in pool.layers(2):
            places.new_keys.copy_(torch.rand(places.new_keys.shape, generator=chance))
            places.new_values.copy_(torch.rand(places.new_values.shape, generator=chance))
        pool.filled += 2
        keys, values = (part[:, : len(names)].clone() for part in (pool.keys, pool.values))
        count = int(torch.randint(0, len(names) + 1, (), generator=chance))
        stay = torch.randperm(len(names), generator=chance)[:count]  # any order
        if seed % 2:  # the order of a search: gaps are filled from behind
            going = torch.zeros(len(names), dtype=torch.bool).index_fill(0, stay, True)
            stay = beam._moved_up(going, count)
            assert sorted(stay.tolist()) == going.nonzero().flatten().tolist()
        names = names[stay]
        assert pick(pool, torch.tensor([99]), sentences=stay) is pool
        filled = slice(pool.filled)
        assert torch.equal(pool.keys[:, :count, ..., filled], keys[:, stay][..., filled])
        assert torch.equal(pool.values[:, :count, :, filled], values[:, stay][..., filled, :])
        assert torch.equal(pool.source_keys[:, :count], source_keys[:, names])
        assert torch.equal(pool.source_values[:, :count], source_values[:, names])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"position": "rotary"}, "position=rotary"),
        ({"position": "alibi"}, "position=alibi"),
        ({"align": "sparsemax"}, "align=Sparsemax"),
        ({"score": "additive"}, "score=Additive"),
    ],
)
def test_what_cannot_be_packed(changes: dict[str, Any], reason: str) -> None:
    said = build(**{"dim": 12, "num_heads": 2, **changes}).packed()
    assert isinstance(said, str)
    assert reason in said


def test_layers_that_somebody_replaced() -> None:
    class Doubled(torch.nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return 2 * super().forward(x)

    for name in ("inner.to_keys", "cross.to_output", "feed.widen"):
        model = build()
        path, _, last = name.rpartition(".")
        setattr(model.decoder[1].get_submodule(path), last, Doubled(12, 12).double())
        assert isinstance(model.packed(), str)
    model = build()
    model.decoder[0].cross.attention.align.temperature = 2.0
    assert isinstance(model.packed(), str)
    model = build()
    model.decoder[0].around_feed.norm = torch.nn.Identity()
    assert isinstance(model.packed(), str)

    class Other(Transformer):
        def step(self, tokens: Tensor, state: Any) -> Any:
            return super().step(tokens, state)

    assert isinstance(Other(build().config).packed(), str)


def test_in_float32_scores_differ_by_rounding_alone() -> None:
    model, (source, lengths) = build(8).float(), sources(torch.Generator().manual_seed(8), 5)
    found = search(packed(model), source, lengths, max_steps=8)
    expected = search(build(8), source, lengths, max_steps=8)
    for [one], [other] in zip(found, expected, strict=True):
        assert math.isfinite(one.log_prob)
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-5)
