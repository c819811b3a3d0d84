r"""Linear attention with merged keys and queries as a two-layer network, and its answers as those of `LinearAttention`.

The prediction :math:`\sum_i v_i\, \beta^\top U_i x_q` is that of a linear network with the inputs
:math:`\mathrm{vec}(\beta x_q^\top)`, the first layer :math:`\mathrm{vec}(U_i)` and the second :math:`v_i`. On average
over sequences the second moment of these inputs is :math:`\Lambda C \otimes \Lambda`, and that of targets and inputs
:math:`\mathrm{vec}(\Lambda^2)`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from linsolve.core.arguments import number, real_array, refuse_beyond_memory, refuse_shape, shown
from linsolve.core.matrix_arguments import semidefinite
from linsolve.core.trajectory import Deferred
from linsolve.solvability.conditions import Assessment, Condition
from linsolve.solvability.equivalent import Equivalent, Probes
from linsolve.solvability.matches import Match
from linsolve.solvability.trajectory import NetworkTrajectory
from linsolve.solvability.verdict import Verdict
from linsolve.systems.attention import heads
from linsolve.systems.attention.linear_attention import LinearAttention
from linsolve.systems.attention.tokens import curvature, least_error

__all__ = ["HeadsMatch", "Tokens", "are_sequences", "attending", "best_map", "features", "read_tokens", "refuse_large"]

LARGEST, SMALLEST = 1e30, 1e-30  # entry of tokens, targets and weights
NAMES = ("key_query", "value")


class Tokens(NamedTuple):
    """Tokens of a population: variances, increasing, their eigenvectors in columns, and the length of a context."""

    variance: np.ndarray
    axes: np.ndarray
    context: float

    @property
    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Second moments of the inputs ``beta x_q^T``, and of targets and inputs."""
        covariance = (self.axes * self.variance) @ self.axes.T
        of_beta = (self.axes * (self.variance * self.curvature)) @ self.axes.T
        return np.kron(of_beta, covariance), np.reshape(covariance @ covariance, (1, -1))

    @property
    def curvature(self) -> np.ndarray:
        """Eigenvalues of C."""
        return np.asarray(curvature(np, np.asarray(self.context), self.variance))

    @property
    def best(self) -> tuple[np.ndarray, float]:
        """The map of least loss, shape (d, d), and this loss."""
        least = float(least_error(np, np.asarray(self.context), self.variance)) / 2
        return (self.axes / self.curvature) @ self.axes.T, least

    @property
    def spread(self) -> float:
        """Relative difference of the largest and the smallest variance."""
        return float(1 - self.variance[0] / self.variance[-1])


class HeadsMatch(Match):
    """`LinearAttention` along the eigenvectors of the token covariance, in the columns of `inputs`."""

    def product(self, state: Any) -> np.ndarray:
        """Return the map in the eigenbasis, shape t.shape + (d, d)."""
        return np.asarray(state.product)

    def map(self, state: Any) -> np.ndarray:
        """Return the map ``sum v U`` in the coordinates of the tokens, shape t.shape + (d, d)."""
        return self.inputs @ np.asarray(getattr(state, "state", state).product) @ self.inputs.T


def read_tokens(who: str, covariance: Any, context: Any, d: int) -> Tokens:
    """Return checked tokens of a covariance matrix, of variances, or of one variance."""
    length = number(who, "context", context, meaning="tokens of a context", domain="[1, inf]", example=31)
    meaning = "covariance of the tokens"
    given = np.asarray(real_array(who, "data", covariance, meaning=meaning))
    matrix = given * np.eye(d) if given.ndim == 0 else np.diag(given) if given.ndim == 1 else given
    refuse_shape(who, "data", matrix, (d, d), meaning=meaning, fix="give one row and column for each entry of a token")
    variance, axes = semidefinite(who, "data", matrix, meaning=meaning)
    _refuse_flat(who, "data", variance)
    return Tokens(variance, axes, length)


def _refuse_flat(who: str, name: str, variance: np.ndarray) -> None:
    """Raise ValueError unless all variances of the tokens, in increasing order, are positive and far from overflow."""
    if not (variance[0] > 1e-12 * variance[-1] and SMALLEST <= variance[-1] <= LARGEST):
        raise ValueError(
            f"{who}: {name} has tokens of variances {variance[0]:.3g} to {variance[-1]:.3g}, which must be positive "
            f"and between {SMALLEST:g} and {LARGEST:g} (eigenvalues of their covariance); leave directions without "
            "variance out, or rescale"
        )


def are_sequences(data: Any) -> bool:
    """Return whether data is a pair (tokens, targets), not a covariance."""
    return isinstance(data, tuple | list) and len(data) == 2 and np.ndim(data[0]) == 3


def attending(who: str, weights: Any, data: Any, rates: Any, covariances: Any, test: Any, context: Any) -> Equivalent:
    """Return the two-layer network of merged heads on tokens of a covariance, or on sampled sequences."""
    value, key_query = _heads(who, weights)
    count, d = key_query.shape[:2]
    speeds = np.ones(2) if rates is None else np.asarray(real_array(who, "rates", rates, meaning="learning rates"))
    refuse_shape(who, "rates", speeds, (2,), meaning="learning rates of value and key_query", fix="give 2")
    refuse_beyond_memory(who, {"d": d, "columns": d, "rows": d, "entries": d}, "second moment of the inputs")
    held_out = None
    if are_sequences(data):
        tokens, pair, moment = None, *features(who, "data", data, covariances, context, d)
        held_out = None if test is None else features(who, "test", test, covariances, context, d)[0]
        variance, axes = np.linalg.eigh(moment)
        best = _best_on_sequences(*pair)[0].reshape(d, d)
    else:
        _refuse_test(who, test)
        tokens = read_tokens(who, data, context, d)
        pair, variance, axes, best = tokens.moments, tokens.variance, tokens.axes, tokens.best[0]
    wanted = np.einsum("ak,ab,bk->k", axes, best, axes)
    kept = np.flatnonzero(np.abs(wanted) > 1e-12 * np.abs(wanted).max())[::-1]
    probes = np.einsum("ak,bk->kab", axes[:, kept], axes[:, kept]).reshape(-1, 1, d * d)
    return Equivalent(
        [key_query.reshape(count, d * d), value[None]], pair, speeds[::-1], tokens is not None, held_out, NAMES,
        Probes("variance of the tokens", variance[kept], probes, wanted[kept]),
        lambda verdict: _verdict(verdict, (value, key_query), tokens, speeds),
        lambda traj: _trajectory(traj, key_query.shape, tokens),
    )  # fmt: skip


def best_map(who: str, data: Any, context: Any, d: int) -> tuple[np.ndarray, float]:
    """Return the map of heads with the least loss, shape (d, d), on tokens of a covariance or on sequences."""
    if not are_sequences(data):
        return read_tokens(who, data, context, d).best
    found, least = _best_on_sequences(*features(who, "data", data, False, context, d)[0])
    return found.reshape(d, d), least


def _best_on_sequences(inputs: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the entries of the map of least loss, and this loss, from the features of sequences."""
    found = np.linalg.lstsq(inputs, targets)[0]
    return found, float(np.mean((targets - inputs @ found) ** 2)) / 2


def _refuse_test(who: str, test: Any) -> None:
    if test is not None:
        raise ValueError(
            f"{who}: test needs sampled sequences as data, (tokens, targets), not the covariance of the tokens; "
            "LinearAttention.test_error returns the error of the population"
        )


def _heads(who: str, weights: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return checked values and key-query matrices at their own precision."""
    if not isinstance(weights, tuple | list) or len(weights) != 2:
        raise ValueError(
            f"{who}: weights must be (value, key_query), or (value, key, query) of rank-one heads (linear attention); "
            "pass 2 or 3 arrays in a list"
        )
    for name, given, axes in (("value", weights[0], "(heads,)"), ("key_query", weights[1], "(heads, d, d)")):
        found = np.asarray(real_array(who, name, given, meaning="weights of the heads"))
        if found.ndim != axes.count(",") + (axes != "(heads,)"):
            raise ValueError(
                f"{who}: weights = (value, key_query): {name} has shape {found.shape} but must be {axes} (linear "
                "attention, because context is given); reshape it, or leave context out for a network of layers"
            )
        refuse_large(who, name, found)
    heads.checked(who, *weights)
    value, key_query = (np.asarray(w) for w in weights)
    return value, key_query


def refuse_large(who: str, name: str, values: np.ndarray) -> None:
    """Raise ValueError for arrays whose powers may leave the range of doubles."""
    size = float(np.abs(values).max(initial=0.0))
    if not (size == 0 or SMALLEST <= size <= LARGEST):
        raise ValueError(
            f"{who}: {name} reaches {size:.3g} but must be 0 or reach {SMALLEST:g} to {LARGEST:g} (linear attention); "
            "rescale it"
        )


def features(
    who: str, name: str, data: Any, covariances: Any, context: Any, d: int
) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Return inputs ``beta x_q^T`` (sequences, d^2) and targets of queries, and the second moment of the queries."""
    if not are_sequences(data):
        raise ValueError(f"{who}: {name} must be the pair (tokens, targets) (sampled sequences); pass both")
    if covariances is not False:
        raise ValueError(
            f"{who}: covariances = {shown(covariances)} does not go with sequences (samples); leave it out"
        )
    length = number(who, "context", context, meaning="tokens of a context", domain="[1, inf)", example=31)
    if length % 1:
        raise ValueError(f"{who}: context = {length:g} must be a whole number (tokens before the query); round it")
    tokens, targets = (
        np.asarray(real_array(who, f"{name}[{k}]", each, meaning=meaning))
        for k, (each, meaning) in enumerate(zip(data, ("tokens", "targets"), strict=True))
    )
    wanted = (len(tokens), int(length) + 1)
    for k, (each, shape, rule) in enumerate(
        (
            (tokens, (*wanted, d), "(sequences, context + 1, d), the query last"),
            (targets, wanted, "(sequences, context + 1)"),
        )
    ):
        if each.shape != shape:
            raise ValueError(
                f"{who}: {name}[{k}] has shape {each.shape} but must be {shape} for context = {length:g} ({rule}); "
                "change one of the two"
            )
        refuse_large(who, f"{name}[{k}]", each)
    beta = np.einsum("pn,pnd->pd", targets[:, :-1], tokens[:, :-1]) / length
    query = tokens[:, -1]
    _refuse_flat(who, f"{name}[0]", np.linalg.eigvalsh(query.T @ query / len(query)))
    inputs = np.reshape(beta[:, :, None] * query[:, None, :], (len(tokens), d * d))
    if not inputs.any():
        raise ValueError(
            f"{who}: {name}[1] = 0 must have an entry other than 0 in a context (targets; heads learn nothing); "
            "give other sequences"
        )
    return (inputs, targets[:, -1:]), query.T @ query / len(query)


def _verdict(verdict: Verdict, heads: tuple[Any, Any], tokens: Tokens | None, rates: np.ndarray) -> Verdict:
    count, d = heads[1].shape[:2]
    found = verdict.assessments
    if tokens is not None:
        found = tuple(_as_attention(each, heads, tokens, rates) for each in found)
    renamed = dict(zip([each.name for each in verdict.assessments], [each.name for each in found], strict=True))
    remark = (
        f"attention: the heads are the two-layer network of {d * d} inputs beta x_q^T, {count} hidden units and one "
        "output; flows other than LinearAttention hold for this network."
    )
    return dataclasses.replace(
        verdict,
        assessments=tuple(sorted(found, key=lambda each: each.name != "LinearAttention")),
        errors={renamed[name]: error for name, error in verdict.errors.items()},
        remarks=(remark, *verdict.remarks),
        subject=f"linear attention, {count} head{'s' * (count > 1)} on tokens of dimension {d}",
    )


def _as_attention(each: Assessment, heads: tuple[Any, Any], tokens: Tokens, rates: np.ndarray) -> Assessment:
    """Return the assessment of `LinearAttention`, in heads scaled to equal rates, for that of its two-layer network."""
    if each.name != "WhitenedTwoLayer":
        return each
    detail = f"variances {tokens.variance[0]:.4g} to {tokens.variance[-1]:.4g}, as (largest - smallest) / largest"
    white = Condition("white tokens", tokens.spread, detail)
    conditions = tuple(
        dataclasses.replace(white, tolerance=c.tolerance) if c.name == "white inputs" else c for c in each.conditions
    )
    found = dataclasses.replace(each, name="LinearAttention", conditions=conditions)
    if each.match is None:
        return found
    clock = float(np.sqrt(rates[0] * rates[1]))
    value, key_query = (np.sqrt(clock / rate) * w for rate, w in zip(rates, heads, strict=True))
    flow = LinearAttention(tokens.context, len(tokens.variance), tokens.variance.mean(), tau=1 / clock)
    z0 = flow.of(value, tokens.axes.T @ key_query @ tokens.axes)
    return dataclasses.replace(found, match=HeadsMatch("LinearAttention", flow, z0, tokens.axes, tokens.axes))


def _trajectory(traj: NetworkTrajectory, shape: tuple[int, ...], tokens: Tokens | None) -> NetworkTrajectory:
    """Return the trajectory of values, key-query matrices and their map; losses count the part no map removes."""
    inner, d = traj.values, shape[-1]
    values = Deferred() | inner
    del values["w1"], values["w2"]
    values["value"] = lambda: inner["w2"][..., 0, :]
    values["key_query"] = lambda: inner["w1"].reshape(*traj.t.shape, *shape)
    values["map"] = lambda: inner["map"].reshape(*traj.t.shape, d, d)
    values["singular_values"] = lambda: np.linalg.svd(inner["map"].reshape(*traj.t.shape, d, d), compute_uv=False)
    if tokens is not None:
        least = tokens.best[1]
        values["loss"] = lambda: inner["loss"] + least
    return dataclasses.replace(traj, values=values, kind="linear attention")
