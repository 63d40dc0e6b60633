"""Hard alignment and its estimators."""

import math

import pytest
import torch
from torch import Tensor

from regard.align import ESTIMATORS, Hard, Softmax
from regard.attention import attend
from regard.base import ConfigError

SAMPLED = [name for name in ESTIMATORS if name != "argmax"]
every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS)


@every_estimator
def test_evaluation_takes_the_best_key(estimator: str) -> None:
    scores, mask = torch.randn(4, 3, 6), torch.rand(4, 3, 6) < 0.7
    mask[..., 0] = True
    best = scores.masked_fill(~mask, -math.inf).argmax(-1)
    weights = Hard(estimator).eval()(scores, mask).weights
    assert torch.equal(weights, torch.nn.functional.one_hot(best, 6).float())


@every_estimator
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_training_gives_one_hot_rows(estimator: str, dtype: torch.dtype) -> None:
    scores, mask = torch.randn(50, 3, 6, dtype=dtype), torch.rand(50, 3, 6) < 0.7
    weights = Hard(estimator)(scores, mask).weights
    assert weights.dtype == dtype
    assert (weights[~mask] == 0).all()
    if estimator == "gumbel":
        torch.testing.assert_close(weights.float().sum(-1), mask.any(-1).float(), rtol=0, atol=0.02)
        assert ((weights > 0) & (weights < 1)).any()
    else:
        assert weights.unique().tolist() == [0, 1]
        assert torch.equal(weights.sum(-1), mask.any(-1).to(dtype))


def test_argmax_has_no_gradient_and_takes_the_first_of_equals() -> None:
    weights = Hard()(torch.zeros(1, 3, requires_grad=True)).weights
    assert weights.tolist() == [[1.0, 0.0, 0.0]]
    assert not weights.requires_grad


@pytest.mark.parametrize("estimator", SAMPLED)
@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.0])
def test_samples_follow_the_softmax(estimator: str, temperature: float) -> None:
    logits = torch.tensor([0.5, -1.0, 0.0, 1.0, 3.0])
    mask = torch.tensor([True, True, True, True, False])
    weights = Hard(estimator, temperature=temperature)(logits.expand(20000, 1, 5), mask).weights
    counts = torch.bincount(weights.argmax(-1).flatten(), minlength=5)
    expected = 20000 * logits.masked_fill(~mask, -math.inf).softmax(-1)
    assert counts[4] == 0
    chi_square = ((counts - expected).square() / expected)[:4].sum()
    assert chi_square < 25  # three degrees of freedom: one seed in 10⁵ is above


@pytest.mark.parametrize("estimator", SAMPLED)
@pytest.mark.parametrize("level", [1e9, math.inf])
def test_equal_large_scores_are_sampled_alike(estimator: str, level: float) -> None:
    scores = torch.tensor([level, level, 0.0]).expand(2000, 1, 3)
    choices = Hard(estimator)(scores).weights.argmax(-1)
    share = torch.bincount(choices.flatten(), minlength=3) / 2000
    torch.testing.assert_close(share, torch.tensor([0.5, 0.5, 0.0]), rtol=0, atol=0.05)


@pytest.mark.parametrize("temperature", [0.1, 1.0])
@pytest.mark.parametrize("estimator", SAMPLED)
def test_infinite_score_is_always_chosen(estimator: str, temperature: float) -> None:
    scores = torch.tensor([[1.0, math.inf, 2.0]], requires_grad=True)
    weights, log_prob, entropy = Hard(estimator, temperature=temperature)(scores)
    assert weights.tolist() == [[0.0, 1.0, 0.0]]
    if log_prob is not None:
        assert (log_prob.item(), entropy.item()) == (0, 0)
        (log_prob + entropy).sum().backward()
    else:
        weights[0, 0].backward()
    assert scores.grad.isfinite().all()


def test_log_prob_and_entropy_equal_a_categorical() -> None:
    scores, mask = torch.randn(20, 3, 6, dtype=torch.float64), torch.rand(20, 3, 6) < 0.7
    mask[..., 0] = True
    one, two = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    weights, log_prob, entropy = Hard("sample")(one, mask)
    expected = torch.distributions.Categorical(logits=two.masked_fill(~mask, -1e300))
    torch.testing.assert_close(log_prob, expected.log_prob(weights.argmax(-1)))
    torch.testing.assert_close(entropy, expected.entropy())
    (log_prob + 0.3 * entropy).sum().backward()
    (expected.log_prob(weights.argmax(-1)) + 0.3 * expected.entropy()).sum().backward()
    torch.testing.assert_close(one.grad, two.grad)


def test_only_sample_reports_log_prob() -> None:
    for estimator in ESTIMATORS:
        for align in (Hard(estimator), Hard(estimator).eval()):
            _, log_prob, entropy = align(torch.randn(2, 3, 4))
            assert (log_prob is None) == (entropy is None) == (estimator != "sample")


@every_estimator
def test_empty_row(estimator: str) -> None:
    scores, mask = torch.randn(2, 3, 5, requires_grad=True), torch.ones(2, 3, 5, dtype=torch.bool)
    mask[:, 1] = False
    weights, log_prob, entropy = Hard(estimator)(scores, mask)
    assert (weights[:, 1] == 0).all()
    loss = (weights * torch.arange(5)).sum()
    if log_prob is not None and entropy is not None:
        assert (log_prob[:, 1] == 0).all()
        assert (entropy[:, 1] == 0).all()
        loss = loss + log_prob.sum() + entropy.sum()
    if loss.requires_grad:
        loss.backward()
        assert scores.grad.isfinite().all()
        assert (scores.grad[:, 1] == 0).all()
        assert (scores.grad[:, 0] != 0).any()


def _per_sample(logits: Tensor, samples: int, estimator: str, temperature: float = 1.0) -> tuple[Tensor, ...]:
    scores = logits.expand(samples, 1, -1).clone().requires_grad_()
    weights, log_prob, _ = Hard(estimator, temperature=temperature)(scores)
    return scores, weights, log_prob


@pytest.mark.parametrize("baseline", [0.0, 1.7, -30.0])
def test_reinforce_over_all_choices_is_the_exact_gradient(baseline: float) -> None:
    logits, losses = torch.randn(5, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
    scores, weights, log_prob = _per_sample(logits, 500, "sample")
    choices = weights.argmax(-1).flatten()
    terms = torch.autograd.grad(((losses[choices] - baseline) * log_prob.flatten()).sum(), scores)[0][:, 0]
    torch.testing.assert_close(terms.sum(-1), torch.zeros(500, dtype=torch.float64), rtol=0, atol=1e-12)
    chance = logits.softmax(-1)
    enumerated = sum(chance[key] * terms[choices == key][0] for key in range(5))
    exact = chance * (losses - chance @ losses)
    torch.testing.assert_close(enumerated, exact, rtol=0, atol=1e-10)


def test_bias_and_variance_of_the_estimators() -> None:
    logits = torch.randn(8, generator=torch.Generator().manual_seed(0)).double()
    values, target = torch.linspace(-2, 2, 8).double(), 0.7
    losses, chance = (values - target).square(), logits.softmax(-1)
    exact = chance * (losses - chance @ losses)
    assert exact.norm().item() == pytest.approx(1.584, abs=1e-3)
    assert (chance @ losses).item() == pytest.approx(3.780, abs=1e-3)

    def measure(estimator: str, temperature: float = 1.0, baseline: float = 0.0) -> tuple[float, float]:
        scores, weights, log_prob = _per_sample(logits, 20000, estimator, temperature)
        loss = (weights @ values - target).square()
        surrogate = loss if log_prob is None else (loss - baseline).detach() * log_prob
        grads = torch.autograd.grad(surrogate.sum(), scores)[0][:, 0]
        return (grads.mean(0) - exact).norm().item(), grads.var(0).sum().item()

    reinforce, with_baseline = measure("sample"), measure("sample", baseline=(chance @ losses).item())
    through = measure("straight_through")
    gumbel = [measure("gumbel", temperature) for temperature in (1.0, 0.5, 0.1)]
    both = [measure("gumbel_straight_through", temperature) for temperature in (1.0, 0.5)]
    assert reinforce[0] < 0.06
    assert with_baseline[0] < 0.06
    assert reinforce[1] == pytest.approx(9.05, rel=0.1)
    assert with_baseline[1] == pytest.approx(3.66, rel=0.1)
    assert through == pytest.approx((0.717, 7.65), rel=0.1)
    assert gumbel[0] == pytest.approx((0.725, 1.10), rel=0.1)
    assert gumbel[0][0] > gumbel[1][0] > gumbel[2][0]
    assert gumbel[0][1] < gumbel[1][1] < gumbel[2][1]
    assert both[0] == pytest.approx((0.495, 6.04), rel=0.1)
    assert both[0][0] > both[1][0]
    assert both[0][1] < both[1][1]


def test_straight_through_gradient_is_that_of_the_softmax() -> None:
    scores, cotangent = torch.randn(2, 3, 5, requires_grad=True), torch.randn(2, 3, 5)
    grad = torch.autograd.grad(Hard("straight_through")(scores).weights, scores, cotangent)[0]
    torch.testing.assert_close(grad, torch.autograd.grad(scores.softmax(-1), scores, cotangent)[0])


def test_gumbel_straight_through_has_the_gradient_of_the_relaxed_sample() -> None:
    scores, cotangent, found = torch.randn(2, 3, 5, requires_grad=True), torch.randn(2, 3, 5), []
    for estimator in ("gumbel", "gumbel_straight_through"):
        torch.manual_seed(3)
        weights = Hard(estimator, temperature=0.5)(scores).weights
        found.append((weights.argmax(-1), torch.autograd.grad(weights, scores, cotangent)[0]))
    torch.testing.assert_close(found[0], found[1])


def test_unknown_estimator_is_refused() -> None:
    with pytest.raises((ConfigError, TypeError)):  # the import hook may be faster
        Hard("reinforce")


def test_repr_shows_what_matters() -> None:
    assert repr(Hard()) == "Hard('argmax')"
    assert repr(Hard("gumbel", temperature=0.5)) == "Hard('gumbel', temperature=0.5)"


# ── some sampled, some not ──────────────────────────────────────────────────────────────────────────────────────────


def test_some_queries_draw_and_others_do_not() -> None:
    scores, mask, drawn = torch.randn(40, 3, 6), torch.rand(40, 3, 6) < 0.7, torch.rand(40, 3) < 0.5
    scores.requires_grad_()
    align = Hard("sample", drawn=drawn)
    out = align(scores, mask)
    soft, (_, log_prob, entropy) = Softmax()(scores, mask).weights, Hard("sample").eval()(scores, mask)
    assert torch.equal(align.expected, soft)
    assert torch.equal(out.weights[~drawn], soft[~drawn])
    chosen = out.weights[drawn]
    assert chosen.unique().tolist() == [0, 1]
    assert torch.equal(chosen.sum(-1), mask[drawn].any(-1).float())  # an empty row stays empty
    assert (out.log_prob[~drawn] == 0).all()
    there = mask.any(-1) & drawn
    picked = (out.weights * soft).sum(-1)[there].log()
    torch.testing.assert_close(out.log_prob[there], picked)
    assert torch.equal(out.entropy, entropy)
    assert log_prob.shape == out.log_prob.shape
    (gradient,) = torch.autograd.grad(out.weights.square().sum(), scores)
    assert (gradient[drawn] == 0).all()  # only log_prob carries one there
    assert (gradient[~drawn & (mask.sum(-1) > 1)] != 0).any()


def test_some_queries_draw_through_attend() -> None:
    query, keys, drawn = torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.tensor([[True, False, True]] * 2)
    align = Hard("sample", drawn=drawn)
    out = attend(query, keys, keys, align=align)
    assert torch.equal(out.context, out.weights @ keys)
    torch.testing.assert_close(align.expected, attend(query, keys, keys).weights)
    with pytest.raises(ConfigError, match=r"Hard drawn: got torch\.float32, estimator 'sample'; expected torch\.bool"):
        Hard("sample", drawn=torch.ones(2, 3))
    with pytest.raises(ConfigError, match=r"Hard drawn: got torch\.bool, estimator 'gumbel'"):
        Hard("gumbel", drawn=drawn)
