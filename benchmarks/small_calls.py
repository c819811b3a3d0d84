"""Times of one small call of every flow: one network at 1 and at 100 times, over a plain formula and over solve_ivp."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

import linsolve as ls
from benchmarks.timing import interleaved, short
from linsolve.core.integrate import joined, parted
from linsolve.papers.standalone import STANDALONE

__all__ = ["HEAD", "calls", "one_network", "rows"]

COUNTS = (1, 100)  # times of a call
LAST = 1.0
RTOL = 1e-8
REPEATS, ROUNDS = 5, 5
OWN = {"BlockKernel": {"sizes": [2, 2, 2]}}  # the plain formula has classes of one size
AT_ONE_TIME = ("FrozenKernel", "BlockKernel")  # plain formulas of one time
HEAD = ("flow", "1 time", "over the formula", "over solve_ivp", "100 times", "over the formula", "over solve_ivp")


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


def calls(cls: Any, count: int) -> dict[str, Callable[[], Any]]:
    """Return the calls of one network at `count` times by name: "ours", "formula" if there is one, "solve_ivp"."""
    flow, z0 = one_network(cls)
    t = np.linspace(0.0, LAST, count + 1)[1:]
    shapes = [np.shape(v) for v in z0]
    y0 = joined(z0)

    def velocity(_: float, y: np.ndarray) -> np.ndarray:
        return joined(flow.velocity(np, cls.State(*parted(y, shapes))))

    def integrated() -> Any:
        return parted(solve_ivp(velocity, (0.0, LAST), y0, "DOP853", t_eval=t, rtol=RTOL, atol=1e-10).y.T, shapes)

    found = {"ours": lambda: flow(t, z0).state, "solve_ivp": integrated}
    if cls.__name__ in STANDALONE:
        formula, rest = STANDALONE[cls.__name__], list(flow.parameters().values())
        if cls.__name__ in AT_ONE_TIME:
            found["formula"] = lambda: (np.stack([formula(each, *z0, *rest) for each in t]),)
        else:
            single = len(z0) == 1
            found["formula"] = lambda: (formula(t, *z0, *rest),) if single else formula(t, *z0, *rest)
    return found


def _timed(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    for _ in range(REPEATS):
        call()
    return (time.perf_counter() - begin) / REPEATS


def rows(names: Iterable[str] = tuple(ls.flows.WHERE), rounds: int = ROUNDS) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each flow; ratios are of medians of calls that take turns."""
    for name in names:
        cells = [name]
        for count in COUNTS:
            ways = calls(getattr(ls, name), count)
            spent = interleaved({who: lambda call=call: _timed(call) for who, call in ways.items()}, rounds)
            cells.append(short(spent["ours"]))
            cells += [f"{spent['ours'] / spent[who]:.2g}" if who in spent else "" for who in ("formula", "solve_ivp")]
        yield tuple(cells)
