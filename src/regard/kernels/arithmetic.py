# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-calls=False
# mypy: disallow-untyped-decorators=False, implicit-reexport=True
"""Arithmetic inside Triton kernels that keeps its digits: tanh, exp, and products of matrices in float32."""

from regard.kernels.launch import INTERPRETED, jit, tl


@jit
def reciprocal(x):
    """1/x in one instruction, good to one unit in the last place."""
    if INTERPRETED:
        result = 1.0 / x
    else:
        result = tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    return result


@jit
def at_most(x, bound):
    """The smaller of the two, or not a number if x is none."""
    return tl.minimum(x, bound, propagate_nan=tl.PropagateNan.ALL)


@jit
def within(x, bound):
    """x between −bound and bound, or not a number if x is none."""
    return tl.maximum(at_most(x, bound), -bound, propagate_nan=tl.PropagateNan.ALL)


@jit
def falling(sums):
    """r = 1/(1 + exp(2s)), so that tanh(s) = 1 − 2r, for any s."""
    return reciprocal(1.0 + tl.exp(2.0 * within(sums, 20.0)))  # beyond 20, tanh is ±1 in float32


@jit
def signed_falling(sums):
    """r of |s|, with the sign of s: small where tanh is near ±1, so that 1 − tanh² = 4 (|r| − r²) keeps its digits."""
    r = falling(tl.abs(sums))
    return tl.where(sums < 0.0, -r, r)


@jit
def signed_tanh(r):
    """tanh(s) from it."""
    return tl.where(r < 0.0, -1.0, 1.0) - 2.0 * r


@jit
def precise_exp(x):
    """exp(x), good to one unit in the last place for every finite x; the plain one loses digits with the size of x."""
    power = tl.floor(x * 1.4426950408889634 + 0.5)
    rest = (x - power * 0.693359375) + power * 2.12194440e-4  # ln 2 in two parts, the first with few digits
    series = rest * (1.0 / 5040) + 1.0 / 720  # the series of exp: |rest| is below 0.35, and its square below 1/8
    series = rest * series + 1.0 / 120
    series = rest * series + 1.0 / 24
    series = rest * series + 1.0 / 6
    series = rest * series + 0.5
    return (rest * rest * series + rest + 1.0) * tl.exp2(power)


@jit
def _short(x):
    """x, rounded to the ten bits that the matrix units have for float32."""
    return ((x.to(tl.int32, bitcast=True) + 4096) & -8192).to(tl.float32, bitcast=True)


@jit
def _halves(x):
    """x as a sum of two short numbers, but for its last bit."""
    high = _short(x)
    return high, _short(x - high)


@jit
def dot(left, right):
    """left @ right. The matrix units have ten bits for float32: three products of halves give 22.

    Sums over many tiles are added outside: the matrix units cut off what does not fit, and it adds up.
    """
    if left.dtype == tl.float32:
        high, low = _halves(left)
        top, rest = _halves(right)
        total = tl.dot(low, top, input_precision="tf32")
        total = tl.dot(high, rest, total, input_precision="tf32")
        total = tl.dot(high, top, total, input_precision="tf32")
    elif INTERPRETED:  # which takes the bits of bfloat16 for numbers
        total = tl.dot(left.to(tl.float32), right.to(tl.float32))
    else:
        total = tl.dot(left, right)
    return total
