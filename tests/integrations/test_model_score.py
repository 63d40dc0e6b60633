import torch

from regard.attention import attend
from regard.integrations.model_score import ScaledBy, SoftCapped
from regard.score import Cosine


def test_the_scale_of_a_model() -> None:
    query, keys = (
        torch.randn(2, n, 4, generator=torch.Generator().manual_seed(n), dtype=torch.float64) for n in (3, 5)
    )
    score = ScaledBy(0.7)
    expected = torch.einsum("bqd,bkd->bqk", query, keys) * 0.7
    torch.testing.assert_close(score(query, keys), expected)
    form = score.as_dot(query, keys)
    torch.testing.assert_close(form.query @ form.keys.mT * form.scale, expected)
    ways = [attend(query, keys, keys, score=score, impl=impl).context for impl in ("reference", "sdpa")]
    torch.testing.assert_close(*ways)


def test_a_soft_cap_bends_any_score() -> None:
    generator = torch.Generator().manual_seed(1)
    query, keys = (torch.randn(length, 4, generator=generator, dtype=torch.float64) for length in (3, 5))
    for score in (ScaledBy(2), Cosine()):
        plain, capped = score(query, keys), SoftCapped(score, 4)(query, keys)
        torch.testing.assert_close(torch.atanh(capped / 4) * 4, plain)
        assert capped.abs().max() < 4
