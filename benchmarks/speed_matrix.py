"""Time of `WhitenedTwoLayer` against its matrix products, an integrator and the published formula, in one run.

Every row is a ratio of medians of interleaved, warm calls; at one time the slowest of four. The floor of many times is
the same number of matrix products and Cholesky factorizations of the same sizes, in blocks that stay in cache, with
results written to existing memory; that of one time has products and factorizations alone. BLAS runs on one thread; our
evaluation and the floor distribute their blocks over all cores. Times are wall times: measure on an idle machine.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable
from functools import cache, partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from benchmarks.accuracy_whitened import difference
from benchmarks.timing import one_thread
from linsolve import WhitenedTwoLayer, arithmetic
from linsolve.numerics.one_matrix import cholesky, inverted_triangle, qr
from linsolve.numerics.threads import processors, shared
from linsolve.systems.whitened import matrix_riccati as riccati
from linsolve.systems.whitened.buffers import ROOT, Buffers
from linsolve.systems.whitened.flow_map import NOTHING, far
from linsolve.systems.whitened.flow_map_start import prepared
from linsolve.systems.whitened.matrix_riccati import matrix_riccati
from linsolve.systems.whitened.start_frame import Frame, start_frame

ONE, MANY = (100, 200, 100), ((10, 10, 10), (10, 20, 10))
TIMES = np.linspace(0.0, 20.0, 200)
SINGLE = (0.1, 5.0, 20.0, 400.0)
MEMBERS, ROUNDS = 1000, 3
# slow peers run this many members or times; their time is scaled up
SAMPLE, FEW = 10, 4
# indices of the times at which errors of many networks are measured
SHOWN = [1, 10, 60, 199]
LIMIT = 3e-3  # target seconds of one time of one network


class Row(NamedTuple):
    """Workload and other tool, seconds of each, their ratio (ours over the other), our error, remark on the other."""

    name: str
    ours: float
    other: float
    ratio: float
    error: float
    remark: str = ""


def networks(shape: tuple[int, int, int], batch: tuple[int, ...], seed: int = 0) -> tuple[np.ndarray, Any, Any]:
    """Return targets with singular values of order one, small balanced weights, and their state."""
    rng = np.random.default_rng(seed)
    w1, w2 = WhitenedTwoLayer.init(*shape, scale=0.1, batch=batch, rng=rng)
    target = rng.normal(size=(*batch, shape[2], shape[0])) / np.sqrt(shape[0])
    return target, (w1, w2), WhitenedTwoLayer.of(w1, w2)


class Peer(NamedTuple):
    """Another tool in a separate process: workload, label, calls that return its seconds and its error, remark."""

    workload: str
    who: str
    run: Callable[[], float]
    error: Callable[[], float]
    remark: str = ""


def medians(*calls: Callable[[], Any], rounds: int = ROUNDS) -> list[float]:
    """Return the median seconds of each call, interleaved; the first round is a warm-up and is not counted.

    A call that returns a float returns its own seconds.
    """
    spent: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds + 1):
        for call, times in zip(calls, spent, strict=True):
            start = time.perf_counter()
            told = call()
            spent_now = time.perf_counter() - start
            times.append(told if isinstance(told, float) else spent_now)
            del told  # release the result outside the timed region
    return [float(np.median(times[1:])) for times in spent]


def products(shape: tuple[int, int, int], count: int) -> Callable[[], None]:
    """Return a call with the matrix products and Cholesky factorizations of `count` balanced states, in NumPy.

    Pairs of vectors of the basis differ in a sign, so that its products have half of the rows.
    """
    n_in, _, n_out = shape
    n, r = n_in + n_out, min(shape)
    half = n - min(n_in, n_out)
    some = max(1, 2**17 // (n * r))
    targets = 1 if count <= len(TIMES) else some

    def part(times: int) -> Callable[[], None]:
        rng = np.random.default_rng(0)
        q = rng.normal(size=(some, r, n))
        maps = [rng.normal(size=(targets, half, size)) for size in (n_in, n_out)]
        bracket, turned = np.empty((some, r, r)), np.empty((some, r, n))
        top, bottom = np.empty((some, r, n_in)), np.empty((some, r, n_out))
        sizes = ((n_out, n_in), (n_in, n_in), (n_out, n_out))
        out = [np.zeros((some, *size)) for size in sizes]

        def call() -> None:
            for _ in range(times):
                np.matmul(q, np.swapaxes(q, -1, -2), out=bracket)
                np.matmul(np.linalg.cholesky(bracket), q, out=turned)
                for a, b in zip(maps, (top, bottom), strict=True):
                    np.matmul(turned[..., :half], a, out=b)
                for whole, (a, b) in zip(out, ((bottom, top), (top, top), (bottom, bottom)), strict=True):
                    np.matmul(np.swapaxes(a, -1, -2), b, out=whole)

        return call

    times = -(-count // some)
    each = [part(len(k)) for k in np.array_split(np.arange(times), min(times, processors()))]
    return lambda: shared(lambda call: call(), each) and None


def integrated(target: np.ndarray, start: Any, times: np.ndarray, rtol: float = 1e-8) -> np.ndarray:
    """Return the products of one network by DOP853 on product and Gram matrices, which costs less than on weights."""
    from scipy.integrate import solve_ivp

    n_out, n_in = target.shape
    ends = n_out * n_in, n_out * n_in + n_in * n_in

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        p, x, z = y[: ends[0]].reshape(target.shape), y[ends[0] : ends[1]].reshape(n_in, n_in), y[ends[1] :]
        e = target - p
        forth, back = e.T @ p, e @ p.T
        dp = z.reshape(n_out, n_out) @ e + e @ x
        return np.concatenate([dp.ravel(), (forth + forth.T).ravel(), (back + back.T).ravel()])

    y0 = np.concatenate([v.ravel() for v in start])
    found = solve_ivp(rate, (0.0, times[-1]), y0, "DOP853", times, rtol=rtol, atol=1e-10)
    return found.y.T[:, : ends[0]].reshape(-1, n_out, n_in)


def textbook(target: np.ndarray, weights: Any, times: np.ndarray) -> np.ndarray:
    """Return products by the published formula (Braun et al. 2022, Theorem 3.1), with `scipy.linalg.expm`."""
    from scipy.linalg import expm

    w1, w2 = weights
    n_out, n_in = target.shape
    q = np.concatenate([w1.T, w2])
    f = np.block([[np.zeros((n_in, n_in)), target.T], [target, np.zeros((n_out, n_out))]])
    inverse, found = np.linalg.inv(f), []
    for t in times:
        e = expm(f * t)
        grown = e @ q
        inner = np.eye(q.shape[1]) + q.T @ (e @ inverse @ e - inverse) @ q / 2
        found.append((grown @ np.linalg.solve(inner, grown.T))[n_in:, :n_in])
    return np.stack(found)


def exact(target: np.ndarray, start: Any, t: float, bits: int = 400) -> list[np.ndarray]:
    """Return the state of one balanced network by the published formula in 400-bit ball arithmetic (python-flint)."""
    from flint import arb, arb_mat, ctx

    product, gram_in, gram_out = start
    n_out, n_in = product.shape
    p0 = np.block([[gram_in, product.T], [product, gram_out]])
    f0 = np.block([[np.zeros((n_in, n_in)), target.T], [target, np.zeros((n_out, n_out))]])
    before, ctx.prec = ctx.prec, bits
    try:
        f, p = arb_mat(f0.tolist()), arb_mat(p0.tolist())
        e, one = (f * arb(t)).exp(), arb_mat(np.eye(len(f0)).tolist())
        grown = f.solve(e * e - one) * arb(0.5)
        whole = e * p * (one + grown * p).inv() * e
        found = np.asarray([[float(whole[i, j].mid()) for j in range(len(f0))] for i in range(len(f0))])
    finally:
        ctx.prec = before
    return [found[n_in:, :n_in], found[:n_in, :n_in], found[n_in:, n_in:]]


def one_network() -> list[Row]:
    """Return the rows of one network of 100-200-100, at 200 times and at one time."""
    target, weights, start = networks(ONE, ())

    def ours() -> Any:
        return matrix_riccati(np, TIMES, target, *start)

    floor, few = products(ONE, len(TIMES)), TIMES[:: len(TIMES) // FEW]
    spent = medians(ours, floor, lambda: integrated(target, start, TIMES), lambda: textbook(target, weights, few))
    own, needed, dop853, printed = spent[0], spent[1], spent[2], spent[3] * len(TIMES) / len(few)
    known = {t: exact(target, start, t) for t in SINGLE[:-1]}
    found = [np.stack(v) for v in zip(*(matrix_riccati(np, t, target, *start) for t in known), strict=True)]
    error = float(difference(found, [np.stack(v) for v in zip(*known.values(), strict=True)]).max())
    wrong = error_of(textbook(target, weights, TIMES[-1:]), ours()[0][-1:])
    loose = error_of(integrated(target, start, TIMES), ours()[0])
    name = "one network " + "-".join(map(str, ONE))
    rows = [
        Row(f"{name}, 200 times, and the products they need", own, needed, own / needed, error),
        Row(f"{name}, 200 times, and DOP853 at 1e-8 (off by {loose:.0e})", own, dop853, own / dop853, error),
        Row(
            f"{name}, 200 times, and the formula of Braun et al. (2022), Theorem 3.1 (off by {wrong:.0e})",
            own,
            printed,
            own / printed,
            error,
            f"{len(few)} times, scaled; literally in doubles: the error is rounding, not the formula",
        ),
    ]
    offs = []
    for t in SINGLE:  # the last time is out of range of the published formula; its reference is graded elimination
        found = [v[None] for v in matrix_riccati(np, t, target, *start)]
        right = known[t] if t in known else matrix_riccati(np, t, target, *start, method="graded")
        offs.append(float(difference(found, [v[None] for v in right])[0]))
    return [*rows, *single_times(name, target, start, max(offs))]


def single_times(name: str, target: np.ndarray, start: Any, error: float) -> list[Row]:
    """Return the time of one evaluation with all checks, the slowest of several: new flow, new start, further time.

    Beside it are its products and factorizations alone, and the same steps for a network of two units, whose products
    take no time.
    """
    rows, small = [], questions((2, 2, 2))
    for what, ask in questions(ONE).items():
        calls = [operations(target, start, what, t) for t in SINGLE]
        taken = medians(
            *(partial(ask, t) for t in SINGLE), *calls, partial(as_large, small[what], 5.0), rounds=5 * ROUNDS
        )
        slowest = int(np.argmax(taken[: len(SINGLE)]))
        own, label = taken[slowest], f"{name}, one time, {what}, and"
        others = {
            "the limit: 3 ms": LIMIT,
            "matrix operations alone": taken[len(SINGLE) + slowest],
            "the same steps for a 2-2-2 network": taken[-1],
        }
        rows += [Row(f"{label} {other}", own, alone, own / alone, error) for other, alone in others.items()]
    return rows


def as_large(ask: Callable[[float], Any], t: float) -> None:
    """Ask for one time by the steps for large networks; no other thread may ask meanwhile."""
    usual, riccati.LARGE = riccati.LARGE, 0
    try:
        ask(t)
    finally:
        riccati.LARGE = usual


def questions(shape: tuple[int, int, int]) -> dict[str, Callable[[float], Any]]:
    """Return calls of a flow at one time, for a network of this shape."""
    target, _, start = networks(shape, ())
    flow, others = WhitenedTwoLayer(target), itertools.cycle([networks(shape, (), seed)[2] for seed in (1, 2)])
    return {
        "a new flow": lambda t: WhitenedTwoLayer(target)(t, start),
        "a new start": lambda t: flow(t, next(others)),
        "a further time": lambda t: flow(t, start),
    }


def operations(target: np.ndarray, start: Any, what: str, t: float) -> Callable[[], None]:
    """Return a call with the products and factorizations of one time, and those of its balanced start if it is new.

    Those of the start are done while another thread decomposes the target of a new flow. The numbers are those at this
    time, without entries so small that their products underflow, at which many processors are slower.
    """
    product, gram_in, _ = start
    n_in, buffers, frame = len(gram_in), Buffers(np), start_frame(np, target, *start)
    begun = prepared(np, Frame(*(a[None] for a in frame)), n_in)
    scaled, pull, column = (a[0, 0] for a in far(np, np.array([[t]]), begun, buffers))
    r = len(scaled)
    square = np.random.default_rng(0).normal(size=(r, n_in))  # not yet triangular
    maps, diagonal = (begun.inputs[0], begun.outputs[0]), np.diag(column * column)
    bracket = buffers.normal(scaled @ scaled.T + diagonal, ROOT)
    inverse = buffers.normal(inverted_triangle(cholesky(bracket)), ROOT)
    q = buffers.normal(inverse @ scaled * pull, NOTHING)[:, : len(maps[0])].copy()

    def of_start() -> None:
        lower = cholesky(gram_in)
        other = product @ inverted_triangle(lower).T
        lower.T @ lower, other.T @ other, other @ other.T

    begin = (lambda: np.linalg.svd(target), of_start) if what == "a new flow" else (of_start,)

    def call() -> None:
        if what != "a further time":
            shared(lambda part: part(), begin)
            maps[0] @ frame.root[:n_in], maps[1] @ frame.root[n_in:]
            turn, upper = qr(square)
            frame.q[n_in:] @ turn, frame.root @ turn, inverted_triangle(upper.T)
        scaled @ scaled.T + diagonal, inverted_triangle(cholesky(bracket)), inverse @ scaled
        top, bottom = q @ maps[0], q @ maps[1]
        bottom.T @ top, top.T @ top, bottom.T @ bottom

    return call


def error_of(found: np.ndarray, right: np.ndarray) -> float:
    """Return the largest difference, relative to the largest entry at each time."""
    size = np.abs(right).max(axis=(-2, -1), keepdims=True)
    return float((np.abs(found - right) / size).max())


@cache
def some_exact(shape: tuple[int, int, int]) -> list[list[np.ndarray]]:
    """Return states of the first few of many networks at the times `SHOWN`, to 50 digits."""
    target, _, start = networks(shape, (MEMBERS,))
    xp, t = arithmetic.precise(50), TIMES[SHOWN]
    given = [[xp.asarray(v[k]) for v in (target, *start)] for k in range(3)]
    return [[arithmetic.to_numpy(v) for v in matrix_riccati(xp, xp.asarray(t), *each)] for each in given]


def many_error(shape: tuple[int, int, int], found: Any) -> float:
    """Return the largest error of sampled states of many networks, of shape (times, networks) + state axes."""
    right = enumerate(some_exact(shape))
    return max(float(difference([v[SHOWN, k] for v in found], state).max()) for k, state in right)


def many_networks(shape: tuple[int, int, int], peers: Iterable[Peer] = (), members: int = MEMBERS) -> list[Row]:
    """Return the rows of 1000 small networks at 200 times, also compiled if the extra is installed."""
    target, _, start = networks(shape, (members,))
    name = f"{members} networks {'-'.join(map(str, shape))}, 200 times"
    beside = [peer for peer in peers if peer.workload == f"W5, {name}"]
    few = min(SAMPLE, members)

    def loop() -> None:
        for k in range(few):
            integrated(target[k], [v[k] for v in start], TIMES)

    ways: dict[str, Any] = {"": None} | ({", compiled": "compiled"} if find_spec("llvmlite") else {})
    floor = products(shape, members * len(TIMES))
    calls = [partial(matrix_riccati, np, TIMES[:, None], target, *start, method=way) for way in ways.values()]
    spent = medians(*calls, floor, loop, *(peer.run for peer in beside))
    needed, looped = spent[len(ways)], spent[len(ways) + 1] * members / few
    taken = spent[len(ways) + 2 :]
    others = [
        ("the products they need", needed, ""),
        ("a loop of DOP853 at 1e-8", looped, f"{few} networks one after another, scaled"),
        *((f"{p.who} (off by {p.error():.0e})", other, p.remark) for p, other in zip(beside, taken, strict=True)),
    ]
    rows = []
    for (how, way), own in zip(ways.items(), spent, strict=False):
        error = many_error(shape, matrix_riccati(np, TIMES[:, None], target, *start, method=way))
        rows += [Row(f"{name}{how}, and {who}", own, other, own / other, error, said) for who, other, said in others]
    return rows


def rows(peers: Iterable[Peer] = ()) -> list[Row]:
    """Return all rows: labels, our seconds, those of the other, their ratio, and our error against high precision."""
    peers = tuple(peers)
    with one_thread():
        return one_network() + [row for shape in MANY for row in many_networks(shape, peers)]


if __name__ == "__main__":
    for row in rows():
        print(f"{row.name:95s} {1e3 * row.ours:9.1f} ms {1e3 * row.other:9.1f} ms {row.ratio:8.3f} {row.error:.1e}")
