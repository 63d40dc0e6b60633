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
