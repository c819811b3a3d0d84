import json
import re
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from selection import quick

import linsolve as ls

CASES = [
    pytest.param(cls, seed, id=f"{cls.__name__}-{seed}", marks=[pytest.mark.exhaustive] if seed else [])
    for cls in ls.flows.ALL
    for seed in range(3)
]


@pytest.mark.parametrize(("cls", "seed"), CASES)
def test_every_flow_is_proved(cls, seed):
    flow, z0 = cls.example(np.random.default_rng(seed))
    report = ls.verify(flow, z0)
    assert report.ok, str(report)


CHEAP = {ls.BalancedMode, ls.TwoLayer, ls.FrozenKernel, ls.BlockKernel, ls.WhitenedTwoLayer}


@pytest.mark.parametrize("cls", quick(ls.flows.ALL, lambda cls: cls in CHEAP), ids=lambda c: c.__name__)
def test_exact_statements_hold_to_thirty_digits(cls):
    flow, z0 = cls.example(np.random.default_rng(7))
    report = {check.name: check.value for check in ls.verify(flow, z0, checks=["velocity", "residual", "semigroup"])}
    assert max(report.values()) <= 1e-30


def test_fewer_digits_loosen_the_exact_checks_in_proportion():
    flow, z0 = ls.BalancedMode.example(np.random.default_rng(0))
    (check,) = ls.verify(flow, z0, dps=20, checks=["residual"])
    assert check.tolerance == pytest.approx(1e-12)
    assert check.ok


def test_report_reads_as_table_and_as_json():
    flow, z0 = ls.BalancedMode.example(np.random.default_rng(0))
    report = ls.verify(flow, z0, checks=["start", "batch"])
    assert str(report).splitlines()[0] == "BalancedMode: passed"
    assert [check.name for check in report] == ["start", "batch"]
    loaded = json.loads(report.to_json())
    assert loaded["ok"] is True
    assert loaded["checks"][0]["name"] == "start"


def test_unknown_check_suggests_the_right_one():
    flow, z0 = ls.BalancedMode.example(np.random.default_rng(0))
    with pytest.raises(ValueError, match="did you mean 'residual'"):
        ls.verify(flow, z0, checks=["residuals"])


def test_too_few_digits_are_refused():
    with pytest.raises(ValueError, match=r"verify: dps = 3 must be an integer of at least 15"):
        ls.verify(ls.BalancedMode(s=1.0), 0.1, dps=3)


def test_stationary_start_is_proved():
    report = ls.verify(ls.BalancedMode(s=1.0), 1.0)
    assert report.ok, str(report)
    assert {"descent", "time_to"}.isdisjoint(check.name for check in report)  # nothing moves: no order, no time


def test_nan_and_infinities_never_pass():
    from linsolve.core.verify.case import distance, largest

    xp = ls.arithmetic.precise(30)
    for bad in (float("nan"), float("inf")):
        for array in (np.array([1.0, bad]), xp.asarray([1.0, bad]), xp.asarray([bad, 1.0])):
            assert not distance(array, array) <= 1.0
        assert not largest([0.0, bad]) <= 1.0
    assert largest([]) == 0.0


def test_starts_are_of_both_signs_and_at_the_saddle():
    from linsolve.core.verify.case import prepare

    flow, z0 = ls.HiddenMode.example(np.random.default_rng(0))
    signs = {tuple(np.sign(np.sum(z.w * z.h, axis=-1))) for z in prepare(flow, z0, 50).starts}
    assert (0.0, 0.0, 0.0) in signs
    assert {sign for found in signs for sign in found} == {-1.0, 0.0, 1.0}


class Inexact(ls.LoRA):
    def solution(self, xp, t, z0):
        return super().solution(xp, 2 * t, z0)


def test_conditions_that_no_random_start_obeys_are_checked_from_the_start():
    flow, z0 = ls.LoRA.example(np.random.default_rng(0))
    (check,) = ls.verify(flow, z0, checks="conditions")
    assert check.ok
    assert check.value > 0
    assert check.detail.startswith("residual of the start, since no random one obeys them (0 of 1)")
    assert ls.verify(Inexact(**flow.parameters()), z0, checks="conditions").failed == ["conditions"]


class Unstated(ls.laws.Expansion):
    orders = {"sine": 2}  # noqa: RUF012

    def conditions(self, xp):
        return {"never": xp.asarray(0.0)}

    def approximation(self, xp, small):
        return {"sine": small}

    def exact(self, xp, small):
        return {"sine": xp.sin(small)}


def test_a_condition_of_a_law_without_counterexample_is_not_proved():
    report = ls.verify(Unstated())
    assert report.failed == ["conditions"]
    assert "never" in str(report)


@pytest.mark.parametrize("cls", [ls.laws.UnimodalBias, ls.laws.NTKFirstStep])
def test_a_law_refuses_parameters_that_break_its_conditions(cls):
    ((name, values),) = cls.counterexamples(np.random.default_rng(3)).items()
    with pytest.raises(ls.NotExact, match=rf"{cls.__name__}: {re.escape(name)} = [\d.]+ must vanish"):
        cls(**values)


@pytest.mark.parametrize("cls", [cls for cls in ls.flows.ALL if cls.time_to is not ls.Flow.time_to])
def test_when_asked_for_a_loss_the_trajectory_has_it_then(cls):
    flow, start = cls.example(np.random.default_rng(3))
    begin, end = (flow(t, start)["loss"] for t in (0.0, np.inf))
    wanted = end + 0.3 * (begin - end)
    t = flow.when(start, loss=wanted)
    assert np.isfinite(t).all()
    for index in np.ndindex(t.shape):
        found = np.broadcast_to(flow(t[index], start)["loss"], t.shape)[index]
        assert found == pytest.approx(np.broadcast_to(wanted, t.shape)[index], rel=1e-9)


def test_when_refuses_what_has_no_answer():
    with pytest.raises(ValueError, match="BalancedMode: loss = -1"):
        ls.BalancedMode(s=1.0).when(0.1, loss=-1.0)


@pytest.mark.parametrize(
    ("flow", "z0", "name"),
    [
        (ls.BalancedMode(s=[1.0, 2.0]), [0.1, -1e155], "a of up to 1e\\+155"),
        (ls.BalancedMode(s=[1.0, 1e160]), [0.1, 0.2], "s of up to 1e\\+160"),
        (ls.TwoLayer(y=1.0, x=[1.0]), ([1e160], [[1.0]]), "u of up to 1e\\+160"),
    ],
    ids=["start", "parameter", "weights"],
)
def test_a_loss_beyond_doubles_is_refused_by_name(flow, z0, name):
    with pytest.raises(OverflowError, match=f"{name} leaves the range of doubles"):
        ls.verify(flow, z0, checks=["residual"])


class Powers(ls.Flow):
    """A flow whose exponent is one number for all members."""

    n: Any = ls.parameter("n", "exponent", domain="[1, inf)")

    class State(NamedTuple):
        a: Any

    axes: ClassVar = {"a": ()}

    def loss(self, xp, z):
        return z.a**2 / 2

    def descent(self, xp, z, gradient):
        return self.State(-int(self.n) * gradient.a)

    def velocity(self, xp, z):
        return self.State(-int(self.n) * z.a)

    def solution(self, xp, t, z0):
        return self.State(z0.a * xp.exp(-int(self.n) * t))


def test_a_parameter_without_batch_is_named():
    (check,) = ls.verify(Powers(n=3.0), 0.5, checks=["batch"])
    assert check.ok
    assert check.detail.endswith("; without a batch of n")
