"""Connectionist temporal classification (Graves et al. 2006): a text and frames, without knowing which is where.

Plain operations, one loop over the frames: nothing waits for the device, so a captured graph may hold the loss, which
`torch.nn.functional.ctc_loss` forbids, since it reads the lengths on the host.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

_NEVER = -1e30  # in place of −∞, whose differences are NaN


def ctc_losses(
    logits: Float[Tensor, "b t v"],
    frames: Int[Tensor, " b"],
    targets: Int[Tensor, "b l"],
    lengths: Int[Tensor, " b"],
    *,
    blank: int = 0,
) -> Float[Tensor, " b"]:
    """−log of the probability of each text, over all ways to spread it over its first `frames` frames.

    A text that needs more frames than there are has the loss 0, and no gradient.
    """
    batch, longest = targets.shape
    if longest == 0:
        targets, longest = targets.new_full((batch, 1), blank), 1
    log_probs = logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))
    states = torch.full((batch, 2 * longest + 1), blank, dtype=targets.dtype, device=targets.device)
    states[:, 1::2] = targets  # blank, letter, blank, …
    emitted = log_probs.gather(2, states.unsqueeze(1).expand(-1, log_probs.shape[1], -1))  # [b t s]
    jump = torch.zeros_like(states, dtype=torch.bool)
    jump[:, 3::2] = targets[:, 1:] != targets[:, :-1]  # over the blank between two letters that differ
    never = emitted.new_full((batch, 1), _NEVER)
    first = torch.arange(states.shape[1], device=states.device) < 2
    alpha = emitted[:, 0].masked_fill(~first, _NEVER)
    for time in range(1, log_probs.shape[1]):
        one = torch.cat([never, alpha[:, :-1]], 1)
        two = torch.cat([never, never, alpha[:, :-2]], 1).masked_fill(~jump, _NEVER)
        following = torch.logsumexp(torch.stack([alpha, one, two]), 0) + emitted[:, time]
        alpha = torch.where((time < frames).unsqueeze(1), following, alpha)
    last = 2 * lengths.unsqueeze(1)
    ends = torch.cat([alpha.gather(1, last), alpha.gather(1, (last - 1).clamp(min=0))], 1)
    ends = torch.cat([ends[:, :1], ends[:, 1:].masked_fill(last == 0, _NEVER)], 1)
    losses = -torch.logsumexp(ends, 1)
    return torch.where(losses < -_NEVER / 2, losses, 0.0)


def best_path(logits: Float[Tensor, "t v"], *, blank: int = 0) -> tuple[list[int], list[tuple[int, int]]]:
    """The likeliest number of each frame without repetitions and blanks, and the frames [first, last) of each.

    >>> best_path(torch.eye(3)[torch.tensor([1, 1, 0, 1, 2])])
    ([1, 1, 2], [(0, 2), (3, 4), (4, 5)])
    """
    numbers: list[int] = []
    spans: list[tuple[int, int]] = []
    before = blank
    for time, number in enumerate(logits.argmax(-1).tolist()):
        if number != blank and number == before:
            spans[-1] = (spans[-1][0], time + 1)
        elif number != blank:
            numbers.append(number)
            spans.append((time, time + 1))
        before = number
    return numbers, spans
