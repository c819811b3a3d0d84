"""Convergence rate and kernel change of random networks of any size, from the exact solution."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from linsolve.core.arguments import (
    Interval,
    extreme,
    integer,
    number,
    real_array,
    refuse_beyond_memory,
    shown,
    unknown_name,
)
from linsolve.core.parameters import batch_shape
from linsolve.core.query import pose
from linsolve.core.randomness import generator, seeded
from linsolve.numerics.checked import in_range
from linsolve.numerics.double_double import length
from linsolve.systems.two_layer.phase_classes import MEANINGS, PHASES, Exponents, decimals, flags
from linsolve.systems.two_layer.two_layer import TwoLayer

__all__ = ["Diagnosis", "Slopes", "diagnose", "measured_phase", "medians", "networks", "slopes", "wishart"]

WIDTH = 10  # hidden units at kappa^c_d = 1


def wishart(width: Any, count: int, *, rng: Any = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Return the Gram matrix of two Gaussian vectors of any length, through its Cholesky factor (Bartlett).

    For independent standard Gaussian ``u, v`` in ``width`` dimensions, in a basis that starts with ``u``,

    .. math:: u = (r, 0), \quad v = (a, b), \qquad r^2 \sim \chi^2_{\rm width}, \quad a \sim N(0, 1), \quad
        b^2 \sim \chi^2_{{\rm width} - 1},

    with independent ``r, a, b``. Three numbers suffice for any width.

    Parameters
    ----------
    width : array_like
        At least 1; it need not be an integer.
    count : int
        Number of networks for each width.
    rng : None, int, numpy.random.Generator or cupy.random.Generator
        As in SPEC 7 of Scientific Python; a CuPy generator draws on its device.

    Returns
    -------
    r, a, b : array, shape (count,) + shape of `width`
    """
    return _wishart("wishart", _width("wishart", width), count, rng)


def _width(who: str, width: Any) -> np.ndarray:
    meaning = "number of hidden units"
    return np.asarray(real_array(who, "width", width, meaning=meaning, domain=Interval("[1, inf)")))


def _wishart(who: str, width: np.ndarray, count: Any, rng: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the Gram matrix for checked widths; see `wishart`."""
    count = integer(who, "count", count, meaning="networks", example=400)
    refuse_beyond_memory(who, {"count": count, "widths": width.size}, "one number a network")
    xp, rng = generator(who, rng)
    width, shape = xp.asarray(width), (count, *width.shape)
    r = xp.sqrt(rng.chisquare(width, shape))
    a = rng.standard_normal(shape)
    alone = width == 1
    b = xp.sqrt(rng.chisquare(xp.where(alone, xp.ones_like(width), width - 1), shape))
    return r, a, xp.where(alone, xp.zeros_like(b), b)


def networks(
    width: Any,
    count: int,
    *,
    sigma_u: Any = 1.0,
    sigma_w: Any = 1.0,
    zero_output: Any = False,
    rng: Any = None,
    **parameters: Any,
) -> tuple[TwoLayer, Any]:
    """Return networks of two units, equivalent in training to random networks of any width.

    Up to rotations the training depends only on the lengths of the layers and the angle between them. Two units realize
    all lengths and angles.

    Parameters
    ----------
    width : array_like
        Hidden units of the equivalent random network, at least 1.
    count : int
        Number of networks for each width.
    sigma_u, sigma_w : array_like
        Standard deviations of the weights.
    zero_output : bool or array of bool
        Remove the part of ``W x`` along ``u``, so that the output is 0.
    rng : None, int or numpy.random.Generator
        As in SPEC 7 of Scientific Python.
    **parameters
        Parameters of `TwoLayer`; ``y`` is 1 by default, and ``x`` has one dimension.

    Returns
    -------
    TwoLayer, State
        Networks of one input, with a batch of shape ``(count,) +`` the broadcast shape of the arguments.
        `TwoLayerOrder.of` returns their order parameters.

    Raises
    ------
    ValueError, TypeError
        If a width is below 1, a deviation is negative, shapes do not broadcast, ``x`` has more than one dimension, or a
        parameter is unknown.

    Examples
    --------
    >>> from linsolve import phases
    >>> flow, z0 = phases.networks(1e6, 1000, gamma=1e-3, rng=0)  # NTK scaling
    >>> z0.u.shape, z0.w.shape
    ((1000, 2), (1000, 2, 1))
    >>> round(float(flow(0.0, z0)["ntk"].mean()), 1)  # gamma^2 (|u|^2 + |W x|^2), to be 2
    2.0
    """
    return _networks("networks", width, count, sigma_u, sigma_w, zero_output, rng, parameters)


def _networks(
    who: str, width: Any, count: int, sigma_u: Any, sigma_w: Any, zero_output: Any, rng: Any, parameters: dict[str, Any]
) -> tuple[TwoLayer, Any]:
    """Return networks of two units for the caller `who`; see `networks`."""
    known = {field.name for field in dataclasses.fields(TwoLayer)}  # type: ignore[arg-type]
    for name in parameters:
        if name not in known:
            raise ValueError(unknown_name(who, "parameter", name, known))
    flow, still = TwoLayer(**({"y": 1.0} | parameters)), flags(who, zero_output)
    if flow.x.shape[-1] > 1:
        raise ValueError(f"{who}: x has shape {flow.x.shape} but needs one dimension (input); give its length, [|x|]")
    scale_u, scale_w = (
        np.asarray(real_array(who, name, value, meaning="standard deviation", domain=Interval("[0, inf)")))
        for name, value in (("sigma_u", sigma_u), ("sigma_w", sigma_w))
    )
    given = {"width": _width(who, width), "sigma_u": scale_u, "sigma_w": scale_w, "zero_output": still}
    given |= flow.parameters() | {"x": flow.x[..., 0]}
    shape = batch_shape(who, {name: np.shape(value) for name, value in given.items()})
    r, along, across = _wishart(who, np.broadcast_to(given["width"], shape), count, rng)
    along = np.where(still, 0, along)
    u, w = np.stack([r, np.zeros_like(r)], axis=-1), np.stack([along, across], axis=-1)
    layers = in_range(
        who,
        lambda: (scale_u[..., None] * u, scale_w[..., None, None] * w[..., None]),
        sigma_u=scale_u,
        sigma_w=scale_w,
    )
    return flow, TwoLayer.State(*layers)


class Diagnosis(NamedTuple):
    """Convergence rate and tangent kernel of a two-layer network.

    Parameters
    ----------
    rate : array, shape batch
        ``1/t_c``, in inverse units of time.
    kernel_change : array, shape batch
        Relative change of the tangent kernel, ``K_inf/K0 - 1``.
    ntk : array, shape batch
        Tangent kernel at the start, ``K0``.
    """

    rate: Any
    kernel_change: Any
    ntk: Any


def diagnose(flow: TwoLayer, z0: Any) -> Diagnosis:
    r"""Return the convergence rate and the final change of the kernel, in closed form.

    .. math:: \frac1{t_c} = c = \sqrt{g^2 y^2 + 4 k_P k_Q}, \qquad
        \frac{K_\infty}{K_0} - 1 = \frac{4 g^2 (y^2 - f_0^2)/K_0^2}{1 + 2c/K_0}, \qquad K_0 = 2 (k_P + k_Q),

    with ``g``, :math:`k_P`, :math:`k_Q` of `TwoLayer`.

    Parameters
    ----------
    flow : TwoLayer
        Also a `LazyTwoLayer`, whose target is its initial output plus ``y/alpha``.
    z0 : State
        Initial weights, not the saddle ``u = W x = 0``.

    Raises
    ------
    TypeError, ValueError
        If the flow is of another class, the state does not fit it, or the kernel is 0 or beyond the range of doubles.

    Notes
    -----
    Source: Xu and Ziyin (2024), (7), which implies the kernel change. The source states this change only for its
    ``alpha_+ = 1``, where the change vanishes (as for ``f0 = -y``). Exact for: initial weights that do not converge to
    the saddle; random weights never do. The error of the kernel change is relative to ``|y| + |f0|``, not to
    ``|y| - |f0|``.

    Examples
    --------
    >>> import linsolve as ls
    >>> from linsolve import phases
    >>> flow, z0 = ls.TwoLayer(y=2.0, x=[1.0]), ls.TwoLayer.State(u=[1.0], w=[[1.0]])
    >>> found = phases.diagnose(flow, z0)
    >>> float(found.rate), float(found.kernel_change)
    (2.0, 1.0)
    >>> flow([0.0, float("inf")], z0)["ntk"].round(6).tolist()  # it doubles
    [2.0, 4.0]
    """
    if not isinstance(flow, TwoLayer):
        raise TypeError(f"diagnose: flow = {shown(flow)} must be a TwoLayer or a LazyTwoLayer (networks); pass one")
    return _diagnosis("diagnose", "z0", flow, pose(flow, 0, z0).z0)


def _diagnosis(who: str, name: str, flow: TwoLayer, z0: Any) -> Diagnosis:
    """Return the diagnosis of a checked state; error messages name the caller `who` and the argument `name`."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        found = _quantities(flow, z0)
    kernel = found.ntk[~((found.ntk > 0) & (found.ntk < np.inf))]
    if kernel.size:
        rule, fix = "must be positive and finite", "leave out networks with u = W x = 0 or gamma = 0, rescale others"
        raise ValueError(f"{who}: {name} leads to a kernel of {kernel[0]}, which {rule} (weights squared); {fix}")
    return in_range(who, lambda: found, **{name: found.ntk})


def _quantities(flow: TwoLayer, z0: Any) -> Diagnosis:
    h, size = flow.hidden(np, z0), np.sqrt(np.sum(flow.x**2, axis=-1))
    root_h, root_u = np.sqrt(flow.eta_u)[..., None], (np.sqrt(flow.eta_w) * size)[..., None]
    p, q = (np.abs(flow.gamma) * length(np, (root_h * h + s * root_u * z0.u) / 2) for s in (1, -1))
    g, half = np.sqrt(flow.eta_u) * np.sqrt(flow.eta_w) * flow.gamma * size, p**2 + q**2
    f0, r0 = flow.output(np, z0), flow.residual(np, z0)
    c = np.hypot(g * (f0 - r0), 2 * p * q)
    excess = -(g * r0 / half) * (g * (2 * f0 - r0) / half)
    return Diagnosis(c, excess / (1 + c / half), 2 * half)


def medians(exponents: Exponents, kappa: Any, *, count: int = 400, rng: Any = None) -> Diagnosis:
    """Return medians of rate, absolute kernel change and kernel over random networks of a scaling.

    Parameters
    ----------
    exponents : Exponents
    kappa : array_like
        Scale, at least 1. At ``kappa = 1`` all parameters are 1, except for the width, which is 10.
    count : int
        Number of networks for each `kappa`.
    rng : None, int or numpy.random.Generator
        As in SPEC 7 of Scientific Python.

    Returns
    -------
    Diagnosis
        Of the shape of `kappa`; the middle field is the median of ``|K_inf/K0 - 1|``.
    """
    who, kappa = "medians", _sizes("medians", kappa)
    return _medians(who, decimals(who, exponents), kappa, count, rng)


def _sizes(who: str, kappa: Any) -> np.ndarray:
    return np.asarray(real_array(who, "kappa", kappa, meaning="base of all powers", domain=Interval("[1, inf)")))


def _medians(who: str, exponents: Exponents, kappa: np.ndarray, count: int, rng: Any) -> Diagnosis:
    """Return the medians for checked exponents and sizes; see `medians`."""
    factors = {"c_d": (WIDTH, 1), "c_u": (1, 0.5), "c_w": (1, 0.5)}  # factors of the power and of the exponent
    powers = {}
    for name, value in zip(Exponents._fields[:-1], exponents, strict=False):
        factor, share = factors.get(name, (1, 1))
        with np.errstate(over="ignore"):
            powers[name] = factor * kappa ** (share * value)
        if not (np.all(powers[name] > 0) and np.isfinite(powers[name]).all()):
            far = extreme(value)
            rule = f"makes powers of kappa = {kappa.max():g} that exceed the range of doubles"
            raise ValueError(f"{who}: {name} = {far:g} {rule} ({MEANINGS[name]}); use a smaller one")
    d, gamma, sigma_u, sigma_w, eta_u, eta_w = powers.values()
    parameters = {"gamma": gamma, "eta_u": eta_u, "eta_w": eta_w}
    flow, z0 = _networks(who, d, count, sigma_u, sigma_w, exponents.zero_output, rng, parameters)
    found = _diagnosis(who, f"kappa = {kappa.max():g}", flow, z0)
    return Diagnosis(*(np.median(np.abs(v), axis=0) for v in found))


class Slopes(NamedTuple):
    """Measured exponents, in powers of kappa, shape batch.

    Parameters
    ----------
    rate : array
        Exponent of the rate ``1/t_c``.
    kernel_change : array
        Exponent of ``|K_inf/K0 - 1|``.
    ntk : array
        Exponent of the tangent kernel at the start, ``K0``.
    """

    rate: Any
    kernel_change: Any
    ntk: Any


def slopes(
    exponents: Exponents, kappa: tuple[float, float] = (1e10, 1e20), *, count: int = 400, rng: Any = None
) -> Slopes:
    """Return the exponents of a scaling, measured on random networks between two values of kappa.

    Compare with `speed`, `kernel_change` and `B` of `classify`.

    Parameters
    ----------
    exponents : Exponents
        May be arrays that broadcast.
    kappa : pair of float
        The two values.
    count : int
        Number of networks for each value.
    rng : None, int or numpy.random.Generator
        As in SPEC 7 of Scientific Python.

    Examples
    --------
    >>> from linsolve import phases
    >>> ntk = phases.Exponents(c_d=1, c_gamma="-1/2", c_u=0, c_w=0, c_eta_u=0, c_eta_w=0)
    >>> found, theory = phases.slopes(ntk, rng=0), phases.classify(*ntk)
    >>> exponents = [float(exponent) for exponent in (theory.speed, theory.kernel_change, theory.B)]
    >>> exponents, [round(abs(float(slope - exponent)), 1) for slope, exponent in zip(found, exponents)]
    ([0.0, -1.0, 0.0], [0.0, 0.0, 0.0])
    """
    who = "slopes"
    exponents, sizes = decimals(who, exponents), _sizes(who, kappa)
    if sizes.shape != (2,) or not sizes[0] < sizes[1]:
        raise ValueError(f"slopes: kappa = {shown(kappa)} must be two sizes that ascend from 1; say (1e10, 1e20)")
    rng = seeded(who, rng)
    low, high = sizes
    shape = batch_shape(who, {name: v.shape for name, v in exponents._asdict().items()})
    ends = [_medians(who, exponents, np.full(shape, k), count, rng) for k in (low, high)]
    scale = np.log(high) - np.log(low)

    def logarithms() -> list[Any]:
        return [(np.log(b) - np.log(a)) / scale for a, b in zip(*ends, strict=True)]

    return Slopes(*in_range(who, logarithms, kappa=sizes))


def measured_phase(found: Slopes, tolerance: float = 0.02) -> Any:
    """Return the phase of measured slopes.

    Parameters
    ----------
    found : Slopes
    tolerance : float
        Slopes of at most this size count as 0.

    Returns
    -------
    str or array of str
        One of `PHASES` for each slope.

    Examples
    --------
    >>> from linsolve import phases
    >>> phases.measured_phase(phases.Slopes(rate=0.0, kernel_change=-1.0, ntk=0.0))
    'kernel'
    """
    who = "measured_phase"
    if not isinstance(found, Slopes):
        raise TypeError(f"{who}: found = {shown(found)} must be Slopes (of the measured quantities); pass slopes(...)")
    tolerance = number(who, "tolerance", tolerance, meaning="size of a zero slope", domain="[0, inf)", example=0.02)
    rate, change, _ = (
        real_array(who, f"found.{n}", v, meaning="slope") for n, v in zip(found._fields, found, strict=True)
    )
    kernel, feature, frozen, unstable = PHASES
    phase = np.where(change < -tolerance, kernel, feature)
    phase = np.where(rate > tolerance, unstable, np.where(rate < -tolerance, frozen, phase))
    return phase if phase.ndim else phase.item()
