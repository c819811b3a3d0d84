"""Worst errors of `DeepMode` in doubles against the closed forms of its time at 80 digits.

The reference implements the formulas of its docstring (hypergeometric function, elementary sums) independently of the
package. The error of a strength is the exact time of that strength minus the requested time, times the velocity. Errors
are divided by ``1 + condition``; the condition is the relative change per relative change of `t`.
"""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np

from linsolve.systems.mode.deep_mode import DeepMode

DEPTHS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 8.0, 100.0, np.inf)
REACH = {
    "a": "relative, over 1 + condition",
    "s - a": "relative, over 1 + condition",
    "a + (s - a)": "of |a| + |s|",
    "time_to": "relative, over 1 + 1/condition",
}


def primitive(mp: Any, y: Any, depth: float) -> Any:
    """Return a primitive of ``1 / (|y|^p (1 - y))``, ``p = 2 - 2/depth``, on the side of 0 and 1 that contains `y`."""
    if depth == np.inf:
        return mp.log(abs(y / (1 - y))) - 1 / y
    D = mp.mpf(depth)
    m, p = 1 - 2 / D, 2 - 2 / D
    if depth == 1:
        return -mp.log1p(-y) if y < 1 else -mp.log(y - 1)
    if depth == 2:
        return mp.sign(y) * mp.log(abs(y / (1 - y)))
    if y < 0:
        return (-y) ** -p / p * mp.hyp2f1(1, p, 1 + p, 1 / y)
    if depth == int(depth) and depth < 50:
        z, n = mp.root(y, int(depth)), int(depth)
        logs = [mp.log(abs(1 - z)) if k == 0 else mp.log(1 - z * mp.expjpi(mp.mpf(-2 * k) / n)) for k in range(n)]
        waves = [mp.re(mp.expjpi(mp.mpf(4 * k) / n) * log) for k, log in enumerate(logs)]
        return D * z ** (2 - n) / (2 - n) - mp.fsum(waves)
    if y > 1:
        return y**-p / p * mp.hyp2f1(1, p, 1 + p, 1 / y)
    return -(y**-m) / m * mp.hyp2f1(1, -m, 1 - m, y)


def time_between(mp: Any, a0: Any, a: Any, s: Any, depth: float) -> Any:
    """Return the time from `a0` to `a` at ``tau = 1``."""
    gain = 1 if depth == np.inf else mp.mpf(depth)
    p = 2 - 2 / mp.mpf(depth)
    if s == 0 and p == 0:
        return mp.log(a0 / a)
    if s == 0:
        return (abs(a) ** -p - abs(a0) ** -p) / (p * gain)
    return (primitive(mp, a / s, depth) - primitive(mp, a0 / s, depth)) / (gain * abs(s) ** p)


def draw(rng: np.random.Generator, count: int) -> tuple[DeepMode, np.ndarray, np.ndarray]:
    """Return modes of all depths, starts with ``|a0/s|`` from 1e-150 to 5 on both sides of `s` and 0, and times."""
    depth, one = rng.choice(DEPTHS, count), np.ones(count)
    s = 10.0 ** rng.uniform(-1, 0.7, count) * rng.choice([-1.0, 1.0], count)
    kind = rng.random(count)
    y = np.where(kind < 0.6, 10.0 ** rng.uniform(-12, 0.7, count), 10.0 ** rng.uniform(-150, 0, count))
    y = np.where(kind > 0.7, rng.uniform(0.01, 5, count), y)
    y = np.where((rng.random(count) < 0.25) & ((depth == 1) | (depth >= 2)), -y, y)
    a0, s = s * y, np.where((rng.random(count) < 0.1) & (np.abs(y) > 1e-50), 0.0, s)
    flow = DeepMode(s=s, depth=depth)
    clock = np.abs(a0 / flow.velocity(np, flow.State(a0)).a)
    # half of the times in units of the initial time scale, half from the remaining distance to the limit
    goal = flow.limit(np, flow.State(a0)).a
    left = goal - (goal - a0) * np.where(rng.random(count) < 0.5, rng.random(count), 10.0 ** rng.uniform(-9, 0, count))
    far = flow.time_to(np, flow.State(a0), loss=(s - left) ** 2 / 2)
    t = np.where(rng.random(count) < 0.5, clock * 10.0 ** rng.uniform(-3, 1.3, count), far)
    return flow, a0, np.where(np.isfinite(t) & (t > 0), t, clock) * one


def errors(flow: DeepMode, a0: np.ndarray, t: np.ndarray, digits: int = 80) -> dict[str, np.ndarray]:
    """Return the errors of every quantity, one per mode."""
    z0, mp = flow.State(a0), mpmath.MPContext()
    mp.dps = digits
    a, gap = flow.solution(np, t, z0).a, flow.gap(np, t, z0)
    loss = gap**2 / 2
    asked = flow.time_to(np, z0, loss=loss)
    out: dict[str, list[float]] = {name: [] for name in REACH}
    for i, depth in enumerate(flow.depth.tolist()):
        s, start, time, x, g = (mp.mpf(float(v[i])) for v in (flow.s, a0, t, a, gap))
        out["a + (s - a)"].append(float(abs(x + g - s) / (abs(x) + abs(s))))
        if x == 0 or abs(g) < 1e-30 * abs(s):
            continue  # converged below the resolution of the reference in s - a
        late = abs(g) < abs(s) / 2  # then s - a is the better conditioned number
        here = s - g if late else x
        gain = 1 if depth == np.inf else mp.mpf(depth)
        dist = g if late else s - x
        speed = gain * abs(here) ** (2 - 2 / mp.mpf(depth)) * dist
        off = (time_between(mp, start, here, s, depth) - time) * speed
        for name, size in ("a", here), ("s - a", dist):
            extra = abs(x - here) if name == "a" else abs(g - dist)
            out[name].append(float((abs(off) + extra) / abs(size) / (1 + abs(time * speed / size))))
        change = abs(2 * time * speed / g)  # relative change of the loss per relative change of time
        if abs(x) > 1e-10 * abs(s):  # below, the loss does not resolve a
            exact = time_between(mp, start, s - mp.sign(g) * mp.sqrt(2 * mp.mpf(float(loss[i]))), s, depth)
            out["time_to"].append(float(abs(mp.mpf(float(asked[i])) / exact - 1) / (1 + 1 / change)))
    return {name: np.array(values) for name, values in out.items()}


def rows(draws: int = 5000, seed: int = 0) -> list[tuple[str, float, str]]:
    """Return (quantity, worst error, measure of the error) over `draws` modes."""
    flow, a0, t = draw(np.random.default_rng(seed), draws)
    return [(name, float(values.max()), REACH[name]) for name, values in errors(flow, a0, t).items()]


if __name__ == "__main__":
    for row in rows():
        print(*row)
