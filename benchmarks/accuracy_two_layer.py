"""Worst errors of `TwoLayer` in doubles against the textbook formulas at some hundred digits.

The reference implements Theorem 1, in the form that holds, independently of the package:
``A = (alpha_+ - xi alpha_-)/(1 - xi)``, with enough digits for every cancellation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import mpmath
import numpy as np

from linsolve import TwoLayer

SHAPES = ((1, 1), (1, 3), (2, 1), (3, 2), (5, 3), (8, 1))
REACH = {
    "u": "norm-wise",
    "w": "norm-wise",
    "ntk": "relative",
    "output": "of |f| + |y|",
    "residual": "relative",
    "loss": "relative",
    "alignment": "absolute",
    "limit": "norm-wise, u and w",
    "time_to": "relative, times cond",
    "blow_up_time": "relative",
}


class Draws(NamedTuple):
    """Networks of one shape: parameters, start, times and target losses, one each per network."""

    flow: TwoLayer
    start: Any
    t: np.ndarray
    loss: np.ndarray


def draw(rng: np.random.Generator, count: int, d: int, d0: int, decades: float = 15.0) -> Draws:
    """Return networks whose scales span ``2 * decades`` orders of magnitude, including special cases."""

    def scale(reach: float, size: Any = count) -> np.ndarray:
        return 10.0 ** rng.uniform(-reach, reach, size)

    def sign(size: Any = count) -> np.ndarray:
        return rng.choice([-1.0, 1.0], size)

    kind = rng.integers(0, 10, count)
    y = scale(decades) * sign() * (kind != 0)
    gamma, eta_u, eta_w = scale(4) * sign(), scale(6), scale(6)
    eta_u, eta_w = np.where(kind == 1, 0.0, eta_u), np.where(kind == 2, 0.0, eta_w)
    x = rng.standard_normal((count, d0)) * scale(4)[:, None] * (rng.random((count, d0)) < 0.85)
    size = scale(decades)[:, None]
    u, w = (
        rng.standard_normal((count, d)) * size,
        rng.standard_normal((count, d, d0)) * size[..., None] * scale(2)[:, None, None],
    )
    aligned = (kind == 3) | (kind == 4)  # near the stable manifold of a saddle: P or Q nearly 0
    ratio = np.sqrt(np.where(eta_u > 0, eta_u, 1) / np.where(eta_w > 0, eta_w, 1))
    norm = np.linalg.norm(x, axis=1)
    h = np.einsum("nij,nj->ni", w, x)
    u = np.where(aligned[:, None], sign()[:, None] * h * (ratio / np.where(norm > 0, norm, 1))[:, None], u)
    exact = kind == 5  # exactly aligned, in exact binary numbers
    x = np.where(exact[:, None], np.eye(d0)[0], x)
    eta_u, eta_w = np.where(exact, 1.0, eta_u), np.where(exact, 1.0, eta_w)
    u = np.where(exact[:, None], sign()[:, None] * w[:, :, 0], u)
    f = gamma * np.einsum("ni,nij,nj->n", u, w, x)
    near = kind == 6  # nearly converged: a residual of a few rounding errors
    y = np.where(near, f * (1 + 10.0 ** rng.uniform(-16, -1, count) * sign()), y)
    flow = TwoLayer(y=y, gamma=gamma, eta_u=eta_u, eta_w=eta_w, x=x)
    start = flow.State(u, w)
    c = _rate(flow, start)
    t = 10.0 ** rng.uniform(-3, 2.3, count) / np.where(c > 0, c, 1)
    t = np.where(rng.random(count) < 0.05, np.inf, t)
    loss = np.asarray(flow.residual(np, start)) ** 2 * rng.random(count) ** rng.integers(1, 40, count)
    return Draws(flow, start, t, loss)


def _rate(flow: TwoLayer, z: Any) -> np.ndarray:
    s, h = np.linalg.norm(flow.x, axis=-1), flow.hidden(np, z)
    a, b = np.sqrt(flow.eta_w)[:, None] * z.u * s[:, None], np.sqrt(flow.eta_u)[:, None] * h
    k = np.linalg.norm(b + a, axis=1) * np.linalg.norm(b - a, axis=1) * flow.gamma**2 / 2
    return np.hypot(np.sqrt(flow.eta_u * flow.eta_w) * flow.gamma * s * flow.y, k)


class Reference:
    """One network by the textbook formulas, in an mpmath context of `digits` digits."""

    def __init__(self, draws: Draws, index: int, digits: int) -> None:
        self.mp = mp = mpmath.MPContext()
        mp.dps = digits
        flow, z = draws.flow, draws.start
        self.y, self.gamma, self.eu, self.ew = (
            mp.mpf(float(v[index])) for v in (flow.y, flow.gamma, flow.eta_u, flow.eta_w)
        )
        self.x, self.u, self.w = ([mp.mpf(float(v)) for v in a[index].ravel()] for a in (flow.x, *z))
        n = len(self.x)
        self.w = [self.w[i * n : (i + 1) * n] for i in range(len(self.u))]
        self.h = [mp.fdot(row, self.x) for row in self.w]
        self.s = mp.sqrt(mp.fdot(self.x, self.x))
        self.f0 = self.gamma * mp.fdot(self.u, self.h)
        b = [self.gamma * mp.sqrt(self.eu) * h for h in self.h]
        a = [self.gamma * mp.sqrt(self.ew) * self.s * u for u in self.u]
        self.kP = sum(((i + j) / 2) ** 2 for i, j in zip(a, b, strict=True))
        self.kQ = sum(((j - i) / 2) ** 2 for i, j in zip(a, b, strict=True))
        self.g = mp.sqrt(self.eu * self.ew) * self.gamma * self.s
        self.c = mp.sqrt((self.g * self.y) ** 2 + 4 * self.kP * self.kQ)

    def at(self, t: float) -> dict[str, Any]:
        """Return weights and observables at time `t`."""
        mp, zero = self.mp, self.mp.mpf(0)
        moved = t != 0 and self.f0 != self.y and self.kP + self.kQ != 0
        if not moved:
            A, growth, r = mp.mpf(1), zero, self.f0 - self.y
        elif t == mp.inf and self.c == 0:
            return self._saddle()
        else:
            T = (mp.mpf(1) if t == mp.inf else mp.tanh(2 * self.c * mp.mpf(t))) / self.c if self.c else 2 * mp.mpf(t)
            top, bottom = 1 + (2 * self.kQ + self.g * self.y) * T, 1 + (2 * self.kP - self.g * self.y) * T
            if top == 0 or bottom == 0 or (t == mp.inf and self.kP * self.kQ == 0 and self._blocked()):
                return self._saddle()
            A = top / bottom
            r = (self.f0 - self.y) * (1 - (self.c * T) ** 2) / (top * bottom)
            # sinh(theta)/g, which has a limit at learning rate 0
            growth = -(self.f0 - self.y) * T / mp.sqrt(top * bottom)
        cosh = (mp.sqrt(A) + 1 / mp.sqrt(A)) / 2
        u = [i * cosh + self.gamma * self.eu * growth * j for i, j in zip(self.u, self.h, strict=True)]
        h = [j * cosh + self.gamma * self.ew * self.s**2 * growth * i for i, j in zip(self.u, self.h, strict=True)]
        return self._report(u, h, r, 2 * (self.kP * A + self.kQ / A))

    def _blocked(self) -> bool:
        return (self.kP == 0 and self.g * self.y > 0) or (self.kQ == 0 and self.g * self.y < 0)

    def _saddle(self) -> dict[str, Any]:
        zeros = [self.mp.mpf(0)] * len(self.u)
        return self._report(zeros, zeros, -self.y, self.mp.mpf(0))

    def _report(self, u: list, h: list, r: Any, ntk: Any) -> dict[str, Any]:
        mp = self.mp
        s2 = self.s**2 or mp.mpf(1)
        w = [v + (h[i] - self.h[i]) * self.x[j] / s2 for i, row in enumerate(self.w) for j, v in enumerate(row)]
        sizes = mp.sqrt(mp.fdot(u, u)), mp.sqrt(mp.fdot(h, h))
        cosine = mp.fdot(u, h) / sizes[0] / sizes[1] if min(sizes) > 1e-290 else None
        return {"u": u, "w": w, "ntk": ntk, "output": self.y + r, "residual": r, "loss": r * r, "alignment": cosine}

    def late(self, t: float, loss: float) -> float:
        """Return the relative delay of `t` after the time at which the loss is `loss`, to first order."""
        if t == np.inf:
            return 0.0 if self.at(self.mp.inf)["loss"] >= loss * (1 - 1e-14) else np.inf
        if t == 0:
            return 0.0 if (self.f0 - self.y) ** 2 <= loss * (1 + 1e-14) else np.inf
        then = self.at(t)
        return float((loss - then["loss"]) / (4 * then["ntk"] * then["loss"] * self.mp.mpf(t)))

    def blow_up_time(self) -> Any:
        """Return the latest pole of the textbook formula at negative times."""
        mp = self.mp
        if self.f0 == self.y:
            return -mp.inf
        poles = [2 * self.kP - self.g * self.y, 2 * self.kQ + self.g * self.y]
        sizes = [self.kP, self.kQ]
        poles = [m for m, k in zip(poles, sizes, strict=True) if k and m > self.c]
        return max((-(mp.atanh(self.c / m) / (2 * self.c) if self.c else 1 / (2 * m)) for m in poles), default=-mp.inf)


def _vector(found: np.ndarray, exact: list, mp: Any) -> float:
    size = mp.sqrt(mp.fdot(exact, exact))
    gap = [mp.mpf(float(a)) - b for a, b in zip(found.ravel(), exact, strict=True)]
    off = mp.sqrt(mp.fdot(gap, gap))
    return float(off / size) if size > 1e-290 else float(off)


def _number(found: Any, exact: Any, size: Any) -> float:
    found = float(found)
    if found == exact:
        return 0.0
    return float(abs(found - exact) / size) if size > 1e-290 else float(abs(found - exact))


def errors(draws: Draws, digits: int = 500) -> dict[str, np.ndarray]:
    """Return the errors of every quantity, one per network."""
    flow, z = draws.flow, draws.start
    state, limit = flow.solution(np, draws.t, z), flow.limit(np, z)
    found = flow.along(np, draws.t, z)
    time, end = flow.time_to(np, z, loss=draws.loss), flow.blow_up_time(np, z)
    out: dict[str, list[float]] = {name: [] for name in REACH}
    for i, t in enumerate(draws.t):
        exact = Reference(draws, i, digits)
        mp, then, last = exact.mp, exact.at(float(t)), exact.at(exact.mp.inf)
        out["u"].append(_vector(state.u[i], then["u"], mp))
        out["w"].append(_vector(state.w[i], then["w"], mp))
        out["limit"].append(max(_vector(limit.u[i], last["u"], mp), _vector(limit.w[i], last["w"], mp)))
        for name in ("ntk", "residual", "loss"):
            out[name].append(_number(found[name][i], then[name], abs(then[name])))
        out["output"].append(_number(found["output"][i], then["output"], abs(then["output"]) + abs(exact.y)))
        cosine = then["alignment"]  # undefined if a layer is 0 in double precision
        out["alignment"].append(0.0 if cosine is None else _number(found["alignment"][i], cosine, mp.mpf(1)))
        out["time_to"].append(abs(exact.late(float(time[i]), float(draws.loss[i]))))
        pole = exact.blow_up_time()
        out["blow_up_time"].append(_number(end[i], pole, abs(pole)))
    return {name: np.array(values) for name, values in out.items()}


def rows(draws: int = 5000, seed: int = 0) -> list[tuple[str, float, str]]:
    """Return (quantity, worst error, measure of the error) over `draws` networks."""
    rng = np.random.default_rng(seed)
    worst = dict.fromkeys(REACH, 0.0)
    for d, d0 in SHAPES:
        for name, values in errors(draw(rng, -(-draws // len(SHAPES)), d, d0)).items():
            worst[name] = float(np.maximum(worst[name], values.max()))  # also nan
    return [(name, worst[name], REACH[name]) for name in REACH]


if __name__ == "__main__":
    for name, value, reach in rows():
        print(f"{name:14s} {value:9.1e}  {reach}")
