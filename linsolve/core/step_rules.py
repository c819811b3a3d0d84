"""Rules of training steps: lengths, momentum, weight decay and samples of each step, checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import Interval, number, real_array
from linsolve.core.query import Problem

__all__ = ["Course", "Rule", "rules_of"]


class Rule(NamedTuple):
    """One training step: ``v <- momentum v - h rates gradient``, ``weights <- (1 - lost) weights + v``.

    Parameters
    ----------
    h : array
        Length of the step in units of time.
    momentum, lost : array, optional
        Factor of the last move, and share of the weights that decay takes; left out for plain gradient descent.
    weight, target : array, shape batch, optional
        The gradient is that of ``(weight f - target)`` in place of the residual ``f - y``, for a batch of samples.

    Examples
    --------
    >>> from linsolve.core.step_rules import Rule
    >>> Rule(0.1).plain, Rule(0.1, momentum=0.9, lost=0).plain
    (True, False)
    """

    h: Any
    momentum: Any = None
    lost: Any = None
    weight: Any = None
    target: Any = None

    @property
    def plain(self) -> bool:
        """Whether momentum, decay and samples are absent."""
        return self.momentum is None


class Course(NamedTuple):
    """The rules of all steps, in the namespace of a problem."""

    xp: Any
    lengths: np.ndarray
    momentum: float
    decay: float
    samples: tuple[Any, Any] | None

    def whole(self) -> Rule:
        """Return the rules of all steps: numbers, or arrays with an entry for each step."""
        h, momentum, decay = (arithmetic.cast(self.xp, v) for v in (self.lengths, self.momentum, self.decay))
        if self.momentum == 0 and self.decay == 0 and self.samples is None:
            return Rule(h)
        return Rule(h, momentum, h * decay, *(self.samples or (None, None)))

    def steps(self) -> Callable[[int], Rule]:
        """Return a function of the number of a step, counted from 0, that returns its rule."""
        whole = self.whole()
        return lambda step: Rule(*(v if v is None or v.ndim == 0 else v[step] for v in whole))

    def times(self, counts: np.ndarray) -> Any:
        """Return the times after numbers of steps."""
        with np.errstate(over="ignore"):  # a time beyond doubles is inf
            whole = self.lengths.ndim > 0
            reached = np.concatenate([[0.0], np.cumsum(self.lengths)])[counts] if whole else self.lengths * counts
        return arithmetic.cast(self.xp, reached)


def rules_of(who: str, problem: Problem, last: int, given: tuple[Any, Any, Any, Any]) -> Course:
    """Return the checked rules of `last` steps from step, momentum, decay and samples."""
    step, momentum, decay, samples = given
    lengths = np.asarray(real_array(who, "step", step, meaning="units of time", domain=Interval("(0, inf)")))
    _refuse_short(who, "step", lengths.shape, last, 1)
    momentum = number(who, "momentum", momentum, meaning="of the heavy ball", domain="[0, 1)", example=0.9)
    decay = number(who, "decay", decay, meaning="rate of weight decay", domain="[0, inf)", example=0.1)
    for name, value in (("momentum", momentum), ("decay", decay)):
        if value != 0 and name not in problem.flow.rules:
            raise ValueError(
                f"{who}: {name} = {value:g} must be 0 (the state of {type(problem.flow).__name__} does not hold the "
                "layers' moves); use TwoLayer or HiddenMode"
            )
    with np.errstate(over="ignore"):
        most = 1 / lengths.max()
    if decay >= most:
        raise ValueError(f"{who}: decay = {decay:g} must be below 1/step = {most:g} (rate of weight decay); reduce it")
    if samples is None:
        return Course(problem.xp, lengths, momentum, decay, None)
    if "samples" not in problem.flow.rules:
        raise ValueError(f"{who}: samples must be left out (data on a line of inputs); use TwoLayer")
    found = problem.flow.sampled(who, problem.xp, samples)
    _refuse_short(who, "samples[2]", found[0].shape, last, None)
    return Course(problem.xp, lengths, momentum, decay, found)


def _refuse_short(who: str, name: str, shape: tuple[int, ...], last: int, most: int | None) -> None:
    """Raise ValueError unless there is an entry for each step."""
    if most is not None and len(shape) > most:
        raise ValueError(f"{who}: {name} has shape {shape} but must be one number or one for each step; say 0.1")
    if shape and shape[0] < last:
        raise ValueError(
            f"{who}: {name} has {shape[0]} entries along its first axis but must have one for each of "
            f"k = {last} steps; give more, or use fewer steps"
        )
