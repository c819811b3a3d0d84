"""Maps: k finite steps of gradient descent, exactly, through few numbers of each network."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import choice, integer, number, step_counts
from linsolve.core.flow import Flow
from linsolve.core.integrate import is_finite
from linsolve.core.named_arguments import named_arguments
from linsolve.core.parameters import batch_shape
from linsolve.core.query import Problem, iterator, library, pose
from linsolve.core.step_rules import Course, Rule, rules_of
from linsolve.core.trajectory import Trajectory

__all__ = ["Divergence", "Map", "Take", "chunks"]

UNDERFLOW = 2.0**-900  # a loss that vanishes in one step from above this value is 0
Take = Callable[[Any, int, int], Any]  # from the numbers after `begin` steps to those after `end`


class Divergence(ArithmeticError):
    """Gradient descent that leaves the range of doubles after `step` steps."""

    def __init__(self, message: str, step: int = 0) -> None:  # pickle calls it with the message alone
        super().__init__(message)
        self.step = step


class Map(Flow):
    """A flow whose gradient descent is also solved: the weights after k finite steps, at any width.

    A step of descent changes few numbers of a network. A subclass defines four pure functions: `reduced`, the numbers
    of an initial state; `advanced`, the numbers after one step; `restored`, the state with these numbers; and
    `described`, its observables. By default the state itself is stepped, by `Flow.step`. `verify` compares
    the result with steps of the raw weights, to all digits.

    Examples
    --------
    >>> import linsolve as ls
    >>> flow, z0 = ls.TwoLayer(y=1.0, x=[1.0]), ([0.5], [[0.5]])
    >>> traj = flow.discrete([0, 1, 2], z0, step=0.1)
    >>> traj["u"].ravel().round(6).tolist()  # u <- u - 2 step (u w - 1) w
    [0.5, 0.575, 0.651978]
    """

    rules: ClassVar[tuple[str, ...]] = ()  # of "momentum", "decay" and "samples", those that the reduction includes

    def reduced(self, xp: Any, z0: Any) -> tuple[Any, Any]:
        """Return constants of the training, and the numbers that a step changes."""
        return None, z0

    def advanced(self, xp: Any, fixed: Any, now: Any, rule: Rule) -> Any:
        """Return the numbers after one step."""
        return self.step(xp, now, rule.h)

    def repeated(self, xp: Any, fixed: Any, now: Any, rule: Rule, count: int, take: Take) -> Any:
        """Return the numbers after `count` equal steps; ``take(now, 0, n)`` returns those after n steps."""
        for length in chunks(count):
            now = take(now, 0, length)
            if arithmetic.readable(*now) and _same(now, take(now, 0, 1)):
                break
        return now

    def restored(self, xp: Any, z0: Any, fixed: Any, now: Any) -> Any:
        """Return the state with these numbers."""
        return now

    def described(self, xp: Any, fixed: Any, now: Any) -> Mapping[str, Any]:
        """Return observables from the numbers, more accurate than from the state, by name; `loss` among them."""
        return {}

    def curvature(self, xp: Any, z: Any) -> Any:
        """Return the sharpness of a state: a step h is stable at a minimum if ``h curvature < 2``; None if unknown."""
        return self.described(xp, *self.reduced(xp, z)).get("sharpness")

    def sampled(self, who: str, xp: Any, samples: Any) -> tuple[Any, Any]:
        """Return weight and target of each step, shape (K,) + batch, from samples and their weights at each step."""
        raise NotImplementedError

    @named_arguments()
    def discrete(
        self,
        k: Any,
        z0: Any,
        *,
        step: Any,
        momentum: float = 0.0,
        decay: float = 0.0,
        samples: Any = None,
        max_steps: int = 2_000_000,
        engine: str | None = None,
        threads: int | None = None,
    ) -> Trajectory:
        """Return the exact result of `k` steps of gradient descent, not its approximation by gradient flow.

        ``invariant`` of two layers is ``A B``, which the flow conserves and a step multiplies by ``(1 - e^2)^2``.
        Flows with this method: `TwoLayer`, `HiddenMode`, `LazyTwoLayer`, `TwoLayerOrder`, `BalancedMode`, `DeepMode`;
        `FrozenKernel` has one of its own, in closed form.

        Parameters
        ----------
        k : array_like of int, any shape
            Numbers of steps.
        z0 : State, tuple, mapping, or array for a state of one field
            Initial state, each field of shape ``batch + own``.
        step : float or array_like, shape (K,)
            Length of a step in units of time, positive, or one for each step, with K at least the largest `k`.
        momentum : float
            Momentum of the heavy ball, in [0, 1), started at rest: ``v <- momentum v - step rates gradient``.
        decay : float
            Rate of decoupled weight decay, per unit of time, the same for all weights: ``w <- (1 - step decay) w + v``.
        samples : tuple of array_like, optional
            Samples ``X``, shape (N, d0), on the line of the flow's input, targets ``y``, shape (N,), and the weight of
            each sample at each step, shape (K, N) or (K,) + batch + (N,). A step then descends the loss
            ``sum_n weight_n (f(x_n) - y_n)^2``; a minibatch of m samples has m weights of 1/m.
        max_steps : int
            Largest number of steps.
        engine : str, optional
            "plain", the default, evaluates the steps in the state's library. "compiled" (extra ``[fast]``) evaluates
            them in machine code, for NumPy states. For two layers and balanced modes the results are bitwise equal if
            the state has batch axes; NumPy rounds powers of single numbers differently. Powers and exponentials of
            `DeepMode` are accurate to 1.05 ulp in each step.
        threads : int, optional
            Number of threads of "compiled"; by default as for the flow itself.

        Returns
        -------
        Trajectory
            At the times reached; fields have shape ``k.shape + batch + own``. Its observables refer to the flow's loss.

        Raises
        ------
        ValueError
            If an argument is invalid, or if the flow's descent is not reduced with momentum, decay or samples.
        TypeError
            If JAX traces the number of steps or their rules; the flow and the start may be traced.
        ModuleNotFoundError
            If the engine is "compiled" and the extra is not installed.
        ArithmeticError
            If the weights leave the range of doubles; the message contains the step. An observable of finite weights
            that leaves it raises OverflowError, an ArithmeticError, at its access.

        Notes
        -----
        Accuracy in doubles: 1e-13 relative to the weights, where descent converges. Chaotic descent amplifies rounding
        errors, as any simulation does; give the initial state in ``linsolve.arithmetic.precise(60)`` there.
        """
        who = f"{type(self).__name__}.discrete"
        _refuse_traced(who, k=k, step=step, momentum=momentum, decay=decay)
        counts = step_counts(who, k)
        most = integer(who, "max_steps", max_steps, meaning="steps to take", high=2**53, example=2_000_000)
        if counts.max() > most:
            raise ValueError(
                f"{who}: k = {counts.max()} must be at most {most} (numbers of steps); raise max_steps, or reduce k"
            )
        problem = pose(self, counts, z0)
        course = rules_of(who, problem, int(counts.max()), (step, momentum, decay, samples))
        if course.samples is not None:
            shapes = {"z0": problem.batch, "samples[2]": tuple(course.samples[0].shape[1:])}
            problem = problem._replace(batch=batch_shape(who, shapes))
        flow, xp = problem.flow, problem.xp
        compiled = _is_compiled(who, engine, threads, xp)
        with np.errstate(over="ignore", invalid="ignore"):  # divergence raises a named error
            fixed, now = flow.reduced(xp, problem.z0)
            wanted = np.unique(counts)
            if compiled:
                take = iterator("descent", problem, fixed, now, course.whole(), threads)
            else:
                take = _plainly(problem, fixed, course)
            kept = _followed(who, problem, (fixed, now), course, wanted, take)
            now = _gathered(problem, kept, np.searchsorted(wanted, counts))
            state = flow.restored(xp, problem.z0, fixed, now)
            start = xp.reshape(problem.t, problem.t.shape + (1,) * len(problem.batch)) == 0
            state = type(state)(*_unmoved(problem, start, state))
            given = dict(flow.described(xp, fixed, now))
        return Trajectory(flow, course.times(counts), state, "gradient descent, reduced", problem.z0, given=given)

    def first_step(
        self,
        z0: Any,
        *,
        loss: Any,
        step: float,
        max_steps: int = 1_000_000,
        engine: str | None = None,
        threads: int | None = None,
    ) -> Any:
        """Return the smallest number of equal steps after which the loss is at most `loss`, inf beyond `max_steps`.

        The steps are those of plain gradient descent, without schedules, momentum or decay.

        Parameters
        ----------
        z0 : State, tuple, mapping, or array for a state of one field
            Initial state, each field of shape ``batch + own``.
        loss : float
            Value to be reached, not negative. A loss that tends to 0 below the doubles does not reach 0.
        step : float
            Length of a step in units of time.
        max_steps : int
            Largest number of steps.
        engine, threads : optional
            As for `discrete`.

        Returns
        -------
        array, shape batch
            Numbers of steps. A member that diverges has inf.

        Raises
        ------
        ValueError
            If an argument is invalid.

        Examples
        --------
        >>> from linsolve import BalancedMode
        >>> BalancedMode(s=[3.0, 1.0]).first_step(1e-3, loss=0.01, step=0.01).tolist()
        [184.0, 437.0]
        """
        who = f"{type(self).__name__}.first_step"
        _refuse_traced(who, loss=loss, step=step, start=z0, flow=self)
        loss = number(who, "loss", loss, meaning="value to be reached", domain="[0, inf)", example=0.01)
        most = integer(who, "max_steps", max_steps, meaning="steps to take", high=2**53, example=1_000_000)
        problem = pose(self, 0.0, z0)
        step = number(who, "step", step, meaning="units of time", example=1e-3)
        course = rules_of(who, problem, 1, (step, 0.0, 0.0, None))
        flow, xp = problem.flow, problem.xp
        compiled = _is_compiled(who, engine, threads, xp)
        with np.errstate(over="ignore", invalid="ignore"):  # a member that diverges never reaches the loss
            fixed, now = flow.reduced(xp, problem.z0)
            rule = course.whole()
            value = arithmetic.to_numpy(self._loss(flow, xp, problem.z0, (fixed, now)))
            found = np.where(value <= loss, 0.0, np.full(problem.batch, np.inf))
            if compiled:
                take = iterator("search", problem, fixed, now, rule, loss, threads)
            else:
                take = self._search(problem, fixed, rule, loss)
            done = 0
            for length in chunks(most):
                if not (np.isinf(found) & _alive(now)).any():
                    break
                now, first = take(now, done, done + length)
                found, done = np.minimum(found, first), done + length
                if _same(now, flow.advanced(xp, fixed, now, rule)):
                    break
        if loss == 0 and np.any((found > 0) & np.isfinite(found)):
            small = self.first_step(z0, loss=UNDERFLOW, step=step, max_steps=most, engine=engine, threads=threads)
            found = np.where(small < found, np.inf, found)  # it passed small values and vanished by underflow
        return found

    @staticmethod
    def _search(problem: Problem, fixed: Any, rule: Rule, loss: float) -> Callable[..., Any]:
        """Return a function that takes equal steps, and returns the first number of them after which a loss is low."""
        flow, xp = problem.flow, problem.xp

        def take(now: Any, begin: int, end: int) -> tuple[Any, np.ndarray]:
            found = np.full(problem.batch, np.inf)
            for count in range(begin + 1, end + 1):
                now = flow.advanced(xp, fixed, now, rule)
                value = arithmetic.to_numpy(Map._loss(flow, xp, problem.z0, (fixed, now)))
                found = np.where((value <= loss) & np.isinf(found), count, found)
                if not np.isinf(found).any():
                    break
            return now, found

        return take

    @staticmethod
    def _loss(flow: Map, xp: Any, z0: Any, at: tuple[Any, Any]) -> Any:
        given = flow.described(xp, *at)
        return given["loss"] if given else flow.loss(xp, flow.restored(xp, z0, *at))


def _refuse_traced(who: str, **given: Any) -> None:
    """Raise if JAX traces an argument whose value decides about the steps."""
    for name, value in given.items():
        leaves = [value]
        if name in ("start", "flow") and "jax" in sys.modules:
            leaves = sys.modules["jax"].tree.leaves(value)
        if any(map(arithmetic.is_traced, leaves)):
            differentiable = "; differentiate discrete by the flow and the start" if name != "flow" else ""
            raise TypeError(
                f"{who}: {name} is traced by JAX but must be known (it decides which steps are taken); close over its "
                f"value, or call outside jax.jit, jax.vmap and jax.grad{differentiable}"
            )


def chunks(count: int) -> Iterator[int]:
    """Yield numbers of steps, 64 first and then doubled, that add up to `count`."""
    length = 64
    while count > 0:
        yield min(length, count)
        count, length = count - length, 2 * length


def _alive(now: Any) -> np.ndarray:
    """Return where all numbers are finite."""
    return np.all([np.isfinite(v) for v in np.broadcast_arrays(*map(arithmetic.to_numpy, now))], axis=0)


def _is_compiled(who: str, engine: str | None, threads: Any, xp: Any) -> bool:
    """Return whether the engine is "compiled"; check that it is an engine for this library."""
    if threads is not None:
        integer(who, "threads", threads, meaning="number of threads", example=2)
    if engine is not None:
        choice(who, "engine", engine, ("plain", "compiled"))
    if engine == "compiled" and xp is not np:
        raise ValueError(f"{who}: engine = 'compiled' must be 'plain' for arrays of {library(xp)}; leave it out")
    return engine == "compiled"


def _plainly(problem: Problem, fixed: Any, course: Course) -> Take:
    """Return a function that takes steps in the library of the state."""
    flow, xp, rule = problem.flow, problem.xp, course.steps()

    def take(now: Any, begin: int, end: int) -> Any:
        for index in range(begin, end):
            now = flow.advanced(xp, fixed, now, rule(index))
        return now

    return take


def _followed(
    who: str, problem: Problem, start: tuple[Any, Any], course: Course, wanted: np.ndarray, take: Take
) -> list[Any]:
    """Return the numbers after each of the wanted counts of steps, ascending."""
    flow, xp = problem.flow, problem.xp
    fixed, now = start
    kept, done = [], 0
    rule = course.whole() if course.lengths.ndim == 0 and course.samples is None else None
    for count in wanted.tolist():
        after = take(now, done, count) if rule is None else flow.repeated(xp, fixed, now, rule, count - done, take)
        if not _finite(after):
            advice = _smaller(problem, course)
            _refuse_divergence(who, problem, now, course, (done, count, int(wanted[-1])), take, advice)
        now, done = after, count
        kept.append(now)
    return kept


def _same(before: Any, now: Any) -> bool:
    """Return whether a step changed nothing, so that no later one will."""
    return arithmetic.readable(*now) and all(
        np.array_equal(arithmetic.to_numpy(a), arithmetic.to_numpy(b)) for a, b in zip(before, now, strict=True)
    )


def _finite(now: Any) -> bool:
    """Return whether all numbers are finite, or are traced by JAX."""
    return not arithmetic.readable(*now) or is_finite(now)


def _refuse_divergence(
    who: str, problem: Problem, now: Any, course: Course, steps: tuple[int, int, int], take: Take, smaller: str
) -> None:
    """Raise Divergence that names the first step at which a number is beyond doubles, by bisection."""
    low, high, last = steps
    while high - low > 1:
        middle = (low + high) // 2
        after = take(now, low, middle)
        if _finite(after):
            now, low = after, middle
        else:
            high = middle
    lost = _lost(problem, take(now, low, high))
    raise Divergence(
        f"{who}: {type(problem.flow).__name__} leaves the range of doubles at step {high} of k = {last} "
        f"(descent diverges); {lost}; use fewer steps, or {smaller}",
        high,
    )


def _smaller(problem: Problem, course: Course) -> str:
    """Return a step in words that is stable at the start and at the limit, where the flow has a sharpness there."""
    flow, xp, z0 = problem.flow, problem.xp, problem.z0
    ends = {"start": z0}
    with np.errstate(all="ignore"):
        if type(flow).limit is not Flow.limit:
            ends["limit"] = flow.limit(xp, z0)
        known = {name: flow.curvature(xp, z) for name, z in ends.items()}
        sharp = {name: float(np.max(arithmetic.to_numpy(each))) for name, each in known.items() if each is not None}
    stable = {name: 2 / each for name, each in sharp.items() if 0 < each < np.inf}
    least = min(stable.values(), default=np.inf)
    if not least < float(np.max(course.lengths)):
        return "a much smaller step"
    where = ", ".join(f"{each:.3g} at the {name}" for name, each in stable.items())
    return f"a step below {least:.3g} (2/sharpness: {where})"


def _lost(problem: Problem, after: Any) -> str:
    """Return the first member with an infinite number in words, and whether it is of the output or of the weights."""
    count, found = len(problem.batch), {}
    for name, value in zip(after._fields, after, strict=True):
        bad = ~np.isfinite(arithmetic.to_numpy(value))
        found[name] = np.broadcast_to(bad.any(axis=tuple(range(count, bad.ndim))), problem.batch)
    member = tuple(np.argwhere(np.any(list(found.values()), axis=0))[0].tolist())
    names = {name.removeprefix("low_") for name, bad in found.items() if bad[member]}
    what = "the output leaves it" if names <= {"residual", "gap"} else "the weights leave it"
    return what + (f" first, at member {list(member)} of the batch" if member else " first")


def _gathered(problem: Problem, kept: list[Any], where: np.ndarray) -> Any:
    """Return numbers of shape ``where.shape + batch``."""
    xp, fields = problem.xp, []
    for values in zip(*kept, strict=True):
        full = [xp.broadcast_to(v, problem.batch) for v in values]
        stacked = xp.stack([full[i] for i in where.ravel()])
        fields.append(xp.reshape(stacked, where.shape + problem.batch))
    return type(kept[0])(*fields)


def _unmoved(problem: Problem, start: Any, state: Any) -> Iterator[Any]:
    """Yield the fields of a state, bitwise the initial state where no step was taken."""
    for name, value, initial in zip(state._fields, state, problem.z0, strict=True):
        own = len(problem.flow.axes[name])
        here = problem.xp.reshape(start, tuple(start.shape) + (1,) * own)
        yield problem.xp.where(here, initial, value)
