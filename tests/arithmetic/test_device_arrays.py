"""Every flow on arrays of a GPU library: functions that CuPy has for batches, and values that stay on the device."""

import dataclasses

import array_api_strict as strict
import numpy as np
import pytest
from host_cuda import DeviceArray

import linsolve as ls
from benchmarks.speed_matrix import networks
from linsolve import arithmetic
from linsolve.core.arguments import bounds
from linsolve.core.query import pose
from linsolve.engines.cuda import checked

# functions of cupy.linalg that take batches of matrices; `diagonal` is from array-api-compat
BATCHED = {"cholesky", "diagonal", "eigh", "inv", "qr", "solve", "svd"}
every_flow = pytest.mark.parametrize("cls", ls.flows.ALL, ids=lambda c: c.__name__)


class Recorder:
    """A namespace with the names that are looked up in it."""

    def __init__(self, namespace):
        self.namespace, self.called = namespace, set()

    def __getattr__(self, name):
        self.called.add(name)
        return getattr(self.namespace, name)


def called(cls):
    """Return the linear algebra of a flow: of its closed form, velocity, loss, conditions and observables."""
    flow, z0 = cls.example(np.random.default_rng(0))
    problem, xp = pose(flow, [0.0, 0.5], z0), Recorder(np)
    xp.linalg = Recorder(np.linalg)
    own, clock = problem.flow, np.reshape(problem.t, (2, *[1] * len(problem.batch)))
    state = own.solution(xp, clock, problem.z0)
    own.along(xp, clock, problem.z0)
    own.conditions(xp, problem.z0)
    own.velocity(xp, problem.z0)
    own.loss(xp, state)
    own.observables(xp, state)
    return xp.linalg.called


@every_flow
def test_flows_call_no_linear_algebra_that_cupy_lacks(cls):
    assert called(cls) <= BATCHED


def test_linear_algebra_that_cupy_lacks_is_seen():
    class Wrong(ls.BalancedMode):
        def loss(self, xp, z):
            return xp.linalg.norm(z.a)

    assert called(Wrong) == {"norm"}
    assert "svd" in called(ls.WhitenedTwoLayer)


def test_matrices_come_to_the_host_by_name_only(monkeypatch):
    """Only `to_numpy` moves values out of the array library, for decisions between methods."""
    array, asked, real = type(strict.asarray(0.0)), [], arithmetic.to_numpy

    def to_numpy(value):
        asked.append(None)
        try:
            return real(value)
        finally:
            asked.pop()

    def refused(self, *args, **options):
        assert asked, "an array left its library without being asked to"
        return as_numpy(self, *args, **options)

    as_numpy = array.__array__
    monkeypatch.setattr(arithmetic, "to_numpy", to_numpy)
    monkeypatch.setattr(array, "__array__", refused)
    target, _, z0 = networks((10, 10, 10), (5,))
    flow = ls.WhitenedTwoLayer(target)
    own = flow.cast(strict), flow.State(*map(strict.asarray, z0))
    late = np.linspace(0.0, 20.0, 8), np.array([np.inf])
    for t in late:
        found = own[0](strict.asarray(t), own[1]).state
        for ours, right in zip(found, flow(t, z0).state, strict=True):
            assert type(ours) is array
            np.testing.assert_allclose(to_numpy(ours), right, rtol=0, atol=1e-13)
    monkeypatch.setattr("linsolve.systems.whitened.matrix_riccati.RELIABLE", 0)  # by Cholesky steps from time to time
    found = own[0](strict.asarray(late[0]), own[1]).state
    for ours, right in zip(found, flow(late[0], z0).state, strict=True):
        np.testing.assert_allclose(to_numpy(ours), right, rtol=0, atol=1e-13)


class Counted(DeviceArray):
    """An array of the simulated device that counts the numbers that come to the host."""

    moved = 0

    def get(self):
        Counted.moved += self.size
        return np.array(self)


Counted.__module__ = "cupy"


@pytest.mark.parametrize("cls", [ls.BalancedMode, ls.DeepMode, ls.TwoLayerOrder])
def test_valid_input_is_checked_where_it_is(cls, monkeypatch):
    monkeypatch.setattr(Counted, "moved", 0)
    size = 1000
    values = {name: np.full(size, 2.0).view(Counted) for name in (field.name for field in dataclasses.fields(cls))}
    z0 = cls.State(*(np.full(size, 0.5).view(Counted) for _ in cls.State._fields))
    checked(cls(**values), [0.0, 1.0], z0)
    assert Counted.moved < size
    with pytest.raises(ValueError, match=r"tau|eta_u"):  # wrong values are shown by the host
        cls(**values | {name: -values[name] for name in values if name in ("tau", "eta_u")})


def test_bounds_are_those_of_numpy_and_nan_is_not_lost():
    assert bounds(np.array([2.0, -1.0]).view(DeviceArray)) == (-1.0, 2.0)
    assert all(np.isnan(bounds(np.array([1.0, np.nan]).view(DeviceArray))))
    assert bounds(arithmetic.precise(30).asarray([1, 3])) == (1.0, 3.0)
