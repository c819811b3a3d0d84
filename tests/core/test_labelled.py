"""Trajectories as labelled data sets."""

import re
import sys
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from selection import quick

import linsolve as ls
from linsolve import arithmetic
from linsolve.core.labelled import to_dataset

xarray = pytest.importorskip("xarray")
every_flow = pytest.mark.parametrize("cls", ls.flows.ALL, ids=lambda c: c.__name__)
TIMES = [0.5, [0.0, 0.5, 1.0], [[0.0, 0.5, 1.0], [2.0, 3.0, 4.0]]]


@every_flow
@pytest.mark.parametrize("t", TIMES, ids=["scalar", "line", "grid"])
def test_everything_with_a_name_is_there_with_its_numbers_and_axes(cls, t):
    flow, z0 = cls.example(np.random.default_rng(0))
    traj = flow(t, z0)
    data = traj.to_xarray()
    assert set(data.data_vars) == set(traj.names)
    lead = {0: (), 1: ("t",), 2: ("t0", "t1")}[np.ndim(t)]
    for name in traj.names:
        np.testing.assert_array_equal(data[name].values, np.asarray(traj[name]))
        assert data[name].dims[: len(lead)] == lead
        assert data[name].attrs["long_name"]
    for name, axes in cls.axes.items():
        plain = tuple(re.sub(r"_\d$", "", d) for d in data[name].dims)
        assert plain[len(plain) - len(axes) :] == tuple(axes)
        between = plain[len(lead) : len(plain) - len(axes)]
        assert between == tuple(f"batch{k}" for k in range(len(between)))
    assert data["loss"].dims == (*lead, *between)
    np.testing.assert_array_equal(data["t"].values, t)
    assert data["t"].dims == lead
    for name, value in flow.parameters().items():
        assert np.array_equal(np.broadcast_to(value, data[f"parameter_{name}"].shape), data[f"parameter_{name}"].values)
    assert data.attrs["flow"] == cls.__name__
    assert data.attrs["route"] == "closed form"
    assert data.attrs["parameters"].split(", ") == list(flow.parameters())
    assert "units" in data.attrs["time"]
    assert "time" in data["t"].attrs["units"]


@every_flow
@pytest.mark.parametrize("t", quick(TIMES, lambda t: np.ndim(t) == 1), ids=["scalar", "line", "grid"])
def test_it_survives_netcdf(cls, t, tmp_path):
    flow, z0 = cls.example(np.random.default_rng(1))
    data = ls.integrate(flow, t, z0, rtol=1e-6).to_xarray()
    assert data.attrs["route"] == "DOP853"
    path = tmp_path / "trajectory.nc"
    data.to_netcdf(path, engine="netcdf4")
    with xarray.open_dataset(path, engine="netcdf4") as loaded:
        xarray.testing.assert_identical(loaded.load(), data)


def test_an_axis_that_occurs_twice_is_numbered():
    flow, z0 = ls.WhitenedTwoLayer.example(np.random.default_rng(2))
    data = flow([0.0, 1.0], z0).to_xarray()
    assert data["gram_in"].dims == ("t", "n_in", "n_in_2")
    assert data["product"].dims == ("t", "n_out", "n_in")
    assert data["gram_in"].sel(t=1.0).shape == z0.gram_in.shape


def test_batched_parameters_and_high_precision():
    flow = ls.BalancedMode(s=[[1.0], [2.0]], tau=[1.0, 2.0, 3.0])
    data = flow([0.0, np.inf], 0.1).to_xarray()
    assert data["a"].dims == ("t", "batch0", "batch1")
    assert data["parameter_s"].dims == ("batch0", "batch1")
    assert data["parameter_s"].values.tolist() == [[1.0] * 3, [2.0] * 3]
    exact = to_dataset(flow.cast(arithmetic.precise(30))([0.0, np.inf], 0.1))
    xarray.testing.assert_allclose(exact, data, rtol=1e-14)


def test_missing_xarray_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(ImportError, match=r'pip install "\.\[labelled\]"'):
        ls.BalancedMode(s=1.0)(1.0, 0.1).to_xarray()


def test_axes_named_like_variables_or_times_get_names_of_their_own():
    class Named(ls.Flow):
        rate: Any = ls.parameter("k", "rates", axes=("w",))

        class State(NamedTuple):
            w: Any

        axes: ClassVar = {"w": ("t", "w")}

        def loss(self, xp, z):
            return xp.sum(z.w**2, axis=(-2, -1)) / 2

        def velocity(self, xp, z):
            return self.State(-z.w * self.rate)

        def solution(self, xp, t, z0):
            return self.State(z0.w * xp.exp(-self.rate * t[..., None, None]))

    dataset = Named(rate=[1.0, 2.0])([0.0, 1.0, 2.0], np.ones((4, 2))).to_xarray()
    assert dataset["w"].dims == ("t", "t_axis", "w_axis")
    assert dataset["parameter_rate"].dims == ("w_axis",)
    assert dataset["w"].shape == (3, 4, 2)


def networks():
    """Return trajectories of networks by name, with the axes of their values besides time."""
    rng = np.random.default_rng(0)

    def drawn(*shape):
        return 0.3 * rng.normal(size=shape)

    data, t = (drawn(6, 2), drawn(6, 3)), [0.0, 1.0]
    common = {"map": ("n_out", "n_in"), "singular_values": ("mode",), "loss": ()}
    layers = {"w1": ("unit1", "n_in"), "w2": ("unit2", "unit1"), "w3": ("n_out", "unit2")}
    biases = {"b1": ("unit1",), "b2": ("unit2",), "b3": ("n_out",), "offset": ("n_out",)}
    samples = common | {"train_loss": ()}
    one = samples | {"w1": ("n_out", "n_in"), "test_loss": ()}
    zeros = [np.zeros(4), np.zeros(5), np.zeros(3)]
    heads = {"value": ("head",), "key": ("head", "token"), "query": ("head", "token")}
    merged = {"value": ("head",), "key_query": ("head", "token", "token_2")}
    return {
        "biases": (ls.solve([drawn(4, 2), drawn(5, 4), drawn(3, 5)], data, t, bias=zeros), layers | biases | samples),
        "one layer": (ls.solve([drawn(3, 2)], data, [t], test=data), one),
        "heads": (ls.solve([drawn(4), drawn(4, 3), drawn(4, 3)], np.eye(3), t, context=20), heads | common),
        "merged heads": (ls.solve([drawn(4), drawn(4, 3, 3)], np.eye(3), 1.0, context=20), merged | common),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["biases", "one layer", "heads", "merged heads"])
def test_values_of_a_network_have_their_axes(name):
    traj, axes = networks()[name]
    data = traj.to_xarray()
    lead = {0: (), 1: ("t",), 2: ("t0", "t1")}[traj.t.ndim]
    assert {key: data[key].dims for key in data.data_vars} == {key: (*lead, *own) for key, own in axes.items()}
    assert all(np.array_equal(data[key].values, traj[key]) for key in axes)
    assert np.array_equal(data["t"].values, traj.t)
    assert data.attrs["route"] == traj.route


def test_names_of_a_network_are_chosen():
    traj, _ = networks()["biases"]
    assert traj.to_xarray("ntk", "loss")["ntk"].dims == ("t", "sample_output", "sample_output_2")
    with pytest.raises(KeyError, match="solve: observable = 'los' is unknown"):
        traj.to_xarray("los")
