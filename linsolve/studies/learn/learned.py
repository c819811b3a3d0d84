"""Result of `learn`: one network on one data set along three routes, and their differences."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from linsolve.core.trajectory import Trajectory
from linsolve.data.dataset import Dataset
from linsolve.data.whitening import Modes, Whitened
from linsolve.studies.comparison import timed

__all__ = [
    "BUDGET",
    "ENTRIES",
    "POINTS",
    "Difference",
    "Learned",
    "followed",
    "refuse_options",
    "sampled_times",
    "stable_step",
]

POINTS = 200  # number of times; fewer for large states
ENTRIES = 15_000_000
MOST_STEPS = 5_000_000  # for two layers, some minutes; fewer for more layers
BUDGET = 4 * MOST_STEPS  # of `descend`; `sampled_times` refuses more before any work
DEEPEST = 1000
WIDEST = 100_000
LARGEST = 1e30  # largest option, and one over the smallest, whose powers stay in the range of doubles


class Difference(NamedTuple):
    """Largest distance of a simulation from the closed form over time.

    Parameters
    ----------
    product : float
        Distance of the network's map, in the Frobenius norm, relative to its largest norm.
    loss : float
        Distance of the loss, relative to the loss at the start.
    """

    product: float
    loss: float


@dataclasses.dataclass(frozen=True, eq=False)
class Learned:
    """One network on one data set, trained along three routes; returned by `learn`.

    Parameters
    ----------
    dataset : Dataset
    problem : Whitened
        The data set with white inputs.
    modes : Modes
        Singular modes of the map to be learned.
    settings : dict
        Depth, width, scale, imbalance, rate, step, seed, as used.
    exact, integrated, descended, halved : Trajectory
        Closed form; ODE integrator; gradient descent with the step and with half of it; all at the same times.
    differences : dict of Difference
        ``"integrated"``, ``"descended"``, ``"halved"``, each from the closed form; ``"theory"``, the distance of the
        simulated descent from its exact theory.
    seconds : dict of float
        Wall time of each route.
    obstructed : bool
        Whether parity makes the target unreachable, so that the exact solution ends on a saddle.
    network : DeepNetwork, optional
        The network with its layers, if it starts aligned.
    theory : Trajectory, optional
        Exact theory of gradient descent.
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
    obstructed: bool = False
    network: Any = None
    theory: Trajectory | None = None

    @property
    def order(self) -> float:
        """Error ratio when the step is halved; 2 for a method of first order."""
        half = self.differences["halved"].product
        return self.differences["descended"].product / half if half > 0 else math.nan

    def accuracy(self) -> np.ndarray | None:
        """Return the accuracy of the exact network on the samples at each time; None without classes."""
        if not self.dataset.classes:
            return None
        truth = self.dataset.targets.argmax(axis=1)
        outputs = (self.problem.predict(product, self.dataset.inputs) for product in self.exact["product"])
        return np.array([np.mean(output.argmax(axis=1) == truth) for output in outputs])


def followed(ways: Mapping[str, Callable[[], Trajectory]], size: int) -> dict[str, Any]:
    """Evaluate each route, ``"exact"`` first, and return the fields of `Learned` that depend on it."""
    found = timed(ways, size)
    others = [name for name in ways if name not in ("exact", "theory")]
    differences = {name: _difference(found.routes[name], found.routes["exact"]) for name in others}
    if "theory" in ways:
        differences["theory"] = _difference(found.routes["descended"], found.routes["theory"])
    return {**found.routes, "differences": differences, "seconds": found.seconds}


def stable_step(step: float | None, limit: float) -> float:
    """Return the step of the descent, a fiftieth of the limit by default; raise if it reaches the limit."""
    if step is None:
        return 0.02 * limit
    if step >= limit:
        raise ValueError(
            f"learn: step = {step:g} must be below {limit:.4g} (beyond it gradient descent does not settle); reduce it"
        )
    return step


def sampled_times(end: float, step: float, points: int, depth: int = 2) -> np.ndarray:
    """Return about `points` times from 0 past `end`, all whole multiples of the step."""
    count, most = math.ceil(end / step), 2 * MOST_STEPS // max(depth, 2)
    if count > most:
        raise ValueError(
            f"learn: step = {step:g} takes {count:.3g} steps to t = {end:.3g}, more than {most} (each of {depth} "
            "layers); use a larger step, or smaller weights" + (", or fewer layers" if depth > 2 else "")
        )
    stride = math.ceil(count / points)
    return step * stride * np.arange(math.ceil(count / stride) + 1)


def _difference(found: Trajectory, exact: Trajectory) -> Difference:
    size = np.linalg.norm(exact["product"], axis=(-2, -1)).max()
    product = np.linalg.norm(found["product"] - exact["product"], axis=(-2, -1)).max() / size
    loss = np.abs(found["loss"] - exact["loss"]).max() / exact["loss"][0]
    return Difference(float(product), float(loss))


def _plain(value: Any) -> Any:
    """Return a number of NumPy as one of Python: float16 does not hold the limits."""
    return value.item() if isinstance(value, np.ndarray | np.generic) else value


def refuse_options(
    width: int | None, scale: float | None, imbalance: float, rate: float, step: float | None, seed: int
) -> None:
    """Raise if an option of `learn` is invalid for every data set."""
    for name, whole, meaning in (("width", width, "hidden units"), ("seed", seed, "seed of the weights")):
        if (whole is not None or name == "seed") and (
            isinstance(whole, bool) or not isinstance(whole, int | np.integer)
        ):
            raise TypeError(f"learn: {name} = {whole!r} must be an integer ({meaning}); say 4")
    for name, given in (("scale", scale), ("imbalance", imbalance), ("rate", rate), ("step", step)):
        real = given[()] if isinstance(given, np.ndarray) else given
        if real is not None and (
            isinstance(real, bool) or not isinstance(real, int | float | np.integer | np.floating)
        ):
            raise TypeError(f"learn: {name} = {real!r} must be a number; say 0.1")
    if width is not None and not 1 <= width <= WIDEST:
        raise ValueError(
            f"learn: width = {width} must be at least 1 and at most {WIDEST} (hidden units, all simulated); say 64"
        )
    positive = {
        "scale": (scale, "size of the initial weights"),
        "rate": (rate, "learning rate"),
        "step": (step, "step of the descent in units of time"),
    }
    for name, (given, meaning) in positive.items():
        value = _plain(given)
        if value is not None and not 0 < value < math.inf:
            raise ValueError(f"learn: {name} = {value} must be positive and finite ({meaning}); say 0.1")
        if value is not None and not 1 / LARGEST <= value <= LARGEST:
            raise ValueError(f"learn: {name} = {value} must lie in [{1 / LARGEST:g}, {LARGEST:g}] ({meaning}); rescale")
    meaning = "difference of the layers' Gram matrices"
    imbalance = _plain(imbalance)
    if not math.isfinite(imbalance):
        raise ValueError(f"learn: imbalance = {imbalance} must be finite ({meaning}); say 0")
    if abs(imbalance) > LARGEST:
        raise ValueError(f"learn: imbalance = {imbalance} must be at most {LARGEST:g} in size ({meaning}); rescale")
    if seed < 0:
        raise ValueError(f"learn: seed = {seed} must not be negative (seed of the weights); say 0")
