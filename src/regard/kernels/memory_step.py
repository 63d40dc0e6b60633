# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False, implicit-reexport=True
"""One step of a neural Turing machine as one kernel: all heads address the memory, read it and write into it.

Written with operations of torch, a step takes some two hundred kernels forward and backward, of a few microseconds
each: a training waits for launches. Here one program does all heads of one sequence, so a step is one kernel forward
and one backward. Equation numbers are those of Graves et al. 2014; `regard.models.ntm` says what goes in.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.kernels.arithmetic import at_most, precise_exp
from regard.kernels.derivatives import refuse_transforms
from regard.kernels.launch import jit, on, power_of_two, tl


@jit
def _at_least(x, bound):
    """The larger of the two, or not a number if x is none."""
    return tl.maximum(x, bound, propagate_nan=tl.PropagateNan.ALL)


@jit
def _tanh(x):
    """tanh(x), with all digits near zero too: keys are divided by their length."""
    small = tl.abs(x) < 0.2
    falling = precise_exp(-2.0 * at_most(tl.abs(x), 20.0))
    far = (1.0 - falling) / (1.0 + falling)
    square = x * x
    series = -17.0 / 315 + square * (62.0 / 2835)
    series = 2.0 / 15 + square * series
    near = x + x * square * (-1.0 / 3 + square * series)
    return tl.where(small, near, tl.where(x < 0.0, -far, far))


@jit
def _sigmoid(x):
    """1 / (1 + exp(−x)), and for large negative x no overflow."""
    falling = precise_exp(-at_most(tl.abs(x), 80.0))
    return tl.where(x < 0.0, falling, 1.0) / (1.0 + falling)


@jit
def _softplus(x):
    """log(1 + exp(x)); for x far below zero exp(x), which has more digits than 1 + exp(x)."""
    falling = precise_exp(-at_most(tl.abs(x), 80.0))
    short = falling * (1.0 - falling * (0.5 - falling * (1.0 / 3)))
    return tl.maximum(x, 0.0) + tl.where(falling < 1e-2, short, tl.log(1.0 + falling))


@jit
def _address(
    numbers, memory, last, slots, width, reach,
    padded_slots: tl.constexpr, padded_width: tl.constexpr, padded_shifts: tl.constexpr,
):  # fmt: skip
    """The weights of one head (5) to (9), from its raw numbers, and what its backward pass needs again."""
    slot, at, place = tl.arange(0, padded_slots), tl.arange(0, padded_width), tl.arange(0, padded_shifts)
    shifts = 2 * reach + 1
    there = slot < slots
    key = _tanh(tl.load(numbers + at, mask=at < width, other=0.0))
    strength = _softplus(tl.load(numbers + width))
    gate = _sigmoid(tl.load(numbers + width + 1))
    raw = tl.load(numbers + width + 2 + place, mask=place < shifts, other=-float("inf"))
    shares = tl.where(place < shifts, precise_exp(_at_least(raw - tl.max(raw, 0), -80.0)), 0.0)
    shares = shares / tl.sum(shares, 0)
    sharpness = 1.0 + _softplus(tl.load(numbers + width + 2 + shifts))
    largest = tl.max(tl.abs(key), 0)  # by which is divided first, so that no square is lost
    scaled_key = key / tl.where(largest == 0.0, 1.0, largest)
    key_length = largest * tl.sqrt(tl.sum(scaled_key * scaled_key, 0))
    key = key / tl.where(key_length == 0.0, 1.0, key_length)
    tops = tl.max(tl.abs(memory), 1)
    units = memory / tl.where(tops == 0.0, 1.0, tops)[:, None]
    spans = tl.sqrt(tl.sum(units * units, 1))
    units = units / tl.where(tops == 0.0, 1.0, spans)[:, None]
    lengths = tops * spans
    alike = tl.sum(units * key[None, :], 1)  # K of (6)
    scores = tl.where(there, strength * alike, -float("inf"))
    content = tl.where(there, precise_exp(_at_least(scores - tl.max(scores, 0), -80.0)), 0.0)
    content = content / tl.sum(content, 0)  # (5)
    mixed = last + gate * (content - last)  # (7)
    moved = tl.zeros([padded_slots], tl.float32)
    for number in range(shifts):  # (8)
        source = (slot - (number - reach) + slots) % slots
        share = tl.sum(tl.where(place == number, shares, 0.0), 0)
        moved += share * tl.gather(mixed, source, 0)
    moved = tl.where(there, moved, 0.0)
    peak = tl.max(moved, 0)
    scaled = moved / tl.where(peak == 0.0, 1.0, peak)
    logarithm = tl.log(tl.where(scaled > 0.0, scaled, 1.0))
    power = tl.where(scaled > 0.0, precise_exp(_at_least(sharpness * logarithm, -100.0)), scaled)  # 0, or no number
    total = tl.where(peak == 0.0, 1.0, tl.sum(power, 0))  # (9)
    return (
        power / total, key, key_length, strength, gate, shares, sharpness, units, lengths, alike,
        content, mixed, scaled, peak, logarithm, power, total,
    )  # fmt: skip


@jit
def _written(
    emitted, weights, writes, addressing, slots, width, skip, padded_slots: tl.constexpr, padded_width: tl.constexpr
):
    """∏_h (1 − w_h e_h) over all write heads but the one of number `skip`, and Σ_h w_h a_h."""
    slot, at = tl.arange(0, padded_slots), tl.arange(0, padded_width)
    left = tl.full([padded_slots, padded_width], 1.0, tl.float32)
    added = tl.zeros([padded_slots, padded_width], tl.float32)
    for head in range(writes):
        focus = tl.load(weights + head * slots + slot, mask=slot < slots, other=0.0)
        places = emitted + addressing + head * width + at
        erase = _sigmoid(tl.load(places, mask=at < width, other=0.0))
        add = _tanh(tl.load(places + writes * width, mask=at < width, other=0.0))
        rest = 1.0 - focus[:, None] * erase[None, :]
        left = left * tl.where(head == skip, 1.0, rest)
        added += focus[:, None] * add[None, :]
    return left, added


@jit
def _forward(
    emitted, memory, last_weights, weights, reads, new_memory, slots, width, reach, num_reads, num_writes,
    padded_slots: tl.constexpr, padded_width: tl.constexpr, padded_shifts: tl.constexpr,
):  # fmt: skip
    """A step of one sequence."""
    item = tl.program_id(0).to(tl.int64)
    heads, size = num_reads + num_writes, width + 2 * reach + 4
    emitted += item * (heads * size + 2 * num_writes * width)
    memory, new_memory = memory + item * slots * width, new_memory + item * slots * width
    last_weights, weights, reads = (
        last_weights + item * heads * slots,
        weights + item * heads * slots,
        reads + item * num_reads * width,
    )
    slot, at = tl.arange(0, padded_slots), tl.arange(0, padded_width)
    cells = slot[:, None] * width + at[None, :]
    inside = (slot[:, None] < slots) & (at[None, :] < width)
    old = tl.load(memory + cells, mask=inside, other=0.0)
    for head in range(heads):
        last = tl.load(last_weights + head * slots + slot, mask=slot < slots, other=0.0)
        focus, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _ = _address(
            emitted + head * size, old, last, slots, width, reach, padded_slots, padded_width, padded_shifts
        )
        tl.store(weights + head * slots + slot, focus, mask=slot < slots)
        read = tl.sum(focus[:, None] * old, 0)  # (2)
        tl.store(reads + head * width + at, read, mask=(at < width) & (head < num_reads))
    tl.debug_barrier()  # the weights of all heads are there
    written = weights + num_reads * slots
    left, added = _written(emitted, written, num_writes, heads * size, slots, width, -1, padded_slots, padded_width)
    tl.store(new_memory + cells, old * left + added, mask=inside)  # (3), (4)


@jit
def _backward(
    emitted, memory, last_weights, weights, grad_weights, grad_reads, grad_memory,
    to_emitted, to_memory, to_last, slots, width, reach, num_reads, num_writes,
    padded_slots: tl.constexpr, padded_width: tl.constexpr, padded_shifts: tl.constexpr,
):  # fmt: skip
    """The gradients of a step of one sequence."""
    item = tl.program_id(0).to(tl.int64)
    heads, size = num_reads + num_writes, width + 2 * reach + 4
    shifts = 2 * reach + 1
    emitted += item * (heads * size + 2 * num_writes * width)
    to_emitted += item * (heads * size + 2 * num_writes * width)
    memory, grad_memory, to_memory = (
        memory + item * slots * width,
        grad_memory + item * slots * width,
        to_memory + item * slots * width,
    )
    last_weights, to_last = last_weights + item * heads * slots, to_last + item * heads * slots
    weights, grad_weights = weights + item * heads * slots, grad_weights + item * heads * slots
    grad_reads += item * num_reads * width
    slot, at, place = tl.arange(0, padded_slots), tl.arange(0, padded_width), tl.arange(0, padded_shifts)
    cells = slot[:, None] * width + at[None, :]
    inside = (slot[:, None] < slots) & (at[None, :] < width)
    old = tl.load(memory + cells, mask=inside, other=0.0)
    grad = tl.load(grad_memory + cells, mask=inside, other=0.0)
    written = weights + num_reads * slots
    left, _ = _written(emitted, written, num_writes, heads * size, slots, width, -1, padded_slots, padded_width)
    total_memory = grad * left
    for head in range(heads):
        last = tl.load(last_weights + head * slots + slot, mask=slot < slots, other=0.0)
        (focus, key, key_length, strength, gate, shares, sharpness, units, lengths, alike,
         content, mixed, scaled, peak, logarithm, power, total) = _address(
            emitted + head * size, old, last, slots, width, reach, padded_slots, padded_width, padded_shifts
        )  # fmt: skip
        of_focus = tl.load(grad_weights + head * slots + slot, mask=slot < slots, other=0.0)
        of_read = tl.load(grad_reads + head * width + at, mask=(at < width) & (head < num_reads), other=0.0)
        of_focus += tl.sum(old * of_read[None, :], 1)
        total_memory += focus[:, None] * of_read[None, :]
        if head >= num_reads:
            number = head - num_reads
            others, _ = _written(
                emitted, written, num_writes, heads * size, slots, width, number, padded_slots, padded_width
            )
            places = heads * size + number * width + at
            erase = _sigmoid(tl.load(emitted + places, mask=at < width, other=0.0))
            add = _tanh(tl.load(emitted + places + num_writes * width, mask=at < width, other=0.0))
            erased = -grad * old * others
            of_focus += tl.sum(erased * erase[None, :] + grad * add[None, :], 1)
            of_erase = tl.sum(erased * focus[:, None], 0) * erase * (1.0 - erase)
            of_add = tl.sum(grad * focus[:, None], 0) * (1.0 - add * add)
            tl.store(to_emitted + places, of_erase, mask=at < width)
            tl.store(to_emitted + places + num_writes * width, of_add, mask=at < width)
        # back through (9): w = p / Σ p, p = x^γ
        of_power = (of_focus - tl.sum(of_focus * focus, 0)) / total
        of_sharpness = tl.sum(of_power * power * logarithm, 0)
        power_slope = precise_exp(_at_least((sharpness - 1.0) * logarithm, -100.0))
        power_slope = tl.where(scaled > 0.0, power_slope, tl.where(sharpness == 1.0, 1.0, 0.0))
        of_moved = of_power * sharpness * power_slope / tl.where(peak == 0.0, 1.0, peak)
        of_moved = tl.where(slot < slots, of_moved, 0.0)
        # (8)
        of_mixed, of_shares = tl.zeros([padded_slots], tl.float32), tl.zeros([padded_shifts], tl.float32)
        for number in range(shifts):
            share = tl.sum(tl.where(place == number, shares, 0.0), 0)
            of_mixed += share * tl.gather(of_moved, (slot + (number - reach) + slots) % slots, 0)
            source = (slot - (number - reach) + slots) % slots
            one = tl.sum(of_moved * tl.gather(mixed, source, 0), 0)
            of_shares += tl.where(place == number, one, 0.0)
        of_mixed = tl.where(slot < slots, of_mixed, 0.0)
        # (7)
        tl.store(to_last + head * slots + slot, (1.0 - gate) * of_mixed, mask=slot < slots)
        of_gate = tl.sum(of_mixed * (content - last), 0)
        of_content = gate * of_mixed
        # (5), (6)
        of_scores = content * (of_content - tl.sum(of_content * content, 0))
        of_strength = tl.sum(of_scores * alike, 0)
        of_alike = strength * of_scores
        of_unit = tl.sum(of_alike[:, None] * units, 0)
        of_key = (of_unit - key * tl.sum(key * of_unit, 0)) / tl.where(key_length == 0.0, 1.0, key_length)
        of_units = (key[None, :] - alike[:, None] * units) / tl.where(lengths == 0.0, 1.0, lengths)[:, None]
        total_memory += tl.where(lengths[:, None] == 0.0, 0.0, of_alike[:, None] * of_units)
        # from the ranges back to the raw numbers
        raw = to_emitted + head * size
        length_or_one = key * key_length  # tanh of the raw key
        of_key = tl.where(key_length == 0.0, 0.0, of_key) * (1.0 - length_or_one * length_or_one)
        tl.store(raw + at, of_key, mask=at < width)
        slope = _sigmoid(tl.load(emitted + head * size + width))  # of softplus
        tl.store(raw + width, of_strength * slope)
        tl.store(raw + width + 1, of_gate * gate * (1.0 - gate))
        of_shares = shares * (of_shares - tl.sum(of_shares * shares, 0))
        tl.store(raw + width + 2 + place, of_shares, mask=place < shifts)
        slope = _sigmoid(tl.load(emitted + head * size + width + 2 + shifts))
        tl.store(raw + width + 2 + shifts, of_sharpness * slope)
    tl.store(to_memory + cells, total_memory, mask=inside)


def memory_step(
    emitted: Float[Tensor, "b e"],
    memory: Float[Tensor, "b n w"],
    weights: Float[Tensor, "b h n"],
    *,
    read_heads: int,
    reach: int,
) -> tuple[Float[Tensor, "b h n"], Float[Tensor, "b r_w"], Float[Tensor, "b n w"]]:
    """From M_{t−1} and w_{t−1} to w_t, what was read, and M_t; for cosine scores, a softmax, and a shift.

    `emitted` are the raw numbers of the controller: for each head, those that read first, a key, its strength, the
    gate, the shares of 2 · reach + 1 shifts and the sharpness; then what all write heads erase, and what they add.
    Gradients flow to all three tensors, once.
    """
    refuse_transforms("memory_step")
    result: tuple[Tensor, Tensor, Tensor] = _MemoryStep.apply(
        emitted.contiguous(), memory.contiguous(), weights.contiguous(), read_heads, reach
    )
    return result


class _MemoryStep(torch.autograd.Function):
    """Keeps what went in and the new weights; the backward pass makes the rest again."""

    @staticmethod
    def forward(ctx, emitted, memory, before, read_heads, reach):
        (b, n, w), h = memory.shape, before.shape[1]
        weights, new_memory = torch.empty_like(before), torch.empty_like(memory)
        reads = memory.new_empty(b, read_heads * w)
        sizes = (n, w, reach, read_heads, h - read_heads)
        if b:
            with on(memory):
                _forward[(b,)](emitted, memory, before, weights, reads, new_memory, *sizes, **_padded(n, w, reach))
        ctx.save_for_backward(emitted, memory, before, weights)
        ctx.sizes = sizes
        return weights, reads, new_memory

    @staticmethod
    @once_differentiable
    def backward(ctx, of_weights, of_reads, of_memory):
        emitted, memory, before, weights = ctx.saved_tensors
        given = [grad.contiguous() for grad in (of_weights, of_reads, of_memory)]
        made = [torch.empty_like(x) for x in (emitted, memory, before)]
        (b, n, w), reach = memory.shape, ctx.sizes[2]
        if b:
            with on(memory):
                _backward[(b,)](
                    emitted, memory, before, weights, *given, *made, *ctx.sizes, **_padded(n, w, reach)
                )  # fmt: skip
        return *made, None, None


def _padded(slots: int, width: int, reach: int) -> dict[str, int]:
    """Sizes of tiles, and as many threads as leave 16 numbers of a memory to each."""
    padded_slots, padded_width = power_of_two(slots), power_of_two(width)
    warps = min(16, max(4, padded_slots * padded_width // 512))
    shifts = power_of_two(2 * reach + 1)
    return {"padded_slots": padded_slots, "padded_width": padded_width, "padded_shifts": shifts, "num_warps": warps}
