"""Verdict on a network: conditions, exact flows compared with its integration, nearby exact cases, remarks."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from linsolve.core.arguments import number
from linsolve.core.biases import UNSOLVED, distances, is_first_only, on_ones
from linsolve.core.network_arguments import Network, read
from linsolve.core.reduced_network import Reduced, fastest_rate, norm, reduced
from linsolve.solvability.activation import read_activation
from linsolve.solvability.conditions import Assessment, Condition, assess
from linsolve.solvability.integration import LONGEST, WHO, followed, kernel_change, refuse_endless
from linsolve.solvability.laws import near_laws
from linsolve.solvability.leaky_relu import Reduction
from linsolve.solvability.matches import DeepMatch, LineMatch, Match, WhiteMatch
from linsolve.solvability.neighbors import neighbors
from linsolve.solvability.stationary import gradients, saddle, stationary
from linsolve.solvability.verdict import Verdict
from linsolve.systems.two_layer.two_layer import TwoLayer

__all__ = ["judge", "judged", "notes"]

_UNTIL = "[1e-300, inf)"  # its thousandth part is a double at full precision


def judge(
    weights: Any,
    data: Any,
    rates: Any,
    covariances: bool,
    until: float | None,
    tolerance: float | None,
    names: Sequence[str] | None = None,
    bias: Any = None,
    activation: Any = None,
) -> Verdict:
    """Return the verdict; see `linsolve.applies`. Error messages name the layers by `names`."""
    unit = read_activation(WHO, activation)
    network = read(WHO, weights, data, rates, covariances, tolerance, names, bias)
    if until is not None:
        until = number(WHO, "until", until, meaning="time; left out, a learning time", domain=_UNTIL, example=10.0)
    nonlinear = Reduction.of(WHO, unit, network, data, covariances)
    if nonlinear is None:
        return _linear(network, data, until)
    network = nonlinear.linear(network)
    return nonlinear.judged(_linear(network, data, until) if nonlinear.holds else _unfollowed(network))


def _linear(network: Network, data: Any, until: float | None) -> Verdict:
    return _with_biases(network, data, until) if network.biases else judged(network, until)


def _unfollowed(network: Network) -> Verdict:
    """Return the conditions of each flow, none of which is exact, for a network that is not integrated."""
    assessed = [dataclasses.replace(each, match=None) for each in assess(network, reduced(network))]
    return Verdict(network.widths, tuple(assessed), (), 0.0, (), {}, network.tolerance, network.precision)


def judged(network: Network, until: float | None) -> Verdict:
    """Return the verdict on a network of layers without biases."""
    red = reduced(network)
    if until is not None:
        rate = fastest_rate(red.layers, red.target, red.covariance, red.clock)
        refuse_endless(WHO, "until", float(until), rate, LONGEST)
    path = followed(network, red, None if until is None else float(until))
    slopes = gradients(network)
    assessed = [*assess(network, red), *stationary(network, red, slopes)]
    near = neighbors(network, red, assessed, path.times, path.maps)
    errors = {a.name: _error(a.match, red, path.times, path.maps) for a in assessed if a.match is not None}
    laws = () if errors else near_laws(network, red, near, path.times, path.maps)
    end = float(path.times[-1])
    if red.depth > 1:
        detail = f"of the tangent kernel up to t = {end:.4g}; exact only at infinite width"
        constant = Condition("constant kernel", kernel_change(path, red), detail)
        assessed.append(Assessment("FrozenKernel", (constant,)))
    remarks = (*saddle(network, slopes), *notes(network, red, assessed))
    about = red.tolerance, network.precision, laws
    return Verdict(network.widths, tuple(assessed), tuple(near), end, remarks, errors, *about)


def _with_biases(network: Network, data: Any, until: float | None) -> Verdict:
    """Return the verdict on the equivalent network without biases, or on the conditions that fail for one to exist."""
    X, Y = (np.asarray(each, dtype=float) for each in data)
    Y, weights = Y.reshape(len(X), -1), list(network.weights)
    if is_first_only(network.biases):
        weights, samples = on_ones(weights, network.biases, X, Y)
        remark, off = "biases: the bias of the first layer acts as the weight of a constant input 1.", {}
    else:
        samples, off = (X, Y - Y.mean(axis=0)), distances(weights, network.biases, X, Y)
        remark = "biases: on centered inputs the weights move as without biases, towards centered targets."
    inner = read(WHO, weights, samples, network.rates, False, network.tolerance)
    conditions = tuple(Condition(name, far, "biases", tolerance=network.tolerance) for name, far in off.items())
    if all(each.ok for each in conditions):
        verdict = judged(inner._replace(precision=network.precision), until)
        return dataclasses.replace(verdict, widths=network.widths, remarks=(remark, *verdict.remarks), laws=())
    assessed = [Assessment(each.name, (*conditions, *each.conditions)) for each in assess(inner, reduced(inner))]
    failed = ", ".join(f"{each.name} ({each.distance:.2g})" for each in conditions if not each.ok)
    remarks = (UNSOLVED, f"biases: relative distances that are not 0: {failed}; linsolve.solve integrates the network.")
    return Verdict(network.widths, tuple(assessed), (), 0.0, remarks, {}, network.tolerance, network.precision)


def _error(match: Match, red: Reduced, times: np.ndarray, path: np.ndarray) -> float:
    """Return the largest rms distance of an exact flow from the integrated network, relative to its largest output."""
    state = match.flow(times, match.z0).state
    # a match may have other coordinates; maps are compared in those of the network
    left, right = red.outputs.T @ match.outputs, match.inputs.T @ red.inputs
    gap = left @ match.product(state) @ right - path
    scale = float(red.rms(path).max())
    return float(red.rms(gap).max()) / (scale if scale > 0 else 1.0)


def notes(network: Network, red: Reduced, assessed: list[Assessment]) -> list[str]:
    """Return remarks on parity, rank, infinite width, and cases without a closed form."""
    found = [*_parity(assessed), *_rank(red), *_wide(network, red)]
    if not any(each.match is not None for each in assessed):
        found += _unsolved(red, assessed)
    return found


def _parity(assessed: list[Assessment]) -> list[str]:
    found = []
    for each in assessed:
        match = each.match
        if isinstance(match, WhiteMatch) and float(match.flow.obstructed(np, match.z0)) > 0:  # type: ignore[attr-defined]
            found.append(f"parity: {match.flow.prospect(match.z0)}.")  # type: ignore[attr-defined]
        if isinstance(match, DeepMatch):
            wrong = int(np.sum(match.z0.a * match.flow.s < 0))  # type: ignore[attr-defined]
            if wrong:
                found.append(
                    f"parity: modes that start with the sign opposite to their target's: {wrong}; they end at 0."
                )
        if isinstance(match, LineMatch):
            flow: TwoLayer = match.flow  # type: ignore[assignment]
            if float(flow.loss(np, flow.limit(np, flow.state(match.z0)))) > 1e-12 * float(flow.y) ** 2:
                found.append("parity: the start lies on the stable manifold of the saddle, where the flow ends.")
    return found


def _rank(red: Reduced) -> list[str]:
    """Return the remaining loss if the narrowest layer has fewer units than the target has modes."""
    if red.depth == 1:
        return []
    narrow = min(len(layer) for layer in red.layers[:-1])
    strengths = np.linalg.svd(red.target @ red.root, compute_uv=False)
    rank = int(np.sum(strengths > 1e-12 * strengths[0])) if strengths[0] > 0 else 0
    if rank <= narrow:
        return []
    least = float(np.sum(strengths[narrow:] ** 2)) / 2
    return [f"rank: the target has {rank} modes, the narrowest layer {narrow} units; the loss stays above {least:.4g}."]


def _wide(network: Network, red: Reduced) -> list[str]:
    """Return a remark on wide random initial weights: Gram matrices isotropic up to the noise of h units."""
    if red.depth != 2:
        return []
    width = len(network.weights[0])
    (x, z), y = red.grams, red.product
    r, c = len(x), len(z)
    means = float(np.trace(x)) / r, float(np.trace(z)) / c
    if width < 4 * (r + c) or min(means) <= 0:
        return []
    # such a Gram matrix of independent Gaussian entries has the relative variance (n + 1) / h
    noise = [norm(g - m * np.eye(n)) / (m * np.sqrt(n)) for g, m, n in zip((x, z), means, (r, c), strict=True)]
    noise.append(norm(y) / (np.sqrt(means[0]) * np.sqrt(means[1]) * np.sqrt(max(r, c))))
    limits = [3 * np.sqrt((n + 1) / width) for n in (r, c, min(r, c))]
    if any(a > b for a, b in zip(noise, limits, strict=True)):
        return []
    return [
        f"wide random start, {width} hidden units: behaves as lambda = 2 sigma^2 h = {sum(means):.4g} mode by mode, "
        f"up to O(h^(-1/2)) = {width**-0.5:.2g}; approximate at finite width."
    ]


def _unsolved(red: Reduced, assessed: list[Assessment]) -> list[str]:
    """Return the reasons why no closed form is known."""
    broken = {each.name: {c.name for c in each.violated} for each in assessed}
    if red.depth > 2:
        if "alignment" in broken["DeepMode"] or "commuting covariance" in broken["DeepMode"]:
            return [f"{red.depth} layers, not aligned with the data's modes: no closed form is known."]
        return [f"{red.depth} layers, aligned but not balanced: a mode has t(a) by quadrature only, no closed form."]
    found = []
    if "white inputs" in broken["WhitenedTwoLayer"]:
        found.append("general input covariance and a start not aligned with its modes: no closed form is known.")
    if "solvable imbalance" in broken["WhitenedTwoLayer"]:
        found.append(
            "general imbalance: no closed form is known; if the imbalance has three distinct eigenvalues, the solution "
            "is not a rational function of exponentials."
        )
    return found
