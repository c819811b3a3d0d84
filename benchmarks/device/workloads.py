"""Workloads of the device benchmark: ensembles evaluated in blocks, identical on a GPU and on the processor.

A workload creates its inputs on the measured machine, evaluates them in blocks, and returns sampled members, which are
then evaluated to fifty digits and on the processor.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.device.machine import Following, Machine, Measured, Sample, engine
from linsolve import arithmetic
from linsolve.engines.cuda import Given
from linsolve.engines.cuda_source import gram
from linsolve.ensembles.cuda_reduce import LANES, Reduction
from linsolve.systems.mode.balanced_mode import BalancedMode
from linsolve.systems.mode.deep_mode import DeepMode
from linsolve.systems.random_networks.sampling import layer_by_layer
from linsolve.systems.two_layer.order_parameters import TwoLayerOrder
from linsolve.systems.whitened.whitened_two_layer import WhitenedTwoLayer

__all__ = ["WORKLOADS", "Workload"]

TIMES = np.geomspace(1e-2, 1e2, 64)
WIDTH = 1000  # width of the networks given by their weights
SIDE = 10  # inputs, hidden units and outputs of the networks of matrices
MATRIX_TIMES = np.linspace(0.0, 20.0, 64)
FEW = 2, 3  # networks of matrices and times evaluated to fifty digits
KEPT = ("mean", "variance")
ORDER = ("y", "gamma", "eta_u", "eta_w", "rho")  # parameters of `TwoLayerOrder`


def _spread(xp: Any, count: int, low: float, high: float, stride: int) -> Any:
    """Return shuffled, equally spaced values between `low` and `high`, identical on every machine."""
    place = (xp.arange(count, dtype=xp.float64) * stride) % count
    return low + (high - low) * (place + xp.full((1,), 0.5)) / count


def _modes(machine: Machine, members: int) -> dict[str, Given]:
    xp = machine.xp
    values = {"s": (0.5, 3.0, 1), "tau": (0.5, 2.0, 7919), "start.a": (1e-3, 0.1, 104729)}
    return {name: Given("member", _spread(xp, members, *value)) for name, value in values.items()}


def _all(machine: Machine, following: Following, members: int, block: int) -> float:
    """Return the seconds of evaluating all members in blocks, whose outputs share their memory."""
    made: dict[int, list[Any]] = {}

    def work(first: int, last: int) -> None:
        if last - first not in made:
            made.clear()
            shape = len(following.t), last - first
            made[last - first] = [machine.xp.empty(shape) for _ in following.names]
        following(first, last, made[last - first])

    block = machine.blocks(work, min(block, members), block)  # compiles, touches the memory, finds the block size
    return machine.seconds(lambda: machine.blocks(work, members, block))


def balanced_modes(machine: Machine, scale: float) -> Measured:
    """Evaluate 10^8 balanced modes at 64 times; every state is written."""
    members = max(64, int(1e8 * scale))
    following = Following(machine, BalancedMode, ("a",), _modes(machine, members), TIMES)
    seconds = _all(machine, following, members, 1 << 22)
    outputs = members * len(TIMES)
    return Measured(seconds, outputs, 8 * (outputs + 3 * members), following.sample(members))


def mean_of_modes(machine: Machine, scale: float) -> Measured:
    """Evaluate mean and variance of the same modes at each time; the ensemble is not written."""
    members = max(64, int(1e8 * scale))
    inputs, outputs = _modes(machine, members), members * len(TIMES)
    kept: dict[Any, Any] = {}
    if machine.is_device:

        def gather() -> None:
            gathering = Reduction(machine.xp, BalancedMode, ("a",), TIMES)
            gathering.absorb(inputs, 0, members)
            kept.update(gathering.results())

    else:
        from linsolve.ensembles.reduce_members import reduce

        flow, start = Following(machine, BalancedMode, ("a",), inputs, TIMES).members(np.arange(members))

        def gather() -> None:
            kept["a", "mean"] = reduce(flow, TIMES, start, "a", KEPT, engine=engine())["a"]["mean"]

    gather()  # compiles
    seconds, mean = machine.seconds(gather), kept["a", "mean"]
    note = f"mean at the last time {mean[-1]:.15g}, lanes {LANES}"
    return Measured(seconds, outputs, 8 * 3 * members, None, note)


def wide_networks(machine: Machine, scale: float) -> Measured:
    """Read the weights of 10^6 networks of width 1000, drawn block by block, and evaluate each at 64 times."""
    members, xp, rng = max(4, int(1e6 * scale)), machine.xp, machine.generator(0)
    names, ones = ("loss", "alignment", "ntk"), {name: Given("scalar", np.float64(1.0)) for name in ORDER}
    seconds: list[float] = []
    made: dict[str, Following] = {}

    def follow(h: Any, u: Any, outs: list[Any]) -> None:
        P, Q, R = gram(xp, h, u, 0.5, 0.5)
        start = {f"start.{name}": Given("member", v) for name, v in (("P", P), ("Q", Q), ("R", R))}
        made["last"] = Following(machine, TwoLayerOrder, names, ones | start, TIMES)
        made["last"](0, len(h), outs)

    def work(first: int, last: int) -> None:
        h, u = (rng.standard_normal((last - first, WIDTH)) / math.sqrt(WIDTH) for _ in range(2))
        outs = [xp.empty((len(TIMES), last - first)) for _ in names]
        if not seconds:
            follow(h, u, outs)  # compiles
        seconds.append(machine.seconds(lambda: follow(h, u, outs)))

    machine.blocks(work, members, min(members, 1 << 17))
    outputs = 3 * len(TIMES) * members
    last = made["last"]
    sample = last.sample(int(last.inputs["start.P"].values.size))
    return Measured(sum(seconds), outputs, 8 * (2 * WIDTH * members + outputs), sample)


def deep_modes(machine: Machine, scale: float) -> Measured:
    """Evaluate 10^7 modes of each depth 3, 4, 5 and inf at 64 times."""
    members, seconds, sample = max(64, int(1e7 * scale)), 0.0, None
    for depth in (3.0, 4.0, 5.0, math.inf):
        inputs = _modes(machine, members) | {"depth": Given("scalar", np.float64(depth))}
        following = Following(machine, DeepMode, ("a",), inputs, TIMES)
        seconds += _all(machine, following, members, 1 << 21)
        sample = sample or following.sample(members)
    outputs = 4 * members * len(TIMES)
    return Measured(seconds, outputs, 8 * (outputs + 4 * 3 * members), sample)


def _matrices(rng: Any, count: int) -> tuple[Any, Any]:
    """Return networks on white inputs with generic targets and small balanced weights; ``W2`` is ``W1^T`` reflected."""
    target, w = (rng.standard_normal((count, SIDE, SIDE)) / math.sqrt(SIDE) for _ in range(2))
    xp, v = arithmetic.namespace(w), rng.standard_normal((count, SIDE, 1))
    v = v / xp.sqrt(xp.sum(v * v, axis=(-2, -1), keepdims=True))
    turned = xp.matrix_transpose(0.3 * w)
    return WhitenedTwoLayer(target), WhitenedTwoLayer.of(0.3 * w, turned - 2 * v @ (xp.matrix_transpose(v) @ turned))


def matrix_flows(machine: Machine, scale: float) -> Measured:
    """Evaluate 10^5 networks of 10-10-10 at 64 times by flow maps; product and Gram matrices are written."""
    members, rng, clock = max(FEW[0], int(1e5 * scale)), machine.generator(2), machine.xp.asarray(MATRIX_TIMES)
    how = "plain" if machine.is_device or engine() != "compiled" else "compiled"
    seconds: list[float] = []
    made: dict[str, Any] = {}

    def follow(flow: Any, start: Any) -> None:
        made["last"] = flow, start, flow(clock, start, engine=how).state

    def work(first: int, last: int) -> None:
        if not seconds:
            follow(*_matrices(rng, last - first))  # compiles
        made.clear()  # release the previous results
        given = _matrices(rng, last - first)
        seconds.append(machine.seconds(lambda: follow(*given)))

    machine.blocks(work, members, min(members, 1 << 12))
    outputs = 3 * SIDE**2 * len(clock) * members
    bytes_moved = 8 * (outputs + 4 * SIDE**2 * members)
    return Measured(sum(seconds), outputs, bytes_moved, _few_matrices(*made["last"]))


def _few_matrices(flow: Any, start: Any, state: Any) -> Sample:
    """Return sampled networks at sampled times, with the results."""
    xp = arithmetic.namespace(*start)
    which, times = (
        np.unique(np.linspace(low, count - 1, few).astype(np.int64))
        for low, count, few in ((0, len(start.product), FEW[0]), (1, len(MATRIX_TIMES), FEW[1]))
    )

    def some(values: Any) -> np.ndarray:
        return arithmetic.to_numpy(xp.take(values, xp.asarray(which), axis=-3))

    found = {name: some(v)[times] for name, v in state._asdict().items()}
    few = WhitenedTwoLayer(some(flow.target)), WhitenedTwoLayer.State(*map(some, start))
    return Sample(few[0], MATRIX_TIMES[times], few[1], found)


def phase_diagram(machine: Machine, scale: float) -> Measured:
    """Evaluate the final kernel of networks on a grid of 20000 x 20000 of scale and initial size."""
    side, xp = max(8, int(2e4 * math.sqrt(scale))), machine.xp
    sizes = xp.asarray(np.geomspace(1e-4, 1e2, side))
    inputs = {name: Given("scalar", np.float64(1.0)) for name in ORDER} | {
        "gamma": Given("axis", xp.asarray(np.geomspace(1e-3, 1e2, side)), 1),
        "start.P": Given("axis", 0.6 * sizes, side),
        "start.Q": Given("axis", 0.4 * sizes, side),
        "start.R": Given("axis", 0.1 * sizes, side),
    }
    following = Following(machine, TwoLayerOrder, ("ntk",), inputs, np.array([math.inf]))
    seconds = _all(machine, following, side * side, 1 << 27)
    return Measured(seconds, side * side, 8 * side * side, following.sample(side * side))


def random_kernels(machine: Machine, scale: float) -> Measured:
    """Draw tangent kernels of 10^4 ReLU networks of width 200 and depth 50 by the exact law of their norms."""
    members, rng, kept = max(8, int(1e4 * scale)), machine.generator(1), {}
    ones = machine.xp.ones(50)

    def work() -> None:
        kept["kernel"] = layer_by_layer(rng, members, [200] * 50, 2.0, 0.0).kernels(ones / 200, ones)[0]

    work()
    seconds = machine.seconds(work)
    kernel = arithmetic.to_numpy(kept["kernel"])
    error = kernel.std() / math.sqrt(members)
    return Measured(seconds, members, 0, None, f"mean kernel {kernel.mean():.4g} +- {error:.2g}")


class Workload(NamedTuple):
    """Title at full size, measurement, and share of that size for the comparison on the processor."""

    title: str
    measure: Callable[[Machine, float], Measured]
    share: float


WORKLOADS = {
    "W1": Workload("10^8 balanced modes x 64 times", balanced_modes, 1e-2),
    "W1 mean": Workload("mean and variance of the same, ensemble not written", mean_of_modes, 1e-2),
    "W3": Workload("10^6 networks of width 1000 x 64 times, weights read", wide_networks, 1e-2),
    "W4": Workload("10^7 modes of depth 3, 4, 5, inf x 64 times", deep_modes, 1e-2),
    "W5": Workload("10^5 networks of 10-10-10 on white inputs x 64 times, matrices", matrix_flows, 1e-2),
    "W7": Workload("final kernels of 20000 x 20000 networks", phase_diagram, 1e-2),
    "W8": Workload("tangent kernels of 10^4 ReLU networks, width 200, depth 50", random_kernels, 1.0),
}
