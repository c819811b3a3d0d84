"""Branch-free elementary functions on vectors by argument reduction and polynomials, each within 1.05 ulp.

Polynomials interpolate at Chebyshev points, in 40 digits, when first needed. Where a single rounding would be too
inaccurate, a quantity is a sum of two doubles; the rounding error of a product comes from a fused multiply-add. See the
rows "ours, compiled" in ``benchmarks/RESULTS.md``: the C library evaluates one number at a time.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from linsolve.engines.vectors import Vectors

__all__ = ["exp", "expm1", "fit", "hypot", "log", "log1p", "low_of_ln2", "polynomials", "power"]

_DIGITS = 40
_LN2 = math.log(2)
_ROOT_HALF = struct.unpack("<q", struct.pack("<d", math.sqrt(0.5)))[0]
Pair = tuple[str, str]


@lru_cache(maxsize=16)
def _context() -> Any:
    import mpmath

    context = mpmath.MPContext()
    context.dps = _DIGITS
    return context


def fit(name: str, points: list[Any]) -> tuple[float, ...]:
    """Return the coefficients, constant first, that interpolate a function of `_FITTED` at these points."""
    mp, count = _context(), len(points)
    table = [_FITTED[name](mp, x) for x in points]
    for level in range(1, count):  # Newton's divided differences
        for k in range(count - 1, level - 1, -1):
            table[k] = (table[k] - table[k - 1]) / (points[k] - points[k - level])
    found = [mp.mpf(0)] * count
    for k in range(count - 1, -1, -1):  # expanded into monomials
        found = [(found[j - 1] if j else 0) - points[k] * found[j] for j in range(count)]
        found[0] += table[k]
    return tuple(float(c) for c in found)


def chebyshev(low: Any, high: Any, count: int) -> list[Any]:
    """Return the Chebyshev points of an interval."""
    mp = _context()
    middle, half = (mp.mpf(high) + mp.mpf(low)) / 2, (mp.mpf(high) - mp.mpf(low)) / 2
    return [middle + half * mp.cos(mp.pi * (2 * k + 1) / (2 * count)) for k in range(count)]


def _squared(size: Any, count: int) -> list[Any]:
    """Return symmetric points in [-size, size] that minimize the interpolation error weighted with x^2.

    Their squares and 0 are the zeros of one Chebyshev polynomial.
    """
    mp, degree = _context(), count // 2 + 1
    zeros = [mp.cos(mp.pi * (2 * k + 1) / (2 * degree)) for k in range(degree)]
    found = [size * mp.sqrt((z - zeros[-1]) / (1 - zeros[-1])) for z in zeros[:-1]]
    return [sign * x for x in found for sign in (1, -1)]


def _exp_rest(mp: Any, r: Any) -> Any:
    return (mp.expm1(r) - r) / r**2 if r else mp.mpf(1) / 2


def _log_rest(mp: Any, z: Any) -> Any:
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) - 2 * s) / (s * z)


def _log_rest_of_two(mp: Any, z: Any) -> Any:
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) / (2 * s) - 1 - z / 3) / z**2


_FITTED: dict[str, Callable[[Any, Any], Any]] = {
    "exp": _exp_rest, "log": _log_rest, "log of two": _log_rest_of_two
}  # fmt: skip


@lru_cache(maxsize=1)
def polynomials() -> dict[str, tuple[float, ...]]:
    """Return the coefficients, constant first: of ``(exp(r) - 1 - r)/r^2``, and of the rests of logarithms."""
    half = _context().log(2) / 2 * (1 + _context().mpf(2) ** -40)
    s = (_context().sqrt(2) - 1) ** 2 * (1 + _context().mpf(2) ** -40)  # (m - 1)/(m + 1) at m = sqrt(2)
    return {
        "exp": fit("exp", _squared(half, 10)),
        "log": fit("log", chebyshev(0, s**2, 8)),
        "log of two": fit("log of two", chebyshev(0, s**2, 8)),
    }


@lru_cache(maxsize=1)
def low_of_ln2() -> float:
    """Return log 2 minus the nearest double."""
    return float(_context().log(2) - _LN2)


def _bounded(v: Vectors, x: str, below_zero: bool, moderate: bool) -> str:
    """Return an exponent, clipped to the limits beyond which exponentials overflow or vanish."""
    if not below_zero and not moderate:
        x = v.select(v.compare("gt", x, v.number(710.0)), v.number(710.0), x)
    return x if moderate else v.select(v.compare("lt", x, v.number(-746.0)), v.number(-746.0), x)


class _Remainder(NamedTuple):
    """Argument reduction ``x = k log 2 + rest``: k as real and as integer, ``2^k``, and the exact remainder."""

    n: str
    k: str
    power: str
    rest: str


def _remainder(v: Vectors, x: str) -> _Remainder:
    n, k, power = v.nearest(x, 1 / _LN2)
    return _Remainder(n, k, power, v.fma(n, v.number(-_LN2), x))


def _reduced(v: Vectors, x: str, x_low: str | None = None) -> tuple[_Remainder, str]:
    """Return `k` and `t` with ``exp(x + x_low) = 2^k (1 + rest + t)``, with exact `rest` and smaller `t`."""
    k, low = _remainder(v, x), v.number(-low_of_ln2())
    missing = v.op("mul", k.n, low) if x_low is None else v.fma(k.n, low, x_low)
    r = v.op("add", k.rest, missing)
    return k, v.fma(v.op("mul", r, r), v.polynomial(polynomials()["exp"], r), missing)


def exp(v: Vectors, x: str, below_zero: bool = False, moderate: bool = False) -> str:
    """Return the exponential; flags say that all numbers have the sign bit set, or are all within 700 of 0."""
    k, t = _reduced(v, _bounded(v, x, below_zero, moderate))
    p = v.op("add", k.rest, t)
    if moderate:  # bitwise equal, as no power of two is out of range
        return v.fma(k.power, p, k.power)
    return v.scaled(v.op("add", p, v.number(1.0)), k.n, k.k)


def expm1(v: Vectors, x: str, below_zero: bool = False, moderate: bool = False) -> str:
    """Return ``exp(x) - 1``, from the same reduction as `exp`.

    Below 0 it is the negative of ``(1 - 2^k) - 2^k (rest + t)``; above 0 the sum with ``2^k - 1`` is compensated for
    its rounding error.
    """
    one = v.number(1.0)
    k, t = _reduced(v, _bounded(v, x, below_zero, moderate))
    scale = k.power if moderate else v.scaled(one, k.n, k.k)
    # expm1(-0) = -0: both terms of the negative are +0
    below = v.negative(v.fma(v.negative(scale), v.op("add", k.rest, t), v.op("sub", one, scale)))
    if below_zero:
        return below
    whole, part = v.op("sub", scale, one), v.op("mul", scale, k.rest)
    total = v.op("add", whole, part)  # |part| < |whole|, or whole = 0
    low = v.op("sub", part, v.op("sub", total, whole))
    above = v.op("add", total, v.fma(scale, t, low))
    above = v.select(v.compare("gt", k.n, v.number(60.0)), exp(v, x, moderate=moderate), above)
    return v.copysign(v.select(v.compare("gt", k.n, v.number(0.0)), above, below), x)


def _two_sum(v: Vectors, a: str, b: str) -> Pair:
    total = v.op("add", a, b)
    back = v.op("sub", total, a)
    return total, v.op("add", v.op("sub", a, v.op("sub", total, back)), v.op("sub", b, back))


def _two_prod(v: Vectors, a: str, b: str) -> Pair:
    product = v.op("mul", a, b)
    return product, v.fma(a, b, v.negative(product))


def _split(v: Vectors, x: str) -> tuple[str, str]:
    """Return ``k`` and ``m`` in ``[sqrt(1/2), sqrt(2))`` with ``x = 2^k m``, for normal positive x."""
    bits = v.bits(x)
    k = v.whole_op("ashr", v.whole_op("sub", bits, v.integer(_ROOT_HALF)), v.integer(52))
    return k, v.of_bits(v.whole_op("sub", bits, v.whole_op("shl", k, v.integer(52))))


def _normal(v: Vectors, x: str) -> tuple[str, str]:
    """Return a positive number as ``x 2^-shift``, normal, and the shift."""
    tiny = v.compare("lt", x, v.number(2.0**-1022))
    return v.select(tiny, v.op("mul", x, v.number(2.0**54)), x), v.select(tiny, v.number(-54.0), v.number(0.0))


def _log_of_sum(v: Vectors, n: str, f: str, correction: Callable[[str], str]) -> str:
    """Return ``n log 2 + log(1 + f)`` plus `correction` evaluated at ``f/(2 + f)``."""
    high = float(math.ldexp(math.floor(math.ldexp(_LN2, 32)), -32))  # n * high is exact
    low = float(_context().log(2) - high)
    s = v.op("div", f, v.op("add", f, v.number(2.0)))
    z = v.op("mul", s, s)
    rest = v.op("mul", z, v.polynomial(polynomials()["log"], z))
    half = v.op("mul", v.op("mul", f, v.number(0.5)), f)
    small = v.fma(n, v.number(low), correction(s))
    inner = v.op("sub", half, v.fma(s, v.op("add", half, rest), small))
    return v.op("sub", v.op("mul", n, v.number(high)), v.op("sub", inner, f))


def _ends_of_log(v: Vectors, found: str, x: str, distance: str) -> str:
    """Insert the special values of a logarithm by the `distance` from its singularity: -inf, inf, nan."""
    found = v.select(v.compare("lt", x, v.infinity), found, x)
    found = v.select(v.compare("eq", distance, v.number(0.0)), v.number(-math.inf), found)
    return v.select(v.compare("lt", distance, v.number(0.0)), v.nan, found)


def log(v: Vectors, x: str) -> str:
    """Return the natural logarithm."""
    normal, shift = _normal(v, x)
    k, m = _split(v, normal)
    n = v.op("add", v.to_real(k), shift)
    return _ends_of_log(v, _log_of_sum(v, n, v.op("sub", m, v.number(1.0)), lambda s: v.number(0.0)), x, x)


def log1p(v: Vectors, x: str) -> str:
    """Return ``log(1 + x)``, with the rounding error of ``1 + x`` added, divided by ``1 + x``."""
    one = v.number(1.0)
    u, low = _two_sum(v, one, x)
    k, m = _split(v, u)
    n = v.to_real(k)
    near = v.compare("eq", n, v.number(0.0))
    f = v.select(near, x, v.op("sub", m, one))
    exact = v.logic("or", near, v.compare("ge", u, v.number(2.0**60)))
    low = v.select(exact, v.number(0.0), v.op("mul", low, v.power_of_two(v.whole_op("sub", v.integer(0), k))))

    def correction(s: str) -> str:
        # 1/(1 + f) = (1 - s)/(1 + s), needed to three digits only
        lower = v.op("sub", one, s)
        return v.op("mul", low, v.op("mul", v.op("mul", lower, lower), v.fma(s, s, one)))

    return _ends_of_log(v, v.copysign(_log_of_sum(v, n, f, correction), x), x, u)


def hypot(v: Vectors, x: str, y: str) -> str:
    """Return ``sqrt(x^2 + y^2)`` from squares of numbers scaled by a power of two, with their rounding errors."""
    a, b = v.unary("fabs", x), v.unary("fabs", y)
    less = v.compare("lt", a, b)
    large, small = v.select(less, b, a), v.select(less, a, b)
    exponent = v.whole_op("ashr", v.bits(large), v.integer(52))
    shift = v.whole_op("sub", v.integer(1023), exponent)
    n = v.to_real(shift)
    large, small = v.scaled(large, n, shift), v.scaled(small, n, shift)
    first, e = _two_prod(v, large, large)
    second, d = _two_prod(v, small, small)
    total = v.op("add", first, second)
    error = v.op("add", v.op("add", v.op("sub", v.op("sub", first, total), v.negative(second)), d), e)
    root = v.unary("sqrt", total)
    missing = v.op("add", v.fma(v.negative(root), root, total), error)
    twice = v.op("add", root, root)
    positive = v.compare("gt", root, v.number(0.0))
    root = v.op("add", root, v.op("div", missing, v.select(positive, twice, v.number(1.0))))
    found = v.scaled(root, v.negative(n), v.whole_op("sub", v.integer(0), shift))
    nothing = v.logic("or", v.is_nan(x), v.is_nan(y))
    found = v.select(nothing, v.nan, found)
    endless = v.logic("or", v.compare("eq", a, v.infinity), v.compare("eq", b, v.infinity))
    return v.select(endless, v.infinity, found)


def _log_of_two(v: Vectors, x: str) -> Pair:
    """Return the logarithm of a positive finite number as two doubles, to about 65 bits."""
    normal, shift = _normal(v, x)
    k, m = _split(v, normal)
    n = v.op("add", v.to_real(k), shift)
    f = v.op("sub", m, v.number(1.0))
    below, below_low = _two_sum(v, v.number(2.0), f)
    s = v.op("div", f, below)
    rest = v.fma(v.negative(s), below_low, v.fma(v.negative(s), below, f))
    s_low = v.op("div", rest, below)
    z, z_low = _two_prod(v, s, s)
    z_low = v.fma(v.op("add", s, s), s_low, z_low)
    # log m = 2 s (1 + z/3 + z^2 P(z))
    third = 1 / 3
    third_low = float(_context().mpf(1) / 3 - third)
    w, w_low = _two_prod(v, z, v.number(third))
    w_low = v.fma(z, v.number(third_low), v.fma(z_low, v.number(third), w_low))
    w_low = v.fma(v.op("mul", z, z), v.polynomial(polynomials()["log of two"], z), w_low)
    g, g_low = _two_sum(v, v.number(1.0), w)
    g_low = v.op("add", g_low, w_low)
    twice = v.op("add", s, s)
    p, p_low = _two_prod(v, twice, g)
    p_low = v.op("add", v.fma(v.op("add", s_low, s_low), g, p_low), v.op("mul", twice, g_low))
    whole, whole_low = _two_prod(v, n, v.number(_LN2))
    whole_low = v.fma(n, v.number(low_of_ln2()), whole_low)
    high, low = _two_sum(v, whole, p)
    low = v.op("add", low, v.op("add", whole_low, p_low))
    total = v.op("add", high, low)
    return total, v.op("add", v.op("sub", high, total), low)


def power(v: Vectors, x: str, y: str) -> str:
    """Return ``x^y`` for real `x` and `y`, as in the C library: nan for a negative `x` and a fractional `y`."""
    zero, one = v.number(0.0), v.number(1.0)
    size = v.unary("fabs", x)
    inside = v.logic("and", v.compare("gt", size, zero), v.compare("lt", size, v.infinity))
    high, low = _log_of_two(v, v.select(inside, size, one))
    e, e_low = _two_prod(v, y, high)
    e_low = v.fma(y, low, e_low)
    moderate = v.compare("lt", v.unary("fabs", e), v.number(800.0))
    k, t = _reduced(v, _bounded(v, e, False, False), v.select(moderate, e_low, zero))
    found = v.scaled(v.op("add", v.op("add", k.rest, t), one), k.n, k.k)
    # log 0 = -inf, log inf = inf
    outside = v.op("mul", y, v.select(v.compare("eq", size, zero), v.number(-math.inf), v.infinity))
    end = v.select(v.compare("gt", outside, zero), v.infinity, v.select(v.compare("lt", outside, zero), zero, v.nan))
    found = v.select(inside, found, end)
    found = v.select(v.logic("or", v.is_nan(x), v.is_nan(y)), v.nan, found)
    return _signed(v, found, x, y)


def _signed(v: Vectors, found: str, x: str, y: str) -> str:
    """Insert the sign of a power, nan for a negative number to a fractional power, and the powers equal to 1."""
    zero, one, half = v.number(0.0), v.number(1.0), v.op("mul", y, v.number(0.5))
    whole = v.compare("eq", v.unary("floor", y), y)
    odd = v.logic("and", whole, v.compare("ne", v.unary("floor", half), half))
    negative = v.pure(f"icmp slt {v.whole} {v.bits(x)}, {v.integer(0)}")
    found = v.select(v.logic("and", negative, odd), v.negative(found), found)
    infinite = v.compare("eq", v.unary("fabs", y), v.infinity)
    finite_base = v.compare("lt", v.unary("fabs", x), v.infinity)
    broken = v.logic("and", v.compare("lt", x, zero), v.logic("and", finite_base, v.opposite(whole)))
    found = v.select(v.logic("and", broken, v.opposite(infinite)), v.nan, found)
    minus = v.logic("and", v.compare("eq", x, v.number(-1.0)), infinite)
    sure = v.logic("or", v.logic("or", v.compare("eq", y, zero), v.compare("eq", x, one)), minus)
    return v.select(sure, one, found)
