"""Variances of wide two-layer networks over random initial weights, to order 1/h."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from linsolve.core.law import Statistic
from linsolve.core.parameters import parameter
from linsolve.numerics.checked import law_in_range
from linsolve.systems.two_layer.lazy import LazyTwoLayer
from linsolve.systems.two_layer.lazy_training import angle, kernel_change, slopes, weight_change

__all__ = ["FixedWidthKernelChange", "LazyFluctuations", "sampled"]


def sampled(rng: np.random.Generator, count: int, h: float, y: Any, alpha: Any, rho: Any) -> tuple[LazyTwoLayer, Any]:
    """Return `count` networks of two units, equivalent in training to random networks of `h` units.

    For ``Z`` with ``h`` rows ``(u_i, v_i)`` the Gram matrix ``Z^T Z`` is a Wishart matrix. Its Cholesky factor has
    independent entries, two of chi and one of normal distribution (Bartlett).
    """
    u = np.stack([np.sqrt(rng.chisquare(h, count)), np.zeros(count)], axis=-1)
    v = np.stack([rng.standard_normal(count), np.sqrt(rng.chisquare(h - 1, count))], axis=-1)
    start = LazyTwoLayer.State(u=u, w=v[..., None])
    flow = LazyTwoLayer(y=y, gamma=h**-0.5, x=rho[None], alpha=alpha, u0=start.u, w0=start.w)
    return flow, start


class LazyFluctuations(Statistic):
    r"""Variances of output and kernel over random initial weights of width ``h``, to leading order in ``1/h``.

    With :math:`\phi(k_0, e_0) = 1 - F/y` and all else as in `LazyTraining`, at fixed ``G``

    .. math:: \operatorname{Var} F(t) = \frac{y^2}{h} \bigl[ (\partial_{k_0} \phi)^2 + (\partial_{e_0} \phi)^2 \bigr],
        \qquad \operatorname{Var} \frac{K_\infty}{K_0} = \frac{G^2}{h}, \qquad
        \operatorname{Var} F_\perp = \frac{y^2}{h G^2} \frac{\rho_\perp^2}{\rho^2}\, 2 C (C - 1) .

    On the line of the data the variance vanishes as :math:`F \to y`; for lazy training it is
    :math:`(4 \tau e^{-4\tau})^2 y^2/h`. :math:`F_\perp` is the trained output at a point orthogonal to the line. Its
    variance is :math:`\rho_\perp^2 y^2/(4 \rho^2 h)` for lazy training and
    :math:`\rho_\perp^2 \alpha |y| / (\rho \sqrt h)` for feature training, both :math:`\propto 1/h` at fixed
    :math:`\sqrt h\, \alpha`.

    Parameters
    ----------
    y : array_like
        Target of ``F``, not 0.
    scaled_alpha : array_like
        ``sqrt(h) alpha``.
    rho, rho_across : array_like
        ``|x| / sqrt(d_in)`` of the data point and of a point orthogonal to it.
    times : array_like, shape (time,)
        Positive.
    h : array_like
        Width of the sampled networks, large: the relative error of the law is ``O(1/h)``.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, or shapes do not fit.

    Notes
    -----
    Approximates averages over standard Gaussian initial weights of `LazyTwoLayer`. They are sampled through the Wishart
    matrix of the layers, at a cost independent of ``h``. Predictions and samples are ``h / y^2`` times the variances of
    outputs and ``h`` times that of the kernel. Source: Geiger et al. (2020), eq. (17), ``Var F ~ 1/h``, here with its
    coefficients.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> law = ls.laws.LazyFluctuations(y=1.0, scaled_alpha=0.5, times=[0.1, 1.0])
    >>> float(law.prediction(np)["kernel"])  # G^2, G = 2: the variance of K/K0 is 4/h
    4.0
    >>> bool(abs(law.scores(np.random.default_rng(0), 2000)["kernel"]) < 4)  # standard errors off sampled networks
    True
    """

    y: Any = parameter("y", "target")
    scaled_alpha: Any = parameter(r"\sqrt{h}\alpha", "scale of the output times sqrt(h)", domain="(0, inf)")
    times: Any = parameter("t", "times", domain="(0, inf)", axes=("time",))
    rho: Any = parameter(r"\rho", "length of the data point over sqrt(d_in)", domain="(0, inf)", default=1.0)
    rho_across: Any = parameter(
        r"\rho_\perp", "length of an orthogonal point over sqrt(d_in)", domain="(0, inf)", default=1.0
    )
    h: Any = parameter("h", "width", domain="[2, inf)", default=1e8)

    approximates: ClassVar[str] = "averages over random starts of LazyTwoLayer at large width"
    unapplied: ClassVar[str] = "a variance over random starts; LazyTraining.of includes the fluctuations of one network"
    draws: ClassVar[int] = 20000

    def _strength(self) -> Any:
        return self.y / (self.rho * self.scaled_alpha)

    @law_in_range
    def prediction(self, xp: Any) -> dict[str, Any]:
        """Return variances: of ``sqrt(h) F/y`` at the times, of ``sqrt(h) K/K0``, of ``sqrt(h) F_perp/y``."""
        G = self._strength()
        by_k, by_e = slopes(xp, self.rho**2 * self.times, G)
        return {
            "F": by_k**2 + by_e**2,
            "kernel": G**2,
            "F across": (self.rho_across / self.rho * weight_change(xp, G)) ** 2,
        }

    def sample(self, rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
        """Draw and train networks; return the squared deviations from the limit, times ``h``."""
        G, h = self._strength(), float(self.h)
        alpha = self.scaled_alpha / np.sqrt(h)
        flow, start = sampled(rng, count, h, self.y, alpha, self.rho)
        output, _ = angle(np, self.rho**2 * self.times, G)
        found = flow.along(np, self.times[:, None], start)["F"] / self.y
        kernel = flow.along(np, np.asarray(np.inf), start)["kernel_change"]
        moved = np.linalg.norm(flow.limit(np, start).u - start.u, axis=-1)
        # orthogonal to the line the first layer is independent of the training, and constant
        across = alpha * h**-0.5 * self.rho_across * moved * rng.standard_normal(count)
        return {
            "F": h * (found.T - output) ** 2,
            "kernel": h * (kernel - kernel_change(np, G)) ** 2,
            "F across": h * (across / self.y) ** 2,
        }

    @classmethod
    def example(cls, rng: np.random.Generator) -> LazyFluctuations:
        """Return a network between lazy and feature training."""
        return cls(
            y=rng.uniform(0.5, 2.0) * rng.choice([-1, 1]),
            scaled_alpha=rng.uniform(0.5, 1.5),
            rho=rng.uniform(0.6, 1.4),
            rho_across=rng.uniform(0.5, 2.0),
            times=np.array([0.05, 0.2, 0.6]),
        )


class FixedWidthKernelChange(Statistic):
    r"""Change of the kernel at fixed width and very large ``alpha``: a fluctuation, linear in ``1/alpha``.

    For :math:`G \ll h^{-1/2}`, with ``G`` of `LazyTraining`, the overlap of the initial layers changes the kernel by
    more than at infinite width, where the change is :math:`G^2/2`:

    .. math:: \frac{\Delta K}{K_0} = \frac{|y|}{\rho h \alpha}\, \xi, \qquad \xi \sim N(0, 1), \qquad
        \Bigl\langle\Bigl| \frac{\Delta K}{K_0} \Bigr|\Bigr\rangle = \sqrt{\frac{2}{\pi}}\, \frac{|y|}{\rho h \alpha} .

    Parameters
    ----------
    y : array_like
        Target of ``F``, not 0.
    rho : array_like
        ``|x| / sqrt(d_in)``.
    h : array_like
        Width, large: the relative error of the law is ``O(1/h)``.
    alpha : array_like
        Scale of the output, much larger than ``|y|/rho``: the error of the law is ``O(y / (rho alpha))``.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, or shapes do not fit.

    Notes
    -----
    Approximates averages over standard Gaussian initial weights of `LazyTwoLayer`; for infinite width see `LazyRegime`.
    Source: Geiger et al. (2020), after (18). ``linsolve card FixedWidthKernelChange`` lists the published formulas and
    their verdicts.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> found = ls.laws.FixedWidthKernelChange(y=1.0).prediction(np)
    >>> {name: round(float(value), 6) for name, value in found.items()}  # of a standard normal number
    {'mean': 0.0, 'variance': 1.0, 'size': 0.797885}
    """

    y: Any = parameter("y", "target")
    rho: Any = parameter(r"\rho", "length of the data point over sqrt(d_in)", domain="(0, inf)", default=1.0)
    h: Any = parameter("h", "width", domain="[2, inf)", default=1e6)
    alpha: Any = parameter(r"\alpha", "scale of the output", domain="(0, inf)", default=1e6)

    approximates: ClassVar[str] = "averages over random starts of LazyTwoLayer at fixed width, as alpha grows"
    unapplied: ClassVar[str] = "a variance over random starts; LazyTraining.of includes the fluctuations of one network"
    draws: ClassVar[int] = 20000

    def prediction(self, xp: Any) -> dict[str, Any]:
        """Return mean and variance of ``Delta K/K0`` and the mean of its size, in units of ``|y|/(rho h alpha)``."""
        zero = 0 * self.y
        return {"mean": zero, "variance": zero + 1, "size": xp.sqrt((2 + zero) / xp.pi)}

    def sample(self, rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
        """Draw and train networks."""
        flow, start = sampled(rng, count, float(self.h), self.y, self.alpha, self.rho)
        change = flow.along(np, np.asarray(np.inf), start)["kernel_change"]
        xi = change * (self.rho * self.h * self.alpha / np.abs(self.y))
        return {"mean": xi, "variance": xi**2, "size": np.abs(xi)}

    @classmethod
    def example(cls, rng: np.random.Generator) -> FixedWidthKernelChange:
        """Return a generic target of random sign and a generic length."""
        return cls(y=rng.uniform(0.5, 2.0) * rng.choice([-1, 1]), rho=rng.uniform(0.6, 1.4))
