"""Laws of the dispersion of the tangent kernel over random networks: exact moments and limits of large depth."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from linsolve.core.law import Expansion, Statistic
from linsolve.core.network_law import Estimate, GivenNetwork, NetworkLaw
from linsolve.core.parameters import parameter
from linsolve.numerics.checked import in_range
from linsolve.systems.random_networks.kernel_moments import Moments, correlation, gradient_norms, log_moments, spread
from linsolve.systems.random_networks.limits import PHASES, crossover, dispersion
from linsolve.systems.random_networks.sampling import explicit

__all__ = ["DeepLimit", "NTKDispersionCrossover", "NTKDispersionLimit", "NTKMoments", "RandomNetworks"]


class RandomNetworks(Statistic):
    """Base of the laws for averages over random networks of given widths with zero initial biases."""

    batched: ClassVar[bool] = True

    widths: Any = parameter("n", "input and hidden widths", domain="[1, inf)", axes=("layer",), whole=True)
    weight_variance: Any = parameter(r"\sigma_w^2", "variance of the weights times fan-in", domain="(0, inf)")
    slope: Any = parameter("s", "slope of the units at negative arguments")
    omega: Any = parameter(
        r"\omega",
        "learning rates of the weights, factors of their part of the kernel",
        domain="(0, inf)",
        axes=("layer",),
    )
    beta: Any = parameter(
        r"\beta",
        "learning rates of the biases, factors of their part of the kernel",
        domain="(0, inf)",
        axes=("layer",),
    )
    norm_squared: Any = parameter("|x|^2", "squared length of the input", domain="(0, inf)", default=1.0)

    def numbers(self) -> tuple[Any, ...]:
        """Return the arguments of `log_moments`."""
        return self.widths, self.weight_variance, self.slope, self.omega, self.beta, self.norm_squared


class NTKMoments(RandomNetworks):
    r"""Mean and mean square of the tangent kernel of random networks at one input, exact at every width and depth.

    .. math:: \Theta = \Theta_W + \Theta_b = \sum_{\ell=1}^L |\delta^\ell|^2 (\omega_\ell |x^{\ell-1}|^2 + \beta_\ell)

    has the moments of `linsolve.ntk.log_moments`, and :math:`E |\delta^\ell|^2 = D_\ell a^{L-\ell}`.

    Parameters
    ----------
    widths : array_like, shape (layer,)
        Input and hidden widths :math:`n_0, \dots, n_{L-1}`; one output.
    weight_variance : array_like
        :math:`\sigma_w^2`; weights have variance :math:`\sigma_w^2/n_{\ell-1}`, biases start at 0.
    slope : array_like
        Slope of the units at negative arguments: 0 for ReLU, 1 for linear units.
    omega, beta : array_like, shape (layer,)
        Factors of the two parts in the kernel, 1 for standard weights: see `linsolve.ntk.parametrization`.
    norm_squared : array_like
        :math:`|x^0|^2`.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, or shapes do not fit.

    Notes
    -----
    Exact; checked against forward and backward passes of explicit networks. The relative variance of :math:`\Theta^2`
    grows as :math:`e^{20 L/M}` for ReLU units of large width ``M``, so that sample means are unreliable for
    :math:`L/M > 0.3`; the example therefore has few layers of few units. Sources: `log_moments`, `gradient_norms`.
    ``linsolve card NTKMoments`` lists the published formulas and their verdicts.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> law = ls.laws.NTKMoments(widths=[2, 4], weight_variance=2.0, slope=0.0, omega=[1.0, 1.0], beta=[1.0, 1.0])
    >>> found = law.prediction(np)
    >>> [round(float(found[name]), 6) for name in ("weights", "biases")]  # 1 + 4/2 and 1 + 1
    [3.0, 2.0]
    """

    approximates: ClassVar[str] = "averages over random ReLU, leaky or linear networks of any widths"
    timed: ClassVar[bool] = False
    draws: ClassVar[int] = 100_000

    symbol: ClassVar[str] = "n^(-1/2)"
    meaning: ClassVar[str] = "inverse root of the smallest hidden width"

    @classmethod
    def applied(cls, given: GivenNetwork) -> NetworkLaw:
        """Return the mean kernel at the start over networks of the given widths and variances, one output.

        Its error is the standard deviation of the kernel at one input, relative to the mean.
        """
        network = given.network
        layers, rates = network.weights, network.rates
        if len(layers[-1]) != 1:
            given.refuse("outputs", len(layers[-1]), "must be 1", "one output", "give one output")
        if given.samples is None:
            given.refuse("samples", "none", "must be given", "inputs of the kernel", "pass (X, Y)")
        variances = np.asarray([np.mean(w**2) * w.shape[1] for w in layers])
        if not (variances > 0).all():
            given.refuse("layers", 0, "must have an entry other than 0", "variance of the weights", "draw weights")
        # variances of the layers are factors of the parts of the kernel
        omega = np.asarray([eta * np.prod(np.delete(variances, k)) for k, eta in enumerate(rates)])
        widths = [w.shape[1] for w in layers]
        law = cls(widths=widths, weight_variance=1.0, slope=1.0, omega=omega, beta=np.ones(len(layers)))

        def predict(given: GivenNetwork) -> dict[str, Estimate]:
            X, found = given.refuse_large_kernel(), law.prediction(np)
            mean = found["weights"]
            spread = np.sqrt(max(float(found["weights squared"] / mean**2) - 1, 0.0))
            return {"ntk": Estimate(lambda: mean * (X @ X.T), 1, float(spread))}

        narrow = min(widths[1:], default=np.inf)
        return NetworkLaw(cls, given, narrow**-0.5, predict, expansion=False)

    def logs(self, xp: Any) -> Moments:
        """Return the logarithms of the moments by depth."""
        return log_moments(xp, *self.numbers())

    def gradients(self, xp: Any) -> Any:
        """Return the mean squared gradients with respect to the preactivations of all layers, shape (layer,)."""
        return gradient_norms(xp, self.widths, self.weight_variance, self.slope)

    def correlation(self, xp: Any) -> Any:
        """Return the mean product of first gradient and last hidden layer over the product of their means."""
        return correlation(xp, self.widths, self.slope)

    def prediction(self, xp: Any) -> dict[str, Any]:
        """Return the moments of both parts and of their sum, and the mean squared gradients of the hidden layers."""
        logs = self.logs(xp)
        last = {name.replace("_", " "): value[..., -1] for name, value in logs._asdict().items()}
        last |= {"kernel squared": logs.log_square(xp)[..., -1]}
        means = in_range("NTKMoments", lambda: tuple(xp.exp(v) for v in last.values()), **self.parameters())
        return dict(zip(last, means, strict=True)) | {
            "gradients": self.gradients(xp)[:-1],
            "correlation": self.correlation(xp),
        }

    def sample(self, rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
        """Draw `count` explicit networks."""
        drawn = explicit(
            rng, count, self.widths, float(self.weight_variance), float(self.slope), float(self.norm_squared)
        )  # fmt: skip
        weights, biases = drawn.kernels(self.omega, self.beta)
        growth = (self.weight_variance * spread(self.slope)[0]) ** (2 * len(self.widths) - 2)
        means = self.norm_squared * growth * self.widths[-1] / self.widths[0]
        return {
            "weights": weights,
            "biases": biases,
            "weights squared": weights**2,
            "cross": weights * biases,
            "biases squared": biases**2,
            "kernel squared": (weights + biases) ** 2,
            "gradients": drawn.gradients[:, :-1],
            "correlation": drawn.gradients[:, 0] * drawn.inputs[:, -1] / means,
        }

    @classmethod
    def example(cls, rng: np.random.Generator) -> NTKMoments:
        """Return ReLU networks with four hidden layers of a few units, and generic parts of the kernel."""
        return cls(
            widths=np.concatenate([rng.integers(2, 5, 1), rng.permutation([5, 8, 8, 10])]),
            weight_variance=rng.uniform(1.6, 2.0),
            slope=0.0,
            omega=rng.uniform(0.8, 1.2, 5),
            beta=rng.uniform(0.8, 1.2, 5),
            norm_squared=rng.uniform(0.5, 1.5),
        )


class DeepLimit(Expansion):
    """Base of the laws in ``1/M`` for networks of constant width M and depth ``L = lambda M``, standard weights."""

    batched: ClassVar[bool] = True

    ratio: Any = parameter(r"\lambda", "depth over width", domain="(0, inf)", typical=(0.1, 2.0))
    biases: Any = parameter(r"\alpha", "mean of the biases' part over that of the weights'", domain="[0, inf)")

    scales: ClassVar[tuple[float, ...]] = (2e-3, 1e-3, 5e-4)

    def sizes(self, xp: Any, small: Any) -> tuple[Any, int]:
        """Return width ``1/small`` and depth ``ratio/small`` of the exact sums; raise for fractions and batches."""
        who = type(self).__name__
        for name, value in self.parameters().items():
            if value.ndim:
                raise ValueError(
                    f"{who}.exact: {name} has shape {tuple(value.shape)} but must be one number (the depth depends on "
                    "it); make one law for each"
                )
        found = [float(1 / small), float(self.ratio / small)]
        for name, value in zip(("1 / small", "ratio / small"), found, strict=True):
            if not (0.5 < value < 1e9 and abs(value - round(value)) <= 1e-6 * value):
                raise ValueError(
                    f"{who}.exact: {name} = {value:.9g} must be a positive integer (width and depth of the networks); "
                    "choose small = 1/M and ratio = L/M"
                )
        return xp.asarray(float(round(found[0]))), round(found[1])


class NTKDispersionLimit(DeepLimit):
    r""":math:`E\Theta^2/(E\Theta)^2` in the joint limit of depth and width, in the three phases, to order ``1/M``.

    For constant width ``M``, depth :math:`L = \lambda M` and standard weights the ratio tends to the limits of
    `linsolve.ntk.limits.dispersion`; :math:`E\Theta_b/E\Theta_W = \alpha` at the edge of chaos. The small parameter is
    ``1/M``.

    Parameters
    ----------
    ratio : array_like
        :math:`\lambda`; for `exact` a multiple of ``1/M``, so that the depth is an integer.
    biases : array_like
        :math:`\alpha = n_0/(M |x^0|^2)`.
    slope : array_like
        Slope of the units at negative arguments.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, or shapes do not fit.

    Notes
    -----
    Approximates the moments of `NTKMoments`. Source: `linsolve.ntk.limits`. ``linsolve card NTKDispersionLimit`` lists
    the published formulas and their verdicts.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> law = ls.laws.NTKDispersionLimit(ratio=0.5, biases=1.0)
    >>> {name: round(float(value), 3) for name, value in law.approximation(np, 0.0).items()}
    {'ordered': 1.0, 'edge of chaos': 4.253, 'chaotic': 7.76}
    >>> round(float(law.exact(np, 1e-3)["edge of chaos"]), 3)  # depth 500, width 1000
    4.219
    """

    slope: Any = parameter("s", "slope of the units at negative arguments", default=0.0)

    approximates: ClassVar[str] = "NTKMoments of deep networks, as their width grows"
    unapplied: ClassVar[str] = "a limit of large depth and width; NTKMoments.of is exact for the widths of a network"
    orders: ClassVar[dict[str, float]] = dict.fromkeys(PHASES, 1.0)
    gains: ClassVar[tuple[float, ...]] = (0.8, 1.0, 1.25)

    def approximation(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the three limits."""
        _, c = spread(self.slope)
        return {name: dispersion(xp, name, self.ratio, c, self.biases) for name in PHASES}

    def exact(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the exact sums at width ``1/small``, for `gains` ``a`` below, at and above 1."""
        variances = xp.asarray(self.gains) / spread(self.slope)[0]
        values = xp.exp(_log_dispersion(xp, *self.sizes(xp, small), variances, self.slope, self.biases))
        return dict(zip(PHASES, values, strict=True))

    @classmethod
    def example(cls, rng: np.random.Generator) -> NTKDispersionLimit:
        """Return ReLU networks about half as deep as wide."""
        return cls(ratio=rng.integers(2, 9) / 10, biases=rng.uniform(0.5, 2.0))


class NTKDispersionCrossover(DeepLimit):
    r""":math:`E\Theta^2/(E\Theta)^2` between the phases, where :math:`a = e^{\nu/L}`, to order ``1/M``.

    For constant width ``M``, depth :math:`L = \lambda M` and standard weights the ratio tends to the limit of
    `linsolve.ntk.limits.crossover`. The small parameter is ``1/M``.

    Parameters
    ----------
    ratio, biases, slope : array_like
        As in `NTKDispersionLimit`.
    gain : array_like
        :math:`\nu = L \ln a`: negative in the ordered phase, 0 at the edge of chaos.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, or shapes do not fit.

    Notes
    -----
    Approximates the moments of `NTKMoments`. Not in Seleznova (2024), which has the limits :math:`|\nu| \to \infty`
    and :math:`\nu = 0`.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> law = ls.laws.NTKDispersionCrossover(ratio=0.5, biases=1.0, gain=[-200.0, 0.0, 200.0])
    >>> law.approximation(np, 0.0)["dispersion"].round(3).tolist()  # from the ordered to the chaotic phase
    [1.006, 4.253, 7.749]
    >>> limits = ls.laws.NTKDispersionLimit(ratio=0.5, biases=1.0).approximation(np, 0.0)
    >>> [round(float(value), 3) for value in limits.values()]
    [1.0, 4.253, 7.76]
    """

    gain: Any = parameter(r"\nu", "depth times the logarithm of a")
    slope: Any = parameter("s", "slope of the units at negative arguments", default=0.0)

    approximates: ClassVar[str] = "NTKMoments of deep networks near the edge of chaos, as their width grows"
    unapplied: ClassVar[str] = "a limit of large depth and width; NTKMoments.of is exact for the widths of a network"
    orders: ClassVar[dict[str, float]] = {"dispersion": 1.0}

    def approximation(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the limit."""
        _, c = spread(self.slope)
        return {"dispersion": crossover(xp, self.ratio, c, self.biases, self.gain)}

    def exact(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the exact sum at width ``1/small``."""
        width, depth = self.sizes(xp, small)
        variance = in_range(
            "NTKDispersionCrossover", lambda: xp.exp(self.gain / depth) / spread(self.slope)[0], gain=self.gain
        )
        return {"dispersion": xp.exp(_log_dispersion(xp, width, depth, variance, self.slope, self.biases))}

    @classmethod
    def example(cls, rng: np.random.Generator) -> NTKDispersionCrossover:
        """Return ReLU networks about half as deep as wide, on both sides of the edge of chaos."""
        return cls(ratio=rng.integers(2, 9) / 10, biases=rng.uniform(0.5, 2.0), gain=rng.uniform(-4.0, 4.0))


def _log_dispersion(xp: Any, width: Any, depth: int, variance: Any, slope: Any, biases: Any) -> Any:
    """Return the logarithm of the dispersion at constant width, for each variance of the weights."""
    widths = width * xp.ones((*variance.shape, depth))
    # contribution of the biases for standard weights, input of width M and this squared norm
    found = log_moments(xp, widths, variance, slope, 0 * widths + 1, 0 * widths + biases, xp.asarray(1.0))
    return found.log_dispersion(xp)[..., -1]
