"""Our evaluations and the floors of each workload, timed in turn with the peers."""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import numpy as np

import linsolve as ls
from benchmarks import floors, workloads
from benchmarks.memory import largest
from benchmarks.timing import Way
from linsolve.core.query import pose
from linsolve.engines.evaluate import evaluate, inputs_of, prepared, reevaluate_extremes
from linsolve.ensembles.reduce_members import reduce
from linsolve.systems.random_networks.sampling import explicit, layer_by_layer
from linsolve.systems.two_layer.order_sums import order_parameters

__all__ = ["SECTIONS"]


def engines() -> dict[str, str]:
    """Return the installed evaluation engines by the label of their timings."""
    found = {"ours, NumPy": "blocks"}
    if importlib.util.find_spec("llvmlite"):
        found["ours, compiled"] = "compiled"
    return found


def followed(problem: workloads.Modes, workload: str) -> list[Way]:
    """Return the evaluation of an ensemble of modes into an existing array, and the floors of this."""
    out, flow = np.zeros((len(problem.t), len(problem.s))), problem.flow
    z0 = flow.State(problem.a0)

    def call(engine: str) -> np.ndarray:
        return evaluate(flow, problem.t, z0, "a", out={"a": out}, engine=engine)["a"]

    wrong = partial(workloads.error_of_modes, problem)
    found = [Way(workload, who, partial(call, engine), 1, wrong) for who, engine in engines().items()]
    found += [
        Way(workload, "floor: fill", floors.fill(out)),
        Way(workload, "floor: checks of the call", checks(flow, problem.t, z0, {"a": out})),
    ]
    if "ours, compiled" in engines():
        bare = floors.loop(prepared(pose(flow, problem.t, z0), "compiled", ("a",)))
        found.append(Way(workload, "floor: the compiled loop alone", bare, remark="all times written to one row"))
    return found


def checks(flow: ls.Flow, t: np.ndarray, z0: Any, out: dict[str, np.ndarray]) -> Callable[[], None]:
    """Return a call of all that `evaluate` does besides the evaluation, compiled if the extra is installed."""

    def call() -> None:
        posed = pose(flow, t, z0)
        inputs = inputs_of(posed)
        prepared(posed, [*engines().values()][-1], tuple(out), inputs)
        reevaluate_extremes(posed, inputs, out, True)

    return call


def grown(engine: str) -> float:
    """Return the growth of the memory of this process during W1, relative to the size of the output."""
    few, problem = workloads.modes(5000), workloads.modes()
    few.flow(few.t, few.a0, engine=engine)  # imports and compiles
    before = largest()
    out = problem.flow(problem.t, problem.a0, engine=engine)["a"]
    return (largest() - before) / out.nbytes


def peak(engine: str) -> str:
    """Return `grown` as a remark, measured in a separate process."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return f"peak memory {pool.submit(grown, engine).result():.2f} of the output"


def balanced(small: bool) -> list[Way]:
    """Return W1, the memory floors of all ensembles, and the mean over members without output."""
    problem = workloads.modes(40, 8) if small else workloads.modes()
    size, has = len(problem.s) * len(problem.t), engines()
    found = [
        way._replace(remark=peak(has[way.who])) if way.who in has and not small else way
        for way in followed(problem, "W1")
    ]
    part = max(1, size // 8)

    def mean(engine: str) -> Any:
        return reduce(problem.flow, problem.t, problem.flow.State(problem.a0), "a", "mean", engine=engine)

    return [
        *found,
        *(Way("W1, mean over members", who, partial(mean, engine)) for who, engine in has.items()),
        Way(
            "W1",
            "floor: NumPy's calls alone",
            floors.sigmoids(2 * problem.s, problem.a0 / problem.s, problem.a0, problem.t),
            remark="of the same formula, all times written to one row",
        ),
        Way("W1", "floor: triad", floors.triad(part), size / part, remark="an eighth, scaled"),
        Way("W1", "floor: read", floors.read(np.ones(part)), size / part, remark="an eighth, scaled"),
    ]


def networks(small: bool) -> list[Way]:
    """Return W3: observables of networks given by all weights, which are read once, into existing arrays."""
    problem = workloads.networks(3, 20, 8) if small else workloads.networks()
    full = problem.flow
    given = full.State(u=problem.u, w=problem.w[..., None])
    out = {name: np.zeros((len(problem.t), len(problem.u))) for name in problem.names}

    def call(engine: str) -> dict[str, Any]:
        flow, z0 = order_parameters(full, given, engine=engine)
        return evaluate(flow, problem.t, z0, problem.names, out=out, engine=engine)

    wrong = partial(workloads.error_of_networks, problem)
    found = [Way("W3", who, partial(call, engine), 1, wrong) for who, engine in engines().items()]
    flow, z0 = order_parameters(full, given)
    made = prepared(pose(flow, problem.t, z0), "blocks", problem.names)
    into = {name: np.zeros(made.grid.shape) for name in problem.names}
    bare = floors.calls(made, problem.u, problem.w, into)

    if "ours, compiled" in engines():
        loop = floors.loop(prepared(pose(flow, problem.t, z0), "compiled", problem.names))
        found.append(Way("W3", "floor: the compiled loop alone", loop, remark="without sums of the weights"))
    return [
        *found,
        Way("W3", "floor: read of the weights", floors.read(problem.u, problem.w)),
        Way("W3", "floor: NumPy's calls alone", bare, 1, wrong, "of the same formula, in loops that do nothing else"),
        Way("W3", "floor: checks of the call", checks(flow, problem.t, z0, out)),
    ]


def deep(depth: float, small: bool) -> list[Way]:
    """Return W4 of one depth."""
    problem = workloads.deep_modes(depth, 20, 8) if small else workloads.deep_modes(depth)
    return followed(problem, f"W4, L = {depth:g}")


def kernel(small: bool) -> list[Way]:
    """Return W6: one spectrum, further calls of its flow, and one target by Lanczos."""
    q, n = (19, 20) if small else (workloads.FULL["W6"], workloads.FULL["W6"] + 1)
    problem, stiff = workloads.kernel(q), workloads.kernel(q, 1e4)
    matrix, y, t, zero = problem.matrix, problem.y, problem.t, np.zeros(n)
    flow, gemm = ls.FrozenKernel(matrix, y), floors.product(n, len(t), n)

    def one(given: workloads.Kernel) -> Callable[[], np.ndarray]:
        return lambda: ls.FrozenKernel.one_target(given.matrix, given.y, given.t, zero).f

    def route(given: workloads.Kernel) -> str:
        found = ls.FrozenKernel.one_target(given.matrix, given.y, given.t, zero)
        return f"{found.route}, {found.steps} products with the kernel"

    more = floors.product(n, 13 * len(t) // 10, n)

    def spectrum() -> None:
        np.linalg.eigh(matrix.T)  # symmetric; transposed to the memory order of LAPACK, as in `FrozenKernel`
        more()

    ours, one_target = "ours, NumPy", "W6, one target"
    return [
        Way("W6", ours, lambda: ls.FrozenKernel(matrix, y)(t, zero)["f"], 1, problem.error),
        Way("W6", "floor: eigh and 1.3 GEMM", spectrum),
        Way("W6, further call", ours, lambda: flow(t, zero)["f"], 1, problem.error),
        Way("W6, further call", "floor: GEMM", gemm),
        Way(one_target, ours, one(problem), 1, problem.error, route(problem)),
        Way(one_target, "eigh", lambda: np.linalg.eigh(matrix.T)),
        Way(f"{one_target}, stiff", ours, one(stiff), 1, stiff.error, route(stiff)),
    ]


def diagram(small: bool) -> list[Way]:
    """Return W7: the phase diagram in a separate process, which reports its time."""
    from benchmarks import sweeps

    if small:
        return []

    def call(engine: str) -> float:
        command = [sys.executable, "-m", "benchmarks.sweeps", "fixed", str(floors.processors()), engine]
        return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["seconds"]

    remarks = {"blocks": "in a separate process", "compiled": "in a separate process, compilation included"}
    found = [
        Way("W7", who, partial(call, engine), remark=remarks[engine], told=True) for who, engine in engines().items()
    ]
    limits = [Way("W7", f"limit: {seconds:g} s", partial(float, seconds), told=True) for seconds in (3, 0.5)]
    return [*found, Way("W7", "floor: fill", sweeps.fill, told=True), *limits]


def sampling(small: bool) -> list[Way]:
    """Return W8: tangent kernels of random networks by their exact law and from explicit weights."""
    count, width, depth, few = (20, 8, 4, 2) if small else (workloads.FULL["W8"], 200, 50, 4)
    rng = np.random.default_rng(5)

    def call(draw: Callable[..., Any], count: int) -> np.ndarray:
        return draw(rng, count, [width] * depth, 2.0, 0.0).kernels(1.0, 0.0)[0]

    remark = f"{few} networks with all weights, scaled"
    return [
        Way("W8", "ours, NumPy", partial(call, layer_by_layer, count), remark="the exact law, layer by layer"),
        Way("W8", "explicit, NumPy", partial(call, explicit, few), count / few, remark=remark),
    ]


SECTIONS: dict[str, Callable[[bool], list[Way]]] = {
    "W1": balanced,
    "W3": networks,
    **{f"W4, L = {depth:g}": partial(deep, depth) for depth in workloads.DEPTHS},
    "W6": kernel,
    "W7": diagram,
    "W8": sampling,
}
