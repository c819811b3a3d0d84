"""The main job: a data set and a two-layer linear network, followed exactly, by an ODE integrator and by descent."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from linsolve.data.reading import Dataset
from linsolve.data.whitening import Modes, Whitened, modes_of, whiten
from linsolve.flow import Trajectory
from linsolve.flows.whitened_two_layer import WhitenedTwoLayer
from linsolve.integrate import descend, integrate
from linsolve.simulate import simulate

__all__ = ["Difference", "Learned", "horizon", "learn"]

POINTS = 200  # fewer where the states are so large that as many of them would not fit
ENTRIES = 15_000_000
SMALL = 400  # matrices of fewer rows are multiplied faster by one thread than by several that wait for each other
MOST_STEPS = 5_000_000


class Difference(NamedTuple):
    """How far a simulation is from the closed form, at its worst time.

    Parameters
    ----------
    product : float
        Of the network's map, in the Frobenius norm, relative to the largest that it becomes.
    loss : float
        Of the loss, relative to the loss at the start.
    """

    product: float
    loss: float


@dataclasses.dataclass(frozen=True, eq=False)
class Learned:
    """One network on one data set, followed along three roads; `learn` makes it.

    Parameters
    ----------
    dataset : Dataset
    problem : Whitened
        The data set with white inputs.
    modes : Modes
        Singular modes of the map to be learned.
    settings : dict
        Width, scale, imbalance, rate, step, seed, as used.
    exact, integrated, descended, halved : Trajectory
        Closed form; ODE integrator; gradient descent with the step and with half of it. All on the same times.
    differences : dict of Difference
        ``"integrated"``, ``"descended"``, ``"halved"``, each from the closed form.
    seconds : dict of float
        Wall time of each road.
    obstructed : bool
        Whether parity keeps this start from the target: the exact solution then ends on a saddle.
    """

    dataset: Dataset
    problem: Whitened
    modes: Modes
    settings: dict[str, Any]
    exact: Trajectory
    integrated: Trajectory
    descended: Trajectory
    halved: Trajectory
    differences: dict[str, Difference]
    seconds: dict[str, float]
    obstructed: bool

    @property
    def order(self) -> float:
        """How much closer half the step comes to the closed form; 2 for a method of first order."""
        half = self.differences["halved"].product
        return self.differences["descended"].product / half if half > 0 else math.nan

    def accuracy(self) -> np.ndarray | None:
        """Return the fraction of samples whose class the exact network tells at each time; None without classes."""
        if not self.dataset.classes:
            return None
        truth = self.dataset.targets.argmax(axis=1)
        outputs = (self.problem.predict(product, self.dataset.inputs) for product in self.exact["product"])
        return np.array([np.mean(output.argmax(axis=1) == truth) for output in outputs])


def learn(
    dataset: Dataset,
    *,
    width: int | None = None,
    scale: float = 1e-3,
    imbalance: float = 0.0,
    rate: float = 1.0,
    step: float | None = None,
    seed: int = 0,
) -> Learned:
    """Train a two-layer linear network on a data set: exactly, by an ODE integrator, and by gradient descent.

    Inputs are whitened in their span and centered, as the closed form needs. The two simulations follow the weights.

    Parameters
    ----------
    dataset : Dataset
        From ``data.load``.
    width : int, optional
        Hidden units; by default the smaller of the numbers of white inputs and outputs.
    scale : float
        Size of the random initial weights, as in ``WhitenedTwoLayer.init``.
    imbalance : float
        ``w2.T @ w2 - w1 @ w1.T`` is this times the identity; positive needs ``width <= n_out``, negative
        ``width <= rank``.
    rate : float
        Learning rate; its inverse is the time constant `tau`.
    step : float, optional
        Step of the descent in units of time; by default 2 percent of the largest with which descent settles,
        ``tau / hypot(s_max, imbalance / 2)``.
    seed : int
        Seed of the weights.

    Returns
    -------
    Learned

    Raises
    ------
    ValueError
        If an option is not what it must be.
    ArithmeticError
        If the descent diverges: the step is too large.
    """
    _refuse_options(width, scale, imbalance, rate, step, seed)
    problem = whiten(dataset.inputs, dataset.targets)
    modes, (n_out, n_in) = modes_of(problem.target), problem.target.shape
    width = min(n_in, n_out) if width is None else width
    flow = WhitenedTwoLayer(problem.target, tau=1 / rate)
    rng = np.random.default_rng(seed)
    weights = WhitenedTwoLayer.init(n_in, width, n_out, scale=scale, imbalance=imbalance, rng=rng)
    start = WhitenedTwoLayer.of(*weights)
    step = _step(step, modes.s[0], imbalance, 1 / rate)
    points = max(20, min(POINTS, ENTRIES // ((n_in + n_out) * max(n_in + n_out, width))))
    t = _times(horizon(modes, start, width, 1 / rate, imbalance), step, points)
    seconds: dict[str, float] = {}
    roads = {
        "exact": lambda: flow(t, start),
        "integrated": lambda: simulate(integrate, flow, t, weights),
        "descended": lambda: simulate(descend, flow, t, weights, step=step),
        "halved": lambda: simulate(descend, flow, t, weights, step=step / 2),
    }
    with threadpool_limits(1 if n_in + n_out < SMALL else None, user_api="blas"):
        trajs = {name: _timed(seconds, name, road) for name, road in roads.items()}
    differences = {name: _difference(trajs[name], trajs["exact"]) for name in list(trajs)[1:]}
    used = {"width": width, "scale": scale, "imbalance": imbalance, "rate": rate, "step": step, "seed": seed}
    obstructed = bool(flow.obstructed(np, start))
    return Learned(
        dataset, problem, modes, used, **trajs, differences=differences, seconds=seconds, obstructed=obstructed
    )


def horizon(modes: Modes, start: Any, width: int, tau: float, imbalance: float = 0.0) -> float:
    """Return a time by which all leading modes have been learned, with some margin.

    A mode of strength `s` that starts with strength `a` grows as ``exp(2 f t / tau)``, ``f = hypot(s, imbalance / 2)``,
    and saturates at ``s``. It is at 99 percent when ``t = tau / (2 f) log(99 (s - a) / a)``; here ``a`` is the start's
    weight on the growing direction, ``|w1 v + w2.T u|^2 / 4``, and the slowest mode counts of those that the hidden
    layer has room for and that are at least 5 percent of the strongest. A hidden layer without room for all modes also
    has to turn to the strongest, which takes ``tau / (2 (f - f_next)) log(99)``; for that, at most four times as long
    is waited. One tenth is added so that the end can be seen.
    """
    grow = np.hypot(modes.s, imbalance / 2)
    lead = modes.s[: max(1, min(width, len(modes.s)))]
    lead = lead[lead >= 0.05 * lead[0]]
    u, v = modes.u[:, : len(lead)], modes.v[:, : len(lead)]
    a = np.sum(v * (start.gram_in @ v), axis=0) + np.sum(u * (start.gram_out @ u), axis=0)
    a = np.clip(a / 4 + np.sum(u * (start.product @ v), axis=0) / 2, 1e-30 * lead, lead / 2)
    end = np.max(tau / (2 * grow[: len(lead)]) * np.log(99 * (lead - a) / a))
    if width < len(modes.s):
        gap = grow[width - 1] - grow[width]
        end = max(end, min(4 * end, tau * np.log(99) / (2 * gap) if gap > 0 else np.inf))
    return float(1.1 * end)


def _step(step: float | None, strongest: float, imbalance: float, tau: float) -> float:
    """Return the step of the descent, refused beyond ``tau / f``, where descent no longer settles at the minimum."""
    limit = float(tau / np.hypot(strongest, imbalance / 2))
    if step is None:
        return 0.02 * limit
    if step >= limit:
        raise ValueError(
            f"learn: step = {step:g} must be below {limit:.4g} (beyond it gradient descent does not settle); take less"
        )
    return step


def _times(end: float, step: float, points: int) -> np.ndarray:
    """Return about that many times from 0 past `end`, all whole multiples of the step."""
    count = math.ceil(end / step)
    if count > MOST_STEPS:
        raise ValueError(
            f"learn: step = {step:g} takes {count} steps to t = {end:.3g}, more than {MOST_STEPS}; take a larger step"
        )
    stride = math.ceil(count / points)
    return step * stride * np.arange(math.ceil(count / stride) + 1)


def _timed(seconds: dict[str, float], name: str, road: Callable[[], Trajectory]) -> Trajectory:
    begin = time.perf_counter()
    traj = road()
    seconds[name] = time.perf_counter() - begin
    return traj


def _difference(found: Trajectory, exact: Trajectory) -> Difference:
    size = np.linalg.norm(exact["product"], axis=(-2, -1)).max()
    product = np.linalg.norm(found["product"] - exact["product"], axis=(-2, -1)).max() / size
    loss = np.abs(found["loss"] - exact["loss"]).max() / exact["loss"][0]
    return Difference(float(product), float(loss))


def _refuse_options(
    width: int | None, scale: float, imbalance: float, rate: float, step: float | None, seed: int
) -> None:
    if width is not None and width < 1:
        raise ValueError(f"learn: width = {width} must be at least 1 (hidden units)")
    positive = {"scale": (scale, "size of the initial weights"), "rate": (rate, "learning rate")}
    if step is not None:
        positive["step"] = (step, "step of the descent in units of time")
    for name, (value, meaning) in positive.items():
        if not 0 < value < math.inf:
            raise ValueError(f"learn: {name} = {value} must be positive and finite ({meaning})")
    if not math.isfinite(imbalance):
        raise ValueError(f"learn: imbalance = {imbalance} must be finite (difference of the layers' Gram matrices)")
    if seed < 0:
        raise ValueError(f"learn: seed = {seed} must not be negative (seed of the weights)")
