"""Every score × every alignment × every kind of mask × every dtype: the promise of the library, in one table."""

import itertools

import pytest
import torch
from examples_of import ALIGN_EXAMPLES, aligns, scores
from table import cases
from torch import Tensor, nn

from regard import Attention, Mask, attend
from regard.align import ALIGNS, Entmax, Hard
from regard.score import SCORES, Cosine, Distance, Location

pytestmark = pytest.mark.bare  # so many calls: the shape hook has its turn in the tests of each part

B, H, Q, K, D, V = 2, 2, 4, 5, 6, 3

SCORE_MAKERS = scores(
    D,
    cosine_learned=lambda: Cosine(4.0, learned=True),
    location_short=lambda: Location(D, K - 2),
    distance_log=lambda: Distance("inverse", log=True),
)
ALIGN_MAKERS = aligns(
    D,
    entmax_near_softmax=lambda: Entmax(1.3),
    entmax_learned=lambda: Entmax(1.4, learned=True),
    hard_straight_through=lambda: Hard("straight_through"),
    hard_gumbel=lambda: Hard("gumbel", temperature=0.5),
    hard_gumbel_straight_through=lambda: Hard("gumbel_straight_through"),
    hard_sample=lambda: Hard("sample"),
)
SMOOTH = [name for name, example in ALIGN_EXAMPLES.items() if example.is_smooth]
SMOOTH += ["entmax_near_softmax", "entmax_learned"]
SUMS_TO_ONE = {name for name, example in ALIGN_EXAMPLES.items() if example.sums_to_one}
SUMS_TO_ONE |= {name for name in ALIGN_MAKERS if name not in ALIGN_EXAMPLES}  # every variant above
IN_ANY_ORDER = [name for name, make in SCORE_MAKERS.items() if not (make().depends_on_place or make().needs)]
PLACED = {name for name, example in ALIGN_EXAMPLES.items() if not example.over_edges}  # the place of a key counts
ALIGNED_IN_ANY_ORDER = [name for name in ALIGN_MAKERS if name not in PLACED]
MASKS: dict[str, Mask | None] = {
    "none": None,
    "padding": Mask.padding([3, 5]),
    "causal": Mask.causal(),
    "empty": Mask.padding([0, 5]) & ~Mask.of(torch.arange(Q).eq(2).unsqueeze(-1)),
}
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def inputs(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    query, keys, values = torch.randn(B, Q, D), torch.randn(B, K, D), torch.randn(B, K, V)
    return tuple(x.to(dtype).requires_grad_() for x in (query, keys, values))  # type: ignore[return-value]


def test_the_table_is_whole() -> None:
    kinds = {type(make()) for make in SCORE_MAKERS.values()}, {type(make()) for make in ALIGN_MAKERS.values()}
    assert kinds == (set(SCORES.values()), set(ALIGNS.values()))


@cases("mask", MASKS)
@cases("align", ALIGN_MAKERS)
@pytest.mark.parametrize(
    "dtypes",
    [(torch.float32, torch.bfloat16), pytest.param((torch.float64, torch.float16), marks=pytest.mark.slow)],
    ids=str,
)
@pytest.mark.parametrize("score", SCORE_MAKERS)
def test_weights_are_right(score: str, align: str, mask: str, dtypes: tuple[torch.dtype, ...]) -> None:
    for dtype in dtypes:
        check_weights(score, align, mask, dtype)


def check_weights(score: str, align: str, mask: str, dtype: torch.dtype) -> None:
    layer = Attention(SCORE_MAKERS[score](), ALIGN_MAKERS[align]()).to(dtype)
    query, keys, values = inputs(dtype)
    out = layer(query, keys, values, mask=MASKS[mask])
    rule = MASKS[mask]
    allowed = torch.ones(B, Q, K, dtype=torch.bool) if rule is None else rule.dense(Q, K).expand(B, Q, K)
    reachable = allowed.clone()
    if score == "location_short":
        reachable[..., K - 2 :] = False

    assert out.weights.shape == (B, Q, K)
    assert out.weights.dtype == out.context.dtype == dtype
    assert torch.isfinite(out.weights).all()
    assert (out.weights >= 0).all() or align in ("share", "identity")
    assert (out.weights[~reachable] == 0).all()
    if align in SUMS_TO_ONE:
        tolerance = {torch.bfloat16: 0.02, torch.float16: 0.003}.get(dtype, 1e-6)
        expected = reachable.any(-1).to(torch.float64)
        torch.testing.assert_close(out.weights.double().sum(-1), expected, atol=tolerance, rtol=0)
    empty = ~allowed.any(-1)
    assert (out.context[empty] == 0).all()

    total = (out.context.float() ** 2).sum() + out.weights.float().square().sum()
    if out.log_prob is not None:
        assert (out.log_prob[empty] == 0).all()
        assert (out.entropy[empty] == 0).all()
        total = total + out.log_prob.sum() + out.entropy.sum()
    total.backward()
    for tensor in (query, keys, values, *layer.parameters()):
        assert tensor.grad is None or torch.isfinite(tensor.grad).all()
    query_gradient = query.grad if query.grad is not None else torch.zeros_like(query)
    if "previous" not in layer.score.needs and align != "monotonic":  # there a row also acts on later rows
        assert (query_gradient[empty] == 0).all()
    if mask == "empty":
        for tensor in (keys, values):  # the first sentence is empty altogether
            assert tensor.grad is None or (tensor.grad[0] == 0).all()


@cases("mask", MASKS)
@cases("align", SMOOTH)
@pytest.mark.parametrize("score", SCORE_MAKERS)
def test_gradients_are_exact(score: str, align: str, mask: str) -> None:
    layer = Attention(SCORE_MAKERS[score](), ALIGN_MAKERS[align]()).double()
    if score == "distance_inverse" and align == "sparsemax":
        torch.manual_seed(3)  # away from the kinks, where there is no derivative
    given = inputs(torch.float64)
    variables = [*given, *layer.parameters()]
    ways = [torch.randn_like(variable) for variable in variables]
    weights = [torch.randn(shape, dtype=torch.float64) for shape in ((B, Q, V), (B, Q, K))]

    def function() -> Tensor:
        out = layer(*given, mask=MASKS[mask])
        return (out.context * weights[0]).sum() + (out.weights * weights[1]).sum()

    def moved(step: float) -> Tensor:
        """The function a little further along a random way through all inputs and parameters at once."""
        with torch.no_grad():
            for variable, way in zip(variables, ways, strict=True):
                variable += step * way
            value = function()
            for variable, way in zip(variables, ways, strict=True):
                variable -= step * way
        return value

    gradients = torch.autograd.grad(function(), variables, allow_unused=True)
    along = sum((g * way).sum() for g, way in zip(gradients, ways, strict=True) if g is not None)
    torch.testing.assert_close(along, (moved(1e-5) - moved(-1e-5)) / 2e-5, atol=1e-6, rtol=1e-4)


@cases("align", ALIGN_MAKERS)
@pytest.mark.parametrize("score", SCORE_MAKERS)
def test_padding_and_batch_change_nothing(score: str, align: str) -> None:
    layer = Attention(SCORE_MAKERS[score](), ALIGN_MAKERS[align]()).double().eval()
    with torch.no_grad():
        query, keys, values = inputs(torch.float64)
        lengths = [3, 5]
        junk = torch.full((B, 2, D), 9.0, dtype=torch.float64)
        bias = torch.rand(Q, K + 2, dtype=torch.float64)  # a ReLU gives equal scores; of these, any may be the best
        longer = torch.cat([keys, junk], 1), torch.cat([values, junk[..., :V]], 1)
        whole = layer(query, *longer, mask=Mask.padding(lengths), bias=bias)
        for i, length in enumerate(lengths):
            own = keys[i : i + 1, :length], values[i : i + 1, :length]
            alone = layer(query[i : i + 1], *own, bias=bias[:, :length])
            torch.testing.assert_close(whole.weights[i : i + 1, :, :length], alone.weights, atol=1e-12, rtol=0)
            torch.testing.assert_close(whole.context[i : i + 1], alone.context, atol=1e-12, rtol=0)


@cases("align", ALIGNED_IN_ANY_ORDER)
@pytest.mark.parametrize("score", IN_ANY_ORDER)
def test_order_of_keys_does_not_matter(score: str, align: str) -> None:
    layer = Attention(SCORE_MAKERS[score](), ALIGN_MAKERS[align]()).double().eval()
    query, keys, values = inputs(torch.float64)
    order, bias = torch.randperm(K), torch.rand(Q, K, dtype=torch.float64)  # no two scores are equal
    plain = layer(query, keys, values, bias=bias)
    mixed = layer(query, keys[:, order], values[:, order], bias=bias[:, order])
    torch.testing.assert_close(mixed.weights, plain.weights[..., order])
    torch.testing.assert_close(mixed.context, plain.context)


@cases("align", ALIGN_MAKERS)
@pytest.mark.parametrize("score", SCORE_MAKERS)
def test_heads_are_one_more_leading_axis(score: str, align: str) -> None:
    layer = Attention(SCORE_MAKERS[score](), ALIGN_MAKERS[align]()).double().eval()
    query, keys, values = (torch.randn(B, H, n, d, dtype=torch.float64) for n, d in ((Q, D), (K, D), (K, V)))
    mask = Mask.padding([3, 5])
    together = layer(query, keys, values, mask=mask)
    for h in range(H):
        alone = layer(query[:, h], keys[:, h], values[:, h], mask=mask)
        torch.testing.assert_close(together.weights[:, h], alone.weights)
        torch.testing.assert_close(together.context[:, h], alone.context)


def test_any_callable_is_a_score_and_an_alignment() -> None:
    query, keys, values = inputs(torch.float64)

    def manhattan(query: Tensor, keys: Tensor) -> Tensor:
        return -(query.unsqueeze(-2) - keys.unsqueeze(-3)).abs().sum(-1)

    def uniform(scores: Tensor, mask: Tensor | None) -> Tensor:
        weights = torch.ones_like(scores) if mask is None else mask.expand_as(scores).to(scores.dtype)
        return weights / weights.sum(-1, keepdim=True).clamp(min=1)

    out = attend(query, keys, values, score=manhattan, align=uniform, mask=Mask.padding([3, 5]))
    torch.testing.assert_close(out.context[0], values[0, :3].mean(0).expand(Q, V))
    assert isinstance(Attention(manhattan, uniform), nn.Module)


def some_pairs() -> list[object]:
    """Every score with every alignment; three quarters of them are slow, and the rest still holds each of both."""
    pairs = itertools.product(enumerate(SCORE_MAKERS), enumerate(ALIGN_MAKERS))
    slow = [pytest.mark.slow]
    return [pytest.param(score, align, marks=slow * ((i + j) % 4 > 0)) for (i, score), (j, align) in pairs]


@pytest.mark.parametrize(("score", "align"), some_pairs())
def test_meta_tensors_have_shapes(score: str, align: str) -> None:
    layer = Attention(SCORE_MAKERS[score](), ALIGN_MAKERS[align]()).to("meta")
    query, keys, values = (x.detach().to("meta") for x in inputs(torch.bfloat16))
    layer.to(torch.bfloat16)
    for mask in (None, Mask.causal() & Mask.padding(torch.zeros(B, dtype=torch.long, device="meta"))):
        for need_weights in (True, False):
            out = layer(query, keys, values, mask=mask, need_weights=need_weights)
            assert out.context.shape == (B, Q, V)
            assert out.context.is_meta
            assert not need_weights or out.weights.shape == (B, Q, K)


@cases("types", [(0, 1, 1), (1, 0, 0), (0, 0, 1), (2, 0, 1), (3, 2, 0)], ids=str)
@pytest.mark.parametrize("score", ["dot", "scaled_dot", "distance_log", "distance_gaussian", "location"])
def test_mixed_types_are_promoted(score: str, types: tuple[int, int, int]) -> None:
    """Scores in the widest type, the context in that of the values, the weights in that of the query."""
    layer = Attention(SCORE_MAKERS[score]())
    query, keys, values = (x.detach().to(DTYPES[t]) for x, t in zip(inputs(torch.float64), types, strict=True))
    exact = Attention(layer.score, impl="reference").double()(query.double(), keys.double(), values.double())
    layer.float()
    for need_weights in (True, False):
        out = layer(query, keys, values, need_weights=need_weights)
        assert out.context.dtype == values.dtype
        bound = max({2: 0.02, 3: 0.003}.get(t, 1e-5) for t in types)
        torch.testing.assert_close(out.context.double(), exact.context, atol=bound, rtol=bound)
        assert not need_weights or out.weights.dtype == query.dtype
