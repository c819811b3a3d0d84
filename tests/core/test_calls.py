"""Arguments and results of calls: containers, arrays shared with the caller, extreme values, names."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

import linsolve as ls

pandas = pytest.importorskip("pandas")
xarray = pytest.importorskip("xarray")

# what holds numbers


@pytest.mark.parametrize("hold", [pandas.Series, pandas.Index, lambda v: xarray.DataArray(v, dims="k"), np.ma.array])
def test_labelled_numbers_are_numbers(hold):
    values = [0.5, 1.0, 2.0]
    plain = ls.BalancedMode(s=values)(1.0, [0.1, 0.2, 0.3])["a"]
    found = ls.BalancedMode(s=hold(values))(1.0, hold([0.1, 0.2, 0.3]))["a"]
    assert type(found) is np.ndarray
    assert np.array_equal(found, plain)
    assert np.array_equal(ls.BalancedMode(s=1.0)(hold(values), 0.1)["a"], ls.BalancedMode(s=1.0)(values, 0.1)["a"])


def test_masked_entries_are_refused():
    masked = np.ma.array([1.0, 2.0], mask=[False, True])
    with pytest.raises(ValueError, match=r"BalancedMode: s has masked entries \(.*\); fill or drop them"):
        ls.BalancedMode(s=masked)
    for t, z0 in ((masked, 0.1), (1.0, masked)):
        with pytest.raises(ValueError, match=r"BalancedMode: [at] has masked entries"):
            ls.BalancedMode(s=1.0)(t, z0)


def test_integers_of_any_size_are_times():
    assert ls.BalancedMode(s=1.0)(10**20, 0.1)["a"] == 1.0
    with pytest.raises(ValueError, match=r"BalancedMode: t = 1000.* \.\.\. 0000000000 is beyond the range of doubles"):
        ls.BalancedMode(s=1.0)(10**400, 0.1)


def test_a_long_value_is_cut_in_the_message():
    with pytest.raises(TypeError, match="not made of real numbers") as caught:
        ls.BalancedMode(s="x" * 10_000)
    assert len(str(caught.value)) < 400


# one time of one network is a number

NUMBERS = [name for name in ls.flows.WHERE if getattr(ls, name).one_number]
TIMES = (0.0, 1e-3, 0.1, 1.0, 30.0, 1e200, np.inf)


def differences(flow, z0, times=TIMES):
    """Return the names whose bits at one time differ from those among two times."""
    found = set()
    for t in times:
        one, two = flow([t], z0), flow([t, t], z0)
        found |= {name for name in one if one[name].tobytes() != two[name][:1].tobytes()}
        assert all(one[name].shape == two[name][:1].shape for name in one)
    return found


def draws(cls, count):
    """Return flows and starts of one network."""
    for seed in range(count):
        flow, z0 = cls.example(np.random.default_rng(seed))
        own = {name: field.metadata["axes"] for name, field in cls._declarations.items()}
        first = {name: v[0] if v.ndim > len(own[name]) else v for name, v in flow.parameters().items()}
        yield cls(**first), cls.State(*(v[0] for v in z0))


@pytest.mark.parametrize("name", NUMBERS)
def test_one_time_has_the_bits_of_the_same_time_among_several(name):
    for flow, z0 in draws(getattr(ls, name), 5):
        assert not differences(flow, z0)
        one = flow([0.5], z0)
        assert not any(np.shares_memory(v, w) for v in one.state for w in one.start)


def test_a_power_of_one_time_is_seen():
    class Squared(ls.BalancedMode):
        one_number = True

        def solution(self, xp, t, z0, shared=None):
            return self.State(z0.a * t**2)  # pow for a number, a product in an array

    drawn = 10.0 ** np.random.default_rng(0).uniform(-5, 5, 20_000)
    times = [t for t in drawn if t**2 != t * t]
    assert differences(Squared(s=1.0), (1.0,), times[:3]) == ({"a"} if times else set())


@pytest.mark.parametrize("base", [ls.BalancedMode, ls.DeepMode, ls.TwoLayer, ls.HiddenMode])
def test_a_subclass_with_its_own_formula_of_time_gets_arrays(base):
    class Own(base):
        def solution(self, xp, t, z0, shared=None):
            assert t[..., None].shape == (*t.shape, 1)
            return super().solution(xp, t, z0)

    class Named(base):
        """A subclass without a formula."""

    for flow, z0 in draws(base, 2):
        own, named = (cls(**flow.parameters()) for cls in (Own, Named))
        for t in (1.0, [1.0]):
            assert all(np.array_equal(v, w) for v, w in zip(own(t, z0).state, flow(t, z0).state, strict=True))
        assert base.one_number
        assert named.one_number
        assert not own.one_number


# conditions and solution share what they compute from the start


@pytest.mark.parametrize(
    ("name", "quantity"), [("NeuralCollapse", "_centered"), ("NeuralRace", "_clock_of"), ("BiasedMode", "_start")]
)
def test_a_call_computes_quantities_of_the_start_once(name, quantity, monkeypatch):
    cls, calls = getattr(ls, name), []
    method = getattr(cls, quantity)
    monkeypatch.setattr(cls, quantity, lambda *given: calls.append(1) or method(*given))
    flow, z0 = cls.example(np.random.default_rng(0))
    for t in (1.0, 2.0):
        flow(t, z0)
        assert len(calls) == 1  # the flow keeps them, see test_kept.py
    pickle.dumps(flow)


# what belongs to whom


def test_a_flow_keeps_its_own_parameters():
    s = np.array([1.0, 2.0])
    flow = ls.BalancedMode(s=s)
    s[0] = np.nan
    assert flow.s.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        flow.s[0] = 5.0


def test_views_of_what_the_caller_may_change_are_copied_too():
    s = np.array([1.0, 2.0, 3.0])
    view = s[:2]
    view.flags.writeable = False
    flow = ls.BalancedMode(s=view)
    s[0] = -1.0
    assert flow.s.tolist() == [1.0, 2.0]


def test_an_array_that_was_frozen_after_a_view_was_taken_is_copied():
    s = np.array([1.0, 2.0])
    view = s[:]
    s.flags.writeable = False
    flow = ls.BalancedMode(s=s)
    view[0] = -1.0
    assert flow.s.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda flow: pickle.loads(pickle.dumps(flow))])
def test_copies_of_a_flow_own_read_only_parameters(copied):
    flow = copied(ls.BalancedMode(s=[1.0, 2.0]))
    with pytest.raises(ValueError, match="read-only"):
        flow.s[0] = 5.0
    assert flow(1.0, 0.1)["loss"].tolist() == ls.BalancedMode(s=[1.0, 2.0])(1.0, 0.1)["loss"].tolist()


def test_parameters_that_are_owned_already_are_not_copied_again():
    flow = ls.FrozenKernel(np.eye(3), [1.0, 2.0, 3.0])
    other = ls.FrozenKernel(np.eye(3), flow.y)
    assert other.y is flow.y


def test_a_trajectory_keeps_its_own_start_and_times():
    flow, start, t = ls.TwoLayer(y=1.0, x=[1.0, 2.0]), ls.TwoLayer.init(3, 2, rng=0), np.array([0.1, 0.2])
    traj = flow(t, start)
    wanted = flow(t.copy(), ls.TwoLayer.State(*(v.copy() for v in start)))["loss"]
    t *= 7
    for v in start:
        v[...] = 0.0
    assert np.array_equal(traj["loss"], wanted)


@pytest.mark.parametrize("engine", ["plain", "blocks"])
def test_the_start_may_be_where_the_state_is_written(engine):
    flow, t = ls.BalancedMode(s=np.linspace(0.5, 2.0, 300)), np.linspace(3.0, 1.0, 300)
    begin = np.linspace(0.1, 0.2, 300)
    wanted = flow(t, begin)
    held = np.zeros((300, 300))
    held[0] = begin
    found = flow(t, held[0], out=held, engine=engine)
    assert np.array_equal(found["a"], wanted["a"])
    assert np.array_equal(found["loss"], wanted["loss"])


@pytest.mark.parametrize("cls", ls.flows.ALL, ids=lambda c: c.__name__)
def test_flows_and_trajectories_survive_copies(cls):
    flow, z0 = cls.example(np.random.default_rng(0))
    traj = flow([0.0, 0.1], z0)
    for other in (copy.deepcopy(traj), pickle.loads(pickle.dumps(traj))):
        assert other.names == traj.names
        assert np.array_equal(other["loss"], traj["loss"])
        assert repr(other) == repr(traj)


# what is given by name


def test_names_are_found_without_the_values():
    n = 300_000
    flow = ls.TwoLayer(y=1.0, x=[1.0])
    z0 = flow.State(u=np.ones(n) / n, w=np.ones((n, 1)) / n)
    for traj in (flow.discrete(10, z0, step=0.1), flow([1.0], z0)):
        assert {"loss", "bivector"} <= set(traj.keys())  # the bivector has n x n entries
        assert all("bivector" in text for text in (repr(traj), traj._repr_html_()))
    traj = flow([1.0], ([0.5, 0.2], [[0.5], [0.1]]))
    assert traj["bivector"].shape == (1, 2, 2)
    assert pickle.loads(pickle.dumps(traj))["balance"].tolist() == traj["balance"].tolist()


def test_a_trajectory_is_a_mapping_of_its_names():
    traj = ls.BalancedMode(s=1.0)([0.0, 1.0], 0.1)
    assert "loss" in traj
    assert "ntk" not in traj
    assert list(traj) == traj.names == list(dict(traj))
    for key in (0, None, slice(1, None), ["a", "loss"]):
        with pytest.raises(KeyError, match=r"Trajectory: name = .* must be a string .*; names: a, loss"):
            traj[key]


def test_the_loss_asked_for_broadcasts_against_the_members():
    flow = ls.BalancedMode(s=[1.0, 2.0, 3.0])
    many = flow.when(0.1, loss=np.array([1e-3, 1e-2])[:, None])
    assert np.array_equal(many, [flow.when(0.1, loss=1e-3), flow.when(0.1, loss=1e-2)])
    with pytest.raises(ValueError, match=r"BalancedMode: loss has shape \(2,\) but must broadcast against .* \(3,\)"):
        flow.when(0.1, loss=[1e-3, 1e-2])
    assert not np.signbit(flow.when(0.1, loss=1e300)).any()


# the range of doubles


def test_times_near_the_largest_double_are_late_times():
    for flow, z0 in ((ls.BalancedMode(s=2.0), 0.1), (ls.BiasedMode(m=1.0, mu=2.0, N=1.0), ([0.1], [0.2], 0.0))):
        last, limit = flow(1e308, z0).state, flow(np.inf, z0).state
        assert all(np.array_equal(a, b) for a, b in zip(last, limit, strict=True))


@pytest.mark.parametrize(
    ("flow", "z0"),
    [
        (ls.HiddenMode(s=1.0), ([1e200, 1.0], [1e200, -1.0])),
        (ls.TwoLayer(y=1.0, x=[1.0]), ([1e300], [[-1e300]])),
        (ls.BiasedMode(m=1.0, mu=2.0, N=1.0), ([1e200], [1e200], 0.0)),
    ],
)
def test_starts_whose_squares_overflow_are_refused_by_name(flow, z0):
    message = rf"{type(flow).__name__}: \w of up to 1e\+[23]00 leaves the range of doubles .*precise\(50\)"
    with pytest.raises(OverflowError, match=message):
        flow([0.0, 1.0], z0)


# names of the package


def test_functions_keep_their_names_whatever_is_imported_first():
    check = "print(callable(linsolve.learn), callable(linsolve.ensembles.ensemble), linsolve.learn.__module__)"
    for first in (
        "import linsolve",
        "import linsolve.studies.learn.run; import linsolve.ensembles.stream; import linsolve",
        "from linsolve.studies.learn import run; import linsolve",
    ):
        run = subprocess.run([sys.executable, "-c", f"{first}; {check}"], capture_output=True, text=True, check=True)
        assert run.stdout.split() == ["True", "True", "linsolve.studies.learn.run"]


@pytest.mark.parametrize("item", [ls.Flow, ls.Law, ls.laws.Expansion, ls.laws.Statistic])
def test_the_bases_of_flows_and_laws_have_no_card(item):
    with pytest.raises(TypeError, match=r"card: .* is not a flow or a law"):
        ls.card(item)


# other routes


def test_integrators_are_named_and_tolerances_can_be_met():
    flow = ls.BalancedMode(s=1.0)
    with pytest.raises(ValueError, match="integrate: method = 'dop853' is unknown; did you mean 'DOP853'"):
        ls.integrate(flow, 1.0, 0.1, method="dop853")
    with pytest.raises(ValueError, match=r"integrate: rtol = 1e-300 must be a number in \[2\.3e-14, inf\)"):
        ls.integrate(flow, 1.0, 0.1, rtol=1e-300)
    from scipy.integrate import RK45

    assert ls.integrate(flow, 1.0, 0.1, method=RK45).route == "RK45"


def test_budgets_of_steps_are_integers_that_doubles_represent():
    flow = ls.BalancedMode(s=1.0)
    for call in (
        lambda most: flow.first_step(0.1, loss=0.01, step=0.1, max_steps=most),
        lambda most: flow.discrete(3, 0.1, step=0.1, max_steps=most),
        lambda most: ls.descend(flow, 1.0, 0.1, step=0.1, max_steps=most),
        lambda most: ls.integrate(flow, 1.0, 0.1, max_evaluations=most),
    ):
        call(10**6)
        with pytest.raises(ValueError, match=r"max_\w+ = 100000000000000000000 must be an integer from 1"):
            call(10**20)
