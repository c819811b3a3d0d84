"""Raw linear networks trained without the package, and matrices for their tests."""

import numpy as np
from scipy.integrate import solve_ivp


def orthonormal(gen, rows, columns):
    return np.linalg.qr(gen.normal(size=(rows, columns)))[0]


def train(weights, X, Y, rates, times, biases=None):
    """Integrate every weight from the samples, without anything of the package: all weights at all times.

    Biases, one for each layer or None, follow the layers; they have the learning rates of their layers.
    """
    biases = [None] * len(weights) if biases is None else biases
    held = [np.asarray(each, float) for each in [*weights, *(b for b in biases if b is not None)]]
    cuts = np.cumsum([each.size for each in held])[:-1]

    def split(y):
        return [part.reshape(each.shape) for part, each in zip(np.split(y, cuts), held, strict=True)]

    def rate(_, y):
        parts = split(y)
        layers, rest = parts[: len(weights)], iter(parts[len(weights) :])
        now = [None if b is None else next(rest) for b in biases]
        seen = [X.T]
        for w, b in zip(layers, now, strict=True):
            seen.append(w @ seen[-1] + (0.0 if b is None else b[:, None]))
        back, moves, turns = (Y.T - seen[-1]) / len(X), [], []
        for w, b, before, eta in zip(layers[::-1], now[::-1], seen[-2::-1], rates[::-1], strict=True):
            moves.append((eta * back @ before.T).ravel())
            if b is not None:
                turns.append(eta * back.sum(axis=1))
            back = w.T @ back
        return np.concatenate(moves[::-1] + turns[::-1])

    y0 = np.concatenate([np.ravel(each) for each in held])
    found = solve_ivp(rate, (0.0, times[-1]), y0, "DOP853", times, rtol=3e-14, atol=1e-16 * np.abs(y0).max())
    assert found.success
    return [split(y) for y in found.y.T]


def product(layers):
    found = layers[0]
    for w in layers[1:]:
        found = w @ found
    return found
