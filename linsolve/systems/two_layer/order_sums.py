"""Order parameters of many wide networks in one pass over their weights (W3 of ``benchmarks/RESULTS.md``)."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from linsolve.core.arguments import unknown_name
from linsolve.engines.plan import Tile, run_tiles, tiles
from linsolve.numerics.threads import workers
from linsolve.systems.two_layer.order_parameters import TwoLayerOrder
from linsolve.systems.two_layer.two_layer import TwoLayer

__all__ = ["order_parameters"]

_NUMBERS = {"blocks": 2**17, "compiled": 2**18}  # hidden units per block, to fit into the cache
_SHARE = {"blocks": 2**19, "compiled": 2**19}  # hidden units above which one more thread is worthwhile
_CACHED = 2**16  # hidden units of two layers that fit into the cache of one processor
_APART, _WIDE = 0.25, 256  # largest cosine of layers, and least width, for sums that may cancel, without p and q
_FAR = 2.0**900  # squares above it, or below its inverse, may have lost digits; 2^60 is a margin for the learning rates


def order_parameters(
    flow: TwoLayer, z: Any, *, engine: str = "blocks", threads: int | None = None
) -> tuple[TwoLayerOrder, Any]:
    r"""Return the order parameters of `TwoLayerOrder.of` from plain sums in one pass over the weights.

    .. math:: P = |p|^2, \quad Q = |q|^2, \quad R = p \cdot q, \qquad
        p, q = \tfrac12 (\sqrt{\eta_u}\, W x/\rho \pm \sqrt{\eta_w}\, u) .

    Parameters
    ----------
    flow : TwoLayer
    z : State
        NumPy arrays.
    engine : str
        "blocks" (NumPy, in blocks that fit the cache) or "compiled" (extra ``[fast]``: 32 partial sums).
    threads : int, optional
        By default one per processor, or fewer, so that each has about half a millisecond of work. The result does not
        depend on this number.

    Returns
    -------
    TwoLayerOrder, State
        The errors of P, Q and R are at most ``3 (n + d0 + 8) 2^-53`` times ``P``, ``Q`` and ``sqrt(P Q)``. Here `n` is
        the width, or ``width/32`` if compiled. Cancellation in ``W x`` and, with different learning rates or several
        inputs, in ``p`` or ``q`` of few units or nearly parallel layers adds to it
        (``tests/engines/test_fused.py``, ``test_fused_compiled.py``). `TwoLayerOrder.of` computes in double-double
        arithmetic.

    Raises
    ------
    ValueError, TypeError
        If the data point is 0, an input is invalid, or the sums overflow.
    ModuleNotFoundError
        If the engine is "compiled" and the extra is not installed.
    """
    if engine not in _NUMBERS:
        raise ValueError(unknown_name("order_parameters", "engine", engine, _NUMBERS))
    z, given = _shaped(flow, z), z
    flow = flow.cast(np)
    rho = np.sqrt(np.vecdot(flow.x, flow.x))
    if np.any(rho == 0):
        raise ValueError("order_parameters: x = 0 (data point) leaves p and q undefined; use TwoLayer")
    order = TwoLayerOrder.made(flow, rho)
    batch, width = np.broadcast_shapes(z.u.shape[:-1], z.w.shape[:-2], rho.shape), z.u.shape[-1]
    count = int(np.prod(batch))
    u = np.broadcast_to(z.u, (*batch, width)).reshape(count, width)
    w = np.broadcast_to(z.w, (*batch, *z.w.shape[-2:])).reshape(count, *z.w.shape[-2:])
    x = (flow.x / rho[..., None]) / 2
    x = np.broadcast_to(x * np.sqrt(flow.eta_u)[..., None], (*batch, x.shape[-1])).reshape(count, -1)
    scale = np.broadcast_to(np.sqrt(flow.eta_w) / 2, batch).reshape(count)
    found = np.empty((count, 3))

    def add_up(factors: Any, left: np.ndarray) -> None:
        """Write the sums of some of the networks, given the `factors` of both layers; without, those of ``w +- u``."""
        high, own = max(1, _NUMBERS[engine] // width), threads
        work = (_compiled if engine == "compiled" else _blocks)(u, w, factors, found, left, high)
        if own is None:
            own = max(1, min(workers(), left.size * width // _SHARE[engine]))
        if left.size:
            run_tiles(work, list(tiles((1, 1, left.size), high)), own)

    with np.errstate(over="ignore", invalid="ignore"):  # overflow raises an error below
        square, left = scale**2, np.arange(count)
        if x.shape[1] == 1 and ((x[:, 0] == scale) & (square < 2.0**60) & (square > 2.0**-60)).all():
            # a common factor is applied to the sums; layers that nearly cancel keep their digits
            add_up(None, left if engine == "compiled" else _by_dots(u, w, found))
            safe = ((found[:, :2] < _FAR) & (found[:, :2] > 1 / _FAR)).all(axis=1)
            found *= square[:, None]
            left = np.flatnonzero(~safe)
        add_up((x, scale), left)
    if not np.isfinite(found).all():
        flow.state(given)
        raise ValueError(f"order_parameters: P, Q, R = {found.max()} overflow (sums over hidden units); scale z down")
    return order, TwoLayerOrder.State(*(np.ascontiguousarray(v).reshape(batch) for v in found.T))


def _shaped(flow: TwoLayer, z: Any) -> Any:
    """Return a State of arrays; entries of large float64 arrays are checked through their sums only."""
    arrays = isinstance(z, TwoLayer.State) and all(isinstance(v, np.ndarray) and v.dtype == np.float64 for v in z)
    if arrays and z.u.ndim > 0 and z.w.ndim > 1 and z.u.size and z.w.size:
        return z
    return flow.state(z)


def _by_dots(u: np.ndarray, w: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Write the sums of ``w +- u`` by the sums of the layers; return the networks whose sums need those of both.

    ``|w + u|^2 = |u|^2 + |w|^2 + 2 u w``, three reads of the cache and no array. The sums of narrow networks, and of
    layers that are nearly parallel, would cancel.
    """
    count, width = u.shape
    if width < _WIDE:
        return np.arange(count)
    dots, high = np.empty((3, count)), max(1, _CACHED // width)
    for k in range(0, count, high):
        a, b = u[k : k + high], w[k : k + high, :, 0]
        for pair, out in zip(((a, a), (b, b), (a, b)), dots[:, k : k + high], strict=True):
            np.vecdot(*pair, out=out)
    both, apart = dots[0] + dots[1], 2 * dots[2]
    found[:, 0], found[:, 1], found[:, 2] = both + apart, both - apart, dots[1] - dots[0]
    return np.flatnonzero(~(np.abs(apart) <= _APART * both))


def _blocks(u: np.ndarray, w: np.ndarray, factors: Any, found: np.ndarray, left: np.ndarray, high: int) -> Any:
    """Return a function that computes the sums of some of the networks `left` with NumPy, in per-thread buffers."""
    held, width = threading.local(), u.shape[1]

    def one(tile: Tile) -> None:
        if not hasattr(held, "space"):
            held.space = np.empty((4, high, width))
        at = _chosen(left, tile, len(u))
        a, b = u[at], w[at, :, 0]
        p, q, *own = held.space[:, : len(a)]
        if factors is not None:
            x, scale = factors
            b = np.multiply(b, x[at], out=own[0]) if x.shape[1] == 1 else np.matvec(w[at], x[at], out=own[0])
            a = np.multiply(a, scale[at, None], out=own[1])
        np.subtract(b, a, out=q)
        np.add(b, a, out=p)
        for k, pair in enumerate(((p, p), (q, q), (p, q))):
            found[at, k] = np.vecdot(*pair)

    return one


def _chosen(left: np.ndarray, tile: Tile, count: int) -> Any:
    """Return the place of the networks `left` in a tile, as a slice if they are all."""
    return slice(tile.c0, tile.c1) if left.size == count else left[tile.c0 : tile.c1]


def _compiled(u: np.ndarray, w: np.ndarray, factors: Any, found: np.ndarray, left: np.ndarray, high: int) -> Any:
    """Return a function that computes the sums of some of the networks `left` in machine code."""
    from linsolve.systems.two_layer.sums_compiled import Sums

    sums, ones = Sums.ready(), np.ones(min(high, left.size))

    def one(tile: Tile) -> None:
        at = _chosen(left, tile, len(u))
        a, b, weigh, scale = u[at], w[at, :, 0], ones[: tile.c1 - tile.c0], ones[: tile.c1 - tile.c0]
        if factors is not None:
            x, scale = factors[0][at], np.ascontiguousarray(factors[1][at])
            if x.shape[1] == 1:
                weigh = np.ascontiguousarray(x[:, 0])
            else:
                b = np.matvec(w[at], x)
        out = np.empty((len(a), 3))
        sums(b, a, weigh, scale, out)
        found[at] = out

    return one
