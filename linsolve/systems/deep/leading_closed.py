"""Closed blow-up times of the leading system: one unit in every layer, or in one hidden layer of two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from linsolve.core.arguments import real_array

__all__ = ["closed_time", "nahm", "narrow_time", "scalar_time"]


def scalar_time(xp: Any, weights: Any, step: float = 0.25) -> Any:
    r"""Return the blow-up time of a chain of three or more weights, :math:`\dot w_l = \prod_{k \ne l} w_k`.

    .. math:: \tau^* = I(w_1^2, \dots, w_L^2), \qquad
        I(x) = \frac12 \int_0^\infty \frac{dz}{\sqrt{\prod_l (z + x_l)}},

    if the product is not negative; otherwise, with ``x`` the smallest square,
    :math:`\tau^* = 2 I(w_l^2 - x) - I(w_l^2)`, which is infinite if two squares equal ``x``. At :math:`L = 3`, ``I`` is
    Carlson's :math:`R_F`.

    Parameters
    ----------
    xp : namespace
    weights : array, shape (L,)
    step : float
        Step of the trapezoidal rule in :math:`\log z`, whose error is of order :math:`e^{-2 \pi^2 / \mathrm{step}}`.
    """
    squares = weights**2
    ahead = _integral(xp, squares, step)
    if not xp.prod(xp.sign(weights)) < 0:
        return ahead
    return 2 * _integral(xp, squares - xp.min(squares), step) - ahead


def _integral(xp: Any, squares: Any, step: float) -> Any:
    """Return ``I``; inf if two arguments are 0."""
    depth, top = squares.shape[0], xp.max(squares)
    zeros = int(xp.sum(squares == 0))
    if zeros > 1:
        return xp.inf * top
    x, digits = squares / top, 2 * float(np.pi) ** 2 / step  # -log of the error of the rule
    least = float(xp.log(xp.min(xp.where(x > 0, x, xp.ones_like(x)))))
    first, last = least - digits * (1 + zeros), digits / (depth / 2 - 1)
    nodes = xp.asarray(np.arange(np.floor(first / step), np.ceil(last / step) + 1)) * step
    logs = xp.sum(xp.log(xp.exp(nodes)[:, None] + x), axis=-1)
    return xp.sum(xp.exp(nodes - logs / 2)) * step / 2 * xp.pow(top, (2 - depth) * xp.ones_like(top) / 2)


def narrow_time(a: np.ndarray, m: np.ndarray, w: float) -> float:
    r"""Return the blow-up time of two hidden layers of which one has one unit.

    For :math:`\dot a = m w, \dot m = a w, \dot w = a \cdot m` and :math:`d\theta = w\, d\tau`, :math:`a \pm m` grow
    like :math:`e^{\pm\theta}`. In :math:`E = e^{2\theta}`, with :math:`P, Q = |a \pm m|^2 / 2` at the start,

    .. math:: w^2 E = \tfrac{P}{2} E^2 + b E + \tfrac{Q}{2} = \tfrac{P}{2} (E - r_1)(E - r_2), \quad
        b = w_0^2 - \tfrac{P + Q}{2}, \qquad
        \int_E^\infty \frac{dE}{2 E w} = \sqrt{\tfrac{2}{P}}\, R_F(E, E - r_1, E - r_2) .

    If ``w`` vanishes on the way, the layers return and blow up at ``E = 0``, the same integral in ``1/E``.
    """
    from scipy.special import elliprf

    m = m if w >= 0 else -m  # so that w >= 0
    P, Q = float(np.sum((a + m) ** 2)) / 2, float(np.sum((a - m) ** 2)) / 2
    b = w**2 - (P + Q) / 2

    def rest(E: float, roots: list[complex], P: float) -> float:
        return float(np.sqrt(2 / P) * elliprf(E, E - roots[0], E - roots[1]).real)

    back = _roots(Q, b, P) if Q > 0 else []
    turns = [r.real for r in back if r.imag == 0 and 0 < r.real < 1]
    if turns:
        return 2 * rest(max(turns), back, Q) - rest(1.0, back, Q)
    return rest(1.0, _roots(P, b, Q), P) if P > 0 else np.inf


def _roots(P: float, b: float, Q: float) -> list[complex]:
    """Return the roots of ``P E^2 / 2 + b E + Q / 2``."""
    root = np.sqrt(complex(b * b - P * Q))
    return [complex((-b + sign * root) / P) for sign in (1, -1)]


def closed_time(layers: Sequence[np.ndarray], target: np.ndarray) -> float | None:
    """Return the blow-up time in closed form, None if none is known."""
    if target.shape == (1, 1) and all(v.size == 1 for v in layers):
        s = float(target[0, 0])
        weights = np.array([float(v[0, 0]) for v in layers])
        return float(scalar_time(np, weights * np.where(np.arange(len(weights)) == 0, np.sign(s), 1.0)) / abs(s))
    if len(layers) == 3 and target.shape[0] == 1 and min(len(v) for v in layers[:2]) == 1:
        s = float(np.linalg.norm(target))
        w, M, a = layers[0] @ target[0] / s, layers[1], layers[2][0]
        found = narrow_time(a, M[:, 0], float(w[0])) if len(w) == 1 else narrow_time(w, M[0], float(a[0]))
        return found / s
    return None


def nahm(w: Any, M: Any, a: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Return Nahm's matrices of the leading system of three layers and one output, :math:`\dot T_i = [T_j, T_k]`.

    For :math:`\dot w = M^T a, \dot M = a w^T, \dot a = M w`, the antisymmetric matrices of size ``1 + n_1 + n_2`` with
    the single blocks (0, 1): :math:`w^T`, (1, 2): :math:`M^T`, (0, 2): :math:`a^T` satisfy the equations cyclically.
    Hence the spectrum of :math:`T_1 + i T_2 + 2 i z T_3 + z^2 (T_1 - i T_2)` is conserved for every ``z``. Its
    invariants are functions of :math:`w w^T - M^T M` and :math:`a a^T - M M^T`.

    Parameters
    ----------
    w, M, a : array_like, shapes (n_1,), (n_2, n_1), (n_2,)
        First layer along the target, second layer, last layer.

    Returns
    -------
    three arrays, shape (1 + n_1 + n_2, 1 + n_1 + n_2)

    Raises
    ------
    ValueError
        If the shapes do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import deep
    >>> w, M, a = np.array([1.0]), np.array([[2.0]]), np.array([3.0])
    >>> first, second, third = deep.nahm(w, M, a)
    >>> moved = deep.nahm(M.T @ a, np.outer(a, w), M @ w)
    >>> bool(np.all(moved[0] == second @ third - third @ second))
    True
    """
    parts = {"w": w, "M": M, "a": a}
    w, M, a = (np.asarray(real_array("nahm", name, v, meaning="weights of a layer")) for name, v in parts.items())
    if w.ndim != 1 or a.ndim != 1 or M.shape != (len(a), len(w)):
        raise ValueError(
            f"nahm: M has shape {M.shape} but must be (n_2, n_1) for w of shape {w.shape} and a of shape {a.shape} "
            "(the three layers); transpose it"
        )
    root, first, second = slice(0, 1), slice(1, 1 + len(w)), slice(1 + len(w), 1 + len(w) + len(a))

    def antisymmetric(block: np.ndarray, rows: slice, columns: slice) -> np.ndarray:
        T = np.zeros((second.stop, second.stop))
        T[rows, columns], T[columns, rows] = block, -block.T
        return T

    blocks = (w[None], root, first), (M.T, first, second), (a[None], root, second)
    one, two, three = (antisymmetric(*each) for each in blocks)
    return one, two, three
