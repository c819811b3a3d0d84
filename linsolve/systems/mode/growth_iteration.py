"""Initial guesses for the inverse of the time of a deep growth: one polynomial per member, in a function of time."""

from __future__ import annotations

from typing import Any, NamedTuple

from linsolve.numerics.scalar import full_like, where
from linsolve.systems.mode.growth_tables import Tables
from linsolve.systems.mode.growth_time import Start, far, horner, linear, saturation

__all__ = ["Path", "fall_of", "guess", "head_of"]

_HUGE = 1e300
_FAR = 1e15  # time after the end of a path, in units of its final clock, beyond which the path is negligible


class Path(NamedTuple):
    """A head or a fall, with the constants of a guess for ``e`` from the rescaled time ``T``.

    The guess is ``slope T + offset + scale W p(x)`` with ``W = first + change (T - origin)``. Here ``x`` is the square
    root of `W` where `from_rest` holds, else of ``1/W``.

    Parameters
    ----------
    n, z0, series : array
        As of a `Start`.
    terms : list of array
        Of `far`.
    slope, offset, scale, origin, first, change : array
    polynomial : list of array
        ``p``, constant first.
    from_rest : array of bool
    lowest, highest, low, high : array
        Ends of ``e`` and of ``l``.
    """

    n: Any
    z0: Any
    series: Any
    terms: list[Any]
    slope: Any
    offset: Any
    scale: Any
    origin: Any
    first: Any
    change: Any
    polynomial: list[Any]
    from_rest: Any
    lowest: Any
    highest: Any
    low: Any
    high: Any


def guess(xp: Any, time: Any, path: Path) -> Any:
    """Return a guess for ``e`` at rescaled times; unless the guess is linear, `l` is accurate to 1/50."""
    W = path.first + path.change * (time - path.origin)
    root = xp.sqrt(W)
    x = where(xp, path.from_rest, root, 1 / root)
    e = path.slope * time + path.offset + path.scale * W * horner(x, path.polynomial)
    return xp.minimum(xp.maximum(e, path.lowest), path.highest)


def head_of(xp: Any, at: Start, tables: Tables, hard: Any) -> Path:
    """Return the path of the head; where `hard` holds, its guess is linear in time."""
    one = full_like(xp, at.z0, 1)
    top = where(xp, at.negative, -one, 3 * one / 5)
    away = [where(xp, at.negative, a, b) for a, b in zip(tables.across, tables.down, strict=True)]
    z = at.z0 * xp.exp(at.end)
    power = xp.exp(at.n * at.end)
    way = linear(xp, at.end, at.n)
    spent = saturation(xp, at.end, at.n, at.z0, z, power, far(xp, z, at.rising)) - at.series
    G = at.z0 / where(xp, at.big, at.n + 1, one) + at.series
    within = xp.abs(z) > xp.abs(top) / 2  # otherwise saturation at the end is so weak that the path is linear
    limit = where(xp, at.n < 0, -(2.0**50 - 1) * one / 2.0**50 / where(xp, at.n < 0, at.n, -one), way)
    return Path(
        n=at.n,
        z0=where(xp, (at.end == 0) & ~at.negative, 3 * one / 5, at.z0),  # without a head any value but 1 is safe
        series=at.series,
        terms=at.rising,
        slope=where(xp, hard, way / where(xp, at.span > 0, at.span, one), one),
        offset=where(xp, hard, 0 * one, where(xp, at.big, G, -spent)),
        scale=where(xp, hard | ~within, 0 * one, where(xp, at.big, -power, power)),
        origin=where(xp, at.big, 0 * one, at.span),
        first=where(xp, at.big, (1 + at.n * G) / power, one),
        change=where(xp, at.big, at.n, -one / 2) / power,
        polynomial=[where(xp, at.big, a, b) for a, b in zip(away, tables.rising, strict=True)],
        from_rest=at.big,
        lowest=0 * one,
        highest=xp.minimum(way, limit),
        low=0 * one,
        high=at.end,
    )


def fall_of(xp: Any, at: Start, tables: Tables, hard: Any) -> Path:
    """Return the path of the fall, at negative times: backward from its start to ``a = -s``."""
    one, m = full_like(xp, at.z0, 1), at.m
    z0 = where(xp, at.negative, at.z_fall, -one)
    series = where(xp, at.negative, at.series_fall, far(xp, -one, at.falling))
    end = -xp.log(-z0)
    power, top = xp.exp(-m * end), far(xp, -one, at.falling)
    spent = saturation(xp, end, -m, z0, -one, power, top) - series
    span = linear(xp, end, -m) + spent
    return Path(
        n=-m,
        z0=z0,
        series=series,
        terms=at.falling,
        slope=where(xp, hard, 1 - z0, one),
        offset=where(xp, hard, 0 * one, -spent),
        scale=where(xp, hard, 0 * one, power),
        origin=span,
        first=one,
        change=-one / (2 * xp.maximum(power, one / _FAR)),
        polynomial=tables.falling,
        from_rest=hard & ~hard,
        lowest=-_HUGE * one,
        highest=0 * one,
        low=-_HUGE * one,
        high=0 * one,
    )
