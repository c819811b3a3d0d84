"""The matrix Riccati equation of two-layer linear networks, by five algorithms."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.numerics import one_matrix
from linsolve.numerics.cache import Memory
from linsolve.numerics.threads import one_blas_thread, shared
from linsolve.systems.whitened.balanced_start import balanced_start, may_be_balanced
from linsolve.systems.whitened.composed_steps import graded, relaxed, steps
from linsolve.systems.whitened.factorizations import RELIABLE
from linsolve.systems.whitened.flow_map import flow_map
from linsolve.systems.whitened.flow_map_start import prepared
from linsolve.systems.whitened.imbalance import Imbalance, imbalance, refuse_lost_spread
from linsolve.systems.whitened.riccati_traced import traced_riccati
from linsolve.systems.whitened.start_frame import Frame, Modes, eigenbasis, square_root, start_frame
from linsolve.systems.whitened.starts import TOLERANCE

__all__ = ["is_balanced_start", "is_large", "known_start", "matrix_riccati", "moved"]

# size from which BLAS uses several threads for one small product, which is slower by an order of magnitude
THREADED = 32
# products of rate and time are kept below LATE; for rates below SLOW they are at all times
LATE, SLOW = 1e290, 1e-18
# most digits of the formula in high precision, a few seconds; cancellation costs 0.87 digits per time constant
MOST_DIGITS = 50_000
# inputs and outputs of one network from which its target and its initial state are prepared on two threads
LARGE = 128
# number of initial states that are prepared together; parts are shared among threads
PART = 125


def matrix_riccati(
    xp: Any,
    t: Any,
    target: Any,
    product: Any,
    gram_in: Any,
    gram_out: Any,
    *,
    method: str | None = None,
    memory: Memory | None = None,
    layer_root: Any = None,
) -> tuple[Any, Any, Any]:
    r"""Return product and Gram matrices of a two-layer linear network on white inputs at times `t`.

    With ``P = [[X, Y^T], [Y, Z]]``, ``J = diag(-1, 1)``, initial states with ``P0 J P0 = total P0 + spread J`` obey

    .. math:: \dot P = \tilde F P + P \tilde F - P^2 + \hat\delta, \qquad
        \tilde F = \begin{pmatrix} -\lambda/2 & S^\top \\ S & \lambda/2 \end{pmatrix},

    where ``total`` is :math:`\lambda` and ``spread`` is :math:`\hat\delta`. The solution requires no inverse of
    :math:`\tilde F` and no rank condition. In the eigenbasis of :math:`\tilde F`, with eigenvalues f,

    .. math:: V^\top P V = \hat\delta\, n/c + c^{-1} q (1 + q^\top (n/c) q)^{-1} q^\top c^{-1}, \quad
        c = \cosh ht - (f/h) \sinh ht, \; n = \sinh(ht)/h, \; h^2 = f^2 + \hat\delta.

    Parameters
    ----------
    xp : namespace
    t : array, shape lead + (1,) * len(batch), or broadcastable to lead + batch
        Times, not negative, inf allowed, in units of the time constant.
    target : array, shape batch + (n_out, n_in)
        Map to be learned, ``S``.
    product, gram_in, gram_out : array
        Initial state, shape batch + own.
    method : {"plain", "flow_map", "compiled", "steps", "graded"}, optional
        "plain" evaluates the formula with as many guard digits as it loses (high precision only, where it is the
        default). "flow_map", the default in floats, applies one flow map from the initial state to all times and
        networks and computes the condition number of each. Ill-conditioned cases are passed to "steps", which composes
        flow maps by Cholesky factors from one time to the next, and singular cases to "graded". "compiled" is
        "flow_map" with compiled linear algebra, for small networks with ``spread = 0`` (NumPy, extra ``[fast]``; the
        others use "flow_map"). "graded" eliminates by rotations on logarithms, one time and network after another (in
        NumPy).
    memory : Memory, optional
        Cache of quantities that depend on the target only or on the initial state only.
    layer_root : ndarray, shape batch + (n, r), optional
        The square root ``(W1^T; W2)`` of the initial state (NumPy), with modes that the Gram matrices lose.

    Returns
    -------
    product, gram_in, gram_out : array, shape lead + batch + own
        At ``t = 0`` bitwise equal to the initial state.

    Raises
    ------
    ValueError
        If the method is "compiled" and the arrays are not NumPy arrays.
    ModuleNotFoundError
        If the method is "compiled" and the extra is not installed.

    Notes
    -----
    The initial state is replaced by the nearest state in the solvable class. The change is of the order of the rounding
    error of the initial state, or of its distance from the class if this is within the tolerance of `Flow.conditions`.
    Numerically zero entries of the root are set to zero; otherwise rounding errors would drive the solution away from a
    saddle that the exact flow never leaves. Accuracy:
    ``tests/systems/whitened/test_matrix_riccati.py``, and ``test_flow_map.py`` for the errors of the flow map.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.whitened.matrix_riccati import matrix_riccati
    >>> start = [0.01 * np.eye(2)] * 3  # w1 = w2 = 0.1 I
    >>> product, _, _ = matrix_riccati(np, np.array([0.0, 1.0]), np.diag([3.0, 1.0]), *start)
    >>> np.diagonal(product, axis1=1, axis2=2).round(4).tolist()  # s/(1 + (100 s - 1) exp(-2 s t))
    [[0.01, 0.01], [1.723, 0.0695]]
    """
    target, t = xp.asarray(target), xp.asarray(t)
    if arithmetic.is_jax(xp):
        return traced_riccati(xp, matrix_riccati, t, target, product, gram_in, gram_out)
    with _one_thread(xp, target.shape[-1] + target.shape[-2]):
        known = () if layer_root is None else (layer_root,)
        memory = memory or Memory()
        frame = _framed(xp, memory, target, product, gram_in, gram_out, *known)
        t = xp.broadcast_to(t, np.broadcast_shapes(tuple(t.shape), tuple(frame.rate.shape[:-1])))
        t = t if arithmetic.is_object(xp) else _bounded(xp, t, frame)
        found = moved(xp, t, frame, gram_in.shape[-1], method=method, memory=memory)
    still = t == 0
    if not arithmetic.to_numpy(still).any():
        return found
    batch = tuple(frame.rate.shape[:-1])
    rows = [xp.reshape(a, (-1, *batch, *a.shape[-2:])) for a in found]
    rows = _replaced(xp, rows, xp.reshape(still, (-1, *batch)), (product, gram_in, gram_out))
    y, x, z = (xp.reshape(a, tuple(t.shape) + tuple(a.shape[-2:])) for a in rows)
    return y, x, z


def _bounded(xp: Any, t: Any, frame: Frame) -> Any:
    """Return the times; inf replaces those whose product with the fastest rate overflows, as the limit is reached."""
    pace = xp.max(xp.hypot(frame.rate, xp.sqrt(frame.spread)[..., None]), axis=-1)
    fast = pace > SLOW
    last = LATE / xp.where(fast, pace, xp.ones_like(pace))
    return xp.where(fast & (t > last), xp.inf * xp.ones_like(t), t)


def _framed(xp: Any, memory: Memory, target: Any, *start: Any) -> Frame:
    """Return the frame of an initial state, `start` with its `layer_root` if known; large batches are done in parts."""
    batch = np.broadcast_shapes(*(tuple(a.shape[:-2]) for a in (target, *start)))
    members = int(np.prod(batch))
    if xp is not np or members <= PART:
        kind, root = begun = known_start(xp, memory, target, *start[:3])
        modes = _modes(xp, memory, target)
        total = xp.asarray(xp.broadcast_to(kind.total, batch))

        def found() -> Frame:
            basis = memory.recall("eigenbasis", lambda: eigenbasis(xp, modes, total), modes, total)
            return start_frame(xp, target, *start, modes=modes, kind=kind, basis=basis, root=root)

        return memory.recall("frame", found, modes, begun, *start[3:]) if xp is np else found()
    flat = [np.broadcast_to(a, (*batch, *a.shape[-2:])).reshape(members, *a.shape[-2:]) for a in (target, *start)]
    parts = shared(lambda i: start_frame(np, *(a[i : i + PART] for a in flat)), range(0, members, PART))
    width = max(part.q.shape[-1] for part in parts)

    def whole(name: str) -> np.ndarray:
        pieces = [getattr(part, name) for part in parts]
        if name in ("q", "root") and any(a.shape[-1] < width for a in pieces):  # unused columns come first
            pieces = [np.pad(a, ((0, 0), (0, 0), (width - a.shape[-1], 0))) for a in pieces]
        found = np.concatenate(pieces)
        return found.reshape(*batch, *found.shape[1:])

    return Frame(*(whole(name) for name in Frame._fields))


def known_start(
    xp: Any, memory: Memory, target: Any, product: Any, gram_in: Any, gram_out: Any
) -> tuple[Imbalance, Any]:
    """Return the imbalance of an initial state, computed once, and for one large network also its square root.

    Meanwhile another thread computes the modes of a new target of this network. A root is computed for states in the
    solvable class only, and is otherwise None.
    """
    given = product, gram_in, gram_out
    large = xp is np and is_large(target, *given)

    def found() -> tuple[Imbalance, Any]:
        kind = imbalance(xp, *given)
        refuse_lost_spread(xp, kind.spread, gram_in, gram_out)
        solvable = large and kind.distance <= TOLERANCE
        return kind, square_root(xp, *given, kind) if solvable else None

    def answer() -> tuple[Imbalance, Any]:
        balanced = _balanced(memory, *given) if large else None
        return memory.recall("start", found, *given) if balanced is None else balanced

    with _one_thread(xp, sum(product.shape[-2:])):
        return _beside_modes(memory, target, answer) if large else answer()


def is_balanced_start(memory: Memory, target: Any, product: Any, gram_in: Any, gram_out: Any) -> bool:
    """Return whether the initial state of one network, which `is_large`, has a root that shows it to be balanced.

    Imbalance and root are remembered for `known_start`. Meanwhile another thread computes the modes of a new target.
    States that cannot be remembered are not tried.
    """
    given = product, gram_in, gram_out
    if not (memory.keeps(*given) and may_be_balanced(*given)):
        return False
    with _one_thread(np, sum(product.shape)):
        return _beside_modes(memory, target, lambda: _balanced(memory, *given)) is not None


def _balanced(memory: Memory, *given: Any) -> tuple[Imbalance, Any] | None:
    return memory.recall("balanced", lambda: balanced_start(*given), *given)


def is_large(target: Any, *start: Any) -> bool:
    """Return whether a target and a start are those of one large network."""
    return sum(target.shape[-2:]) >= LARGE and all(a.ndim == 2 for a in (target, *start))


def _beside_modes(memory: Memory, target: Any, work: Callable[[], Any]) -> Any:
    """Return ``work()``; meanwhile another thread computes the modes of a new target."""
    if memory.knows("modes", target) or not memory.keeps(target):
        return work()
    return shared(lambda part: part(), (lambda: _modes(np, memory, target), work))[1]


def _modes(xp: Any, memory: Memory, target: Any) -> Modes:
    return memory.recall("modes", lambda: Modes.of(xp, target), target)


def moved(
    xp: Any, t: Any, frame: Frame, n_in: int, *, method: str | None = None, memory: Memory | None = None
) -> tuple[Any, Any, Any]:
    """Return product and Gram matrices at times `t`, shape lead + batch, from an initial state in its frame.

    At ``t = 0`` the result is undefined; the caller uses the initial state there. Quantities of a frame that do not
    depend on time are remembered with it in `memory`.
    """
    chosen = method or ("plain" if arithmetic.is_object(xp) else "flow_map")
    compiled = chosen == "compiled"
    if compiled:
        _refuse_uncompiled(xp)
    elif chosen != "flow_map":
        return _cut(xp, _whole(xp, t, frame, chosen), n_in)
    batch, full = tuple(frame.rate.shape[:-1]), tuple(t.shape)
    flat = Frame(*(xp.reshape(a, (-1, *a.shape[len(batch) :])) for a in frame))

    def kept(question: str, answer: Callable[[], Any]) -> Any:
        return answer() if memory is None else memory.recall(question, answer, frame)

    found = _mapped(xp, xp.reshape(t, (-1, flat.rate.shape[0])), flat, n_in, kept, compiled)
    y, x, z = (xp.reshape(a, full + tuple(a.shape[-2:])) for a in found)
    return y, x, z


def _refuse_uncompiled(xp: Any) -> None:
    from importlib.util import find_spec

    if xp is not np:
        raise ValueError(
            f"matrix_riccati: method = 'compiled' must be 'flow_map' for arrays of {xp.__name__} (compiled code is "
            "for NumPy); leave the method out"
        )
    if find_spec("llvmlite") is None:
        raise ModuleNotFoundError(
            "matrix_riccati: method = 'compiled' needs llvmlite (compiler); pip install "
            '".[fast]" in the clone, or leave the method out'
        )


def _mapped(
    xp: Any, t: Any, frame: Frame, n_in: int, kept: Callable[[str, Callable[[], Any]], Any], compiled: bool
) -> list[Any]:
    """Return product and Gram matrices at times `t`, shape (times, members), ill-conditioned ones by steps.

    ``kept(question, answer)`` returns ``answer()``, or what is remembered of this frame under the name `question`.
    """
    numbers = arithmetic.to_numpy(t)
    inside = np.isfinite(numbers) & (numbers != 0)
    usual = xp.where((t > 0) & (t < xp.inf), t, xp.ones_like(t))
    if inside.any():
        start = kept("prepared", lambda: prepared(xp, frame, n_in))
        *found, excess = flow_map(xp, usual, start, compiled=compiled)
        poor = inside & ~(arithmetic.to_numpy(excess) <= RELIABLE)
        if poor.any():
            found = _by_steps(xp, found, poor, usual, frame, n_in)
    else:
        n = frame.rate.shape[-1]
        sizes = (n - n_in, n_in), (n_in, n_in), (n - n_in, n - n_in)
        found = [xp.zeros((*t.shape, *own), dtype=xp.float64) for own in sizes]
    if np.isinf(numbers).any():
        end = kept("relaxed", lambda: relaxed(xp, frame))
        found = _replaced(xp, found, t == xp.inf, _cut(xp, end, n_in))
    return found


def _by_steps(xp: Any, found: list[Any], poor: np.ndarray, t: Any, frame: Frame, n_in: int) -> list[Any]:
    """Return `found`, with the times and members of the mask `poor` recomputed by steps."""
    rows, members = np.flatnonzero(poor.any(axis=1)), np.flatnonzero(poor.any(axis=0))
    chosen = xp.asarray(members)
    part = Frame(*(xp.take(a, chosen, axis=0) for a in frame))
    t = xp.take(xp.take(t, xp.asarray(rows), axis=0), chosen, axis=1)
    place = np.zeros(poor.shape[1], dtype=np.int64)
    place[members] = np.arange(len(members))
    right = [xp.take(a, xp.asarray(place), axis=1) for a in _cut(xp, _stepped(xp, t, part), n_in)]
    for k, i in enumerate(rows):
        only = np.zeros_like(poor)
        only[i] = poor[i]
        found = _replaced(xp, found, xp.asarray(only), [a[k, ...] for a in right])
    return found


def _replaced(xp: Any, found: list[Any], mask: Any, values: Any) -> list[Any]:
    """Return matrices with `values` where the mask, shape (times, members), holds; NumPy arrays in place."""
    numbers = arithmetic.to_numpy(mask)
    rows = np.flatnonzero(numbers.reshape(numbers.shape[0], -1).any(axis=1)).tolist()
    if xp is np:
        for whole, value in zip(found, values, strict=True):
            for i in rows:
                whole[i] = np.where(mask[i][..., None, None], value, whole[i])
        return found
    return [xp.where(mask[..., None, None], value, whole) for whole, value in zip(found, values, strict=True)]


def _cut(xp: Any, whole: Any, n_in: int) -> tuple[Any, Any, Any]:
    x, y, z = whole[..., :n_in, :n_in], whole[..., n_in:, :n_in], whole[..., n_in:, n_in:]
    return y, (x + xp.matrix_transpose(x)) / 2, (z + xp.matrix_transpose(z)) / 2


def _whole(xp: Any, t: Any, frame: Frame, method: str) -> Any:
    numbers, forever = arithmetic.to_numpy(t), t == xp.inf
    usual = xp.where(forever, xp.zeros_like(t), t)
    if (np.isfinite(numbers) & (numbers != 0)).any():
        whole = {"plain": _plain, "graded": graded, "steps": _stepped}[method](xp, usual, frame)
    else:
        whole = xp.zeros((*t.shape, frame.rate.shape[-1], frame.rate.shape[-1]), dtype=xp.float64)
    if np.isinf(numbers).any():
        whole = xp.where(forever[..., None, None], relaxed(xp, frame), whole)
    return whole


def _stepped(xp: Any, t: Any, frame: Frame) -> Any:
    """Return ``P`` by steps; where a step has a numerically singular bracket, by graded elimination."""
    found = steps(xp, t, frame)
    lost = ~np.isfinite(arithmetic.to_numpy(found)).all(axis=(-2, -1))
    if not lost.any():
        return found
    own, times = Frame(*(arithmetic.to_numpy(a) for a in frame)), arithmetic.to_numpy(t)
    right = arithmetic.to_numpy(found).copy()
    for index in zip(*np.nonzero(lost), strict=True):
        member = index[len(index) - own.spread.ndim :]
        right[index] = graded(np, times[index], Frame(*(a[member] for a in own)))
    return xp.asarray(right)


def _one_thread(xp: Any, n: int) -> Any:
    if xp is not np or n < THREADED:
        return nullcontext()
    if n >= one_matrix.LEAST:
        one_matrix.load()  # within the limit, its BLAS would have all threads
    return one_blas_thread


def _plain(xp: Any, t: Any, frame: Frame) -> Any:
    """Return ``P`` by the formula, evaluated with additional digits for its condition at each time."""
    batch = tuple(frame.rate.shape[:-1])
    flat = xp.reshape(t, (-1, *batch))
    found = xp.stack([_formula(xp, flat[i], frame) for i in range(flat.shape[0])])
    return xp.reshape(found, tuple(t.shape) + tuple(found.shape[-2:]))


def _formula(xp: Any, t: Any, frame: Frame) -> Any:
    growth = arithmetic.to_numpy(xp.max(t[..., None] * (xp.abs(frame.rate) + xp.sqrt(frame.spread)[..., None])))
    size = arithmetic.to_numpy(xp.max(xp.abs(frame.q)))
    lost = 0.87 * float(growth) + 2 * abs(np.log10(max(float(size), 1e-300)))
    if not lost <= MOST_DIGITS:
        raise ValueError(
            f"linsolve: t = {float(growth):.3g} time constants of the fastest mode needs {lost:.2g} digits (time; "
            f"exponentials cancel in the closed form), above {MOST_DIGITS}; give the start in doubles, or say t = inf"
        )
    more = arithmetic.precise(xp.dps + 10 + int(lost))
    t, rate, q, spread = (more.asarray(a) for a in (t, frame.rate, frame.q, frame.spread))
    t, spread = t[..., None], spread[..., None]
    h = more.sqrt(rate * rate + spread)
    up = more.exp(h * t)
    ratio = rate / more.where(h == 0, more.ones_like(h), h)
    c = (up * (1 - ratio) + (1 + ratio) / up) / 2
    n = more.where(h == 0, t + 0 * h, more.sinh(h * t) / more.where(h == 0, more.ones_like(h), h))
    weight = (n / c)[..., None]
    qt = more.matrix_transpose(q)
    inner = more.eye(q.shape[-1]) + qt @ (weight * q)
    scaled = q / c[..., None]
    body = scaled @ more.linalg.solve(inner, more.matrix_transpose(scaled))
    identity = more.eye(rate.shape[-1])
    basis = more.asarray(frame.basis)
    return xp.asarray(basis @ (body + spread[..., None] * weight * identity) @ more.matrix_transpose(basis))
