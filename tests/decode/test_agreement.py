"""Consensus on tensors, against the plain one."""

import pytest
import torch

from regard.decode import Hypothesis, agreement, consensus
from regard.decode.agreement import consensus_scores


@pytest.mark.parametrize("seed", range(25))
def test_equals_the_plain_consensus(seed: int) -> None:
    """Random hypotheses of few words, so that n-grams repeat; some are empty, some do not exist."""
    torch.manual_seed(seed)
    count, longest = int(torch.randint(1, 9, ())), int(torch.randint(1, 12, ()))
    tokens = torch.randint(0, int(torch.randint(1, 6, ())), (3, count, longest))
    lengths, log_probs = torch.randint(0, longest + 1, (3, count)), -5 * torch.rand(3, count, dtype=torch.float64)
    exist = torch.rand(3, count) < 0.8
    exist[:, 0] = True
    scores = consensus_scores(tokens, lengths, log_probs, exist, sharpness=0.7)
    for i in range(3):
        there = [j for j in range(count) if exist[i, j]]
        plain = consensus(
            [Hypothesis(tokens[i, j, : lengths[i, j]].tolist(), log_probs[i, j].item(), float(j)) for j in there],
            sharpness=0.7,
        )
        expected = {(*one.tokens, one.log_prob): one.score for one in plain}
        for j in there:
            key = (*tokens[i, j, : lengths[i, j]].tolist(), log_probs[i, j].item())
            assert scores[i, j].item() == pytest.approx(expected[key], abs=1e-12)
        assert (scores[i][~exist[i]] == -torch.inf).all()


def test_many_sentences_are_done_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens, lengths = torch.randint(0, 5, (7, 4, 6)), torch.randint(0, 7, (7, 4))
    arguments = tokens, lengths, -torch.rand(7, 4), torch.ones(7, 4, dtype=torch.bool)
    whole = consensus_scores(*arguments, sharpness=1.0)
    monkeypatch.setattr(agreement, "AT_ONCE", 1)
    assert torch.equal(consensus_scores(*arguments, sharpness=1.0), whole)
