"""Training of a linear network on a data set: exactly, by an ODE integrator and by gradient descent."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.core.arguments import shown
from linsolve.core.integrate import descend, integrate
from linsolve.core.named_arguments import named_arguments
from linsolve.data.dataset import Dataset
from linsolve.data.whitening import Modes, modes_of, whiten
from linsolve.studies.learn.learned import (
    BUDGET,
    ENTRIES,
    POINTS,
    Difference,
    Learned,
    followed,
    refuse_options,
    sampled_times,
    stable_step,
)
from linsolve.systems.deep.starts import whole_depth
from linsolve.systems.whitened.raw_weights import simulate
from linsolve.systems.whitened.whitened_two_layer import WhitenedTwoLayer

__all__ = ["Difference", "Learned", "horizon", "learn"]

SCALE = 1e-3
TINY = 1e-150  # smallest start of a mode that determines the horizon, relative to the mode


@named_arguments("learn")
def learn(
    dataset: Dataset,
    *,
    depth: float = 2,
    width: int | None = None,
    scale: float | None = None,
    imbalance: float = 0.0,
    rate: float = 1.0,
    step: float | None = None,
    seed: int = 0,
    descent: bool = False,
) -> Learned:
    """Train a linear network on a data set: exactly, by an ODE integrator, and by gradient descent.

    The inputs are centered and whitened in their span, as the closed form requires. The two simulations integrate the
    weights. Two layers start at random, balanced up to the `imbalance`. Fewer or more layers start balanced and aligned
    with the singular modes of the data, since a closed form is known for these starts only. With `descent`, two layers
    also start so, and gradient descent is solved, too. The simulated descent then differs from gradient flow by
    O(step), and from its own theory by rounding.

    Parameters
    ----------
    dataset : Dataset
        From ``data.load``.
    depth : int
        Number of layers.
    width : int, optional
        Hidden units of each hidden layer; by default, for two layers the smaller of the numbers of white inputs and
        outputs, for others the number of modes.
    scale : float, optional
        Size of the initial weights: for two layers as in ``WhitenedTwoLayer.init``, by default 1e-3; for others the
        singular value of each layer, by default such that the map starts at 1e-3 of its strongest mode.
    imbalance : float
        ``w2.T @ w2 - w1 @ w1.T`` is this times the identity; positive needs ``width <= n_out``, negative
        ``width <= rank``. Only for two layers.
    rate : float
        Learning rate; its inverse is the time constant `tau`.
    step : float, optional
        Step of the descent in units of time; by default 2 percent of the largest with which descent settles,
        ``tau / hypot(s_max, imbalance / 2)`` for two layers (less for large weights, ``2 tau / (|w1|^2 + |w2|^2)``),
        ``2 tau / (depth s_max^(2 - 2/depth))`` for others.
    seed : int
        Seed of the weights. In a deep network it rotates the hidden layers, which does not change the map.
    descent : bool
        Whether to start aligned, and to compare the simulated descent also with its exact theory.

    Returns
    -------
    Learned

    Raises
    ------
    ValueError, TypeError
        If an option is invalid.
    ArithmeticError
        If the descent diverges: the step is too large.

    Examples
    --------
    >>> import linsolve as ls
    >>> found = ls.learn(ls.data.tree(1), scale=0.1)
    >>> found.modes.s.round(4).tolist(), found.exact["singular_values"][-1].round(2).tolist()
    ([0.7071], [0.71])
    >>> found.differences["integrated"].product < 1e-8, round(found.order)
    (True, 2)
    >>> found = ls.learn(ls.data.tree(1), descent=True)
    >>> found.differences["descended"].product > 1e-3, found.differences["theory"].product < 1e-12
    (True, True)
    """
    if not isinstance(dataset, Dataset):
        raise TypeError(f"learn: dataset = {shown(dataset)} must be a Dataset (a problem); pass ls.data.load(...)")
    layers = whole_depth("learn", depth)
    refuse_options(width, scale, imbalance, rate, step, seed)
    scale, step = (None if value is None else float(value) for value in (scale, step))
    imbalance, rate = float(imbalance), float(rate)
    if layers != 2 or descent:
        from linsolve.studies.learn.deep import learn_deep

        return learn_deep(dataset, layers, width, scale, imbalance, rate, step, seed, descent)
    scale = SCALE if scale is None else scale
    problem = whiten(dataset.inputs, dataset.targets)
    modes, (n_out, n_in) = modes_of(problem.target), problem.target.shape
    width = min(n_in, n_out) if width is None else width
    flow = WhitenedTwoLayer(problem.target, tau=1 / rate)
    rng = np.random.default_rng(seed)
    weights = WhitenedTwoLayer.init(n_in, width, n_out, scale=scale, imbalance=imbalance, rng=rng)
    start = WhitenedTwoLayer.of(*weights)
    step = _step(step, modes.s[0], weights, imbalance, 1 / rate)
    points = max(20, min(POINTS, ENTRIES // ((n_in + n_out) * max(n_in + n_out, width))))
    t = sampled_times(horizon(modes, start, width, 1 / rate, imbalance), step, points)
    ways = {
        "exact": lambda: flow(t, start),
        "integrated": lambda: simulate(integrate, flow, t, weights),
        "descended": lambda: simulate(descend, flow, t, weights, step=step, max_steps=BUDGET),
        "halved": lambda: simulate(descend, flow, t, weights, step=step / 2, max_steps=BUDGET),
    }
    used: dict[str, Any] = {"depth": 2, "width": width, "scale": scale, "imbalance": imbalance}
    used |= {"rate": rate, "step": step, "seed": seed}
    obstructed = bool(flow.obstructed(np, start))
    return Learned(dataset, problem, modes, used, **followed(ways, n_in + n_out), obstructed=obstructed)


def horizon(modes: Modes, start: Any, width: int, tau: float, imbalance: float = 0.0) -> float:
    """Return a time by which all leading modes have been learned, with a margin.

    A mode of strength `s` that starts with strength `a` grows as ``exp(2 f t / tau)``, ``f = hypot(s, imbalance / 2)``,
    and saturates at ``s``. It is at 99 percent when ``t = tau / (2 f) log(99 (s - a) / a)``; here ``a`` is the initial
    weight on the growing direction, ``|w1 v + w2.T u|^2 / 4``. The result is the time of the slowest among the leading
    modes: those that fit into the hidden layer and have at least 5 percent of the strongest. A hidden layer with fewer
    units than modes also rotates to the strongest modes, in a time ``tau / (2 (f - f_next)) log(99)``. It is included
    up to four times the time above. One tenth is added as a margin.
    """
    grow = np.hypot(modes.s, imbalance / 2)
    lead = modes.s[: max(1, min(width, len(modes.s)))]
    lead = lead[lead >= 0.05 * lead[0]]
    u, v = modes.u[:, : len(lead)], modes.v[:, : len(lead)]
    a = np.sum(v * (start.gram_in @ v), axis=0) + np.sum(u * (start.gram_out @ u), axis=0)
    a = np.clip(a / 4 + np.sum(u * (start.product @ v), axis=0) / 2, TINY * lead, lead / 2)
    end = np.max(tau / (2 * grow[: len(lead)]) * np.log(99 * (lead - a) / a))
    if width < len(modes.s):
        gap = grow[width - 1] - grow[width]
        end = max(end, min(4 * end, tau * np.log(99) / (2 * gap) if gap > 0 else np.inf))
    return float(1.1 * end)


def _step(step: float | None, strongest: float, weights: Any, imbalance: float, tau: float) -> float:
    """Return the step of the descent; raise if it is unstable at the start or at the minimum."""
    sharp = sum(np.linalg.norm(w, 2) ** 2 for w in weights) / 2
    limit = float(tau / max(np.hypot(strongest, imbalance / 2), sharp))
    return stable_step(step, limit)
