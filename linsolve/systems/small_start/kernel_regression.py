"""The trained network compared with kernel regression by its own final kernel, on fewer samples than inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from linsolve import arithmetic
from linsolve.core.network import trained
from linsolve.core.network_law import Estimate, GivenNetwork, NetworkLaw
from linsolve.core.parameters import parameter
from linsolve.systems.small_start.small_network import SmallNetwork
from linsolve.systems.small_start.start import SmallStart, check_growth, check_small, direction, outer, refuse

__all__ = ["KernelRegression"]

WHITE = 1e-9  # largest relative deviation from white inputs
END = 0.3  # relative error of the last layer over the imbalance, in random networks


class KernelRegression(SmallStart):
    r"""Difference of a trained two-layer network and kernel regression with its final kernel, for ``P < D``.

    For ``P < D`` white samples, :math:`X X^\top / P = \Pi` a projector, and targets :math:`y = s \beta \cdot x`,
    :math:`\beta = \Pi \beta`, the maps of the network and of kernel regression with the final kernel are equal on the
    span of the data. Outside it they differ by the part of the initial weights that gradient flow leaves unchanged,
    :math:`V = W_0 (I - \Pi)`:

    .. math:: f_\infty - f_{\mathrm{KRR}} = \tfrac12 V^\top a_\infty + O(\sigma^3), \qquad
        a_\infty = \sqrt s \Bigl(\hat g - \frac{T}{2} (I - \hat g \hat g^\top) B \hat g\Bigr) + O(\sigma^2),

    .. math:: \hat g = \frac{a_0 + W_0 \beta}{|a_0 + W_0 \beta|}, \quad B = W_\perp W_\perp^\top, \quad
        W_\perp = W_0 (\Pi - \beta \beta^\top), \quad T = \frac{1}{s} \sqrt{1 + \frac1K} \, \mathrm{arsinh} \sqrt K,
        \quad K = \frac{2s}{p_0} - 1, \quad p_0 = \tfrac12 |a_0 + W_0 \beta|^2.

    The network thus is a kernel machine with its final kernel up to an error :math:`O(\sigma)`, not
    :math:`O(\sigma^2)`. For ``P >= D`` the two are equal, as the regression does not depend on the kernel.

    Parameters
    ----------
    last, first
        As in `EarlyAlignment`.
    inputs : array_like, shape (sample, n_in)
        White: orthogonal, each of squared length ``P``.
    target : array_like, shape (n_in,)
        Map ``s beta`` in the span of the inputs, not zero.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If the inputs are not white, the target is zero or not in their span, ``p0 = 0``, or products of entries
        overflow.

    Notes
    -----
    Approximates the two-layer network; `exact` integrates its weights numerically. ``function`` compares the two maps.
    ``gap`` compares their difference with :math:`V^\top a_\infty / 2`. ``gap from the start`` compares the difference
    with the same expression, computed from the initial weights. There the term in ``T``, derived here, describes the
    rotation of :math:`\hat g` before the loss decreases. This term is :math:`O(\sigma^2 \log(1/\sigma))`; without it
    the error would be of the same order.

    Source: Atanasov, Bordelon, Pehlevan (2022), eq. (15) and section 2. ``linsolve card KernelRegression`` lists the
    published formulas and their verdicts.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> last, first = [1.0, 0.0], [[1.0, 1.0], [0.0, 1.0]]
    >>> law = ls.laws.KernelRegression(last=last, first=first, inputs=[[1.0, 0.0]], target=[1.0, 0.0])
    >>> gap = law.exact(np, 0.1)["gap"]  # trained network less kernel regression: one sample, two inputs
    >>> float(gap[1].round(4))  # sigma/2, not of order sigma^2
    0.05
    >>> float(law.approximation(np, 0.1)["gap from the start"][1].round(4))
    0.05
    """

    inputs: Any = parameter("X", "white inputs", axes=("sample", "n_in"))
    target: Any = parameter(r"s\beta", "map to be learned, in the span of the inputs", axes=("n_in",))

    approximates: ClassVar[str] = "the two-layer network trained on fewer white samples than inputs"
    timed: ClassVar[bool] = False
    orders: ClassVar[Mapping[str, float]] = {"function": 1, "gap": 2, "gap from the start": 2}
    scales = (3e-2, 1e-2, 3e-3)

    def __post_init__(self) -> None:
        super().__post_init__()
        x, y = (arithmetic.to_numpy(v).astype(float) for v in (self.inputs, self.target))
        count = len(x)
        off = np.max(np.abs(x @ x.T / count - np.eye(count)))
        if not off <= WHITE:
            size = f"rows whose Gram matrix over P differs from I by {off:.3g}"
            fix = "use sqrt(P) times np.linalg.qr(inputs.T)[0].T"
            refuse(self, "inputs", size, f"must be orthogonal, of squared length P = {count}", fix)
        away = np.linalg.norm(y - y @ x.T @ x / count) / np.linalg.norm(y)
        if not away <= WHITE:
            fix = f"use target @ inputs.T @ inputs / {count}"
            refuse(self, "target", f"a vector {away:.3g} (relative) outside the span of inputs", "must lie in it", fix)
        check_growth(self)

    def _trained(self, small: Any) -> tuple[np.ndarray, np.ndarray]:
        if not arithmetic.readable(*self.parameters().values(), small):
            raise TypeError(
                f"{type(self).__name__}: approximation compares with kernel regression by the trained weights, which "
                "have no closed form and are not traced by JAX; trace last_layer(xp, small), from the initial weights, "
                "or regression(xp, first, last) of given weights"
            )
        check_small(self, small)
        first, last = trained(
            self.layers_at_start(small), self.target, covariance=self.inputs.T @ self.inputs / len(self.inputs)
        )
        return first, last[0]

    def regression(self, xp: Any, first: Any, last: Any) -> Any:
        """Return the map of kernel regression with the kernel of these layers, shape (n_in,)."""
        x, one = self.inputs, xp.eye(self.inputs.shape[1])
        features = x @ (xp.matrix_transpose(first) @ first + xp.sum(last * last) * one)
        gram = features @ xp.matrix_transpose(x)
        return xp.linalg.solve(gram, (x @ self.target)[:, None])[:, 0] @ features

    def approximation(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the map of the regression and both forms of the gap."""
        first, last = self._trained(small)
        x = self.inputs
        unseen = small * (self.first - self.first @ xp.matrix_transpose(x) @ x / x.shape[0])
        return {
            "function": self.regression(xp, first, last),
            "gap": last @ unseen / 2,
            "gap from the start": self.last_layer(xp, small) @ unseen / 2,
        }

    def last_layer(self, xp: Any, small: Any) -> Any:
        """Return the last layer at the end of training, shape (width,), from the initial weights."""
        x, (s, beta) = self.inputs, direction(xp, self.target)
        w = self.first @ beta
        across = (self.first @ xp.matrix_transpose(x)) @ x / x.shape[0] - outer(w, beta)
        size = xp.sqrt(xp.sum((self.last + w) ** 2))
        g = (self.last + w) / size
        turn = small**2 * across @ (g @ across)
        k = 4 * s / (small * size) ** 2 - 1
        wait = xp.sqrt(1 + 1 / k) * xp.log(xp.sqrt(k) + xp.sqrt(1 + k)) / s
        return xp.sqrt(s) * (g - wait / 2 * (turn - g * xp.sum(g * turn)))

    def exact(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the network's map and its difference from the regression's."""
        first, last = self._trained(small)
        gap = last @ first - self.regression(xp, first, last)
        return {"function": last @ first, "gap": gap, "gap from the start": gap}

    @classmethod
    def applied(cls, given: GivenNetwork) -> NetworkLaw:
        """Return the trained map, shape (1, n_in), kernel regression with the final tangent kernel, and their gap."""
        net, network = SmallNetwork.of(given, depth=2, outputs=1, white=True), given.network
        given.require_small(cls, net.small)
        net.growing(net.target[0])
        span, scales = network.span, np.sqrt(net.red.clock / network.rates)
        first, last = (scale * layer for scale, layer in zip(scales, network.weights, strict=True))
        learned = (network.cross @ span) / network.power @ span.T
        law = cls(last=last[0], first=first, inputs=np.sqrt(span.shape[1]) * span.T, target=learned[0])
        unseen = scales[0] * given.frozen
        gap = law.last_layer(np, 1.0)[None] @ unseen / 2

        def predict(given: GivenNetwork) -> dict[str, Estimate]:
            error, size = END * net.imbalance, np.abs(learned).max()
            return {
                "gap": Estimate(lambda: gap, 2, error),
                "map": Estimate(lambda: learned + 2 * gap, 3, float(2 * error * np.abs(gap).max() / size)),
                "regression": Estimate(lambda: learned + gap, 3, float(error * np.abs(gap).max() / size)),
            }

        return net.law(cls, predict)

    @classmethod
    def example(cls, rng: np.random.Generator) -> KernelRegression:
        """Return a network of 5 hidden units on 4 samples of 7 inputs."""
        inputs = np.linalg.qr(rng.normal(size=(7, 4)))[0].T
        direction = rng.normal(size=4) @ inputs
        return cls(
            last=rng.normal(size=5) / np.sqrt(5),
            first=rng.normal(size=(5, 7)) / np.sqrt(7),
            inputs=2 * inputs,
            target=rng.uniform(0.8, 1.6) * direction / np.linalg.norm(direction),
        )
