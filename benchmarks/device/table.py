"""Ensembles on a GPU: the printed kernels, JAX on the same device, Runge-Kutta in registers and the processor."""

from __future__ import annotations

import importlib.util
import math
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import linsolve as ls
from benchmarks import workloads
from benchmarks.device import if_present, jax_beside_cupy
from benchmarks.device.runge_kutta import runge_kutta
from benchmarks.markdown import table
from benchmarks.speed_matrix import networks
from benchmarks.timing import interleaved
from linsolve import arithmetic
from linsolve.core.query import Problem, pose
from linsolve.engines import cuda
from linsolve.engines.evaluate import evaluate
from linsolve.ensembles import random_networks
from linsolve.ensembles.cuda_reduce import Reduction
from linsolve.ensembles.members import sliced
from linsolve.ensembles.reduce_members import reduce

__all__ = ["WORKLOADS", "Way", "device", "rows"]

ROUNDS = 5
STEPS = 8  # steps of Runge-Kutta between two times
SHARE = 64  # the processor evaluates one of so many members
SAMPLE = 4  # members evaluated to 50 digits
ENGINE = "compiled" if importlib.util.find_spec("llvmlite") else "blocks"
MOMENTS = ("mean", "variance")


class Way(NamedTuple):
    """One evaluation: label, call that returns observables by name, members, steps between two times."""

    who: str
    call: Callable[[], Any]
    members: int
    steps: int = 0


# problems of any number of members


def modes(members: int, depth: float = 2) -> Problem:
    """Return modes of one depth at 64 times."""
    given = workloads.modes(members) if depth == 2 else workloads.deep_modes(depth, members)
    return pose(given.flow, given.t, given.a0)


def order_parameters(members: int) -> Problem:
    """Return random networks by their three order parameters at 64 times."""
    flow, z0 = random_networks(1000, gamma=1000**-0.5)(np.random.default_rng(3), members)
    return pose(flow, np.linspace(0.0, 2.0, workloads.TIMES), z0)


def matrices(members: int) -> Problem:
    """Return networks of 10-10-10 on white inputs at 64 times."""
    target, _, start = networks((10, 10, 10), (members,))
    return pose(ls.WhitenedTwoLayer(target), np.linspace(0.0, 20.0, workloads.TIMES), start)


# their evaluations, that of the device first


def on(xp: Any, given: Problem) -> tuple[Any, Any]:
    """Return flow and start with arrays of a library."""
    own = {name: xp.asarray(value) for name, value in given.flow.parameters().items()}
    return type(given.flow)(**own), type(given.z0)(*(xp.asarray(value) for value in given.z0))


def in_jax(given: Problem, names: tuple[str, ...], kept: Callable[[Any], Any] = lambda value: value) -> list[Way]:
    """Return the evaluation under JAX on its default device, if JAX is installed; `kept` reduces an observable."""
    if importlib.util.find_spec("jax") is None:
        return []
    jax = jax_beside_cupy()
    flow, z0 = on(jax.numpy, given)

    @jax.jit
    def run(flow: Any, t: Any, z0: Any) -> Any:
        traj = flow(t, z0)
        return {name: kept(traj[name]) for name in names}

    t = jax.numpy.asarray(given.t)
    return [Way("JAX", lambda: jax.block_until_ready(run(flow, t, z0)), given.batch[0])]


def share(given: Problem) -> Problem:
    """Return the members that the processor evaluates."""
    return sliced(given, 0, max(SAMPLE, given.batch[0] // SHARE))


def written(xp: Any, given: Problem, names: tuple[str, ...] = ("a",), jax: bool = True) -> list[Way]:
    """Return the evaluations of a flow of single numbers, every value written; `jax` is whether JAX is one of them."""
    (flow, z0), few = on(xp, given), share(given)
    kernel = partial(cuda.evaluate, flow, given.t, z0, names)
    processor = partial(evaluate, few.flow, few.t, few.z0, names, engine=ENGINE)
    others = in_jax(given, names) if jax else []
    return [Way("kernel", kernel, given.batch[0]), *others, Way("processor", processor, few.batch[0])]


def without_jax(xp: Any, given: Problem) -> list[Way]:
    """Return the evaluations of deep modes without JAX, whose process the system ended on a host of 128 GiB."""
    return written(xp, given, jax=False)


def integrated(xp: Any, given: Problem) -> list[Way]:
    """Return the evaluations of the state, also by Runge-Kutta."""
    return [*written(xp, given), Way("Runge-Kutta 4", runge_kutta(xp, given, STEPS), given.batch[0], STEPS)]


def reduced(xp: Any, given: Problem) -> list[Way]:
    """Return the evaluations of mean and variance over the members, none of which is written."""
    (flow, z0), few = on(xp, given), share(given)

    def kernel() -> Any:
        gathering = Reduction(("a",), given.t.size)
        gathering.absorb(cuda.checked(flow, given.t, z0))
        return gathering.results()

    jax = in_jax(given, ("a",), lambda a: (a.mean(axis=-1), a.var(axis=-1)))
    processor = partial(reduce, few.flow, few.t, few.z0, "a", MOMENTS, engine=ENGINE)
    return [Way("kernel", kernel, given.batch[0]), *jax, Way("processor", processor, few.batch[0])]


def arrays(xp: Any, given: Problem) -> list[Way]:
    """Return the evaluations of a flow of matrices, on the device by array functions of CuPy."""
    (flow, z0), few = on(xp, given), share(given)
    device = Way("array functions", lambda: flow(xp.asarray(given.t), z0).state._asdict(), given.batch[0])
    processor = Way("processor", lambda: few.flow(few.t, few.z0).state._asdict(), few.batch[0])
    return [device, *in_jax(given, given.z0._fields), processor]


def streamed(xp: Any, members: int) -> list[Way]:
    """Return the streamed statistics of random networks, drawn where they are evaluated."""
    few, t, factory = max(SAMPLE, members // SHARE**2), np.linspace(0.0, 2.0, 8), random_networks(10**6, 1e-3, 1e-3)
    kernel = partial(ls.ensemble, factory, members, t, reduce=MOMENTS, rng=0, device="cuda")
    processor = partial(ls.ensemble, factory, few, t, reduce=MOMENTS, rng=0)
    return [Way("kernel", kernel, members), Way("processor", processor, few)]


class Workload(NamedTuple):
    """Full number of members, problem of a number of them, evaluations, values per member, if these are written."""

    size: int
    problem: Callable[[int], Any]
    ways: Callable[[Any, Any], list[Way]]
    each: int
    is_written: bool = True


NAMES = ("loss", "alignment", "ntk")
WORKLOADS = {
    "W1: balanced modes, 64 times": Workload(1 << 24, modes, integrated, 64),
    "W1: mean and variance, nothing written": Workload(10**7, modes, reduced, 64, False),
    "W3: order parameters, 64 times, three observables": Workload(
        10**6, order_parameters, lambda xp, given: written(xp, given, NAMES), 3 * 64
    ),
    "W4: modes of depth 3, 64 times": Workload(10**6, lambda n: modes(n, 3.0), without_jax, 64),
    "W4: modes of infinite depth, 64 times": Workload(10**6, lambda n: modes(n, math.inf), without_jax, 64),
    "networks of width 10^6, 8 times, streamed": Workload(10**9, lambda n: n, streamed, 8, False),
    "W5: networks 10-10-10, 64 times": Workload(4096, matrices, arrays, 300 * 64),
}


# the table


def exact(given: Problem) -> tuple[Any, dict[str, Any]]:
    """Return sampled times and members as an index, and the trajectory there to 50 digits."""
    xp, few, at = arithmetic.precise(50), sliced(given, 0, SAMPLE), np.s_[:: len(given.t) // 4, :SAMPLE]
    return at, few.flow.cast(xp)(xp.asarray(few.t[at[0]]), type(few.z0)(*(xp.asarray(v) for v in few.z0)))


def error(found: dict[str, Any], at: Any, right: Any) -> float:
    """Return the largest difference of sampled results, relative to the largest entry of each name."""
    worst = 0.0
    for name, value in found.items():
        true = arithmetic.to_numpy(right[name])
        off = np.abs(arithmetic.to_numpy(value[at]) - true).max() / np.abs(true).max()
        worst = float(np.maximum(worst, off))  # nan stays nan
    return worst


def seconds(xp: Any, call: Callable[[], Any], see: Callable[[Any], Any] = lambda result: None) -> float:
    """Return the time until the device has done a call, and pass its result on."""
    begin = time.perf_counter()
    result = call()
    xp.cuda.Stream.null.synchronize()
    taken = time.perf_counter() - begin
    see(result)
    return taken


def copied(xp: Any, count: int) -> float:
    """Return the bytes that a copy of `count` doubles reads and writes per second."""
    source, target = xp.ones(count), xp.empty(count)
    return 16 * count / interleaved({"copy": lambda: seconds(xp, lambda: xp.copyto(target, source))}, ROUNDS)["copy"]


def rows(xp: Any, title: str, scale: float, copy: float) -> list[tuple[str, ...]]:
    """Return the rows of one workload, at a share of its size."""
    work, errors, found = WORKLOADS[title], dict[str, str](), []
    size = max(SAMPLE, int(work.size * scale))
    given = work.problem(size)
    ways = {way.who: way for way in work.ways(xp, given)}
    right = exact(given) if work.is_written else None

    def timed(way: Way) -> float:
        def see(result: Any) -> None:
            if way.who not in errors:
                errors[way.who] = f"{error(result, *right):.1e}" if right else ""

        return seconds(xp, way.call, see)

    spent = interleaved({who: partial(timed, way) for who, way in ways.items()}, ROUNDS)
    for who, way in ways.items():
        rate = way.members * work.each / spent[who]
        steps = f", {way.steps * rate:.2g} steps" if way.steps else ""
        part = f"{100 * 8 * rate / copy:.0f} %" if work.is_written and who != "processor" else ""
        found.append((f"{size:,} {title}", who, f"{1e12 / rate:.3g} ps", f"{rate:.2g}{steps}", part, errors[who]))
    return found


def device(scale: float = 1.0) -> str:
    """Return the table of a GPU, or the reason for having none."""
    return if_present(partial(_table, scale))


def _table(scale: float, xp: Any) -> str:
    runtime, copy = xp.cuda.runtime, copied(xp, max(1 << 16, int(scale * (1 << 28))))
    name = runtime.getDeviceProperties(0)["name"].decode()
    about = f"{name}, CUDA {runtime.runtimeGetVersion()}, driver {runtime.driverGetVersion()}"
    head = ("workload", "by", "time per value", "values per second", "of copy bandwidth", "error")
    found = list[tuple[str, ...]]()
    for title in WORKLOADS:
        found += rows(xp, title, scale, copy)
        print(f"device: {found[-1][0]}", file=sys.stderr, flush=True)
    return f"{about}; a copy reads and writes {copy / 1e9:.0f} GB/s.\n\n{table(head, found)}"
