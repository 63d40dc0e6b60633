"""`write_weights` from scores that are given: padding, masks, empty rows, rows that lie apart. `child.py` runs it."""

import pytest
import torch
from cases import DEVICE

from regard.kernels.derivatives import visible_keys
from regard.kernels.masks import rules as rules_of
from regard.kernels.tile_weights import write_weights


@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 5, 7), (2, 33, 70)], ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_weights_of_given_scores(sizes: tuple[int, int, int], causal: bool) -> None:
    n, q, k = sizes
    scores = torch.full((n, 64, 128), torch.nan, device=DEVICE)  # what lies outside is not read
    scores[:, :q, :k] = 30 * torch.randn(n, q, k, device=DEVICE)
    lengths = torch.tensor([k, 0][:n], device=DEVICE)
    allowed = torch.rand(n, q, k, device=DEVICE) < 0.7
    sides, after = (scores.new_empty(n, q, 1), scores.new_empty(n, k, 1)), 0 if causal else 5
    around = rules_of(*sides, lengths, allowed, None, 9, after, 0.0)
    seen = visible_keys(*sides, lengths, allowed, 9, after)
    assert seen is not None
    scores = torch.where(torch.nn.functional.pad(seen, (0, 128 - k, 0, 64 - q)), scores, torch.nan)
    clean = torch.where(seen, scores[:, :q, :k], -torch.inf).double()
    log_sum = clean.logsumexp(-1)
    wide = torch.full((n, q, k + 3), 5.0, device=DEVICE)
    write_weights(scores, log_sum.float(), wide[..., :k], around, k - q)
    expected = (clean - log_sum.masked_fill(log_sum == -torch.inf, 0.0).unsqueeze(-1)).exp()
    torch.testing.assert_close(wide[..., :k].double(), expected, rtol=2e-5, atol=1e-9)
    assert (wide[..., k:] == 5.0).all()
