"""Starts of a two-layer linear network on white inputs: drawn, checked, judged, and followed weight by weight."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.arithmetic import precision
from linsolve.core.arguments import real_array
from linsolve.core.randomness import seeded
from linsolve.systems.whitened.imbalance import imbalance
from linsolve.systems.whitened.matrix_riccati import moved
from linsolve.systems.whitened.start_frame import frame

__all__ = ["checked", "dyadic", "gaussian", "init", "obstructed", "prospect", "refuse_impossible", "weights"]

WHO = "WhitenedTwoLayer"
# relative violation up to which product and Gram matrices count as those of weights; `Flow.tolerance` of the class
TOLERANCE = 1e-9
_SPACINGS = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def checked(who: str, w1: Any, w2: Any) -> tuple[Any, Any]:
    """Return weights as real arrays of fitting shapes, refused with a reason where they do not fit."""
    w1, w2 = real_array(who, "w1", w1, meaning="first layer"), real_array(who, "w2", w2, meaning="second layer")
    for name, w, axes in (("w1", w1, "(width, n_in)"), ("w2", w2, "(n_out, width)")):
        if w.ndim < 2:
            raise ValueError(f"{who}: {name} has shape {tuple(w.shape)} but needs trailing axes {axes}; add them")
    if w1.shape[-2] != w2.shape[-1]:
        raise ValueError(
            f"{who}: width = {w1.shape[-2]} in w1, shape {tuple(w1.shape)}, must equal width = {w2.shape[-1]} in w2, "
            f"shape {tuple(w2.shape)} (hidden units); w1 is (width, n_in), w2 is (n_out, width)"
        )
    return w1, w2


def refuse_impossible(who: str, fields: dict[str, Any], made_by: str, given: Iterable[Any] = ()) -> None:
    r"""Refuse a product and Gram matrices that no weights have.

    For weights A, B of any width :math:`\begin{pmatrix} A^\top A & A^\top B^\top \\ B A & B B^\top \end{pmatrix}` is
    symmetric and positive semidefinite. Its blocks are measured in units of the largest entries of the Gram matrices.

    Parameters
    ----------
    who : str
        Flow, for the message.
    fields : dict of str to array
        ``B A``, shape batch + (n_out, n_in), ``A^T A`` and ``B B^T``, in this order, by the names that the user gave.
    made_by : str
        Call that makes the state of weights, for the message.
    given : iterable of array, optional
        The fields as the user gave them; violations up to their own rounding, and up to `TOLERANCE`, are accepted.

    Raises
    ------
    ValueError
        If a Gram matrix is not symmetric or has a negative eigenvalue, or the product is larger than they allow.

    Examples
    --------
    >>> import numpy as np
    >>> fields = {"product": np.eye(2), "gram_in": np.eye(2), "gram_out": np.eye(2) / 4}
    >>> try:
    ...     refuse_impossible("WhitenedTwoLayer", fields, "flow.of(w1, w2)")
    ... except ValueError as refusal:
    ...     print(str(refusal).split(" (")[0])
    WhitenedTwoLayer: product = 1
    """
    (y, x, z), names = fields.values(), list(fields)
    xp = arithmetic.namespace(y, x, z)
    if getattr(xp, "symbolic", False) or not _fit(y.shape, x.shape, z.shape):
        return  # shapes are checked with those of the parameters
    tolerance = max(TOLERANCE, 16 * sum(y.shape[-2:]) * spacing(*given))
    least = xp.asarray(10) ** -10000 if arithmetic.is_object(xp) else float(np.finfo(float).tiny)
    sizes = [xp.max(xp.abs(m), axis=(-2, -1)) for m in (y, x, z)]
    a, b = (xp.sqrt(xp.maximum(size, least + 0 * size))[..., None, None] for size in sizes[1:])
    with np.errstate(over="ignore"):  # a product without Gram matrices
        y, x, z, *sizes = (arithmetic.to_numpy(m) for m in (y / a / b, x / a / a, z / b / b, *sizes))

    def refuse(k: int, violation: np.ndarray, rule: str) -> None:
        if (violation <= tolerance).all():
            return
        index = tuple(int(i) for i in np.argwhere(~(violation <= tolerance))[0])
        largest = float(np.broadcast_to(sizes[k], violation.shape)[index])
        where = f"largest entry, at index {index}" if index else "largest entry"
        raise ValueError(
            f"{who}: {names[k]} = {largest:.3g} ({where}) {rule}, and violates that by {violation[index]:.3g} "
            f"(relative; at most {tolerance:.2g} is rounding): no weights have this state; make it with {made_by}"
        )

    turned = partial(np.swapaxes, axis1=-1, axis2=-2)
    for k, gram in ((1, x), (2, z)):
        refuse(k, np.abs(gram - turned(gram)).max(axis=(-2, -1)), "must be symmetric (Gram matrix)")
    batch = np.broadcast_shapes(*(m.shape[:-2] for m in (x, y, z)))
    y, x, z = (np.broadcast_to(m, batch + m.shape[-2:]) for m in (y.clip(-1e100, 1e100), x, z))
    whole = np.concatenate([np.concatenate([x, turned(y)], axis=-1), np.concatenate([y, z], axis=-1)], axis=-2)
    try:
        np.linalg.cholesky(whole + tolerance * np.eye(whole.shape[-1]))
    except np.linalg.LinAlgError:  # find the field to blame
        for k, gram in ((1, x), (2, z)):
            refuse(k, -np.linalg.eigvalsh(gram)[..., 0], "must have no negative eigenvalue (Gram matrix)")
        bound = f"must not exceed the Cauchy-Schwarz bound of {names[1]} and {names[2]}"
        refuse(0, -np.linalg.eigvalsh(whole)[..., 0], bound)


def _fit(product: tuple[int, ...], gram_in: tuple[int, ...], gram_out: tuple[int, ...]) -> bool:
    """Whether shapes are those of a product and its Gram matrices, with batch axes that broadcast."""
    try:
        np.broadcast_shapes(product[:-2], gram_in[:-2], gram_out[:-2])
    except ValueError:
        return False
    return len(product) > 1 and gram_in[-2:] == product[-1:] * 2 and gram_out[-2:] == product[-2:-1] * 2


def spacing(*arrays: Any) -> float:
    """Return the coarsest spacing around 1 of the floating-point types of arrays; that of doubles for all else."""
    kinds = [str(getattr(a, "dtype", "")).rpartition(".")[2] for a in arrays]
    return max([_SPACINGS.get(kind, 0.0) for kind in kinds] + [float(np.finfo(float).eps)])


def _orthonormal(rng: np.random.Generator, batch: tuple[int, ...], rows: int, columns: int) -> np.ndarray:
    """Return matrices with orthonormal columns, uniformly distributed."""
    q, r = np.linalg.qr(rng.normal(size=(*batch, rows, columns)))
    return q * np.where(np.diagonal(r, axis1=-2, axis2=-1) < 0, -1.0, 1.0)[..., None, :]


def init(
    n_in: int,
    width: int,
    n_out: int,
    *,
    scale: float,
    imbalance: float = 0.0,
    batch: tuple[int, ...] = (),
    rng: np.random.Generator | int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    r"""Return random lambda-balanced weights, ``W2^T W2 - W1 W1^T = imbalance * I``.

    The singular values of the smaller layer are those of a Gaussian matrix with entries of variance
    ``scale^2 / width``; all singular vectors are uniform.

    Parameters
    ----------
    n_in, width, n_out : int
        Sizes of the layers.
    scale : float
        Size of the weights that the imbalance does not fix, positive or zero.
    imbalance : float
        ``lambda``; positive needs ``width <= n_out``, negative ``width <= n_in``.
    batch : tuple of int
        Leading shape.
    rng : Generator or int, optional

    Returns
    -------
    w1 : array, shape batch + (width, n_in)
    w2 : array, shape batch + (n_out, width)

    Raises
    ------
    ValueError
        For sizes that no such weights have.
    """
    sizes = {"n_in": n_in, "width": width, "n_out": n_out}
    for name, size in sizes.items():
        if not isinstance(size, int | np.integer) or size < 1:
            raise ValueError(f"{WHO}.init: {name} = {size!r} must be a positive integer (units); say 4")
    if not (np.isfinite(scale) and scale >= 0):
        raise ValueError(f"{WHO}.init: scale = {scale!r} must be finite and not negative (size of weights); say 0.01")
    if not np.isfinite(imbalance):
        raise ValueError(f"{WHO}.init: imbalance = {imbalance!r} must be finite (lambda); say 0.0")
    limit = "n_out" if imbalance > 0 else "n_in"
    if imbalance != 0 and width > sizes[limit]:
        sign, full = ("> 0", "W2") if imbalance > 0 else ("< 0", "W1")
        raise ValueError(
            f"{WHO}.init: width = {width} must be at most {limit} = {sizes[limit]} for imbalance = {imbalance} {sign} "
            f"({full} then has full rank width); take a smaller width or imbalance = 0"
        )
    rng = seeded(f"{WHO}.init", rng)
    rank = min(n_in, width, n_out)
    least = np.zeros((*batch, width))
    drawn = rng.normal(size=(*batch, width, max(n_in, n_out))) * scale / np.sqrt(width)
    least[..., :rank] = np.linalg.svd(drawn, compute_uv=False)[..., :rank]
    most = np.hypot(least, np.sqrt(abs(imbalance)))
    a, b = (least, most) if imbalance >= 0 else (most, least)
    hidden = _orthonormal(rng, batch, width, width)

    def layer(values: np.ndarray, n: int) -> np.ndarray:
        k = min(n, width)
        return (hidden[..., :, :k] * values[..., None, :k]) @ np.swapaxes(_orthonormal(rng, batch, n, k), -1, -2)

    return layer(a, n_in), np.swapaxes(layer(b, n_out), -1, -2)


def gaussian(
    n_in: int,
    width: int,
    n_out: int,
    *,
    sigma1: float,
    sigma2: float,
    batch: tuple[int, ...] = (),
    rng: np.random.Generator | int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return weights with independent normal entries of deviations `sigma1`, `sigma2`, in general not solvable.

    Returns
    -------
    w1 : array, shape batch + (width, n_in)
    w2 : array, shape batch + (n_out, width)
    """
    rng = seeded(f"{WHO}.gaussian", rng)
    return sigma1 * rng.normal(size=(*batch, width, n_in)), sigma2 * rng.normal(size=(*batch, n_out, width))


def dyadic(rng: np.random.Generator, n_in: int, width: int, n_out: int) -> tuple[np.ndarray, np.ndarray]:
    """Return small lambda-balanced weights in eighths: balanced without any rounding, so to any number of digits."""
    while True:
        w1 = rng.integers(-3, 4, size=(4000, width, n_in))
        w2 = rng.integers(-3, 4, size=(4000, n_out, width))
        spread = np.swapaxes(w2, -1, -2) @ w2 - w1 @ np.swapaxes(w1, -1, -2)
        good = (spread == spread[:, :1, :1] * np.eye(width, dtype=int)).all(axis=(-2, -1))
        good &= (spread[:, 0, 0] != 0) & (np.linalg.matrix_rank(w2 @ w1) == width)
        if good.any():
            first = int(np.argmax(good))
            return w1[first] / 8.0, w2[first] / 8.0


def obstructed(xp: Any, target: Any, product: Any, gram_in: Any, gram_out: Any) -> Any:
    """Return 1 where a square balanced start has ``det product * det target < 0``, else 0."""
    sign = _orientation(xp, target) * _orientation(xp, product)
    kind = imbalance(xp, product, gram_in, gram_out)
    one = xp.ones_like(sign)
    balanced = (kind.total == 0) & (kind.spread == 0)
    return xp.where(balanced & (sign < 0), one, 0 * one)


def _orientation(xp: Any, a: Any) -> Any:
    """Return the sign of the determinant, 0 for a matrix that is singular to rounding or not square."""
    if a.shape[-1] != a.shape[-2]:
        return 0 * a[..., 0, 0]
    u, s, vh = xp.linalg.svd(a, full_matrices=True)
    regular = s[..., -1] > 16 * a.shape[-1] * precision(xp) * s[..., 0]
    return xp.where(regular, _parity(xp, u) * _parity(xp, vh), 0 * s[..., 0])


def _parity(xp: Any, orthogonal: Any) -> Any:
    """Return the determinant of an orthogonal matrix, 1 or -1."""
    return xp.sign(xp.linalg.det(orthogonal))


def prospect(flow: Any, z0: Any) -> str:
    """Return, in a sentence, where the flow from `z0` ends and why."""
    xp = arithmetic.namespace(*(z0 := flow.state(z0)))
    flow = flow.cast(xp)
    stuck = arithmetic.to_numpy(flow.obstructed(xp, z0)) > 0
    final = arithmetic.to_numpy(flow.final_loss(xp, z0))
    if stuck.ndim:
        return f"{int(stuck.sum())} of {stuck.size} networks end on a saddle (parity); losses up to {final.max():.6g}"
    if stuck:
        return (
            f"The flow ends on a saddle, at loss {final:.6g}: a balanced square network keeps the sign of det W2 W1, "
            "and the target's is the other"
        )
    return f"The flow ends at loss {final:.6g}"


def weights(flow: Any, t: Any, w1: Any, w2: Any, *, rtol: float = 1e-10) -> tuple[np.ndarray, np.ndarray]:
    r"""Return raw weights along the exact trajectory. Not a closed form: a linear ODE is integrated numerically.

    .. math:: \tau \dot W_1 = W_2^\top (S - Y(t)), \qquad \tau \dot W_2 = (S - Y(t)) W_1^\top,

    linear in the weights because :math:`Y(t)` is the closed form. For lambda-balanced starts this is
    :math:`\tau \dot Q = (\tilde F - P(t)/2) Q` with ``Q = (W1^T; W2)``. The rotation of hidden units that it carries
    along is not elementary.

    Parameters
    ----------
    flow : WhitenedTwoLayer
    t : array_like, any shape
        Finite times, not negative.
    w1 : array, shape batch + (width, n_in)
    w2 : array, shape batch + (n_out, width)
    rtol : float
        Relative tolerance of ``scipy.integrate.solve_ivp`` (DOP853).

    Returns
    -------
    w1 : array, shape t.shape + batch + (width, n_in)
    w2 : array, shape t.shape + batch + (n_out, width)

    Raises
    ------
    NotExact
        If the closed form does not hold for this start.
    ValueError
        If a time is negative or infinite.
    """
    w1, w2 = (arithmetic.to_numpy(w) for w in checked(WHO, w1, w2))
    flow, times = flow.cast(np), real_array(WHO, "t", t, meaning="time")
    if times.min() < 0:
        raise ValueError(f"{WHO}.weights: t = {times.min()} must not be negative (time); give times from 0 on")
    z0 = flow.of(w1, w2)
    flow(0.0, z0)  # refuses a start without closed form
    batch = np.broadcast_shapes(flow.tau.shape, flow.target.shape[:-2], w1.shape[:-2], w2.shape[:-2])
    target = np.broadcast_to(flow.target, batch + flow.target.shape[-2:])
    tau = np.broadcast_to(flow.tau, batch)
    w1, w2 = (np.broadcast_to(w, batch + w.shape[-2:]) for w in (w1, w2))
    out = [np.empty(times.shape + w.shape) for w in (w1, w2)]
    for index in np.ndindex(batch):
        found = _driven(target[index], times.ravel() / tau[index], w1[index], w2[index], rtol)
        for whole, part in zip(out, found, strict=True):
            whole[(slice(None),) * times.ndim + index] = part.reshape(times.shape + part.shape[1:])
    return out[0], out[1]


def _driven(target: np.ndarray, times: np.ndarray, w1: np.ndarray, w2: np.ndarray, rtol: float) -> list[np.ndarray]:
    from scipy.integrate import solve_ivp

    seen = frame(np, target, w2 @ w1, w1.T @ w1, w2 @ w2.T)
    cut = w1.size

    def rate(t: float, y: np.ndarray) -> np.ndarray:
        product = moved(np, np.asarray(t), seen, w1.shape[-1])[0] if t > 0 else w2 @ w1
        gap = target - product
        a, b = y[:cut].reshape(w1.shape), y[cut:].reshape(w2.shape)
        return np.concatenate([(b.T @ gap).ravel(), (gap @ a.T).ravel()])

    y0 = np.concatenate([w1.ravel(), w2.ravel()])
    stops, back = np.unique(times, return_inverse=True)
    if stops[-1] == 0:
        path = np.repeat(y0[None], len(times), axis=0)
    else:
        floor = 1e-3 * rtol * max(float(np.abs(y0).max()), np.finfo(float).tiny)
        path = solve_ivp(rate, (0.0, stops[-1]), y0, "DOP853", stops, rtol=rtol, atol=floor).y.T[back]
    return [path[:, :cut].reshape(-1, *w1.shape), path[:, cut:].reshape(-1, *w2.shape)]
