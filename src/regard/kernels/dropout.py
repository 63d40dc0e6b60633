# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False, implicit-reexport=True
"""Dropout inside Triton kernels: the noise depends on seed and place alone, so that every kernel draws the same."""

from regard.kernels.launch import jit, tl


@jit
def kept(seed, item, rows, columns, dropout):
    """Which weights [rows, columns] of one batch item survive dropout: the same in every kernel."""
    zeros = tl.zeros([rows.shape[0], columns.shape[0]], tl.int32)
    number, _, _, _ = tl.philox(
        tl.load(seed), zeros + columns[None, :], zeros + rows[:, None], zeros + item.to(tl.int32), zeros
    )
    return tl.uint_to_uniform_float(number) >= dropout


@jit
def kept_turned(seed, item, rows, columns, dropout):
    """The same as [columns, rows], for kernels that have one row of a tile for each key."""
    zeros = tl.zeros([columns.shape[0], rows.shape[0]], tl.int32)
    number, _, _, _ = tl.philox(
        tl.load(seed), zeros + columns[:, None], zeros + rows[None, :], zeros + item.to(tl.int32), zeros
    )
    return tl.uint_to_uniform_float(number) >= dropout


@jit
def kept_in_rows(seed, site, rows, groups, threshold, rows_per_draw):
    """Which numbers [rows, groups, 8] survive where eight neighbours share one draw; `threshold` is 65,536 times p.

    A draw is four numbers of 32 bits, and 16 bits decide for each neighbour. `site` says which layer it is, where
    several share a seed. Of `rows_per_draw` neighbouring rows all keep the same numbers; 1: each row has its own draw.
    """
    draws = rows.to(tl.int32) // rows_per_draw
    zeros = tl.zeros([rows.shape[0], groups.shape[0]], tl.int32)
    first, second, third, fourth = tl.philox(
        tl.load(seed), zeros + groups[None, :], zeros + draws[:, None], zeros + site, zeros, 7
    )
    eight = tl.arange(0, 8)[None, None, :]
    low = tl.where(eight < 2, first[:, :, None], second[:, :, None])
    high = tl.where(eight < 6, third[:, :, None], fourth[:, :, None])
    number = tl.where(eight < 4, low, high).to(tl.uint32, bitcast=True)
    half = tl.where(eight % 2 == 0, number & 0xFFFF, number >> 16)
    return half.to(tl.int32) >= threshold
