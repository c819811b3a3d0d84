"""The network ``f = W V Phi + b 1^T`` that neural collapse is about, and its sets of starts to sixty digits."""

import mpmath
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import linsolve as ls

C, M, N = 3, 2, 6
Y = np.repeat(np.eye(C), M, axis=1)
J = np.ones((C, C))
PI = np.eye(C) - J / C
MP = mpmath.MPContext()
MP.dps = 60


def many(count, quick):
    """Return ranges of seeds for parametrize: `quick` by default, the rest of `count` in exhaustive runs."""
    return [range(quick), pytest.param(range(quick, count), marks=pytest.mark.exhaustive)]


def flow(**changes):
    return ls.NeuralCollapse(**{"kappa_d": 2.2, "kappa_c": 1.1, "kappa_n": 0.4, "classes": C, "m": M} | changes)


def kernel(f, y=Y):
    d, c, n = f.kappa_d, f.kappa_c, f.kappa_n
    return (d - c) * np.eye(y.shape[1]) + (c - n) * y.T @ y + n


def rates(f):
    d, c, n = f.kappa_d, f.kappa_c, f.kappa_n
    mu_c = d - c + M * (c - n)
    return d - c, mu_c, mu_c + N * n


def simulated(f, h, w, b, times, y=Y, *, frozen=False):
    """Return weights of the network ``f = W V Phi + b 1^T``, ``Phi^T Phi = K``, trained by plain gradient flow."""
    value, vector = np.linalg.eigh(kernel(f, y))
    phi = vector * np.sqrt(value) @ vector.T
    v = h @ np.linalg.inv(phi)
    cut = np.cumsum([w.size, v.size])

    def parts(a):
        return a[: cut[0]].reshape(w.shape), a[cut[0] : cut[1]].reshape(v.shape), a[cut[1] :]

    def rate(_, a):
        w, v, b = parts(a)
        r = w @ v @ phi + b[:, None] - y
        head = 0 * w if frozen else r @ phi.T @ v.T
        return -np.concatenate([head.ravel(), (w.T @ r @ phi.T).ravel(), r.sum(axis=1)])

    start = np.concatenate([w.ravel(), v.ravel(), b])
    path = solve_ivp(rate, (0.0, times[-1]), start, "DOP853", times, rtol=1e-12, atol=1e-14).y.T
    return [(v @ phi, w, b) for w, v, b in map(parts, path)]


def assert_state(found, expected, tolerance):
    for name, a, b in zip(found._fields, found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1.0, np.abs(b).max()), err_msg=name)


def generic_flow(rng):
    n = rng.uniform(0.1, 0.5)
    c = n + rng.uniform(0.2, 0.8)
    return flow(kappa_d=c + rng.uniform(0.4, 1.2), kappa_c=c, kappa_n=n)


# the sets, from weights


def weights_of(seed, kind, n=8):
    """Return a flow, features, classifier and bias: modes on two hidden units each, and what `kind` adds.

    - "modes": nothing, a bias off its goal
    - "rest": a mean output on hidden units of its own
    - "apart": a feature mean besides, and scatter that is not seen
    - "scatter": scatter of rank one that the mean output sees
    - "wide": scatter of rank three, seen along an eigenvector
    """
    rng = np.random.default_rng(seed)
    f = generic_flow(rng)
    q = np.linalg.qr(np.c_[np.ones(C), rng.normal(size=(C, C - 1))])[0][:, 1:]
    frame = np.linalg.qr(rng.normal(size=(n, n)))[0]
    w, h = np.zeros((C, n)), np.zeros((n, C))
    for k in range(C - 1):
        units = frame[:, 2 * k : 2 * k + 2]
        w += np.outer(q[:, k], units @ rng.normal(size=2) * 0.7)
        h += np.outer(units @ rng.normal(size=2) * 0.7, q[:, k])
    h, own, one = h @ Y, frame[:, 2 * (C - 1) :], np.ones((C, 1)) / np.sqrt(C)
    within = rng.normal(size=(3, N))
    within = np.linalg.qr((within - within @ Y.T @ Y / M).T)[0].T
    b = np.full(C, 0.9 if kind == "modes" else 1 / C)
    if kind != "modes":
        w = w + one @ (own[:, :2] @ rng.normal(size=2))[None]
    if kind == "apart":
        h = h + (own[:, :2] @ rng.normal(size=2))[:, None] + np.outer(own[:, 2], within[0])
        b = np.full(C, -0.2)
    if kind == "scatter":
        h = h + np.outer(own[:, :2] @ rng.normal(size=2), within[0])
    if kind == "wide":
        h = h + np.outer(own[:, :2] @ rng.normal(size=2), within[0]) + 0.8 * own[:, 2:] @ within[1:]
    return f, h, w, b


# the sets, to sixty digits


def mode_at(t, grams, rates, target):
    """Return ``|w|^2``, ``w.h``, ``|h|^2`` of ``w' = a (target - w.h) h``, ``h' = b (target - w.h) w`` at time t."""
    (ww, wh, hh), (a, b) = grams, rates
    s = MP.sqrt(a * b)
    both, up, down = b * ww + a * hh, b * ww + a * hh + 2 * s * wh, b * ww + a * hh - 2 * s * wh
    if up == 0:
        return grams
    k, difference = up * down, b * ww - a * hh
    k = k if k > MP.mpf(10) ** -50 else MP.mpf(0)  # balanced and parallel, to the digits of the start
    big = MP.sqrt(4 * s * s * target**2 + k)
    if big == 0:
        g = up / (1 + up * t / 2) if MP.isfinite(t) else MP.mpf(0)
    else:
        turn = MP.tanh(big * t / 2) if MP.isfinite(t) else MP.mpf(1)
        g = (up * (big + 2 * s * target * turn) + k * turn) / (big + (up - 2 * s * target) * turn)
    other = k / g if g else MP.mpf(0)
    both = (g + other) / 2
    return (both + difference) / (2 * b), (g - other) / (4 * s), (both - difference) / (2 * a)


def exact(array):
    return np.vectorize(lambda v: MP.mpf(float(v)), otypes=[object])(array)


def basis(rng, count):
    """Return orthonormal columns, the first along 1, to sixty digits."""
    raw = np.c_[np.ones(count), rng.normal(size=(count, count - 1))]
    return np.array(MP.qr(MP.matrix(raw.tolist()))[0].tolist(), dtype=object)


def grams(rng, scale=0.7):
    w, h = exact(scale * rng.normal(size=2)), exact(scale * rng.normal(size=2))
    return w @ w, w @ h, h @ h


def exact_set(seed, kind):
    """Return a flow and its state at any time, to sixty digits: modes apart, scatter of a `kind` on units of its own.

    "plus", "minus", "zero": the sign of the imbalance of scatter and the mean output that sees it, parallel; "askew":
    both signs; "none": no scatter.
    """
    rng = np.random.default_rng(seed)
    f = generic_flow(rng)
    q = basis(rng, C)
    own, mate, other = (MP.mpf(float(v)) for v in (f.kappa_d, f.kappa_c, f.kappa_n))
    mu_s, mu_c = own - mate, own - mate + M * (mate - other)
    modes = [grams(rng) for _ in range(C - 1)]
    g = basis(rng, M)[:, 1]  # a contrast within the first class, and of the last
    along = np.concatenate([3 * g, 0 * g, 4 * g]) / 5
    y, e = exact(Y), q[:, :1]
    if kind == "none":
        seen, beta = (MP.mpf(0),) * 3, MP.mpf(float(rng.uniform(-1, 2)))
    else:
        c = MP.mpf(float(rng.uniform(0.3, 0.6)))
        d = MP.sqrt(mu_s) * c * {"plus": MP.mpf(1) / 2, "minus": 2, "zero": 1, "askew": MP.mpf(3) / 2}[kind]
        cosine = MP.mpf(float(rng.uniform(0.3, 0.9))) if kind == "askew" else MP.mpf(1)
        seen, beta = (c * c, cosine * c * d, d * d), MP.mpf(1) / C

    def at(t):
        t = MP.mpf(t)
        product, gram_w, means = between(t, q, modes, mu_c)
        ww, wh, hh = mode_at(t, seen, (MP.mpf(1), mu_s), 0) if seen[0] else seen
        left = MP.exp(-N * t) if MP.isfinite(t) else MP.mpf(0)
        return f.State(
            product @ y + wh * e @ along[None, :], gram_w + ww * e @ e.T,
            y.T @ means @ y + hh * np.outer(along, along), np.full(C, (beta - MP.mpf(1) / C) * left + MP.mpf(1) / C),
        )  # fmt: skip

    return f, at


def between(t, q, modes, mu_c):
    """Return ``W M``, ``W W^T`` and ``M^T M`` of modes between classes at time t."""
    product, gram_w, means = (np.full((C, C), MP.mpf(0)) for _ in range(3))
    for k, start in enumerate(modes):
        ww, wh, hh = mode_at(t, start, (MP.mpf(M), mu_c), 1)
        square = q[:, k + 1 : k + 2] @ q[:, k + 1 : k + 2].T
        product, gram_w, means = product + wh * square, gram_w + ww * square, means + hh * square
    return product, gram_w, means


def exact_apart(seed):
    """Return a flow, a start and its way in time: modes apart, and a constant mode with bias, by quadrature."""
    rng = np.random.default_rng(seed)
    f = generic_flow(rng)
    q, modes, (ww, wh, hh) = basis(rng, C), [grams(rng) for _ in range(C - 1)], grams(rng)
    own, mate, other = (MP.mpf(float(v)) for v in (f.kappa_d, f.kappa_c, f.kappa_n))
    mu_c = own - mate + M * (mate - other)
    mu_g, bias = mu_c + N * other, MP.mpf(float(rng.uniform(-1, 2)))
    s, y, e = MP.sqrt(M * mu_g), exact(Y), q[:, :1]

    def output(x):
        return wh * MP.cosh(2 * s * x) + (mu_g * ww + M * hh) / (2 * s) * MP.sinh(2 * s * x)

    def left(x):  # what the mode has still to learn: falls strictly in its own time x
        return 1 - bias - N * x - output(x)

    near, far = MP.mpf(0), left(MP.mpf(0)) / N  # the bias alone would take it no farther
    for _ in range(210):
        end = (near + far) / 2
        near, far = (end, far) if left(end) * left(near) > 0 else (near, end)

    def state(t, x):
        product, gram_w, means = between(MP.mpf(t), q, modes, mu_c)
        c, d = MP.cosh(s * x), MP.sinh(s * x) / s
        large, small = ww * c * c + 2 * M * wh * c * d + M**2 * hh * d * d, hh * c * c + 2 * mu_g * wh * c * d
        small, one = small + mu_g**2 * ww * d * d, e @ e.T
        return f.State(
            (product + output(x) * one) @ y, gram_w + large * one, y.T @ (means + small * one) @ y,
            np.full(C, (bias + N * x) / C),
        )  # fmt: skip

    path = [(1e3, state(1e3, end)), (np.inf, state(MP.inf, end))]
    for z in (1e-6, 1e-3, 0.1, 1.0, 6.0):
        part, to = MP.expm1(-MP.mpf(z)), MP.mpf(z)
        t = MP.quad(lambda v: end * MP.exp(-v) / left(-end * MP.expm1(-v)), [0, to / 2, to])
        path.append((float(t), state(t, -end * part)))
    return f, f.State(*(a.astype(float) for a in state(0, MP.mpf(0)))), path
