"""The tangent kernel at the end of training, and its alignment with the target, at any depth."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from linsolve import arithmetic
from linsolve.core.network import trained
from linsolve.core.network_law import GivenNetwork, NetworkLaw
from linsolve.core.parameters import parameter
from linsolve.systems.small_start.final_network import FinalNetwork
from linsolve.systems.small_start.start import DeepStart, check_covariance, direction, outer, refuse, unit

__all__ = ["FinalKernel", "FinalKernelAnisotropic", "FinalKernelOutputs", "tangent_kernel"]


def tangent_kernel(layers: list[np.ndarray], rates: Any = None) -> np.ndarray:
    """Return ``M`` of shape (n_out, n_out, n_in, n_in) with ``K_cc'(x, x') = x^T M_cc' x'``, from raw layers.

    If `rates` are given, the contribution of each layer is multiplied by its learning rate. This kernel drives the
    output.
    """
    n_out, n_in = layers[-1].shape[0], layers[0].shape[1]
    weights = np.ones(len(layers)) if rates is None else np.asarray(rates, dtype=float)
    total = np.zeros((n_out, n_out, n_in, n_in))
    for k, weight in enumerate(weights):
        below = functools.reduce(lambda made, layer: layer @ made, layers[:k], np.eye(n_in))
        above = functools.reduce(lambda made, layer: layer @ made, layers[k + 1 :], np.eye(layers[k].shape[0]))
        total += weight * np.einsum("cd,ij->cdij", above @ above.T, below.T @ below)
    return total


class FinalKernel(DeepStart):
    r"""Final tangent kernel of a network of any depth, one output, layer-wise learning rates, white inputs.

    With ``target`` :math:`= s \beta` and learning rates :math:`\eta_1, \dots, \eta_L` of geometric mean
    :math:`\bar\eta`, let :math:`K = \sum_\ell \langle \partial_\ell f, \partial_\ell f \rangle`, and let
    :math:`K_\eta` be the same sum weighted with :math:`\eta_\ell`, which drives the output. At the end of training

    .. math:: K_\infty = \bar\eta s^{2 - 2/L} \, x^\top \Bigl[\frac{1}{\eta_1} I
        + \sum_{\ell \ge 2} \frac{1}{\eta_\ell} \, \beta \beta^\top \Bigr] x', \qquad
        K_{\eta, \infty} = \bar\eta s^{2 - 2/L} \, x^\top [I + (L - 1) \beta \beta^\top] x'.

    On white inputs of rank ``r`` their alignment with the target, :math:`y^\top K y / (|K|_F |y|^2)`, is

    .. math:: \frac{1 + \rho}{\sqrt{(1 + \rho)^2 + r - 1}}, \qquad
        \rho = \eta_1 \sum_{\ell \ge 2} \frac{1}{\eta_\ell} \; (K), \qquad \rho = L - 1 \; (K_\eta):

    for any rates, the alignment of :math:`K_\eta` is :math:`L / \sqrt{L^2 + r - 1}`. Error :math:`O(\sigma^2)`.

    Parameters
    ----------
    start : array_like, shape (layer, width, width)
        Initial weights over :math:`\sigma` of at least two layers, not all zero. Only the first ``n_in`` columns of the
        first layer and the first ``n_out`` rows of the last are used.
    target : array_like, shape (n_in,)
        Target map ``s beta``, not zero.
    rates : array_like, shape (layer,)
        Learning rates, first layer first.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If there is one layer only, initial weights or target are zero, or products of entries overflow. `exact` also
        raises if the width is below the number of inputs.

    Notes
    -----
    Approximates the network; `exact` integrates its weights numerically. Source: Atanasov, Bordelon, Pehlevan (2022),
    eqs. (35)-(37), (42) and the maximal alignment of their figures 1, 3, 5. ``linsolve card FinalKernel`` lists the
    published formulas and their verdicts.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> law = ls.laws.FinalKernel(start=np.ones((3, 2, 2)), target=[1.0, 0.0], rates=[1.0, 1.0, 1.0])
    >>> found = law.approximation(np, 1e-2)
    >>> found["kernel"].tolist(), round(float(found["alignment"]), 6)  # I + 2 beta beta^T, 3/sqrt(10)
    ([[3.0, 0.0], [0.0, 1.0]], 0.948683)
    >>> np.diagonal(law.exact(np, 0.1)["kernel"]).round(3).tolist()  # trained from layers of size 0.1
    [3.0, 0.993]
    >>> network = ls.laws.FinalKernel.of([0.01 * np.eye(2), 0.01 * np.eye(2), [[0.01, 0.0]]], (np.eye(2), [1.0, 0.0]))
    >>> network()["ntk"].round(6).tolist()  # on the samples
    [[3.0, 0.0], [0.0, 1.0]]
    """

    approximates: ClassVar[str] = "the trained network of any depth on white inputs, from a start of size sigma"
    timed: ClassVar[bool] = False
    orders: ClassVar[Mapping[str, float]] = {"kernel": 2, "driving kernel": 2, "alignment": 2, "driving alignment": 2}
    scales = (3e-2, 1e-2, 3e-3)

    def kernels(self, xp: Any) -> tuple[Any, Any]:
        """Return both kernel matrices, shape (n_in, n_in)."""
        depth, n = self.rates.shape[0], self.target.shape[0]
        s, beta = direction(xp, self.target)
        spike, one = outer(beta, beta), xp.eye(n)
        mean = xp.exp(xp.sum(xp.log(self.rates)) / depth)
        size = mean * xp.pow(s, 2 - 2 * s / s / depth)
        return size * (one / self.rates[0] + xp.sum(1 / self.rates[1:]) * spike), size * (one + (depth - 1) * spike)

    def alignments(self, xp: Any) -> tuple[Any, Any]:
        """Return both alignments, from the formula for the alignment."""
        depth, rank = self.rates.shape[0], self.target.shape[0]
        spike = self.rates[0] * xp.sum(1 / self.rates)
        return spike / xp.sqrt(spike**2 + rank - 1), depth / xp.sqrt(depth**2 + rank - 1 + 0 * spike)

    def approximation(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return kernels and alignments."""
        return dict(zip(self.orders, (*self.kernels(xp), *self.alignments(xp)), strict=True))

    def exact(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the same quantities of the trained network."""
        layers = trained(self.layers_at_start(small), self.target, rates=self.rates)
        kernels = [tangent_kernel(layers, rates)[0, 0] for rates in (None, self.rates)]
        _, beta = direction(xp, self.target)
        alignments = [beta @ k @ beta / xp.sqrt(xp.sum(k * k)) for k in kernels]
        return dict(zip(self.orders, (*kernels, *alignments), strict=True))

    @classmethod
    def applied(cls, given: GivenNetwork) -> NetworkLaw:
        """Return the tangent kernel of `linsolve.solve` at the end of training, and its alignment."""
        net = FinalNetwork.of(given, outputs=1, white=True)
        law = cls(net.padded, net.learned[0], given.network.rates)
        found = law.approximation(np, 1.0)
        ntk, alignment = found["driving kernel"][None, None], found["driving alignment"]
        return net.end(cls, {"ntk": lambda: net.kernel(ntk), "alignment": lambda: alignment})

    @classmethod
    def example(cls, rng: np.random.Generator) -> FinalKernel:
        """Return a network of three layers with different learning rates on 4 inputs."""
        beta = unit(rng, 4)
        return cls(
            start=rng.normal(size=(3, 6, 6)) / 2,
            target=rng.uniform(0.8, 1.6) * beta,
            rates=rng.uniform(0.5, 2.0, 3),
        )


class FinalKernelAnisotropic(DeepStart):
    r"""Kernel alignment at the end of training on inputs of any covariance :math:`\Sigma`, one output.

    With :math:`m_1 = \beta^\top \Sigma \beta`, :math:`m_2 = \beta^\top \Sigma^2 \beta` and the kernel :math:`K_\infty
    \propto x^\top [A \beta \beta^\top + I] x'` of `FinalKernel`, :math:`A = \rho`,

    .. math:: \frac{y^\top K y}{|K|_F |y|^2}
        = \frac{A m_1^2 + m_2}{m_1 \sqrt{A^2 m_1^2 + 2 A m_2 + \mathrm{tr}\, \Sigma^2}}.

    Error :math:`O(\sigma^2)`.

    Parameters
    ----------
    start, target, rates
        As in `FinalKernel`.
    covariance : array_like, shape (n_in, n_in)
        Covariance of the inputs, symmetric and positive definite.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        As for `FinalKernel`, and if the covariance is not symmetric and positive definite.

    Notes
    -----
    Approximates the network; `exact` integrates its weights numerically. Source: Atanasov et al. (2022), section 3.2,
    for :math:`K_\infty = s (\beta \beta^\top + I)` at every full-rank :math:`\Sigma`; the alignment is derived here.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> law = ls.laws.FinalKernelAnisotropic(
    ...     start=np.ones((2, 2, 2)), target=[1.0, 0.0], rates=[1.0, 1.0], covariance=np.diag([2.0, 1.0])
    ... )
    >>> round(float(law.approximation(np, 1e-2)["alignment"]), 6)  # 4/sqrt(17)
    0.970143
    >>> round(float(law.exact(np, 1e-3)["alignment"]), 4)  # of a trained network
    0.9701
    """

    covariance: Any = parameter(r"\Sigma", "covariance of the inputs", axes=("n_in", "n_in"))

    approximates: ClassVar[str] = "the trained network of any depth, from a start of size sigma"
    timed: ClassVar[bool] = False
    orders: ClassVar[Mapping[str, float]] = {"alignment": 2}
    scales = (3e-2, 1e-2, 3e-3)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_covariance(self, definite=True)

    def approximation(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the alignment."""
        _, beta = direction(xp, self.target)
        pulled = self.covariance @ beta
        a = self.rates[0] * xp.sum(1 / self.rates[1:])
        m1, m2, square = xp.sum(beta * pulled), xp.sum(pulled**2), xp.sum(self.covariance**2)
        return {"alignment": (a * m1**2 + m2) / (m1 * xp.sqrt(a**2 * m1**2 + 2 * a * m2 + square))}

    def exact(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the alignment of the trained network on inputs of that covariance."""
        layers = trained(self.layers_at_start(small), self.target, rates=self.rates, covariance=self.covariance)
        inputs = np.linalg.cholesky(self.covariance).T  # as many samples as inputs realize any covariance
        gram, y = inputs @ tangent_kernel(layers)[0, 0] @ inputs.T, inputs @ self.target
        return {"alignment": y @ gram @ y / (np.linalg.norm(gram) * (y @ y))}

    @classmethod
    def applied(cls, given: GivenNetwork) -> NetworkLaw:
        """Return the alignment of the tangent kernel of `linsolve.solve` at the end of training."""
        net = FinalNetwork.of(given, outputs=1)
        rates = np.ones(len(given.network.rates))  # weighted by the rates, the kernel is that of equal rates
        law = cls(net.padded, net.learned[0], rates, np.diag(given.network.power))
        return net.end(cls, {"alignment": lambda: law.approximation(np, 1.0)["alignment"]})

    @classmethod
    def example(cls, rng: np.random.Generator) -> FinalKernelAnisotropic:
        """Return a network of two layers with different learning rates on 4 inputs."""
        root = rng.normal(size=(4, 4)) / 2
        return cls(
            start=rng.normal(size=(2, 6, 6)) / 2,
            target=rng.normal(size=4) / 2,
            rates=rng.uniform(0.5, 2.0, 2),
            covariance=root @ root.T + 0.5 * np.eye(4),
        )


class FinalKernelOutputs(DeepStart):
    r"""Final tangent kernel of a network of any depth with several outputs, on white inputs.

    With ``target`` :math:`S = \sum_\alpha s_\alpha z_\alpha v_\alpha^\top`, of shape ``(C, r)`` and any rank, and
    layer-wise rates of geometric mean :math:`\bar\eta`, the ``C r x C r`` kernel ends at

    .. math:: M_{cc'} = \sum_{\ell=1}^{L} \frac{\bar\eta}{\eta_\ell} \, (S S^\top)^{(L - \ell)/L}_{cc'} \,
        (S^\top S)^{(\ell - 1)/L},

    where the power 0 is the identity. At equal rates and with :math:`\mu_\alpha = s_\alpha^{2/L}` (0 for directions of
    outputs and inputs without a mode), its alignment ends at

    .. math:: \frac{y^\top K y}{|K|_F |y|^2} = \frac{L \sum_\alpha s_\alpha^2 \mu_\alpha^{L-1}}{\sum_\alpha s_\alpha^2
        \sqrt{\sum_{\alpha=1}^{C} \sum_{\beta=1}^{r} \bigl(\sum_\ell \mu_\alpha^{L-\ell} \mu_\beta^{\ell-1}
        \bigr)^2}} .

    Error :math:`O(\sigma^2)`.

    Parameters
    ----------
    start : array_like, shape (layer, width, width)
        As in `FinalKernel`.
    target : array_like, shape (n_out, n_in)
        Target map ``S``, not zero.
    rates : array_like, shape (layer,)
        Learning rates; the alignment is that of the kernel of a network with equal rates.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        As for `FinalKernel`. `exact` also raises if the target is below full rank, since the initial weights in
        directions without a mode decay over times of order :math:`\sigma^{2 - 2L}`.

    Notes
    -----
    Approximates the network, for ``alignment`` at equal rates; `exact` integrates the weights numerically. Source:
    Atanasov et al. (2022), eq. (53). ``linsolve card FinalKernelOutputs`` lists the published formulas and their
    verdicts.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> law = ls.laws.FinalKernelOutputs(start=np.ones((2, 2, 2)), target=np.diag([2.0, 1.0]), rates=[1.0, 1.0])
    >>> kernel = law.approximation(np, 1e-2)["kernel"]
    >>> kernel[0, 0].round(6).tolist(), kernel[1, 1].round(6).tolist()  # s_c I + diag(2, 1)
    ([[4.0, 0.0], [0.0, 3.0]], [[3.0, 0.0], [0.0, 2.0]])
    """

    target: Any = parameter("S", "map to be learned", axes=("n_out", "n_in"))

    approximates: ClassVar[str] = "the trained network of any depth with several outputs, from a start of size sigma"
    timed: ClassVar[bool] = False
    orders: ClassVar[Mapping[str, float]] = {"kernel": 2, "alignment": 2}
    scales = (3e-2, 1e-2, 3e-3)

    def approximation(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the kernel, shape (n_out, n_out, n_in, n_in), and the alignment."""
        n_out, n_in = self.target.shape
        depth = self.rates.shape[0]
        u, s, vt = xp.linalg.svd(self.target)
        mean = xp.exp(xp.sum(xp.log(self.rates)) / depth)
        power = xp.pow(xp.where(s > 0, s, 0 * s), 2 * xp.ones_like(s) / depth)
        outputs, inputs = (xp.concat([power, 0 * axis[0, len(s) :]]) for axis in (u, vt))
        kernel, pairs = xp.zeros((n_out, n_out, n_in, n_in)), xp.zeros((n_out, n_in))
        for k in range(depth):
            above, below = outputs ** (depth - 1 - k), inputs[:, None] ** k
            outside, inner = (u * above) @ xp.matrix_transpose(u), xp.matrix_transpose(vt) @ (below * vt)
            kernel = kernel + mean / self.rates[k] * outside[:, :, None, None] * inner
            pairs = pairs + outer(above, below[:, 0])
        size, fit = xp.sqrt(xp.sum(pairs**2)), xp.sum(s**2 * power ** (depth - 1))
        return {"kernel": kernel, "alignment": depth * fit / (xp.sum(s**2) * size)}

    def exact(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the same quantities of trained networks."""
        values = np.linalg.svd(arithmetic.to_numpy(self.target).astype(float), compute_uv=False)
        if not values[-1] > 1e-3 * values[0]:
            least, rule = f"a matrix with singular value {values[-1]:.3g}", "must have values above 1e-3 of the largest"
            refuse(self, "target", least, rule, "slower modes are not integrated; use approximation alone")
        start = self.layers_at_start(small)
        found = tangent_kernel(trained(start, self.target, rates=self.rates))
        equal = tangent_kernel(trained(start, self.target))
        fit = np.einsum("ci,cdij,dj->", self.target, equal, self.target)
        return {"kernel": found, "alignment": fit / (np.linalg.norm(equal) * np.sum(self.target**2))}

    @classmethod
    def applied(cls, given: GivenNetwork) -> NetworkLaw:
        """Return the tangent kernel of `linsolve.solve` at the end of training, and its alignment."""
        net = FinalNetwork.of(given, white=True)
        rates = np.ones(len(given.network.rates))  # weighted by the rates, the kernel is that of equal rates
        found = cls(net.padded, net.learned, rates).approximation(np, 1.0)
        ntk = net.red.clock * found["kernel"]
        return net.end(cls, {"ntk": lambda: net.kernel(ntk), "alignment": lambda: found["alignment"]})

    @classmethod
    def example(cls, rng: np.random.Generator) -> FinalKernelOutputs:
        """Return a network of 6 hidden units in each of two layers, with 2 outputs on 4 inputs."""
        u, v = np.linalg.qr(rng.normal(size=(2, 2)))[0], np.linalg.qr(rng.normal(size=(4, 2)))[0]
        return cls(
            start=rng.normal(size=(3, 6, 6)) / 2,
            target=u @ np.diag(rng.uniform([0.6, 1.2], [1.0, 1.8])) @ v.T,
            rates=rng.uniform(0.5, 2.0, 3),
        )
