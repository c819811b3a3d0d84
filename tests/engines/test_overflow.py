"""One judgment of overflow: all engines refuse the same members with the same words, or give the same values.

`tests/contract` compares the engines on drawn extreme members.
"""

import numpy as np
import pytest

import linsolve as ls
from linsolve.engines.evaluate import evaluate
from linsolve.ensembles import BlockError
from linsolve.ensembles.reduce_members import reduce

ENGINES = ("plain", "blocks", "compiled")


@pytest.fixture(autouse=True)
def _no_warnings(recwarn):
    yield
    assert not [w for w in recwarn if issubclass(w.category, RuntimeWarning)]


def outcome(call):
    """Return the values of a state, or the type of the refusal and its words."""
    try:
        return call().state
    except (ValueError, OverflowError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("engine", [None, *ENGINES])
@pytest.mark.parametrize(("name", "value"), [("y", 1e308), ("gamma", 1e160)])
@pytest.mark.quick(2)
def test_one_overflow_in_a_large_ensemble_is_refused_by_the_name_of_what_is_extreme(engine, name, value):
    values = np.ones(200_000)
    values[7] = value
    flow = ls.TwoLayerOrder(**{"y": 1.0, name: values})
    with pytest.raises(
        OverflowError, match=rf"TwoLayerOrder: {name} of up to 1e\+(160|308) leaves the range of doubles"
    ):
        flow(1.0, (0.5, 0.5, 0.1), engine=engine)


@pytest.mark.parametrize("engine", [None, *ENGINES])
@pytest.mark.quick(1)
def test_a_deep_mode_of_infinite_depth_and_a_start_whose_square_overflows_has_reached_its_target(engine):
    start = np.full(100_000, 0.1)
    start[7] = 1e160
    found = ls.DeepMode(s=1.0, depth=np.inf)([0.5, 10.0], start, engine=engine)["a"]
    far = ls.DeepMode(s=1.0, depth=np.inf)([0.5, 10.0], 1e60)["a"]
    np.testing.assert_allclose(found[:, 7], far, rtol=1e-13)


@pytest.mark.exhaustive
def test_engines_agree_on_singular_values_and_depths_near_the_largest_double():
    for flow, t in ((ls.BalancedMode(s=[1.0, -1e308]), np.inf), (ls.DeepMode(s=[1.0, 2.0], depth=1e308), 1.0)):
        found = [outcome(lambda e=engine, f=flow, t=t: f(t, [0.1, 0.1], engine=e)) for engine in ENGINES]
        if isinstance(found[0][0], type):
            assert found[1] == found[2] == found[0]
        else:
            assert all(np.allclose(a, found[0], rtol=1e-14, atol=0) for a in found)


@pytest.mark.parametrize("size", [100, 20_000])
def test_an_observable_beyond_doubles_is_refused_by_every_engine(size):
    s = np.ones(size)
    s[size // 2] = 1e200
    for engine in ENGINES:
        flow = ls.BalancedMode(s=s)
        assert (evaluate(flow, 0.0, 0.1, "a", engine=engine)["a"] == 0.1).all()
        with pytest.raises(OverflowError, match="BalancedMode: loss leaves the range of doubles"):
            evaluate(flow, 0.0, 0.1, ("a", "loss"), engine=engine)


@pytest.mark.parametrize("engine", ["blocks", "compiled"])
@pytest.mark.parametrize("what", ["mean", ("mean", "max")])
def test_statistics_are_refused_where_a_member_overflows(engine, what):
    s = np.ones(10_000)
    s[77] = 1e160
    with pytest.raises(OverflowError, match=r"BalancedMode: s of up to 1e\+160"):
        reduce(ls.BalancedMode(s=s), [0.0, 1.0], 0.1, "loss", what, engine=engine)


@pytest.mark.parametrize("engine", [None, *ENGINES])
@pytest.mark.quick(1)
def test_a_sweep_is_stopped_by_an_overflow_with_its_block(engine):
    kernel = ls.ensembles.of(ls.TwoLayerOrder, "ntk", t=1.0, start=(0.5, 0.5, 0.1), y=1.0, engine=engine)
    with pytest.raises(
        BlockError, match=r"gamma = 1 to 1e\+160 .*OverflowError: TwoLayerOrder: gamma of up to 1e\+160"
    ):
        ls.sweep(kernel, gamma=[1.0, 1e160], eta_u=np.linspace(1, 2, 5000), block=10**5)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_overflows_on_the_way_to_a_finite_state_is_answered(engine):
    found = ls.BalancedMode(s=np.ones(50))([1e300, np.inf], np.full(50, 1e-3), engine=engine)["a"]
    assert (found == 1.0).all()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("view", [lambda v: v, lambda v: v[::-1]])
def test_arrays_to_write_into_that_share_memory_are_refused(engine, view):
    flow, z0, array = ls.TwoLayerOrder(y=1.0), (np.full(300, 0.5), 0.5, 0.1), np.empty(300)
    with pytest.raises(ValueError, match=r"out\['P'\] shares memory with out\['Q'\]"):
        flow(1.0, z0, out=(array, view(array), np.empty(300)), engine=engine)
    both = np.empty((300, 3))
    found = flow(1.0, z0, out=tuple(both.T), engine=engine)  # interleaved, but apart
    assert np.array_equal(found["P"], both[:, 0])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("threads", [0, -1, 1.5, True, "two"])
def test_threads_are_checked_whatever_the_engine(engine, threads):
    for call in (
        lambda: ls.BalancedMode(s=1.0)(1.0, 0.1, engine=engine, threads=threads),
        lambda: evaluate(ls.BalancedMode(s=1.0), 1.0, 0.1, "a", engine=engine, threads=threads),
    ):
        with pytest.raises((ValueError, TypeError), match="threads = "):
            call()
