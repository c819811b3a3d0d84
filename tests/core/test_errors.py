"""Every bad input is refused by name: who refuses, what it was, which rule it breaks."""

import dataclasses
import re

import array_api_strict
import numpy as np
import pytest
from scipy.integrate import OdeSolver

import linsolve as ls
from linsolve.core.arguments import unknown_name

every_flow = pytest.mark.parametrize("cls", ls.flows.ALL, ids=lambda c: c.__name__)


def example(cls):
    flow, z0 = cls.example(np.random.default_rng(0))
    return flow, z0, {k: v.copy() for k, v in flow.parameters().items()}


def changed(values, name, value):
    return {**values, name: value}


def first_entry(array, value):
    array = np.array(array, dtype=float)
    array.flat[0] = value
    return array


def refused(error, *parts):
    """Expect an error whose message has every part, in that order."""
    return pytest.raises(error, match=r"(?s)^.*" + ".*".join(re.escape(str(p)) for p in parts))


# parameters


@every_flow
def test_parameters_that_are_not_numbers(cls):
    _, _, values = example(cls)
    for name, value in values.items():
        with refused(ValueError, cls.__name__, f"{name} = nan", "is not a number"):
            cls(**changed(values, name, first_entry(value, np.nan)))
        with refused(TypeError, cls.__name__, name, "is complex", "real part"):
            cls(**changed(values, name, value.astype(complex)))
        for bad in ("two", None, [[1.0, 2.0], [3.0]], {"a": 1.0}, np.array([object()])):
            with refused(TypeError, cls.__name__, name, "not"):
                cls(**changed(values, name, bad))
        with refused(ValueError, cls.__name__, name, "shape", "empty"):
            cls(**changed(values, name, np.zeros((0, *value.shape))))


@every_flow
def test_parameters_outside_their_domain(cls):
    _, _, values = example(cls)
    tried = 0
    for name, value in values.items():
        domain = cls.__dataclass_fields__[name].metadata["domain"]
        for bad in (-1.0, 0.0, np.inf, -np.inf):
            if bad in domain:
                continue
            tried += 1
            rule = "must be finite" if str(domain) == "(-inf, inf)" else f"must lie in {domain}"
            with refused(ValueError, cls.__name__, f"{name} = {bad}", rule, "("):
                cls(**changed(values, name, first_entry(value, bad)))
    assert tried >= 2 * len(values)  # every parameter refuses both infinities at least, unless it allows one


@every_flow
def test_index_of_the_offending_entry_is_named(cls):
    _, _, values = example(cls)
    name, value = next(iter(values.items()))
    many = np.stack([value, value, first_entry(value, np.nan)])
    with refused(ValueError, f"{name} = nan at index ({2}"):
        cls(**changed(values, name, many))


@every_flow
def test_missing_and_unknown_parameters(cls):
    _, _, values = example(cls)
    with refused(TypeError, cls.__name__, "parameter = 'learning_rat' is unknown"):
        cls(**values, learning_rat=1.0)
    required = [f.name for f in dataclasses.fields(cls) if f.default is dataclasses.MISSING]
    for name in required:
        with refused(TypeError, "missing", name):
            cls(**{k: v for k, v in values.items() if k != name})


def test_negative_rates():
    with refused(ValueError, "TwoLayer: eta_u = -0.1 must lie in [0, inf) (learning rate of u)"):
        ls.TwoLayer(y=1.0, x=[1.0, 2.0], eta_u=-0.1)
    with refused(ValueError, "BalancedMode: tau = 0.0 must lie in (0, inf) (time constant)"):
        ls.BalancedMode(s=1.0, tau=0)


# starts


@every_flow
def test_starts_that_are_not_finite_real_arrays(cls):
    flow, z0, _ = example(cls)
    for name, value in zip(z0._fields, z0, strict=True):
        for bad, rule in ((np.nan, "is not a number"), (np.inf, "must be finite")):
            with refused(ValueError, cls.__name__, f"{name} = {bad}", rule):
                flow(1.0, z0._replace(**{name: first_entry(value, bad)}))
        with refused(TypeError, cls.__name__, name, "complex"):
            flow(1.0, z0._replace(**{name: value + 0j}))
        with refused(ValueError, cls.__name__, name, "empty"):
            flow(1.0, z0._replace(**{name: np.zeros((0, *value.shape))}))
        for bad in ("start", [[1.0, 2.0], [3.0]]):
            with refused(TypeError, cls.__name__, name, "not"):
                flow(1.0, z0._replace(**{name: bad}))


@every_flow
def test_starts_of_the_wrong_fields(cls):
    flow, z0, _ = example(cls)
    fields = z0._fields
    with refused(ValueError, f"{cls.__name__}: state field = '{fields[-1]}x' is unknown; did you mean '{fields[-1]}'?"):
        flow(1.0, {**z0._asdict(), f"{fields[-1]}x": z0[-1]})
    for bad in ((), (*z0, z0[0]), {}):
        with refused(ValueError, cls.__name__, "state", "must give", ", ".join(fields), "; pass "):
            flow(1.0, bad)
    if len(fields) > 1:
        with refused(ValueError, cls.__name__, "must give"):
            flow(1.0, dict(list(z0._asdict().items())[:-1]))


@every_flow
def test_wrong_shapes(cls):
    flow, z0, _ = example(cls)
    for name, value in zip(z0._fields, z0, strict=True):
        axes = flow.axes[name]
        if not axes:
            continue
        with refused(ValueError, cls.__name__, name, "needs trailing axes", axes):
            flow(1.0, z0._replace(**{name: np.asarray(1.0)}))
        # an axis that is known from elsewhere, by another array or by its own repetition
        shared = [k for k, a in enumerate(axes) if sum(a in other for other in owners(flow)) + axes.count(a) > 2]
        for k in shared:
            wide = np.concatenate([value, np.take(value, [0], axis=k - len(axes))], axis=k - len(axes))
            with refused(ValueError, cls.__name__, "has shape", f"{axes[k]} = "):
                flow(1.0, z0._replace(**{name: wide}))


def owners(flow):
    """Return the own axes of every parameter and state field."""
    return [*flow.axes.values(), *(f.metadata["axes"] for f in dataclasses.fields(flow))]


@every_flow
def test_batches_that_do_not_broadcast(cls):
    _flow, z0, values = example(cls)
    name, value = next(iter(values.items()))
    axes = cls.__dataclass_fields__[name].metadata["axes"]
    own = value.shape[value.ndim - len(axes) :]
    seven = np.broadcast_to(value.reshape(-1)[0], (7, 1, 1, *own)) + np.zeros((7, 1, 1, *own))
    # batch (7, 1, 1) against (5, 1, batch of the example)
    start = type(z0)(
        *(np.stack([v] * 5).reshape(5, *[1] * (2 - batch(cls, v, k)), *v.shape) for k, v in z0._asdict().items())
    )
    with refused(ValueError, cls.__name__, "batch shapes", "do not broadcast"):
        cls(**changed(values, name, seven))(1.0, start)


def batch(cls, value, name):
    """Return the number of batch axes."""
    return value.ndim - len(cls.axes[name])


# times


@every_flow
def test_bad_times(cls):
    flow, z0, _ = example(cls)
    with refused(ValueError, f"{cls.__name__}: t = nan at index (1,) is not a number (time)"):
        flow([0.0, np.nan], z0)
    with refused(ValueError, cls.__name__, "t has shape (0,), which is empty"):
        flow([], z0)
    for bad in ("soon", None, 1j, [[0.0], [1.0, 2.0]]):
        with refused(TypeError, f"{cls.__name__}: t", "("):
            flow(bad, z0)


@every_flow
def test_times_outside_the_lifetime(cls):
    flow, z0, _ = example(cls)
    low = float(np.max(flow.lifetime(np, z0)[0]))
    if low > -np.inf:
        with refused(ValueError, cls.__name__, low - 1.0, "must be later than" if low else "must be at least 0"):
            flow(low - 1.0, z0)
    else:
        assert all(np.isfinite(v).all() for v in flow(-0.1, z0).state)


# libraries that do not mix


@every_flow
def test_mixed_array_types(cls):
    flow, z0, values = example(cls)
    strict = [array_api_strict.asarray(v) for v in z0]
    if len(z0) > 1:
        with refused(TypeError, "array_api_strict", "numpy.ndarray", "do not mix; convert"):
            flow(1.0, type(z0)(*strict[:1], *z0[1:]))
    with refused(TypeError, "array_api_strict", "numpy.ndarray", "do not mix; convert"):
        flow(array_api_strict.asarray(1.0), z0)
    exact = ls.arithmetic.precise(20)
    name = next(iter(values))
    with refused(TypeError, "do not mix"):
        cls(**changed(values, name, exact.asarray(values[name])))(1.0, type(z0)(*strict))


@every_flow
def test_what_is_no_array_of_a_known_library(cls):
    flow, z0, _ = example(cls)

    class Foreign:
        shape, dtype = (), float

    with refused(TypeError, "= Foreign must be an array"):
        flow(Foreign(), z0)


# names


@every_flow
def test_misspelt_names_suggest_the_right_one(cls):
    flow, z0, _ = example(cls)
    traj = flow([0.0, 0.1], z0)
    for name in traj.names:
        if len(name) < 3:
            continue
        with refused(KeyError, cls.__name__, f"{name[:-1]}_' is unknown; did you mean '") as caught:
            traj[f"{name[:-1]}_"]
        # the letter that is wrong may be the one that tells two names apart
        right = [other for other in traj.names if other[:-1] == name[:-1]]
        assert any(f"did you mean '{other}'?" in caught.value.args[0] for other in right)
    with refused(KeyError, cls.__name__, "observable = 'zzzzzz' is unknown; one of", "loss"):
        traj["zzzzzz"]
    with refused(KeyError, "7"):
        traj[7]


# the other two routes


@every_flow
def test_integrate_refuses_infinite_times_and_bad_starts(cls):
    flow, z0, _ = example(cls)
    with refused(ValueError, "integrate: t = inf must be finite (time); flow(t, z0) takes inf"):
        ls.integrate(flow, [0.0, np.inf], z0)
    with refused(ValueError, cls.__name__, "t = nan"):
        ls.integrate(flow, np.nan, z0)
    with refused(ValueError, cls.__name__, "is not a number"):
        ls.integrate(flow, 1.0, type(z0)(*(first_entry(v, np.nan) for v in z0)))


@pytest.mark.parametrize(
    "options", [{"rtol": 0.0}, {"rtol": -1e-3}, {"rtol": np.nan}, {"rtol": "fine"}, {"atol": -1.0}]
)
def test_integrate_refuses_tolerances_that_are_none(options):
    (name, value), *_ = options.items()
    with refused(ValueError, f"integrate: {name} = {value!r} must be"):
        ls.integrate(ls.BalancedMode(s=1.0), 1.0, 0.1, **options)


@pytest.mark.parametrize("method", ["RK99", None, 3, int, OdeSolver])
def test_integrate_names_the_methods_that_exist(method):
    with refused(ValueError, "integrate: method = ", "BDF, DOP853, LSODA, RK23, RK45, Radau"):
        ls.integrate(ls.BalancedMode(s=1.0), 1.0, 0.1, method=method)


@pytest.mark.parametrize("start", [5e-324, -1e-322, 1e-312])
def test_integrate_refuses_starts_whose_errors_are_no_doubles(start):
    with refused(ValueError, "integrate: z0 = ", "use flow(t, z0)"):
        ls.integrate(ls.BalancedMode(s=2.0), [0.0, 1.0], start)


@pytest.mark.parametrize("start", [1e-305, 1e-300, 1e-150])
@pytest.mark.quick(1)
def test_integrate_follows_tiny_starts(start):
    flow, t = ls.BalancedMode(s=2.0), [0.0, 1.0, 50.0]
    np.testing.assert_allclose(ls.integrate(flow, t, start)["a"], flow(t, start)["a"], rtol=1e-7)


def test_integrate_stays_at_zero_without_tolerance():
    np.testing.assert_array_equal(ls.integrate(ls.BalancedMode(s=2.0), [0.0, 1.0], 0.0, atol=0.0)["a"], 0.0)


def test_integrate_says_where_it_stopped():
    with pytest.raises(ArithmeticError, match=r"integrate: BalancedMode stopped at t = .*blow up there"):
        ls.integrate(ls.BalancedMode(s=1.0), -2.0, 5.0)
    with pytest.raises(ValueError, match="method"):
        ls.integrate(ls.BalancedMode(s=1.0), 1.0, 0.1, method="RK99")


@every_flow
@pytest.mark.parametrize("step", [0.0, -0.1, np.nan, np.inf, "small", None, [0.1], 1j])
def test_descend_refuses_a_bad_step(cls, step):
    flow, z0, _ = example(cls)
    with refused(ValueError, f"descend: step = {step!r} must be positive and finite (units of time); say"):
        ls.descend(flow, 1.0, z0, step=step)


@every_flow
def test_descend_refuses_bad_times(cls):
    flow, z0, _ = example(cls)
    for bad in (np.inf, -1.0):
        with refused(ValueError, "descend: t =", "must be finite and not negative"):
            ls.descend(flow, [0.0, bad], z0, step=0.1)
    with refused(ValueError, "descend: t / step = 1e+30 must be at most 2e+06 (steps to take)"):
        ls.descend(flow, 1e10, z0, step=1e-20)


def test_diverging_descent_is_reported_with_its_step():
    flow = ls.BalancedMode(s=100.0)
    with refused(ArithmeticError, "descend: BalancedMode diverged before t = 25 at step = 5; use a smaller one"):
        ls.descend(flow, [0.0, 10.0, 500.0], 1.0, step=5.0)
    assert np.isfinite(ls.descend(flow, 20.0, 1.0, step=5.0)["a"])
    with refused(ArithmeticError, "before t = 25 at"):
        ls.descend(flow, 25.0, 1.0, step=5.0)


def test_inexact_start_names_condition_and_size():
    flow, z0 = ls.WhitenedTwoLayer.example(np.random.default_rng(0))
    rng = np.random.default_rng(1)
    h, (n_out, n_in) = 4, z0.product.shape[-2:]
    start = ls.WhitenedTwoLayer.of(rng.standard_normal((h, n_in)), rng.standard_normal((n_out, h)))
    with pytest.raises(ls.NotExact, match=r"WhitenedTwoLayer: .* = .* must vanish .* integrate\(flow, t, z0\)"):
        flow(1.0, start)


# ranges: of times, of observables, of Python's integers


class Slow(ls.BalancedMode):
    """A mode whose closed form overflows at late times, as ``inf * 0``."""

    def solution(self, xp, t, z0):
        exact = super().solution(xp, t, z0).a
        finite = xp.where(t < xp.inf, t, 0 * xp.ones_like(t))
        return self.State(exact + (finite * 1e20) * 0.0)


def test_a_time_too_late_for_doubles_is_the_limit_where_it_was_reached_before():
    flow = Slow(s=2.0)
    np.testing.assert_array_equal(flow([1.0, 1e300, np.inf], 0.1)["a"], flow([1.0, np.inf, np.inf], 0.1)["a"])


def test_a_time_too_late_for_doubles_is_blamed_and_not_the_start():
    with refused(OverflowError, "Slow: t = 1e+300 leaves the range of doubles when multiplied by the rates (time)"):
        Slow(s=2.0, tau=1e200)(1e300, 0.1)  # at 1e150 nothing has been learned


def test_the_largest_argument_is_blamed():
    with refused(OverflowError, "TwoLayer: y of up to 1e+308 leaves the range of doubles", "(target)"):
        ls.TwoLayer(y=1e308, x=[1.0])(1.0, ([0.5], [[0.5]]))


class Undefined(ls.BalancedMode):
    """A flow with an observable whose squares overflow."""

    @ls.observable()
    def ratio(self, xp, z):
        huge = (z.a * 1e300) * (z.a * 1e300)
        return huge - huge


def test_observables_beyond_doubles_are_refused_by_name():
    traj = ls.FrozenKernel(np.eye(2), [1.0, 0.0])(0.0, [1e200, 1e200])
    assert traj["f"].tolist() == [1e200, 1e200]
    with refused(OverflowError, "FrozenKernel: loss leaves the range of doubles", "(observable)", "precise(50)"):
        traj["loss"]
    traj = Undefined(s=2.0)(0.0, 0.1)
    with refused(OverflowError, "Undefined: ratio leaves the range of doubles", "(observable)", "precise(50)"):
        traj["ratio"]
    assert "ratio" in traj.names


def test_a_loss_of_descent_beyond_doubles_is_refused_by_every_route():
    flow, start = ls.BalancedMode(s=2.0), 5.0
    for traj in (flow.discrete(6, start, step=1.0), ls.descend(flow, 6.0, start, step=1.0)):
        assert traj["a"] == pytest.approx(5.05800768e304, rel=1e-8)
        with refused(OverflowError, "BalancedMode: loss leaves the range of doubles", "fewer or smaller steps"):
            traj["loss"]
    for call in (lambda: flow.discrete(7, start, step=1.0), lambda: ls.descend(flow, 7.0, start, step=1.0)):
        with pytest.raises(ArithmeticError, match="diverge"):
            call()


def test_integers_beyond_doubles_are_named():
    flow = ls.BalancedMode(s=2.0)
    for call in (
        lambda: flow([10**400, 1], 0.1),
        lambda: flow(10**400, 0.1),
        lambda: flow(1.0, [10**400, 0.5]),
        lambda: ls.BalancedMode(s=[0.5, -(10**5000)]),
    ):
        with refused(ValueError, "BalancedMode: ", "is beyond the range of doubles"):
            call()
    with refused(ValueError, "descend: step = 1", "must be positive and finite (units of time); say 0.001"):
        ls.descend(flow, 1.0, 0.1, step=10**400)


def test_batch_shapes_name_their_arguments():
    start = {"P": [1.0, 2.0, 3.0], "Q": [1.0, 2.0], "R": 0.0}
    with refused(ValueError, "TwoLayerOrder: batch shapes = P (3,), Q (2,) do not broadcast"):
        ls.TwoLayerOrder(y=1.0)(1.0, start)
    with refused(ValueError, "TwoLayerOrder: batch shapes = y (3,), P (2,) do not broadcast"):
        ls.TwoLayerOrder(y=[1.0, 2.0, 3.0])(1.0, start | {"P": [1.0, 2.0]})


@pytest.mark.parametrize("flow", [None, 3, "x", {}, ls.BalancedMode, ls.verify])
def test_something_else_in_place_of_a_flow_is_a_type_error(flow):
    for call in (
        lambda: ls.integrate(flow, 1.0, 0.1),
        lambda: ls.descend(flow, 1.0, 0.1, step=0.1),
        lambda: ls.Trajectory(flow, np.asarray(1.0), (0.1,), "closed form"),
    ):
        with refused(TypeError, "flow = ", "must be"):
            call()


# the budget of integrators


def test_integration_without_end_is_refused_with_the_time_reached():
    flow = ls.BalancedMode(s=2.0)
    with pytest.raises(ArithmeticError, match=r"integrate: t = 1e\+06 .* BalancedMode has reached t = ") as refusal:
        ls.integrate(flow, 1e6, 0.1, max_evaluations=2000)
    reached = float(str(refusal.value).split("reached t = ")[1].split()[0])
    assert 10 < reached < 1e4
    assert ls.integrate(flow, 10.0, 0.1, max_evaluations=2000)["a"] == pytest.approx(2.0)
    assert ls.integrate(flow, 1e6, 0.1, rtol=1e-6, method="Radau")["a"] == pytest.approx(2.0)
    with refused(ValueError, "integrate: max_evaluations = 0 must be an integer from 1 to 9007199254740992"):
        ls.integrate(flow, 1.0, 0.1, max_evaluations=0)


def test_descent_without_end_is_refused():
    flow = ls.BalancedMode(s=2.0)
    for t, step in ((1e300, 1e-300), (1e7, 1.0)):
        with refused(ValueError, "descend: t / step = ", "must be at most 2e+06 (steps to take)"):
            ls.descend(flow, t, 0.1, step=step)
    with refused(ValueError, "descend: t / step = 100 must be at most 99"):
        ls.descend(flow, 1.0, 0.1, step=0.01, max_steps=99)
    assert ls.descend(flow, 1.0, 0.1, step=0.01, max_steps=100)["a"].shape == ()


def test_integrate_follows_starts_far_above_their_end():
    for start in (1e8, 1e17, 1e30, *10.0 ** np.arange(15, 100, 7)):
        found = ls.integrate(ls.BalancedMode(s=1.0), [0.0, 5.0], start)["a"]
        np.testing.assert_allclose(found, ls.BalancedMode(s=1.0)([0.0, 5.0], start)["a"], rtol=1e-8)


LINE = [[[1.0]]], ([[1.0]], [1.0])
MODE = ls.BalancedMode(1.0), 1.0, 0.1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ls.TwoLayer(y=1, gama=3), "TwoLayer: parameter = 'gama' is unknown; did you mean 'gamma'?"),
        (lambda: ls.laws.LearningTime(firs=2), "LearningTime: parameter = 'firs' is unknown; did you mean 'first'?"),
        (lambda: ls.solve(*LINE, 1.0, rate=1), "solve: argument = 'rate' is unknown; did you mean 'rates'?"),
        (lambda: ls.applies(*LINE, rate=1), "applies: argument = 'rate' is unknown; did you mean 'rates'?"),
        (lambda: ls.descend(*MODE, steps=1), "descend: argument = 'steps' is unknown; did you mean 'step'?"),
        (lambda: ls.integrate(*MODE, atoll=1), "integrate: argument = 'atoll' is unknown; did you mean 'atol'?"),
        (lambda: MODE[0](1.0, 0.1, thread=2), "BalancedMode: argument = 'thread' is unknown; did you mean 'threads'?"),
        (lambda: MODE[0].when(0.1, los=1.0), "BalancedMode.when: argument = 'los' is unknown; did you mean 'loss'?"),
        (
            lambda: MODE[0].discrete(3, 0.1, stp=1),
            "BalancedMode.discrete: argument = 'stp' is unknown; did you mean 'step'?",
        ),
        (lambda: ls.verify(MODE[0], dsp=30), "verify: argument = 'dsp' is unknown; did you mean 'dps'?"),
        (lambda: ls.sgd(*LINE, 1, stp=1), "sgd: argument = 'stp' is unknown; did you mean 'step'?"),
        (lambda: ls.learn("digits", sead=1), "learn: argument = 'sead' is unknown; did you mean 'seed'?"),
        (lambda: ls.ensemble(tiles=1), "ensemble: argument = 'tiles' is unknown; did you mean 'tile'?"),
    ],
)
def test_an_unknown_argument_is_named_with_the_nearest(call, message):
    with refused(TypeError, message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MODE[0](1.0), "BalancedMode: z0 is missing (argument); give t, z0"),
        (
            lambda: ls.WhitenedTwoLayer.starting(np.eye(2), np.eye(2)),
            "WhitenedTwoLayer.starting: called on the class but must be called on an object of it (with its "
            "parameters); make the object first, then call object.starting(w1, w2)",
        ),
        (
            lambda: ls.BalancedMode.when(0.1, loss=0.1),
            "Flow.when: called on the class but must be called on an object of it (with its parameters); make the "
            "object first, then call object.when(z0, loss=...)",
        ),
        (lambda: MODE[0].when(0.1), "BalancedMode.when: loss is missing (argument); give z0, loss=..."),
        (lambda: ls.laws.LearningTime(), "LearningTime: last, first, target are missing (parameter)"),
        (lambda: ls.solve(), "solve: weights, data, t are missing (argument); give weights, data, t"),
        (
            lambda: ls.descend(*MODE, 1e-3),
            "descend: 4 arguments without a name (arguments) must be at most 3: flow, t, z0; give step, max_steps by",
        ),
        (lambda: MODE[0](1.0, 0.1, t=2.0), "BalancedMode: t is given twice (argument); leave one of them out"),
        (lambda: MODE[0](ls.BalancedMode.State(0.1), 1.0), "BalancedMode: t = State(a=0.1) is a state (time)"),
    ],
)
def test_missing_superfluous_and_swapped_arguments_are_named(call, message):
    with refused(TypeError, message):
        call()


class Tensor:
    """Stands for a tensor with gradients, which refuses to be an array."""

    shape = (1, 1)

    def __array__(self, *_, **options):
        raise RuntimeError("Use tensor.detach().numpy() instead.")


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda x: ls.solve([x, x], ([[1.0]], [[1.0]]), 1.0), "solve: W1"),
        (lambda x: ls.applies([[[1.0]]] * 2, (x, [[1.0]])), "applies: X"),
        (lambda x: ls.WhitenedTwoLayer(x), "WhitenedTwoLayer: target"),
        (lambda x: ls.WhitenedTwoLayer.of(x, x), "WhitenedTwoLayer: w1"),
        (lambda x: ls.BalancedMode(1.0)(x, 0.1), "BalancedMode: t"),
    ],
)
def test_tensors_that_refuse_to_be_arrays_are_named(call, argument):
    with refused(TypeError, f"{argument} of type Tensor is no NumPy array", "convert it: Use tensor.detach()"):
        call(Tensor())


def test_a_state_without_a_field_names_it():
    flow, start = ls.TwoLayer.example(np.random.default_rng(0))
    with refused(ValueError, "TwoLayer: state must give u too; pass TwoLayer.State(...)"):
        flow(1.0, {"w": start.w})


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("LearningTime", "LearningTime is a law; say linsolve.laws.LearningTime"),
        ("intgrate", "did you mean 'integrate'?"),
        ("verfy", "did you mean 'verify'?"),
    ],
)
def test_unknown_names_of_the_package_have_a_hint(name, hint):
    with refused(AttributeError, hint):
        getattr(ls, name)


def test_calls_without_an_object_are_refused():
    assert ls.BalancedMode.__call__(self=MODE[0], t=1.0, z0=0.1)["a"] > 0.1
    for call in (ls.BalancedMode.__call__, ls.BalancedMode.when, ls.BalancedMode.discrete):
        with pytest.raises(TypeError, match="called on the class but must be called on an object of it"):
            call(tt=1.0)


@pytest.mark.parametrize(
    ("name", "known", "hint"),
    [
        ("seleznova_2024", "saxe_2014", ""),
        ("compare", "nope", ""),
        ("twolayer", "TwoLayer", "did you mean 'TwoLayer'? "),
        ("w4", "w3", "did you mean 'w3'? "),
        ("w4", "ntk", ""),
    ],
)
def test_only_close_names_are_suggested(name, known, hint):
    assert unknown_name("cite", "key", name, [known]) == f"cite: key = {name!r} is unknown; {hint}one of {known}"


@pytest.mark.parametrize("name", ["solution", "along", "shared", "velocity", "loss"])
def test_a_statement_that_is_no_method_is_refused_by_name(name):
    with refused(TypeError, f"F: {name} = None must be a method (statement of a flow); define it, or leave it out"):
        type("F", (ls.Flow,), {name: None})


@pytest.mark.parametrize("call", [ls.applies, lambda *args, **more: ls.solve(*args, 1.0, **more)])
def test_data_that_are_transposed_or_swapped_are_recognized(call):
    rng = np.random.default_rng(0)
    weights, X, Y = [rng.normal(size=(3, 4)), rng.normal(size=(2, 3))], rng.normal(size=(7, 4)), rng.normal(size=(7, 2))
    for data, fix in (
        ((X.T, Y), "X is transposed: pass X.T"),
        ((X, Y.T), "Y is transposed: pass Y.T"),
        ((X.T, Y.T), "X and Y are transposed: pass (X.T, Y.T)"),
        ((Y, X), "X and Y are swapped: pass (Y, X)"),
    ):
        shapes = f"X has shape {data[0].shape} and Y {data[1].shape}, but the weights have 4 inputs and 2 outputs"
        with refused(ValueError, f"{shapes} (they must fit); {fix}"):
            call(weights, data)
    for moments, fix in (
        ((X.T @ X, X.T @ Y), "Sigma_yx is transposed: pass Sigma_yx.T"),
        ((Y.T @ X, X.T @ X), "Sigma_xx and Sigma_yx are swapped: pass (Sigma_yx, Sigma_xx)"),
    ):
        with refused(ValueError, fix):
            call(weights, moments, covariances=True)
    with refused(ValueError, "X has 3 columns (inputs) but the weights have 4 (they must fit); check the order"):
        call(weights, (X[:, :3], Y))


def test_heads_without_context_are_recognized():
    heads = np.ones(2), np.ones((2, 3, 3))
    for weights in (heads, (heads[0], heads[1][0, :2], heads[1][0, :2])):
        with refused(ValueError, "for heads of linear attention give context=, their number of tokens"):
            ls.applies(weights, (np.ones((5, 3)), np.ones(5)))
    with refused(ValueError, "pass a list of matrices"):
        ls.applies([np.ones((2, 3, 3))], (np.ones((5, 3)), np.ones(5)))


@pytest.mark.parametrize(("name", "fix"), [("loss", "loss"), ("los", "loss"), ("w17q", None)])
def test_values_asked_for_as_attributes_are_named(name, fix):
    end = f'; use traj["{fix}"]' if fix else f"no attribute '{name}'"
    with pytest.raises(AttributeError) as caught:
        getattr(MODE[0](1.0, 0.1), name)
    assert str(caught.value).endswith(end)


def test_class_definitions_with_any_static_method_are_valid():
    class Helped(ls.BalancedMode):
        whole, least = staticmethod(int), staticmethod(min)

        @classmethod
        def made(cls, size, scale=1.0):
            return cls(s=size * scale)

    assert Helped.whole("3") == 3
    assert float(Helped.made(2.0).s) == 2.0
    with refused(TypeError, "Helped.made: size is missing (argument); give size"):
        Helped.made()
    with refused(TypeError, "WhitenedTwoLayer.init: scale is missing (argument); give n_in, width, n_out, scale=..."):
        ls.WhitenedTwoLayer.init(2, 3, 2)
