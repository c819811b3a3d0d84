"""`compare`: right simulators pass; a wrong learning rate, a wrong sign and a lower order fail and are named."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import linsolve as ls
from linsolve.__main__ import main
from linsolve.studies.simulators.diagnosis import speeds
from linsolve.studies.simulators.errors import distances
from linsolve.studies.simulators.figure import _draw_errors, _draw_runs

PAGE = Path(__file__).parents[2] / "notebooks" / "site" / "simulators.md"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(50, 4))
Y = X @ RNG.normal(size=(4, 2))
LAYERS = [0.3 * RNG.normal(size=(3, 4)), 0.3 * RNG.normal(size=(2, 3))]
MODE, STATE = ls.BalancedMode(s=2.0), 0.1


def trained(step=0.01, until=2.0, factors=(1.0, 1.0), midpoint=False, every=1):
    """Train two layers on half the mean squared error, each gradient multiplied by a factor."""

    def slope(w):
        error = (X @ w[0].T @ w[1].T - Y) / len(X)
        return [factors[0] * w[1].T @ error.T @ X, factors[1] * error.T @ X @ w[0].T]

    w, path = LAYERS, []
    for _ in range(round(until / step) + 1):
        path.append(w)
        half = [p - step / 2 * g for p, g in zip(w, slope(w), strict=True)] if midpoint else w
        w = [p - step * g for p, g in zip(w, slope(half), strict=True)]
    kept = path[::every]
    run = {f"w{k + 1}": np.array([each[k] for each in kept]) for k in (0, 1)}
    return {"t": step * every * np.arange(len(kept)), "step": step, **run}


def test_a_right_simulator_passes_and_its_error_is_the_distance_from_an_independent_integration():
    run = trained()
    check = ls.compare(run, (X, Y))
    (found,) = check.runs
    assert check.ok
    assert check.findings == ()
    fine = trained(step=0.01 / 16, midpoint=True, every=16)
    far = {n: np.linalg.norm((run[n] - fine[n]).reshape(len(run["t"]), -1), axis=1).max() for n in ("w1", "w2")}
    size = {n: np.linalg.norm(fine[n].reshape(len(run["t"]), -1), axis=1).max() for n in ("w1", "w2")}
    for name, error in found.errors.items():
        assert error == pytest.approx(far[name] / size[name], rel=2e-3)
    assert check.error == max(found.errors.values())
    assert found.descent <= 1e-14


@pytest.mark.parametrize(
    ("factors", "said", "size"),
    [
        ((2.0, 2.0), "the run moves .* as for a loss without its factor 1/2", 2.0),
        ((50.0, 50.0), "the run moves .* as for a loss summed over the samples", 50.0),
        ((0.7, 0.7), "the run moves .* times as fast as gradient flow", 0.7),
        ((1.0, 3.0), "w2 moves .* times as fast as gradient flow: the learning rate of w2", 3.0),
        ((-1.0, -1.0), "the run moves against its gradient flow: the sign", None),
        ((-1.0, 1.0), "w1 moves against its gradient flow: the sign of the learning rate of w1", None),
        ((-2.0, -2.0), "the run moves against its gradient flow, .* times as fast", 2.0),
        ((0.01, 1.0), "w1 moves .* times as fast as gradient flow: the learning rate of w1 is 0.01", 0.01),
        ((0.0, 1.0), "w1 does not move: the learning rate of w1 is 0", None),
    ],
)
@pytest.mark.parametrize("midpoint", [False, True])
@pytest.mark.parametrize("every", [1, 5])
@pytest.mark.quick(8)
def test_a_wrong_learning_rate_or_sign_is_named_with_its_factor(factors, said, size, midpoint, every):
    step, until = (2e-4, 0.02) if max(factors) > 10 else (2e-3, 0.1) if min(factors) < 0 else (0.01, 2.0)
    check = ls.compare(trained(step, until, factors, midpoint, every), (X, Y))
    text = " ".join(check.findings)
    assert not check.ok
    assert re.search(said, text), text
    if size is not None:
        assert float(re.search(r"([\d.]+) times as fast", text)[1]) == pytest.approx(size, rel=0.04)


def test_the_factor_of_each_array_is_measured():
    check = ls.compare(trained(factors=(0.5, 3.0)), (X, Y))
    reference = check.references[0]
    found = speeds(reference.t, reference.state, reference.flow, steps=True)
    assert found.factors == pytest.approx({"w1": 0.5, "w2": 3.0}, rel=1e-12)
    fine = ls.compare(trained(step=1e-3, factors=(0.5, 3.0), midpoint=True, every=20), (X, Y)).references[0]
    found = speeds(fine.t, fine.state, fine.flow, steps=False)
    assert found.factors == pytest.approx({"w1": 0.5, "w2": 3.0}, rel=1e-3)


def test_large_steps_are_told_from_a_wrong_rate():
    check = ls.compare(trained(step=0.1), (X, Y))
    assert not check.ok
    assert check.findings[-1].startswith("Every step of the run is a step of gradient descent with the stated")


def test_a_lower_order_than_claimed_is_found_and_the_claimed_one_passes():
    runs = {midpoint: [trained(step, midpoint=midpoint) for step in (0.02, 0.01, 0.005)] for midpoint in (False, True)}
    first, second = (ls.compare(runs[each], (X, Y), order=2) for each in (False, True))
    assert first.orders == pytest.approx((1.0, 1.0), abs=0.05)
    assert second.orders == pytest.approx((2.0, 2.0), abs=0.1)
    assert (first.ok, second.ok) == (False, True)
    assert re.search(r"order is 1.0\d, where 2 is claimed.*step, as for explicit Euler steps", first.findings[0])
    assert ls.compare(runs[False], (X, Y), order=1).ok
    # the runs may come in any order
    assert ls.compare(runs[True][::-1], (X, Y), order=2).orders == second.orders


def test_runs_of_a_wrong_rate_do_not_converge():
    check = ls.compare([trained(step, factors=(2.0, 2.0)) for step in (0.02, 0.01)], (X, Y), order=1)
    assert "do not converge to the exact solution" in check.findings[1]
    assert "2 times as fast" in check.findings[2]


def test_observables_alone_give_the_factor_of_time():
    t = np.linspace(0.0, 2.0, 41)
    run = {"t": t, "loss": MODE(1.5 * t, STATE)["loss"]}
    check = ls.compare(run, MODE, start=STATE)
    assert "1.5 times as fast" in check.findings[-1]
    assert ls.compare({"t": t, "loss": MODE(t, STATE)["loss"]}, MODE, start=STATE).error <= 1e-12
    check = ls.compare({"t": t, "loss": 2 * MODE(t, STATE)["loss"]}, MODE, start=STATE)
    assert check.findings[-1] == "loss is 2 times the exact one at every time: it has another definition."


def trained_mode(rate, count=2000):
    """Return the path of the mode under gradient descent with this learning rate."""
    path = [0.5]
    for _ in range(count):
        path.append(path[-1] + rate * 2 * path[-1] * (2.0 - path[-1]))
    return np.array(path)


@pytest.mark.parametrize("every", [1, 20])
@pytest.mark.parametrize("seen", ["a", "loss"])
@pytest.mark.parametrize("factor", [0.02, 1e-3, 1e-5])
def test_a_run_that_moves_slowly_has_its_factor_and_only_a_frozen_one_does_not_move(factor, seen, every):
    t = 0.01 * np.arange(2001)[::every]
    a = trained_mode(0.01 * factor)[::every]
    (said,) = ls.compare({"t": t, seen: MODE_OBSERVED[seen](a)}, MODE, start=0.5).findings[1:]
    assert float(re.search(r"is (\S+) times the stated one", said)[1]) == pytest.approx(factor, rel=0.01)
    (said,) = ls.compare({"t": t, seen: MODE_OBSERVED[seen](0 * t + 0.5)}, MODE, start=0.5).findings[1:]
    assert said.startswith("the run does not move: the learning rate is 0.")


MODE_OBSERVED = {"a": lambda a: a, "loss": lambda a: 0.5 * (2.0 - a) ** 2}


@pytest.mark.parametrize("seen", MODE_OBSERVED)
@pytest.mark.parametrize("own", [{}, {"step": 0.003}])
def test_step_numbers_saved_as_times_are_named(seen, own):
    hint = "t looks like step numbers: save step times learning rate"
    a, k = MODE_OBSERVED[seen](trained_mode(0.003)), np.arange(2001)
    assert hint in ls.compare({"t": k, seen: a} | own, MODE, start=0.5).findings[1]
    assert ls.compare({"t": 0.003 * k, seen: a} | own, MODE, start=0.5).ok
    # neither times that are not whole, nor another step size
    assert hint not in ls.compare({"t": 0.1 * k, seen: a} | own, MODE, start=0.5).findings[1]
    assert hint not in ls.compare({"t": k, seen: a, "step": 0.1}, MODE, start=0.5).findings[1]


def test_raw_weights_give_the_state_of_a_flow():
    w = 0.1 * np.linalg.qr(np.random.default_rng(0).normal(size=(2, 2)))[0]
    flow, path, step = ls.WhitenedTwoLayer(target=np.diag([2.0, 1.0])), [], 0.002
    pair = [w, w.T]
    for _ in range(1001):
        path.append(pair)
        gap = flow.target - pair[1] @ pair[0]
        pair = [pair[0] + step * pair[1].T @ gap, pair[1] + step * gap @ pair[0].T]
    run = {"t": step * np.arange(1001), "W1": np.array([p[0] for p in path]), "W2": np.array([p[1] for p in path])}
    check = ls.compare(run, flow)
    assert check.ok
    assert set(check.runs[0].errors) == {"product", "gram_in", "gram_out"}
    assert check.notes == ()


def test_a_start_without_closed_form_is_integrated():
    flow = ls.WhitenedTwoLayer(target=np.diag([2.0, 1.0]))
    z0 = flow.of(np.array([[0.1, 0.0], [0.0, 0.4], [0.2, 0.3]]), 0.3 * np.eye(2, 3))
    check = ls.compare(ls.descend(flow, np.linspace(0, 1, 11), z0, step=0.001), flow)
    assert check.ok
    assert check.route == "DOP853 of WhitenedTwoLayer"
    assert "must vanish" in check.notes[0]


def test_pictures_call_a_closed_form_exact_and_name_the_unit_of_time():
    import matplotlib.pyplot as plt

    t = np.linspace(0.0, 1.0, 5)
    steps, units = r"time $t$  (learning rate $\times$ steps)", r"time $t$  (units of $\tau$)"
    for run, exact, word, time in (
        (trained(until=0.2), (X, Y), "integrated", steps),
        ({"t": t, "a": MODE(t, STATE)["a"]}, MODE, "exact", units),
        ({"t": t, "w1": np.zeros((5, 3, 4)), "w2": np.zeros((5, 2, 3))}, (X, Y), "exact", steps),  # at rest
    ):
        check = ls.compare(run, exact)
        assert str(check).startswith(f"{word}: {check.route}, ")
        assert check.references[-1].kind == word
        _, ax = plt.subplots()
        _draw_runs(check, ax)
        assert ax.get_legend().get_texts()[0].get_text() == word
        assert ax.get_xlabel() == time
        ax.clear()
        _draw_errors(check, ax)
        assert ax.get_xlabel() == time
    plt.close("all")


def test_biases_and_transposed_kernels_are_read(tmp_path):
    b, w, path, step = np.zeros(2), LAYERS, [], 0.005
    Z = X + 1.0
    for _ in range(201):
        path.append((*w, b))
        error = (Z @ w[0].T @ w[1].T + b - Y) / len(Z)
        w, b = [w[0] - step * w[1].T @ error.T @ Z, w[1] - step * error.T @ Z @ w[0].T], b - step * error.sum(axis=0)
    arrays = [np.array([each[k] for each in path]) for k in range(3)]
    turned = {"dense.kernel": arrays[0].transpose(0, 2, 1), "dense_1.kernel": arrays[1].transpose(0, 2, 1)}
    np.savez(tmp_path / "run.npz", k=np.arange(201), lr=step, optimizer="sgd", **turned, **{"dense_1.bias": arrays[2]})
    check = ls.compare(tmp_path / "run.npz", (Z, Y))
    assert check.ok
    assert set(check.runs[0].errors) == {"w1", "w2", "b2"}
    assert check.runs[0].descent <= 1e-13
    assert "run.npz: optimizer is text and not compared." in check.notes


@pytest.mark.parametrize("kind", ["npz", "csv", "json"])
def test_files_of_every_kind_give_the_same_numbers(tmp_path, kind):
    flow = ls.TwoLayer(y=1.0, x=[1.0, -2.0])
    z0 = ls.TwoLayer.init(width=3, d0=2, rng=0)
    traj = ls.descend(flow, np.linspace(0, 1, 11), z0, step=0.001)
    run, path = {"t": traj.t, "lr": np.full(11, 0.001), **traj.state._asdict()}, tmp_path / f"run.{kind}"
    if kind == "npz":
        np.savez(path, **run)
    elif kind == "json":
        path.write_text(json.dumps({name: value.tolist() for name, value in run.items()}))
    else:
        heads = ["t", "lr", *(f"u[{i}]" for i in range(3)), *(f'"w[{i}, {j}]"' for i in range(3) for j in range(2))]
        rows = np.concatenate([run["t"][:, None], run["lr"][:, None], run["u"], run["w"].reshape(11, -1)], axis=1)
        np.savetxt(path, rows, "%.17g", delimiter=",", header=",".join(heads), comments="")
    read = ls.compare(path, flow).runs[0]
    assert read.errors == ls.compare(traj, flow).runs[0].errors
    assert read.step == 0.001  # a column repeats it


def test_parameters_and_arrays_that_do_not_fit_are_refused_by_name():
    t = np.linspace(0.0, 1.0, 11)
    run = {"t": t, "a": MODE(t, STATE)["a"]}
    assert ls.compare(run | {"s": 2.0, "seed": 3}, MODE).ok
    with pytest.raises(ValueError, match=r"compare: s of run = 3.0 must be that of the flow, 2.0 \(parameter\)"):
        ls.compare(run | {"s": 3.0}, MODE)
    with pytest.raises(
        ValueError, match=r"compare: loss of run has shape \(5,\) but must have a leading axis of times"
    ):
        ls.compare(run | {"loss": np.ones(5)}, MODE)
    with pytest.raises(
        ValueError, match=r"compare: w2 of run has shape \(2, 3\) but must have a leading axis of times"
    ):
        ls.compare(trained() | {"w2": LAYERS[1]}, (X, Y))


SIZES = r"{} of run has shape \({},\) but must have a leading axis of times \(201 entries for 200 times\)"
TURNED = {f"{name}.kernel": trained()[f"w{k}"].transpose(0, 2, 1) for k, name in ((1, "a"), (2, "b"))}


@pytest.mark.parametrize(
    ("run", "exact", "said"),
    [
        ({"t": [0.0], "a": [0.1]}, MODE, r"t of run = \[0.0\] must have two or more times"),
        ({"t": np.arange(200.0), "a": np.ones(201)}, MODE, SIZES.format("a", 201)),
        ({"t": np.arange(200.0), "u": np.ones(201)}, MODE, SIZES.format("u", 201)),
        (
            {"k": [0, 1], "a": [0.1, 0.2]},
            MODE,
            r"step is missing in run .* add the number step to the run, or give steps",
        ),
        (trained(until=0.1), (X, Y[:, :1]), r"Y has 1 columns"),
        ({"t": [[0.0], [1.0, 2.0]], "a": [0.1, 0.2]}, MODE, "t of run = .* must be an array of real numbers"),
        ({**trained(until=0.1), "step": [0.1, 0.2]}, (X, Y), r"step of run = \[0.1, 0.2\] must be one number"),
        ({**trained(until=0.1), "lr": 0.02}, (X, Y), r"step = 0.01, lr = 0.02 of run must agree"),
        ({"k": [0, 1, 2], "lr": [0.1, 0.2, 0.1], "a": [0.1, 0.2, 0.3]}, MODE, r"lr of run = .* must be one number"),
        (
            {"t": np.arange(201.0), **TURNED},
            (X, Y),
            r"runs = run has layers a.kernel, b.kernel .* name them W1, W2, ...$",
        ),
    ],
)
def test_errors_name_the_argument_and_a_fix_that_exists(run, exact, said):
    with pytest.raises((ValueError, TypeError), match=f"^compare: {said}"):
        ls.compare(run, exact)


def test_names_that_are_no_strings_are_unknown():
    run = {"t": [0.0, 1.0], "a": [0.1, 0.2]}
    with pytest.raises(ValueError, match=r"compare: names of run = \[1.0, 1.0\] is unknown"):
        ls.compare(run, MODE, names=[np.ones(2)])


def test_a_run_that_diverges_fails_from_that_time():
    t = np.linspace(0.0, 1.0, 11)
    a = np.array(MODE(t, STATE)["a"])
    a[7] = np.nan
    check = ls.compare({"t": t, "a": a}, MODE)
    assert not check.ok
    assert check.error == np.inf
    assert check.findings == ("run: a is nan at t = 0.7; this and later times are not compared.",)


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_an_entry_that_is_not_finite_is_named_and_no_step_size_is_blamed(value):
    run = trained()
    run["w1"][90, 1, 2] = value
    check = ls.compare(run, (X, Y))
    assert not check.ok
    assert check.findings == (f"run: w1[1, 2] is {value:g} at t = 0.9; this and later times are not compared.",)
    assert f"run, step 0.01: w1[1, 2] is {value:g} at t = 0.9" in str(check)
    assert check.runs[0].lost == f"w1[1, 2] is {value:g}"


def test_distances_hold_near_the_ends_of_the_doubles():
    values, exact = np.array([[3e200, 4e200], [0.0, 0.0]]), np.zeros((2, 2))
    assert distances({"a": values}, {"a": exact})["a"] == pytest.approx([5e200, 0.0], rel=1e-15)
    assert distances({"a": 2e-300 * np.ones(2)}, {"a": 1e-300 * np.ones(2)})["a"] == pytest.approx([1.0, 1.0])


def test_figures_of_diverging_exact_and_partial_runs_are_drawn(tmp_path):
    ascent = [trained(step, until=0.3, factors=(-1.0, -1.0)) for step in (2e-3, 1e-3)]
    ascent[1]["w1"][-20:] = 1e200
    ascent[1]["w2"][-1] = np.nan
    t = np.linspace(0.0, 1.0, 5)
    exact = {"t": t, "a": MODE(t, STATE)["a"]}
    pair = ls.BalancedMode(s=[1.0, 2.0])
    batch = {"t": t, "a": pair(t, [0.1, 0.2])["a"]}
    checks = [ls.compare(ascent, (X, Y)), ls.compare(exact, MODE), ls.compare(batch, pair)]
    checks += [ls.compare({"t": t, "loss": MODE(2 * t, STATE)["loss"]}, MODE, start=STATE)]
    for k, check in enumerate(checks):
        check.draw(tmp_path / f"{k}.svg")
        assert "<svg" in (tmp_path / f"{k}.svg").read_text(encoding="utf-8")


# the command


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    t = np.linspace(0.0, 2.0, 21)
    np.savez("good.npz", t=t, a=MODE(t, STATE)["a"], s=2.0)
    np.savez("fast.npz", t=t, a=MODE(2 * t, STATE)["a"])
    np.savez("pickled.npz", t=t, a=np.array([print, len], dtype=object))
    np.savez("odd.npz", t=t[::-1], a=t)
    np.savez("none.npz", a=t)
    np.savez("other.npz", t=t, accuracy=t)
    np.savez("flat.npz", t=t, w1=t, w2=t)
    np.savez("data.npz", X=X, Y=Y)
    Path("bad.json").write_text("{")
    Path("list.json").write_text("[1]")
    Path("bad.csv").write_text("t,a\n0,1\n1\n")
    Path("words.csv").write_text("t,a\n0,1\n1,fast\n")
    Path("gap.csv").write_text("t,a[0],a[2]\n0,1,1\n1,1,1\n")
    return tmp_path


def test_the_exit_status_is_0_for_pass_and_1_for_fail(here, capsys):
    assert main(["compare", "good.npz", "--flow", "BalancedMode", "--out", "new/good.svg"]) == 0
    assert "PASS: relative error" in capsys.readouterr().out
    assert Path("new/good.svg").read_text().count("<svg") == 1
    assert main(["compare", "fast.npz", "--flow", "BalancedMode", "--set", "s=2"]) == 1
    out = capsys.readouterr().out
    assert "FAIL: relative error" in out
    assert "the run moves 2 times as fast as gradient flow" in out


BAD = {
    "good.npz": "compare: flow or data must be given, and only one",
    "good.npz --flow BalancedMode --data data.npz": "compare: flow or data must be given, and only one",
    "good.npz --flow BalanceMode": "compare: flow = 'BalanceMode' is unknown; did you mean 'BalancedMode'",
    "fast.npz --flow BalancedMode": "compare: set is missing s (parameters of BalancedMode)",
    "good.npz --flow BalancedMode --set q=1": "compare: parameter of BalancedMode = 'q' is unknown",
    "good.npz --flow BalancedMode --set s=1 --set s=2": "compare: set gives s twice",
    "good.npz --flow BalancedMode --start a=1 --start a=1": "compare: start gives a twice",
    "good.npz --flow BalancedMode --tolerance 1 --tolerance 2": "linsolve: argument --tolerance: given twice",
    "good.npz --flow BalancedMode --set s": "compare: set = 's' must be NAME=VALUE",
    "good.npz --flow BalancedMode --set s=exec(1)": "compare: set = 's=exec(1)' must be NAME=VALUE",
    "good.npz --flow BalancedMode --order 2": "compare: order = 2 needs two or more runs",
    "good.npz fast.npz --flow BalancedMode": "compare: steps is missing for good.npz, fast.npz",
    "good.npz fast.npz --flow BalancedMode --steps 0.1": "compare: steps = [0.1] must have 2 numbers",
    "good.npz fast.npz --flow BalancedMode --steps 0.1,0.1": "compare: steps = 0.1, 0.1 must differ",
    "good.npz --flow BalancedMode --tolerance nan": "compare: tolerance = nan must be positive and finite",
    "good.npz --flow BalancedMode --names b": "compare: names of good.npz = 'b' is unknown",
    "good.npz --flow BalancedMode --rates 1": "compare: rates = [1.0] does not go with a flow",
    "good.npz --flow BalancedMode --out x.txt": "compare: out = x.txt must be a .png, .pdf, .svg file",
    "good.npz --flow TwoLayer --set y=1 --set x=[1]": "compare: start is missing (good.npz has a, not the state u, w",
    "good.npz --data data.npz": "but must have layers W1, W2, ...",
    "flat.npz --data data.npz": "w1",
    "good.npz --data data.npz --set s=1": "compare: set does not go with --data",
    "pickled.npz --flow BalancedMode --set s=2": "holds pickled objects",
    "odd.npz --flow BalancedMode --set s=2": "must be two or more finite times in increasing order",
    "none.npz --flow BalancedMode --set s=2": "compare: t is missing in none.npz",
    "other.npz --flow BalancedMode --set s=2 --start a=0.1": "compare: other.npz has accuracy but must have one of a",
    "nowhere.npz --flow BalancedMode --set s=2": "compare: run = nowhere.npz does not exist",
    "run.pkl --flow BalancedMode --set s=2": "compare: run = run.pkl must end in .npz, .csv or .json",
    "bad.json --flow BalancedMode --set s=2": "compare: run = bad.json is not valid JSON",
    "list.json --flow BalancedMode --set s=2": "compare: run = list.json must hold an object",
    "bad.csv --flow BalancedMode --set s=2": "compare: run = bad.csv has 1 cells in row 3",
    "words.csv --flow BalancedMode --set s=2": "compare: column 'a' of words.csv has a cell that is no number",
    "gap.csv --flow BalancedMode --set s=2": "compare: run = gap.csv has columns of a whose indices leave a gap",
}


@pytest.mark.parametrize("line", BAD)
def test_bad_input_is_one_line_and_status_2(here, capsys, line):
    assert main(["compare", *line.split()]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.count("\n") == 1
    assert BAD[line] in found.err


# the page of the documentation


def test_the_loops_and_commands_of_the_page_run_as_written(tmp_path, monkeypatch, capsys):
    pytest.importorskip("jax")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```(python|sh)\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    for kind, block in blocks:
        if kind == "python":
            exec(compile(block, PAGE.name, "exec"), {"__name__": "page"})
        else:
            assert main(block.split()[1:]) == 0
    assert [kind for kind, _ in blocks] == ["python", "sh", "python", "sh", "python"]
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
    # the mistakes that the page names
    assert main([*blocks[3][1].split()[1:-1], "2"]) == 1
    assert "the error is about" in capsys.readouterr().out
    wrong = blocks[0][1].replace("/ len(X)", "/ len(X) * 2")
    exec(compile(wrong, PAGE.name, "exec"), {"__name__": "page"})
    assert main(blocks[1][1].split()[1:]) == 1
    said = re.search(r"```text\n(.*?)\n```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
    assert said in capsys.readouterr().out
