"""Merged keys and queries: proof, simulated heads, moments of sequences, other contexts, tokens that are not white."""

from itertools import product

import numpy as np
import pytest
from mutants.attention import mutants
from scipy.interpolate import PchipInterpolator
from selection import quick

import linsolve as ls
from linsolve import LinearAttention
from linsolve.systems.attention.sequences import Moments, followed, merged_pull, population, sampled

MUTANTS = mutants(np.random.default_rng(5))


@pytest.mark.parametrize("name", MUTANTS)
def test_wrong_formulas_are_rejected(name):
    mutant = MUTANTS[name]
    assert ls.verify(mutant.flow, mutant.z0, checks=[mutant.seen_by]).failed == [mutant.seen_by]


def test_curvature_without_the_trace_fails_nothing_but_the_network():
    mutant = MUTANTS["without the trace"]
    assert ls.verify(mutant.flow, mutant.z0, 20, checks=["velocity", "residual", "dop853"]).ok


def drawn(rng):
    """Return a flow on white tokens and heads from which it is exact: one head, or several that are lambda-balanced."""
    d, context = int(rng.integers(1, 4)), float(rng.integers(1, 40))
    flow = LinearAttention(context, d, variance=rng.uniform(0.5, 1.6), tau=rng.uniform(0.5, 2.0))
    kind, scale = rng.integers(3), rng.uniform(0.05, 0.8)
    if kind == 0:
        return flow, (scale * rng.normal(size=1), scale * rng.normal(size=(1, d, d)))
    if kind == 1:
        return flow, LinearAttention.init(d, int(rng.integers(2, 6)), scale=scale, rng=rng)
    count = int(rng.integers(1, d * d + 1))
    key_query, value = ls.WhitenedTwoLayer.init(d * d, count, 1, scale=scale, imbalance=-0.2, rng=rng)
    return flow, (value[0], key_query.reshape(-1, d, d))


@pytest.mark.parametrize("seed", quick(range(100), 4))
def test_simulated_heads_follow_the_closed_form(seed):
    flow, heads = drawn(np.random.default_rng(seed))
    d, context = int(flow.dim), float(flow.context)
    t = np.array([0.0, 0.3, 1.0, 3.0, 10.0])
    raw = followed(population(context, flow.variance * np.eye(d)), merged_pull, heads, t, rtol=1e-12)
    traj = flow(t * flow.tau, flow.of(*heads))
    for name, exact in flow.of(*raw)._asdict().items():
        assert np.max(np.abs(traj[name] - exact)) <= 1e-10 * np.max(np.abs(exact)), name
    np.testing.assert_allclose(traj["strengths"], np.einsum("thaa,th->ta", raw[1], raw[0]), atol=1e-10)


def nodes(count):
    """Return the nodes and weights of a rule that is exact for all Gaussian moments up to the fifth, in each entry."""
    signs = np.array(list(product((-1, 0, 1), repeat=count)))
    return np.sqrt(3) * signs, np.prod(np.where(signs == 0, 2 / 3, 1 / 6), axis=1)


def enumerated(context, root):
    """Return the averages over tasks, all tokens of a context and queries, sequence by sequence."""
    d = len(root)
    x, weights = nodes(context * d)
    tokens = x.reshape(-1, context, d) @ root.T
    linear, quadratic = np.zeros((d, d)), np.zeros((d, d, d, d))
    for task, query in product(np.sqrt(d) * np.eye(d), np.sqrt(d) * root.T):
        beta = np.einsum("pnd,pne,e->pd", tokens, tokens, task) / context
        linear += np.einsum("p,pa,b->ab", weights, beta, (task @ query) * query) / d**2
        quadratic += np.einsum("p,pa,b,pc,e->abce", weights, beta, query, beta, query, optimize=True) / d**2
    return Moments(linear, quadratic, float(np.trace(root @ root.T)))


@pytest.mark.parametrize(("context", "d"), [(1, 2), (2, 2), (3, 1), (2, 3)])
@pytest.mark.quick(3)
def test_moments_of_the_population_are_those_of_all_sequences(context, d):
    root = np.tril(np.random.default_rng(d).normal(size=(d, d)))
    found, exact = population(context, root @ root.T), enumerated(context, root)
    for a, b in zip(found, exact, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("variance", [0.7, [0.4, 1.3]])
def test_loss_velocity_and_test_error_are_those_of_all_sequences(variance):
    rng = np.random.default_rng(1)
    flow = LinearAttention(2, 2, variance, tau=0.7)
    value, key_query = rng.normal(size=3), rng.normal(size=(3, 2, 2))
    z, root = flow.of(value, key_query), np.diag(np.sqrt(variance * np.ones(2)))
    moments = enumerated(2, root)
    np.testing.assert_allclose(flow.loss(np, z), moments.loss(z.product), rtol=1e-12)
    moved = merged_pull(moments, value, key_query)
    change = np.einsum("h,hab->ab", moved[0], key_query) + np.einsum("h,hab->ab", value, moved[1])
    np.testing.assert_allclose(flow.velocity(np, z).product, change / 0.7, rtol=1e-12)
    for context in (1, 3):
        exact = 2 * enumerated(context, root).loss(z.product)
        np.testing.assert_allclose(flow.test_error(np, z, context), exact, rtol=1e-12)
    best = np.linalg.solve(moments.quadratic.reshape(4, 4), moments.linear.ravel())
    np.testing.assert_allclose(flow.least_loss(np), moments.loss(best.reshape(2, 2)), rtol=1e-12)


def test_moments_of_many_sampled_sequences_are_near_those_of_the_population():
    covariance = np.array([[1.0, 0.3], [0.3, 0.8]])
    drawn = sampled(np.random.default_rng(0), 50_000, 4, covariance)
    for found, exact in zip(drawn, population(4, covariance), strict=True):
        assert np.linalg.norm(found - exact) <= 0.05 * np.linalg.norm(exact)


@pytest.mark.exhaustive
def test_gradients_of_sampled_sequences_have_the_population_gradient_as_mean():
    rng = np.random.default_rng(2)
    covariance = np.array([[1.0, 0.3, 0.0], [0.3, 0.8, 0.1], [0.0, 0.1, 0.5]])
    value, key_query = 0.5 * rng.normal(size=2), 0.5 * rng.normal(size=(2, 3, 3))
    found = [merged_pull(sampled(rng, 2500, 8, covariance), value, key_query)[1].ravel() for _ in range(40)]
    exact = merged_pull(population(8, covariance), value, key_query)[1].ravel()
    error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    assert np.all(np.abs(np.mean(found, axis=0) - exact) <= 4 * error)
    assert np.max(error) <= 0.05 * np.max(np.abs(exact))  # a deviation of a fifth would be seen


@pytest.mark.exhaustive
def test_training_on_sampled_sequences_has_the_learning_time_of_the_closed_form():
    """100,000 sequences in each of 12 data sets: the time at which half of the loss is lost."""
    rng, t = np.random.default_rng(3), np.linspace(0.5, 4.0, 50)
    flow = LinearAttention(8, 2)
    heads = LinearAttention.init(2, 3, scale=0.1, rng=1)
    middle = (flow.loss(np, flow.of(*heads)) + flow.least_loss(np)) / 2

    def half(losses):
        return PchipInterpolator(t, losses - middle).roots(extrapolate=False)[0]

    found = []
    for _ in range(12):
        value, key_query = followed(sampled(rng, 100_000, 8, np.eye(2)), merged_pull, heads, t, rtol=1e-7)
        found.append(half(population(8, np.eye(2)).loss(np.einsum("th,thab->tab", value, key_query))))
    score = (np.mean(found) - half(flow(t, flow.of(*heads))["loss"])) / (np.std(found, ddof=1) / np.sqrt(12))
    assert abs(score) <= 4
    assert np.std(found) <= 0.02 * np.mean(found)


def test_heads_along_the_identity_are_one_hidden_mode():
    """``U_i = u_i 1/sqrt D``: the mode of a network whose hidden units are heads, balanced or not."""
    rng, t, d = np.random.default_rng(4), np.array([0.0, 0.5, 2.0, np.inf]), 3
    flow = LinearAttention(7, d, variance=1.3, tau=0.8)
    c = 1.3 + (1 + d) * 1.3 / 7
    for u, v in (rng.normal(size=(2, 1)), np.array([[0.3, -0.6], [0.3, -0.6]])):
        mode = ls.HiddenMode(s=np.sqrt(d) / c)(t * 1.3**2 * c / 0.8, (v, u))
        traj = flow(t, flow.of(v, u[:, None, None] * np.eye(d) / np.sqrt(d)))
        np.testing.assert_allclose(traj["strengths"], mode["output"][:, None] / np.sqrt(d) + np.zeros(d), atol=1e-12)
        excess = 1.3**2 * c * mode["loss"]
        np.testing.assert_allclose(traj["loss"] - flow.least_loss(np), excess, atol=1e-12)


def test_tokens_that_are_not_white_are_refused_and_integrated():
    heads = np.array([0.5]), np.array([[[0.3, 0.1], [-0.2, 0.4]]])
    flow, t = LinearAttention(6, 2, variance=[1.2, 0.6]), np.array([0.0, 1.0, 4.0])
    with pytest.raises(
        ls.NotExact, match=r"distance of the tokens from white = 0\.5 must vanish .*; use flow.simulate"
    ):
        flow(t, flow.of(*heads))
    raw = followed(population(6.0, np.diag(flow.variance)), merged_pull, heads, t, rtol=1e-12)
    traj = ls.integrate(flow, t, flow.of(*heads), rtol=1e-10)
    for name, exact in flow.of(*raw)._asdict().items():
        np.testing.assert_allclose(traj[name], exact, atol=1e-8)


def test_heads_are_simulated_where_products_lose_their_accuracy():
    """One head of 16 entries: rounding of integrated products excites modes that one head forbids."""
    rng = np.random.default_rng(4)
    value, key_query = rng.normal(size=1), rng.normal(size=(1, 4, 4))
    flow = LinearAttention(context=31, dim=4)
    found, exact = flow.simulate([6.0, 8.0], value, key_query), flow([6.0, 8.0], flow.of(value, key_query))
    np.testing.assert_allclose(found["loss"], exact["loss"], rtol=1e-7)
    np.testing.assert_allclose(found["product"], exact["product"], atol=1e-7)


@pytest.mark.parametrize("context", [0, -5, np.nan, 0.5])
def test_contexts_of_less_than_a_token_are_refused(context):
    flow = LinearAttention(context=31, dim=4)
    z = flow.of(*flow.init(4, scale=0.1, rng=0))
    with pytest.raises(ValueError, match=r"^LinearAttention\.test_error: context = "):
        flow.test_error(np, z, context)


def test_several_heads_that_are_not_balanced_are_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(ls.NotExact, match="distance of the imbalance from a solvable one"):
        LinearAttention(6, 2)(1.0, LinearAttention.of(rng.normal(size=3), rng.normal(size=(3, 2, 2))))


def test_batches_of_contexts_and_variances():
    heads = LinearAttention.init(2, 3, scale=0.2, rng=0)
    context, variance = np.array([2.0, 8.0, np.inf]), np.array([[0.5], [1.0], [2.0]]) * np.ones(2)
    found = LinearAttention(context, 2, variance)([1.0, np.inf], LinearAttention.of(*heads))
    for k in range(3):
        one = LinearAttention(context[k], 2, variance[k, 0])([1.0, np.inf], LinearAttention.of(*heads))
        np.testing.assert_allclose(found["product"][:, k], one["product"], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(found["product"][1, 2], np.eye(2) / 2, atol=1e-12)  # endless contexts: the inverse


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: LinearAttention(0, 2), r"LinearAttention: context = 0\.0 must lie in \[1, inf\]"),
        (lambda: LinearAttention(8, 2.5), r"LinearAttention: dim = 2\.5 must be a whole number"),
        (lambda: LinearAttention(8, [2, 3], [1.0, 1.0]), r"LinearAttention: dim = 3 must equal d = 2 of variance"),
        (lambda: LinearAttention(8, 3, [1.0, 2.0]), r"LinearAttention: dim = 3 must equal d = 2 of variance"),
        (
            lambda: LinearAttention(8, 3)(1.0, LinearAttention.of([0.1], np.ones((1, 2, 2)))),
            r"LinearAttention: dim = 3 must equal d = 2 of the state",
        ),
        (lambda: LinearAttention.of(0.1, np.ones((1, 2, 2))), r"LinearAttention: value has shape \(\) but needs"),
        (
            lambda: LinearAttention.of([0.1], np.ones((2, 2, 2))),
            r"key_query has shape \(2, 2, 2\) but must have .*heads",
        ),
        (lambda: LinearAttention.of([0.1], np.ones((1, 2, 3))), r"key_query has shape \(1, 2, 3\) but must have"),
        (lambda: LinearAttention.init(0, scale=1.0), r"LinearAttention\.init: dim = 0 must be a positive integer"),
        (lambda: LinearAttention.init(2, scale=-1.0), r"LinearAttention\.init: scale = -1\.0 must be a number in"),
        (
            lambda: LinearAttention(8, 1)(1.0, ([[1.0]], [[[[0.1]]]], 0.1)),
            r"LinearAttention: product = 1 .* must not exceed the Cauchy-Schwarz bound .*LinearAttention\.of\(value",
        ),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_weights_and_variances_beyond_the_range_of_doubles_are_named():
    for cls, own in ((LinearAttention, {"dim": 2}), (ls.RankOneAttention, {})):
        with pytest.raises(OverflowError, match=rf"{cls.__name__}: variance = 1e\+155 makes the rates"):
            cls(context=8, variance=[1e155, 1.0], **own)
    with pytest.raises(OverflowError, match="LinearAttention: key_query = 1e"):
        LinearAttention.of([1.0], np.full((1, 2, 2), 1e200))


def test_one_value_serves_a_batch_of_key_query_matrices():
    rng = np.random.default_rng(0)
    value, key_query = rng.normal(size=3), rng.normal(size=(5, 3, 2, 2))
    batch = LinearAttention.of(value, key_query)
    for k in range(5):
        for found, one in zip(batch, LinearAttention.of(value, key_query[k]), strict=True):
            np.testing.assert_allclose(np.broadcast_to(found, (5, *one.shape))[k], one, rtol=1e-14)
