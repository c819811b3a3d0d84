"""Constructors of `TwoLayer` networks: data on a line, random weights, lazy training, symbols."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import Interval, integer, lengths, real_array, refuse_beyond_memory, shown
from linsolve.core.flow import Flow
from linsolve.core.query import NotExact
from linsolve.core.randomness import seeded
from linsolve.numerics.checked import in_range
from linsolve.numerics.double_double import power_of_two

__all__ = ["TwoLayerNetworks", "gaussian", "line_samples", "on_a_line"]


def on_a_line(who: str, X: Any, y: Any, tolerance: float) -> tuple[np.ndarray, float]:
    """Return the data point and the target that represent samples on a line through the origin.

    Parameters
    ----------
    who : str
        Name for error messages.
    X : array_like, shape (N, d0)
    y : array_like, shape (N,)
        Samples and their targets.
    tolerance : float
        Largest relative Frobenius distance from the line.
    """
    X = np.asarray(real_array(who, "X", X, meaning="samples"))
    y = np.asarray(real_array(who, "y", y, meaning="targets"))
    if X.ndim != 2 or y.shape != X.shape[:1]:
        raise ValueError(
            f"{who}: X, y = shapes {X.shape}, {y.shape} must be (N, d0) and (N,) (samples, targets); reshape them"
        )
    scale = np.abs(X).max()
    if scale == 0:
        return X[0], 0.0
    S = X / scale
    n = S[np.argmax(np.sum(S**2, axis=1))]
    n = n / np.linalg.norm(n)
    a = S @ n
    distance = np.linalg.norm(S - a[:, None] * n) / np.linalg.norm(S)
    if distance > tolerance:
        raise NotExact(
            f"{who}: distance of the samples from a line through the origin = {distance:.3g} must vanish (relative; "
            f"at most {tolerance:g}); use WhitenedTwoLayer for whitened data, or train numerically"
        )
    size = np.sqrt(np.mean(a**2))
    _, exponent = np.frexp(np.abs(y).max())  # scaled by a power of two, sums of targets do not overflow
    return scale * (size * n), float(np.ldexp(np.mean(a * np.ldexp(y, -exponent)) / size, exponent))


def line_samples(who: str, xp: Any, samples: Any, x: Any, tolerance: float) -> tuple[Any, Any]:
    """Return weight and target of the output at each step, shape (K,) + batch, for weighted samples on the line of `x`.

    The gradient of the loss ``sum_n c_n (f(x_n) - y_n)^2`` is ``2 (weight f(x) - target)`` times the gradient of
    ``f(x)``.

    Parameters
    ----------
    who : str
        Name for error messages.
    xp : namespace
    samples : tuple of array_like
        Samples, shape (N, d0), targets, shape (N,), and weights, shape (K, N) or (K,) + batch + (N,).
    x : array, shape batch + (d0,)
        Data point of the flow.
    tolerance : float
        Largest relative distance of a sample from the line.
    """
    if not isinstance(samples, tuple | list) or len(samples) != 3:
        raise ValueError(
            f"{who}: samples = {shown(samples)} must be three arrays (samples, targets, weights by step); pass (X, "
            "y, c)"
        )
    X = np.asarray(real_array(who, "samples[0]", samples[0], meaning="samples"))
    y = np.asarray(real_array(who, "samples[1]", samples[1], meaning="targets"))
    c = np.asarray(real_array(who, "samples[2]", samples[2], meaning="weights by step", domain=Interval("[0, inf)")))
    if X.ndim != 2 or X.shape[1] != x.shape[-1] or y.shape != X.shape[:1] or c.ndim < 2 or c.shape[-1:] != y.shape:
        raise ValueError(
            f"{who}: samples have shapes {X.shape}, {y.shape}, {c.shape} but must have (N, {x.shape[-1]}), (N,) and "
            "(K, N) (samples, targets, weights of the samples at each step); reshape them"
        )
    given: dict[str, Any] = {"samples[0]": X, "samples[1]": y, "samples[2]": c, "x": arithmetic.to_numpy(x)}
    factor, power = power_of_two(xp, xp.max(xp.abs(x), axis=-1)), power_of_two(np, np.abs(X).max())
    x = x * factor[..., None]  # scaled, neither squares nor products leave the doubles
    line = arithmetic.to_numpy(x)
    square = np.sum(line**2, axis=-1)
    if not (square > 0).all():
        raise ValueError(f"{who}: samples need a flow whose x is not 0 (data point); set x to a point on their line")
    size = np.abs(X).max() or 1.0
    along = np.sum(X / size * line[..., None, :], axis=-1)
    off = X / size - (along / square[..., None])[..., None] * line[..., None, :]
    distance = (np.linalg.norm(off, axis=(-2, -1)) / max(np.linalg.norm(X / size), np.finfo(float).tiny)).max()
    if not distance <= tolerance:
        raise NotExact(
            f"{who}: samples must lie on the line of the flow's x; their relative distance is {distance:.3g} "
            f"(at most {tolerance:g}); train numerically"
        )
    back = factor[..., None] / arithmetic.cast(xp, power)
    X, y, c = (arithmetic.cast(xp, v) for v in (X * power, y, c))

    def moments() -> tuple[Any, Any]:
        share = xp.sum(X * x[..., None, :], axis=-1) / xp.sum(x**2, axis=-1)[..., None] * back
        return xp.sum(c * share**2, axis=-1), xp.sum(c * share * y, axis=-1)

    return in_range(who, moments, **given)


def gaussian(
    who: str, shapes: tuple[tuple[str, ...], ...], sizes: dict[str, Any], sigmas: dict[str, Any], batch: Any, rng: Any
) -> list[np.ndarray]:
    """Return independent Gaussian arrays whose axes have the lengths `sizes`, with standard deviations `sigmas`.

    Parameters
    ----------
    who : str
        Name for error messages.
    shapes : tuple of tuple of str
        Names of the axes of each array, without batch axes.
    sizes, sigmas : dict
        Arguments of the caller, by name; one sigma for each array.
    batch : int or tuple of int
    rng : None, int or numpy.random.Generator
    """
    batch = lengths(who, "batch", batch, meaning="shape of the batch")
    sizes = {name: integer(who, name, size, meaning="size of a layer", example=10) for name, size in sizes.items()}
    refuse_beyond_memory(who, sizes | {"batch": math.prod(batch)}, "weights")
    scales = []
    for name, value in sigmas.items():
        scale = real_array(who, name, value, meaning="standard deviation", domain=Interval("[0, inf)"))
        if scale.ndim:
            raise ValueError(
                f"{who}: {name} has shape {scale.shape} but must be one number (standard deviation); call once for each"
            )
        scales.append(scale)
    rng = seeded(who, rng)
    own = [tuple(sizes[axis] for axis in axes) for axes in shapes]
    drawn = [rng.standard_normal(batch + shape) for shape in own]
    return in_range(who, lambda: [scale * each for scale, each in zip(scales, drawn, strict=True)], **sigmas)


class TwoLayerNetworks(Flow):
    """Constructors of `TwoLayer` flows and their initial weights, inherited by the flows that extend `TwoLayer`."""

    @classmethod
    def from_lazy(cls, alpha: Any, h: int, X: Any, y: Any, *, z0: Any = None, rng: Any = None) -> tuple[Any, Any]:
        r"""Return flow and initial weights of Geiger et al. (2020): scaled output, initial output subtracted.

        .. math:: F = \alpha (f - f_0), \quad f = (h\, d_{\rm in})^{-1/2}\, u \cdot W x, \qquad
            L = \frac{1}{\alpha^2} E (F - y)^2, \qquad \dot u = -\partial L/\partial u, \quad
            \dot W = -\partial L/\partial W .

        Parameters
        ----------
        alpha : array_like, shape batch
            Scale of the output, positive.
        h : int
            Number of hidden units.
        X : array_like, shape (N, d_in), or (d_in,) for one sample
            Samples on a line through the origin.
        y : array_like, shape (N,), or a number for one sample
            Targets of ``F``.
        z0 : State, optional
            Initial weights; standard Gaussian by default.
        rng : None, int or numpy.random.Generator
            For the initial weights; passed to ``numpy.random.default_rng`` (SPEC 7 of Scientific Python).

        Returns
        -------
        LazyTwoLayer, State
            ``flow(t, z0)["F"]`` is ``F`` on `LazyTwoLayer.x`; ``["loss"]`` is ``L`` minus its minimum over linear maps.

        Raises
        ------
        NotExact
            If the samples do not lie on a line through the origin.
        """
        from linsolve.systems import flows

        # by name, since LazyTwoLayer extends this class and implements from_lazy
        return flows.LazyTwoLayer.from_lazy(alpha, h, X, y, z0=z0, rng=rng)  # type: ignore[no-any-return]

    @classmethod
    def init(
        cls,
        width: int,
        d0: int,
        *,
        sigma_u: float = 1.0,
        sigma_w: float = 1.0,
        batch: tuple[int, ...] | int = (),
        rng: Any = None,
    ) -> Any:
        """Return independent Gaussian weights of standard deviations `sigma_u`, `sigma_w`.

        Parameters
        ----------
        width, d0 : int
            Numbers of hidden units and of inputs, positive.
        sigma_u, sigma_w : float
            Standard deviations, not negative.
        batch : tuple of int
            Shape of the batch.
        rng : None, int or numpy.random.Generator
            As in SPEC 7 of Scientific Python: passed to ``numpy.random.default_rng``.
        """
        who, sizes, sigmas = (
            f"{cls.__name__}.init",
            {"width": width, "d0": d0},
            {"sigma_u": sigma_u, "sigma_w": sigma_w},
        )
        return cls.State(*gaussian(who, (("width",), ("width", "d0")), sizes, sigmas, batch, rng))

    @classmethod
    def symbols(cls) -> tuple[dict[str, Any], tuple[Any, ...], dict[Any, Any]]:
        """Return one unit, one input; symbols ``p, q, k > 0`` parametrize weights and target, so ``c`` is rational."""
        import sympy

        p, q, k, gamma, a, b, s = sympy.symbols("p q k gamma a b s", positive=True)
        parameters = {
            "y": gamma * (k * p**2 - q**2 / k) / (a * b * s), "gamma": gamma, "eta_u": b**2, "eta_w": a**2, "x": [s],
        }  # fmt: skip
        point = {p: 0.3, q: 0.2, k: 0.4, gamma: 1.3, a: 0.7, b: 1.1, s: 0.9}
        return parameters, ([(p - q) / (a * s)], [[(p + q) / (b * s)]]), point
