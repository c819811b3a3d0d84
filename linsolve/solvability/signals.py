r"""Taylor series of a wide network through its signals, the vectors that training moves the layers by.

With n outputs, fewer than hidden units, every velocity is a matrix of rank n,

.. math:: \dot W_l = \eta_l\, U_l^T F_{l-1}, \qquad U_{l-1} = U_l W_l,\ U_L = 1, \qquad
    F_l = F_{l-1} W_l^T,\ F_0 = \Sigma_{yx} - U_0 \Sigma_{xx}.

The signals :math:`U_l` and :math:`F_l` have n rows. Their Taylor coefficients follow from each other: in the product
with a layer, :math:`W_l(0)` acts on one coefficient, and :math:`W_l(t) - W_l(0)` has the rank of the coefficients
known before. A step costs a few products of n rows with each layer for each order, and one update of the layers. With
fewer inputs than outputs, the transposed network is expanded.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from linsolve.core.reduced_network import spectral

__all__ = ["SignalSeries"]

ORDER = 32
FINE, COARSE = 1e-15, 1e-6  # last terms of the series, relative to the largest value of a signal
PARTS = 8  # of a coarse step
FAR = 1e3  # ratio of a step to the unit of time, beyond which coefficients may leave the range of doubles


class SignalSeries:
    """A network from time 0 on, by Taylor series of its signals.

    Parameters
    ----------
    layers : list of ndarray
        ``W_l``, shape (n_l, n_{l-1}).
    rates : list of float
        Learning rates.
    covariance, cross : ndarray, shapes (r, r), (c, r)
        Second moments of the data.
    """

    def __init__(self, layers: list[np.ndarray], rates: list[float], covariance: np.ndarray, cross: np.ndarray) -> None:
        self.turned = len(cross) > cross.shape[1]
        held = [w.T for w in reversed(layers)] if self.turned else layers
        self.layers = [np.array(w, order="C") for w in held]
        self.rates = rates[::-1] if self.turned else rates
        self.cross = cross.T if self.turned else cross
        power = np.diag(covariance)
        self.diagonal = bool(np.array_equal(covariance, np.diag(power)))
        self.covariance = power if self.diagonal else covariance
        self.rows, self.unit = len(self.cross), 1.0 / self._rate()
        self.t, self.sizes = 0.0, np.zeros(2 * len(layers))

    def _rate(self) -> float:
        """Return an estimate of the rate of change of the signals."""
        size = max(*(spectral(w) for w in self.layers), 1e-30)
        power = float(np.abs(self.covariance).max()) if self.diagonal else spectral(self.covariance)
        top = max(power * size ** len(self.layers), spectral(self.cross))
        return float(max(self.rates) * top * size ** (len(self.layers) - 2))

    def _seen(self, map_: np.ndarray) -> np.ndarray:
        """Return the product of a map, in the orientation of the series, with the second moment of the inputs."""
        if self.turned:
            return self.covariance[:, None] * map_ if self.diagonal else self.covariance @ map_
        return map_ * self.covariance if self.diagonal else map_ @ self.covariance

    def final(self) -> list[np.ndarray]:
        """Return the layers at the present time."""
        return [w.T for w in reversed(self.layers)] if self.turned else list(self.layers)

    def march(self, end: float) -> Iterator[tuple[float, np.ndarray]]:
        """Yield increasing times up to `end`, and the map there, coarsely."""
        while self.t < end:
            start, step = self.t, self._expand(end - self.t, COARSE)
            for part in range(1, PARTS + 1):
                yield start + step * part / PARTS, self._maps(np.array([step * part / PARTS]))[0]
            self._advance(step)

    def follow(self, times: np.ndarray) -> np.ndarray:
        """Return the maps at ascending times; the present time is the last of them then."""
        found: list[np.ndarray] = []
        while len(found) < len(times):
            start, step = self.t, self._expand(times[-1] - self.t, FINE)
            last = start + step >= times[-1]
            done = len(times) if last else int(np.searchsorted(times, start + step, side="right"))
            found += list(self._maps(times[len(found) : done] - start))
            self._advance(step)
        return np.stack(found)

    @np.errstate(divide="ignore", over="ignore", invalid="ignore")
    def _expand(self, most: float, tolerance: float) -> float:
        """Set the coefficients at the present time, in powers of ``t / unit``, and return the length of a step."""
        while True:
            self.up, self.down = self._coefficients()
            size = np.stack([np.abs(each).max(axis=(1, 2)) for each in (*self.up[:-1], *self.down)], axis=1)
            self.sizes = np.maximum(self.sizes, size[0])
            leading = size[np.argmax(size > 0, axis=0), np.arange(len(self.sizes))]  # of signals that are 0 now
            scale = tolerance * np.where(self.sizes > 0, self.sizes, leading)
            ends = [np.where(size[k] > 0, scale / size[k], np.inf) ** (1.0 / k) for k in (ORDER - 1, ORDER)]
            ratio = float(np.min(ends))
            if ratio * self.unit >= most and most <= FAR * self.unit:
                return most
            if 1 / FAR <= ratio <= FAR:
                return ratio * self.unit
            self.unit *= min(max(ratio, 1 / FAR), FAR) if ratio > 0 else 1 / FAR  # coefficients beyond doubles
            if self.unit < np.finfo(float).tiny:
                raise ArithmeticError(f"applies: integration stopped at t = {self.t}; ask for less time")

    def _coefficients(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return the coefficients of ``U_0, ..., U_L`` and ``F_0, ..., F_{L-1}``, shapes (ORDER + 1, n, n_l)."""
        depth, widths = len(self.layers), [self.layers[0].shape[1], *(len(w) for w in self.layers)]
        up, down = ([np.zeros((ORDER + 1, self.rows, n)) for n in kept] for kept in (widths, widths[:-1]))
        up[depth][0] = np.eye(self.rows)
        overlaps = [np.zeros((ORDER + 1, ORDER + 1, self.rows, self.rows)) for _ in range(2 * depth)]
        for k in range(ORDER + 1):
            for i in range(depth - 1, -1, -1):
                _overlap(overlaps[i], up[i + 1], k)
                up[i][k] = up[i + 1][k] @ self.layers[i]
                up[i][k] += self.rates[i] * self.unit * _moved(overlaps[i], down[i], k)
            down[0][k] = (self.cross if k == 0 else 0.0) - self._seen(up[0][k])
            for i in range(depth - 1):
                _overlap(overlaps[depth + i], down[i], k)
                down[i + 1][k] = down[i][k] @ self.layers[i].T
                down[i + 1][k] += self.rates[i] * self.unit * _moved(overlaps[depth + i], up[i + 1], k)
        return up, down

    def _maps(self, after: np.ndarray) -> np.ndarray:
        """Return the maps at times after the present."""
        powers = (after[:, None] / self.unit) ** np.arange(ORDER + 1)
        found = np.tensordot(powers, self.up[0], 1)
        return np.swapaxes(found, 1, 2) if self.turned else found

    def _advance(self, step: float) -> None:
        """Move the layers to the end of a step."""
        order = np.add.outer(np.arange(ORDER + 1), np.arange(ORDER + 1)) + 1
        x = step / self.unit
        for i, w in enumerate(self.layers):
            left, right = self.up[i + 1], self.down[i]
            mixed = np.tensordot(self.rates[i] * self.unit * x**order / order, right, 1)
            w += left.reshape(-1, left.shape[2]).T @ mixed.reshape(-1, right.shape[2])
        self.t += step
        self.unit = step


def _overlap(overlap: np.ndarray, signal: np.ndarray, k: int) -> None:
    """Set the products of coefficient k of a signal with all coefficients up to k."""
    overlap[: k + 1, k] = signal[: k + 1] @ signal[k].T
    overlap[k, :k] = np.swapaxes(overlap[:k, k], 1, 2)


def _moved(overlap: np.ndarray, other: np.ndarray, k: int) -> np.ndarray:
    """Return coefficient k of the product of a signal with the change of a layer, over its learning rate.

    It is ``sum_{i+p+q=k-1} A_i A_p^T B_q / (p + q + 1)`` for coefficients ``A`` of the signal, with products `overlap`,
    and ``B`` of the other one.
    """
    if k == 0:
        return np.zeros_like(other[0])
    q, i = np.ogrid[:k, :k]
    shares = np.where(i + q < k, 1.0 / (k - i), 0.0)
    weights = np.sum(shares[..., None, None] * overlap[i, k - 1 - q - i], axis=1)
    return np.asarray(np.tensordot(weights, other[:k], ((0, 2), (0, 1))))
