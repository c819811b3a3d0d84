"""Phases of a two-layer linear network whose parameters scale as powers of one number, in rational arithmetic."""

from __future__ import annotations

import math
import numbers
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from linsolve.core.arguments import booleans, shown
from linsolve.core.parameters import batch_shape

__all__ = ["PHASES", "Classification", "Exponents", "classify"]

HUGE = 10**300  # sums of smaller exponents are doubles
PHASES = ("kernel", "feature", "frozen", "unstable")

MEANINGS = {
    "c_d": "exponent of the width",
    "c_gamma": "exponent of the scale of the model",
    "c_u": "exponent of the variance of u",
    "c_w": "exponent of the variance of w",
    "c_eta_u": "exponent of the learning rate of u",
    "c_eta_w": "exponent of the learning rate of w",
}


class Exponents(NamedTuple):
    """Exponents of a scale ``kappa`` that tends to infinity; ``classify(*exponents)`` returns their phase.

    Parameters
    ----------
    c_d, c_gamma : rational
        Width and scale of the model: ``d ~ kappa^c_d``, ``gamma ~ kappa^c_gamma``.
    c_u, c_w : rational
        Variances of the initial weights: ``sigma_u^2 ~ kappa^c_u``, ``sigma_w^2 ~ kappa^c_w``.
    c_eta_u, c_eta_w : rational
        Learning rates.
    zero_output : bool
        Whether the initial weights are conditioned on an output of 0, rather than independent.

    Examples
    --------
    >>> from linsolve import phases
    >>> ntk = phases.Exponents(c_d=1, c_gamma="-1/2", c_u=0, c_w=0, c_eta_u=0, c_eta_w=0)
    >>> phases.classify(*ntk).phase, phases.classify(*ntk._replace(c_gamma=-1)).phase
    ('kernel', 'frozen')
    """

    c_d: Any
    c_gamma: Any
    c_u: Any
    c_w: Any
    c_eta_u: Any
    c_eta_w: Any
    zero_output: Any = False


class Classification(NamedTuple):
    """Phase and exponents: strings and fractions for one set of exponents, arrays for a grid.

    Parameters
    ----------
    phase : str or array of str
        One of `PHASES`.
    log_slow : bool or array of bool
        Whether the network must leave a saddle before it learns features, in a time ``(|B|/4) log(kappa) t_c``.
    speed : Fraction or array
        The learning time is ``t_c ~ kappa^-speed``.
    B, A : Fraction or array
        Initial tangent kernel ``K0 ~ kappa^B``, and ``(g y)^2 ~ kappa^A`` with ``g`` of `TwoLayer`.
    mis : Fraction or array, or -inf
        ``((P - Q)/(P + Q))^2 ~ kappa^mis``: initial imbalance of the order parameters P, Q of `TwoLayerOrder`.
    chg : Fraction or array
        ``|(K_inf/K0)^2 - 1| ~ kappa^chg``; see `kernel_change`.

    Examples
    --------
    >>> from linsolve import phases
    >>> found = phases.classify(1, "-1/2", 0, 0, 0, 0)
    >>> found.phase, found.speed, found.kernel_change
    ('kernel', Fraction(0, 1), Fraction(-1, 1))
    """

    phase: Any
    log_slow: Any
    speed: Any
    B: Any
    A: Any
    mis: Any
    chg: Any

    @property
    def kernel_change(self) -> Any:
        """Exponent of ``|K_inf/K0 - 1|``: `chg` where it is not positive, else half of it."""
        if isinstance(self.chg, Fraction):
            return min(self.chg, self.chg / 2)
        return np.minimum(self.chg, self.chg / 2)


def classify(
    c_d: Any, c_gamma: Any, c_u: Any, c_w: Any, c_eta_u: Any, c_eta_w: Any, zero_output: Any = False
) -> Classification:
    r"""Return the phase of `TwoLayer` in the limit ``kappa -> inf``, exact on the boundaries between phases.

    .. math:: A = 2 c_\gamma + c_{\eta_u} + c_{\eta_w}, \qquad B = 2 c_\gamma + c_d + \max(a, b), \qquad
        a = c_{\eta_w} + c_u, \quad b = c_{\eta_u} + c_w,

    .. math:: \text{speed} = \max(A/2, B), \qquad \text{mis} = -(c_d + |a - b|), \qquad
        \text{chg} = \max(A - 2B, \text{mis}),

    with ``mis`` = :math:`-\infty` for zero initial output. A network is

    - *unstable* where speed > 0: the learning time tends to 0, and gradient descent at a fixed step diverges;
    - *frozen* where speed < 0: the learning time tends to infinity;
    - *kernel* where :math:`B = 0 > A` and ``mis < 0``: the learning time is of order one, the kernel is constant;
    - *feature* otherwise; log-slow if also :math:`B < 0`.

    Parameters
    ----------
    c_d, c_gamma, c_u, c_w, c_eta_u, c_eta_w : rational or array_like
        Exponents of width, model scale, variances of ``u`` and ``w``, learning rates; they broadcast. Integers,
        fractions, strings (``"1/3"``, ``"-0.5"``) and floats are allowed. A float is read as its shortest decimal
        representation: 0.1 is one tenth. ``c_d`` is not negative.
    zero_output : bool or array of bool
        Whether the initial output is exactly 0; otherwise the weights are independent Gaussian numbers.

    Returns
    -------
    Classification
        For single numbers the exponents are exact fractions. For grids they are float64, rounded after the phases have
        been decided in integer arithmetic over a common denominator of all exponents. Integers of 64 bits are used
        where they suffice, else Python integers, about thirty times slower. Short decimals fit into 64 bits:
        ``np.linspace(-2, 1, 1501).round(3)``.

    Raises
    ------
    TypeError, ValueError
        If an exponent is not a rational number, an array is empty, shapes do not broadcast, or ``c_d`` is negative.

    Notes
    -----
    Exact for: data on a line, ``x`` and ``y`` of order one, ``y`` not 0. Not for: initial weights chosen with ``Q``
    much smaller than ``P``; there ``t_c`` does not determine whether learning happens. In the kernel phase the tangent
    kernel is constant; individual layers may change relative to their size.

    Source: Xu and Ziyin (2024), (14) to (16), Theorem 2. Differences from the text, each shown by
    ``tests/systems/two_layer/test_phases.py`` on measured slopes of the exact solution:

    ================  ==================================================  =========================================
    place             as printed                                          for independent Gaussian weights
    ================  ==================================================  =========================================
    after Theorem 2   ``0 = c_gamma + c_d + max(a, b)``, greater than     ``0 = B > A``
    and 4.1           ``c_eta_u + c_eta_w``
    Theorem 2         kernel only if ``P/Q -> 1``                         only if ``P/Q -> 1`` or ``f0 -> y``
    4.2, Corollary 3  kernel at ``c_d = 0, a = b``                        only for ``f0 = 0``, as in lazy training
    Table 1, lazy     kernel, ``f0 = 0`` by section 4                     kernel for zero output, feature otherwise
    4.2               ``c_u = max(0, c_w)`` gives ``f0 = O(1)``           ``c_u = min(0, c_w)`` gives it
    ================  ==================================================  =========================================

    Examples
    --------
    >>> from linsolve import phases
    >>> phases.classify(1, "-1/2", 0, 0, 0, 0).phase  # the NTK scaling
    'kernel'
    >>> phases.classify(1, [-1, -0.5, 0], 0, 0, 0, 0).phase.tolist()
    ['frozen', 'kernel', 'unstable']
    """
    given = dict(zip(MEANINGS, (c_d, c_gamma, c_u, c_w, c_eta_u, c_eta_w), strict=True))
    read = {name: _read("classify", name, value) for name, value in given.items()}
    still = flags("classify", zero_output)
    single = _shape(read, still) == ()
    _refuse_negative_width("classify", min(read["c_d"][0]))
    if not single:
        _refuse_huge("classify", read)
    (d, gamma, u, w, rate_u, rate_w), unit = _integers(read)
    a, b = rate_w + u, rate_u + w
    A = 2 * gamma + rate_u + rate_w
    B = 2 * gamma + d + np.maximum(a, b)
    twice = np.maximum(A, 2 * B)  # twice the speed, since the speed need not be an integer
    mis = -(d + np.abs(a - b))
    chg = np.where(still, A - 2 * B, np.maximum(A - 2 * B, mis))
    kernel = (B == 0) & (A < 0) & (still | (mis < 0))
    code = np.where(twice > 0, 3, np.where(twice < 0, 2, np.where(kernel, 0, 1)))
    slow = (code == 1) & (B < 0)
    whole = (code, slow, twice, B, A, mis, chg, still)
    return _one([v.item() for v in whole], unit) if single else _grid(np.broadcast_arrays(*whole), unit)


def _one(whole: Any, unit: int) -> Classification:
    code, slow, *exponents, still = whole
    twice, B, A, mis, chg = (Fraction(v, unit) for v in exponents)
    return Classification(PHASES[code], slow, twice / 2, B, A, -math.inf if still else mis, chg)


def _grid(whole: Any, unit: int) -> Classification:
    code, slow, twice, B, A, mis, chg, still = whole
    twice, B, A, mis, chg = ((v / unit).astype(np.float64) for v in (twice, B, A, mis, chg))
    return Classification(np.array(PHASES)[code], slow.copy(), twice / 2, B, A, np.where(still, -np.inf, mis), chg)


def flags(who: str, zero_output: Any) -> np.ndarray:
    """Return `zero_output` as an array of bool; raise TypeError for other types."""
    return booleans(who, "zero_output", zero_output, meaning="whether the start has output 0")


def decimals(who: str, exponents: Exponents) -> Exponents:
    """Return the exponents as arrays of doubles and the flag as bool, with the checks of `classify`."""
    if not isinstance(exponents, tuple) or len(exponents) not in (6, 7):
        raise TypeError(
            f"{who}: exponents = {shown(exponents)} must be six or seven; say Exponents(1, -0.5, 0, 0, 0, 0)"
        )
    *given, zero_output = exponents if len(exponents) == 7 else (*exponents, False)
    read = {name: _read(who, name, value) for name, value in zip(MEANINGS, given, strict=True)}
    _refuse_negative_width(who, min(read["c_d"][0]))
    _refuse_huge(who, read)
    c_d, c_gamma, c_u, c_w, c_eta_u, c_eta_w = (
        np.array([float(v) for v in some])[index] for some, index in read.values()
    )
    return Exponents(c_d, c_gamma, c_u, c_w, c_eta_u, c_eta_w, flags(who, zero_output))


def _refuse_negative_width(who: str, c_d: Fraction) -> None:
    if c_d < 0:
        rule = "must be at least 0 (exponent of the width); a network has at least one unit"
        raise ValueError(f"{who}: c_d = {_text(c_d)} {rule}")


def _text(value: Fraction) -> str:
    """Return a number as text; Python does not print integers of more than 4300 digits."""
    return str(value) if abs(value) < HUGE else f"{Decimal(int(value)):.3g}"


def _refuse_huge(who: str, read: dict[str, tuple[list[Fraction], np.ndarray]]) -> None:
    """Raise for exponents whose sums are beyond the range of doubles."""
    for name, (values, _) in read.items():
        largest = max(values, key=abs)
        if abs(largest) > HUGE:
            rule = "must be at most 1e300 in size as a double"
            raise ValueError(f"{who}: {name} = {_text(largest)} {rule} ({MEANINGS[name]}); use a smaller one")


def _read(who: str, name: str, value: Any) -> tuple[list[Fraction], np.ndarray]:
    """Return the distinct numbers of an array, and the index of each entry among them."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise TypeError(
            f"{who}: {name} is not a rectangular array ({MEANINGS[name]}); make its rows equal in length"
        ) from error
    if array.size == 0:
        raise ValueError(f"{who}: {name} has shape {array.shape}, which is empty ({MEANINGS[name]}); give at least one")
    if array.dtype.kind not in "iufUO":
        raise TypeError(f"{who}: {name} = {shown(value)} is not made of rational numbers ({MEANINGS[name]}); say '1/2'")
    if array.dtype.kind == "O":
        return [_rational(who, name, v) for v in array.ravel()], np.arange(array.size).reshape(array.shape)
    different, index = np.unique(array, return_inverse=True)
    return [_rational(who, name, v) for v in different], index.reshape(array.shape)


def _rational(who: str, name: str, value: Any) -> Fraction:
    try:
        if isinstance(value, bool | np.bool_):
            raise ValueError(value)
        if isinstance(value, numbers.Rational):  # convert to Python integers, since NumPy integers overflow silently
            return Fraction(int(value.numerator), int(value.denominator))
        return Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        message = (
            f"{who}: {name} = {value} is not a rational number ({MEANINGS[name]}); say 0.5, '1/2' or Fraction(1, 2)"
        )
        raise ValueError(message) from None


def _integers(read: dict[str, tuple[list[Fraction], np.ndarray]]) -> tuple[list[Any], int]:
    """Return every exponent as integers over one common denominator, and the denominator."""
    unit = math.lcm(*(v.denominator for values, _ in read.values() for v in values))
    numerators = {name: [int(v * unit) for v in values] for name, (values, _) in read.items()}
    largest = max(abs(n) for values in numerators.values() for n in values)
    kind: Any = np.int64 if 16 * largest < 2**63 else object  # A - 2 B is a sum of at most 14 exponents
    # keep at least one axis: NumPy converts 0-d object arrays to Python integers, and these to 64 bits
    return [np.array(numerators[name], dtype=kind)[np.atleast_1d(index)] for name, (_, index) in read.items()], unit


def _shape(read: dict[str, tuple[list[Fraction], np.ndarray]], still: np.ndarray) -> tuple[int, ...]:
    """Return the broadcast shape of all exponents and the flag."""
    shapes = {name: index.shape for name, (_, index) in read.items()} | {"zero_output": still.shape}
    return batch_shape("classify", shapes)
