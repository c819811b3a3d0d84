"""A flow that a newcomer writes: every slip is called by the name of the method in which it is."""

from typing import Any, NamedTuple

import numpy as np
import pytest

import linsolve as ls
from linsolve.core.verify import CHECKS


class Single(ls.Flow):
    """One weight under gradient flow: L = (s - w)^2 / 2."""

    s: Any = ls.parameter("s", "target", typical=(-1.0, 1.0))

    class State(NamedTuple):
        w: Any

    axes = {"w": ()}  # noqa: RUF012

    def loss(self, xp, z):
        return (self.s - z.w) ** 2 / 2

    def descent(self, xp, z, gradient):
        return self.State(-gradient.w)

    def velocity(self, xp, z):
        return self.State(self.s - z.w)

    def solution(self, xp, t, z0):
        return self.State(z0.w + (self.s - z0.w) * -xp.expm1(-t))


State = Single.State


def flow(**methods):
    return type("Mine", (Single,), methods)(s=0.7)


def test_the_right_one_is_proved():
    report = ls.verify(flow(), 0.1)
    assert report.ok, str(report)
    assert report.notes == ()


# what is of the right form and false: the check that should see it does

FALSE = {
    "sign of the velocity": ({"velocity": lambda self, xp, z: State(z.w - self.s)}, {"velocity", "residual"}),
    "sign of the descent": ({"descent": lambda self, xp, z, g: State(g.w)}, {"velocity"}),
    "factor of the loss": ({"loss": lambda self, xp, z: (self.s - z.w) ** 2}, {"velocity"}),
    "rate of the solution": (
        {"solution": lambda self, xp, t, z0: State(z0.w + (self.s - z0.w) * -xp.expm1(-2 * t))},
        {"residual", "dop853"},
    ),
    "start of the solution": (
        {"solution": lambda self, xp, t, z0: State(self.s + (2 * z0.w - self.s) * xp.exp(-t))},
        {"start"},
    ),
    "solution without time": ({"solution": lambda self, xp, t, z0: State(self.s)}, {"start", "dop853"}),
    "limit": ({"limit": lambda self, xp, z0: State(0 * self.s)}, {"limit"}),
    "invariant": ({"invariants": lambda self, xp, z: {"w": z.w}}, {"invariants"}),
    "step": ({"step": lambda self, xp, z, h: z}, {"descent"}),
}


@pytest.mark.parametrize("slip", FALSE)
def test_false_statements_fail_their_check(slip):
    methods, seen = FALSE[slip]
    assert seen <= set(ls.verify(flow(**methods), 0.1).failed)


# what is not of the right form

SLIPS = {
    "loss as a State": ({"loss": lambda self, xp, z: z}, "Mine: loss returns State but must return an array"),
    "no return": (
        {"velocity": lambda self, xp, z: None},
        "Mine: velocity returns NoneType but must",
    ),
    "bare array": (
        {"velocity": lambda self, xp, z: self.s - z.w},
        "Mine: velocity returns float64 but must",
    ),
    "bare tuple": ({"solution": lambda self, xp, t, z0: (t,)}, r"Mine: solution returns tuple but must return self"),
    "bare descent": ({"descent": lambda self, xp, z, g: -g.w}, "Mine: descent returns float64 but must return self"),
    "shape of the loss": (
        {"loss": lambda self, xp, z: xp.stack([z.w, z.w])},
        r"Mine: loss returns ndarray but must return shape \(\) .*, not \(2,\)",
    ),
    "shape of the solution": (
        {"solution": lambda self, xp, t, z0: State(xp.stack([z0.w, z0.w]))},
        r"Mine: w of solution returns ndarray but must return shape \(7,\) \(times, batch",
    ),
    "arguments": ({"loss": lambda self, z: 0}, "Mine: loss fails .*called as in Mine.loss"),
    "misspelt function": (
        {"solution": lambda self, xp, t, z0: State(xp.exmp1(t))},
        "Mine: solution fails .*exmp1",
    ),
    "branch on a value": (
        {"solution": lambda self, xp, t, z0: z0 if t == 0 else State(t)},
        "Mine: solution fails .*ambiguous",
    ),
    "not of the array API": (
        {"solution": lambda self, xp, t, z0: State(z0.w + (self.s - z0.w) * -np.expm1(-t))},
        r"Mine: solution works in doubles but not in precise\(100\) .*xp\.exp, not numpy\.exp",
    ),
    "conditions": ({"conditions": lambda self, xp, z0: z0.w}, "Mine: conditions returns .* must return a dict"),
    "invariants": ({"invariants": lambda self, xp, z: [z.w]}, "Mine: invariants returns list but must return a dict"),
    "rates of nothing": ({"rates": lambda self, xp, z: {"x": z.w}}, "Mine: rates returns x but must return .*: loss"),
    "along nothing": ({"along": lambda self, xp, t, z0: {"x": t}}, "Mine: along returns x but must return .*: loss"),
    "lifetime": ({"lifetime": lambda self, xp, z0: 0}, "Mine: lifetime returns int but must return two times"),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_ill_formed_statements_are_named(slip):
    methods, message = SLIPS[slip]
    with pytest.raises(TypeError, match=f"(?s){message}"):
        ls.verify(flow(**methods), 0.1)


@pytest.mark.parametrize("name", ["loss", "descent", "velocity", "solution"])
def test_missing_statements_are_named(name):
    with pytest.raises(NotImplementedError, match=f"Mine: {name} is not defined"):
        ls.verify(flow(**{name: getattr(ls.Flow, name)}), 0.1)


def test_what_has_no_closed_form_says_so():
    with pytest.raises(NotImplementedError, match=r"Single: limit is not defined \(the state at t = inf\)"):
        Single(s=1.0).limit(np, State(np.asarray(0.1)))


# declarations

DECLARATIONS = {
    "axes": (lambda: flow(axes={}), "Mine: axes = {} must give a tuple of names for each field .*'w': \\(\\)"),
    "axes of another": (lambda: flow(axes={"v": ()}), "Mine: axes = {'v': \\(\\)} must give"),
    "axes as text": (lambda: flow(axes={"w": "d"}), "Mine: axes = {'w': 'd'} must give a tuple"),
    "state": (lambda: flow(State=tuple), "Mine: State = <class 'tuple'> must be a NamedTuple"),
    "field": (
        lambda: type("Mine", (Single,), {"__annotations__": {"r": float}, "r": 1.0}),
        "Mine: r is a field without symbol and meaning .* declare r: Any = parameter",
    ),
    "axes of a parameter": (lambda: ls.parameter("x", "data", axes="d0"), "parameter: axes = 'd0' must be a tuple"),
    "bare decorator": (lambda: ls.observable(lambda self, xp, z: z.w), r"write @observable\(\)"),
}


@pytest.mark.parametrize("what", DECLARATIONS)
def test_wrong_declarations_are_refused_where_they_are_made(what):
    make, message = DECLARATIONS[what]
    with pytest.raises(TypeError, match=message):
        make()


@pytest.mark.parametrize("text", ["positive", "(1, 0)", "0, 1", "", None, "(nan, 1)"])
def test_domains_are_two_ends_in_brackets(text):
    with pytest.raises(ValueError, match=r"parameter: domain = .* must be two ends in brackets"):
        ls.parameter("s", "target", domain=text)


def test_a_flow_without_state_says_so():
    with pytest.raises(TypeError, match="Empty: State is missing"):
        type("Empty", (ls.Flow,), {})()(0.0, 1.0)


def test_times_from_the_blow_up_on_are_refused():
    growing = flow(  # w' = w^2
        velocity=lambda self, xp, z: State(z.w**2),
        solution=lambda self, xp, t, z0: State(z0.w / (1 - z0.w * t)),
        lifetime=lambda self, xp, z0: (xp.full_like(z0.w, -xp.inf), 1 / z0.w),
    )
    assert growing([-1.0, 0.25], 2.0)["w"].tolist() == [2 / 3, 4.0]
    for t in (0.5, 0.75):
        with pytest.raises(ValueError, match=rf"Mine: t = {t} must be earlier than 0.5 .*stop before"):
            growing([0.0, t], 2.0)


# what is asked of verify


def test_verify_takes_one_name_and_refuses_none():
    assert [check.name for check in ls.verify(flow(), 0.1, np.int64(20), checks="residual")] == ["residual"]
    with pytest.raises(ValueError, match=r"verify: checks = \[\] must name at least one"):
        ls.verify(flow(), 0.1, checks=[])
    with pytest.raises(ValueError, match="verify: z0, checks must not be given for EarlyAlignment"):
        ls.verify(ls.laws.EarlyAlignment.example(np.random.default_rng(0)), 0.1)


def test_nothing_checked_is_nothing_proved():
    report = ls.verify(flow(), 0.1, checks=["limit"])
    assert not report.ok
    needed = "limit: not checked; Mine needs limit(self, xp, z0), the state at t = inf"
    assert str(report) == f"Mine: nothing checked\n  note {needed}"
    symbols = ls.verify(flow(), 0.1, checks=["start", "symbols"])
    assert symbols.ok
    assert symbols.notes[0].startswith("symbols: not checked; Mine needs symbols(cls), a classmethod that returns ")


def test_checks_that_do_not_apply_state_what_they_need_where_they_are_asked_for():
    everything = ls.verify(flow(), 0.1, checks=CHECKS)
    notes = {note.split(":")[0] for note in everything.notes}
    assert notes == set(CHECKS) - {check.name for check in everything}
    assert {"definition", "conditions", "rates", "symbols", "lifetime", "discrete"} <= notes
    assert ls.verify(flow(), 0.1).notes == ()


CALLS = {
    "verify": ls.verify,
    "integrate": lambda f, z0: ls.integrate(f, 1.0, z0),
    "descend": lambda f, z0: ls.descend(f, 1.0, z0, step=0.1),
}


@pytest.mark.parametrize("who", CALLS)
@pytest.mark.parametrize("what", [Single, "BalancedMode", None, 3.0])
def test_only_flows_with_their_parameters_are_followed(who, what):
    with pytest.raises(TypeError, match=rf"^{who}: flow = .* must be a flow with its parameters"):
        CALLS[who](what, 0.1)


def test_a_start_at_rest_is_noted():
    report = ls.verify(flow(), 0.7)
    assert report.ok
    assert str(report).splitlines()[-1].startswith("  note start: stationary")


def balanced(xp):
    """Return balanced layers of a map, from its singular vectors, in an arithmetic."""
    A = np.random.default_rng(0).normal(size=(4, 3))
    U, s, V = xp.linalg.svd(xp.asarray(A), full_matrices=False)
    return xp.sqrt(s)[:, None] * V, U * xp.sqrt(s)


def test_the_rounding_of_a_start_is_named_where_exact_checks_see_it():
    flow = ls.WhitenedTwoLayer(target=np.random.default_rng(1).normal(size=(4, 3)))
    report = ls.verify(flow, flow.of(*balanced(np)), checks=["residual", "invariants"])
    assert report.failed == ["invariants"]  # which are conserved on the manifold of exact starts
    (note,) = report.notes
    name, size = note.removeprefix("start: ").split(" = ", 1)
    assert name == "distance of the imbalance from a solvable one"
    value, of_eps = float(size.split(",")[0]), float(size.split(", ")[1].split(" times 2^-52")[0])
    assert 0 < value < 1e-14
    assert of_eps == pytest.approx(value * 2**52, rel=0.2)
    assert note in str(report)
    assert note in report.to_json()
    exact = ls.verify(flow, flow.of(*balanced(ls.arithmetic.precise(100))), checks=["residual", "invariants"])
    assert exact.ok
    assert exact.notes == ()
