"""Phase I of a small two-layer network on inputs of any covariance: a closed system of five overlaps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from linsolve import arithmetic
from linsolve.core.network import follow
from linsolve.core.network_law import Estimate, GivenNetwork, NetworkLaw
from linsolve.core.parameters import parameter
from linsolve.systems.small_start.linearized import LATEST, LinearizedNetwork
from linsolve.systems.small_start.start import (
    SmallStart,
    check_covariance,
    check_growth,
    check_times,
    direction,
    outer,
)

__all__ = ["EarlyAnisotropic", "EarlyKernelDirection"]


def _teacher(xp: Any, target: Any, covariance: Any) -> tuple[Any, Any, Any, Any]:
    """Return ``s``, ``beta``, ``Sigma beta`` and ``b = beta^T Sigma^2 beta``."""
    s, beta = direction(xp, target)
    turned = covariance @ beta
    return s, beta, turned, xp.sum(turned**2)


class EarlyAnisotropic(SmallStart):
    r"""Phase I for any input covariance: a linear system of five overlaps.

    For :math:`f = a^\top W x`, ``target`` :math:`= s \beta`, covariance :math:`\Sigma`,
    :math:`\alpha = \beta^\top \Sigma \beta`, :math:`b = \beta^\top \Sigma^2 \beta`, the overlaps

    .. math:: \rho = (\beta^\top W^\top a, \; |a|^2, \; \beta^\top W^\top W \Sigma \beta, \;
        \beta^\top \Sigma W^\top a, \; \beta^\top \Sigma W^\top W \Sigma \beta)

    obey, at fixed times and up to a relative error :math:`O(\sigma^2)`,

    .. math:: \dot \rho = s \begin{pmatrix} 0 & \alpha & 1 & 0 & 0 \\ 0 & 0 & 0 & 2 & 0 \\ b & 0 & 0 & \alpha & 0 \\
        0 & b & 0 & 0 & 1 \\ 0 & 0 & 0 & 2 b & 0 \end{pmatrix} \rho,

    whose matrix has the simple eigenvalues :math:`0, \pm \sqrt b, \pm 2 \sqrt b`.

    Parameters
    ----------
    last, first, target
        As in `EarlyAlignment`.
    covariance : array_like, shape (n_in, n_in)
        Covariance of the inputs, symmetric, positive semi-definite, with :math:`\Sigma \beta \ne 0`.
    times : array_like, shape (time,)
        Increasing (time at learning rate 1), ``2 s sqrt(b) t`` at most 700.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If the covariance violates these conditions, the target is zero, a time is too late, or products of entries
        overflow.

    Notes
    -----
    Approximates the two-layer network; `exact` integrates its weights numerically. Source: Atanasov, Bordelon, Pehlevan
    (2022), eqs. (20)-(24); for the resulting kernel, (25), see `EarlyKernelDirection`.
    ``linsolve card EarlyAnisotropic`` lists the published formulas and their verdicts.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> law = ls.laws.EarlyAnisotropic(
    ...     last=[1.0, 0.0], first=[[1.0, 0.0], [0.0, 0.0]], target=[1.0, 0.0], covariance=np.diag([2.0, 1.0]),
    ...     times=[0.0, 1.0],
    ... )
    >>> output = law.approximation(np, 1e-3)["output"]  # grows at the rate 2 s sqrt(b) = 4
    >>> round(float(np.log(output[1] / output[0])), 6)
    4.0
    """

    covariance: Any = parameter(r"\Sigma", "covariance of the inputs", axes=("n_in", "n_in"))
    times: Any = parameter("t", "times", domain="[0, inf)", axes=("time",))

    approximates: ClassVar[str] = "the two-layer network on inputs of any covariance, at fixed times from a small start"
    names: ClassVar[tuple[str, ...]] = ("output", "last", "first", "pull", "drive")
    orders: ClassVar[Mapping[str, float]] = dict.fromkeys(names, 2)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_covariance(self, definite=False)
        check_times(self, 2 * float(np.linalg.norm(arithmetic.to_numpy(self.covariance @ self.target))))

    def generator(self, xp: Any) -> Any:
        """Return the matrix of the linear system, shape (5, 5)."""
        s, beta, turned, b = _teacher(xp, self.target, self.covariance)
        a, o, one = xp.sum(beta * turned), 0 * b, b / b
        rows = [[o, a, one, o, o], [o, o, o, 2 * one, o], [b, o, o, a, o], [o, b, o, o, one], [o, o, o, 2 * b, o]]
        return s * xp.stack([xp.stack(row) for row in rows])

    def overlaps(self, xp: Any, a: Any, first: Any) -> Any:
        """Return the five overlaps, shape (..., 5), of layers ``a`` (..., width) and ``W`` (..., width, n_in)."""
        _, beta, turned, _ = _teacher(xp, self.target, self.covariance)
        w, v = xp.sum(first * beta, axis=-1), xp.sum(first * turned, axis=-1)
        pairs = ((w, a), (a, a), (w, v), (v, a), (v, v))
        return xp.stack([xp.sum(x * y, axis=-1) for x, y in pairs], axis=-1)

    def approximation(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the overlaps at the times, from Sylvester's formula for the exponential of the generator."""
        g, start = self.generator(xp), small**2 * self.overlaps(xp, self.last, self.first)
        s, _, _, b = _teacher(xp, self.target, self.covariance)
        roots = [k * s * xp.sqrt(b) for k in (0, 1, -1, 2, -2)]
        total = 0 * self.times[:, None] * start
        for k, root in enumerate(roots):
            part = start
            for j, other in enumerate(roots):
                if j != k:
                    part = (g @ part - other * part) / (root - other)
            total = total + xp.exp(root * self.times)[:, None] * part
        return {name: total[:, k] for k, name in enumerate(self.names)}

    def exact(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the same quantities from the integrated network."""
        start = self.layers_at_start(small)
        first, last = follow(start, self.target, self.times, covariance=self.covariance)
        found = self.overlaps(xp, last[:, 0, :], first)
        return {name: found[:, k] for k, name in enumerate(self.names)}

    @classmethod
    def applied(cls, given: GivenNetwork) -> NetworkLaw:
        """Return phase I of a network with two layers and one output."""
        return LinearizedNetwork.of(given, depth=2, outputs=1).phase_one(cls)

    @classmethod
    def example(cls, rng: np.random.Generator) -> EarlyAnisotropic:
        """Return a network of 3 hidden units on 4 inputs of generic covariance."""
        root = rng.normal(size=(4, 4)) / 2
        return cls(
            last=rng.normal(size=3) / np.sqrt(3),
            first=rng.normal(size=(3, 4)) / 2,
            target=rng.normal(size=4) / 2,
            covariance=root @ root.T + 0.3 * np.eye(4),
            times=np.linspace(0.0, 1.5, 7),
        )


class EarlyKernelDirection(SmallStart):
    r"""Direction of the kernel late in phase I: :math:`\Sigma \beta`, not :math:`\beta`.

    With the names of `EarlyAnisotropic` and :math:`M = W^\top W + |a|^2 I`,

    .. math:: \frac{M}{|a|^2} \to \frac{\Sigma \beta \beta^\top \Sigma}{\beta^\top \Sigma^2 \beta} + I
        \qquad \bigl(\text{error } O(e^{-s \sqrt b t})\bigr).

    Parameters
    ----------
    last, first, target, covariance
        As in `EarlyAnisotropic`, with :math:`a_0 + W_0 \Sigma \beta / \sqrt b \ne 0`.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        As for `EarlyAnisotropic`, and if the initial weights have no component along the growing mode.

    Notes
    -----
    Approximates the network linearized about zero weights, solved by a matrix exponential. The small parameter is
    :math:`e^{-s \sqrt b t}`. Source: Atanasov et al. (2022), eq. (25). ``linsolve card EarlyKernelDirection`` lists the
    published formulas and their verdicts.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> law = ls.laws.EarlyKernelDirection(
    ...     last=[1.0, 0.0], first=[[0.0, 1.0], [1.0, 0.0]], target=[1.0, 0.0], covariance=[[2.0, 1.0], [1.0, 2.0]]
    ... )
    >>> law.approximation(np, 1e-3)["kernel"].round(6).tolist()  # (2, 1) (2, 1)^T / 5 + I
    [[1.8, 0.4], [0.4, 1.2]]
    >>> bool(np.abs(law.exact(np, 1e-3)["kernel"] - law.approximation(np, 1e-3)["kernel"]).max() < 1e-2)
    True
    """

    covariance: Any = parameter(r"\Sigma", "covariance of the inputs", axes=("n_in", "n_in"))

    approximates: ClassVar[str] = "the two-layer network linearized about zero weights, at late times"
    orders: ClassVar[Mapping[str, float]] = {"kernel": 1}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_covariance(self, definite=False)
        check_growth(self, "covariance @ target")

    def approximation(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the limit of the kernel divided by the squared norm of the last layer."""
        _, _, turned, b = _teacher(xp, self.target, self.covariance)
        return {"kernel": outer(turned, turned) / b + xp.eye(turned.shape[0])}

    def exact(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the kernel of the linearized network at the time when ``exp(s sqrt(b) t) = 1/small``."""
        from scipy.linalg import expm

        s, _, turned, b = _teacher(xp, self.target, self.covariance)
        n = turned.shape[0]
        pull = np.zeros((n + 1, n + 1))  # generator for the columns of (W, a)
        pull[:n, n] = pull[n, :n] = s * turned
        time = -np.log(float(small)) / (float(s) * np.sqrt(float(b)))
        weights = np.column_stack([self.first, self.last]) @ expm(time * pull)
        first, size = weights[:, :n], np.sum(weights[:, n] ** 2)
        return {"kernel": first.T @ first / size + np.eye(n)}

    @classmethod
    def applied(cls, given: GivenNetwork) -> NetworkLaw:
        """Return the direction of the kernel of a network with two layers and one output, late in phase I."""
        net = LinearizedNetwork.of(given, depth=2, outputs=1)
        direction = net.red.cross[0] / np.linalg.norm(net.red.cross)
        g = net.growing(net.red.cross[0])
        first, last = net.layers
        across = np.linalg.norm(g @ first - (g @ first @ direction) * direction) / np.linalg.norm(g)
        decaying = np.linalg.norm(last[0] - first @ direction) / np.linalg.norm(g)
        span = net.given.network.span

        def predict(given: GivenNetwork) -> dict[str, Estimate]:
            axis = net.red.inputs @ direction
            limit = np.broadcast_to(outer(axis, axis) + span @ span.T, (*given.times.shape, len(axis), len(axis)))
            layers = net.grown(given.times)
            size = np.linalg.norm(layers[1], axis=(-2, -1))
            some = size > 0  # a kernel whose last layer starts at zero has no direction yet
            parts = np.where(some, across / np.where(some, size, 1.0), np.inf)
            parts = parts + decaying * np.exp(-2 * net.rate * given.times)
            error, scaling = float(parts.max()) / 2 + net.saturation(layers) / 2, f"exp(-{net.rate:.3g} t)"
            return {"kernel direction": Estimate(lambda: limit, 1, error, scaling)}

        return net.law(cls, predict, latest=LATEST / (2 * net.rate))

    @classmethod
    def example(cls, rng: np.random.Generator) -> EarlyKernelDirection:
        """Return the network of `EarlyAnisotropic`."""
        law = EarlyAnisotropic.example(rng).parameters()
        return cls(**{name: law[name] for name in ("last", "first", "target", "covariance")})
