"""Tiles of an ensemble: members drawn from one seed, evaluated in cache-sized pieces, and reduced."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import shown
from linsolve.core.flow import Flow
from linsolve.core.parameters import own_axes
from linsolve.core.query import Problem, heard, pose, refuse_inexact, refuse_outside_lifetime, spread
from linsolve.core.trajectory import Trajectory
from linsolve.engines.evaluate import traceable, unjudged
from linsolve.ensembles.blocks import stream
from linsolve.ensembles.execute import BlockError

__all__ = ["Answer", "Tiles", "drawn", "named", "names_of", "sliced", "values_of"]

PIECE = 1 << 14  # entries per state field of a piece; larger pieces do not fit the cache
BLOCKS = 1 << 12  # values of an observable from which the engine "blocks" is faster, with the same bits

Question = Callable[[np.ndarray, np.ndarray | None], Any]


class Lost(NamedTuple):
    """Members of a tile with values that are not finite: their number and the first of them, in each row."""

    members: np.ndarray
    first: np.ndarray


class Answer(NamedTuple):
    """Reductions of one tile, and for each observable the members that were not finite (None: no member).

    Parameters
    ----------
    lost : tuple of Lost or None
    answers : tuple of tuple
        For each observable, the results of its tile functions.
    """

    lost: tuple[Lost | None, ...]
    answers: tuple[tuple[Any, ...], ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Tiles:
    """Picklable evaluation of blocks of tiles: ``tiles(k)`` returns the answers of the tiles of block k.

    Parameters
    ----------
    factory : callable
    seed : SeedSequence
    members, tile, each : int
        Members of the ensemble, members per tile, tiles per block.
    t : array, shape () or (T,)
    questions : dict of tuple of callable
        Tile functions of each observable.
    shapes : dict of tuple
        Shape of each observable, for one member at all times.
    """

    factory: Callable[..., Any]
    seed: np.random.SeedSequence
    members: int
    tile: int
    each: int
    t: np.ndarray
    questions: dict[str, tuple[Question, ...]]
    shapes: dict[str, tuple[int, ...]]

    def span(self, tile: int) -> tuple[int, int]:
        """Return the first member of a tile and of the next tile."""
        return tile * self.tile, min((tile + 1) * self.tile, self.members)

    def asking(self, questions: dict[str, tuple[Question, ...]]) -> Tiles:
        """Return a copy with other tile functions."""
        return dataclasses.replace(self, questions=questions)

    def describe(self, block: int) -> str:
        """Return the name of a block in errors."""
        start, stop = self.span(block * self.each)[0], min((block + 1) * self.each * self.tile, self.members)
        return f"drawing and following members {start} to {stop - 1}"

    def __len__(self) -> int:
        return -(-self.members // (self.tile * self.each))

    def __call__(self, block: int) -> list[Answer]:
        """Return the answers of the tiles of a block."""
        last = min((block + 1) * self.each, -(-self.members // self.tile))
        return [self.ask(k) for k in range(block * self.each, last)]

    def ask(self, tile: int) -> Answer:
        """Return the answer of one tile."""
        start, stop = self.span(tile)
        problem = drawn(self.factory, self.seed, tile, stop - start, self.t, start)
        lost, answers = [], []
        for (name, questions), found in zip(
            self.questions.items(), values_of(problem, tuple(self.questions)), strict=True
        ):
            if found.shape != self.shapes[name] + (stop - start,):
                raise ValueError(
                    f"ensemble: factory gave {name!r} of shape {found.shape[:-1]} a member, but {self.shapes[name]} "
                    "before (shapes must not change); make them independent of the seed"
                )
            rows = found.reshape(-1, stop - start)
            finite = np.isfinite(rows)
            whole = bool(finite.all())
            lost.append(None if whole else Lost((~finite).sum(axis=-1), (~finite).argmax(axis=-1)))
            answers.append(tuple(question(rows, None if whole else finite) for question in questions))
        return Answer(tuple(lost), tuple(answers))


def named(factory: Callable[..., Any], first: int, passed: tuple[type[Exception], ...] = ()) -> Callable[..., Any]:
    """Return the factory of members from `first` on; its errors, but for those `passed`, become a BlockError.

    Raises
    ------
    BlockError
        If the factory fails; the message contains the members and the error.
    """

    def draw(rng: Any, count: int) -> Any:
        try:
            return factory(rng, count)
        except passed:
            raise
        except Exception as error:
            what = f"ensemble: drawing members {first} to {first + count - 1} failed"
            raise BlockError(f"{what}: {type(error).__name__}: {error}") from error

    return draw


def drawn(
    factory: Callable[..., Any], seed: np.random.SeedSequence, tile: int, count: int, t: np.ndarray, first: int = 0
) -> Problem:
    """Return the checked problem of `count` members, from `first` on, drawn by the factory from the seed of a tile.

    Raises
    ------
    TypeError, ValueError
        If the factory does not return a flow and a start, or returns another number of members.
    OverflowError
        If a number that the closed form needs is beyond the range of doubles.
    """
    made = factory(stream(seed, tile), count)
    if not isinstance(made, tuple) or len(made) != 2 or not isinstance(made[0], Flow):
        raise TypeError(f"ensemble: factory gave {shown(made)} but must give a flow and a start; return flow, z0")
    flow, z0 = made
    problem = pose(flow, t, z0)
    if problem.batch[:1] != (count,):
        raise ValueError(
            f"ensemble: factory gave a batch of shape {problem.batch} but was asked for {count} members; it must "
            f"return them along the leading batch axis"
        )
    try:
        _check(problem)
    except (ValueError, OverflowError) as error:
        k, own = _refused(problem, error)
        raise type(own)(f"member {first + k}: {own}") from error
    return problem


def _check(problem: Problem) -> None:
    with heard(problem) as judge:
        refuse_inexact(problem)
        refuse_outside_lifetime(problem)
        judge(problem.z0)


def _refused(problem: Problem, error: Exception) -> tuple[int, Exception]:
    """Return the number and the error of the first member that is refused, by bisection; `error` is that of all."""
    first, last = 0, problem.batch[0]
    while last - first > 1:
        middle = (first + last) // 2
        try:
            _check(sliced(problem, first, middle))
            first = middle
        except (ValueError, OverflowError) as own:
            last, error = middle, own
    return first, error


_quiet = np.errstate(over="ignore", invalid="ignore")  # nonfinite values are counted and reported by name


@_quiet
def names_of(problem: Problem) -> list[str]:
    """Return the names of all observables."""
    return _followed(problem, problem.xp.reshape(problem.t, (-1,))[:1]).names


@_quiet
def values_of(problem: Problem, names: Sequence[str]) -> list[np.ndarray]:
    """Return observables as float64 arrays of shape t.shape + rest of batch + own + (members,), contiguous.

    Raises
    ------
    KeyError
        If the flow lacks an observable.
    """
    members, t = problem.batch[0], problem.xp.reshape(problem.t, (-1,))
    if problem.xp is np and members * t.size >= BLOCKS and traceable(type(problem.flow), tuple(names)):
        values = unjudged(problem, tuple(names))
        return [np.ascontiguousarray(np.moveaxis(values[name], problem.t.ndim, -1)) for name in names]
    size = max(1, int(np.prod(problem.batch[1:], dtype=np.int64)) * _own_size(problem))
    at_once, those = max(1, PIECE // (size * members)), max(1, min(members, PIECE // size))
    found: dict[str, np.ndarray] = {}
    for first in range(0, members, those):
        last = min(first + those, members)
        part = problem if last - first == members else sliced(problem, first, last)
        for start in range(0, t.shape[0], at_once):
            stop = min(start + at_once, t.shape[0])
            for name, value in _observed(part, t[start:stop], names).items():
                value = np.moveaxis(arithmetic.to_numpy(value), 1, -1)
                if name not in found:
                    found[name] = np.empty((t.shape[0], *value.shape[1:-1], members))
                found[name][start:stop, ..., first:last] = value
    return [found[name].reshape(tuple(problem.t.shape) + found[name].shape[1:]) for name in names]


def _observed(problem: Problem, t: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return observables at times `t`, shape t.shape + batch + own; the state is evaluated only if needed."""
    flow, xp = problem.flow, problem.xp
    along = flow.along(xp, xp.reshape(t, t.shape + (1,) * len(problem.batch)), problem.z0)
    if all(name in along and name not in flow.axes for name in names):
        lead = tuple(t.shape) + problem.batch
        return {name: xp.broadcast_to(along[name], lead + tuple(along[name].shape[len(lead) :])) for name in names}
    trajectory = _followed(problem, t)
    return {name: trajectory.unjudged(name) for name in names}


def _followed(problem: Problem, t: Any) -> Trajectory:
    flow, xp = problem.flow, problem.xp
    state = flow.solution(xp, xp.reshape(t, t.shape + (1,) * len(problem.batch)), problem.z0)
    return Trajectory(flow, t, spread(problem._replace(t=t), state), "closed form", problem.z0)


def _own_size(problem: Problem) -> int:
    """Return the size of the largest field of one member's state."""
    sizes = (v.shape[v.ndim - len(problem.flow.axes[n]) :] for n, v in zip(problem.z0._fields, problem.z0, strict=True))
    return max(int(np.prod(size, dtype=np.int64)) for size in sizes)


def sliced(problem: Problem, first: int, last: int) -> Problem:
    """Return the problem restricted to members `first` to `last`."""

    def some(value: Any, own: int) -> Any:
        lead = value.ndim - own == len(problem.batch) and value.shape[0] == problem.batch[0]
        return value[first:last, ...] if lead else value

    given = {field.name: (field, getattr(problem.flow, field.name)) for field in dataclasses.fields(problem.flow)}
    own = {name: some(value, len(own_axes(field, value))) for name, (field, value) in given.items()}
    flow = problem.flow._with(**own)
    z0 = type(problem.z0)(*(some(v, len(flow.axes[n])) for n, v in zip(problem.z0._fields, problem.z0, strict=True)))
    return problem._replace(flow=flow, z0=z0, batch=(last - first, *problem.batch[1:]))
