"""What each layer represents at the end of training, and how the widths of the layers shift it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from linsolve.core.law import Expansion, Statistic
from linsolve.core.network import layers_of, maps, march, trained
from linsolve.core.parameters import parameter
from linsolve.systems.small_start.start import outer

__all__ = ["LayerImbalance", "LayerKernels", "WidthCorrection"]


class LayerKernels(Expansion):
    r"""The kernel of each layer's activations at the end of training, one output.

    With ``target`` :math:`= s \beta`, rates :math:`\eta_\ell` of geometric mean :math:`\bar\eta` and :math:`h_\ell =
    W_\ell \cdots W_1 x`,

    .. math:: h_\ell(x) \cdot h_\ell(x') \to s^{2 \ell / L} \prod_{k \le \ell} \frac{\eta_k}{\bar\eta} \;
        x^\top \beta \beta^\top x' + O(\sigma^2),

    for inputs of any full-rank covariance. Across the target the kernel is smaller: :math:`O(\sigma^{2 \ell})`.

    Parameters
    ----------
    start : array_like, shape (3, width, width)
        Layers at the start over :math:`\sigma`; of the first only the first ``n_in`` columns are used, of the last
        only the first row.
    target : array_like, shape (n_in,)
        Map to be learned, ``s beta``.
    rates : array_like, shape (3,)
        Learning rates, first layer first.
    covariance : array_like, shape (n_in, n_in)
        Of the inputs, positive definite.

    Notes
    -----
    Approximates the three-layer network trained from raw weights. ``across k`` adds the block across the target to
    the spike. Source: Atanasov, Bordelon, Pehlevan (2022), eq. (43). Errata: the error printed, :math:`O(\sigma^{2
    \ell})`, is that of the block across the target; the spike itself is wrong by :math:`O(\sigma^2)` in every layer
    (at ``l = 2`` by -0.146 sigma^2). The line after (43), :math:`K_\ell = (y y^\top)^{\ell/L}`, holds only where
    :math:`|y| = s`; it is :math:`s^{2 \ell/L - 2} y y^\top`.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> ones = np.ones((3, 2, 2))
    >>> law = ls.laws.LayerKernels(start=ones, target=[8.0, 0.0], rates=[1.0, 1.0, 1.0], covariance=np.eye(2))
    >>> [float(law.spike(np, layer)[0, 0].round(6)) for layer in (1, 2, 3)]  # powers of 8^(2/3)
    [4.0, 16.0, 64.0]
    """

    start: Any = parameter("W", "layers at the start, over sigma", axes=("layer", "width", "width"))
    target: Any = parameter(r"s\beta", "map to be learned", axes=("n_in",))
    rates: Any = parameter(r"\eta_\ell", "learning rates", domain="(0, inf)", axes=("layer",))
    covariance: Any = parameter(r"\Sigma", "covariance of the inputs", axes=("n_in", "n_in"))

    approximates: ClassVar[str] = "the trained three-layer network, from a start of size sigma"
    orders: ClassVar[Mapping[str, float]] = {"layer 1": 2, "layer 2": 2, "across 1": 2, "across 2": 4}
    scales = (1.2e-2, 6e-3, 3e-3)

    def spike(self, xp: Any, layer: int) -> Any:
        """Return the kernel matrix of a layer, shape (n_in, n_in)."""
        depth = self.rates.shape[0]
        s = xp.sqrt(xp.sum(self.target**2))
        logs = xp.log(self.rates)
        size = 2 * layer * xp.log(s) / depth + xp.sum(logs[:layer]) - layer * xp.sum(logs) / depth
        return xp.exp(size) * outer(self.target / s, self.target / s)

    def approximation(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the kernels of both hidden layers, and nothing across the target."""
        spikes = {layer: self.spike(xp, layer) for layer in (1, 2)}
        return {f"layer {k}": m for k, m in spikes.items()} | {f"across {k}": m for k, m in spikes.items()}

    def exact(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the same of the trained network."""
        layers = layers_of(self.start, small, self.target.shape[0])
        layers = trained(layers, self.target, rates=self.rates, covariance=self.covariance)
        beta = self.target / xp.sqrt(xp.sum(self.target**2))
        away = xp.eye(beta.shape[0]) - outer(beta, beta)
        found: dict[str, Any] = {}
        for k in (1, 2):
            made = maps(layers[:k])[-1]
            found[f"layer {k}"] = made.T @ made
            found[f"across {k}"] = self.spike(xp, k) + away @ made.T @ made @ away
        return found

    @classmethod
    def example(cls, rng: np.random.Generator) -> LayerKernels:
        """Return a network of three layers with rates of their own on 4 inputs of generic covariance."""
        root = rng.normal(size=(4, 4)) / 2
        target = rng.normal(size=4)
        return cls(
            start=rng.normal(size=(3, 6, 6)) / 2,
            target=rng.uniform(0.8, 1.6) * target / np.linalg.norm(target),
            rates=rng.uniform(0.5, 2.0, 3),
            covariance=root @ root.T + 0.5 * np.eye(4),
        )


class WidthCorrection(Expansion):
    r"""How unequal widths spread the strength of a learned mode over the layers.

    With :math:`N_1, \dots, N_{L+1}` inputs, hidden units and outputs, a start whose layers satisfy :math:`W_\ell
    W_\ell^\top - W_{\ell+1}^\top W_{\ell+1} = \sigma^2 (1 - N_{\ell+2}/N_{\ell+1}) I`, and equal rates, the strengths
    of a mode of value ``s`` end at

    .. math:: u_\ell^2 = s^{2/L} + \sigma^2 \Bigl(g_\ell - \frac{g}{L}\Bigr) + O(\sigma^4), \qquad
        g_\ell = \sum_{k=\ell}^{L-1} \Bigl(1 - \frac{N_{k+2}}{N_{k+1}}\Bigr), \qquad
        g = \sum_{\ell=1}^{L} g_\ell = \sum_{k=1}^{L-1} k \Bigl(1 - \frac{N_{k+2}}{N_{k+1}}\Bigr).

    Parameters
    ----------
    s : array_like
        Value of the mode, positive.
    sizes : array_like, shape (boundary,)
        :math:`N_1, \dots, N_{L+1}`.

    Notes
    -----
    Approximates the solution of :math:`\prod_\ell (u_L^2 + \sigma^2 g_\ell) = s^2`. Source: Atanasov, Bordelon,
    Pehlevan (2022), eqs. (57)-(59). Errata: (57) has :math:`N_{k+1}/N_k`, one layer off, against their own (55),
    (56); (59) prints :math:`u^2 = s^2 - g \sigma^2 / (2 L s^{1/L})`, right neither for :math:`u^2` nor for :math:`u =
    s^{1/L} - g \sigma^2 s^{-1/L}/(2L)`, and its inner sum runs to ``L`` instead of ``L - 1``, so that equal widths
    would give ``g = -L``, not 0 as the text says. Wide random layers satisfy the condition on the start only on
    average, see `LayerImbalance`.

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

    s: Any = parameter("s", "value of the mode", domain="(0, inf)")
    sizes: Any = parameter("N", "numbers of inputs, hidden units, outputs", domain="[1, inf)", axes=("boundary",))

    approximates: ClassVar[str] = "the strengths of a mode in layers of fixed imbalance at the end of training"
    orders: ClassVar[Mapping[str, float]] = {"strengths squared": 4}
    dps = 50

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
        """Return the same from Newton's iteration on the logarithm of the condition."""
        offsets = self.offsets(xp)
        last = xp.pow(self.s, 2 * self.s / self.s / offsets.shape[0])
        for _ in range(8):
            all_squared = last + small**2 * offsets
            last = last - (xp.sum(xp.log(all_squared)) - 2 * xp.log(self.s)) / xp.sum(1 / all_squared)
        return {"strengths squared": last + small**2 * offsets}

    @classmethod
    def example(cls, rng: np.random.Generator) -> WidthCorrection:
        """Return a mode of a network of four layers."""
        return cls(s=rng.uniform(0.6, 1.8), sizes=rng.integers(2, 12, 5))


class LayerImbalance(Statistic):
    r"""The strengths of the two layers of a trained network with one output and random start.

    For :math:`a_i \sim N(0, \sigma^2/N)`, :math:`W_{ij} \sim N(0, \sigma^2/D)` with small :math:`\sigma`, the norms
    of the rank one layers at the end of training, :math:`u_1 = |W|_2`, :math:`u_2 = |a|`, obey

    .. math:: \langle u_1^2 - u_2^2 \rangle = \sigma^2 \, \frac{N - 1}{D}.

    Parameters
    ----------
    width, n_in : array_like
        Numbers ``N`` and ``D`` of hidden units and inputs.
    sigma : array_like
        Size of the start, small: the correction is :math:`O(\sigma^2 \log(1/\sigma))`, relative.

    Notes
    -----
    Exact at every ``N`` and ``D`` as :math:`\sigma \to 0`: :math:`u_1^2 - u_2^2 = \hat g^\top (W_0 W_0^\top - a_0
    a_0^\top) \hat g`, conserved, with :math:`\hat g` the direction that training selects, :math:`a_0 + W_0 \beta`,
    which is correlated with both. Sampled by training networks. Source: Atanasov, Bordelon, Pehlevan (2022), eqs.
    (56), (57), which take :math:`\hat g` for independent and have :math:`\sigma^2 (1 - 1/N)`; erratum: at ``D = 100,
    N = 25`` trained networks have 0.236(5) sigma^2, this law 0.240, the paper 0.960. Nor does the spectrum in (56)
    concentrate at fixed ratios of widths: it is that of Marchenko and Pastur.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> float(ls.laws.LayerImbalance(width=25, n_in=100).prediction(np)["imbalance"])
    0.24
    """

    width: Any = parameter("N", "number of hidden units", domain="[1, inf)")
    n_in: Any = parameter("D", "number of inputs", domain="[1, inf)")
    sigma: Any = parameter(r"\sigma", "size of the start", domain="(0, 0.1]", default=0.01)

    approximates: ClassVar[str] = "averages over trained two-layer networks with one output from Gaussian starts"
    draws: ClassVar[int] = 2000

    def prediction(self, xp: Any) -> dict[str, Any]:
        """Return the mean difference of the squared strengths over ``sigma^2``."""
        return {"imbalance": (self.width - 1) / self.n_in}

    def sample(self, rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
        """Train `count` networks on white inputs with a target of length 1."""
        n, d, sigma = int(self.width), int(self.n_in), float(self.sigma)
        first = sigma / np.sqrt(d) * rng.normal(size=(count, n, d))
        last = sigma / np.sqrt(n) * rng.normal(size=(count, 1, n))
        target = np.eye(1, d)
        end = np.log(1 / sigma) + 10.0  # the slowest of some thousand starts waits 3 or 4 longer than the mean
        first, last = march([first, last], target, end, int(20 * end))
        strongest = np.linalg.norm(first, ord=2, axis=(-2, -1))
        return {"imbalance": (strongest**2 - np.sum(last**2, axis=(-2, -1))) / sigma**2}

    @classmethod
    def example(cls, rng: np.random.Generator) -> LayerImbalance:
        """Return a network of 4 hidden units on 12 inputs."""
        return cls(width=4, n_in=12)
