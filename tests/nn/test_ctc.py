"""CTC: equal to torch's, and to a sum over all paths."""

import itertools

import torch
import torch.nn.functional as F

from regard.nn import best_path, ctc_losses


def test_losses_and_gradients_equal_those_of_torch() -> None:
    batch, time, vocabulary, longest = 12, 15, 6, 5
    logits = torch.randn(batch, time, vocabulary, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(1, 4, (batch, longest))  # letters often come twice
    lengths, frames = torch.randint(0, longest + 1, (batch,)), torch.randint(10, time + 1, (batch,))
    ours = ctc_losses(logits, frames, targets, lengths)
    log_probs = logits.log_softmax(-1).transpose(0, 1)
    theirs = F.ctc_loss(log_probs, targets, frames, lengths, reduction="none", zero_infinity=True)
    torch.testing.assert_close(ours, theirs)
    weights = torch.rand(batch, dtype=torch.float64)
    [one] = torch.autograd.grad((ours * weights).sum(), logits, retain_graph=True)
    [other] = torch.autograd.grad((theirs * weights).sum(), logits)
    torch.testing.assert_close(one, other)


def test_a_loss_is_a_sum_over_all_paths() -> None:
    logits = torch.randn(1, 4, 3, dtype=torch.float64)
    for text in ([], [1], [2, 1], [1, 1]):
        chances = logits[0].softmax(-1)
        total = sum(
            torch.stack([chances[time, number] for time, number in enumerate(path)]).prod()
            for path in itertools.product(range(3), repeat=4)
            if best_path(F.one_hot(torch.tensor(path), 3).float())[0] == text
        )
        loss = ctc_losses(logits, torch.tensor([4]), torch.tensor([[*text, 0, 0][:2]]), torch.tensor([len(text)]))
        torch.testing.assert_close(loss[0], -torch.as_tensor(total).log())


def test_a_text_that_does_not_fit_costs_nothing() -> None:
    logits = torch.randn(1, 2, 3, requires_grad=True)
    loss = ctc_losses(logits, torch.tensor([2]), torch.tensor([[1, 1]]), torch.tensor([2]))  # needs three frames
    loss.sum().backward()
    assert loss.item() == 0
    assert logits.grad is not None
    assert not logits.grad.any()
