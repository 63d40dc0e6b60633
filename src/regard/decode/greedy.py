"""Greedy search: always the best next token."""

import math
from collections.abc import Callable, Collection
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decode.hypothesis import Hypothesis
from regard.decode.protocol import Decodable, advance, bar, pick, start

Choice = Callable[[Float[Tensor, "n v"]], Int[Tensor, " n"]]


def greedy(
    model: Decodable,
    state: Any,
    *,
    batch: int,
    bos: int,
    eos: int,
    max_steps: int | Int[Tensor, " b"],
    min_steps: int = 0,
    forbidden: Collection[int] = (),
) -> list[Hypothesis]:
    """y_t = argmax P(y | y_<t), for `batch` sentences at once: one hypothesis for each.

    A hypothesis takes at least `min_steps` and at most `max_steps` steps (one number, or one for each sentence), EOS
    included; one that is cut off, or that has no possible token left, is not `finished`. `forbidden` tokens are never
    taken. Finished sentences leave the batch: the model does not see them any more.

    >>> from regard.decode import Step
    >>> class Countdown:
    ...     def step(self, tokens, state):
    ...         return Step(torch.nn.functional.one_hot((tokens - 1) % 4, 4).float(), state)
    >>> greedy(Countdown(), None, batch=1, bos=3, eos=0, max_steps=9)[0].tokens
    [2, 1]
    """
    return follow(
        model,
        state,
        lambda log_probs: log_probs.argmax(-1),
        batch=batch,
        bos=bos,
        eos=eos,
        max_steps=max_steps,
        min_steps=min_steps,
        forbidden=forbidden,
    )


@torch.no_grad()
def follow(
    model: Decodable,
    state: Any,
    choose: Choice,
    *,
    batch: int,
    bos: int,
    eos: int,
    max_steps: int | Int[Tensor, " b"],
    min_steps: int = 0,
    forbidden: Collection[int] = (),
) -> list[Hypothesis]:
    """One path for each sentence, where `choose` takes a token from log-probabilities [n v] (−∞ = barred)."""
    tokens, last = start(model, state, batch=batch, bos=bos, max_steps=max_steps, min_steps=min_steps)
    active = torch.arange(batch, device=tokens.device)  # sentences that go on
    length, finished = torch.zeros_like(active), torch.zeros_like(active, dtype=torch.bool)
    path, gains, looks, step = [], [], [], 0
    while len(active):
        step += 1
        log_probs, state, weights = advance(model, tokens, state, eos=eos)
        open_ = bar(log_probs, {*forbidden, eos} if step < min_steps else forbidden)
        tokens = choose(open_)
        gained = open_.gather(1, tokens.unsqueeze(1)).squeeze(1)
        moved, ended = gained > -math.inf, tokens == eos
        length[active] += moved
        finished[active] = moved & ended
        path.append(_spread(tokens, active, batch))
        gains.append(_spread(gained.where(moved, 0.0), active, batch))
        looks.append(None if weights is None else _spread(weights, active, batch))
        stay = (moved & ~ended & (step < last[active])).nonzero().squeeze(1)
        if len(stay) < len(active):
            active, tokens, state = active[stay], tokens[stay], pick(state, stay) if len(stay) else None
    return _gathered(path, gains, looks, length, finished) if batch else []


def _spread(rows: Tensor, active: Tensor, batch: int) -> Tensor:
    """Rows of active sentences, at their places in the batch."""
    return rows.new_zeros(batch, *rows.shape[1:]).index_copy(0, active, rows)


def _gathered(
    path: list[Tensor], gains: list[Tensor], looks: list[Tensor | None], length: Tensor, finished: Tensor
) -> list[Hypothesis]:
    words = torch.stack(path, 1).tolist()  # [b t]
    total = torch.stack(gains, 1).cpu().double().sum(1)
    seen = [look for look in looks if look is not None]
    weights = torch.stack(seen, 1) if seen else None  # [b t k]
    ends = zip(total.tolist(), length.tolist(), finished.tolist(), strict=True)
    return [
        Hypothesis(
            words[sentence][: steps - done],
            log_prob=log_prob,
            score=log_prob,
            weights=weights[sentence, :steps].clone() if weights is not None and steps else None,
            finished=done,
        )
        for sentence, (log_prob, steps, done) in enumerate(ends)
    ]
