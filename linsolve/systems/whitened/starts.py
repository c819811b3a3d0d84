"""Initial weights of a two-layer linear network on white inputs: random draws, checks, and limits set by parity."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.arithmetic import precision, spacing
from linsolve.core.arguments import extreme, integer, lengths, number, refuse_beyond_memory
from linsolve.core.network_arguments import meeting
from linsolve.core.randomness import orthonormal, seeded
from linsolve.numerics import one_matrix
from linsolve.systems.whitened.imbalance import imbalance

__all__ = [
    "checked",
    "dyadic",
    "gaussian",
    "init",
    "layer_sizes",
    "obstructed",
    "orthonormal",
    "products",
    "prospect",
    "refuse_impossible",
    "refuse_large_target",
    "refuse_lost_rates",
]

WHO = "WhitenedTwoLayer"
# relative violation up to which product and Gram matrices count as those of weights; `Flow.tolerance` of the class
TOLERANCE = 1e-9
MOST = 1e6  # largest violation that a message gives; by zero Gram matrices every product is infinitely too large


def checked(who: str, w1: Any, w2: Any) -> tuple[Any, Any]:
    """Return weights as real arrays; raise ValueError if their shapes do not fit."""
    layers = ("w1", w1, "first layer", "width, n_in"), ("w2", w2, "second layer", "n_out, width")
    return meeting(who, *layers, "hidden units")


def refuse_impossible(
    who: str,
    fields: dict[str, Any],
    made_by: str,
    given: Iterable[Any] = (),
    *,
    is_sound: Callable[..., bool] = lambda *state: False,
) -> None:
    r"""Raise ValueError for a product and Gram matrices that no weights have.

    For weights A, B of any width :math:`\begin{pmatrix} A^\top A & A^\top B^\top \\ B A & B B^\top \end{pmatrix}` is
    symmetric and positive semidefinite. Its blocks are measured in units of the largest entries of the Gram matrices.

    Parameters
    ----------
    who : str
        Flow, for the message.
    fields : dict of str to array
        ``B A``, shape batch + (n_out, n_in), ``A^T A`` and ``B B^T``, in this order, by the argument names.
    made_by : str
        Call that builds the state from weights, for the message.
    given : iterable of array, optional
        The fields before conversion; violations up to their rounding error, and up to `TOLERANCE`, are accepted.
    is_sound : callable, optional
        Function of product and Gram matrices: whether they are known to be those of weights, to rounding.

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
    if not arithmetic.readable(y, x, z) or not _fit(y.shape, x.shape, z.shape):
        return  # shapes are checked together with those of the parameters
    if is_sound(y, x, z):
        return
    tolerance = max([TOLERANCE, *(16 * sum(y.shape[-2:]) * spacing(v) for v in given)])
    if arithmetic.is_jax(xp):  # in single precision the bounds below are 0 and inf
        xp, y, x, z = np, *(arithmetic.to_numpy(m).astype(float) for m in (y, x, z))
    least = xp.asarray(10) ** -10000 if arithmetic.is_object(xp) else float(np.finfo(float).tiny)
    sizes = [xp.max(xp.abs(m), axis=(-2, -1)) for m in (y, x, z)]
    if not arithmetic.is_object(xp):
        _refuse_subnormal(who, dict(zip(names[1:], sizes[1:], strict=True)))
    a, b = (xp.sqrt(xp.maximum(size, least + 0 * size))[..., None, None] for size in sizes[1:])
    with np.errstate(over="ignore"):  # a product with zero Gram matrices divides by 0
        y, x, z, *sizes = (arithmetic.to_numpy(m) for m in (y / (a * b), x / (a * a), z / (b * b), *sizes))

    def refuse(k: int, violation: np.ndarray, rule: str) -> None:
        if (violation <= tolerance).all():
            return
        index = tuple(int(i) for i in np.argwhere(~(violation <= tolerance))[0])
        largest = float(np.broadcast_to(sizes[k], violation.shape)[index])
        where = f"largest entry, at index {index}" if index else "largest entry"
        raise ValueError(
            f"{who}: {names[k]} = {largest:.3g} ({where}) {rule}, and violates this rule by "
            f"{'more than ' if violation[index] > MOST else ''}{min(violation[index], MOST):.3g} "
            f"(relative; at most {tolerance:.2g} is rounding): no weights have this state; compute it with {made_by}"
        )

    turned = partial(np.swapaxes, axis1=-1, axis2=-2)
    for k, gram in ((1, x), (2, z)):
        if not (gram == turned(gram)).all():
            refuse(k, np.abs(gram - turned(gram)).max(axis=(-2, -1)), "must be symmetric (Gram matrix)")
    if not _positive(_whole(y, x, z, tolerance)):  # find the field that is invalid
        for k, gram in ((1, x), (2, z)):
            refuse(k, -np.linalg.eigvalsh(gram)[..., 0], "must have no negative eigenvalue (Gram matrix)")
        bound = f"must not exceed the Cauchy-Schwarz bound of {names[1]} and {names[2]}"
        refuse(0, tolerance - np.linalg.eigvalsh(_whole(y, x, z, tolerance))[..., 0], bound)


def _whole(y: np.ndarray, x: np.ndarray, z: np.ndarray, tolerance: float) -> np.ndarray:
    """Return the lower triangle of a state, with the tolerance added to its diagonal; the rest is undefined."""
    rows, n = x.shape[-1], x.shape[-1] + z.shape[-1]
    whole = np.empty((*np.broadcast_shapes(*(m.shape[:-2] for m in (x, y, z))), n, n))
    whole[..., :rows, :rows], whole[..., rows:, rows:] = x, z
    np.clip(y, -1e100, 1e100, out=whole[..., rows:, :rows])
    np.einsum("...ii->...i", whole)[...] += tolerance
    return whole


def _positive(whole: np.ndarray) -> bool:
    """Return whether matrices are positive definite, given by their lower triangles, which may be overwritten."""
    factor = partial(one_matrix.cholesky, overwrite=True) if one_matrix.is_one(whole) else np.linalg.cholesky
    try:
        factor(whole)
    except np.linalg.LinAlgError:
        return False
    return True


# largest entry whose square is a double, and smallest whose square has all its digits
LARGEST, SMALLEST = 1e154, 2.0**-510
_DECADES = 300  # of rates of learning


def refuse_lost_rates(who: str, rate: str, meaning: str, decades: Any, **given: Any) -> None:
    """Raise OverflowError if a rate, given by its decimal logarithms, may leave the range of doubles.

    The error names the one of the `given` arguments that is farthest from 1.
    """
    if (np.abs(decades) < _DECADES).all():
        return
    sizes = {name: extreme(arithmetic.to_numpy(value)) for name, value in given.items()}
    name = max(sizes, key=lambda name: abs(np.log(sizes[name])))
    raise OverflowError(
        f"{who}: {name} = {sizes[name]:.3g} makes the {rate} leave the range of doubles ({meaning}); rescale, or give "
        "it in linsolve.arithmetic.precise(50)"
    )


def refuse_large_target(who: str, target: Any, name: str = "target") -> None:
    """Raise an error if the loss of a map, by default the target, is beyond the range of doubles."""
    if arithmetic.is_object(arithmetic.namespace(target)) or not arithmetic.readable(target):
        return
    size = float(np.abs(arithmetic.to_numpy(target)).max())
    if not size <= LARGEST / math.sqrt(math.prod(target.shape[-2:])):
        raise OverflowError(
            f"{who}: {name} = {size:.3g} (largest entry) must be below {LARGEST:g} (its square is the loss); rescale "
            "it, weights and tau, or give it in linsolve.arithmetic.precise(50)"
        )


def _refuse_subnormal(who: str, sizes: dict[str, Any]) -> None:
    """Raise an error for subnormal Gram matrices, of these largest entries: they have lost digits."""
    least = float(np.finfo(float).tiny)
    for name, size in sizes.items():
        found = arithmetic.to_numpy(size)
        if ((found > 0) & (found < least)).any():
            raise ValueError(
                f"{who}: {name} = {found[found > 0].min():.3g} (largest entry) must be 0 or at least {least:.3g} "
                "(Gram matrix); rescale, or give it in linsolve.arithmetic.precise(50)"
            )


def products(who: str, layers: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Return ``B A``, ``A^T A`` and ``B B^T`` of layers A, B, in this order, by the argument names.

    Raises
    ------
    OverflowError
        If a product overflows or underflows.
    """
    a, b = layers.values()
    xp = arithmetic.namespace(a, b)
    with np.errstate(over="ignore", invalid="ignore"):
        found = b @ a, xp.matrix_transpose(a) @ a, b @ xp.matrix_transpose(b)
    _refuse_lost_range(who, layers, found)
    return found


def _refuse_lost_range(who: str, layers: dict[str, Any], state: Any) -> None:
    """Raise an error if products of the weights, given by the argument names, overflow or underflow."""
    if arithmetic.is_object(arithmetic.namespace(*layers.values())) or not arithmetic.readable(*layers.values()):
        return
    sizes = {name: float(np.abs(arithmetic.to_numpy(w)).max()) for name, w in layers.items()}
    name = max(sizes, key=sizes.__getitem__)
    if all(np.isfinite(arithmetic.to_numpy(v)).all() for v in state) and not 0 < sizes[name] < SMALLEST:
        return
    raise OverflowError(
        f"{who}: {name} = {sizes[name]:.3g} (largest entry) must lie between {SMALLEST:.1g} and {LARGEST:g} (the state "
        "has its square); rescale, or give it in linsolve.arithmetic.precise(50)"
    )


def _fit(product: tuple[int, ...], gram_in: tuple[int, ...], gram_out: tuple[int, ...]) -> bool:
    """Return whether the shapes are those of a product and its Gram matrices, with batch axes that broadcast."""
    try:
        np.broadcast_shapes(product[:-2], gram_in[:-2], gram_out[:-2])
    except ValueError:
        return False
    return len(product) > 1 and gram_in[-2:] == product[-1:] * 2 and gram_out[-2:] == product[-2:-1] * 2


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
        Scale of the weights that the imbalance does not determine, not negative.
    imbalance : float
        ``lambda``; a positive value needs ``width <= n_out``, a negative value ``width <= n_in``.
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
        If no lambda-balanced weights of these sizes exist.
    """
    sizes, batch = layer_sizes(f"{WHO}.init", batch, n_in=n_in, width=width, n_out=n_out)
    n_in, width, n_out = sizes.values()
    scale = number(f"{WHO}.init", "scale", scale, meaning="size of weights", domain="[0, 1e150]", example=0.01)
    imbalance = number(f"{WHO}.init", "imbalance", imbalance, meaning="lambda", domain="(-inf, inf)", example=0.0)
    limit = "n_out" if imbalance > 0 else "n_in"
    if imbalance != 0 and width > sizes[limit]:
        sign, full = ("> 0", "W2") if imbalance > 0 else ("< 0", "W1")
        raise ValueError(
            f"{WHO}.init: width = {width} must be at most {limit} = {sizes[limit]} for imbalance = {imbalance} {sign} "
            f"({full} then has full rank width); use a smaller width or imbalance = 0"
        )
    rng = seeded(f"{WHO}.init", rng)
    rank = min(n_in, width, n_out)
    least = np.zeros((*batch, width))
    drawn = rng.normal(size=(*batch, width, max(n_in, n_out))) * scale / np.sqrt(width)
    least[..., :rank] = np.linalg.svd(drawn, compute_uv=False)[..., :rank]
    most = np.hypot(least, np.sqrt(abs(imbalance)))
    a, b = (least, most) if imbalance >= 0 else (most, least)
    hidden = orthonormal(rng, batch, width, width)

    def layer(values: np.ndarray, n: int) -> np.ndarray:
        k = min(n, width)
        return (hidden[..., :, :k] * values[..., None, :k]) @ np.swapaxes(orthonormal(rng, batch, n, k), -1, -2)

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
    """Return weights with independent normal entries; in general they have no closed-form solution.

    Returns
    -------
    w1 : array, shape batch + (width, n_in)
    w2 : array, shape batch + (n_out, width)
    """
    who = f"{WHO}.gaussian"
    sizes, batch = layer_sizes(who, batch, n_in=n_in, width=width, n_out=n_out)
    n_in, width, n_out = sizes.values()
    scales = [
        number(who, name, value, meaning="standard deviation", domain="[0, 1e150]", example=1.0)
        for name, value in (("sigma1", sigma1), ("sigma2", sigma2))
    ]
    rng = seeded(who, rng)
    return scales[0] * rng.normal(size=(*batch, width, n_in)), scales[1] * rng.normal(size=(*batch, n_out, width))


def layer_sizes(who: str, batch: Any, **units: Any) -> tuple[dict[str, int], tuple[int, ...]]:
    """Return the checked numbers of units and the checked batch shape of two layers."""
    sizes = {name: integer(who, name, size, meaning="units", example=4) for name, size in units.items()}
    batch = lengths(who, "batch", batch, meaning="leading shape")
    refuse_beyond_memory(who, sizes | {"batch": math.prod(batch)}, "weights")
    return sizes, batch


def dyadic(rng: np.random.Generator, n_in: int, width: int, n_out: int) -> tuple[np.ndarray, np.ndarray]:
    """Return small lambda-balanced weights, multiples of 1/8 and balanced without rounding error."""
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
    """Return 1 where a square balanced state has ``det product * det target < 0``, else 0."""
    sign = _orientation(xp, target) * _orientation(xp, product)
    kind = imbalance(xp, product, gram_in, gram_out)
    one = xp.ones_like(sign)
    balanced = (kind.total == 0) & (kind.spread == 0)
    return xp.where(balanced & (sign < 0), one, 0 * one)


def _orientation(xp: Any, a: Any) -> Any:
    """Return the sign of the determinant, 0 for a matrix that is numerically singular or not square."""
    if a.shape[-1] != a.shape[-2]:
        return 0 * a[..., 0, 0]
    u, s, vh = xp.linalg.svd(a, full_matrices=True)
    regular = s[..., -1] > 16 * a.shape[-1] * precision(xp) * s[..., 0]
    return xp.where(regular, _parity(xp, u) * _parity(xp, vh), 0 * s[..., 0])


def _parity(xp: Any, orthogonal: Any) -> Any:
    """Return the determinant of an orthogonal matrix, 1 or -1."""
    return xp.sign(xp.linalg.det(orthogonal))


def prospect(flow: Any, z0: Any) -> str:
    """Return a sentence that states the limit of the flow from `z0` and the reason."""
    xp = arithmetic.namespace(*(z0 := flow.state(z0)))
    flow = flow.cast(xp)
    stuck = arithmetic.to_numpy(flow.obstructed(xp, z0)) > 0
    final = arithmetic.to_numpy(flow.final_loss(xp, z0))
    if stuck.ndim:
        return f"{int(stuck.sum())} of {stuck.size} networks end on a saddle (parity); losses up to {final.max():.6g}"
    if stuck:
        return (
            f"The flow ends on a saddle, at loss {final:.6g}: a balanced square network keeps the sign of det W2 W1, "
            "and the determinant of the target has the other sign"
        )
    return f"The flow ends at loss {final:.6g}"
