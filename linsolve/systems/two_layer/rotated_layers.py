"""Two layers with one scalar residual: the hyperbolic rotation applied to their weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

from linsolve import arithmetic
from linsolve.numerics.double_double import DoubleDouble, cosine, length
from linsolve.numerics.scalar import column, full_like, largest, power, smallest, total, unless, where
from linsolve.systems.two_layer.hyperbolic_rotation import (
    Rotation,
    RotationFixed,
    RotationStart,
    rotated_output,
    rotation,
    unit_for,
    where_moved,
)

__all__ = ["Layers", "LayersFixed", "LayersStart", "usable"]

_LOSS = 4  # terms of a sum over the sum, from which on another form may be better


class LayersStart(NamedTuple):
    """Initial values of ``u' = -2 gamma eta_u r h``, ``h' = -2 gamma eta_w s^2 r u``, ``r = gamma u.h - y``.

    Parameters
    ----------
    rotation : RotationStart
    u : array, shape batch + (d,)
    h : DoubleDouble, shape batch + (d,)
        The layers.
    p, q : array, shape batch + (d,)
        ``(root_h h +- root_u u)/2``, times the unit of `rotation`.
    root_h, root_u : array, shape batch
        ``sqrt(eta_u)`` and ``sqrt(eta_w) s``, the factors of ``h`` and ``u`` in ``p``, ``q``.
    gamma : array, shape batch
        Scale of the output.
    s : DoubleDouble, shape batch
        Length of the input.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.two_layer.rotated_layers import LayersStart
    >>> from linsolve.numerics.double_double import DoubleDouble
    >>> one = np.array(1.0)
    >>> u, h = np.array([0.5, 0.0]), DoubleDouble(np, np.array([0.5, 0.0]))
    >>> start = LayersStart.of(np, u, h, DoubleDouble(np, one), (one, one), one, one)
    >>> start.p.tolist(), start.q.tolist(), float(start.rotation.f0)
    ([0.5, 0.0], [0.0, 0.0], 0.25)
    """

    rotation: RotationStart
    u: Any
    h: DoubleDouble
    p: Any
    q: Any
    root_h: Any
    root_u: Any
    gamma: Any
    s: DoubleDouble

    @classmethod
    def of(
        cls,
        xp: Any,
        u: Any,
        h: DoubleDouble,
        s: DoubleDouble,
        eta: tuple[Any, Any],
        gamma: Any,
        y: Any,
        r0: DoubleDouble | None = None,
    ) -> LayersStart:
        """Return the initial values from layers `u`, `h`, input length `s`, learning rates `eta`, scale and target.

        The target may be a DoubleDouble. `r0` is the residual, if it is known more accurately than the difference of
        output and target.
        """
        root_h, root_u = DoubleDouble(xp, eta[0]).sqrt(), DoubleDouble(xp, eta[1]).sqrt() * s
        size = xp.abs(gamma)
        most = xp.maximum(largest(xp, xp.abs(h.hi)) * root_h.hi, largest(xp, xp.abs(u)) * root_u.hi)
        unit = _unit(xp, most, size)
        # scale before the products, whose rounding errors would underflow
        b, a = h.scaled(column(unit)) * root_h.column(), root_u.column() * (u * column(unit))
        p, q = ((b + side).scaled(half(xp, b.hi)) for side in (a, -a))
        f0 = (h * u).sum() * gamma
        start = RotationStart.of(p.length() * size, q.length() * size, root_h * root_u * gamma, y, f0, r0, unit=unit)
        return cls(start, u, h, p.hi, q.hi, root_h.hi, root_u.hi, gamma, s)


class LayersFixed(NamedTuple):
    """Further quantities of the layers that do not depend on time.

    Parameters
    ----------
    side : array, shape batch
        ``p.q``, which is conserved; its sign determines the smaller layer at all times.
    rest : array, shape batch + (d,)
        ``h`` minus a multiple of ``u``, exactly 0 where the two are parallel.
    length, length_u : array, shape batch
        Lengths of `rest` and ``u``.
    rotation : RotationFixed
        Those of the rotation.
    """

    side: Any
    rest: Any
    length: Any
    length_u: Any
    rotation: RotationFixed

    @classmethod
    def of(cls, xp: Any, start: LayersStart) -> LayersFixed:
        """Return the quantities of initial layers."""
        rest, side = _rest(xp, start.u, start.h), total(xp, start.p * start.q)
        return cls(side, rest, length(xp, rest), length(xp, start.u), RotationFixed.of(xp, start.rotation))


class Layers(NamedTuple):
    """The layers ``u``, ``h`` at times t, of shape t.shape + batch + (d,).

    Parameters
    ----------
    rotation : Rotation
    u, h : array
    of_output : callable
        Returns the output and the sum of the magnitudes of its terms, of shape t.shape + batch; evaluated once.
    turned : (array, array)
        ``cosh(theta) - 1`` and the coefficient of ``u0`` in h, as columns.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.two_layer.rotated_layers import Layers, LayersStart
    >>> from linsolve.numerics.double_double import DoubleDouble
    >>> one = np.array(1.0)
    >>> u, h = np.array([0.5]), DoubleDouble(np, np.array([0.5]))
    >>> start = LayersStart.of(np, u, h, DoubleDouble(np, one), (one, one), one, one)
    >>> at = Layers.at(np, np.array(np.inf), start)
    >>> at.u.round(6).tolist(), at.h.round(6).tolist()  # u h = y = 1
    ([1.0], [1.0])
    """

    rotation: Rotation
    u: Any
    h: Any
    of_output: Callable[[], tuple[Any, Any]]
    turned: tuple[Any, Any]

    @classmethod
    def at(cls, xp: Any, t: Any, start: LayersStart, fixed: LayersFixed | None = None) -> Layers:
        """Return the layers at times `t`, norm-wise accurate even where one of them vanishes."""
        fixed = fixed or LayersFixed.of(xp, start)
        b = rotation(xp, t, start.rotation, fixed.rotation)
        h0, wide, (turn_u, turn_h) = start.h.hi, _widening(start, b), _turns(start, b)
        size_u, u = _rotated(xp, b, (start.u, wide, turn_u * h0), (start.p, -start.q, start.root_u))
        size_h, h = _rotated(xp, b, (h0, wide, turn_h * start.u), (start.p, start.q, start.root_h))
        output, rotated_u = cache(partial(rotated_output, xp, b, start.rotation)), u
        u = _mended(xp, start, fixed, output, (size_u, u), h, 1)
        h = _mended(xp, start, fixed, output, (size_h, h), rotated_u, -1)
        moves_u, moves_h = (column(b.moved & (root != 0)) for root in (start.root_h, start.root_u))
        u, h = where_moved(xp, moves_u, u, start.u), where_moved(xp, moves_h, h, h0)
        return cls(b, u, h, output, (wide, turn_h))

    @property
    def output(self) -> Any:
        """Return the output, shape t.shape + batch."""
        return self.of_output()[0]

    def alignment(self, xp: Any, start: LayersStart) -> Any:
        """Return the cosine of the angle between the layers, 0 where one of them is 0.

        It is ``u.h`` over ``hypot(u.h, |u h^T - h u^T|)``, with the second constant, if this loses no digits.
        """
        f, spread = self.of_output()
        rest, size = _rest(xp, start.u, start.h), length(xp, start.u)
        along = start.u / column(unless(xp, size == 0, size))
        across = length(xp, rest - along * column(total(xp, rest * along))) * size
        gamma = unless(xp, start.gamma == 0, start.gamma)
        whole = xp.hypot(f / gamma, across)
        good = (2 * whole * xp.abs(gamma) > spread) & (start.gamma != 0)
        return xp.where(good, f / gamma / unless(xp, whole == 0, whole), cosine(xp, self.u, self.h))

    def change_of_h(self, start: LayersStart) -> tuple[Any, Any]:
        """Return ``h - h0``, valid where the rotation is `tame`, and the sum of the magnitudes of its terms."""
        wide, turn = self.turned
        own, other = start.h.hi * wide, turn * start.u
        return own + other, abs(own) + abs(other)


def _unit(xp: Any, most: Any, gamma: Any) -> Any:
    """Return the unit; `most` is the largest entry of the layers in units of p and q, `gamma` the output scale."""
    small = (most < 1 / power(xp, 50)) & (most * gamma < 1 / power(xp, 50))
    return unit_for(xp, small & ((most < 1 / power(xp, 400)) | (most * gamma < 1 / power(xp, 400))), most * gamma)


def half(xp: Any, x: Any) -> Any:
    """Return 1/2 in the shape and arithmetic of `x`."""
    return full_like(xp, x, 1) / 2


def _widening(start: LayersStart, b: Rotation) -> Any:
    """Return ``cosh(theta) - 1``, as a column."""
    push = start.rotation.g * start.rotation.r0
    return column(2 * (push * b.lift) * (push * b.bend))


def _turns(start: LayersStart, b: Rotation) -> tuple[Any, Any]:
    """Return the coefficients of ``h0`` in u and of ``u0`` in h: ``sinh(theta)`` times a ratio of roots."""
    twice = start.gamma * start.rotation.r0
    u, h = (column(-(twice * root) * b.lift * root) for root in (start.root_h, start.root_u))
    return u, h


def _rest(xp: Any, u: Any, h: DoubleDouble) -> Any:
    """Return ``h`` minus a multiple of ``u``, exactly 0 where the two are parallel.

    It is ``(u_k h - h_k u)/u_k`` for the largest ``u_k``: each entry is one difference of two products.
    """
    units = xp.arange(u.shape[-1])
    at = column(xp.argmax(xp.abs(u), axis=-1)) == units
    u_k = _pick(xp, at, u)
    h_k = DoubleDouble(xp, _pick(xp, at, h.hi), _pick(xp, at, h.lo))
    found = (h * u_k - h_k * u).hi / unless(xp, u_k == 0, u_k)
    return xp.where(u_k == 0, h.hi, found)


def _pick(xp: Any, at: Any, v: Any) -> Any:
    return column(total(xp, where(xp, at, v, 0)))


def _rotated(xp: Any, b: Rotation, turned: tuple, ends: tuple) -> tuple[Any, Any]:
    """Return, for each hidden unit, the magnitudes of the terms of two forms, and the sum from the smaller terms.

    The forms are ``own cosh(theta) + other sinh(theta)`` and ``(p exp(theta) + q exp(-theta))/root``.
    """
    own, wide, second = turned
    p, q, root = ends
    first = own + own * wide
    bound = where(xp, column(b.tame), xp.abs(first) + xp.abs(second), xp.inf)
    frozen = column(root == 0)
    safe = column(unless(xp, root == 0, root))
    up, down = p * column(b.up) / safe, q * column(b.down) / safe
    other = unless(xp, frozen, xp.abs(up) + xp.abs(down), xp.inf)
    return (bound, other), smallest(xp, (bound, first + second), (other, up + down))


def _mended(
    xp: Any, start: LayersStart, fixed: LayersFixed, output: Callable, rotated: tuple, other: Any, sign: int
) -> Any:
    """Return a rotated layer, which is computed from the other layer where its sum loses more digits than that."""
    sizes, v = rotated
    if not arithmetic.holds(sign * fixed.side > 0):
        return v
    most = length(xp, xp.minimum(*sizes))
    lost = (sign * fixed.side > 0) & (most > _LOSS * length(xp, v))
    if not arithmetic.holds(lost):
        return v
    bound, through = _through(xp, start, other, fixed, output(), sign)
    return xp.where((lost & (bound < most))[..., None], through, v)


def _through(xp: Any, start: LayersStart, v: Any, fixed: LayersFixed, output: tuple, sign: int) -> tuple[Any, Any]:
    """Compute the other layer from layer `v`, the output and the conserved bivector; return its error bound first.

    With ``M = u h^T - h u^T`` conserved, ``u = ((u.h) h + M h)/|h|^2`` and ``h = ((u.h) u - M u)/|u|^2``, each a sum of
    two orthogonal vectors. `sign` is 1 for `v` = h, -1 for `v` = u. The magnitude is infinite where this form fails.
    """
    f, spread = output
    rest, size, far, grow = fixed.rest, fixed.length, length(xp, v), 1
    useless = (far == 0) | (start.gamma == 0)
    if not arithmetic.is_object(xp):  # scale subnormal numbers; count products that underflow as a magnitude
        tiny = far < 1 / power(xp, 900)
        if arithmetic.holds(tiny):
            grow = unless(xp, tiny, full_like(xp, far, 1), power(xp, 600))
            v, rest = v * column(grow), rest * column(grow)
            far, size = length(xp, v), length(xp, rest)
        least, other = far * power(xp, 450), size / power(xp, 450)
        useless = useless | (other > least) | (other * fixed.length_u > least)
        spread = spread + 1 / power(xp, 1000)
    safe = unless(xp, useless, far)
    gamma = unless(xp, start.gamma == 0, start.gamma)
    along = v / column(safe)
    rest = rest / column(safe)
    turned = start.u * column(total(xp, rest * along)) - rest * column(total(xp, start.u * along))
    bound = spread / xp.abs(gamma) / safe * grow + length(xp, turned)
    value = column(f / gamma / safe * grow) * along + sign * turned
    return unless(xp, useless, usable(xp, bound), xp.inf), value


def usable(xp: Any, bound: Any) -> Any:
    """Return a finite error bound, also where its value overflows; inf stays reserved for forms that fail."""
    return bound if arithmetic.is_object(xp) else xp.minimum(bound, full_like(xp, bound, 1.7 * power(xp, 1023)))
