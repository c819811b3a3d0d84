"""Raw linear networks trained without the package, and matrices for their tests."""

import numpy as np
from scipy.integrate import solve_ivp


def orthonormal(gen, rows, columns):
    return np.linalg.qr(gen.normal(size=(rows, columns)))[0]


def train(weights, X, Y, rates, times):
    """Integrate every weight from the samples, without anything of the package: all weights at all times."""
    shapes = [np.shape(w) for w in weights]
    cuts = np.cumsum([np.size(w) for w in weights])[:-1]

    def split(y):
        return [part.reshape(shape) for part, shape in zip(np.split(y, cuts), shapes, strict=True)]

    def rate(_, y):
        layers = split(y)
        seen = [X.T]
        for w in layers:
            seen.append(w @ seen[-1])
        back, out = (Y.T - seen[-1]) / len(X), []
        for w, before, eta in zip(layers[::-1], seen[-2::-1], rates[::-1], strict=True):
            out.append((eta * back @ before.T).ravel())
            back = w.T @ back
        return np.concatenate(out[::-1])

    y0 = np.concatenate([np.ravel(w) for w in weights])
    found = solve_ivp(rate, (0.0, times[-1]), y0, "DOP853", times, rtol=3e-14, atol=1e-16 * np.abs(y0).max())
    assert found.success
    return [split(y) for y in found.y.T]


def product(layers):
    found = layers[0]
    for w in layers[1:]:
        found = w @ found
    return found
