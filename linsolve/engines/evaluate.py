"""Evaluation of a checked query: engine, threads, output arrays and a common check of overflow.

See W1, W3, W4 and W7 in ``benchmarks/RESULTS.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from linsolve.core.arguments import choice, unknown_name
from linsolve.core.query import (
    Problem,
    clock,
    closed_form,
    heard,
    library,
    pose,
    refuse_inexact,
    refuse_outside_lifetime,
    refuse_overflow,
    spread,
)
from linsolve.engines.blocks import Blocks
from linsolve.engines.plan import Grid, checked_threads, grid_of, run_tiles
from linsolve.engines.program import Program, elementwise, limits_of, program_of
from linsolve.engines.specialize import Ranges, range_of, ranges, specialized, without

__all__ = [
    "ENGINES",
    "computed",
    "evaluate",
    "follow",
    "inputs_of",
    "observables",
    "observed",
    "prepared",
    "reevaluate_extremes",
    "shape_of",
    "traceable",
    "unjudged",
]

ENGINES = ("plain", "blocks", "compiled")
OWN = "own"  # engine of matrix flows with their own compiled closed form
ENOUGH = 2**15  # least number of outputs for which blocks are faster despite their set-up, if asked again
LARGE, SMALL = 2.0**200, 2.0**-200  # inputs beyond these bounds may overflow or underflow in products
PIECE = 2**16  # values per evaluation of the plain formula
_known: Any = lru_cache(maxsize=64)(program_of)


def _needed_limits(flow: type, forward: bool) -> Program:
    return without(limits_of(flow, forward), frozenset())


_limits: Any = lru_cache(maxsize=64)(_needed_limits)


def evaluate(
    flow: Any,
    t: Any,
    z0: Any,
    names: Iterable[str] | str,
    *,
    out: Mapping[str, np.ndarray] | None = None,
    engine: str | None = None,
    threads: int | None = None,
) -> dict[str, Any]:
    """Return observables of the closed form, without storing the state.

    Programs of large ensembles are specialized to the ranges of their inputs, with bitwise identical results
    (``tests/engines/test_fused_ranges.py``).

    Parameters
    ----------
    flow : Flow
        A flow whose parameters and state are single numbers (any flow with ``engine="plain"``).
    t, z0
        Times and start, as for the flow itself.
    names : str or iterable of str
        State fields and observables of a `Trajectory`.
    out : mapping of str to array, optional
        Arrays to write into, one per name, of shape ``t.shape + batch``.
    engine : str, optional
        "plain" (as in a `Trajectory`), "blocks" (NumPy, bitwise equal) or "compiled" (extra ``[fast]``); by default
        "blocks" if it applies, otherwise "plain".
    threads : int, optional
        Number of threads of "blocks" and "compiled", at most and by default one per processor.

    Returns
    -------
    dict of str to array
        Each of shape ``t.shape + batch``.

    Raises
    ------
    ValueError, TypeError
        If an input is invalid, a name is unknown, the engine cannot evaluate the flow, or an array of `out` does not
        fit.
    NotExact
        If the closed form does not hold for this start.
    OverflowError
        If an observable, or a number that the closed form needs, is beyond the range of doubles.
    ModuleNotFoundError
        If the engine is "compiled" and the extra is not installed.

    Examples
    --------
    >>> import linsolve as ls
    >>> from linsolve.engines.evaluate import evaluate
    >>> found = evaluate(ls.BalancedMode(s=[1.0, 2.0]), [0.0, 1.0], 0.01, "loss")
    >>> found["loss"].round(4).tolist()
    [[0.49, 1.98], [0.433, 1.2315]]
    """
    problem = pose(flow, t, z0)
    return observables(problem, (names,) if isinstance(names, str) else tuple(names), out, engine, threads)


def observables(
    problem: Problem,
    names: tuple[str, ...],
    out: Mapping[str, np.ndarray] | None = None,
    engine: str | None = None,
    threads: int | None = None,
    enough: int = ENOUGH,
) -> dict[str, Any]:
    """Return observables of a checked query by name; "blocks" is the default for at least `enough` values."""
    names = tuple(dict.fromkeys(names))
    chosen = _engine(problem, engine, names, enough)
    threads = checked_threads(threads)
    where = _checked_out(problem, out, names)
    with heard(problem) as judge:
        if chosen in ("plain", OWN):
            trajectory = problem.flow(problem.t, problem.z0, engine="compiled" if chosen == OWN else "plain")
            found = {name: _into(where, name, _named(trajectory, name)) for name in names}
        else:
            found = computed(problem, chosen, names, where, threads)
        judge(tuple(found.values()))
    return found


def follow(problem: Problem, out: Any, engine: str | None, threads: int | None) -> Any:
    """Return the state of a checked query at its times, of shape times and batch."""
    fields = problem.z0._fields
    chosen = _engine(problem, engine, None, ENOUGH)
    if threads is not None:
        checked_threads(threads)
    where = _checked_out(problem, _by_field(problem, out), fields) if out is not None else {}
    if chosen not in ("plain", OWN):
        found = computed(problem, chosen, None, where, threads)
        return type(problem.z0)(*(found[name] for name in fields))
    refuse_inexact(problem)
    refuse_outside_lifetime(problem)
    flow, t = problem.flow, clock(problem.xp, problem.t, len(problem.batch))
    found = flow.compiled_solution(t, problem.z0) if chosen == OWN else closed_form(problem, t)
    # the floating-point flags do not report every nan
    if problem.xp is np:
        for v in found:
            if v != v if type(v) is np.float64 else np.count_nonzero(np.isnan(v)):
                refuse_overflow(problem)
    state = spread(problem, found)
    return state if not where else type(state)(*(_into(where, name, v) for name, v in zip(fields, state, strict=True)))


def shape_of(problem: Problem) -> tuple[int, ...]:
    """Return the shape of times and batch."""
    return (*problem.t.shape, *problem.batch)


def _named(trajectory: Any, name: str) -> Any:
    try:
        return trajectory[name]
    except KeyError as error:
        raise ValueError(error.args[0]) from None


def _engine(problem: Problem, engine: str | None, names: tuple[str, ...] | None, enough: int) -> str:
    who = type(problem.flow).__name__
    if engine is not None:
        choice(who, "engine", engine, ENGINES)
    if engine == "plain":
        return engine
    if engine is None:
        small = problem.xp is not np or math.prod(shape_of(problem)) < enough
        return "plain" if small or not traceable(type(problem.flow), names) else "blocks"
    if problem.xp is not np:
        raise ValueError(
            f"{who}: engine = {engine!r} must be 'plain' for arrays of {library(problem.xp)}; leave it out"
        )
    if engine == "compiled" and hasattr(problem.flow, "compiled_solution"):
        return OWN
    _known(type(problem.flow), names)  # raises for unknown names
    return engine


def traceable(flow: type, names: tuple[str, ...] | None) -> bool:
    """Return whether the closed form is a program of single numbers."""
    if not elementwise(flow):
        return False
    try:
        _known(flow, names)
    except (ValueError, TypeError, AttributeError, KeyError):
        return False
    return True


def prepared(problem: Problem, engine: str, names: tuple[str, ...] | None, inputs: Ranges | None = None) -> Any:
    """Return an engine with the program of a checked query; raise for starts and times without a solution.

    The `inputs_of` the problem are computed unless given.
    """
    grid, inputs = _grid(problem), inputs or inputs_of(problem)
    _refuse(problem, grid, inputs)
    with _quiet():
        return _made(engine, _known(type(problem.flow), names), grid, inputs)


def inputs_of(problem: Problem) -> Ranges:
    """Return the range of each input, by name."""
    return {name: range_of(v) for name, v in {**_members_of(problem), "t": problem.t}.items()}


def _made(engine: str, program: Program, grid: Grid, inputs: Ranges | None = None) -> Any:
    program = specialized(program, grid, engine == "compiled", inputs)
    if engine == "blocks":
        return Blocks(program, grid)
    from linsolve.engines.compiled import Compiled

    return Compiled(program, grid)


def _quiet() -> Any:
    """Return a context without overflow warnings; `reevaluate_extremes` checks for overflow."""
    return np.errstate(over="ignore", invalid="ignore")


def _grid(problem: Problem) -> Grid:
    return grid_of(problem.t, _members_of(problem), problem.batch)


def _members_of(problem: Problem) -> dict[str, np.ndarray]:
    """Return the inputs that may vary between members, by name."""
    start = {f"start.{name}": value for name, value in zip(problem.z0._fields, problem.z0, strict=True)}
    return {**problem.flow.parameters(), **start}


def _refuse(problem: Problem, grid: Grid, inputs: Ranges) -> None:
    """Raise for inexact starts and times outside the lifetime: by ranges, then in blocks, then by the plain formula."""
    program = _limits(type(problem.flow), inputs["t"].low >= 0)
    if _holds(program, inputs, problem.flow.tolerance):
        return
    with _quiet():
        found = _extremes(Blocks(program, grid._replace(shape=(1, *grid.shape[1:]))))
    ends = found.pop("low", -np.inf), found.pop("high")
    try:
        refuse_inexact(problem, found)
        refuse_outside_lifetime(problem, ends)
    except ValueError:
        refuse_inexact(problem)
        refuse_outside_lifetime(problem)


def _holds(program: Program, inputs: Ranges, tolerance: float) -> bool:
    """Return whether the ranges of inputs show that all conditions hold, and all times are within the lifetime."""
    found: list[Any] = ranges(program, inputs)
    of, t = {name: found[k] for name, k in program.outputs.items()}, inputs["t"]
    high, low = of.pop("high"), of.pop("low", None)
    lived = not t.nan and not high.nan and (high.low == np.inf or t.high < high.low)
    begun = low is None or (not low.nan and t.low > low.high)
    return lived and begun and all(not v.nan and v.high <= tolerance for v in of.values())


def _extremes(blocks: Blocks) -> dict[str, float]:
    """Return the largest value of each output over all members, and the smallest of "high"."""
    outputs, of = blocks.program.outputs, dict.fromkeys(blocks.program.outputs, np.max) | {"high": np.min}
    found: dict[str, list[Any]] = {name: [blocks.early[k]] for name, k in outputs.items() if k in blocks.early}
    if len(found) < len(outputs):
        found = {name: [] for name in outputs}
        for tile in blocks.tiles():
            values = {name: np.empty(tile.shape) for name in outputs}
            blocks(tile, values)
            for name, v in values.items():
                found[name].append(of[name](v))
    return {name: float(of[name](values)) for name, values in found.items()}


def computed(
    problem: Problem, engine: str, names: tuple[str, ...] | None, out: Mapping[str, np.ndarray], threads: int | None
) -> dict[str, Any]:
    """Return the outputs of a checked query by name, in the arrays of `out` or new ones."""
    inputs = inputs_of(problem)
    found, finite = _run(prepared(problem, engine, names, inputs), problem, out, threads)
    reevaluate_extremes(problem, inputs, found, finite)
    return found


def unjudged(problem: Problem, names: tuple[str, ...], threads: int | None = 1) -> dict[str, Any]:
    """Return observables of a checked query of a `traceable` flow, from "blocks", nonfinite or not."""
    with _quiet():
        made = _made("blocks", _known(type(problem.flow), names), _grid(problem))
    return _run(made, problem, {}, threads)[0]


def observed(problem: Problem, name: str) -> Any:
    """Return an observable of a checked query from "blocks", nonfinite or not; None for small or other ensembles."""
    if math.prod(shape_of(problem)) < ENOUGH or not traceable(type(problem.flow), (name,)):
        return None
    return unjudged(problem, (name,), None)[name]


def _run(
    made: Any, problem: Problem, out: Mapping[str, np.ndarray], threads: int | None
) -> tuple[dict[str, np.ndarray], bool]:
    """Return the outputs by name, in the arrays of `out` or new ones, and whether all of them are finite."""
    shape, grid = shape_of(problem), made.grid.shape
    found = {name: out[name] if name in out else np.empty(shape) for name in made.program.outputs}
    flat = {name: _viewed(v, grid) for name, v in found.items()}
    with _quiet():
        finite = run_tiles(
            lambda tile: made(tile, {name: tile.of(v) for name, v in flat.items()}), made.tiles(), threads
        )
    for name, v in found.items():
        if not np.may_share_memory(v, flat[name]):
            np.copyto(v, flat[name].reshape(shape))
    return found, all(finite)


def reevaluate_extremes(problem: Problem, inputs: Ranges, found: dict[str, np.ndarray], finite: bool) -> None:
    """Evaluate members with extreme inputs or nonfinite outputs by the plain formula, which raises `OverflowError`.

    Only the plain formula detects an intermediate overflow, so all engines raise for the same members.
    """
    suspects = np.zeros(problem.batch, dtype=bool)
    for name, v in _members_of(problem).items():
        low, high, _ = inputs[name]
        if (low <= SMALL and high >= -SMALL) or max(high, -low) > LARGE:
            size = np.abs(v)
            suspects |= ((size > LARGE) & (size < np.inf)) | ((size < SMALL) & (size > 0))
    if not finite:
        lead = tuple(range(problem.t.ndim))
        for v in found.values():
            suspects |= ~np.isfinite(v).all(axis=lead)
    places = np.nonzero(suspects.reshape(-1))[0]
    piece = max(1, PIECE // problem.t.size)
    for k in range(0, len(places), piece):
        at: Any = np.unravel_index(places[k : k + piece], problem.batch) if problem.batch else ()
        own, z0 = _members(problem, at)
        trajectory = own(problem.t, z0, engine="plain")
        for name, v in found.items():
            v[(..., *at) if at else ...] = trajectory[name]


def _members(problem: Problem, at: tuple[np.ndarray, ...]) -> tuple[Any, Any]:
    """Return flow and start of some members of a batch, along one axis if there is one."""
    own = {name: np.broadcast_to(v, problem.batch)[at] for name, v in problem.flow.parameters().items()}
    return problem.flow._with(**own), type(problem.z0)(*(np.broadcast_to(v, problem.batch)[at] for v in problem.z0))


def _viewed(v: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return an array in another shape, as a view if possible."""
    try:
        return v.reshape(shape, copy=False)
    except ValueError:
        return np.empty(shape)


def _by_field(problem: Problem, out: Any) -> Mapping[str, Any] | None:
    """Return the arrays to write the state into, by field."""
    fields, who = problem.z0._fields, type(problem.flow).__name__
    if out is None or isinstance(out, Mapping):
        return out
    if isinstance(out, str):
        raise TypeError(
            f"{who}: out = {out!r} must be NumPy arrays (to write into); an engine is given by name: engine={out!r}"
        )
    given = tuple(out) if isinstance(out, tuple | list) else (out,)
    if len(given) != len(fields):
        raise ValueError(
            f"{who}: out has {len(given)} arrays but needs {', '.join(fields)} (state to write into); add them"
        )
    return dict(zip(fields, given, strict=True))


def _checked_out(problem: Problem, out: Mapping[str, Any] | None, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the checked output arrays."""
    who, lead = type(problem.flow).__name__, shape_of(problem)
    for name in out or {}:
        if name not in names:
            raise ValueError(unknown_name(who, "out", name, names))
    out = out or {}
    for name, v in out.items():
        if not isinstance(v, np.ndarray) or problem.xp is not np:
            raise TypeError(
                f"{who}: out[{name!r}] = {type(v).__name__} must be a NumPy array (to write into); use numpy.empty"
            )
        own = tuple(v.shape[len(lead) :])
        if tuple(v.shape[: len(lead)]) != lead or len(own) != _own(problem, name):
            raise ValueError(
                f"{who}: out[{name!r}] has shape {v.shape} but must begin with {lead} (times and members); reshape it"
            )
        if v.dtype != np.float64:
            raise TypeError(
                f"{who}: out[{name!r}] has dtype {v.dtype} but must be float64 (array to write into); convert it"
            )
        if not v.flags.writeable:
            raise ValueError(f"{who}: out[{name!r}] is read-only (array to write into); pass an array of your own")
        for other, value in out.items():
            if other != name and np.may_share_memory(v, value) and np.shares_memory(v, value):
                rule = f"shares memory with out[{other!r}] (array to write into)"
                raise ValueError(f"{who}: out[{name!r}] {rule}; pass an array for each")
    return dict(out or {})


def _own(problem: Problem, name: str) -> int:
    """Return the number of own axes of a name."""
    flow = problem.flow
    return len(flow.axes[name] if name in flow.axes else flow.declared.get(name, {"axes": ()})["axes"])


def _into(where: Mapping[str, np.ndarray], name: str, value: Any) -> Any:
    """Return the value, written into the output array of that name if given."""
    if name not in where:
        return value
    np.copyto(where[name], value)
    return where[name]
