"""Worst errors of `WhitenedTwoLayer` in doubles against 50 digits, and statistics of random balanced starts.

The reference starts from weights that are lambda-balanced to 60 digits; the closed form in doubles from the state
rounded to doubles. Errors are relative to the largest entry of each field at each time. Near a saddle the rounded start
determines the state at time t only to `c` ulps, which bounds every method from below. This condition is measured by
high-precision evaluation from weights rounded to doubles, and listed with the error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from linsolve import WhitenedTwoLayer, arithmetic
from linsolve.systems.whitened.matrix_riccati import matrix_riccati

SHAPES = ((3, 10, 5), (5, 5, 5), (5, 2, 5), (2, 3, 4), (4, 4, 2), (1, 1, 1))
IMBALANCES = (0.0, 1e-6, -1e-6, 1.0, -1.0)
SCALES = (1e-8, 1e-4, 1e-1, 1e0, 1e1)
TIMES = np.asarray([1e-6, 1e-3, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 400.0, np.inf])
REACH = 1e-12


class Case(NamedTuple):
    """A network, its exact trajectory, and the effect of rounded weights on it, per time."""

    shape: tuple[int, int, int]
    imbalance: float
    scale: float
    target: np.ndarray
    start: Any
    exact: list[np.ndarray]
    condition: np.ndarray


def legal(shape: tuple[int, int, int], imbalance: float) -> bool:
    """Whether weights of this shape can have this imbalance."""
    return shape[1] <= (shape[2] if imbalance > 0 else shape[0]) if imbalance else True


def precise_weights(
    xp: Any, shape: tuple[int, int, int], imbalance: float, scale: float, rng: np.random.Generator
) -> tuple[Any, Any]:
    """Return weights that are lambda-balanced to the precision of `xp`."""
    n_in, width, n_out = shape
    rank = min(shape)

    def orthonormal(rows: int, columns: int) -> Any:
        return xp.linalg.qr(xp.asarray(rng.normal(size=(rows, columns))))[0]

    values = np.zeros(width)
    drawn = rng.normal(size=(width, max(n_in, n_out))) * scale / np.sqrt(width)
    values[:rank] = np.linalg.svd(drawn, compute_uv=False)[:rank]
    least = xp.asarray(values)
    most = xp.sqrt(least * least + abs(xp.asarray(imbalance)))
    first, second = (least, most) if imbalance >= 0 else (most, least)
    hidden = orthonormal(width, width)

    def layer(size: Any, n: int) -> Any:
        k = min(n, width)
        return (hidden[:, :k] * size[:k]) @ xp.matrix_transpose(orthonormal(n, k))

    return layer(first, n_in), xp.matrix_transpose(layer(second, n_out))


def cases(
    shape: tuple[int, int, int],
    imbalance: float,
    rng: np.random.Generator,
    *,
    times: np.ndarray = TIMES,
    scales: tuple[float, ...] = SCALES,
    dps: int = 60,
) -> Iterator[Case]:
    """Yield one network per scale, with its exact trajectory."""
    xp = arithmetic.precise(dps)

    def follow(w1: Any, w2: Any, target: np.ndarray) -> list[np.ndarray]:
        state = WhitenedTwoLayer.of(w1, w2)
        found = matrix_riccati(xp, xp.asarray(times), xp.asarray(target), *state)
        return [arithmetic.to_numpy(v) for v in found]

    for scale in scales:
        w1, w2 = precise_weights(xp, shape, imbalance, scale, rng)
        target = rng.normal(size=(shape[2], shape[0]))
        exact = follow(w1, w2, target)
        rounded = follow(*(xp.asarray(arithmetic.to_numpy(w)) for w in (w1, w2)), target)
        start = [arithmetic.to_numpy(v) for v in WhitenedTwoLayer.of(w1, w2)]
        yield Case(shape, imbalance, scale, target, start, exact, difference(rounded, exact))


def difference(found: Any, exact: Any) -> np.ndarray:
    """Return the largest difference of any field, relative to that field's largest entry, per time."""
    worst = []
    for a, b in zip(found, exact, strict=True):
        size = np.abs(b).max(axis=(-2, -1))
        worst.append(np.abs(np.asarray(a) - b).max(axis=(-2, -1)) / np.where(size > 0, size, 1.0))
    return np.max(worst, axis=0)


def rows(seed: int = 0) -> list[tuple[str, float, float]]:
    """Return shape and imbalance, worst error and bound; ill-conditioned members separately with their condition."""
    rng = np.random.default_rng(seed)
    found = []
    for shape in SHAPES:
        for imbalance in IMBALANCES:
            if not legal(shape, imbalance):
                continue
            worst, steep, reach, count = 0.0, 0.0, 0.0, 0
            for case in cases(shape, imbalance, rng):
                got = matrix_riccati(np, TIMES, case.target, *case.start)
                error, hard = difference(got, case.exact), 10 * case.condition > REACH
                worst = float(np.maximum(worst, error[~hard].max(initial=0.0)))  # also nan
                steep, reach = max(steep, error[hard].max(initial=0.0)), max(reach, case.condition.max())
                count += int(hard.sum())
            name = f"{'-'.join(map(str, shape))}, imbalance {imbalance:g}"
            found.append((name, float(worst), REACH))
            if count:
                found.append((f"{name}, {count} states ill-conditioned in the start", float(steep), float(10 * reach)))
    return found


def starts(count: int = 400, seed: int = 0) -> list[tuple[str, int, int, int, float]]:
    """Return shape, counts of starts, refused and obstructed, and the worst difference to DOP853 on the weights.

    Differences are relative to the largest entry of the product, at times before rounding errors escape a saddle.
    """
    from linsolve import NotExact

    found = []
    for shape in ((2, 4, 2), (5, 5, 5), (5, 10, 5), (8, 8, 8)):
        rng = np.random.default_rng(seed)
        w1, w2 = WhitenedTwoLayer.init(*shape, scale=0.5, batch=(count,), rng=rng)
        target = rng.normal(size=(count, shape[2], shape[0]))
        times = np.asarray([0.5, 1.0, 2.0])
        refused, obstructed, worst = 0, 0, 0.0
        for one, a, b in zip(target, w1, w2, strict=True):
            flow, start = WhitenedTwoLayer(one), WhitenedTwoLayer.of(a, b)
            obstructed += int(flow.obstructed(np, start))
            try:
                exact = flow(times, start)["product"]
            except NotExact:
                refused += 1
                continue
            size = np.abs(exact).max(axis=(-2, -1), keepdims=True)
            worst = float(np.maximum(worst, (np.abs(simulated(one, a, b, times) - exact) / size).max()))  # also nan
        found.append(("-".join(map(str, shape)), count, refused, obstructed, worst))
    return found


def simulated(target: np.ndarray, w1: np.ndarray, w2: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return the product by DOP853 on the weights, independently of the closed form."""
    from scipy.integrate import solve_ivp

    cut = w1.size

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        a, b = y[:cut].reshape(w1.shape), y[cut:].reshape(w2.shape)
        gap = target - b @ a
        return np.concatenate([(b.T @ gap).ravel(), (gap @ a.T).ravel()])

    y0 = np.concatenate([w1.ravel(), w2.ravel()])
    y = solve_ivp(rate, (0.0, times[-1]), y0, "DOP853", times, rtol=1e-12, atol=1e-14).y.T
    return y[:, cut:].reshape(-1, *w2.shape) @ y[:, :cut].reshape(-1, *w1.shape)
