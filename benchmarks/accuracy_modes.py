"""Worst errors of `HiddenMode` and `BiasedMode` in doubles against their textbook forms at fifty digits and more.

`HiddenMode`: the Riccati solution of ``G = |g+|^2`` of its docstring, with enough digits for its differences.
`BiasedMode`: weights as functions of sigma, and the time to sigma by quadrature of its integral. The references are
independent of the package. Rates span four decades, starts six or more. Times are 1e-6 to 1e3 and inf, for `HiddenMode`
up to sixty initial time scales, for `BiasedMode` up to a relative distance of sigma from its limit of 1e-13.
"""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np

from linsolve.systems.mode.biased_mode import BiasedMode
from linsolve.systems.two_layer.hidden_mode import HiddenMode

HIDDEN = {
    "w, h": "norm-wise",
    "residual": "relative",
    "loss": "relative",
    "ntk": "relative",
    "limit": "norm-wise",
    "time_to": "relative, over 1 + 1/condition",
}
BIASED = {
    "w, h, B": "norm-wise, of the largest of start and state",
    "residual": "relative, over 1 + ntk t",
    "loss": "relative, over 1 + ntk t",
    "limit": "norm-wise, of the largest of start and limit",
    "time_to": "relative, over 1 + 1/condition",
}
PARTS = (1e-6, 1e-2, 0.3, 0.7, 0.95, 1 - 1e-4, 1 - 1e-7, 1 - 1e-10, 1 - 1e-13)


def context(digits: int) -> Any:
    """Return a new mpmath context."""
    mp = mpmath.MPContext()
    mp.dps = digits
    return mp


def distance(found: Any, exact: list) -> float:
    """Return the largest error of an entry."""
    pairs = zip(np.ravel(found).tolist(), exact, strict=True)
    return max(abs(float(x - e)) for x, e in pairs)


def largest(*exact: list) -> float:
    """Return the largest entry."""
    return max(abs(float(e)) for values in exact for e in values)


class Hidden:
    """One mode by the Riccati solution, for nonzero ``g+`` and ``g-``."""

    def __init__(self, s: float, eta_w: float, eta_h: float, w: np.ndarray, h: np.ndarray) -> None:
        self.mp = mp = context(300)
        self.s, self.a, self.b = mp.mpf(s), mp.mpf(eta_w), mp.mpf(eta_h)
        self.k = mp.sqrt(self.a * self.b)
        left = [mp.sqrt(self.b) * mp.mpf(x) for x in w.tolist()]
        right = [mp.sqrt(self.a) * mp.mpf(x) for x in h.tolist()]
        self.plus, self.minus = ([x + q * y for x, y in zip(left, right, strict=True)] for q in (1, -1))
        self.g0, self.d0 = (mp.fsum(x * x for x in v) for v in (self.plus, self.minus))
        self.omega = mp.sqrt(4 * self.k**2 * self.s**2 + self.g0 * self.d0)

    def at(self, t: float) -> tuple[list, Any, Any]:
        """Return the weights, the residual and the kernel at time t."""
        mp, g0, d0 = self.mp, self.g0, self.d0
        turn = mp.tanh(self.omega * mp.mpf(t) / 2) if np.isfinite(t) else mp.mpf(1)
        pull = 2 * self.k * self.s
        g = (g0 * (self.omega + pull * turn) + g0 * d0 * turn) / (self.omega + (g0 - pull) * turn)
        up = mp.sqrt(g / g0)
        turned = [(x * up, y / up) for x, y in zip(self.plus, self.minus, strict=True)]
        w = [(x + y) / (2 * mp.sqrt(self.b)) for x, y in turned]
        h = [(x - y) / (2 * mp.sqrt(self.a)) for x, y in turned]
        return w + h, (g - g0 * d0 / g) / (4 * self.k) - self.s, (g + g0 * d0 / g) / 2


def hidden_rows(seed: int = 0, draws: int = 600) -> list[tuple[str, float, str]]:
    """Return (quantity, worst error, measure of the error) for `HiddenMode`."""
    rng, worst = np.random.default_rng(seed), dict.fromkeys(HIDDEN, 0.0)
    for _ in range(draws):
        s = float(rng.choice([-1, 1]) * 10 ** rng.uniform(-2, 2))
        a, b = (10 ** rng.uniform(-2, 2, 2)).tolist()
        w, h = (10 ** rng.uniform(-12, 1) * rng.normal(size=3) for _ in range(2))
        clock = 1 / (np.sqrt(a * b) * abs(s) + a * h @ h + b * w @ w)
        t = float(10 ** rng.uniform(-6, 3) if rng.random() < 0.5 else clock * 10 ** rng.uniform(-3, 1.5))
        t = min(t, 60 * clock)  # the loss does not underflow
        flow, exact = HiddenMode(s=s, eta_w=a, eta_h=b), Hidden(s, a, b, w, h)
        traj, end, z0 = flow(t, (w, h)), flow(np.inf, (w, h)), flow.State(w, h)
        weights, r, ntk = exact.at(t)
        last = exact.at(np.inf)[0]
        loss = r * r / 2
        found = {
            "w, h": distance(np.concatenate([traj["w"], traj["h"]]), weights) / largest(weights),
            "residual": abs(float(exact.mp.mpf(float(traj["residual"])) / r - 1)),
            "loss": abs(float(exact.mp.mpf(float(traj["loss"])) / loss - 1)),
            "ntk": abs(float(exact.mp.mpf(float(traj["ntk"])) / ntk - 1)),
            "limit": distance(np.concatenate([end["w"], end["h"]]), last) / largest(last),
        }
        asked = float(loss)
        if (condition := abs(float(2 * ntk * t))) > 1e-12:  # below, the loss does not resolve the time
            late = (exact.mp.mpf(asked) - loss) / (2 * ntk * loss) * -1  # time shift of the rounded loss
            time = float(flow.time_to(np, z0, loss=np.asarray(asked)))
            found["time_to"] = abs(float((exact.mp.mpf(time) - t - late) / t)) / (1 + 1 / condition)
        worst = {name: max(value, found.get(name, 0.0)) for name, value in worst.items()}
    return [(name, worst[name], HIDDEN[name]) for name in HIDDEN]


class Biased:
    """One mode with a bias, as a function of sigma."""

    def __init__(self, m: float, mu: float, N: float, w: np.ndarray, h: np.ndarray, B: float) -> None:
        self.mp = mp = context(50)
        self.m, self.mu, self.N, self.B = (mp.mpf(v) for v in (m, mu, N, B))
        self.w, self.h = ([mp.mpf(v) for v in u.tolist()] for u in (w, h))
        self.s = mp.sqrt(self.m * self.mu)

    def at(self, sigma: Any) -> tuple[list, Any, Any]:
        """Return weights and bias, the residual and the kernel."""
        c, d = self.mp.cosh(self.s * sigma), self.mp.sinh(self.s * sigma)
        w = [x * c + self.m / self.s * y * d for x, y in zip(self.w, self.h, strict=True)]
        h = [y * c + self.mu / self.s * x * d for x, y in zip(self.w, self.h, strict=True)]
        B, dot = self.B + self.N * sigma, self.mp.fdot
        return [*w, *h, B], dot(w, h) + B - 1, self.mu * dot(w, w) + self.m * dot(h, h) + self.N

    def end(self) -> Any:
        """Return sigma(inf), by bisection."""
        low, high = self.mp.mpf(0), -self.at(0)[1] / self.N
        start = self.at(0)[1]
        for _ in range(190):
            middle = (low + high) / 2
            low, high = (middle, high) if self.at(middle)[1] * start > 0 else (low, middle)
        return low

    def times(self, parts: tuple[float, ...], end: Any) -> list:
        """Return the times at which sigma is `parts` of its limit, by quadrature in ``-log(1 - part)``."""
        mp, found, total, before = self.mp, [], self.mp.mpf(0), self.mp.mpf(0)

        def pace(z: Any) -> Any:
            left = mp.exp(-z)
            return -end * left / self.at(end * (1 - left))[1]

        for part in parts:
            z = -mp.log1p(-mp.mpf(part))
            total += mp.quad(pace, mp.linspace(before, z, 3))
            before = z
            found.append(total)
        return found


def biased_rows(seed: int = 0, draws: int = 20) -> list[tuple[str, float, str]]:
    """Return (quantity, worst error, measure of the error) for `BiasedMode`."""
    rng, worst = np.random.default_rng(seed), dict.fromkeys(BIASED, 0.0)

    def note(name: str, value: Any) -> None:
        worst[name] = float(np.maximum(worst[name], float(abs(value))))  # also nan

    for _ in range(draws):
        m, mu, N = (10 ** rng.uniform([-2, -2, -2], [2, 2, 2])).tolist()
        w, h = (10 ** rng.uniform(-6, 0.4) * rng.normal(size=2) for _ in range(2))
        B = float(rng.uniform(-2, 3))
        flow, raw, z0 = BiasedMode(m=m, mu=mu, N=N), Biased(m, mu, N, w, h, B), BiasedMode.State(w, h, np.asarray(B))
        if float(flow.conditions(np, z0)["span"]) > 0:
            continue
        end = raw.end()
        times, size = raw.times(PARTS, end), largest(raw.at(0)[0])
        traj, last = flow(np.array([float(t) for t in times]), z0), flow(np.inf, z0)
        goal = raw.at(end)[0]
        note("limit", distance(np.concatenate([last["w"], last["h"], [last["B"]]]), goal) / max(size, largest(goal)))
        for k, (part, t) in enumerate(zip(PARTS, times, strict=True)):
            state, r, ntk = raw.at(end * raw.mp.mpf(part))
            found = np.concatenate([traj["w"][k], traj["h"][k], [traj["B"][k]]])
            note("w, h, B", distance(found, state) / max(size, largest(state)))
            turns = 1 + ntk * t
            note("residual", (raw.mp.mpf(float(traj["residual"][k])) / r - 1) / turns)
            note("loss", (raw.mp.mpf(float(traj["loss"][k])) / (r * r / 2) - 1) / turns)
            time = float(flow.time_to(np, z0, loss=np.asarray(float(r * r / 2))))
            note("time_to", (time - t) / t / (1 + 1 / (ntk * t)))
    return [(name, worst[name], BIASED[name]) for name in BIASED]


if __name__ == "__main__":
    for found in (hidden_rows(), biased_rows()):
        for quantity, value, reach in found:
            print(f"{quantity:12s} {value:9.1e}  {reach}")
