"""Edge lists, and the scores of their pairs: equal to the dense form, without a tensor of all pairs."""

import math

import pytest
import torch
from examples_of import SCORE_EXAMPLES, edge_scores
from table import cases
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from regard.score import Cosine, Distance, Edges, GraphAdditive, Location, Projected, Score

MAKE = edge_scores(
    4,
    cosine_learned=lambda: Cosine(3.0, learned=True),
    distance_log=lambda: Distance("inverse", log=True),
    location_short=lambda: Location(4, 5),
    projected_halves=lambda: Projected(GraphAdditive(3), 4, 4, 3),
)
every_score = pytest.mark.parametrize("name", MAKE)


def random_edges(num_queries: int, num_keys: int, share: float = 0.4, seed: int = 0) -> Edges:
    """A random graph whose edges lie in a random order."""
    generator = torch.Generator().manual_seed(seed)
    pairs = Edges.from_mask(torch.rand(num_queries, num_keys, generator=generator) < share).pairs
    return Edges.of(pairs[:, torch.randperm(pairs.shape[1], generator=generator)], num_queries, num_keys)


@pytest.mark.parametrize("name", SCORE_EXAMPLES)
def test_a_score_has_an_edge_form_where_its_page_says_so(name: str) -> None:
    example = SCORE_EXAMPLES[name]
    assert example(4).has_edge_form == example.over_edges


@every_score
@cases("lead", [(), (2,), (2, 3)], ids=str)
def test_scores_and_gradients_equal_the_dense_form(name: str, lead: tuple[int, ...]) -> None:
    score, edges = MAKE[name]().double(), random_edges(6, 7)
    leaves = [torch.randn(*lead, n, 4, dtype=torch.float64, requires_grad=True) for n in (6, 7)]
    dense = score(*leaves)[..., edges.targets, edges.sources]
    sparse = score.on_edges(*leaves, edges)
    assert sparse.shape == (*lead, len(edges))
    torch.testing.assert_close(sparse, dense, atol=1e-12, rtol=1e-12)
    torch.testing.assert_close(score.on_edges(leaves[0], score.prepare(leaves[1]), edges), sparse, atol=0, rtol=0)
    finite, variables = sparse.isfinite(), [*leaves, *score.parameters()]
    weight = torch.randn_like(sparse)[finite]
    ours = torch.autograd.grad((sparse[finite] * weight).sum(), variables, allow_unused=True)
    theirs = torch.autograd.grad((dense[finite] * weight).sum(), variables, allow_unused=True)
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine is None) == (other is None)
        torch.testing.assert_close(mine, other, atol=1e-10, rtol=1e-10)


@every_score
def test_gradients_agree_with_finite_differences(name: str) -> None:
    score, edges = MAKE[name]().double(), random_edges(3, 4)
    query, keys = (torch.randn(n, 4, dtype=torch.float64, requires_grad=True) for n in (3, 4))
    assert torch.autograd.gradcheck(lambda *both: score.on_edges(*both, edges), (query, keys))


@every_score
@cases("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_scores_are_formed_in_full_precision(name: str, dtype: torch.dtype) -> None:
    score, edges = MAKE[name]().to(dtype), random_edges(3, 5)
    query, keys = torch.randn(3, 4, dtype=dtype), torch.randn(5, 4, dtype=dtype)
    sparse = score.on_edges(query, keys, edges)
    assert sparse.dtype == torch.float32
    torch.testing.assert_close(sparse, score(query, keys)[edges.targets, edges.sources], atol=1e-4, rtol=1e-4)


@every_score
def test_leading_axes_broadcast(name: str) -> None:
    score, edges = MAKE[name](), random_edges(6, 7)
    query, keys = torch.randn(2, 3, 6, 4), torch.randn(3, 7, 4)
    expected = score(query, keys)[..., edges.targets, edges.sources]
    torch.testing.assert_close(score.on_edges(query, keys, edges), expected, atol=1e-5, rtol=1e-4)


class Largest(TorchDispatchMode):
    """Notes the size of the largest tensor that an operation makes."""

    numel = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, Tensor):
                self.numel = max(self.numel, tensor.numel())
        return result


@every_score
def test_memory_is_that_of_the_edges(name: str) -> None:
    """500 queries and keys are 250 000 pairs; ten edges and a projection of width 6 need 6 · 500 numbers at most."""
    score = MAKE[name]()
    edges = Edges.of(torch.randint(500, (2, 10), generator=torch.Generator().manual_seed(0)), 500)
    query, keys = (torch.randn(500, 4, requires_grad=True) for _ in range(2))
    with Largest() as seen:
        scores = score.on_edges(query, keys, edges)
        scores.masked_fill(~scores.isfinite(), 0.0).sum().backward()
    assert 0 < seen.numel <= 6 * 500


def test_location_has_no_weight_beyond_its_table() -> None:
    score = Location(4, 2)
    edges = Edges.of(torch.tensor([[0, 0, 0], [0, 1, 2]]), 1, 3)
    assert score.on_edges(torch.randn(1, 4), torch.zeros(3, 4), edges).isinf().tolist() == [False, False, True]


def test_a_query_on_a_key_has_an_infinite_inverse_distance() -> None:
    x = torch.tensor([[0.0], [2.0]], requires_grad=True)
    scores = Distance().on_edges(x, x, Edges.of(torch.tensor([[0, 0], [0, 1]]), 2))
    assert scores.tolist() == [math.inf, 0.5]
    scores[1].backward()
    assert x.grad.isfinite().all()


# ── the list itself ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("shape", [(3, 5), (1, 1), (0, 4), (4, 0), (6, 6)], ids=str)
def test_from_mask_and_back(shape: tuple[int, int]) -> None:
    mask = torch.rand(*shape) < 0.5
    edges = Edges.from_mask(mask)
    assert torch.equal(edges.mask(), mask)
    assert len(edges) == mask.sum()
    assert (edges.num_queries, edges.num_keys) == shape
    assert torch.equal(Edges.of(edges.pairs, *shape).pairs, edges.pairs)


def test_joined_graphs_lie_side_by_side() -> None:
    masks = [torch.rand(3, 4) < 0.5, torch.rand(2, 2) < 0.5, torch.rand(1, 5) < 0.5]
    joined = Edges.join([Edges.from_mask(mask) for mask in masks])
    assert torch.equal(joined.mask(), torch.block_diag(*masks).bool())


def test_self_loops_are_added_where_they_are_missing() -> None:
    mask = torch.rand(6, 6, generator=torch.Generator().manual_seed(1)) < 0.4
    edges = Edges.from_mask(mask).with_self_loops()
    assert torch.equal(edges.mask(), mask | torch.eye(6, dtype=torch.bool))
    assert torch.equal(edges.with_self_loops().pairs, edges.pairs)


def test_small_integers_become_64_bits() -> None:
    edges = Edges(torch.tensor([0], dtype=torch.int32), torch.tensor([1], dtype=torch.uint8), 1, 2)
    assert edges.pairs.dtype == torch.int64
    assert repr(edges.to("cpu")) == "Edges(1 pairs of 1 queries and 2 keys)"


def test_a_new_compare_takes_the_edge_form_away() -> None:
    class Cubed(Distance):
        def compare(self, query: Tensor, keys: Tensor) -> Tensor:
            return super().compare(query, keys) ** 3

    class Whole(Cubed):
        def compare_edges(self, query: Tensor, keys: Tensor, edges: Edges) -> Tensor:
            return super().compare_edges(query, keys, edges) ** 3

    class Manhattan(Score):
        def compare(self, query: Tensor, keys: Tensor) -> Tensor:
            return -torch.cdist(query, keys, p=1.0)

    assert not Cubed.has_edge_form
    assert Whole.has_edge_form
    assert Distance.has_edge_form
    assert not Manhattan.has_edge_form
    assert not Score.has_edge_form
    edges, x = random_edges(5, 5), torch.randn(5, 2)
    torch.testing.assert_close(Whole().on_edges(x, x + 1, edges), Whole()(x, x + 1)[edges.targets, edges.sources])


def test_loops_are_added_once() -> None:
    edges = Edges.of(torch.tensor([[0, 1], [0, 0]]), num_queries=3)
    looped = edges.with_self_loops()
    assert edges.with_self_loops() is looped
    assert looped.with_self_loops() is looped
    with torch.inference_mode():  # tensors made here cannot be trained with later, so they are not kept
        assert Edges.of(torch.tensor([[0], [1]]), num_queries=2).with_self_loops().pairs.tolist() == [
            [0, 0, 1],
            [1, 0, 1],
        ]
