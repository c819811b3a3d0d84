"""Kernels of the layers' activations at the end of training, and their shift by unequal widths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from linsolve.core.law import Expansion, Statistic
from linsolve.core.network import maps, march, trained
from linsolve.core.network_law import GivenNetwork, NetworkLaw
from linsolve.core.parameters import parameter
from linsolve.systems.small_start.final_network import FinalNetwork
from linsolve.systems.small_start.start import (
    DeepStart,
    check_covariance,
    check_range,
    direction,
    outer,
    refuse,
    unit,
)

__all__ = ["LayerImbalance", "LayerKernels", "WidthCorrection"]


class LayerKernels(DeepStart):
    r"""Kernel of each hidden layer's activations at the end of training, one output.

    With ``target`` :math:`= s \beta`, rates :math:`\eta_\ell` of geometric mean :math:`\bar\eta` and :math:`h_\ell =
    W_\ell \cdots W_1 x`,

    .. math:: h_\ell(x) \cdot h_\ell(x') \to s^{2 \ell / L} \prod_{k \le \ell} \frac{\eta_k}{\bar\eta} \;
        x^\top \beta \beta^\top x' + O(\sigma^2),

    for inputs of any full-rank covariance. Orthogonal to the target, the kernel is only :math:`O(\sigma^{2 \ell})`.

    Parameters
    ----------
    start, target, rates, covariance
        As in `FinalKernelAnisotropic`.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        As for `FinalKernelAnisotropic`.

    Notes
    -----
    Approximates the network; `exact` integrates its weights numerically. ``layer k`` is the kernel of hidden layer
    ``k``. ``across k`` is its limit of rank one, the spike, plus its block orthogonal to the target. Source: Atanasov,
    Bordelon, Pehlevan (2022), eq. (43). ``linsolve card LayerKernels`` lists the published formulas and their verdicts.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> ones = np.ones((3, 2, 2))
    >>> law = ls.laws.LayerKernels(start=ones, target=[8.0, 0.0], rates=[1.0, 1.0, 1.0], covariance=np.eye(2))
    >>> [float(law.spike(np, layer)[0, 0].round(6)) for layer in (1, 2, 3)]  # powers of 8^(2/3)
    [4.0, 16.0, 64.0]
    """

    covariance: Any = parameter(r"\Sigma", "covariance of the inputs", axes=("n_in", "n_in"))

    approximates: ClassVar[str] = "the trained network of any depth, from a start of size sigma"
    timed: ClassVar[bool] = False
    orders: ClassVar[Mapping[str, float]] = {"layer 1": 2, "across 1": 2, "layer 2": 2, "across 2": 4}
    scales = (1.2e-2, 6e-3, 3e-3)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_covariance(self, definite=True)
        stated = type(self).orders
        orders = {f"{part} {k}": order for k in self._hidden() for part, order in (("layer", 2), ("across", 2 * k))}
        object.__setattr__(self, "orders", {name: stated.get(name, order) for name, order in orders.items()})

    def _hidden(self) -> range:
        return range(1, self.rates.shape[0])

    def spike(self, xp: Any, layer: int) -> Any:
        """Return the spike, the limit of the kernel matrix of a layer, shape (n_in, n_in)."""
        depth, (s, beta) = self.rates.shape[0], direction(xp, self.target)
        logs = xp.log(self.rates)
        size = 2 * layer * xp.log(s) / depth + xp.sum(logs[:layer]) - layer * xp.sum(logs) / depth
        return xp.exp(size) * outer(beta, beta)

    def approximation(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the spikes of the hidden layers, as full kernels and with a zero block orthogonal to the target."""
        spikes = {k: self.spike(xp, k) for k in self._hidden()}
        return {f"{part} {k}": spike for k, spike in spikes.items() for part in ("layer", "across")}

    def exact(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the same quantities of the trained network."""
        layers = trained(self.layers_at_start(small), self.target, rates=self.rates, covariance=self.covariance)
        _, beta = direction(xp, self.target)
        away, found = xp.eye(beta.shape[0]) - outer(beta, beta), {}
        for k, made in enumerate(maps(layers)[:-1], 1):
            found[f"layer {k}"] = made.T @ made
            found[f"across {k}"] = self.spike(xp, k) + away @ made.T @ made @ away
        return found

    @classmethod
    def applied(cls, given: GivenNetwork) -> NetworkLaw:
        """Return the kernels of the hidden layers at the end of training, shape (n_in, n_in) on the span of inputs."""
        net, network = FinalNetwork.of(given, outputs=1), given.network
        law = cls(net.padded, net.learned[0], network.rates, np.diag(network.power))

        def kernel(layer: int) -> Callable[[], np.ndarray]:
            return lambda: network.span @ law.spike(np, layer) @ network.span.T

        return net.end(cls, {f"layer {k}": kernel(k) for k in range(1, len(network.rates))})

    @classmethod
    def example(cls, rng: np.random.Generator) -> LayerKernels:
        """Return a network of three layers with different learning rates on 4 inputs of generic covariance."""
        root, beta = rng.normal(size=(4, 4)) / 2, unit(rng, 4)
        return cls(
            start=rng.normal(size=(3, 6, 6)) / 2,
            target=rng.uniform(0.8, 1.6) * beta,
            rates=rng.uniform(0.5, 2.0, 3),
            covariance=root @ root.T + 0.5 * np.eye(4),
        )


class WidthCorrection(Expansion):
    r"""Strengths of a learned mode in layers of unequal widths.

    With :math:`N_1, \dots, N_{L+1}` inputs, hidden units and outputs, equal learning rates, and initial weights that
    satisfy :math:`W_\ell W_\ell^\top - W_{\ell+1}^\top W_{\ell+1} = \sigma^2 (1 - N_{\ell+2}/N_{\ell+1}) I`, the
    strengths of a mode of singular value ``s`` end at

    .. math:: u_\ell^2 = s^{2/L} + \sigma^2 \Bigl(g_\ell - \frac{g}{L}\Bigr) + O(\sigma^4), \qquad
        g_\ell = \sum_{k=\ell}^{L-1} \Bigl(1 - \frac{N_{k+2}}{N_{k+1}}\Bigr), \qquad
        g = \sum_{\ell=1}^{L} g_\ell = \sum_{k=1}^{L-1} k \Bigl(1 - \frac{N_{k+2}}{N_{k+1}}\Bigr).

    Parameters
    ----------
    s : array_like
        Singular value of the mode, positive.
    sizes : array_like, shape (boundary,)
        :math:`N_1, \dots, N_{L+1}`, at least two integers.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, or shapes do not fit.

    Notes
    -----
    Approximates the solution of :math:`\prod_\ell (u_L^2 + \sigma^2 g_\ell) = s^2`. Wide random layers satisfy the
    condition on the initial weights only on average, see `LayerImbalance`. Source: Atanasov, Bordelon, Pehlevan (2022),
    eqs. (57)-(59). ``linsolve card WidthCorrection`` lists the published formulas and their verdicts.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> law = ls.laws.WidthCorrection(s=1.0, sizes=[4, 2, 1])  # g_1 = 1/2, g_2 = 0
    >>> law.approximation(np, 0.1)["strengths squared"].round(4).tolist()
    [1.0025, 0.9975]
    >>> law.exact(np, 0.1)["strengths squared"].round(4).tolist()
    [1.0025, 0.9975]
    """

    s: Any = parameter("s", "singular value of the mode", domain="(0, inf)")
    sizes: Any = parameter(
        "N", "numbers of inputs, hidden units, outputs", domain="[1, inf)", axes=("boundary",), whole=True
    )

    approximates: ClassVar[str] = "the strengths of a mode in layers of fixed imbalance at the end of training"
    unapplied: ClassVar[str] = "its condition on the imbalance holds for random layers only on average"
    orders: ClassVar[Mapping[str, float]] = {"strengths squared": 4}
    dps = 50

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self)
        if self.sizes.shape[0] < 2:
            refuse(self, "sizes", str(self.sizes), "must have at least 2 entries", "add the number of outputs")

    def offsets(self, xp: Any) -> Any:
        """Return the ``g_l``, shape (layer,)."""
        steps = 1 - self.sizes[2:] / self.sizes[1:-1]
        return xp.stack([xp.sum(steps[k:]) for k in range(steps.shape[0])] + [0 * self.s])

    def approximation(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return ``u_l^2``, shape (layer,)."""
        offsets = self.offsets(xp)
        depth = offsets.shape[0]
        level = xp.pow(self.s, 2 * self.s / self.s / depth)
        return {"strengths squared": level + small**2 * (offsets - xp.sum(offsets) / depth)}

    def exact(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the same by Newton's method for the logarithm of the smallest square, a root of a convex equation."""
        offsets = self.offsets(xp)
        above, least = small**2 * (offsets - xp.min(offsets)), xp.pow(self.s, 2 * self.s / self.s / offsets.shape[0])
        for _ in range(40):
            squares = least + above
            excess = xp.sum(xp.log(squares)) - 2 * xp.log(self.s)
            least = least * xp.exp(-excess / xp.sum(least / squares))
        return {"strengths squared": least + above}

    @classmethod
    def example(cls, rng: np.random.Generator) -> WidthCorrection:
        """Return a mode of a network of four layers."""
        return cls(s=rng.uniform(0.6, 1.8), sizes=rng.integers(2, 12, 5))


class LayerImbalance(Statistic):
    r"""Mean difference of the squared strengths of the two layers of a trained network with one output.

    For :math:`a_i \sim N(0, \sigma^2/N)`, :math:`W_{ij} \sim N(0, \sigma^2/D)` with small :math:`\sigma`, the norms
    of the rank-one layers at the end of training, :math:`u_1 = |W|_2`, :math:`u_2 = |a|`, obey

    .. math:: \langle u_1^2 - u_2^2 \rangle = \sigma^2 \, \frac{N - 1}{D} .

    `prediction` and `sample` give it in units of :math:`\sigma^2`, as :math:`(N - 1)/D`.

    Parameters
    ----------
    width, n_in : int
        Numbers ``N`` and ``D`` of hidden units and inputs.
    sigma : float
        Size of the initial weights, small: the relative correction is :math:`O(\sigma^2 \log(1/\sigma))`.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, or shapes do not fit.

    Notes
    -----
    Exact at every ``N`` and ``D`` as :math:`\sigma \to 0`, because :math:`u_1^2 - u_2^2 = \hat g^\top (W_0 W_0^\top -
    a_0 a_0^\top) \hat g` is conserved. Training selects the direction :math:`\hat g` of :math:`a_0 + W_0 \beta`, which
    is correlated with both layers. The mean is sampled by training networks. The imbalance of wide random layers has
    the Marchenko-Pastur spectrum. Source: Atanasov, Bordelon, Pehlevan (2022), eqs. (56), (57).
    ``linsolve card LayerImbalance`` lists the published formulas and their verdicts.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> float(ls.laws.LayerImbalance(width=25, n_in=100).prediction(np)["imbalance"])
    0.24
    """

    width: Any = parameter("N", "number of hidden units", domain="[1, inf)", whole=True)
    n_in: Any = parameter("D", "number of inputs", domain="[1, inf)", whole=True)
    sigma: Any = parameter(r"\sigma", "size of the start", domain="(0, 0.1]", default=0.01)

    approximates: ClassVar[str] = "averages over trained two-layer networks with one output from Gaussian starts"
    unapplied: ClassVar[str] = "an average over Gaussian starts; one network conserves the imbalance of its own weights"
    draws: ClassVar[int] = 2000

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self)

    def prediction(self, xp: Any) -> dict[str, Any]:
        """Return the mean difference of the squared strengths over ``sigma^2``."""
        return {"imbalance": (self.width - 1) / self.n_in}

    def sample(self, rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
        """Train `count` networks on white inputs with a target of length 1."""
        n, d, sigma = int(self.width), int(self.n_in), float(self.sigma)
        first = sigma / np.sqrt(d) * rng.normal(size=(count, n, d))
        last = sigma / np.sqrt(n) * rng.normal(size=(count, 1, n))
        target = np.eye(1, d)
        end = np.log(1 / sigma) + 10.0  # the slowest of several thousand networks is later than the mean by 3 to 4
        first, last = march([first, last], target, end, int(20 * end))
        strongest = np.linalg.norm(first, ord=2, axis=(-2, -1))
        return {"imbalance": (strongest**2 - np.sum(last**2, axis=(-2, -1))) / sigma**2}

    @classmethod
    def example(cls, rng: np.random.Generator) -> LayerImbalance:
        """Return a network of 4 hidden units on 12 inputs."""
        return cls(width=4, n_in=12)
