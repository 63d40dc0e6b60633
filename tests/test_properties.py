"""What holds for attention of any size and any numbers: hypothesis draws the sizes, the seed and the parts."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard import Attention, Mask
from regard.align import Entmax, Softmax, Sparsemax, TopK
from regard.score import Additive, Cosine, Distance, Dot, ScaledDot

WIDTH = 4
sizes = st.integers(1, 7)
scores = st.sampled_from(
    [Dot, ScaledDot, lambda: Cosine(5.0), lambda: Additive(WIDTH, WIDTH, 3), lambda: Distance(log=True)]
)
simplex = st.sampled_from([Softmax, lambda: Softmax(0.3), Sparsemax, Entmax, lambda: Entmax(1.2), lambda: TopK(2)])


cases = st.tuples(st.integers(0, 2**31), sizes, sizes, sizes, scores, simplex, st.sampled_from([0.1, 1.0, 10.0]))


def build(case: tuple) -> tuple[Attention, Tensor, Tensor, Tensor]:
    """An attention whose rows sum to one, and float64 inputs [b q d], [b k d], [b k 3]."""
    seed, batch, queries, num_keys, score, align, scale = case
    torch.manual_seed(seed)
    layer = Attention(score(), align()).double()
    query, keys = (scale * torch.randn(batch, n, WIDTH, dtype=torch.float64) for n in (queries, num_keys))
    return layer, query, keys, torch.randn(batch, num_keys, 3, dtype=torch.float64)


many = settings(deadline=None, max_examples=40)


@many
@given(cases, st.floats(-100, 100))
def test_a_constant_added_to_all_scores_changes_nothing(case: tuple, constant: float) -> None:
    layer, query, keys, values = build(case)
    moved = layer(query, keys, values, bias=torch.full((1, 1), constant, dtype=torch.float64))
    torch.testing.assert_close(moved.weights, layer(query, keys, values).weights, atol=1e-9, rtol=0)


@many
@given(cases)
def test_weights_lie_in_the_simplex_and_the_context_among_the_values(case: tuple) -> None:
    layer, query, keys, values = build(case)
    out = layer(query, keys, values)
    assert (out.weights >= 0).all()
    torch.testing.assert_close(out.weights.sum(-1), torch.ones_like(out.weights[..., 0]))
    low, high = values.amin(-2, keepdim=True), values.amax(-2, keepdim=True)
    assert ((out.context >= low - 1e-9) & (out.context <= high + 1e-9)).all()


@many
@given(cases, st.randoms(use_true_random=False))
def test_the_order_of_keys_does_not_matter(case: tuple, random: object) -> None:
    layer, query, keys, values = build(case)
    order = list(range(keys.shape[1]))
    random.shuffle(order)
    plain, mixed = layer(query, keys, values), layer(query, keys[:, order], values[:, order])
    torch.testing.assert_close(mixed.weights, plain.weights[..., order], atol=1e-9, rtol=0)
    torch.testing.assert_close(mixed.context, plain.context, atol=1e-9, rtol=0)


@many
@given(cases, sizes, st.booleans())
def test_padding_changes_nothing(case: tuple, extra: int, need_weights: bool) -> None:
    layer, query, keys, values = build(case)
    junk = 50 * torch.randn(len(keys), extra, WIDTH, dtype=torch.float64)
    mask = Mask.padding([keys.shape[1]] * len(keys))
    longer = torch.cat([keys, junk], 1), torch.cat([values, junk[..., :3]], 1)
    padded = layer(query, *longer, mask=mask, need_weights=need_weights)
    torch.testing.assert_close(padded.context, layer(query, keys, values).context, atol=1e-9, rtol=0)


@many
@given(cases, st.data())
def test_a_sentence_does_not_see_its_batch(case: tuple, data: st.DataObject) -> None:
    layer, query, keys, values = build(case)
    lengths = data.draw(st.lists(st.integers(0, keys.shape[1]), min_size=len(keys), max_size=len(keys)))
    together = layer(query, keys, values, mask=Mask.padding(lengths)).context
    for i, length in enumerate(lengths):
        alone = layer(query[i], keys[i, :length], values[i, :length]).context
        torch.testing.assert_close(together[i], alone, atol=1e-9, rtol=0)
