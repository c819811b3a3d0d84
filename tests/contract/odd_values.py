"""Odd values in place of good ones: magnitudes, containers, dtypes, shapes, and objects that are no numbers."""

from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

MAGNITUDES = [
    0.0, -0.0, 5e-324, 2.3e-308, 1e-300, 1e-200, 1e-155, 1e-100, 1e-30, 1e-16, 1e-8,
    1e8, 1e16, 1e30, 1e100, 1e154, 1e155, 1e200, 1e300, 1.7e308,
]  # fmt: skip
JUNK = [
    None, "x", "", True, False, 10**400, -(10**400), 10**20, -1, 0, 2, 1.5, 1j, object(), {}, [], (), b"x", {"a": 1.0},
    [None], ["x"], [[1.0, 2.0], [3.0]], [10**400, 1.0], np.nan, np.inf, -np.inf, np.array([]), np.array(["x"]),
    np.array([object()]), np.zeros((0, 3)), np.datetime64("2020-01-01"), np.array([1 + 1j]), np.ma.masked,
    Fraction(1, 3), Decimal("0.5"), set(), frozenset({1.0}), range(3),
    lambda *_: None, "é" * 300, "a\x00b", [[]], [[[[1.0]]]],
]  # fmt: skip


class Odd(NamedTuple):
    """An argument's odd value: its kind, and the plain value that must give the same result, if there is one."""

    kind: str
    value: Any
    like: Any = None


def is_numeric(value: Any) -> bool:
    return isinstance(value, int | float | np.ndarray | list) and not isinstance(value, bool) and _is_real(value)


def _is_real(value: Any) -> bool:
    try:
        return np.asarray(value).dtype.kind in "fiu" and np.size(value) > 0
    except ValueError:
        return False


def odd(random: Any, value: Any) -> Odd:
    """Return an odd value in place of a good one, drawn from `random`."""
    if isinstance(value, tuple) and value and any(is_numeric(part) for part in value) and random.random() < 0.85:
        return _inside(random, value)
    if isinstance(value, list) and value and isinstance(value[0], np.ndarray) and random.random() < 0.85:
        return _inside(random, value)
    if not is_numeric(value):
        if isinstance(value, str) and random.random() < 0.3:
            return Odd("junk", random.choice([value + "x", value.upper(), value[:-1], f" {value}"]))
        return _no_number(random.choice(JUNK))
    make = random.choice([_junk, _entry, _entry, _scaled, _nonfinite, _held, _typed, _shaped])
    return make(random, value)


def _inside(random: Any, value: Any) -> Odd:
    """Return a tuple or list of arrays with one odd part."""
    k = random.choice([k for k, part in enumerate(value) if is_numeric(part)])
    kind, part, like = odd(random, value[k])

    def put(part: Any) -> Any:
        parts = [*value[:k], part, *value[k + 1 :]]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)

    return Odd(kind, put(part), None if like is None else put(like))


def _no_number(value: Any) -> Odd:
    """Return junk, which is of kind "number" if it may stand for real numbers."""
    real = _is_real(value) or isinstance(value, Fraction | Decimal | bool)
    real = real or (isinstance(value, int) and abs(value) < 10**308)
    return Odd("number" if real and not (isinstance(value, float) and np.isnan(value)) else "junk", value)


def _junk(random: Any, value: Any) -> Odd:
    return _no_number(random.choice(JUNK))


def _plain(value: Any, array: np.ndarray) -> Any:
    """Return an array as a Python number where the good value was one."""
    return float(array) if isinstance(value, int | float) else array


def _entry(random: Any, value: Any) -> Odd:
    array = np.array(value, dtype=float)
    array.flat[random.randrange(array.size)] = random.choice(MAGNITUDES) * random.choice([1, -1])
    return Odd("magnitude", _plain(value, array))


def _scaled(random: Any, value: Any) -> Odd:
    array = np.array(value, dtype=float)
    top = np.abs(array[np.isfinite(array)]).max(initial=0.0)
    array = np.where(np.isfinite(array), array, 1.0)
    array = array / max(top, 1e-300) * random.choice(MAGNITUDES) * random.choice([1, -1])
    return Odd("magnitude", _plain(value, array))


def _nonfinite(random: Any, value: Any) -> Odd:
    array = np.array(value, dtype=float)
    bad = random.choice([np.nan, np.inf, -np.inf])
    array.flat[random.randrange(array.size)] = bad
    return Odd("nan" if np.isnan(bad) else "inf", _plain(value, array))


def _held(random: Any, value: Any) -> Odd:
    """Return the same numbers in another container."""
    array = np.array(value, dtype=float)
    if isinstance(value, int):
        return Odd("held", random.choice([np.int64, np.int16, np.uint16])(value), value)
    makers = [_read_only, _strided, np.ma.array, lambda v: v.tolist(), _swapped]
    if array.ndim == 0:
        makers += [np.float64]
    if array.ndim in (1, 2):
        makers += [_pandas, _pandas]
    if array.ndim:
        makers += [np.asfortranarray, _xarray, lambda v: v.astype(object)]
    if np.asarray(value).dtype.kind in "iu":
        array = np.array(value)
    return Odd("held", random.choice(makers)(array), array)


def _read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


def _strided(array: np.ndarray) -> np.ndarray:
    return np.repeat(array, 2, axis=-1)[..., ::-2][..., ::-1] if array.ndim else array


def _swapped(array: np.ndarray) -> np.ndarray:
    return array.astype(array.dtype.newbyteorder())


def _pandas(array: np.ndarray) -> Any:
    import pandas

    return pandas.Series(array) if array.ndim == 1 else pandas.DataFrame(array)


def _xarray(array: np.ndarray) -> Any:
    import xarray

    return xarray.DataArray(array)


def _typed(random: Any, value: Any) -> Odd:
    """Return the numbers in another dtype, with the doubles that they stand for."""
    if isinstance(value, int):
        return Odd("typed", random.choice([np.int64, np.int32, np.uint64])(value), value)
    if np.asarray(value).dtype.kind in "iu":
        return Odd("typed", np.array(value).astype(random.choice([np.int8, np.uint64])), np.array(value))
    array = np.array(value, dtype=float)
    dtype = random.choice(
        [np.float32, np.float16, np.int32, np.int8, np.uint8, bool, np.longdouble, complex, str, object]
    )
    if np.dtype(dtype).kind in "iu":
        array = np.clip(np.round(array), 0, 100)
    with np.errstate(over="ignore"):
        typed = array.astype(dtype)
    kind = np.dtype(dtype).kind
    return Odd("junk" if kind in "cU" else "typed", typed, typed.astype(float) if kind in "fiub" else None)


def _shaped(random: Any, value: Any) -> Odd:
    array = np.array(value, dtype=float)
    makers = [
        lambda v: v[None],
        lambda v: np.stack([v, v]),
        lambda v: v[..., None],
        lambda v: np.float64(v.flat[0]),
        lambda v: np.zeros((0, *v.shape)),
        lambda v: np.full((3, 1, 2, *v.shape), v),
    ]
    if array.ndim:
        makers += [lambda v: v[:-1], lambda v: v.T, lambda v: np.concatenate([v, v]), lambda v: v[..., :1]]
        makers += [
            lambda v: [*v.tolist(), [[1.0]]],
            lambda v: np.ma.array(v, mask=np.arange(v.size).reshape(v.shape) == 0),
        ]
    return Odd("shaped", random.choice(makers)(array))
