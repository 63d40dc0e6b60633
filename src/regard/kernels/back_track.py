# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False, implicit-reexport=True
"""The way back along a trellis of prefixes, from the end of each hypothesis to its first word: one launch for all."""

import torch
from jaxtyping import Int
from torch import Tensor

from regard.kernels.launch import jit, on, tl

BLOCK = 32  # ends in a program


@jit
def _back(
    words, slots, slot, token, step, found, before, ran, sentences, beams, ends, count, block: tl.constexpr
):  # fmt: skip
    number = tl.program_id(0) * block + tl.arange(0, block)
    there = number < count
    sentence = number // ends
    here = tl.load(slot + number, mask=there, other=0)
    last_word = tl.load(token + number, mask=there, other=0)
    last_step = tl.load(step + number, mask=there, other=0)
    for back in range(ran):
        time = ran - back
        place = (time * sentences + sentence) * beams + here
        word = tl.load(words + place, mask=there, other=0)
        here = tl.where(last_step > time, tl.load(slots + place, mask=there, other=0), here)
        out = number * ran + time - 1
        tl.store(found + out, tl.where(last_step == time, last_word, word), mask=there)
        tl.store(before + out, here, mask=there)


def way_back(
    words: Int[Tensor, "t s w"],
    slots: Int[Tensor, "t s w"],
    slot: Int[Tensor, "b h"],
    token: Int[Tensor, "b h"],
    step: Int[Tensor, "b h"],
    *,
    ran: int,
) -> tuple[Int[Tensor, "b h r"], Int[Tensor, "b h r"]]:
    """The words of each end at the steps 1 to `ran`, and the prefix that each step continued.

    An end follows the prefix `slot` by the word `token` at its last `step`. `words` and `slots` have an entry for each
    step from 1 on, sentence and prefix: the word that was added, and the prefix before. What is after an end's last
    step means nothing.
    """
    found = torch.empty(*slot.shape, ran, dtype=torch.long, device=slot.device)
    before, count = torch.empty_like(found), slot.numel()
    with on(words):
        _back[(-(-count // BLOCK),)](
            words, slots, slot.contiguous(), token.contiguous(), step.contiguous(), found, before,
            ran, words.shape[1], words.shape[2], slot.shape[1], count, block=BLOCK, num_warps=1,
        )  # fmt: skip
    return found, before
