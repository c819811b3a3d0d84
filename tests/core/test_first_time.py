"""`when` of flows without a closed form for the time to a loss: bisection of the exact loss."""

from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

import linsolve as ls
from linsolve import arithmetic
from linsolve.core.first_time import first_time
from linsolve.core.query import pose

CLOSED = [cls for cls in ls.flows.ALL if cls.time_to is not ls.Flow.time_to]
SEARCHED = [cls for cls in ls.flows.ALL if cls.time_to is ls.Flow.time_to]
SHARES = [0.9, 0.3, 0.03]


class Decay(ls.Flow):
    """A flow of a user, without a limit, a lifetime or a time to a loss."""

    rate: Any = ls.parameter("k", "curvature", domain="(0, inf)")

    class State(NamedTuple):
        """One weight."""

        w: Any

    axes: ClassVar = {"w": ()}

    def loss(self, xp, z):
        return self.rate * z.w**2 / 2

    def velocity(self, xp, z):
        return self.State(-self.rate * z.w)

    def solution(self, xp, t, z0):
        return self.State(z0.w * xp.exp(-self.rate * t))


def wanted(flow, z0, share):
    """Return a loss between those of the start and of the limit."""
    begin, end = (flow(t, z0)["loss"] for t in (0.0, np.inf))
    return end + share * (begin - end)


def agree(cls, seed):
    """Compare the search with the closed form for the time."""
    flow, z0 = cls.example(np.random.default_rng(seed))
    for share in SHARES:
        loss = wanted(flow, z0, share)
        np.testing.assert_allclose(first_time(pose(flow, 0.0, z0), loss), flow.when(z0, loss=loss), rtol=1e-12)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("cls", CLOSED)
def test_the_search_agrees_with_the_closed_form_for_the_time(cls, seed):
    agree(cls, seed)


@pytest.mark.parametrize("change", [lambda t: t * (1 + 1e-10), lambda t: t / 2, lambda t: t + 1e-9])
def test_the_search_rejects_a_wrong_formula_for_the_time(change):
    class Mutant(ls.TwoLayer):
        def time_to(self, xp, z0, *, loss):
            return change(super().time_to(xp, z0, loss=loss))

    with pytest.raises(AssertionError):
        agree(Mutant, 0)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("cls", SEARCHED)
def test_the_loss_is_reached_at_the_time_and_not_before(cls, share):
    flow, z0 = cls.example(np.random.default_rng(1))
    loss = np.asarray(wanted(flow, z0, share))
    times = flow.when(z0, loss=loss)
    assert times.shape == loss.shape
    for index in np.ndindex(times.shape):
        at, before = (flow(t, z0)["loss"][index] for t in (times[index], times[index] * (1 - 1e-9)))
        assert at == pytest.approx(loss[index], rel=1e-12)
        assert before > loss[index]


def test_a_loss_that_the_rank_excludes_is_never_reached():
    flow = ls.LoRA(target=np.diag([3.0, 1.0]), base=np.zeros((2, 2)))
    z0 = flow.of(np.eye(1, 2), np.zeros((2, 1)))
    least = flow(np.inf, z0)["loss"]  # of the second direction
    assert least == pytest.approx(0.5, rel=1e-12)
    found = flow.when(z0, loss=[5.0, 4.99, 0.51, 0.49, 0.0])
    assert found[0] == 0
    assert (found[1:3] > 0).all()
    assert np.isfinite(found[1:3]).all()
    assert (found[3:] == np.inf).all()


def test_a_flow_of_a_user_is_searched_over_its_batch_and_at_any_scale_of_time():
    rates = np.array([2.0, 1e-100, 1e100])
    loss = rates / 2 * np.array([[0.25], [1e-8]])
    found = Decay(rate=rates).when(np.ones(3), loss=loss)
    np.testing.assert_allclose(found, -np.log(2 * loss / rates) / 2 / rates, rtol=1e-13)
    assert (Decay(rate=rates).when(np.ones(3), loss=0.0) == np.inf).all()
    with pytest.raises(ValueError, match=r"Decay: loss has shape \(2,\) but must broadcast against batch \(3,\)"):
        Decay(rate=rates).when(np.ones(3), loss=[1.0, 2.0])


def test_the_time_is_searched_to_all_digits():
    xp = arithmetic.precise(50)
    found = Decay(rate=xp.asarray(2)).when(xp.asarray(1), loss=xp.asarray(1) / 4)
    assert abs(found / (xp.log(xp.asarray(2)) / 2) - 1) < 1e-48


def test_a_search_is_refused_while_jax_traces():
    jax = pytest.importorskip("jax")
    doubles = jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64()
    with doubles, pytest.raises(TypeError, match="Decay: z0 or the flow is traced by JAX"):
        jax.jit(lambda w: Decay(rate=2.0).when(w, loss=0.1))(1.0)


def test_a_start_beyond_doubles_is_searched_or_refused():
    class Lost(Decay):
        def loss(self, xp, z):
            return z.w**4 / z.w**2

    assert Decay(rate=1.0).when(1e200, loss=0.5) == pytest.approx(np.log(1e200), rel=1e-14)
    with pytest.raises(OverflowError, match=r"Lost: the time to loss = 0\.5 leaves the range of doubles"):
        Lost(rate=1.0).when([1.0, 1e200], loss=0.5)


def test_the_search_at_fifty_digits_needs_no_late_times():
    flow, start = ls.WhitenedTwoLayer(np.eye(3)), tuple(0.1 * np.eye(3) for _ in range(3))
    xp = arithmetic.precise(50)
    precise = flow.cast(xp).when(tuple(xp.asarray(v) for v in start), loss=0.5)
    assert float(precise) == pytest.approx(float(flow.when(start, loss=0.5)), rel=1e-12)


def test_a_singular_kernel_of_doubles_is_searched_where_its_loss_falls():
    half, y = np.random.default_rng(1).normal(size=(5, 3)), np.random.default_rng(2).normal(size=5)
    flow, xp, zero = ls.FrozenKernel(half @ half.T, y), arithmetic.precise(50), np.zeros(5)
    loss = float(np.mean([flow(t, zero)["loss"] for t in (0.0, np.inf)]))
    precise = flow.cast(xp).when(xp.asarray(zero), loss=loss)  # an eigenvalue of -1e-16 raises the loss at t = 1e17
    assert float(precise) == pytest.approx(float(flow.when(zero, loss=loss)), rel=1e-12)
