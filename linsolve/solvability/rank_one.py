"""Linear attention with separate keys and queries: the conditions of `RankOneAttention`, and its error."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from linsolve.core.arguments import Interval, known_array, number, real_array, refuse_beyond_memory, refuse_shape
from linsolve.core.network_arguments import coarsest, read_tolerance
from linsolve.core.trajectory import Deferred, read_only
from linsolve.solvability.conditions import Assessment, Condition
from linsolve.solvability.directions import Directions, learned
from linsolve.solvability.heads import Tokens, are_sequences, features, read_tokens, refuse_large
from linsolve.solvability.integration import refuse_endless
from linsolve.solvability.matches import Match
from linsolve.solvability.rank_one_horizon import learning_time, pace
from linsolve.solvability.trajectory import NetworkTrajectory
from linsolve.solvability.verdict import Verdict
from linsolve.systems.attention.rank_one_attention import RankOneAttention
from linsolve.systems.attention.sequences import Moments, followed, population, separate_pull

__all__ = ["Heads", "RankOneMatch", "judge_heads", "read_heads", "solve_heads"]

NAMES = ("value", "key", "query")
POINTS = 129
FAR = 1e5  # time constants of the fastest weight that are integrated at most
MEASURE = "variance of the tokens"
SMALL = 1e-13  # distance of a condition that counts as rounding


class RankOneMatch(Match):
    """`RankOneAttention` along orthonormal eigenvectors of the token covariance, the columns of `inputs`."""

    def product(self, state: Any) -> np.ndarray:
        """Return the map in the eigenbasis, shape t.shape + (d, d)."""
        strengths = np.asarray(state.strengths)
        return strengths[..., None] * np.eye(strengths.shape[-1])


class Heads(NamedTuple):
    """Values (H,), keys and queries (H, d), scaled to equal learning rates, on the moments of sequences.

    `scales` are the factors of value, key and query, `clock` is the common rate, and `precision` that of the numbers.
    """

    weights: tuple[np.ndarray, np.ndarray, np.ndarray]
    scales: np.ndarray
    clock: float
    moments: Moments
    tokens: Tokens
    sampled: bool
    precision: str

    @property
    def map(self) -> np.ndarray:
        """The map ``sum v k q^T``."""
        return _map(self.weights)

    def rms(self, maps: np.ndarray) -> np.ndarray:
        """Return the root mean square over sequences of the outputs of maps."""
        return np.sqrt(np.einsum("...ab,abce,...ce->...", maps, self.moments.quadratic, maps, optimize=True))

    def path(self, t: np.ndarray, rtol: float = 1e-10) -> list[np.ndarray]:
        """Return values, keys and queries at increasing times, by DOP853."""
        return followed(self.moments, separate_pull, self.weights, self.clock * t, rtol)


def _map(weights: Any) -> np.ndarray:
    return np.asarray(np.einsum("...h,...ha,...hb->...ab", *weights))


def read_heads(who: str, weights: Any, data: Any, rates: Any, covariances: Any, context: Any) -> Heads:
    """Return checked heads and the moments of their sequences."""
    value, key, query = (
        np.asarray(real_array(who, name, w, meaning="weights of the heads"))
        for name, w in zip(NAMES, weights, strict=True)
    )
    if key.ndim != 2:
        raise ValueError(f"{who}: key has shape {key.shape} but must be (heads, d) (linear attention); reshape it")
    count, d = key.shape
    one, rows = "give one entry for each head", "give key and query one row for each head, with the length of a token"
    refuse_shape(who, "value", value, (count,), meaning=f"{count} heads of key", fix=one)
    refuse_shape(who, "query", query, (count, d), meaning="shape of key, (heads, d)", fix=rows)
    for name, given in zip(NAMES, (value, key, query), strict=True):
        for head in given:
            refuse_large(who, name, head)
    refuse_beyond_memory(who, {"d": d, "columns": d, "rows": d, "entries": d}, "moments of the sequences")
    rates = np.ones(3) if rates is None else rates
    domain, meaning = Interval("[1e-12, 1e12]"), "learning rates of value, key and query"
    speeds = np.asarray(real_array(who, "rates", rates, meaning=meaning, domain=domain))
    refuse_shape(who, "rates", speeds, (3,), meaning=meaning, fix="give 3")
    clock = float(np.exp(np.mean(np.log(speeds))))
    scales = np.sqrt(clock / speeds)
    if sampled := are_sequences(data):
        (inputs, y), moment = features(who, "data", data, covariances, context, d)
        variance, axes = np.linalg.eigh(moment)
        tokens = Tokens(variance, axes, float(context))
        quadratic = (inputs.T @ inputs / len(inputs)).reshape(d, d, d, d)
        moments = Moments((y.T @ inputs / len(inputs)).reshape(d, d), quadratic, float(np.mean(y * y)))
    else:
        tokens = read_tokens(who, data, context, d)
        moments = population(tokens.context, (tokens.axes * tokens.variance) @ tokens.axes.T)
    value, key, query = (scale * w for scale, w in zip(scales, (value, key, query), strict=True))
    return Heads((value, key, query), scales, clock, moments, tokens, sampled, coarsest([*weights]))


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def _live(heads: Heads) -> np.ndarray:
    """Return the heads with a key and a query; a head without weights never learns."""
    return np.flatnonzero(np.any(heads.weights[1], axis=1) & np.any(heads.weights[2], axis=1))


def _conditions(heads: Heads, tolerance: float) -> tuple[Condition, ...]:
    value, key, query = heads.weights
    live, tokens = _live(heads), heads.tokens
    covariance = (tokens.axes * tokens.variance) @ tokens.axes.T
    k, q = _unit(key[live]), _unit(query[live])
    turned = max(
        (float(np.linalg.norm(e @ covariance - (e @ covariance @ e) * e)) / tokens.variance[-1] for e in (*k, *q)),
        default=0.0,
    )
    across = q - np.sum(k * q, axis=1, keepdims=True) * k
    overlap = np.abs(k @ k.T - np.eye(len(k)))
    sizes = np.stack([value**2, np.sum(key**2, axis=1), np.sum(query**2, axis=1)])
    most = sizes.max(axis=0)
    lean = (most - sizes.min(axis=0)) / np.where(most > 0, most, 1.0)
    found = [
        Condition("along eigenvectors", turned, "keys and queries off the eigenvectors of the token covariance"),
        Condition(
            "key along query", float(np.linalg.norm(across, axis=1).max(initial=0.0)), "sine of their angle, worst head"
        ),
        Condition("one head each", float(overlap.max(initial=0.0)), "cosine of the keys of two heads"),
        Condition("balance", float(lean.max()), "|value|, |key|, |query| (squares, over rates), worst head"),
    ]
    if heads.sampled:
        exact = population(tokens.context, covariance).quadratic
        gap = float(np.linalg.norm(heads.moments.quadratic - exact) / np.linalg.norm(exact))
        found.append(Condition("all sequences", gap, "second moment of beta x_q^T off that of Gaussian tokens"))
    return tuple(dataclasses.replace(each, tolerance=tolerance) for each in found)


def _match(heads: Heads, exact: bool) -> RankOneMatch:
    """Return the flow of the heads; if it is not exact, that of the diagonal of the map in the eigenbasis."""
    tokens = heads.tokens
    variance, axes = tokens.variance, tokens.axes
    if exact:  # repeated variances: eigenvectors along the keys
        covariance = (axes * variance) @ axes.T
        keys = np.linalg.qr(_unit(heads.weights[1][_live(heads)]).T, mode="complete")[0]
        count = len(_live(heads))
        rest = keys[:, count:]
        rest = rest @ np.linalg.eigh(rest.T @ covariance @ rest)[1]
        axes = np.concatenate([keys[:, :count], rest], axis=1)
        variance = np.sum(axes * (covariance @ axes), axis=0)
    flow = RankOneAttention(tokens.context, variance, tau=1 / heads.clock)
    return RankOneMatch(
        "RankOneAttention", flow, flow.State(np.einsum("ak,ab,bk->k", axes, heads.map, axes)), axes, axes
    )


def judge_heads(who: str, heads: Heads, until: Any, tolerance: Any) -> Verdict:
    """Return the verdict on rank-one heads; the error of the flow is measured against their integration."""
    limit = read_tolerance(who, tolerance, heads.precision)
    conditions = _conditions(heads, limit)
    exact = all(each.ok for each in conditions)
    match = _match(heads, exact)
    flow: Any = match.flow
    stages, remarks = flow.stages(match.z0), list[str]()
    end = learning_time(heads, match if exact else None) if until is None else _checked_horizon(who, heads, until)
    times = np.linspace(0.0, end, POINTS)
    path = _map(heads.path(times))
    scale = float(heads.rms(path).max())
    error = float(heads.rms(match.map(flow(times, match.z0)) - path).max()) / (scale or 1.0)
    if exact:
        times = np.empty_like(stages.times)
        times[stages.order] = stages.times
        order = np.argsort(-flow.variance)
        directions = Directions(MEASURE, flow.variance[order], times[order], np.inf, np.isinf(times[order]))
    else:
        order = np.argsort(-heads.tokens.variance)
        axes, wanted = heads.tokens.axes[:, order], 1 / heads.tokens.curvature[order]
        found = learned(lambda t: _map(heads.path(t)), np.einsum("ak,bk->kab", axes, axes), wanted, times)
        directions = Directions(MEASURE, heads.tokens.variance[order], found, end, np.zeros(len(found), dtype=bool))
        near = ", ".join(f"{m:.4g}" for m in match.z0.strengths)
        remarks += [
            f"nearest: RankOneAttention from the strengths {near} of the start along the eigenvectors; error "
            f"{error:.2g} times the largest output (measured up to t = {end:.4g}; no bound is known).",
            "no closed form is known for this start; linsolve.solve with the same arguments integrates the heads.",
        ]
    assessed = Assessment("RankOneAttention", conditions, match if exact else None)
    count, d = heads.weights[1].shape
    return Verdict(
        (d, count, d), (assessed,), (), end, tuple(remarks), {"RankOneAttention": error} if exact else {}, limit,
        heads.precision, directions=directions,
        subject=f"linear attention, {count} rank-one head{'s' * (count > 1)} on tokens of dimension {d}",
    )  # fmt: skip


def _checked_horizon(who: str, heads: Heads, until: Any) -> float:
    end = number(who, "until", until, meaning="time; left out, a learning time", example=10.0)
    refuse_endless(who, "until", end, lambda _: pace(heads), FAR)
    return end


def solve_heads(who: str, heads: Heads, t: Any, rtol: Any, tolerance: Any) -> NetworkTrajectory:
    """Return the trajectory of rank-one heads, in closed form where it holds, else by integration."""
    limit = SMALL if tolerance is None else read_tolerance(who, tolerance, heads.precision)
    rtol = number(who, "rtol", rtol, meaning="relative tolerance of doubles", domain="[2.3e-14, 1)", example=1e-10)
    times = read_only(known_array(who, "t", t, meaning="time", domain=Interval("[0, inf]")))
    failed = [each for each in _conditions(heads, limit) if not each.ok]
    if not failed:
        match = _match(heads, exact=True)
        flow: Any = match.flow
        state = flow(times, match.z0)
        start = match.z0.strengths
        growth = np.cbrt(np.divide(state["strengths"], start, out=np.ones(state["strengths"].shape), where=start != 0))
        share = np.ones((*times.shape, len(heads.weights[0])))
        share[..., _live(heads)] = growth[..., : len(_live(heads))]
        weights = [w * (share if w.ndim == 1 else share[..., None]) for w in heads.weights]
        route = "closed form: RankOneAttention"
    else:
        if not np.isfinite(times).all():
            raise ValueError(f"{who}: t = inf must be finite (time; the weights are integrated); say a late time")
        worst = max(failed, key=lambda each: each.distance)
        route, flow = f"DOP853: RankOneAttention needs {worst.name}, relative distance {worst.distance:.2g}", None
        refuse_endless(who, "t", float(times.max(initial=0.0)), lambda _: pace(heads), FAR)
        order, place = np.unique(times, return_inverse=True)
        weights = [w[place.reshape(times.shape)] for w in heads.path(order, rtol)]
    maps = _map(weights)
    own = Deferred() | {name: w / scale for name, w, scale in zip(NAMES, weights, heads.scales, strict=True)}
    values = own | Deferred(
        map=lambda: maps,
        singular_values=lambda: np.asarray(np.linalg.svd(maps, compute_uv=False)),
        loss=lambda: heads.moments.loss(maps),
    )
    return NetworkTrajectory(times, route, flow, (), values, kind="linear attention")
