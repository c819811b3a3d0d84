"""The last start of a flow, kept for the next call: by its bits, never by its arrays, only if nothing overflowed."""

import copy
import gc
import pickle
import threading
import weakref

import numpy as np
import pytest

import linsolve as ls
from linsolve.arithmetic import precise
from linsolve.core.kept import KEPT

FLOWS = [getattr(ls, name) for name in ls.flows.WHERE]
TIMES = [0.0, 0.2, np.inf]


def example(cls, seed=0):
    """Return a flow and a start of NumPy arrays."""
    flow, z0 = cls.example(np.random.default_rng(seed))
    return flow, cls.State(*(np.array(v) for v in z0))


def values(traj):
    """Return the bytes of all that a trajectory gives."""
    return {name: np.asarray(traj[name]).tobytes() for name in traj}


def again(flow):
    """Return a flow with the same parameters that has kept nothing."""
    return type(flow)(**flow.parameters())


@pytest.fixture
def counted(monkeypatch):
    """Return a function that counts the evaluations of `begun` of a class."""

    def count(cls):
        calls, method = [], cls.begun
        monkeypatch.setattr(cls, "begun", lambda *given: calls.append(1) or method(*given))
        return calls

    return count


@pytest.mark.parametrize("cls", FLOWS, ids=lambda cls: cls.__name__)
def test_the_second_call_has_the_bits_of_the_first_and_of_a_new_flow(cls):
    flow, z0 = example(cls)
    first, second = values(flow(TIMES, z0)), values(flow(TIMES, z0))
    assert flow._last.begun.known
    assert first == second == values(again(flow)(TIMES, z0))
    later = values(flow([0.5], z0))
    assert later == values(again(flow)([0.5], z0)) != first


@pytest.mark.parametrize("cls", [ls.TwoLayer, ls.FrozenKernel, ls.BalancedMode, ls.NeuralRace])
def test_quantities_of_the_start_are_evaluated_once(cls, counted):
    calls, (flow, z0) = counted(cls), example(cls)
    for t in TIMES:
        flow(t, z0)
    assert len(calls) == 1
    flow(0.2, cls.State(*(2.0 * v for v in z0)))
    flow(0.2, z0)  # one start is kept
    assert len(calls) == 3


@pytest.mark.parametrize("cls", FLOWS, ids=lambda cls: cls.__name__)
def test_a_start_that_was_written_to_is_another_start(cls):
    flow, z0 = example(cls)
    before = values(flow(0.2, z0))
    for v in z0:
        v *= 1.0 + 2.0**-40  # within the tolerance of all conditions
    after = values(flow(0.2, z0))
    assert after == values(again(flow)(0.2, z0))
    assert after != before


@pytest.mark.parametrize("where", ["last bit", "sign of zero"])
def test_starts_are_compared_bit_by_bit(where):
    flow = ls.BalancedMode(s=-1.0)
    low = np.nextafter(0.1, 1) if where == "last bit" else -0.0
    first, second = 0.1 if low else 0.0, low
    flow(0.0, first)
    assert np.float64(second).tobytes() == flow(0.0, second)["a"].tobytes()


@pytest.mark.parametrize("cls", FLOWS, ids=lambda cls: cls.__name__)
def test_nothing_can_write_to_what_is_kept(cls):
    flow, z0 = example(cls)
    traj = flow(0.2, z0)
    for v, given, state in zip(traj.start, z0, traj.state, strict=True):
        assert not np.shares_memory(v, given)
        assert not np.shares_memory(v, state)
        for array in (v, flow._last.begun.z0[0]):
            with pytest.raises(ValueError, match="WRITEABLE"):
                array.flags.writeable = True
        base = v
        while isinstance(base, np.ndarray):
            assert not base.flags.writeable
            base = base.base


def test_one_start_in_every_form_is_one_start(counted):
    calls, flow = counted(ls.BalancedMode), ls.BalancedMode(s=1.0)
    forms = (0.1, np.float64(0.1), np.array(0.1), (0.1,), flow.State(0.1), {"a": 0.1}, [0.1], np.array([0.1]))
    found = {flow(1.0, z0)["a"].tobytes() for z0 in forms}
    assert len(found) == 1
    assert len(calls) == 4  # a dict and a list are converted in every call; the last two have a batch axis


# errors


def test_times_are_checked_in_every_call():
    flow, z0 = example(ls.TwoLayer)
    flow(0.2, z0)
    for t, message in ((np.nan, "is not a number"), ("soon", "not made of real numbers"), ([], "is empty")):
        with pytest.raises((ValueError, TypeError), match=f"TwoLayer: t .*{message}"):
            flow(t, z0)
    early = float(flow.blow_up_time(np, z0).max())
    for _ in range(2):
        with pytest.raises(ValueError, match=r"TwoLayer: t = .* must be later than"):
            flow(2 * early, z0)


@pytest.mark.parametrize(
    "cls", [cls for cls in FLOWS if example(cls)[0].counterexamples(np.random.default_rng(0))], ids=lambda c: c.__name__
)
def test_an_inexact_start_is_refused_in_every_call(cls):
    for flow, z0 in cls.counterexamples(np.random.default_rng(0)).values():
        for _ in range(2):
            with pytest.raises(ls.NotExact):
                flow(0.2, z0)
        assert flow._last.begun is None


def test_a_start_that_overflows_is_not_kept(counted):
    calls, flow, z0 = counted(ls.HiddenMode), ls.HiddenMode(s=1.0), ([1e200, 1.0], [1e200, -1.0])
    for count in (1, 2):
        with pytest.raises(OverflowError, match=r"HiddenMode: \w of up to 1e\+200"):
            flow(1.0, z0)
        assert len(calls) == count
        assert flow._last.begun is None


def test_a_start_with_a_harmless_overflow_is_not_kept():
    class Careless(ls.BalancedMode):
        def begun(self, xp, z0):
            return xp.asarray(1e300) * 1e300  # used by nobody, so that the state is finite

    flow = Careless(s=1.0)
    flow(1.0, 0.1)
    assert flow._last.begun is None


def test_a_start_that_overflowed_is_not_kept_by_the_limit():
    class Late(ls.BalancedMode):
        def begun(self, xp, z0):
            return xp.asarray(1e300) * 1e300

        def solution(self, xp, t, z0, shared=None):
            late = (t > 1e150) & ~np.isinf(t)  # overflows, and the state at inf is returned
            return self.State(xp.where(late, np.where(late, t, 0.0) * 1e300, z0.a))

    flow = Late(s=1.0)
    assert flow(1e200, 0.1)["a"] == 0.1
    assert flow._last.begun is None


@pytest.mark.parametrize("late", [1e200, 1e308])
def test_a_time_that_overflows_leaves_no_quantities_behind(late):
    flow, z0 = ls.BiasedMode(m=1.0, mu=2.0, N=1.0), ([0.1], [0.2], 0.0)
    limit = values(flow(np.inf, z0))
    for _ in range(2):
        assert flow(late, z0)["w"].tobytes() == limit["w"]


# copies, threads, garbage


def test_copies_and_pickles_keep_nothing_and_agree():
    flow, z0 = example(ls.NeuralRace)
    wanted = values(flow(0.2, z0))
    for other in (copy.deepcopy(flow), pickle.loads(pickle.dumps(flow))):
        assert other._last.begun is None
        assert values(other(0.2, z0)) == wanted
    other = flow._with(tau=2 * flow.tau)  # shares what is kept, and has other parameters
    assert values(other(0.2, z0)) != wanted == values(flow(0.2, z0))


@pytest.mark.parametrize("cls", FLOWS, ids=lambda cls: cls.__name__)
def test_a_flow_is_freed_with_its_last_reference(cls):
    flow, z0 = example(cls)
    flow(0.2, z0)
    gone = weakref.ref(flow)
    gc.collect()
    gc.disable()
    try:
        del flow
        assert gone() is None  # no cycle through what is kept
    finally:
        gc.enable()


def test_threads_may_share_a_flow():
    flow, z0 = example(ls.TwoLayer)
    starts = [flow.State(z0.u * (1 + k), z0.w) for k in range(4)]
    wanted, wrong = [values(again(flow)(0.2, z)) for z in starts], []

    def work(k):
        for _ in range(30):
            if values(flow(0.2, starts[k])) != wanted[k]:
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k % 4,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_large_starts_are_not_kept():
    flow = ls.BalancedMode(s=1.0)
    flow(1.0, np.full(KEPT - 2, 0.1))  # beside two parameters
    assert flow._last.begun.known
    last = flow._last.begun
    flow(1.0, np.full(KEPT - 1, 0.1))
    assert flow._last.begun is last


# other arithmetics


@pytest.mark.parametrize("cls", [ls.TwoLayer, ls.BalancedMode, ls.FrozenKernel])
def test_high_precision_is_not_answered_from_doubles(cls):
    flow, z0 = example(cls)
    flow(0.2, z0)
    xp = precise(40)
    fine = cls.State(*(xp.asarray(v) for v in z0))
    for _ in range(2):
        found, wanted = flow(0.2, fine), again(flow)(0.2, fine)
        assert all((a == b).all() for a, b in zip(found.state, wanted.state, strict=True))
        assert type(found.state[0]) is not np.ndarray
    assert type(flow(0.2, z0).state[0]) is np.ndarray


@pytest.mark.parametrize("cls", [ls.TwoLayer, ls.BalancedMode, ls.DeepMode, ls.NeuralRace])
def test_jax_traces_through_a_flow_that_keeps_a_start(cls):
    jax = pytest.importorskip("jax")
    jnp = pytest.importorskip("jax.numpy")
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        flow, z0 = example(cls)
        before = jax.tree_util.tree_structure(flow)
        wanted = flow(0.2, z0).state
        assert jax.tree_util.tree_structure(flow) == before
        assert flow._last.begun.known
        traced = jax.jit(lambda t, z: tuple(flow(t, z).state))
        found = traced(jnp.asarray(0.2), cls.State(*map(jnp.asarray, z0)))
        assert all(np.allclose(a, b, rtol=1e-12, atol=1e-14) for a, b in zip(found, wanted, strict=True))
        slope = jax.grad(lambda scale: flow(0.2, cls.State(*(scale * v for v in z0)))["loss"].sum())(1.0)
        change = [flow(0.2, cls.State(*(scale * v for v in z0)))["loss"].sum() for scale in (1 + 1e-6, 1 - 1e-6)]
        assert np.isclose(slope, (change[0] - change[1]) / 2e-6, rtol=1e-5)


def test_a_start_that_overflows_raises_in_every_call():
    flow = ls.WhitenedTwoLayer(target=np.array([[0.5, 0.2], [0.1, 1.5]]))
    z0 = flow.State(*(np.eye(2) * 1e155 for _ in range(3)))
    for t in (0.0, 0.0, 1.0, np.inf):
        with pytest.raises(OverflowError, match="leaves the range"):
            flow(t, z0)


def test_a_start_that_a_subclass_converts_is_converted_in_every_call():
    class Doubled(ls.BalancedMode):
        @classmethod
        def state(cls, z0):
            return cls.State(2 * super().state(z0).a)

    flow = Doubled(s=3.0)
    for a in (0.1, 0.2, 0.2, 0.4):
        assert flow(1.0, a)["a"].tobytes() == Doubled(s=3.0)(1.0, a)["a"].tobytes()
