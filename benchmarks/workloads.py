"""Workloads of our evaluations and the peers, with reference solutions to fifty digits."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import linsolve as ls
from linsolve import arithmetic

__all__ = [
    "DEPTHS", "FULL", "Kernel", "Modes", "Networks", "deep_modes", "error_of_modes", "error_of_networks", "kernel",
    "modes", "networks",
]  # fmt: skip

FULL = {"W1": 1_000_000, "W2": 1_000_000, "W3": 2000, "W4": 100_000, "W6": 1999, "W8": 500}
TIMES = 64
DEPTHS = (3.0, 4.0, 5.0, np.inf)
CHECKED = 12, 16  # members and times evaluated to fifty digits


class Modes(NamedTuple):
    """An ensemble of modes of one depth: singular values, starts, times."""

    depth: float
    s: np.ndarray
    a0: np.ndarray
    t: np.ndarray

    @property
    def flow(self) -> Any:
        """The flow with the closed form of these modes."""
        return ls.BalancedMode(s=self.s) if self.depth == 2 else ls.DeepMode(s=self.s, depth=self.depth)

    def few(self, members: int) -> Modes:
        """Return the first members only."""
        return self._replace(s=self.s[:members], a0=self.a0[:members])


def modes(members: int = FULL["W1"], times: int = TIMES) -> Modes:
    """Return balanced modes from small starts, at times from the plateau to the end of learning."""
    rng = np.random.default_rng(1)
    return Modes(2, rng.uniform(0.5, 3.0, members), 10 ** rng.uniform(-4, -2, members), np.linspace(0, 10, times))


def deep_modes(depth: float, members: int = FULL["W4"], times: int = TIMES) -> Modes:
    """Return modes of one depth, all of which are learned within the times."""
    rng = np.random.default_rng(2)
    s = rng.uniform(0.5, 3.0, members)
    return Modes(depth, s, s * rng.uniform(0.02, 0.2, members), np.linspace(0, 40, times))


def error_of_modes(problem: Modes, found: np.ndarray) -> float:
    """Return the largest error of the first few members, relative to the value.

    For deep modes it is also divided by one plus the condition, which bounds the effect of rounding the time once.
    """
    xp, few = arithmetic.precise(50), problem.few(CHECKED[0])
    flow, at = few.flow.cast(xp), np.unique(np.linspace(0, len(few.t) - 1, CHECKED[1]).astype(int))
    t, z0 = xp.asarray(few.t[at])[:, None], flow.State(xp.asarray(few.a0))
    state = flow.solution(xp, t, z0)
    gap = found[at][:, : len(few.s)].astype(object) - state.a
    error = np.abs(arithmetic.to_numpy(gap / state.a))
    if problem.depth != 2:
        error = error / (1 + np.abs(arithmetic.to_numpy(t * flow.velocity(xp, state).a / state.a)))
    return float(error.max())


class Networks(NamedTuple):
    """Two-layer networks on one data point of one dimension: weights of both layers, and times."""

    u: np.ndarray
    w: np.ndarray
    t: np.ndarray
    gamma: float
    names: tuple[str, ...] = ("loss", "alignment", "ntk")

    @property
    def flow(self) -> Any:
        """The flow of all weights."""
        return ls.TwoLayer(y=1.0, gamma=self.gamma, eta_u=1.0, eta_w=1.0, x=[1.0])

    def few(self, members: int) -> Networks:
        """Return the first members only."""
        return self._replace(u=self.u[:members], w=self.w[:members])

    def of_weights(self) -> tuple[Any, Any]:
        """Return the flow of the order parameters and its start."""
        return ls.TwoLayerOrder.of(self.flow, ls.TwoLayer.State(u=self.u, w=self.w[..., None]))


def networks(members: int = FULL["W3"], width: int = 1000, times: int = TIMES) -> Networks:
    """Return random networks in the scaling with a changing kernel."""
    rng = np.random.default_rng(3)
    u, w = rng.normal(size=(2, members, width))
    return Networks(u, w, np.linspace(0.0, 2.0, times), width**-0.5)


def error_of_networks(problem: Networks, found: dict[str, np.ndarray]) -> float:
    """Return the largest error of loss, alignment and kernel of two members, relative to the largest value in time."""
    xp, few, worst = arithmetic.precise(50), problem.few(2), 0.0
    flow = few.flow.cast(xp)
    z0 = flow.State(u=xp.asarray(few.u), w=xp.asarray(few.w[..., None]))
    at = np.unique(np.linspace(0, len(few.t) - 1, 4).astype(int))
    t = xp.asarray(few.t[at])[:, None]
    state, along = flow.solution(xp, t, z0), flow.along(xp, t, z0)
    for name in problem.names:
        exact = along[name] if name in along else getattr(flow, name)(xp, state)
        gap = found[name][at][:, : len(few.u)].astype(object) - exact
        off, size = (np.abs(arithmetic.to_numpy(each)).max() for each in (gap, exact))
        worst = float(np.maximum(worst, off / size))  # also nan
    return worst


class Kernel(NamedTuple):
    """A dense kernel with exactly known eigenvalues and eigenvectors, and one target."""

    matrix: np.ndarray
    signs: np.ndarray
    values: np.ndarray
    y: np.ndarray
    t: np.ndarray

    def error(self, found: np.ndarray) -> float:
        """Return the largest error of sampled outputs, relative to the target's root mean square, to fifty digits."""
        import mpmath

        mp, n, worst = mpmath.MPContext(), len(self.y), 0.0
        mp.dps = 50
        inside = self.signs.astype(np.int64) @ np.round(self.y).astype(np.int64)  # integers: exact
        size = float(np.sqrt(np.mean(self.y**2)))
        for k in (0, len(self.t) // 3, len(self.t) - 1):
            left = [mp.exp(-mp.mpf(v) * mp.mpf(t)) * int(c) for v, c in zip(self.values, inside, strict=True)
                    for t in (self.t[k],)]  # fmt: skip
            for j in range(0, n, max(1, n // 8)):
                f = mp.mpf(self.y[j]) - mp.fsum(v * int(h) for v, h in zip(left, self.signs[:, j], strict=True)) / n
                worst = float(np.maximum(worst, abs(float(mp.mpf(found[k, j]) - f)) / size))  # also nan
        return worst


def paley(q: int) -> np.ndarray:
    """Return the Paley Hadamard matrix of order ``q + 1``, for a prime q congruent to 3 modulo 4."""
    square = np.full(q, -1)
    square[np.arange(1, q) ** 2 % q] = 1
    square[0] = 0
    skew = np.zeros((q + 1, q + 1), dtype=int)
    skew[0, 1:], skew[1:, 0] = 1, -1
    skew[1:, 1:] = square[(np.arange(q)[None, :] - np.arange(q)[:, None]) % q]
    return skew + np.eye(q + 1, dtype=int)


def kernel(q: int = FULL["W6"], stiffness: float = 100.0, times: int = 100) -> Kernel:
    """Return a kernel of order ``q + 1`` with eigenvalues falling as ``i^-3/2``, as for tangent kernels.

    Eigenvectors are the rows of a Hadamard matrix and the eigenvalues have few bits, so that every entry of the kernel
    and every partial sum is exact in double precision. The target has components of equal size on all eigenvectors, the
    worst case; `stiffness` is the largest eigenvalue times the last time.
    """
    n, signs = q + 1, paley(q).astype(float)
    weights = np.round(2.0**40 * np.arange(1.0, n + 1) ** -1.5) / 2**40
    matrix = (signs.T * weights) @ signs
    y = np.random.default_rng(4).integers(-8, 9, n).astype(float)
    return Kernel(matrix, signs, n * weights, y, np.linspace(0.0, stiffness / n, times))
