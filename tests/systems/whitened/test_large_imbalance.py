"""Bottlenecks whose imbalance is far larger than the target: the slow rotation of the layers, against many digits."""

import mpmath as mp
import numpy as np
import pytest
from selection import quick

import linsolve as ls
from linsolve.systems.whitened.matrix_riccati import matrix_riccati


def matrix(a):
    return mp.matrix(np.asarray(a).tolist())


def doubles(a):
    return np.array([[float(a[i, j]) for j in range(a.cols)] for i in range(a.rows)])


def frame(rng, rows, columns):
    u = matrix(rng.normal(size=(rows, columns)))
    return u * mp.inverse(mp.cholesky(u.T * u).T)


def balanced(rng, n_in, width, n_out, imbalance, size):
    """Return weights with ``W2^T W2 - W1 W1^T = imbalance`` to all digits; entries of the small layer are of `size`."""
    if imbalance < 0:
        w1, w2 = balanced(rng, n_out, width, n_in, -imbalance, size)
        return w2.T, w1.T
    w1 = size * matrix(rng.normal(size=(width, n_in)))
    values, axes = mp.eigsy(imbalance * mp.eye(width) + w1 * w1.T)
    return w1, frame(rng, n_out, width) * (axes * mp.diag([mp.sqrt(v) for v in values]) * axes.T)


def riccati(target, w1, w2, imbalance, t):
    """Return the state at time t by the closed form in units of the fastest growth, at the digits of mpmath."""
    n_in, n = target.cols, target.cols + target.rows
    f = mp.zeros(n)
    for i in range(n):
        f[i, i] = (-1 if i < n_in else 1) * mp.mpf(imbalance) / 2
        for j in range(n_in):
            if i >= n_in:
                f[i, j] = f[j, i] = target[i - n_in, j]
    rates, axes = mp.eigsy(f)
    start = mp.matrix(n, w1.rows)
    start[:n_in, :], start[n_in:, :] = w1.T, w2
    q, fast, t = axes.T * start, max(rates), mp.mpf(t)
    left = mp.exp(-2 * fast * t)
    grown = [(mp.exp(2 * (x - fast) * t) - left) / (2 * x) for x in rates]
    bracket = left * mp.eye(q.cols) + q.T * mp.diag(grown) * q
    root = axes * mp.diag([mp.exp((x - fast) * t) for x in rates]) * q
    p = root * mp.inverse(bracket) * root.T
    return doubles(p[n_in:, :n_in]), doubles(p[:n_in, :n_in]), doubles(p[n_in:, n_in:])


def drawn(seed, ratio=None):
    """Return target, weights and imbalance of a network at a ratio of imbalance to target up to 1e12."""
    rng = np.random.default_rng([seed, 1])
    ratio, sign = ratio or 10 ** rng.uniform(0, 12), rng.choice([-1, 1])
    n_in, n_out = (int(n) for n in rng.integers(2, 6, 2))
    width = int(rng.integers(1, (n_out if sign > 0 else n_in) + 1))
    values = np.array([[3, 2, 1, 0.5, 0.25], [2, 2, 1, 1, 0.5], [3, 2, 1, 0, 0]][seed % 3])[: min(n_in, n_out)]
    if seed % 3 == 1:  # exactly degenerate
        u, v = np.eye(n_out, len(values)), np.eye(n_in, len(values))
    else:
        u, v = (np.linalg.qr(rng.normal(size=(n, len(values))))[0] for n in (n_out, n_in))
    mp.mp.dps = 80 + int(2.2 * np.log10(ratio))
    imbalance, size = float(sign * ratio * 3), float(rng.choice([0, 1e-6, 1e-2, 1.0, ratio**0.5]))
    return (u * values) @ v.T, balanced(rng, n_in, width, n_out, imbalance, size), imbalance


@pytest.mark.parametrize("seed", quick(range(100), 6))
def test_the_slow_rotation_keeps_its_digits_by_every_algorithm(seed):
    with mp.workdps(15):
        target, weights, imbalance = drawn(seed)
        w1, w2 = weights
        start = [doubles(m) for m in (w2 * w1, w1.T * w1, w2 * w2.T)]
        slow = abs(imbalance) / 9
        t = np.array([0.3 / abs(imbalance), 0.1, 1.0, *(slow * np.array([0.3, 1.0, 3.0, 30.0]))])
        exact = [riccati(matrix(target), w1, w2, imbalance, each) for each in t]
        for method in (None, "steps", "graded"):
            found = matrix_riccati(np, t, target, *start, method=method)
            for k, fields in enumerate(exact):
                for value, right in zip(found, fields, strict=True):
                    assert np.abs(value[k] - right).max() <= 2e-13 * np.abs(right).max(), (method, t[k])


@pytest.mark.parametrize("ratio", quick([1e3, 1e8, 1e12], 1))
def test_the_end_is_the_best_map_that_the_bottleneck_reaches(ratio):
    rng = np.random.default_rng(0)
    u, v = (np.linalg.qr(rng.normal(size=(n, 3)))[0] for n in (4, 3))
    flow = ls.WhitenedTwoLayer((u * [3.0, 2.0, 1.0]) @ v.T)
    z0 = flow.of(*ls.WhitenedTwoLayer.init(3, 2, 4, scale=1.0, imbalance=3 * ratio, rng=1))
    end = flow(np.inf, z0)["product"]
    assert np.abs(end - (u[:, :2] * [3.0, 2.0]) @ v[:, :2].T).max() <= 1e-14 * 3
    late = flow([5 * ratio, 1e3 * ratio], z0)["product"]
    assert np.abs(late[1] - end).max() <= 1e-14 * 3
    assert np.abs(late[0] - end).max() > 1e-6  # still on its way


def test_large_adapters_and_heads_rotate_slowly_too():
    """LoRA with long rows of A, and attention with a large value: both are bottlenecks of a large imbalance."""
    rng = np.random.default_rng(3)
    target = rng.normal(size=(3, 4))
    with mp.workdps(120):
        size, scale = mp.mpf(10) ** 5, mp.mpf(2)
        w1, w2 = balanced(rng, 4, 2, 3, float(-scale * size**2), 0.0)  # layers of sqrt(scale) A and sqrt(scale) B
        flow, slow = ls.LoRA(target, 0 * target, scale=2.0), float(scale * size**2) / 4
        z0 = flow.State(*(doubles(m / scale) for m in (w2 * w1, w1.T * w1, w2 * w2.T)))
        exact = riccati(matrix(target), w1, w2, float(-scale * size**2), slow)
    found = flow(slow / 2, z0)
    for name, right in zip(("product", "gram_in", "gram_out"), exact, strict=True):
        assert np.abs(found[name] - right / 2).max() <= 1e-13 * np.abs(right / 2).max(), name
    heads = ls.LinearAttention(10, 2)
    z = heads.of([1e4], 1e-3 * rng.normal(size=(1, 2, 2)))
    assert np.abs(heads(np.inf, z)["product"] - np.eye(2) / 1.3).max() <= 1e-14
