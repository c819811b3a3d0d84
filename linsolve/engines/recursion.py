"""Recursions of few numbers, compiled to one SIMD loop over members and steps (extra ``[fast]``).

The function of one step is recorded as a program. Its numbers stay in registers from step to step, so that a step of
gradient descent takes nanoseconds. See the table of descent in ``benchmarks/RESULTS.md``.
"""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from linsolve.core.query import Problem
from linsolve.engines.compiled import machine_code
from linsolve.engines.instructions import Instructions
from linsolve.engines.plan import checked_threads
from linsolve.engines.program import Program, Tracer
from linsolve.engines.vectors import Vectors
from linsolve.numerics.threads import forkable_lock, shared

__all__ = ["Machine", "descent", "recorded", "recursion", "search"]

LANES = 4  # members of a block: more are slower, as the numbers of a step leave the registers
_SHARE = 2**22  # least work of a thread, in members x steps: about 10 ms
_TILE = 2**14  # members whose numbers are packed at once
_made: dict[tuple, Machine] = {}
_making = forkable_lock()


def recorded(step: Callable[..., Any], *trees: Any) -> Program:
    """Return the program of ``step(xp, first, *others)``, whose outputs are the leaves of `first` after the step.

    The trees are nested tuples and dictionaries. Their leaves are inputs of the program, named by their
    path, such as ``0.up``.
    """
    xp = Tracer()
    inputs = [_replaced(tree, str(k), lambda path, _: xp.input(path)) for k, tree in enumerate(trees)]
    found = step(xp, *inputs)
    for name, value in _leaves((found,)).items():
        xp.program.outputs[name] = xp.asarray(value).index
    return xp.program


def _replaced(tree: Any, path: str, leaf: Callable[[str, Any], Any]) -> Any:
    """Return a tree with other leaves; None stays None."""
    if hasattr(tree, "_fields"):
        return type(tree)(*(_replaced(v, f"{path}.{n}", leaf) for n, v in zip(tree._fields, tree, strict=True)))
    if type(tree) is tuple:
        return tuple(_replaced(v, f"{path}.{k}", leaf) for k, v in enumerate(tree))
    if isinstance(tree, dict):
        return {name: _replaced(v, f"{path}.{name}", leaf) for name, v in tree.items()}
    return None if tree is None else leaf(path, tree)


def _leaves(trees: tuple[Any, ...]) -> dict[str, Any]:
    """Return the leaves of trees by path."""
    found: dict[str, Any] = {}
    for k, tree in enumerate(trees):
        _replaced(tree, str(k), found.__setitem__)
    return found


class _Writer(Instructions):
    """Writer of the loops over blocks of members and over steps.

    Parameters
    ----------
    program : Program
    state : list of str
        Inputs that a step changes; each is an output of the same name.
    rules : dict of str to bool
        Inputs that vary from step to step, and whether they vary from member to member, too.
    fixed : list of str
        The other inputs.
    """

    def __init__(self, program: Program, state: list[str], rules: dict[str, bool], fixed: list[str]) -> None:
        super().__init__(program, Vectors(LANES))
        self.state, self.rules, self.fixed = state, rules, fixed

    def text(self) -> str:
        """Return the whole module."""
        v = self.v
        v.lines += [
            "define void @recursion(i64 %begin, i64 %end, i64 %count, ptr noalias %fixed, ptr noalias %state, "
            "ptr noalias %rules, ptr noalias %paces) #0 {",
            "entry:",
        ]
        self.starts = [self._loaded("%rules", k, "ptr") for k in range(len(self.rules))]
        self.paces = [self._loaded("%paces", k, "i64") for k in range(len(self.rules))]
        self._loop("block", "entry", "%end", 1, self._block, "%begin")
        v.lines += ["  ret void", "}", "", *v.declared.values()]
        v.lines += ['attributes #0 = { "prefer-vector-width"="512" nounwind }', ""]
        return "\n".join(v.lines)

    def _block(self, block: str) -> str:
        v, program = self.v, self.program
        self._begin()
        fixed, state = (self._row(f"%{name}", block, len(getattr(self, name))) for name in ("fixed", "state"))
        for j, name in enumerate(self.fixed):
            self.values[program.inputs[name]] = self._vector(fixed, j)
        late, used = program.depends({*self.state, *self.rules}), program.used()
        self._steps([k for k in used if not late[k]])
        first = [self._vector(state, j) for j in range(len(self.state))]
        place = len(v.lines) + 3  # after the counter of the steps
        for j, name in enumerate(self.state):
            self.values[program.inputs[name]] = f"%now{j}"

        def step(k: str) -> str:
            for (name, own), start, pace in zip(self.rules.items(), self.starts, self.paces, strict=True):
                row = self._at(start, v.emit(f"mul i64 {k}, {pace}"))
                one = self._vector(self._row(row, block, 1), 0) if own else None
                self.values[program.inputs[name]] = one or self._splat(v.emit(f"load double, ptr {row}"))
            self._steps([k for k in used if late[k]])
            return "step.body"

        self._loop("step", "block.body", "%count", 1, step)
        v.lines[place:place] = [
            f"  %now{j} = phi {v.real} [ {value}, %block.body ], [ {self.values[program.outputs[name]]}, %step.body ]"
            for j, (name, value) in enumerate(zip(self.state, first, strict=True))
        ]
        for j in range(len(self.state)):
            v.lines.append(f"  store {v.real} %now{j}, ptr {self._at(state, str(8 * LANES * j))}, align 8")
        return "step.done"

    def _row(self, base: str, block: str, count: int) -> str:
        return self._at(base, self.v.emit(f"mul i64 {block}, {8 * LANES * count}"))

    def _vector(self, base: str, j: int) -> str:
        return self.v.emit(f"load {self.v.real}, ptr {self._at(base, str(8 * LANES * j))}, align 8")


class Machine:
    """Machine code of a program that maps numbers to those after a step.

    Sums, products, quotients and square roots are bitwise equal to those of NumPy; other functions are within 1.05 ulp.

    Parameters
    ----------
    program : Program
        From `recorded`.
    rules : dict of str to bool
        Inputs that vary from step to step, and whether they vary from member to member, too.
    """

    def __init__(self, program: Program, rules: dict[str, bool]) -> None:
        used = {program.steps[k].data for k in program.used() if program.steps[k].op == "input"}
        self.state = [name for name, k in program.outputs.items() if k != program.inputs[name]]
        self.rules = {name: own for name, own in rules.items() if name in used}
        self.fixed = [name for name in program.inputs if name in used and name not in {*self.state, *self.rules}]
        self.engine, address, self.text, self.assembly = machine_code(
            lambda _: _Writer(program, self.state, self.rules, self.fixed).text(), "recursion"
        )
        whole, pointer = ctypes.c_int64, ctypes.c_void_p
        self.call: Any = ctypes.CFUNCTYPE(None, whole, whole, whole, pointer, pointer, pointer, pointer)(address)

    def __call__(self, given: dict[str, np.ndarray], now: dict[str, np.ndarray], count: int, threads: int) -> None:
        """Take `count` steps in place; `now` and other inputs have shape (members,), varying ones (count,) + that."""
        size = next(iter(now.values())).size
        if not self.state:
            return
        for part in _parts(size, _TILE):
            fixed = _packed([given[name][part] for name in self.fixed])
            state = _packed([now[name][part] for name in self.state])
            rules = [_padded(given[n][:, part] if own else given[n]) for n, own in self.rules.items()]
            starts = np.array([v.ctypes.data for v in rules], dtype=np.uintp)
            paces = np.array([v.strides[0] for v in rules], dtype=np.int64)
            data = [v.ctypes.data for v in (fixed, state, starts, paces)]
            blocks = len(state)
            least = max(1, _SHARE // (LANES * max(count, 1)))
            spans = list(_parts(blocks, max(least, -(-blocks // threads))))
            shared(partial(self._on, count, data), spans, len(spans))
            for j, name in enumerate(self.state):
                now[name][part] = state[:, j].reshape(-1)[: part.stop - part.start]

    def _on(self, count: int, data: list[int], blocks: slice) -> None:
        self.call(blocks.start, blocks.stop, count, *data)


def _parts(size: int, most: int) -> Iterator[slice]:
    """Yield slices of at most `most` entries."""
    return (slice(begin, min(begin + most, size)) for begin in range(0, size, most))


def _padded(v: np.ndarray) -> np.ndarray:
    """Return an array whose last axis, of members if it has two, is repeated up to a whole number of blocks."""
    missing = -v.shape[-1] % LANES if v.ndim > 1 else 0
    return np.ascontiguousarray(np.concatenate([v, np.repeat(v[..., -1:], missing, axis=-1)], axis=-1))


def _packed(values: list[np.ndarray]) -> np.ndarray:
    """Return vectors of members as blocks, shape (blocks, values, LANES)."""
    if not values:
        return np.empty((0, 0, LANES))
    whole = _padded(np.stack(values))
    return np.ascontiguousarray(whole.reshape(len(values), -1, LANES).swapaxes(0, 1))


def recursion(
    key: Any, step: Callable[..., Any], now: Any, given: Any, rules: Any, batch: tuple[int, ...], threads: int | None
) -> Callable[[Any, int, int], Any]:
    """Return a function ``(now, begin, end)`` that takes the steps from `begin` to `end` in machine code.

    Parameters
    ----------
    key : hashable
        Name of the recursion in the cache of machine code.
    step : callable
        Pure function ``(xp, now, given, rule)`` of single numbers that returns the numbers after a step.
    now : tree
        Numbers before a step, which broadcast to `batch`.
    given : tree
        Constants, which broadcast to `batch` if the step uses them.
    rules : tree
        Numbers, or arrays with a leading axis of steps, and then possibly the axes of `batch`.
    batch : tuple of int
    threads : int or None
        One per processor by default.
    """
    trees, most = (now, given, rules), checked_threads(threads)
    leaves = {name: np.asarray(v) for name, v in _leaves(trees).items() if not hasattr(v, "hi")}
    varying = {name: v.ndim > 1 for name, v in leaves.items() if name.startswith("2") and v.ndim > 0}
    whole = (key, tuple(varying.items()), tuple(leaves))
    with _making:
        if whole not in _made:
            _made[whole] = Machine(recorded(step, *trees), varying)
    machine = _made[whole]
    size = int(np.prod(batch, dtype=int))

    def flat(v: np.ndarray) -> np.ndarray:
        return np.broadcast_to(v, batch).reshape(size)

    def flat_steps(v: np.ndarray) -> np.ndarray:
        aligned = v.reshape(len(v), *(1,) * (len(batch) + 1 - v.ndim), *v.shape[1:])
        return np.broadcast_to(aligned, (len(v), *batch)).reshape(len(v), size)

    given = {name: flat(leaves[name]) for name in machine.fixed}
    own = {name: flat_steps(leaves[name]) if wide else leaves[name] for name, wide in machine.rules.items()}

    def take(now: Any, begin: int, end: int) -> Any:
        values = {name: np.array(flat(np.asarray(v))) for name, v in _leaves((now,)).items()}
        machine(given | {name: v[begin:end] for name, v in own.items()}, values, end - begin, most)
        return _replaced(now, "0", lambda path, _: values[path].reshape(batch))

    return take


def descent(problem: Problem, fixed: Any, now: Any, rules: Any, threads: int | None) -> Callable[[Any, int, int], Any]:
    """Return the steps of gradient descent of a `Map` in machine code; see `recursion`."""
    kind = type(problem.flow)

    def step(xp: Any, now: Any, given: Any, rule: Any) -> Any:
        return _made_of(kind, given[1]).advanced(xp, given[0], now, rule)

    return recursion(kind, step, now, (fixed, _parameters(problem.flow)), rules, problem.batch, threads)


def search(problem: Problem, fixed: Any, now: Any, rules: Any, loss: float, threads: int | None) -> Callable[..., Any]:
    """Return a function ``(now, begin, end)`` that takes equal steps in machine code, and finds the first small loss.

    It returns the numbers after the steps, and the first number of steps after which the loss is at most `loss`, inf
    where there is none.
    """
    kind, given = type(problem.flow), (fixed, _parameters(problem.flow), loss)

    def step(xp: Any, now: Any, given: Any, rule: Any) -> Any:
        (before, first, count), flow = now, _made_of(kind, given[1])
        after = flow.advanced(xp, given[0], before, rule)
        low = flow.described(xp, given[0], after)["loss"] <= given[2]
        return after, xp.where(low, xp.minimum(first, count + 1), first), count + 1

    take = recursion((kind, "loss"), step, (now, np.inf, 0.0), given, rules, problem.batch, threads)

    def found(now: Any, begin: int, end: int) -> tuple[Any, np.ndarray]:
        after, first, _ = take((now, np.inf, 0.0), 0, end - begin)
        return after, begin + first

    return found


def _parameters(flow: Any) -> dict[str, Any]:
    """Return the parameters of a flow that are single numbers of each member."""
    return {f.name: getattr(flow, f.name) for f in dataclasses.fields(flow) if not f.metadata["axes"]}


def _made_of(kind: Any, parameters: dict[str, Any]) -> Any:
    """Return a flow of recorded parameters, unchecked."""
    flow = object.__new__(kind)
    for name, value in parameters.items():
        object.__setattr__(flow, name, value)
    return flow
