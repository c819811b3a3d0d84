"""Raw branched networks trained from their samples without the package, and random networks of each exact case."""

import numpy as np
from scipy.integrate import solve_ivp


def train(weights, X, Y, times, labels=None, gates=None, rates=(1.0, 1.0), method="DOP853"):
    """Return all layers at all times, from the errors of the samples; W2 has two axes, or one head a context."""
    held = [np.asarray(w, float) for pair in weights for w in pair]
    labels = np.zeros(len(Y), int) if labels is None else np.asarray(labels)
    gates = np.ones((len(weights), labels.max() + 1)) if gates is None else np.asarray(gates)
    inputs = X if isinstance(X, tuple) else (X,) * len(weights)
    Y, cuts = np.asarray(Y, float).reshape(len(Y), -1), np.cumsum([w.size for w in held])[:-1]
    order = [np.cumsum(row) - 1 for row in gates.astype(int)]  # place of a context among those of a branch

    def split(y):
        return [part.reshape(w.shape) for part, w in zip(np.split(y, cuts), held, strict=True)]

    def head(last, b, context):
        return last[order[b][context]] if last.ndim == 3 else last

    def rate(_, y):
        layers = split(y)
        moves = [np.zeros_like(w) for w in layers]
        for context in range(gates.shape[1]):
            here, acting = labels == context, np.flatnonzero(gates[:, context])
            error = Y[here].T.copy()
            for b in acting:
                error -= head(layers[2 * b + 1], b, context) @ layers[2 * b] @ inputs[b][here].T
            for b in acting:
                x, w1, w2 = inputs[b][here], layers[2 * b], head(layers[2 * b + 1], b, context)
                moves[2 * b] += rates[0] * w2.T @ error @ x / len(Y)
                turn = rates[1] * error @ (x @ w1.T) / len(Y)
                if layers[2 * b + 1].ndim == 3:
                    moves[2 * b + 1][order[b][context]] += turn
                else:
                    moves[2 * b + 1] += turn
        return np.concatenate([move.ravel() for move in moves])

    y0 = np.concatenate([w.ravel() for w in held])
    found = solve_ivp(rate, (0.0, times[-1]), y0, method, times, rtol=1e-13, atol=1e-16 * np.abs(y0).max())
    assert found.success
    return [np.stack(each) for each in zip(*map(split, found.y.T), strict=True)]


def loss(layers, X, Y, labels=None, gates=None):
    """Return the loss of the layers at one time, sample by sample."""
    total, count = 0.0, len(layers) // 2
    labels = np.zeros(len(Y), int) if labels is None else labels
    gates = np.ones((count, max(labels) + 1)) if gates is None else np.asarray(gates)
    for i, (y, context) in enumerate(zip(Y, labels, strict=True)):
        error = np.atleast_1d(y).astype(float)
        for b in np.flatnonzero(gates[:, context]):
            last = layers[2 * b + 1]
            w2 = last[int(gates[b, :context].sum())] if last.ndim == 3 else last
            error = error - w2 @ layers[2 * b] @ (X[b] if isinstance(X, tuple) else X)[i]
        total += error @ error / 2 / len(Y)
    return total


def orthonormal(rng, rows, columns):
    return np.linalg.qr(rng.normal(size=(rows, columns)))[0]


def white(rng, samples, n):
    """Return inputs whose second moment is the identity."""
    return np.sqrt(samples) * orthonormal(rng, samples, n)


def race(rng, rates=(1.0, 1.0), eigen=False):
    """Return a random race: weights, data, labels and gates; with `eigen` inputs of several powers."""
    contexts = int(rng.choice([2, 3, 4, 6]))
    kinds = [m for m in range(1, contexts + 1) if contexts % m == 0]
    served = [contexts, *rng.choice(kinds[:-1], int(rng.integers(1, len(kinds))), replace=False)]
    n, n_out, samples = int(rng.integers(2, 4)), int(rng.integers(2, 4)), 8
    r = int(rng.integers(1, min(n, n_out) + 1))
    v, s = orthonormal(rng, n, n), rng.uniform(0.5, 2.0, r)
    power = rng.uniform(0.5, 1.5, n) if eigen else np.full(n, rng.uniform(0.5, 1.5))
    frames = [orthonormal(rng, n_out, r) for _ in range(contexts)]
    X = np.concatenate([white(rng, samples, n) * np.sqrt(power) @ v.T for _ in range(contexts)])
    labels = np.repeat(np.arange(contexts), samples)
    maps = np.stack([(u * s) @ v[:, :r].T for u in frames])
    Y = np.einsum("poi,pi->po", maps[labels], X)
    scales = (rates[0] / rates[1]) ** 0.25, (rates[1] / rates[0]) ** 0.25
    weights, gates = [], []
    for m in served:
        strengths = s * rng.uniform(0.02, 0.4, r)
        for group in range(contexts // m):
            own = range(group * m, (group + 1) * m)
            gates.append([float(k in own) for k in range(contexts)])
            frame = orthonormal(rng, r + int(rng.integers(0, 3)), r)
            first = scales[0] * (frame * np.sqrt(np.sqrt(m) * strengths)) @ v[:, :r].T
            heads = [scales[1] * (frames[k] * np.sqrt(strengths / np.sqrt(m))) @ frame.T for k in own]
            weights.append([first, np.stack(heads)])
    order, shuffle = rng.permutation(len(weights)), rng.permutation(len(X))
    weights, gates = [weights[k] for k in order], np.array(gates)[order]
    return weights, (X[shuffle], Y[shuffle]), labels[shuffle], gates


def solvable(rng, n_in, n_out):
    """Return two layers that white inputs solve: one hidden unit, or heads of 0 on orthonormal rows of one size."""
    if rng.random() < 0.5:
        return rng.normal(size=(1, n_in)), rng.normal(size=(n_out, 1))
    width = int(rng.integers(1, n_in + 1))
    return rng.uniform(0.3, 1.2) * orthonormal(rng, n_in, width).T, np.zeros((n_out, width))


def separate(rng, _rates=(1.0, 1.0)):
    """Return a random network whose branches share no error: stacked heads, own contexts, or uncorrelated inputs."""
    kind, n_out = rng.choice(["heads", "contexts", "fusion"]), int(rng.integers(1, 3))
    if kind == "fusion":
        sizes = [int(n) for n in rng.integers(1, 4, int(rng.integers(2, 4)))]
        parts = np.split(white(rng, 12, sum(sizes)), np.cumsum(sizes)[:-1], axis=1)
        weights = [solvable(rng, n, n_out) for n in sizes]
        return weights, (tuple(parts), rng.normal(size=(12, n_out))), None, None
    contexts, n = int(rng.integers(2, 4)), int(rng.integers(1, 4))
    labels = rng.permutation(np.repeat(np.arange(contexts), 6))
    X = np.zeros((len(labels), n))
    for context in range(contexts):
        X[labels == context] = white(rng, 6, n)
    data = X, rng.normal(size=(len(X), n_out))
    if kind == "contexts":
        weights = [solvable(rng, n, n_out) for _ in range(contexts)]
        return weights, data, labels, np.eye(contexts)
    first, last = solvable(rng, n, contexts * n_out)
    return [[first, last.reshape(contexts, n_out, -1)]], data, labels, np.ones((1, contexts))


def general(rng):
    """Return a random network without a closed form: branches of any gates, correlated inputs, one head or several."""
    contexts, n_out, samples, separate = int(rng.integers(1, 4)), int(rng.integers(1, 3)), 15, rng.random() < 0.5
    labels = np.concatenate([np.arange(contexts), rng.integers(0, contexts, samples - contexts)])
    gates = np.concatenate([np.ones((1, contexts)), rng.integers(0, 2, (2, contexts))])
    gates[np.flatnonzero(gates.sum(axis=1) == 0), 0] = 1
    sizes = [int(n) for n in rng.integers(1, 4, 3)] if separate else [int(rng.integers(2, 4))] * 3
    X = tuple(rng.normal(size=(samples, n)) for n in sizes) if separate else rng.normal(size=(samples, sizes[0]))
    weights = []
    for n, row in zip(sizes, gates, strict=True):
        width, heads = int(rng.integers(1, 4)), (int(row.sum()), n_out) if rng.random() < 0.5 else (n_out,)
        weights.append([0.5 * rng.normal(size=(width, n)), 0.5 * rng.normal(size=(*heads, width))])
    return weights, (X, rng.normal(size=(samples, n_out))), labels, gates


def fusion(rng, size, d_a=2, d_b=2):
    """Return late fusion of two branches with one output, from a start of a size; the first is learned first."""
    X = rng.normal(size=(40, d_a + d_b)) @ (np.eye(d_a + d_b) + rng.normal(size=(d_a + d_b, d_a + d_b)) / 6)
    values, axes = np.linalg.eigh(X.T @ X / 40)
    X = X @ (axes * np.sqrt(np.clip(values, 0.3, 3.0) / values)) @ axes.T  # moments far from singular
    moment = X.T @ X / 40
    pull = np.concatenate(
        [orthonormal(rng, d_a, 1)[:, 0] * 1.5, orthonormal(rng, d_b, 1)[:, 0] * rng.uniform(0.4, 0.8)]
    )
    y = X @ np.linalg.solve(moment, pull)
    weights = [[size * rng.normal(size=(3, d)), size * rng.normal(size=(1, 3))] for d in (d_a, d_b)]
    return weights, ((X[:, :d_a], X[:, d_a:]), y)
