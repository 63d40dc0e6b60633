"""Transformer-XL: the equations by hand, segments that equal the whole text, and what a memory must not do.

What every model of running text keeps to (padding, batches, later tokens) is in test_language_model.py.
"""

import math
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard import trace
from regard.align import ALIGNS
from regard.attention import Rotary, dispatch
from regard.attention.position import sinusoid
from regard.base import ConfigError
from regard.models import TransformerXL, TransformerXLConfig, transformer_xl_enwik8, transformer_xl_wikitext103
from regard.score import SCORES

SMALL: dict[str, Any] = {"dim": 12, "num_heads": 3, "hidden_dim": 10, "layers": 3, "dropout": 0.0}


def model(**settings: Any) -> TransformerXL:
    """A small model in float64 with large weights, so that the weights of attention differ from each other."""
    torch.manual_seed(0)
    built = TransformerXL(TransformerXLConfig(**{"vocabulary": 17, "memory": 6, **SMALL, **settings})).double()
    with torch.no_grad():
        for name, parameter in built.named_parameters():
            parameter.copy_(torch.randn_like(parameter) / 2 + ("norm.weight" in name))
    return built


def tokens(*shape: int, seed: int = 5) -> Tensor:
    return torch.randint(4, 17, shape, generator=torch.Generator().manual_seed(seed))


def in_segments(built: TransformerXL, text: Tensor, length: int, memory: int | None = None) -> Tensor:
    state, logits = built.initial_state(len(text), memory), []
    for segment in text.split(length, 1):
        each, state = built(segment, state)
        logits.append(each)
    return torch.cat(logits, 1)


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many distances each table has that is made from here on."""
    counts: list[int] = []

    def counted(places: Tensor, *settings: Any, **more: Any) -> Tensor:
        counts.append(len(places))
        return sinusoid(places, *settings, **more)

    monkeypatch.setattr("regard.attention.position.sinusoid", counted)
    return counts


# ── the equations ───────────────────────────────────────────────────────────────────────────────────────────────────


def by_hand(built: TransformerXL, text: list[int], memory: list[list[Tensor]]) -> tuple[Tensor, list[list[Tensor]]]:
    """Logits of one segment [t v] and the inputs of all layers, by four terms for each pair and head."""
    config = built.config
    width = config.dim // config.num_heads
    x = [built.words.weight[token] * math.sqrt(config.dim) for token in text]
    inputs = []
    for number, layer in enumerate(built.layers):
        inputs.append(list(x))
        cells = [*memory[number], *x]
        attention, position = layer.inner, layer.inner.position
        contexts = []
        for i, here in enumerate(x):
            heads = []
            for head in range(config.num_heads):
                rows = slice(head * width, (head + 1) * width)
                query = attention.to_query.weight[rows] @ here
                u, v = position.content[head, 0], position.place[head, 0]
                last = len(memory[number]) + i
                scores = []
                for j in range(last + 1):
                    key = attention.to_keys.weight[rows] @ cells[j]
                    distance = torch.tensor(float(last - j), dtype=torch.float64)
                    place = position.to_keys.weight[rows] @ sinusoid(distance, config.dim)
                    scores.append(query @ key + query @ place + u @ key + v @ place)
                weights = (torch.stack(scores) / math.sqrt(width)).softmax(0)
                values = torch.stack([attention.to_values.weight[rows] @ cell for cell in cells[: last + 1]])
                heads.append(weights @ values)
            contexts.append(attention.to_output.weight @ torch.cat(heads))
        first, second = layer.around_inner.norm, layer.around_feed.norm
        x = [first(here + context) for here, context in zip(x, contexts, strict=True)]
        x = [second(here + layer.feed.narrow(layer.feed.widen(here).clamp(min=0))) for here in x]
    return torch.stack(x) @ built.words.weight.T + built.output_bias, inputs


@pytest.mark.parametrize("shared_biases", [False, True])
def test_the_equations_and_their_gradients(shared_biases: bool) -> None:
    built, text = model(shared_biases=shared_biases), tokens(2, 7)
    _, state = built(text[:, :4])
    logits, _ = built(text[:, 4:], state)
    expected = []
    for row in text.tolist():
        _, before = by_hand(built, row[:4], [[]] * 3)
        detached = [[cell.detach() for cell in cells] for cells in before]
        expected.append(by_hand(built, row[4:], detached)[0])
    torch.testing.assert_close(logits, torch.stack(expected), rtol=0, atol=1e-10)
    target = torch.randn(logits.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    parameters = list(built.parameters())
    ours = torch.autograd.grad((logits * target).sum(), parameters)
    plain = torch.autograd.grad((torch.stack(expected) * target).sum(), parameters)
    for one, other in zip(ours, plain, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(
    ("config", "millions", "published"),
    [(transformer_xl_enwik8(204), 41.06, 41), (transformer_xl_wikitext103(267_735), 150.87, 151)],
)
def test_the_paper_s_numbers_of_parameters(config: TransformerXLConfig, millions: float, published: int) -> None:
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in TransformerXL(config).parameters()) / 1e6
    assert count == pytest.approx(millions, abs=0.005)
    assert round(count) == published


def test_u_and_v_are_one_for_all_layers_or_not() -> None:
    shared, apart = model(), model(shared_biases=False)
    names = [name for name, _ in shared.named_parameters() if name.endswith((".content", ".place"))]
    assert names == ["layers.0.inner.position.content", "layers.0.inner.position.place"]
    counts = [sum(parameter.numel() for parameter in each.parameters()) for each in (shared, apart)]
    assert counts[1] - counts[0] == 2 * 2 * 12  # u and v of two more layers


# ── segments and memory ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("position", ["relative", "rotary", "alibi"])
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize("length", [1, 3, 8])
def test_segments_equal_the_whole_text(position: str, dtype: torch.dtype, bound: float, length: int) -> None:
    torch.manual_seed(0)
    built = TransformerXL(TransformerXLConfig(17, memory=11, position=position, **SMALL)).to(dtype)
    text = tokens(3, 11)
    torch.testing.assert_close(in_segments(built, text, length), built(text).logits, rtol=0, atol=bound)


@pytest.mark.parametrize("memory", [1, 4])
@pytest.mark.parametrize("length", [1, 2, 5])
def test_with_same_length_segments_of_any_text_equal_it(memory: int, length: int) -> None:
    built, text = model(same_length=True, memory=memory), tokens(2, 23)
    torch.testing.assert_close(in_segments(built, text, length), built(text).logits, rtol=0, atol=1e-10)


def test_with_same_length_each_token_sees_as_many_cells() -> None:
    built = model(same_length=True, memory=4)
    _, state = built(tokens(1, 9))
    with trace(built) as seen:
        built(tokens(1, 5, seed=6), state)
    for record in seen.values():
        weights = torch.from_numpy(record.weights[0])
        assert weights.shape == (3, 5, 9)  # heads, tokens, memory and tokens
        places = torch.arange(9) - torch.arange(5).unsqueeze(1)
        assert torch.equal(weights > 0, ((places >= 0) & (places <= 4)).expand(3, -1, -1))  # the oldest cell too


def test_without_it_a_token_sees_all_that_is_remembered_and_no_later_token() -> None:
    built = model()
    _, state = built(tokens(1, 9))
    with trace(built) as seen:
        built(tokens(1, 5, seed=6), state)
    for record in seen.values():
        weights = torch.from_numpy(record.weights[0])
        assert torch.equal(weights > 0, torch.ones(5, 11).tril(6).bool().expand(3, -1, -1))
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))


def test_cells_that_were_never_written_are_not_seen() -> None:
    built, text = model(memory=9), tokens(2, 4)
    state = built.initial_state(2)
    poisoned = state._replace(cells=torch.full_like(state.cells, 1e6))
    torch.testing.assert_close(built(text, poisoned).logits, built(text, None).logits, rtol=0, atol=1e-10)
    after = built(text, poisoned).state
    assert after.written.tolist() == [[False] * 5 + [True] * 4] * 2


def test_a_memory_holds_the_input_of_each_layer() -> None:
    built, text = model(), tokens(1, 3)
    _, state = built(text)
    inputs = by_hand(built, text[0].tolist(), [[]] * 3)[1]
    expected = torch.stack([torch.stack(cells) for cells in inputs])
    torch.testing.assert_close(state.cells[0, :, 3:], expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(state.cells[0, 0, 3:], built.words(text[0]) * math.sqrt(12))


def test_only_the_latest_cells_are_kept() -> None:
    built, text = model(same_length=True), tokens(2, 15)
    _, after = built(text[:, 7:], built(text[:, :7]).state)
    _, longer = built(text, built.initial_state(2, memory=6))
    torch.testing.assert_close(after.cells, longer.cells, rtol=0, atol=1e-10)
    assert after.written.all()


def test_no_gradient_reaches_the_memory() -> None:
    built, text = model(), tokens(2, 8)
    _, state = built(text[:, :4])
    assert not state.cells.requires_grad
    leaf = state._replace(cells=state.cells.clone().requires_grad_())
    logits, _ = built(text[:, 4:], leaf)
    logits.square().sum().backward()
    assert leaf.cells.grad is None
    # the words of the segment before have a gradient only by their own, as inputs and as outputs
    built.zero_grad()
    first, second = text[:, :4], torch.full((2, 4), 4)
    first[first == 4] = 5
    _, state = built(first)
    built.embed_dropout(built.words(first))  # nothing of it is part of the loss
    hidden, _ = built.read(built.words(second), state)
    hidden.square().sum().backward()
    gradient = built.words.weight.grad
    assert gradient is not None
    assert gradient[4].abs().sum() > 0
    assert not gradient[[token for token in range(17) if token != 4]].any()


def test_the_memory_matters_and_its_absence_is_a_twin() -> None:
    built, text = model(), tokens(2, 8)
    _, state = built(text[:, :4])
    assert not torch.allclose(built(text[:, 4:], state).logits, built(text[:, 4:]).logits)
    alone = model(memory=0)
    alone.load_state_dict(built.state_dict())
    state = alone(text[:, :4]).state
    assert [tuple(leaf.shape) for leaf in state] == [(2, 3, 0, 12), (2, 0)]
    torch.testing.assert_close(alone(text[:, 4:], state).logits, built(text[:, 4:]).logits, rtol=0, atol=1e-10)


def test_an_evaluation_may_remember_more_than_the_training() -> None:
    built, text = model(memory=2), tokens(2, 20)
    whole = built(text).logits
    torch.testing.assert_close(in_segments(built, text, 5, memory=20), whole, rtol=0, atol=1e-10)
    assert not torch.allclose(in_segments(built, text, 5), whole)
    assert built.initial_state(3, memory=7).cells.shape == (3, 3, 7, 12)
    assert built.initial_state(3).cells.shape == (3, 3, 2, 12)


def copied(memory: int) -> float:
    """The share of right tokens in a segment that repeats the one before, after some training."""
    torch.manual_seed(0)
    settings = SMALL | {"dim": 32, "num_heads": 2, "hidden_dim": 32, "layers": 1}
    built = TransformerXL(TransformerXLConfig(14, memory=memory, **settings))
    optimiser = torch.optim.Adam(built.parameters(), lr=1e-2)
    for _ in range(120):
        segment = torch.randint(4, 14, (32, 6))
        logits = built(segment, built(segment, built.initial_state(32)).state).logits[:, :-1]
        optimiser.zero_grad()
        F.cross_entropy(logits.flatten(0, 1), segment[:, 1:].flatten()).backward()
        optimiser.step()
    segment = torch.randint(4, 14, (200, 6))
    guesses = built(segment, built(segment).state).logits[:, :-1].argmax(-1)
    return (guesses == segment[:, 1:]).double().mean().item()


@pytest.mark.bare  # the hook would take as long again
def test_what_only_the_segment_before_tells_needs_a_memory() -> None:
    assert copied(memory=6) > 0.98
    assert copied(memory=0) < 0.2  # chance has 0.1


def test_streams_that_begin_are_beside_those_that_go_on() -> None:
    built, text = model(), tokens(2, 8)
    _, state = built(text[:, :4])
    start = built.initial_state(2)
    begins = torch.tensor([True, False])
    mixed = type(state)(
        torch.where(begins[:, None, None, None], start.cells, state.cells),
        torch.where(begins[:, None], start.written, state.written),
    )
    logits = built(text[:, 4:], mixed).logits
    torch.testing.assert_close(logits[0], built(text[:1, 4:]).logits[0], rtol=0, atol=1e-10)
    torch.testing.assert_close(logits[1], built(text[:, 4:], state).logits[1], rtol=0, atol=1e-10)


# ── settings ────────────────────────────────────────────────────────────────────────────────────────────────────────

USABLE_ALIGNS = [name for name, kind in ALIGNS.items() if not {"previous", "step"} & set(kind.needs)]
USABLE_SCORES = [
    name
    for name, kind in SCORES.items()
    if name != "projected" and not kind.depends_on_place and not {"previous", "step"} & set(kind.needs)
]


@pytest.mark.parametrize(
    ("score", "align"), [*(("scaled_dot", align) for align in USABLE_ALIGNS), *((s, "softmax") for s in USABLE_SCORES)]
)
def test_any_score_and_any_alignment_that_fits(score: str, align: str) -> None:
    position = "relative" if score == "scaled_dot" else "alibi"
    built, text = model(score=score, align=align, position=position, num_heads=2, memory=9), tokens(2, 9)
    built(text).logits.square().sum().backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in built.parameters())
    built.eval()  # some alignments draw in training
    torch.testing.assert_close(in_segments(built, text, 4), built(text).logits, rtol=0, atol=1e-9)


@pytest.mark.parametrize("settings", [{"align": "monotonic"}, {"score": "location_aware"}, {"score": "location"}])
def test_what_does_not_fit(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="reads all tokens of a segment at once"):
        model(**settings)


def test_other_wrong_settings() -> None:
    with pytest.raises(ConfigError, match="Relative goes with ScaledDot: got Additive"):
        model(score="additive")
    with pytest.raises(ConfigError, match=r"rotary positions .*got model\.score=general"):
        model(score="general", position="rotary")
    with pytest.raises(ConfigError, match=r"model\.same_length without a memory"):
        model(same_length=True, memory=0)
    with pytest.raises(ConfigError, match=r"model\.position_dropout .*got model\.position=alibi"):
        model(position="alibi", position_dropout=0.1)
    with pytest.raises(ConfigError, match="unknown align"):
        model(align="softmaxx")
    with pytest.raises(ConfigError, match=r"model\.position"):
        model(position="sinusoidal")
    with pytest.raises(ConfigError, match=r"model\.cutoffs: got \[5, 30\] for 17 words"):
        model(cutoffs=(5, 30))


@pytest.mark.parametrize("settings", [{"pre_norm": True}, {"head_dim": 5}, {"tied": False}, {"num_heads": 1}])
def test_other_forms_keep_to_segments(settings: dict[str, Any]) -> None:
    built, text = model(memory=11, **settings), tokens(2, 11)
    torch.testing.assert_close(in_segments(built, text, 4), built(text).logits, rtol=0, atol=1e-10)
    built(text).logits.square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in built.parameters())


def test_clusters_of_words() -> None:
    built, text = model(cutoffs=(6, 11), div_value=2, memory=9), tokens(3, 9)
    logits = built(text).logits
    assert logits[:].shape == (3, 9, 17)
    torch.testing.assert_close(in_segments_of_clusters(built, text), logits[:], rtol=0, atol=1e-10)
    logits.losses(text).sum().backward()
    names = {name for name, parameter in built.named_parameters() if parameter.grad is None}
    assert names == set()


def in_segments_of_clusters(built: TransformerXL, text: Tensor) -> Tensor:
    first, state = built(text[:, :4])
    return torch.cat([first[:], built(text[:, 4:], state).logits[:]], 1)


@pytest.mark.parametrize("locked", [False, True])
def test_locked_dropout_is_the_same_at_all_tokens_of_a_segment(locked: bool) -> None:
    built = model(dropout=0.5, locked=locked)
    layers = [each for each in built.modules() if isinstance(each, nn.Dropout)]
    assert len(layers) == 3 + 3 * 3  # below, above, distances; in each layer two around and one inside of feed-forward
    assert built.position_dropout in layers
    for layer in set(layers) - {built.position_dropout}:
        kept = layer(torch.ones(2, 50, 12)) > 0
        same = (kept == kept[:, :1]).all()
        assert bool(same) == locked
        assert not torch.equal(kept[0], kept[1])
    text = tokens(2, 6)
    assert not torch.equal(built(text).logits, built(text).logits)
    built.eval()
    assert torch.equal(built(text).logits, built(text).logits)


def test_position_dropout_takes_numbers_out_of_all_distances() -> None:
    built = model(position_dropout=0.5)
    tables = [built._distances(torch.zeros(1, 5, 12).double(), 6) for _ in range(2)]
    full = built.eval()._distances(torch.zeros(1, 5, 12).double(), 6)
    assert full is not None
    for table in tables:
        assert table is not None
        gone = (table == 0).all(0)
        assert 0 < int(gone.sum()) < 12
        torch.testing.assert_close(table[:, ~gone], 2 * full[:, ~gone])
    assert not torch.equal(*tables)


def test_the_top_layer_may_have_a_dropout_of_its_own() -> None:
    built = model(dropout=0.1, output_dropout=0.6)
    assert (built.dropout.p, built.embed_dropout.p, built.layers[0].feed.dropout.p) == (0.6, 0.1, 0.1)


def test_weights_begin_small() -> None:
    """As in the published program. By Xavier's rule 16 layers stay where the frequencies of words are known."""
    torch.manual_seed(0)
    built = TransformerXL(TransformerXLConfig(200, dim=64, num_heads=4, hidden_dim=96, layers=2, memory=4))
    for name, parameter in built.named_parameters():
        if parameter.ndim > 1:
            assert parameter.std().item() == pytest.approx(0.02, rel=0.15), name
        else:
            assert (parameter == float("norm.weight" in name)).all(), name
    assert not built.words.weight[0].any()  # padding


def test_dropout_of_words_and_of_weights_is_for_training() -> None:
    shares = ("word_dropout", "attention_dropout", "embed_dropout", "output_dropout", "position_dropout")
    for settings in ({share: 0.5} for share in shares):
        built, text = model(**settings), tokens(2, 6)
        assert not torch.equal(built(text).logits, built(text).logits)
        built.eval()
        assert torch.equal(built(text).logits, built(text).logits)


# ── computation ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_training_takes_the_fused_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    built, ways = model(), []
    choose = dispatch.choose
    monkeypatch.setattr("regard.attention.attention.choose", lambda *a, **k: ways.append(choose(*a, **k)) or ways[-1])
    _, state = built(tokens(2, 4))
    built(tokens(2, 4), state).logits.sum().backward()
    assert ways == ["sdpa"] * 6


def test_the_fused_kernel_and_the_reference_agree() -> None:
    built, text = model(), tokens(2, 9)
    _, state = built(text[:, :4])
    results = []
    for impl in ("sdpa", "reference"):
        for layer in built.layers:
            layer.inner.attention.impl = impl
        logits = built(text[:, 4:], state).logits
        gradients = torch.autograd.grad(logits.square().sum(), list(built.parameters()))
        results.append([logits, *gradients])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("same_length", [False, True])
def test_all_layers_of_a_pass_share_one_table_of_distances(
    monkeypatch: pytest.MonkeyPatch, tables: list[int], same_length: bool
) -> None:
    built, text, results = model(same_length=same_length), tokens(2, 9), []
    for shares in (True, False):
        if not shares:
            monkeypatch.setattr(TransformerXL, "_distances", lambda *_: None)
        first, state = built(text[:, :4])
        logits = torch.cat([first, built(text[:, 4:], state).logits], 1)
        results.append([logits, *torch.autograd.grad(logits.square().sum(), list(built.parameters()))])
    assert tables == [4, 11, *[4] * 3, *[11] * 3]  # a segment alone, and one behind six cells
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))


@pytest.mark.parametrize("autocast", [False, True])
def test_the_table_has_the_type_of_queries(tables: list[int], autocast: bool) -> None:
    built = TransformerXL(TransformerXLConfig(17, memory=6, **SMALL))
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        built(tokens(2, 5), built.initial_state(2))
    built.bfloat16()(tokens(2, 5))
    assert tables == [11, 5]


def test_layers_of_other_positions_share_no_table(tables: list[int]) -> None:
    assert model(position="rotary")._distances(torch.zeros(1, 4, 12), 0) is None
    built = model()
    built.layers[1].inner.position = Rotary()
    built(tokens(2, 4))
    assert tables == [4, 4]
    assert built(tokens(2, 0)).logits.shape == (2, 0, 17)


def test_a_checkpoint_of_each_layer_has_the_table() -> None:
    built, text = model(dropout=0.3, locked=True), tokens(2, 9)
    _, state = built(text[:, :4])
    results = []
    for reentrant in (None, False, True):
        for layer in built.layers if reentrant is not None else ():
            forward = type(layer).forward.__get__(layer)
            layer.forward = partial(checkpoint, forward, use_reentrant=reentrant)
        torch.manual_seed(1)
        loss = built(text[:, 4:], state).logits.square().sum()
        results.append(torch.autograd.grad(loss, list(built.parameters())) if not reentrant else _backward(built, loss))
    for other in results[1:]:
        for one, again in zip(results[0], other, strict=True):
            torch.testing.assert_close(one, again, rtol=1e-10, atol=1e-10)


def _backward(built: TransformerXL, loss: Tensor) -> list[Tensor | None]:
    """A reentrant checkpoint has gradients by `backward` alone."""
    loss.backward()
    return [parameter.grad for parameter in built.parameters()]


def test_half_precision_with_a_narrow_bias() -> None:
    torch.manual_seed(0)
    exact = TransformerXL(TransformerXLConfig(17, memory=6, **SMALL))
    narrow = TransformerXL(TransformerXLConfig(17, memory=6, wide=False, **SMALL)).to(torch.bfloat16)
    narrow.load_state_dict(exact.state_dict())
    text = tokens(2, 9)
    _, state = narrow(text[:, :4])
    assert state.cells.dtype == torch.bfloat16
    logits = narrow(text[:, 4:], state).logits
    expected = exact(text[:, 4:], exact(text[:, :4]).state).logits
    assert F.cosine_similarity(logits.float().flatten(), expected.flatten(), dim=0) > 0.999


def test_a_trace_has_heads_and_the_memory_first() -> None:
    built, text = model(), tokens(1, 4)
    _, state = built(text)
    with trace(built, layers=built.self_attention_layers) as seen:
        built(text, state)
    assert list(seen) == [f"layers.{number}.inner" for number in range(3)]
    assert seen[0].weights.shape == (1, 3, 4, 10)
    assert (seen[0].weights[..., :2] == 0).all()  # the memory has six places, and four cells were written
