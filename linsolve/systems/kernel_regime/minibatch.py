r"""Mean and covariance of minibatch SGD on a linear model and a fixed data set, exactly, by a recursion over steps.

The residual of sample i is :math:`x_i \cdot \delta + \rho_i`, with the distance :math:`\delta` of the parameters from
a minimum and the residual :math:`\rho` there, one column for each output. For a step h on the gradient of a minibatch
of m among n samples, the mean of :math:`\delta` follows gradient descent on the loss of all samples. The covariance
C of :math:`\delta` over runs obeys

.. math:: C' = (1 - h S)\, C\, (1 - h S) + h^2 \varphi \Bigl( \frac1n \sum_i q_i x_i x_i^T - S C S - g g^T \Bigr),
    \qquad S = \frac1n X^T X, \quad g = \frac1n X^T (X \delta + \rho) ,

where :math:`q_i` is the mean square of the residual of sample i, and :math:`\varphi` is ``1/m`` with replacement within
a minibatch and ``(n - m)/(m (n - 1))`` without. Minibatches of different steps are independent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import integer, refuse_beyond_memory, shown, step_counts, unknown_name
from linsolve.core.series import NamedSeries
from linsolve.core.trajectory import Deferred
from linsolve.numerics.double_double import power_of_two
from linsolve.systems.kernel_regime.stable_step import step_ratio

__all__ = [
    "Asked",
    "Averages",
    "Model",
    "Sampling",
    "averages",
    "evaluated_steps",
    "sampling",
    "scaled",
    "step_and_fix",
    "without_negative",
]


class Model(NamedTuple):
    """A linear model on a data set, with leading batch axes.

    Parameters
    ----------
    rows : array, shape batch + (n, r)
        Inputs ``X``, one sample a row.
    rest : array, shape batch + (n, o)
        Residuals at ``delta = 0``, one column for each output.
    h : array, shape batch
        Step on the gradient of the mean of the samples' losses.
    phi : array
        Covariance of the mean over a minibatch, relative to that over one sample; 0 where all samples are equal.
    unit : array, shape batch
        Unit of the residuals, a power of two.
    """

    rows: Any
    rest: Any
    h: Any
    phi: Any
    unit: Any = 1.0

    def residual(self, delta: Any) -> Any:
        """Return the mean residuals, shape batch + (n, o)."""
        return self.rows @ delta + self.rest

    def gradient(self, xp: Any, residual: Any) -> Any:
        """Return the gradient of the mean loss, shape batch + (r, o)."""
        return xp.matrix_transpose(self.rows) @ residual / self.rows.shape[-2]

    def squares(self, xp: Any, c: Any, means: Any) -> Any:
        """Return second moments of the residuals, from the covariance of delta and products of mean residuals."""
        return xp.sum((self.rows @ c) * self.rows, axis=-1) + means

    def step_ratio(self) -> np.ndarray:
        """Return the step over the largest one at which mean squares stay bounded, shape batch."""
        return step_ratio(self.rows, self.h, self.phi)

    def covariance(self, xp: Any, c: Any, squares: Any, pull: Any) -> Any:
        """Return the covariance after a step, from the previous covariance, `squares`, and the product ``g g^T``."""
        x, h = self.rows, self.h[..., None, None]
        turned, n = xp.matrix_transpose(x), x.shape[-2]
        second = turned @ x / n
        left, right = second @ c, c @ second
        drawn = turned @ (squares[..., :, None] * x) / n
        return c - h * (left + right) + h**2 * ((1 - self.phi) * left @ second + self.phi * (drawn - pull))


class Sampling(NamedTuple):
    """Draws of a minibatch: samples in all, samples in a minibatch, and whether one may be drawn twice."""

    samples: int
    batch: int
    replacement: bool

    def factor(self, xp: Any) -> Any:
        """Return ``1/m`` with replacement, ``(n - m)/(m (n - 1))`` without."""
        n, m = self.samples, self.batch
        top, bottom = (1, m) if self.replacement else (n - m, m * max(n - 1, 1))
        return arithmetic.cast(xp, float(top)) / arithmetic.cast(xp, float(bottom))

    def __str__(self) -> str:
        """Return the sampling in words."""
        return f"minibatches of {self.batch} of {self.samples}, {'with' if self.replacement else 'without'} replacement"


def scaled(xp: Any, model: Model, start: Any) -> tuple[Model, Any, Any]:
    """Return an equal model and start with rows and residuals of order 1, whose products are doubles.

    The third value is the unit of the rows, a power of two: ``delta`` is in units of ``model.unit`` over it.
    """
    sizes = (xp.max(xp.abs(v), axis=(-2, -1)) for v in (model.rows, model.residual(start)))
    rows, residual = (power_of_two(xp, size) for size in sizes)
    own, rest = rows[..., None, None], residual[..., None, None]
    equal = Model(model.rows * own, model.rest * rest, model.h / rows / rows, model.phi, 1 / residual)
    return equal, start / own * rest, 1 / rows


def step_and_fix(model: Model) -> str:
    """Return the end of an error message: the step relative to the largest stable one, and what to change."""
    ratio = float(np.max(model.step_ratio()))
    diverges, fix = ("SGD diverges: ", "") if ratio > 1 else ("", ", or rescale the residuals")
    return (
        f"{diverges}the step is {ratio:.4g} times largest_step, that of the mean loss); use fewer steps, a smaller "
        f"step or a larger batch{fix}"
    )


def without_negative(xp: Any, covariance: Any) -> Any:
    """Return a covariance whose variances at rounding level are not negative."""
    own = xp.eye(covariance.shape[-1]) > 0
    return xp.where(own & (covariance < 0), xp.zeros_like(covariance), covariance)


def evaluated_steps(who: str, k: Any) -> np.ndarray:
    """Return numbers of steps that are evaluated one by one; at most ten million."""
    return step_counts(who, k, most=10_000_000, fix="each step is evaluated; use fewer")


def sampling(who: str, count: int, batch: Any, replacement: Any) -> Sampling:
    """Return checked arguments of a minibatch.

    Raises
    ------
    ValueError
        If `batch` is no integer from 1 to `count` (without replacement), or `replacement` is neither True nor False.
    """
    if not isinstance(replacement, bool | np.bool_):
        raise ValueError(
            f"{who}: replacement = {shown(replacement)} must be True or False (whether a sample may be drawn twice "
            "into one minibatch); shuffled epochs are not solved, False is the nearest"
        )
    size = integer(who, "batch", batch, meaning="samples in a minibatch", example=min(count, 8))
    if size > count and not replacement:
        raise ValueError(
            f"{who}: batch = {size} must be an integer from 1 to {count} (samples of a minibatch without replacement); "
            f"say at most {count}, or replacement=True"
        )
    return Sampling(count, size, bool(replacement))


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Averages(NamedSeries):
    """Averages over all runs of SGD, by name, each evaluated at its first access.

    Parameters
    ----------
    t : ndarray
        Times, numbers of steps times the length of a step.
    route : str
        The method and the minibatches.
    values : Deferred
        Means and covariances by name.
    model : Model
        The linear model and the step.
    step : float
        Length of a step, in units of time.
    without_spread : str
        Reason why the standard deviation of the loss is missing, if it is.

    Examples
    --------
    >>> import linsolve as ls
    >>> traj = ls.sgd([[0.0]], ([[1.0], [2.0]], [1.0, 3.0]), [0, 1], batch=1, step=0.1)
    >>> traj.keys(), traj["loss"].round(4).tolist()
    (['w1', 'map', 'loss', 'train_loss', 'covariance', 'loss_std'], [2.5, 1.5062])
    """

    flow: ClassVar[None] = None

    t: np.ndarray
    route: str
    values: Deferred
    model: Model
    step: float
    without_spread: str = ""

    def largest_step(self) -> Any:
        """Return the step up to which mean loss and covariance stay bounded, in units of time, shape batch.

        It depends on inputs and minibatches only; see `linsolve.systems.kernel_regime.stable_step`. With larger steps
        the averages grow without bound.
        """
        with np.errstate(divide="ignore"):  # inputs of 0 allow every step
            return self.step / self.model.step_ratio()

    def plot(self, name: str = "loss", ax: Any = None, *, log: bool | None = None, **style: Any) -> Any:
        """Draw an average over time; a loss of one output with a band of one standard deviation of a run.

        Parameters
        ----------
        name : str
        ax : matplotlib Axes, optional
            Axes to draw on; new ones by default.
        log : bool, optional
            Logarithmic vertical axis; by default for a loss that falls by more than a factor of 10. The part of the
            band below 0 is cut off.
        **style
            Passed to ``Axes.plot``.

        Returns
        -------
        matplotlib Axes
        """
        if name not in ("loss", "train_loss"):
            return super().plot(name, ax, log=log, **style)
        ax = super().plot(name, ax, log=log, **{"label": "mean over runs"} | style)
        if "loss_std" in self:
            self._draw_band(ax, arithmetic.to_numpy(self[name]), arithmetic.to_numpy(self["loss_std"]))
        ax.set_ylabel(f"mean of the {ax.get_ylabel()}")
        ax.legend(frameon=False)
        return ax

    def _draw_band(self, ax: Any, mean: np.ndarray, spread: np.ndarray) -> None:
        """Shade one standard deviation around the mean drawn last, between the limits of the axes."""
        bottom, top = ax.get_ylim()
        low, high = np.maximum(mean - spread, bottom), mean + spread
        look = {"color": ax.lines[-1].get_color(), "alpha": 0.25, "linewidth": 0}
        ax.fill_between(self.t, low, high, label="± standard deviation of a run", **look)
        ax.set_ylim(bottom, max(top, 1.05 * high.max()))

    def _unknown(self, name: Any) -> str:
        if name == "loss_std" and self.without_spread:
            return f"sgd: average = 'loss_std' is missing for {self.without_spread}; one of {', '.join(self.keys())}"
        return unknown_name("sgd", "average", name, self.keys())


class Course(NamedTuple):
    """Averages at the wanted steps: ``delta``, its change, mean squares of the residuals, covariances."""

    delta: Any
    moved: Any
    squares: Any
    covariance: Any


def averages(who: str, xp: Any, model: Model, start: Any, k: Any, *, every: bool = False, kept: bool = True) -> Course:
    """Return averages after `k` steps from a deterministic start, with leading axes ``k.shape``.

    Parameters
    ----------
    who : str
        Name for error messages.
    xp : namespace
    model : Model
        Results are in its units, see `scaled`.
    start : array, shape batch + (r, o)
        Initial ``delta``.
    k : array_like of int, any shape
        Numbers of steps.
    every : bool
        Whether to return the covariances of all pairs of outputs, shape batch + (o, o, r, r), instead of their sum over
        equal outputs, shape batch + (r, r). The sum determines the loss.
    kept : bool
        Whether to return the covariances.

    Raises
    ------
    ValueError
        If an entry of `k` is not a whole number, or if the covariances exceed the memory.
    OverflowError
        If the mean loss leaves the range of doubles; the message contains the step.
    """
    counts = evaluated_steps(who, k)
    _refuse_large(who, counts, start, every, kept)
    asked, found = Asked(xp, counts), {}
    unit = np.max(arithmetic.to_numpy(model.unit))
    with np.errstate(over="ignore", invalid="ignore"):  # divergence raises a named error
        for step, now in enumerate(_steps(xp, model, start, every)):
            delta, moved, squares, c = now
            if not bool(xp.all(xp.isfinite(squares * unit * unit))):
                raise OverflowError(
                    f"{who}: k = {counts.max()} is beyond step {step}, at which the mean loss leaves the range of "
                    f"doubles ({step_and_fix(model)}"
                )
            for count in asked.at(step, now):
                found[count] = delta, moved, squares, c if kept else None
            if asked.done:
                break

    def gathered(index: int) -> Any:
        stacked = xp.stack([found[each][index] for each in counts.ravel().tolist()])
        return xp.reshape(stacked, counts.shape + tuple(stacked.shape[1:]))

    return Course(gathered(0), gathered(1), gathered(2), gathered(3) if kept else None)


class Asked:
    """Numbers of steps that are asked of a recursion, until it repeats itself bitwise.

    Rounding ends a recursion that converges in a fixed point or in a cycle of the smallest doubles. At every 64th step,
    values are compared with those 64 steps before and, for long periods, with those at a step that is moved when the
    steps have doubled (Brent). Every later number of steps then has the values of a step within one period.
    """

    def __init__(self, xp: Any, counts: np.ndarray) -> None:
        self.xp = xp
        self.last: tuple[int, Any] = (0, None)  # step and its values
        self.kept: tuple[int, Any] = (0, None)
        self.places = {count: count for count in np.unique(counts).tolist()}

    @property
    def done(self) -> bool:
        """Whether the values of all numbers of steps are known."""
        return not self.places

    def at(self, step: int, now: tuple[Any, ...]) -> list[int]:
        """Return the numbers of steps that have the values `now` of a step; steps are passed in order."""
        if step % 64 == 0:
            for since, values in (self.last, self.kept):
                if step > since and self._equal(values, now):
                    self.places = {count: step + (count - step) % (step - since) for count in self.places}
                    break
            self.last = step, now
            self.kept = self.last if step >= 2 * self.kept[0] else self.kept
        reached = [count for count, place in self.places.items() if place == step]
        for count in reached:
            del self.places[count]
        return reached

    def _equal(self, before: Any, now: tuple[Any, ...]) -> bool:
        return all(bool(self.xp.all(a == b)) for a, b in zip(before, now, strict=True))


def _steps(xp: Any, model: Model, delta: Any, every: bool) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Yield ``delta``, its change, mean squares of the residuals and covariances after 0, 1, 2, ... steps.

    The change is summed separately, because it may be below the rounding errors of ``delta``.
    """
    pairs = model._replace(rows=model.rows[..., None, None, :, :], h=model.h[..., None, None]) if every else model
    moved = 0 * delta
    c = _outer(xp, moved) if every else moved @ xp.matrix_transpose(moved)
    while True:
        residual = model.residual(delta)
        pull = model.gradient(xp, residual)
        squares = pairs.squares(xp, c, _products(xp, residual) if every else xp.sum(residual**2, axis=-1))
        yield delta, moved, squares, c
        push = _outer(xp, pull) if every else pull @ xp.matrix_transpose(pull)
        c = pairs.covariance(xp, c, squares, push)
        move = model.h[..., None, None] * pull
        delta, moved = delta - move, moved - move


def _products(xp: Any, v: Any) -> Any:
    """Return products of the columns of ``v``, shape batch + (o, o, n) from batch + (n, o)."""
    columns = xp.matrix_transpose(v)
    return columns[..., :, None, :] * columns[..., None, :, :]


def _outer(xp: Any, v: Any) -> Any:
    """Return outer products of the columns of ``v``, shape batch + (o, o, r, r) from batch + (r, o)."""
    columns = xp.matrix_transpose(v)
    return columns[..., :, None, :, None] * columns[..., None, :, None, :]


def _refuse_large(who: str, counts: np.ndarray, start: Any, every: bool, kept: bool) -> None:
    width = start.shape[-2] * (start.shape[-1] if every else 1)
    sizes = {"k": counts.size if kept else 1, "parameters": width, "columns": width}
    refuse_beyond_memory(who, sizes, "covariances of the parameters")
