"""Worst errors of `BlockKernel` and `SpecializedKernel` in doubles against fifty digits.

The reference diagonalizes the kernel in mpmath and is independent of the package: the full N x N matrix for small
networks; for up to some thousand samples the matrix on class averages, which is exact. Class sizes and kernel entries
span up to three decades, learning rates two. Times are 1e-6 to 1e3, inf, and the time scales of the modes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import mpmath
import numpy as np

from linsolve.systems.kernel_regime.block_kernel import BlockKernel
from linsolve.systems.kernel_regime.specialized_kernel import SpecializedKernel

TIMES = (0.0, 1e-6, 1e-4, 1e-2, 1.0, 1e2, 1e3, np.inf)
STEPS = (0, 1, 7, 100, 10_000)
REACH = {
    "r": "norm-wise, of |r0|",
    "loss": "relative, over 1 + eta lam_max t, starts in every mode",
    "predict": "norm-wise, of |f0_x| + largest change",
    "discrete": "norm-wise, of |r0|",
    "eigenvalues": "of the largest",
}


class Draw(NamedTuple):
    """One network: kernel values by class, class sizes, learning rate, start, and whether the reference is dense."""

    diagonal: np.ndarray
    pairs: np.ndarray
    sizes: np.ndarray
    eta: float
    r0: np.ndarray
    every_mode: bool
    dense: bool

    @property
    def labels(self) -> np.ndarray:
        """Return the class of each sample."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)


def draw(rng: np.random.Generator, kind: str, dense: bool) -> Draw:
    """Return a network with kernel values per class (kind "specialized") or shared by all classes (kind "block")."""
    count = int(rng.integers(2, 5 if dense else 9))
    sizes = np.maximum(1, (10 ** rng.uniform(0, 0.7 if dense else 3, count)).astype(int))
    if rng.random() < 0.3:
        sizes[:] = sizes[0]
    diagonal, within, between = np.sort(10 ** rng.uniform(-2, 1, 3))[::-1]
    if rng.random() < 0.3:  # nearly equal values: eigenvalues over many decades
        between, diagonal = within * (1 - 10 ** rng.uniform(-9, -1)), within * (1 + 10 ** rng.uniform(-9, -1))
    pairs = np.where(np.eye(count, dtype=bool), within, between)
    diagonal = np.full(count, diagonal)
    if kind == "specialized":  # a Gram matrix of class vectors, raised within classes
        vectors = rng.normal(size=(count, count)) * 10 ** rng.uniform(-1, 0.5)
        pairs = vectors @ vectors.T + np.diag(10 ** rng.uniform(-2, 0.5, count))
        pairs = (pairs + pairs.T) / 2
        diagonal = np.diag(pairs) + 10 ** rng.uniform(-2, 0.5, count)
    every_mode = bool(rng.random() < 0.5)
    # otherwise class averages only, without contrasts within classes
    r0 = rng.normal(size=sizes.sum()) if every_mode else np.repeat(rng.normal(size=count), sizes)
    return Draw(diagonal, pairs, sizes, float(10 ** rng.uniform(-1, 1)), r0, every_mode, dense)


def flow_of(d: Draw, kind: str) -> Any:
    """Return the flow of a network."""
    if kind == "specialized":
        return SpecializedKernel(d.diagonal, d.pairs, d.sizes, d.eta)
    return BlockKernel(d.diagonal[0], d.pairs[0, 0], d.pairs[0, 1], d.sizes, d.eta)


class Reference:
    """One network by its eigenvectors, in an mpmath context of fifty digits."""

    def __init__(self, d: Draw) -> None:
        self.mp = mp = mpmath.MPContext()
        mp.dps = 50
        self.labels, self.sizes, self.dense = d.labels.tolist(), d.sizes.tolist(), d.dense
        self.diagonal, self.pairs = mp.matrix(d.diagonal.tolist()), mp.matrix(d.pairs.tolist())
        self.eta, self.r0 = mp.mpf(d.eta), mp.matrix(d.r0.tolist())
        self.own = [self.diagonal[c] - self.pairs[c, c] for c in range(len(self.sizes))]
        if d.dense:
            n, c = len(self.labels), self.labels
            entry = lambda i, j: self.diagonal[c[i]] if i == j else self.pairs[c[i], c[j]]  # noqa: E731
            matrix, start = mp.matrix(n, n), self.r0
        else:
            self.roots = [mp.sqrt(m) for m in self.sizes]
            n, start = len(self.sizes), self.averages(self.r0)
            entry = lambda i, j: self.roots[i] * self.pairs[i, j] * self.roots[j] + (i == j) * self.own[i]  # noqa: E731
            matrix = mp.matrix(n, n)
        for i in range(n):
            for j in range(n):
                matrix[i, j] = entry(i, j)
        self.values, self.vectors = mp.eigsy(matrix)
        self.c = self.vectors.T * start

    def averages(self, r: Any) -> Any:
        """Return the sum over each class, divided by the root of its size."""
        sums = [self.mp.mpf(0)] * len(self.sizes)
        for c, value in zip(self.labels, r, strict=True):
            sums[c] += value
        return self.mp.matrix([s / root for s, root in zip(sums, self.roots, strict=True)])

    def of(self, function: Any) -> Any:
        """Return a function of the kernel, times the start."""
        mixed = self.vectors * self.mp.matrix([function(v) * c for v, c in zip(self.values, self.c, strict=True)])
        if self.dense:
            return mixed
        y, own = self.averages(self.r0), [function(v) for v in self.own]
        parts = zip(self.labels, self.r0, strict=True)
        return self.mp.matrix([mixed[c] / self.roots[c] + own[c] * (r - y[c] / self.roots[c]) for c, r in parts])

    def residual(self, t: float) -> Any:
        """Return the residuals at time t."""
        return self.of(lambda v: self.mp.exp(-self.eta * v * self.mp.mpf(t)) if np.isfinite(t) else self.mp.mpf(0))

    def change(self, t: float) -> Any:
        """Return minus the change of the output at a test point of each class."""
        end = lambda v: self.mp.exp(-self.eta * v * self.mp.mpf(t)) if np.isfinite(t) else 0  # noqa: E731
        moved = self.of(lambda v: (1 - end(v)) / v)
        totals = [self.mp.mpf(0)] * len(self.sizes)
        for c, value in zip(self.labels, moved, strict=True):
            totals[c] += value
        return self.pairs * self.mp.matrix(totals)

    def error(self, found: Any, exact: Any) -> Any:
        """Return the norm of the difference."""
        pairs = zip(np.ravel(found).tolist(), exact, strict=True)
        return self.mp.norm(self.mp.matrix([self.mp.mpf(a) - b for a, b in pairs]))


def errors(d: Draw, kind: str) -> dict[str, float]:
    """Return the worst error of every quantity over times and steps."""
    flow, ref, worst = flow_of(d, kind), Reference(d), dict.fromkeys(REACH, 0.0)
    mp, values = ref.mp, flow.blocks(np).values
    top = float(max(ref.values))
    size, clocks = mp.norm(ref.r0), 1 / (d.eta * values[values > 0])
    t = np.concatenate([TIMES, clocks])
    traj, classes = flow(t, d.r0), np.arange(len(d.sizes))
    f0_x = np.ones(len(classes))
    there, reached = flow.predict(t, d.r0, classes, f0_x), [ref.change(time) for time in t.tolist()]
    moved = max(mp.norm(v) for v in reached) + mp.norm(f0_x.tolist())

    def note(name: str, value: Any) -> None:
        worst[name] = float(np.maximum(worst[name], float(value)))  # also nan

    for i, time in enumerate(t.tolist()):
        r = ref.residual(time)
        note("r", ref.error(traj["r"][i], r) / size)
        if d.every_mode and (loss := mp.norm(r) ** 2 / 2) > 1e-290:
            note("loss", abs(mp.mpf(float(traj["loss"][i])) / loss - 1) / (1 + d.eta * top * time))
        note("predict", ref.error(there[i], mp.matrix(f0_x.tolist()) - reached[i]) / moved)
    step = 0.97 * float(flow.largest_step())
    for row, k in zip(flow.discrete(STEPS, d.r0, step=step)["r"], STEPS, strict=True):
        note("discrete", ref.error(row, ref.of(lambda v, k=k: (1 - mp.mpf(step) * ref.eta * v) ** k)) / size)
    found, counts = flow.eigenstructure()
    found = np.sort(np.repeat(found, counts))
    if d.dense:
        note("eigenvalues", max(abs(mp.mpf(a) - b) for a, b in zip(found.tolist(), ref.values, strict=True)) / top)
    return worst


def rows(kind: str = "block", seed: int = 0, draws: int = 40) -> list[tuple[str, float, str]]:
    """Return (quantity, worst error, measure of the error) over networks with dense and class-average references."""
    rng, worst = np.random.default_rng(seed), dict.fromkeys(REACH, 0.0)
    for k in range(draws):
        found = errors(draw(rng, kind, dense=k % 2 == 0), kind)
        worst = {name: max(value, found[name]) for name, value in worst.items()}
    return [(name, worst[name], REACH[name]) for name in REACH]


if __name__ == "__main__":
    for kind in ("block", "specialized"):
        for quantity, value, reach in rows(kind):
            print(f"{kind:12s} {quantity:12s} {value:9.1e}  {reach}")
