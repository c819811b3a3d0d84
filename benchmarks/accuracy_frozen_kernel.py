"""Worst errors of `FrozenKernel` in doubles against the textbook formulas at fifty digits.

The reference diagonalizes the same kernel in mpmath, independently of the package. Kernels are ``A A^T`` with A of few
bits, so that a rank-deficient kernel is exactly singular and its rank is known.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import mpmath
import numpy as np

from linsolve.systems.kernel_regime.frozen_kernel import FrozenKernel

N = 40
TIMES = (0.0, 1e-9, 1e-3, 0.1, 1.0, 10.0, 1e3, np.inf)  # in units of 1/(eta lam_max)
STEPS = (0, 1, 7, 100, 10_000)
REACH = {
    "f": "norm-wise, of |f0| + |y|",
    "f, sloped": "norm-wise, of (|f0| + |y|)(1 + eta lam_max t)",
    "residual": "norm-wise, of |f0 - y|, sloped likewise",
    "loss": "relative, sloped likewise, full rank",
    "limit": "norm-wise, of |f0| + |y|",
    "predict": "norm-wise, of |f0_x| + largest change",
    "parameters_at": "norm-wise, of |theta0| + change",
    "discrete": "norm-wise, of |f0| + |y|",
    "heavy ball": "norm-wise, of |f0| + |y|",
}


class Draw(NamedTuple):
    """One network: Jacobians on training and test inputs, targets, learning rate, start."""

    jacobian: np.ndarray
    test: np.ndarray
    y: np.ndarray
    eta: float
    f0: np.ndarray

    @property
    def flow(self) -> FrozenKernel:
        return FrozenKernel(self.jacobian @ self.jacobian.T, self.y, self.eta)


def draw(rng: np.random.Generator, rank: int, slope: float = 0.0, n: int = N) -> Draw:
    """Return a network of `n` samples; `rank` eigenvalues of its kernel are positive."""
    scale = 10.0 ** -np.linspace(0, slope, rank)
    jacobian, test = (np.round(2**12 * rng.normal(size=(m, rank)) * scale) / 2**12 for m in (n, 3))
    size = 10.0 ** rng.uniform(-3, 3, 2)
    return Draw(jacobian, test, size[0] * rng.normal(size=n), rng.uniform(0.1, 10.0), size[1] * rng.normal(size=n))


class Reference:
    """One network by its eigenvectors, in an mpmath context of `digits` digits; `rank` eigenvalues are not zero."""

    def __init__(self, d: Draw, digits: int = 50) -> None:
        self.mp = mp = mpmath.MPContext()
        mp.dps = digits
        self.rank = d.jacobian.shape[1]
        exact = [mp.matrix(v.tolist()) for v in (d.jacobian, d.test, d.y, d.f0)]
        self.J, self.test, self.y, self.f0 = exact
        self.eta = mp.mpf(d.eta)
        values, self.V = mp.eigsy(self.J * self.J.T)
        n = len(self.y)
        self.values = [mp.mpf(0)] * max(n - self.rank, 0) + [values[i] for i in range(max(n - self.rank, 0), n)]
        self.top = self.values[-1]
        self.r0 = self.f0 - self.y
        self.c = self.V.T * self.r0

    def left(self, x: Any) -> Any:
        """Return ``exp(-x)``."""
        return self.mp.exp(-x)

    def residual(self, t: Any) -> Any:
        """Return ``f - y``."""
        return self._residual([self.left(self.eta * v * t) if v else 1 for v in self.values])

    def _residual(self, factors: list) -> Any:
        return self.V * self.mp.matrix([f * c for f, c in zip(factors, self.c, strict=True)])

    def change(self, t: Any) -> Any:
        """Return ``eta t phi(eta K t) (f0 - y)``, without its null part, which the rows of a kernel annihilate."""
        weights = [(1 - self.left(self.eta * v * t)) / v if v else 0 for v in self.values]
        return self._residual(weights)

    def descent(self, k: int, step: Any, momentum: Any) -> Any:
        """Return ``f - y`` after k steps, from the recurrence in every mode."""
        mp = self.mp
        factors = []
        for v in self.values:
            before, now = mp.mpf(1), mp.mpf(1)
            m = mp.mpf(step) * self.eta * v
            if momentum == 0:
                now = (1 - m) ** k
            else:
                for _ in range(k):
                    before, now = now, now - m * now + mp.mpf(momentum) * (now - before)
            factors.append(now)
        return self._residual(factors)

    def error(self, found: Any, exact: Any) -> Any:
        """Return the norm of the difference."""
        pairs = zip(np.ravel(found).tolist(), exact, strict=True)
        return self.mp.norm(self.mp.matrix([self.mp.mpf(a) - b for a, b in pairs]))


def errors(d: Draw, momentum: float = 0.9) -> dict[str, float]:
    """Return the worst error of every quantity over times and steps."""
    flow, ref = d.flow, Reference(d)
    mp, lam = ref.mp, float(ref.top) * d.eta
    worst = dict.fromkeys(REACH, 0.0)

    def note(name: str, found: Any, exact: Any, size: Any) -> None:
        worst[name] = float(np.maximum(worst[name], float(ref.error(found, exact) / size)))  # also nan

    t = np.array(TIMES) / lam
    traj, rows, theta0 = flow(t, d.f0), d.test @ d.jacobian.T, np.linspace(-1, 1, ref.rank)
    there, theta = flow.predict(t, d.f0, rows, d.test[:, 0]), flow.parameters_at(t, theta0, d.jacobian, d.f0)
    size, gap = mp.norm(ref.f0) + mp.norm(ref.y), mp.norm(ref.r0)
    moved = ref.J.T * ref.change(mp.inf)
    for i, time in enumerate(t):
        time = mp.inf if np.isinf(time) else mp.mpf(float(time))
        r, slope = ref.residual(time), 1 + (0 if time == mp.inf else ref.eta * ref.top * time)
        note("f", traj["f"][i], ref.y + r, size)
        note("f, sloped", traj["f"][i], ref.y + r, size * slope)
        note("residual", traj["residual"][i], r, gap * slope)
        if ref.rank >= len(ref.y) and (loss := mp.norm(r) ** 2 / 2) > 1e-290:
            note("loss", traj["loss"][i], [loss], loss * slope)
        change = ref.J.T * ref.change(time)
        test0 = mp.matrix(d.test[:, 0].tolist())
        note("predict", there[i], test0 - ref.test * change, mp.norm(test0) + mp.norm(ref.test) * mp.norm(moved))
        note("parameters_at", theta[i], mp.matrix(theta0.tolist()) - change, mp.norm(theta0.tolist()) + mp.norm(moved))
    note("limit", flow.limit(np, flow.State(d.f0)).f, ref.y + ref.residual(mp.inf), size)
    for name, b in (("discrete", 0.0), ("heavy ball", momentum)):
        step = 0.97 * float(flow.largest_step(b))
        steps = STEPS if b == 0 else STEPS[:-1]
        found = flow.discrete(steps, d.f0, step=step, momentum=b)["f"]
        for row, k in zip(found, steps, strict=True):
            note(name, row, ref.y + ref.descent(k, step, b), size)
    return worst


def rows(seed: int = 0, draws: int = 4) -> list[tuple[str, float, str]]:
    """Return (quantity, worst error, measure of the error) for well-conditioned and ill-conditioned kernels."""
    rng = np.random.default_rng(seed)
    out = []
    for kind, rank, slope in (("rank 25 of 40", 25, 0.0), ("rank 40 of 40, columns over 3 decades", N, 3.0)):
        worst = dict.fromkeys(REACH, 0.0)
        for _ in range(draws):
            found = errors(draw(rng, rank, slope))
            worst = {name: max(value, found[name]) for name, value in worst.items()}
        out += [(f"{name}, {kind}", worst[name], REACH[name]) for name in REACH if name != "loss" or rank == N]
    return out


if __name__ == "__main__":
    for quantity, value, reach in rows():
        print(f"{quantity:60s} {value:9.1e}  {reach}")
