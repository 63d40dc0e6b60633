# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False, implicit-reexport=True
"""What a beam search does between two steps of a model, in two kernels: choose, and bring caches into the new order.

`choose` takes the best continuations of each sentence, best first, and does with them what `BeamBoard.advance` does by
plain operations, for one hypothesis a sentence and no penalty on coverage: which go on, which end, which end is the
best, and whether the sentence is done. `reorder` moves rows of keys and values inside of a sentence, in place.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.kernels.launch import jit, on, power_of_two, tl

FINISHED, CUT, NONE, NOWHERE = (
    tl.constexpr(0),
    tl.constexpr(1),
    tl.constexpr(2),
    tl.constexpr(-1),
)  # as in decode/beam.py


class Standing(NamedTuple):
    """The rows of the sentences that go on, which `choose` reads and writes; [m w] for prefixes, [m] or [m 1] else."""

    log_prob: Float[Tensor, "m w"]
    tokens: Int[Tensor, "m w"]
    done: Tensor
    last: Int[Tensor, " m"]
    longest: Float[Tensor, " m"]
    sentence: Int[Tensor, " m"]
    end_score: Float[Tensor, "m 1"]
    end_log_prob: Float[Tensor, "m 1"]
    end_origin: Int[Tensor, "m 1"]
    end_token: Int[Tensor, "m 1"]
    end_step: Int[Tensor, "m 1"]
    end_group: Int[Tensor, "m 1"]


@jit
def _better(score, group, best_score, best_group):
    """Whether an end ranks before the best so far: by group, then by score; of equals the earlier one stays."""
    return (group < best_group) | ((group == best_group) & (score > best_score))


@jit
def _choose(
    found, rows, words, log_prob, tokens, done, last, longest, sentence,
    end_score, end_log_prob, end_origin, end_token, end_step, end_group,
    slots, trellis, origin, time, penalties, sentences, wanted, beams, eos,
    block: tl.constexpr, padded_beams: tl.constexpr,
):  # fmt: skip
    """Takes one step of the prefixes and of the best end of one sentence."""
    row = tl.program_id(0)
    first = row * beams
    now = tl.load(time)
    at, beam = tl.arange(0, block), tl.arange(0, padded_beams)
    there = at < wanted
    gain = tl.load(found + row * wanted + at, mask=there, other=-float("inf"))
    source = tl.load(rows + row * wanted + at, mask=there, other=0)
    word = tl.load(words + row * wanted + at, mask=there, other=eos)
    possible = (gain > -float("inf")) & there
    is_end = (word == eos) | (at >= wanted)
    going = tl.load(done + row) == 0
    cut = tl.load(last + row) <= now
    penalty, penalty_before = tl.load(penalties + now), tl.load(penalties + now - 1)

    # the best that do not end go on, in their order; where they are too few, ends fill the rows, impossible
    is_open = (~is_end).to(tl.int32)
    count = tl.sum(is_open, 0)
    place = tl.where(is_end, count + tl.cumsum(1 - is_open, 0) - 1, tl.cumsum(is_open, 0) - 1)
    goes_on = (place < beams) & there
    live = tl.where(is_end, -float("inf"), gain)
    number = tl.load(sentence + row)
    where = (now * sentences + number) * beams + place
    tl.store(slots + where, source - first, mask=goes_on)
    tl.store(trellis + where, word, mask=goes_on)
    tl.store(origin + first + place, source, mask=goes_on)

    # ends: by EOS among the first `beams`, at the last step, or where nothing is possible
    group = tl.where((word == eos) & (at < beams) & possible & going, FINISHED, NONE)
    group = tl.where((live > -float("inf")) & goes_on & (cut & going), CUT, group)
    score = tl.where(group == NONE, -float("inf"), gain / penalty)
    best_score, best_group = tl.load(end_score + row), tl.load(end_group + row)
    best_log_prob, best_origin = tl.load(end_log_prob + row), tl.load(end_origin + row)
    best_token, best_step = tl.load(end_token + row), tl.load(end_step + row)
    lowest = tl.min(group.to(tl.int64), 0)
    top = tl.max(tl.where(group == lowest, score, -float("inf")), 0)
    chosen = tl.min(tl.where((group == lowest) & (score == top) & there, at, block), 0)
    mine = at == chosen
    better = _better(top, lowest, best_score, best_group) & (lowest != NONE)
    best_log_prob = tl.where(better, tl.max(tl.where(mine, gain, -float("inf")), 0), best_log_prob)
    best_origin = tl.where(better, tl.sum(tl.where(mine, source, 0), 0), best_origin)
    best_token = tl.where(better, tl.sum(tl.where(mine, word, 0), 0), best_token)
    best_step, best_score = tl.where(better, now, best_step), tl.where(better, top, best_score)
    best_group = tl.where(better, lowest, best_group)

    # where no prefix has a way on, the prefixes themselves are cut off
    prefix = tl.load(log_prob + first + beam, mask=beam < beams, other=-float("inf"))
    stuck = (tl.max(possible.to(tl.int32), 0) == 0) & going
    highest = tl.max(prefix, 0)
    stopped = stuck & (highest > -float("inf"))
    score_then = highest / penalty_before
    better = stopped & _better(score_then, tl.full([], 1, tl.int64), best_score, best_group)
    mine_then = tl.min(tl.where(prefix == highest, beam, padded_beams), 0)
    tl.store(end_score + row, tl.where(better, score_then, best_score))
    tl.store(end_log_prob + row, tl.where(better, highest, best_log_prob))
    tl.store(end_origin + row, tl.where(better, first + mine_then, best_origin))
    tl.store(end_token + row, tl.where(better, NOWHERE, best_token))
    tl.store(end_step + row, tl.where(better, now, best_step))
    best_group = tl.where(better, CUT, best_group)
    tl.store(end_group + row, best_group)
    best_score = tl.where(better, score_then, best_score)

    most = tl.max(tl.where(goes_on, live, -float("inf")), 0)
    settled = (best_group == FINISHED) & (best_score >= most / tl.load(longest + row))
    over = (~going) | cut | settled | (most == -float("inf"))
    tl.debug_barrier()
    tl.store(done + row, over.to(tl.int8))
    tl.store(log_prob + first + place, live, mask=goes_on)
    tl.store(tokens + first + place, word, mask=goes_on)


@jit
def _reorder(
    data, origin, filled, stride_row, stride_head, heads, beams, width,
    block: tl.constexpr, padded_beams: tl.constexpr,
):  # fmt: skip
    """One head of the rows of a sentence: all of a part is read before any of it is written."""
    sentence, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    beam, at = tl.arange(0, padded_beams), tl.arange(0, block)
    source = tl.load(origin + sentence * beams + beam, mask=beam < beams, other=0)
    base = data + head * stride_head
    here = base + (sentence * beams + beam)[:, None] * stride_row
    there = base + source[:, None] * stride_row
    size = tl.load(filled).to(tl.int32) * width
    for start in range(0, size, block):
        inside = (beam[:, None] < beams) & (start + at[None, :] < size)
        tile = tl.load(there + start + at[None, :], mask=inside, other=0)
        tl.debug_barrier()
        tl.store(here + start + at[None, :], tile, mask=inside)


def choose(
    found: tuple[Float[Tensor, "m c"], Int[Tensor, "m c"], Int[Tensor, "m c"]],
    standing: Standing,
    slots: Int[Tensor, "t s w"],
    words: Int[Tensor, "t s w"],
    *,
    time: Int[Tensor, ""],
    penalties: Float[Tensor, " t"],
    eos: int,
) -> Int[Tensor, " n"]:
    """One step of all sentences, from their best continuations: log-probability, row of the prefix, and word.

    Prefixes and ends are brought up to date, the step is written into the trellis (`slots`, `words`), and the row that
    each prefix comes from is given.
    """
    (sentences, wanted), beams = found[0].shape, standing.tokens.shape[1]
    origin = torch.empty(sentences * beams, dtype=torch.long, device=time.device)
    done = standing.done.view(torch.int8)
    with on(time):
        _choose[(sentences,)](
            *(part.contiguous() for part in found), *standing[:2], done, *standing[3:],
            slots, words, origin, time, penalties, slots.shape[1], wanted, beams, eos,
            block=power_of_two(wanted), padded_beams=power_of_two(beams), num_warps=1,
        )  # fmt: skip
    return origin


def reorder(data: Tensor, origin: Int[Tensor, " n"], beams: int, filled: Int[Tensor, ""]) -> None:
    """Brings the rows of `data` [n h t d] into the order of `origin`, in place; a row stays with its sentence.

    The first `filled` items of t are moved. Rows and heads may lie apart, as in a part of a larger cache; what belongs
    to a head lies side by side.
    """
    (rows, heads), width = data.shape[:2], data.shape[3]
    if data.numel() == 0 or beams == 1:
        return
    assert data[0, 0].is_contiguous(), "what belongs to a head lies side by side"
    with on(data):
        _reorder[(rows // beams * heads,)](
            data, origin, filled, data.stride(0), data.stride(1), heads, beams, width,
            block=min(1024, power_of_two(data[0, 0].numel(), 16)), padded_beams=power_of_two(beams), num_warps=4,
        )  # fmt: skip
