"""Routes of branched networks: bounds on the error of races, reasons of `solve`, nearest races, values by name."""

import copy
import pickle
import re

import branching
import numpy as np
import pytest
from selection import quick

import linsolve as ls
from linsolve.solvability.branched import bound
from linsolve.solvability.branched.read import read_branches


def names(weights):
    return [f"{layer}_{k}" for k in range(1, len(weights) + 1) for layer in ("first", "last")]


def norms(layers):
    """Return the largest Frobenius norm over time of each layer."""
    return [np.max(np.linalg.norm(w.reshape(len(w), -1), axis=1)) for w in layers]


def perturbed(rng, weights, X, Y, size):
    """Return a race with a change of its start, outputs, inputs or balance."""
    kind = rng.choice(["start", "outputs", "inputs", "balance"])
    if kind == "start":
        weights = [[w + size * rng.normal(size=w.shape) for w in pair] for pair in weights]
    elif kind == "balance":
        weights = [[w1 * (1 + size), w2] for w1, w2 in weights]
    else:
        X, Y = (
            X + (kind == "inputs") * size * rng.normal(size=X.shape),
            Y + (kind == "outputs") * size * rng.normal(size=Y.shape),
        )
    return weights, X, Y


def drawn(seed):
    """Return a random race off its conditions by 1e-7 to 1e-3: weights, data, rates and gating."""
    rng = np.random.default_rng(seed)
    rates = (1.0, 1.0) if seed % 2 else tuple(rng.uniform(0.5, 2.0, 2))
    weights, (X, Y), labels, gates = branching.race(rng, rates)
    weights, X, Y = perturbed(rng, weights, X, Y, 10 ** rng.uniform(-7, -3))
    return weights, (X, Y), {"rates": rates, "contexts": labels, "gates": gates}


def errors(weights, data, given, t, layers):
    """Return the largest error of weights and of outputs, relative to the largest, against raw weights on samples."""
    raw = branching.train(weights, *data, t, given["contexts"], given["gates"], given["rates"])
    net = read_branches("test", weights, data, given["rates"], given["contexts"], given["gates"])
    away = max(norms([w - r for w, r in zip(layers, raw, strict=True)])) / max(norms(raw))
    true, found = net.maps(raw), net.maps(layers)
    return away, float(net.rms(found - true).max() / net.rms(true).max())


def stated(route):
    return float(re.search(r"error up to ([\d.e+-]+)", route)[1])


@pytest.mark.parametrize("seed", quick(range(40), 8))
def test_the_stated_bound_of_a_race_is_at_least_the_error(seed):
    weights, data, given = drawn(seed)
    t = np.linspace(0.5, 4.0, 8)
    found = ls.solve(weights, data, t, tolerance=0.1, **given)
    assert found.route.startswith("closed form: NeuralRace, error up to ")
    assert "conditions hold to" in found.route
    error = max(errors(weights, data, given, t, [found[name] for name in names(weights)]))
    assert error <= stated(found.route) <= 100 * error


def test_a_bound_without_the_residual_is_exceeded(monkeypatch):
    weights, data, given = drawn(1)
    t, whole = np.linspace(0.5, 4.0, 8), bound.bounded
    monkeypatch.setattr(
        "linsolve.solvability.branched.trajectory.bounded",
        lambda net, times, layers, moves: whole(net, times, layers, net.flow().velocity(np, net.flow().State(*layers))),
    )
    found = ls.solve(weights, data, t, tolerance=0.1, **given)
    assert stated(found.route) < max(errors(weights, data, given, t, [found[name] for name in names(weights)]))


H = 0.1 * 2**0.25
X, PRIVATE = [[1.0]] * 4, [[[0.1]], [[0.1]]]
GATED = {"contexts": [0, 0, 1, 1], "gates": [[1, 1], [1, 0], [0, 1]]}
HEADS = [[[0.1 / 2**0.25]]] * 2
RACE, OFF = [[[[H]], HEADS], PRIVATE, PRIVATE], [[[[1.005 * H]], HEADS], PRIVATE, PRIVATE]
DATA = X, [2.0] * 4


def test_a_race_that_holds_states_no_error_and_an_endless_one_no_bound():
    assert ls.solve(RACE, DATA, [0.0, 5.0], tolerance=0.02, **GATED).route == "closed form: NeuralRace"
    assert "error without a bound" in ls.solve(OFF, DATA, [0.0, np.inf], tolerance=0.02, **GATED).route
    assert stated(ls.solve(OFF, DATA, [0.0], tolerance=0.02, **GATED).route) == 0.0


@pytest.mark.parametrize("seed", range(3))
def test_solve_bounds_the_error_of_a_race_that_applies_accepts_in_single_precision_and_with_noise(seed):
    rng = np.random.default_rng(seed)
    weights, (X, Y), labels, gates = branching.race(rng)
    given, t = {"contexts": labels, "gates": gates}, np.array([0.5, 1.0])
    single = [[w.astype(np.float32) for w in pair] for pair in weights], (X.astype(np.float32), Y.astype(np.float32))
    verdict = ls.applies(*single, **given)
    assert verdict.exact == ("NeuralRace",)
    route = ls.solve(*single, t, **given).route
    assert route.startswith("DOP853: NeuralRace, error up to ")
    assert route.endswith(f"more than rtol; tolerance={verdict.tolerance:.2g} accepts it")
    assert ls.solve(*single, t, tolerance=verdict.tolerance, **given).route.startswith("closed form: ")
    assert ls.solve(*single, t, rtol=1e-3, **given).route.startswith("closed form: NeuralRace, error up to ")
    noisy = weights, (X, Y + 1e-11 * rng.normal(size=Y.shape))
    assert ls.applies(*noisy, **given).exact == ("NeuralRace",)
    found = ls.solve(*noisy, t, **given)
    assert found.route.startswith("closed form: NeuralRace, error up to ")
    layers = [found[name] for name in names(weights)]
    assert max(errors(*noisy, given | {"rates": (1.0, 1.0)}, t, layers)) <= stated(found.route) <= 1e-10


def violated(verdict):
    return [c.name for each in verdict.assessments for c in each.violated]


def test_contexts_of_unequal_frequency_or_power_are_the_only_reason():
    often = ([[1.0]] * 6, [2.0] * 6), GATED | {"contexts": [0, 0, 1, 1, 1, 1]}
    loud = ([[1.0], [1.0], [1.1], [1.1]], [2.0, 2.0, 2.2, 2.2]), GATED
    for (data, given), reason in ((often, "equal frequencies"), (loud, "same input moments")):
        assert violated(ls.applies(RACE, data, **given)) == [reason]
        assert ls.solve(RACE, data, [1.0], **given).route.startswith(f"DOP853: NeuralRace needs {reason}, ")


@pytest.mark.parametrize("seed", quick(range(40), 8))
def test_the_nearest_race_is_an_exact_race_whose_bound_is_at_least_its_error(seed):
    weights, data, given = drawn(seed)
    verdict = ls.applies(weights, data, **given)
    near = verdict.nearest
    assert (verdict.exact, near.name) == ((), "NeuralRace")
    assert 0 < near.moved_start + near.moved_data < 0.1
    assert near.measured <= near.bound.value
    t = np.linspace(0.1, 1.0, 7) * verdict.until
    net = read_branches("test", weights, data, *given.values())
    raw = branching.train(weights, *data, t, given["contexts"], given["gates"], given["rates"])
    maps = near.match.map(near.match.flow(t, near.match.z0))
    error = net.rms(maps.reshape(len(t), len(net.target), *net.target.shape[1:]) - net.maps(raw)).max()
    assert error <= near.measured * (1 + 1e-3) + 1e-9 * near.scale
    assert near.measured <= 1e-2 * near.scale
    assert "Nearest exact case: NeuralRace" in str(verdict)


def test_a_race_off_balance_has_a_nearest_case_and_its_horizon():
    verdict = ls.applies(OFF, DATA, **GATED)
    assert verdict.until > 0
    assert verdict.nearest.projection == "start projected onto the modes of the maps"
    np.testing.assert_allclose(verdict.nearest.moved_start, 0.005 * H / 2 / np.sqrt(2 * H**2 + 4e-2) * 2**0.5, rtol=0.1)
    assert ls.applies(OFF, DATA, until=3.0, **GATED).until == 3.0
    odd = GATED | {"gates": [[1, 1], [1, 0], [1, 1]]}
    assert ls.applies([OFF[0], PRIVATE, PRIVATE], DATA, **odd).nearest is None


def test_noise_beyond_the_rank_of_the_maps_is_no_mode():
    rng = np.random.default_rng(2)
    v, u, labels = branching.orthonormal(rng, 3, 3), branching.orthonormal(rng, 3, 2), np.repeat([0, 1], 6)
    X = np.concatenate([branching.white(rng, 6, 3) for _ in range(2)])
    start = [[np.diag([0.3, 0.2]) @ v[:, :2].T, u * [0.3, 0.2]] for _ in range(3)]
    Y = X @ ((u * [2.0, 1.0]) @ v[:, :2].T).T + 1e-6 * rng.normal(size=(12, 3))
    verdict = ls.applies(start, (X, Y), contexts=labels, gates=GATED["gates"])
    assert "same singular values" in violated(verdict)
    assert max(c.distance for c in verdict.assessments[0].conditions) <= 1e-4
    assert verdict.nearest.measured <= 1e-4 * verdict.nearest.scale


def fused():
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(20, 2)), rng.normal(size=(20, 2))
    y = inputs[0] @ [1.0, 2.0] + inputs[1] @ [0.5, 0.0]
    return [[1e-3 * rng.normal(size=(3, 2)), 1e-3 * rng.normal(size=(1, 3))] for _ in range(2)], (inputs, y)


def test_solve_and_applies_name_the_same_reason_for_correlated_inputs():
    weights, data = fused()
    verdict = ls.applies(weights, data)
    assert violated(verdict)[0] == "uncorrelated inputs"
    far = verdict.assessments[0].violated[0].distance
    route = ls.solve(weights, data, [1.0]).route
    assert route == f"DOP853: separate branches needs uncorrelated inputs, relative distance {far:.2g}"
    X = np.linalg.qr(np.random.default_rng(1).normal(size=(20, 4)))[0]
    near = (X[:, :2], X[:, 2:] + 1e-11 * X[:, :2]), X[:, 0] + X[:, 3]
    one = [[w1[:1], w2[:, :1]] for w1, w2 in weights]
    assert len(ls.applies(one, near).exact) > 0
    assert "uncorrelated inputs, relative distance " in (route := ls.solve(one, near, [1.0]).route)
    assert "(needs 1e-13; tolerance=1e-09 accepts it)" in route


def test_a_correlation_that_the_tolerance_leaves_out_has_no_bound():
    weights, _ = fused()
    X = np.linalg.qr(np.random.default_rng(1).normal(size=(20, 4)))[0]
    data = (X[:, :2], X[:, 2:] + 1e-3 * X[:, :2]), X[:, 0] + X[:, 3]
    one = [[w1[:1], w2[:, :1]] for w1, w2 in weights]
    route = ls.solve(one, data, [1.0], tolerance=0.01).route
    assert route.startswith("closed form: ")
    assert route.endswith(", error without a bound (correlation 0.001 left out)")
    assert "up to" not in route
    two = (
        [[np.eye(2), np.zeros((2, 2, 2))]],
        (np.tile(np.eye(2), (2, 1)) * [[1], [1], [1.01], [1.01]], np.eye(4)[:, :2]),
    )
    route = ls.solve(*two, [1.0], contexts=[0, 0, 1, 1], tolerance=0.05).route
    assert route == "closed form: WhitenedTwoLayer, error without a bound (conditions hold to 0.01)"


# values by name, labels, pickles


def test_values_of_branches_are_labelled():
    pytest.importorskip("xarray")
    found = ls.solve(RACE, DATA, [0.0, 1.0], **GATED).to_xarray()
    assert found["first_1"].dims == ("t", "unit1", "n_in1")
    assert found["last_1"].dims == ("t", "context1", "n_out", "unit1")
    assert found["last_2"].dims == ("t", "n_out", "unit2")
    assert found["map"].dims == ("t", "context", "n_out", "n_in")
    assert found["singular_values"].dims == ("t", "context", "mode")
    plain = ls.solve(*fused(), [[0.0, 1.0]]).to_xarray()
    assert plain["map"].dims == ("t0", "t1", "n_out", "n_in")
    assert plain.sizes["n_in"] == 2 * plain.sizes["n_in2"] == 4


def test_verdicts_trajectories_and_states_of_branches_can_be_pickled():
    weights, data = fused()
    weights = [[0.01 * w1, 0.01 * w2] for w1, w2 in weights]
    verdict = ls.applies(weights, data)
    assert verdict.fusion.holds
    again = pickle.loads(pickle.dumps(verdict))
    assert str(again) == str(verdict)
    assert again.fusion.law.times(again.fusion.size) == verdict.fusion.law.times(verdict.fusion.size)
    for traj in (ls.solve(RACE, DATA, [0.0, 1.0], **GATED), ls.solve(weights, data, [0.0, 1.0])):
        back = pickle.loads(pickle.dumps(traj))
        assert back.keys() == traj.keys()
        np.testing.assert_array_equal(back["map"], traj["map"])
    flow = read_branches("test", RACE, DATA, None, *GATED.values()).flow()
    traj = ls.integrate(flow, [0.0, 1.0], flow.State(*(np.asarray(w) for pair in RACE for w in pair)))
    for copied in (pickle.loads(pickle.dumps(traj)), copy.deepcopy(traj)):
        assert type(copied.flow) is type(flow)
        assert type(copied.state) is flow.State
        np.testing.assert_array_equal(copied.state.last_1, traj.state.last_1)


def by_differences(weights, data, given, step=1e-4):
    """Return the tangent kernel from central differences of the outputs of each sample; products are bilinear."""
    inputs, labels = data[0], np.asarray(given.get("contexts", np.zeros(len(data[1]), int)))
    gates = np.asarray(given.get("gates", np.ones((len(weights), labels.max() + 1))))
    flat, rates = [w for pair in weights for w in pair], given.get("rates", (1.0, 1.0))

    def outputs(layers):
        found = []
        for p, k in enumerate(labels):
            total = 0.0
            for b in np.flatnonzero(gates[:, k]):
                last, x = layers[2 * b + 1], (inputs[b] if isinstance(inputs, tuple) else inputs)[p]
                total = total + (last[int(gates[b, :k].sum())] if last.ndim == 3 else last) @ layers[2 * b] @ x
            found.append(total)
        return np.concatenate(found)

    kernel = 0.0
    for i, w in enumerate(flat):
        for index in np.ndindex(w.shape):
            ends = []
            for sign in (1, -1):
                moved = [v.copy() for v in flat]
                moved[i][index] += sign * step
                ends.append(outputs(moved))
            slope = (ends[0] - ends[1]) / (2 * step)
            kernel = kernel + rates[i % 2] * np.outer(slope, slope)
    return kernel


@pytest.mark.parametrize("seed", range(4))
def test_the_tangent_kernel_and_the_training_loss_are_those_of_the_samples(seed):
    weights, data, labels, gates = branching.general(np.random.default_rng(seed))
    given = {"contexts": labels, "gates": gates, "rates": (0.7, 1.9)}
    found = ls.solve(weights, data, [0.0, 0.5], **given)
    kernel = by_differences(weights, data, given)
    np.testing.assert_allclose(found["ntk"][0], kernel, rtol=1e-8, atol=1e-9 * np.abs(kernel).max())
    later = [found[name][1] for name in names(weights)]
    kernel = by_differences([later[2 * k : 2 * k + 2] for k in range(len(weights))], data, given)
    np.testing.assert_allclose(found["ntk"][1], kernel, rtol=1e-8, atol=1e-9 * np.abs(kernel).max())
    np.testing.assert_allclose(found["train_loss"][1], branching.loss(later, *data, labels, gates), rtol=1e-12)
    assert "ntk" not in found.to_dataframe()["name"].to_numpy()


# saddles


def test_a_stationary_start_is_noted():
    weights, data = fused()
    still = [[0 * w1, 0 * w2] for w1, w2 in weights]
    (note,) = ls.solve(still, data, [0.0, 1.0]).notes
    assert note.startswith("saddle: ")
    assert ls.solve(weights, data, [0.0, 1.0]).notes == ()
    none = [[[[0.0]], [[[0.0]]] * 2], [[[0.0]], [[0.0]]], [[[0.0]], [[0.0]]]]
    assert [note[:6] for note in ls.solve(none, DATA, [1.0], **GATED).notes] == ["saddle"]
    assert ls.solve(RACE, DATA, [1.0], **GATED).notes == ()
    X = np.linalg.qr(np.random.default_rng(1).normal(size=(20, 4)))[0]
    apart = [[w1[:1], w2[:, :1]] for w1, w2 in (still[0], weights[1])]
    notes = ls.solve(apart, ((X[:, :2], X[:, 2:]), X[:, 0] + X[:, 3]), [1.0]).notes
    (note,) = (note for note in notes if note.startswith("saddle: "))
    assert note.endswith("(branch 1)")
