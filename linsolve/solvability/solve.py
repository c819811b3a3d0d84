"""`solve`: the trajectory of a linear network on a data set, by the closed form that holds or by integration."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from linsolve.core.arguments import Interval, number, real_array, shown, unknown_name
from linsolve.core.flow import Flow
from linsolve.core.network import maps
from linsolve.core.network_arguments import Network, read
from linsolve.core.reduced_network import joint, norm, reduced
from linsolve.core.trajectory import Deferred
from linsolve.solvability.conditions import Assessment, assess
from linsolve.solvability.decision import notes
from linsolve.solvability.matches import Match, PlaneMatch
from linsolve.solvability.problem import WHO, Problem, gradients

__all__ = ["NetworkTrajectory", "solve"]

FINEST = 1e-15  # directions of the samples below it are rounding


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class NetworkTrajectory:
    """Weights, map, loss and tangent kernel of a network at given times, by name, each evaluated at its first access.

    Parameters
    ----------
    t : ndarray
        Times.
    route : str
        "closed form: " and the flow; or the integrator, "constant" for a start at which every gradient is 0, and the
        condition that fails, with its relative distance.
    flow : Flow or None
        The exact flow; None if the weights are integrated.
    notes : tuple of str
        Saddles, parity, limits of rank, cases without a closed form.
    values : Deferred
        Layers and observables by name.

    Examples
    --------
    >>> import linsolve as ls
    >>> traj = ls.solve([[[1.0]]], ([[1.0]], [3.0]), [0.0, float("inf")])
    >>> traj.keys(), "ntk" in traj, traj["map"].ravel().round(12).tolist()
    (['w1', 'map', 'loss', 'train_loss', 'ntk'], True, [1.0, 3.0])
    """

    t: np.ndarray
    route: str
    flow: Flow | None
    notes: tuple[str, ...]
    values: Deferred

    def keys(self) -> list[str]:
        """Return the names of the layers and of the observables."""
        return list(self.values)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self:
            reason = unknown_name(WHO, "observable", name, self.keys())
            raise KeyError(f"{reason} (second moments have no samples)" if name in ("ntk", "train_loss") else reason)
        return np.asarray(self.values[name])

    def __repr__(self) -> str:
        return f"NetworkTrajectory(t: shape {self.t.shape}, route: {self.route}; {', '.join(self.keys())})"


def solve(
    weights: Any,
    data: Any,
    t: Any,
    rates: Any = None,
    *,
    bias: Any = None,
    activation: str | None = None,
    rtol: float = 1e-10,
    tolerance: float | None = None,
    covariances: bool = False,
) -> NetworkTrajectory:
    r"""Return the training trajectory of a linear network on a data set.

    .. math:: L = \frac{1}{2P} \sum_\mu |y_\mu - W_L \cdots W_1 x_\mu|^2, \qquad
        \dot W_l = -\eta_l\, \partial L / \partial W_l .

    If an exact solution holds, by the same conditions as in `applies`, it is evaluated; otherwise the weights are
    integrated numerically. ``traj.route`` names the method and the reason.

    Parameters
    ----------
    weights : sequence of array_like
        ``W1, ..., WL`` from the first layer, shape (n_1, n_in), to the last, shape (n_out, n_{L-1}) or, for one output,
        (n_{L-1},).
    data : pair of array_like
        Samples ``(X, Y)``, shapes (P, n_in) and (P, n_out) or (P,); with ``covariances=True`` the moments
        ``(Sigma_xx, Sigma_yx) = (X^T X / P, Y^T X / P)``.
    t : array_like, any shape
        Times, not negative, in any order; the weights are those of time 0. ``inf`` needs a closed form.
    rates : array_like, shape (L,), optional
        Learning rates, positive; 1 by default. For the loss summed over samples multiply them by P.
    bias : array_like or sequence of array_like, optional
        Must be zero: biases have no closed form here.
    activation : None or "linear"
        Activation function of the hidden units.
    rtol : float
        Relative tolerance of the integrator.
    tolerance : float, optional
        Relative distance up to which a condition counts as holding, as in `applies`.
    covariances : bool
        Whether `data` holds second moments instead of samples.

    Returns
    -------
    NetworkTrajectory
        By name, with leading axes ``t.shape``:

        - ``w1`` ... ``wL``: layers, shapes (n_l, n_{l-1});
        - ``map``: the product ``W_L ... W_1``, shape (n_out, n_in);
        - ``loss`` and ``train_loss``: both :math:`L`, including the part that no linear map explains;
        - ``ntk``: tangent kernel on the samples, shape (P n_out, P n_out), with :math:`\dot f = -K (f - y) / P`. Row
          ``p n_out + i``, column ``q n_out + j``:
          :math:`\sum_l \eta_l \langle \partial f_i(x_p)/\partial W_l, \partial f_j(x_q)/\partial W_l \rangle`.

        From second moments ``loss`` is :math:`L` above its minimum over linear maps; ``train_loss`` and ``ntk`` are
        missing.

    Raises
    ------
    ValueError, TypeError
        If shapes do not fit, entries are not finite, a time is negative, or infinite without a closed form, a bias is
        not zero, or the activation is not linear; if the kernel exceeds the memory, at its access.
    ArithmeticError
        If the integrators exceed their evaluations before the last time.

    Notes
    -----
    The closed form of `WhitenedTwoLayer` holds for product and Gram matrices: ``loss`` and ``ntk`` come from it,
    ``map`` too if the data spans the inputs (or the first layer vanishes outside of their span). The layers, which
    differ by a rotation of the hidden units that is not elementary, are integrated at their first access, and need
    finite times. All other closed forms give every weight.

    The integrator is DOP853; a small network that exceeds 50,000 evaluations of the velocity is stiff and integrated by
    Radau. Near a saddle rounding decides when a simulation leaves it: ``traj.notes`` says so if the start is one.

    Exact for: linear layers without biases under gradient flow. Not for: nonlinear units, biases (center the data
    instead), momentum, steps of finite size.

    Accuracy: layers, map and loss within 1e-9 (closed forms) and 1e-8 (integrated) of an independent integration of the
    raw weights (``tests/solvability/test_solve.py``; 300 networks up to depth 6: ``python -m benchmarks networks``). A
    network that meets the conditions only to within `tolerance` differs by that distance times its growth.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> rng = np.random.default_rng(0)
    >>> X, weights = rng.normal(size=(20, 3)), [rng.normal(size=shape) for shape in ((4, 3), (4, 4), (2, 4))]
    >>> traj = ls.solve(weights, (X, X[:, :2]), [0.0, 1.0, 5.0])
    >>> traj.route.split(",")[0]
    'DOP853: DeepMode needs alignment'
    >>> bool(np.allclose(traj["map"], traj["w3"] @ traj["w2"] @ traj["w1"], atol=1e-12))
    True
    >>> traj = ls.solve([weights[0], weights[0][:, 0]], (X[:, :1] * [1.0, 2.0, 0.0], X[:, 0]), [0.0, float("inf")])
    >>> traj.route, float(traj["loss"][1].round(12))
    ('closed form: TwoLayer', 0.0)
    """
    _refuse_nonlinear(activation, bias)
    rtol = number(WHO, "rtol", rtol, meaning="relative tolerance of doubles", domain="[2.3e-14, 1)", example=1e-10)
    times = np.asarray(real_array(WHO, "t", t, meaning="time", domain=Interval("[0, inf]")))
    network = read(WHO, weights, data, rates, covariances, tolerance)
    whole = network if covariances else read(WHO, weights, data, rates, covariances, FINEST)
    problem = Problem(whole, times, rtol, None if covariances else _samples(data))
    red = reduced(network)
    assessed = assess(network, red)
    match = next((each.match for each in assessed if each.match is not None), None)
    remarks = (*_saddle(whole), *notes(network, red, assessed))
    if match is None:
        return _by_integration(problem, _failure(assessed), remarks)
    if isinstance(match, PlaneMatch):  # in the network's own hidden units
        red = reduced(network, idle=True)
        match = PlaneMatch.of(red, joint(red))
    return _by_closed_form(problem, network, match, red.clock, remarks)


def _refuse_nonlinear(activation: Any, bias: Any) -> None:
    if not (activation is None or (isinstance(activation, str) and activation == "linear")):
        raise ValueError(
            f"{WHO}: activation = {shown(activation)} must be None or 'linear' (activation function of the hidden "
            "units); only linear networks are solved"
        )
    given = bias if isinstance(bias, list | tuple) else [bias]
    for i, each in enumerate(given):
        name = "bias" if given is not bias else f"bias[{i}]"
        values = np.zeros(1) if each is None else np.asarray(real_array(WHO, name, each, meaning="bias of the layers"))
        if values.any():
            raise ValueError(
                f"{WHO}: {name} reaches {np.abs(values).max():.3g} but must be 0 (bias of the layers); center the "
                "data, X - X.mean(0) and Y - Y.mean(0), and leave the bias out"
            )


def _samples(data: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return checked samples as two matrices."""
    X, Y = (np.asarray(each, dtype=float) for each in data)
    return X, Y.reshape(len(X), -1)


def _failure(assessed: list[Assessment]) -> str:
    """Return the violated condition of the case that is nearest, among those of the network's depth if there are."""
    depth = [each for each in assessed if "two layers" not in [c.name for c in each.violated]]
    nearest = min(depth, key=lambda each: max(c.distance for c in each.violated))
    worst = max(nearest.violated, key=lambda c: c.distance)
    return f"{nearest.name} needs {worst.name}, relative distance {worst.distance:.2g}"


def _saddle(network: Network) -> Iterator[str]:
    """Report a start that is stationary although the map is not the target's."""
    pull, moves = gradients(network)
    size = max(norm(w) for w in network.weights) ** (len(network.weights) - 1)
    if norm(pull) > 1e-9 * norm(network.cross) and max(map(norm, moves)) <= 1e-13 * norm(pull) * size:
        yield (
            "saddle: the start is a stationary point that does not fit the data, a saddle or the minimum of a "
            "bottleneck; the network stays there, but rounding decides when a simulation leaves a saddle."
        )


def _named(problem: Problem, layers: Callable[[], list[np.ndarray]], **others: Callable[[], np.ndarray]) -> Deferred:
    """Return the observables: `layers` once for all, the others from them unless given."""
    values = Deferred(layers=layers)
    span = problem.network.span

    def layer(i: int) -> Callable[[], np.ndarray]:
        return lambda: values["layers"][i]

    named: dict[str, Callable[[], Any]] = {f"w{i + 1}": layer(i) for i in range(len(problem.network.weights))}
    named["map"] = lambda: maps(values["layers"])[-1]
    named["loss"] = lambda: problem.loss(found["map"] @ span)
    if problem.samples is not None:
        named["train_loss"] = lambda: found["loss"]
        named["ntk"] = lambda: problem.ntk(values["layers"])
    found = Deferred(**(named | {name: value for name, value in others.items() if name in named}))
    return found


def _by_integration(problem: Problem, failure: str, remarks: tuple[str, ...]) -> NetworkTrajectory:
    if not (problem.constant or np.isfinite(problem.times).all()):
        raise ValueError(
            f"{WHO}: t = inf must be finite (time; no closed form holds, {failure}); say a late time instead"
        )
    layers, method = problem.integrated()
    return NetworkTrajectory(problem.times, f"{method}: {failure}", None, remarks, _named(problem, lambda: layers))


def _by_closed_form(
    problem: Problem, network: Network, match: Match, clock: float, remarks: tuple[str, ...]
) -> NetworkTrajectory:
    traj = match.flow(problem.times, match.z0)
    state = type(traj.state)(*(traj[name] for name in traj.state._fields))  # refuses overflow
    route = f"closed form: {match.name}"
    layers = match.layers(state, network)
    if layers is not None:
        values = _named(problem, lambda: layers)
        return NetworkTrajectory(problem.times, route, match.flow, remarks, values)

    on_span = match.map(state)

    def whole_map() -> np.ndarray:
        w1 = network.weights[0]
        outside = w1 - (w1 @ match.inputs) @ match.inputs.T
        frozen = norm(outside) > network.tolerance * norm(w1)
        return on_span + values["w2"] @ outside if frozen else on_span

    def ntk() -> np.ndarray:
        return problem.ntk_of_grams(match.inputs, match.outputs, state.gram_in, state.gram_out, clock)

    values = _named(
        problem,
        lambda: problem.integrated()[0],
        map=whole_map,
        loss=lambda: problem.loss(on_span @ problem.network.span),
        ntk=ntk,
    )
    return NetworkTrajectory(problem.times, route, match.flow, remarks, values)
