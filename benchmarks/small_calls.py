"""Processor time of one small call of every flow: one network, 1 and 100 times, over a plain formula and solve_ivp."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import cycle
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

import linsolve as ls
from benchmarks.timing import short
from linsolve.core.integrate import joined, parted
from linsolve.core.query import clock, closed_form, pose, posed_again
from linsolve.papers.standalone import STANDALONE

__all__ = ["HEAD", "calls", "one_network", "rows"]

COUNTS = (1, 100)  # times of a call
LAST = 1.0
RTOL = 1e-8
REPEATS, SPENT, ROUNDS = 20, 4e-3, 25  # calls in a turn, at most this many seconds; turns
OWN = {"BlockKernel": {"sizes": [2, 2, 2]}}  # the plain formula has classes of one size
HEAD = ("flow", "1 time", "new start", "closed form", "over the formula", "over solve_ivp")
HEAD += ("100 times", "new start", "closed form", "over the formula", "over solve_ivp")
NEAR = 1 + 2.0**-40  # factor of another start that satisfies the conditions of the first


def one_network(cls: Any) -> tuple[Any, Any]:
    """Return the first network of a flow's example and its start."""
    flow, z0 = cls.example(np.random.default_rng(0))
    batch = np.broadcast_shapes(*(v.shape[: v.ndim - len(cls.axes[n])] for n, v in z0._asdict().items()))

    def first(value: Any, axes: tuple[str, ...]) -> Any:
        lead = value.ndim - len(axes)
        return value[(0,) * lead] if 0 < lead <= len(batch) else value

    fields = cls.__dataclass_fields__
    parameters = {n: first(v, fields[n].metadata["axes"]) for n, v in flow.parameters().items()}
    return cls(**parameters | OWN.get(cls.__name__, {})), cls.State(
        *(first(v, cls.axes[n]) for n, v in z0._asdict().items())
    )


def formula_of(cls: Any, flow: Any, z0: Any, t: np.ndarray) -> Callable[[], Any] | None:
    """Return the closed form that a user writes in NumPy for one network at many times, None if it is not short."""
    if cls.__name__ == "FrozenKernel":  # the flow keeps the eigenvectors of its kernel, the user too
        values, vectors = np.linalg.eigh(flow.kernel)
        return lambda: (z0.f + np.expm1(-flow.eta * values * t[:, None]) * ((z0.f - flow.y) @ vectors) @ vectors.T,)
    if cls.__name__ == "BlockKernel":
        return lambda: (blocks(flow, z0.r, t),)
    if cls.__name__ not in STANDALONE:
        return None
    formula, rest = STANDALONE[cls.__name__], list(flow.parameters().values())
    single = len(z0) == 1
    return lambda: (formula(t, *z0, *rest),) if single else formula(t, *z0, *rest)


def blocks(flow: Any, r: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Return the residuals of classes of one size at many times."""
    size = int(flow.sizes[0])
    groups = r.reshape(-1, size)
    means = groups.mean(axis=-1, keepdims=True)
    mean = means.mean()
    sample = flow.diagonal - flow.within
    of_class = sample + size * (flow.within - flow.between)
    whole, at = of_class + r.size * flow.between, -flow.eta * t[:, None, None]
    parts = np.exp(at * sample) * (groups - means) + np.exp(at * of_class) * (means - mean) + np.exp(at * whole) * mean
    return parts.reshape(t.size, -1)


def calls(cls: Any, count: int) -> dict[str, Callable[[], Any]]:
    """Return the calls of one network at `count` times: "ours", "new start", "closed form", "solve_ivp", "formula".

    "ours" repeats a start, of which the flow keeps what does not depend on time; "new start" is never the last one.
    "closed form" is the evaluation of the formulas at these times, without the checks of the call and without a
    `Trajectory`. "formula" is given for some flows only.
    """
    flow, z0 = one_network(cls)
    t = np.linspace(0.0, LAST, count + 1)[1:]
    shapes = [np.shape(v) for v in z0]
    flow(t, z0)
    y0, problem = joined(z0), posed_again(flow, t, z0) or pose(flow, t, z0)
    others = cycle((z0, cls.State(*(NEAR * v for v in z0))))
    other = cls(**flow.parameters())

    def velocity(_: float, y: np.ndarray) -> np.ndarray:
        return joined(flow.velocity(np, cls.State(*parted(y, shapes))))

    def integrated() -> Any:
        return parted(solve_ivp(velocity, (0.0, LAST), y0, "DOP853", t_eval=t, rtol=RTOL, atol=1e-10).y.T, shapes)

    found = {
        "ours": lambda: flow(t, z0).state,
        "new start": lambda: other(t, next(others)).state,
        "closed form": lambda: closed_form(problem, clock(np, problem.t, len(problem.batch))),
        "solve_ivp": integrated,
    }
    formula = formula_of(cls, flow, z0, t)
    return found | ({"formula": formula} if formula else {})


def _least(call: Callable[[], Any]) -> float:
    """Return the least processor time of some calls."""
    least, spent = np.inf, 0.0
    for _ in range(REPEATS):
        begin = time.process_time()
        call()
        taken = time.process_time() - begin
        least, spent = min(least, taken), spent + taken
        if spent > SPENT:
            break
    return least


def rows(names: Iterable[str] = tuple(ls.flows.WHERE), rounds: int = ROUNDS) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each flow: the least time of calls that take turns, since other load only adds to a time."""
    for name in names:
        cells = [name]
        for count in COUNTS:
            ways = calls(getattr(ls, name), count)
            with np.errstate(all="ignore"):  # the flow's call sets it itself
                turns = [{who: _least(call) for who, call in ways.items()} for _ in range(rounds)]
            spent = {who: min(turn[who] for turn in turns) for who in ways}
            cells += [short(spent["ours"]), short(spent["new start"])]
            cells += [f"{100 * min(1, spent['closed form'] / spent['ours']):.0f} %"]
            cells += [f"{spent['ours'] / spent[who]:.2g}" if who in spent else "" for who in ("formula", "solve_ivp")]
        yield tuple(cells)
