"""Additive and concat: one function, two ways to store it."""

import pytest
import torch

from regard.align import softmax
from regard.base import ConfigError, ShapeError
from regard.score import Additive, Concat, ProjectedAdditive


def _f64(*rows: tuple[float, ...]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def _as_concat(score: Additive, query_dim: int, key_dim: int) -> Concat:
    concat = Concat(query_dim, key_dim, len(score.v)).to(score.v.dtype)
    state = score.state_dict()
    weight = torch.cat([state["to_query.weight"], state["to_keys.weight"]], 1)
    concat.load_state_dict({"weight": weight, "v": state["v"]})
    return concat


def test_golden_values_of_the_basic_module() -> None:
    score = Additive(2, 2, 2).double()
    score.load_state_dict(
        {
            "to_query.weight": _f64((0.5, 0.0), (0.0, 0.5)),
            "to_keys.weight": _f64((1.0, 0.0), (0.0, -1.0)),
            "v": _f64((1.0, 2.0))[0],
        }
    )
    query, items = _f64((1.0, -1.0)), _f64((1.0, 0.0), (0.0, 1.0), (1.0, 1.0))
    scores = score(query, items)
    weights = softmax(scores)
    close = {"rtol": 0, "atol": 1e-6}
    torch.testing.assert_close(scores, _f64((-0.019086, -1.348179, -0.905148)), **close)
    torch.testing.assert_close(weights, _f64((0.596305, 0.157852, 0.245842)), **close)
    torch.testing.assert_close(weights @ items, _f64((0.842148, 0.403695)), **close)


@pytest.mark.parametrize("concat", [False, True])
def test_golden_values_of_the_score_table(concat: bool) -> None:
    score = Additive(2, 2, 2).double()
    score.load_state_dict(
        {
            "to_query.weight": _f64((0.5, 0.0), (0.0, 0.5)),
            "to_keys.weight": _f64((0.25, 0.0), (0.0, -0.25)),
            "v": _f64((1.0, -1.0))[0],
        }
    )
    scores = (_as_concat(score, 2, 2) if concat else score)(_f64((1.0, 2.0)), _f64((3.0, 4.0), (-1.0, 0.5), (0.0, 1.0)))
    torch.testing.assert_close(scores, _f64((0.848284, -0.458987, -0.173032)), rtol=0, atol=1e-6)
    torch.testing.assert_close(softmax(scores), _f64((0.613242, 0.165917, 0.220841)), rtol=0, atol=1e-6)


def test_concat_equals_additive_with_gradients() -> None:
    score = Additive(3, 5, 4).double()
    concat = _as_concat(score, 3, 5)
    grads = []
    for module in (score, concat):
        query = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(2, 2, 3).requires_grad_()
        keys = torch.linspace(-2, 1, 30, dtype=torch.float64).reshape(2, 3, 5).requires_grad_()
        scores = module(query, keys)
        scores.square().sum().backward()
        grads.append((scores.detach(), query.grad, keys.grad))
    torch.testing.assert_close(grads[0], grads[1])
    weight = torch.cat([score.to_query.weight.grad, score.to_keys.weight.grad], 1)
    torch.testing.assert_close(concat.weight.grad, weight)
    torch.testing.assert_close(concat.v.grad, score.v.grad)


def test_concat_equals_the_written_formula() -> None:
    score, query, keys = Concat(3, 5, 4), torch.randn(2, 3), torch.randn(4, 5)
    for i, j in ((0, 0), (1, 2), (1, 3)):
        expected = score.v @ torch.tanh(score.weight @ torch.cat([query[i], keys[j]]))
        torch.testing.assert_close(score(query, keys)[i, j], expected)


@pytest.mark.parametrize("kind", [Additive, Concat])
def test_scores_are_bounded_by_the_norm_of_v(kind: type) -> None:
    score = kind(4, 4, 8)
    scores = score(100 * torch.randn(50, 4), 100 * torch.randn(50, 4)).abs()
    bound = score.v.abs().sum()
    assert (scores <= bound * (1 + 1e-5)).all()
    assert scores.max() > bound / 2


@pytest.mark.parametrize("kind", [Additive, Concat])
def test_number_of_parameters(kind: type) -> None:
    assert sum(p.numel() for p in kind(3, 5, 4).parameters()) == 4 * (3 + 5) + 4


def test_projected_additive_is_the_additive_score_after_its_projections() -> None:
    whole = Additive(3, 5, 4)
    query, keys = torch.randn(2, 6, 3), torch.randn(2, 7, 5)
    step = ProjectedAdditive(whole.v)
    assert step.v is whole.v
    assert step.features == 4
    torch.testing.assert_close(step(whole.to_query(query), whole.to_keys(keys)), whole(query, keys), atol=0, rtol=0)
    with pytest.raises(
        ShapeError,
        match=r"query has the wrong width: got 3; expected 4\. Try: make both sides as wide as v of ProjectedAdditive",
    ):
        step(query, whole.to_keys(keys))
    with pytest.raises(ConfigError, match="ProjectedAdditive width: got 0"):
        ProjectedAdditive(0)
    assert repr(ProjectedAdditive(4)) == "ProjectedAdditive(4)"
