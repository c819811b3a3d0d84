"""One network under neural collapse, by theory and by simulation."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from linsolve.core.arguments import shown
from linsolve.core.integrate import descend, integrate
from linsolve.core.query import NotExact
from linsolve.core.trajectory import Trajectory
from linsolve.studies.collapse import starts
from linsolve.studies.collapse.timing import MOST_STEPS, last_time, times_and_step
from linsolve.studies.comparison import timed
from linsolve.systems.collapse import limits
from linsolve.systems.collapse.contrasts import split
from linsolve.systems.collapse.network import follow, kernel
from linsolve.systems.collapse.neural_collapse import NeuralCollapse

__all__ = ["Collapsed", "collapse"]

METRICS = ("nc1", "nc2_norms", "nc2_angles", "nc3", "nc4")
PRECISION = 1e-12  # relative tolerance of the integrator
FLOOR = {"closed form": 1e-13, "DOP853": 1e-10}  # residuals are known above it, relative to sqrt(N)


@dataclasses.dataclass(frozen=True, eq=False)
class Collapsed:
    """One network, by theory and by simulation; returned by `collapse`.

    Parameters
    ----------
    flow : NeuralCollapse
    settings : dict
        Start, features, scale, imbalance, bias, seed, until, step, as used.
    weights : (h, w, b)
        Features (n, N), classifier (C, n) and bias (C,) at the start.
    theory : Trajectory
        The closed form if it is known, otherwise an integration of the closed flow of products and Gram matrices.
    simulated, descended : Trajectory
        The network's weights by an integrator and by gradient descent, at the same times.
    reason : str
        Reason why theory is not the closed form; empty if it is.
    conditions : dict of float
        Quantities that must vanish for the closed form, by name.
    end : State
        The limit, or the last state if no closed form of the limit is known.
    predicted : dict of float
        Properties of the limit that are known without integration, by name; empty for generic starts.
    rates : dict of Rate
        Decay of each part of the residual, by name: sample, class, global.
    differences : dict of float
        ``"simulated"`` and ``"descended"`` from theory: of products and Gram matrices, each over its largest entry.
    seconds : dict of float
        Wall time of each route.
    obstructed : bool
        Whether parity makes the target unreachable, so that the flow ends at a saddle; see ``limits.obstructed``.

    Examples
    --------
    >>> import linsolve as ls
    >>> flow = ls.NeuralCollapse(kappa_d=2.0, kappa_c=1.0, kappa_n=0.5, classes=2, m=1)
    >>> found = ls.collapse.collapse(flow, scale=0.5, until=1.0, step=0.05)
    >>> found.theory.route, list(found.routes)
    ('closed form', ['theory', 'simulated', 'descended'])
    >>> found.differences["simulated"] < 1e-8, found.differences["descended"] < 0.1
    (True, True)
    """

    flow: Any
    settings: dict[str, Any]
    weights: tuple[np.ndarray, np.ndarray, np.ndarray]
    theory: Trajectory
    simulated: Trajectory
    descended: Trajectory
    reason: str
    conditions: dict[str, float]
    end: Any
    predicted: dict[str, float]
    rates: dict[str, limits.Rate]
    differences: dict[str, float]
    seconds: dict[str, float]
    obstructed: bool = False

    @property
    def routes(self) -> dict[str, Trajectory]:
        """Theory and both simulations, by name."""
        return {"theory": self.theory, "simulated": self.simulated, "descended": self.descended}

    def part(self, name: str, route: str = "theory") -> np.ndarray:
        """Return the size of a part of the residual, ``"sample"``, ``"class"`` or ``"global"``, over time."""
        return np.sqrt(2 * self.routes[route][f"loss_{name}"])

    def tangent_kernel(self, when: int) -> np.ndarray:
        """Return the mean tangent kernel of the outputs, ``tr W W^T/C K + H^T H + eta_b``, at the time of an index."""
        state = self.theory.state
        return (
            np.trace(state.gram_w[when]) / int(self.flow.classes) * kernel(self.flow)
            + state.gram_h[when]
            + self.flow.eta_b
        )


def collapse(
    flow: Any = None,
    *,
    start: str = "balanced",
    features: int | None = None,
    scale: float = 0.3,
    imbalance: float | None = None,
    bias: float | None = None,
    seed: int = 0,
    until: float | None = None,
    step: float | None = None,
    weights: tuple[Any, Any, Any] | None = None,
) -> Collapsed:
    """Train a network to neural collapse: by theory, by an integrator of its weights and by gradient descent.

    Parameters
    ----------
    flow : NeuralCollapse, optional
        Flow without batch axes; by default three classes of four samples with kernels 2, 1 and 0.5.
    start : str
        Kind of start, one of ``linsolve.studies.collapse.KINDS``.
    features : int, optional
        Number of features; by default the number of classes plus two.
    scale : float
        Size of the initial weights, positive.
    imbalance : float, optional
        ``lambda`` for ``"lambda"``, or the largest of a mode for ``"aligned"`` (default 0.5). Not for other starts.
    bias : float, optional
        Bias of every class at the start. With it, classifiers of balanced and scattered starts have zero sums. By
        default 1/C, 0 for ``"mean"``, random for ``"generic"``.
    seed : int
        Seed of the weights.
    until : float, optional
        Last time; by default late enough for the slowest part to be small.
    step : float, optional
        Step of the descent in units of time; by default a fiftieth of the largest stable one.
    weights : (h, w, b), optional
        Features (n, N) ordered by class, classifier (C, n) and bias (C,), instead of random ones. They must be of the
        kind `start`.

    Returns
    -------
    Collapsed

    Raises
    ------
    ValueError
        If an option is invalid, or the weights are not of the kind `start`.
    ArithmeticError
        If the descent diverges: the step is too large.

    Examples
    --------
    >>> from linsolve.studies.collapse import collapse
    >>> found = collapse(scale=0.5, seed=1)
    >>> found.theory.route, bool(found.theory["nc2_angles"][-1] < 1e-9), found.differences["simulated"] < 1e-9
    ('closed form', True, True)
    """
    flow = NeuralCollapse(kappa_d=2.0, kappa_c=1.0, kappa_n=0.5, classes=3, m=4) if flow is None else flow
    starts.refuse_kind(start)
    features = _features(flow, features, weights)
    imbalance = starts.refuse_options(flow, start, features, scale, imbalance, bias, seed)
    if weights is None:
        weights = starts.draw(flow, start, features, float(scale), imbalance, bias, seed)
    z0 = flow.of(*weights)
    h, w, b = (np.asarray(v, dtype=float) for v in weights)
    starts.refuse_other_kind(flow, start, (h, w, b), imbalance)
    algebraic = limits.slows_down(flow, (h, w, b))
    until = last_time(flow, z0, until, algebraic)
    t, step = times_and_step(flow, (h, w), until, step, algebraic)
    reason = ""

    def theory_route() -> Trajectory:
        nonlocal reason
        try:
            return flow(t, z0)  # type: ignore[no-any-return]
        except NotExact as refusal:
            reason = str(refusal)
            return integrate(flow, t, z0, rtol=PRECISION)

    ways = {
        "theory": theory_route,
        "simulated": lambda: follow(integrate, flow, t, (h, w, b), rtol=PRECISION),
        "descended": lambda: follow(descend, flow, t, (h, w, b), step=step, max_steps=MOST_STEPS),
    }
    found, seconds = timed(ways, h.shape[1])
    theory = found.pop("theory")
    end = flow.limit(np, z0) if not reason else type(z0)(*(v[-1] for v in theory.state))
    return Collapsed(
        flow,
        {"start": start, "features": features, "scale": float(scale), "imbalance": imbalance, "bias": bias,
         "seed": seed, "until": float(t[-1]), "step": step},
        (h, w, b), theory, **found, reason=reason,
        conditions={name: float(np.max(value)) for name, value in flow.conditions(np, z0).items()},
        end=end, predicted=_predicted(flow, start, (h, w, b), end, reason, float(theory["loss"][-1])),
        rates=_rates(flow, theory, end, algebraic),
        differences={name: _difference(theory, other) for name, other in found.items()},
        seconds=seconds, obstructed=limits.obstructed(flow, (h, w, b)),
    )  # fmt: skip


def _features(flow: Any, features: int | None, weights: Any) -> int:
    """Return the number of features; raise for a wrong flow and for batches."""
    if not isinstance(flow, NeuralCollapse):
        raise TypeError(
            f"collapse: flow = {shown(flow)} must be a NeuralCollapse (kernels, classes, samples); make one"
        )
    for name, value in flow.parameters().items():
        if value.ndim:
            raise ValueError(f"collapse: {name} has shape {value.shape} but must be a number; follow one at a time")
    starts.refuse_extremes(flow)
    if weights is not None:
        if not (isinstance(weights, tuple | list) and len(weights) == 3):
            raise ValueError("collapse: weights must be three arrays, features, classifier and bias; pass (h, w, b)")
        starts.refuse_large(weights)
        if flow.of(*weights).b.ndim > 1 or np.ndim(weights[0]) > 2:
            raise ValueError("collapse: weights have batch axes; follow one network at a time")
        return np.shape(weights[1])[-1]
    return int(flow.classes) + 2 if features is None else features


def _predicted(flow: Any, start: str, weights: Any, end: Any, reason: str, loss: float) -> dict[str, float]:
    """Return properties of the limit from eqs. (29), (60) or from the modes, by name; empty if none is known."""
    if start in ("balanced", "mean", "scatter") and len(weights[0]) >= int(flow.classes) and loss < 1e-3:
        even = 1 / int(flow.classes)
        # the square root would amplify the error of an integrated bias
        state = limits.balanced_limit(flow, np.where(np.abs(end.b - even).max() < 1e-8, even, end.b))
    elif start == "lambda" and not reason:
        state = end
    else:
        return _of_modes(flow, weights) if start == "aligned" else {}
    gamma, theta = limits.frame_of(flow, state)
    seen = flow.observables(np, state)
    return {"gamma": gamma, "theta": theta} | {name: float(seen[name]) for name in METRICS}


def _of_modes(flow: Any, weights: Any) -> dict[str, float]:
    """Return NC3 of the limit of an aligned start, from the imbalance of its modes."""
    h, w, _ = weights
    e, hidden = flow.imbalance_of(h, w), np.linalg.svd(w)[2][: len(w) - 1]
    ww, hh = limits.aligned_limit(flow, np.sum(hidden @ e * hidden, axis=1))
    return {"nc1": 0.0, "nc3": float(1 - len(ww) / np.sqrt(ww.sum() * hh.sum()))}


def _rates(flow: Any, theory: Trajectory, end: Any, algebraic: bool) -> dict[str, limits.Rate]:
    residual = flow.residual(np, theory.state)
    floor = FLOOR[theory.route] * float(np.linalg.norm(residual[0]))
    found = {}
    for name, part in zip(limits.PARTS, split(np, residual, flow._members(np)), strict=True):
        own = np.linalg.norm(part, axis=(-2, -1))
        if own.max() <= 100 * floor:
            found[name] = limits.Rate("none", None, None)
            continue
        law = "1/t" if algebraic and name == "sample" else "exp"
        late = _late(own)
        rate = limits.final_rates(flow, end, residual[late])[name] if late and not algebraic else None
        found[name] = limits.Rate(law, 1.0 if law == "1/t" else rate, limits.fitted(theory.t, own, law, floor))
    return found


def _late(size: np.ndarray) -> int:
    """Return the time after which a part of the residual stays below a thousandth of its largest value, 0 if none."""
    above = np.flatnonzero(size > 1e-3 * size.max())
    return int(above[-1]) + 1 if above[-1] + 1 < len(size) else 0


def _difference(one: Trajectory, other: Trajectory) -> float:
    """Return the largest difference between two routes, each field over its largest entry."""
    pairs = [(a, b) for a, b in zip(one.state, other.state, strict=True)]
    return float(max(np.abs(a - b).max() / max(np.abs(a).max(), 1e-300) for a, b in pairs))
