"""Trajectories of networks by closed form and by integration, without and with biases."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache

import numpy as np

from linsolve.core.network import affine_maps, maps
from linsolve.core.network_arguments import Network
from linsolve.core.reduced_network import Reduced, joint, norm, reduced
from linsolve.core.trajectory import Deferred
from linsolve.solvability.conditions import Assessment, assess
from linsolve.solvability.decision import notes
from linsolve.solvability.deviation import ROUNDING, deviation
from linsolve.solvability.matches import Match, PlaneMatch
from linsolve.solvability.neighbors import nearest
from linsolve.solvability.problem import LEAST, Problem
from linsolve.solvability.stationary import saddle, stationary
from linsolve.solvability.trajectory import WHO, NetworkTrajectory

__all__ = ["Reason", "by_closed_form", "by_integration", "told"]

Arrays = list[np.ndarray]
Reason = str | Callable[[], str]

FINER = 0.01  # of the tolerance of the integrator, for weights of a closed form


def by_closed_form(
    network: Network, problem: Problem, *, accept: bool
) -> tuple[NetworkTrajectory | None, Reason, tuple[str, ...]]:
    """Return the trajectory, None if no closed form is used, the reason then, and notes.

    A reason that takes time to find is a function that returns it.

    A closed form is used if its conditions hold up to rounding. If they hold up to the tolerance of the network, it is
    used if its error is at most the tolerance of the integrator, or, with `accept`, whatever its error.
    """
    each, about = problem.network.at(min(ROUNDING, network.tolerance)), ""
    red, assessed, found = _assessed(each, problem)
    if not found and each.tolerance < network.tolerance:
        each = network
        red, assessed, found = _assessed(each, problem)
        if found:
            off, best = min(
                ((deviation(problem.network, red, one, problem.times), one) for one in found),
                key=lambda pair: pair[0].error,
            )
            error = f"up to {off.error:.2g}" if np.isfinite(off.error) else "without a bound"
            about = f", error {error} (conditions hold to {off.distance:.2g})"
            if not (accept or off.error <= problem.rtol):
                failure = f"{best.name}{about}, more than rtol; tolerance={network.tolerance:.2g} accepts it"
                return None, failure, tuple(notes(each, red, assessed))
            found = [best]
    remarks = tuple(notes(each, red, assessed))
    match = found[0].match if found else None
    if match is None:
        return None, _failure(each, red, assessed), remarks
    if isinstance(match, PlaneMatch):  # in the network's own hidden units
        red = reduced(each, idle=True)
        match = PlaneMatch.of(red, joint(red))
    shown = (*saddle(problem.network, problem.gradients), *remarks)
    return _evaluated(problem, each, match, red.clock, about, shown), "", remarks


def told(reason: Reason) -> str:
    """Return a reason as text."""
    return reason if isinstance(reason, str) else reason()


def _assessed(network: Network, problem: Problem) -> tuple[Reduced, list[Assessment], list[Assessment]]:
    """Return the reduced network, every assessed case, and those that are exact."""
    red = reduced(network)
    assessed = [*assess(network, red), *stationary(problem.network, red, problem.gradients)]
    return red, assessed, [each for each in assessed if each.match is not None]


def _failure(network: Network, red: Reduced, assessed: list[Assessment]) -> Reason:
    """Return the nearest exact case that `applies` names, and the conditions that fail for it, the worst first."""

    def needs() -> str:
        name = nearest(network, red)
        (case,) = (each for each in assessed if each.name == name)
        worst, *others = sorted(case.violated, key=lambda each: -each.distance)
        more = "".join(f"; {each.name}, {each.distance:.2g}" for each in others)
        return f"{name} needs {worst.name}, relative distance {worst.distance:.2g}{more}"

    return needs


def _named(problem: Problem, weights: Callable[[], Arrays], **others: Callable[[], np.ndarray]) -> Deferred:
    """Return the observables: all weights once, by `weights`, the others from them unless given."""
    network, count = problem.network, len(problem.network.weights)
    names = [f"w{i + 1}" for i in range(count)] + [f"b{i}" for i, b in enumerate(network.biases, 1) if b is not None]
    weights = cache(weights)

    @cache
    def affine() -> np.ndarray:
        return affine_maps(np, weights()[:count], problem.biases(weights()))[-1]

    def or_given(name: str, function: Callable[[], np.ndarray]) -> Callable[[], np.ndarray]:
        return cache(others.get(name, function))

    def array(i: int) -> Callable[[], np.ndarray]:
        return lambda: weights()[i]

    found = {name: array(i) for i, name in enumerate(names)}
    product = or_given("map", lambda: affine()[..., :-1] if network.biases else maps(weights())[-1])
    offset = or_given("offset", lambda: affine()[..., -1])

    def on_span() -> np.ndarray:
        inside = product() @ network.span
        return np.concatenate([inside, offset()[..., None]], axis=-1) if network.biases else inside

    loss = or_given("loss", lambda: problem.loss(on_span()))
    found["map"] = product
    if network.biases:
        found["offset"] = offset
    found["singular_values"] = or_given("singular_values", lambda: _singular_values(product()))
    found["loss"] = loss
    if problem.samples is not None:
        found["train_loss"] = or_given("train_loss", loss)
        found["ntk"] = or_given("ntk", lambda: problem.ntk(weights()))
    return Deferred(**found)


def _singular_values(map_: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.svd(map_, compute_uv=False))


def by_integration(problem: Problem, failure: Reason, remarks: tuple[str, ...]) -> NetworkTrajectory:
    """Return the trajectory of integrated weights; `failure` states the conditions of a closed form that fail."""
    if not (problem.constant or np.isfinite(problem.times).all()):
        raise ValueError(
            f"{WHO}: t = inf must be finite (time; no closed form holds, {told(failure)}); say a late time instead"
        )
    weights, method = problem.integrated()
    values = _named(problem, lambda: weights)
    remarks = (*saddle(problem.network, problem.gradients), *remarks)
    return NetworkTrajectory(problem.times, lambda: f"{method}: {told(failure)}", None, remarks, values)


def _evaluated(
    problem: Problem, network: Network, match: Match, clock: float, about: str, remarks: tuple[str, ...]
) -> NetworkTrajectory:
    traj = match.flow(problem.times, match.z0)
    state = type(traj.state)(*(traj[name] for name in traj.state._fields))  # refuses overflow
    route = f"closed form: {match.name}{about}"
    layers = match.layers(state, network)
    if layers is not None:
        values = _named(problem, lambda: layers)
        return NetworkTrajectory(problem.times, route, match.flow, remarks, values)

    on_span = match.map(state)
    finer = dataclasses.replace(problem, rtol=max(FINER * problem.rtol, LEAST))  # errors accumulate over time

    @cache
    def weights() -> Arrays:
        return finer.integrated()[0]

    def whole_map() -> np.ndarray:
        w1 = network.weights[0]
        outside = w1 - (w1 @ match.inputs) @ match.inputs.T
        frozen = norm(outside) > network.tolerance * norm(w1)
        return on_span + weights()[1] @ outside if frozen else on_span

    def ntk() -> np.ndarray:
        return problem.ntk_of_grams(match.inputs, match.outputs, state.gram_in, state.gram_out, clock)

    values = _named(
        problem,
        weights,
        map=whole_map,
        loss=lambda: problem.loss(on_span @ problem.network.span),
        ntk=ntk,
    )
    return NetworkTrajectory(problem.times, route, match.flow, remarks, values)
