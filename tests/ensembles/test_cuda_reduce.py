"""Reductions on a GPU, whose source is compiled and run on the host: NumPy's statistics, in a fixed order."""

import numpy as np
import pytest
from host_cuda import DeviceArray, Generator, compiled, needs_compiler, simulated
from reduction_cases import compare_with_numpy, compare_with_welford, same

import linsolve as ls
from linsolve.engines import cuda_source
from linsolve.engines.cuda import checked
from linsolve.engines.cuda_source import TIMES, reduction
from linsolve.engines.plan import COLUMN, plan_for
from linsolve.engines.program import Tracer
from linsolve.ensembles import BlockError, Histogram, cuda_reduce, random_networks
from linsolve.studies.phases import wishart


@pytest.fixture
def gpu(monkeypatch):
    """A CuPy of NumPy arrays, whose kernels are compiled by the compiler of the host."""
    return simulated(monkeypatch)


@needs_compiler
def test_members_are_added_in_order_by_welfords_recurrence_to_the_last_bit(gpu):
    compare_with_welford()


@needs_compiler
def test_reductions_are_numpys(gpu):
    compare_with_numpy()


@needs_compiler
@pytest.mark.parametrize(
    ("template", "right", "wrong", "compare"),
    [
        ("_MOMENTS", "away * (x - mean)", "away * away", compare_with_numpy),  # from the earlier mean
        ("_MOMENTS", "mean += away * share", "mean += away * share * 0.999", compare_with_numpy),
        ("_MOMENTS", "low = smaller", "low = larger", compare_with_numpy),
        ("_MOMENTS", "x < edges[m]", "x <= edges[m]", compare_with_numpy),
        # the members of a thread from last to first
        (
            "_REDUCTION",
            "for (whole j = lane; j < count; j += lanes)",
            "if (lane < count) for (whole j = lane + (count - 1 - lane) / lanes * lanes; j >= 0; j -= lanes)",
            compare_with_welford,
        ),
        ("_REDUCTION", "(double)(first / lanes)", "0.0", compare_with_welford),  # forgets the earlier batches
    ],
    ids=["square", "share", "low", "bin", "order", "number"],
)
@pytest.mark.quick(2)
def test_a_wrong_reduction_is_seen(gpu, monkeypatch, template, right, wrong, compare):
    text = getattr(cuda_source, template)
    assert right in text
    monkeypatch.setattr(cuda_source, template, text.replace(right, wrong))
    with pytest.raises((AssertionError, ValueError)):
        compare()


@needs_compiler
def test_bins_have_their_lower_edges_and_the_last_one_both():
    tracer = Tracer()
    tracer.program.outputs["x"] = tracer.input("x").index
    values, edges = np.array([-1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 2.0, 2.5, -np.inf, np.inf]), np.array([0.0, 1.0, 2.0])
    kept, counts = np.array([0.0, 0.0, np.inf, -np.inf]), np.zeros(4, np.uint64)
    nothing, x, kept, edge, counted = (v.ctypes.data for v in (np.zeros(1), values, kept, edges, counts))
    run = compiled(reduction(plan_for(tracer.program, (("x", COLUMN),))), "reduce")
    run(1, 1, 0, len(values), 1, 1, nothing, nothing, x, kept, 3, edge, counted)
    assert counts.tolist() == [2, 2, 4, 2]


@needs_compiler
def test_values_that_are_not_finite_are_refused(gpu):
    start = np.full(5, 0.1)
    start[3] = np.nan
    problem = checked(ls.BalancedMode(s=1.0), [0.0], np.full(5, 0.1))
    gathering = cuda_reduce.Reduction(("a",), 1)
    gathering.absorb(problem._replace(z0=ls.BalancedMode.State(start)))
    with pytest.raises(ValueError, match="ensemble: a = nan or inf for some member must be finite"):
        gathering.results()


@needs_compiler
def test_a_variance_beyond_the_doubles_is_refused_only_if_it_is_wanted(gpu):
    def huge(_, n):
        return ls.BalancedMode(s=np.ones(n)), np.linspace(1e200, 2e200, n)

    found = ls.ensemble(huge, 10, [0.0], observe=["a"], reduce=["min", "mean"], rng=0, device="cuda")
    assert (found["a", "min"].item(), found["a", "mean"].item()) == (1e200, pytest.approx(1.5e200, rel=1e-15))
    with pytest.raises(OverflowError, match="ensemble: variance of a leaves the range of doubles"):
        ls.ensemble(huge, 10, [0.0], observe=["a"], reduce=["variance"], rng=0, device="cuda")


@needs_compiler
def test_a_batch_after_a_part_of_the_lanes_is_refused(gpu):
    gathering, problem = cuda_reduce.Reduction(("a",), 1), checked(ls.BalancedMode(s=1.0), [1.0], np.full(5, 0.1))
    gathering.absorb(problem)
    with pytest.raises(ValueError, match="cuda: members = 5 must be a multiple of 16384"):
        gathering.absorb(problem)


@needs_compiler
def test_an_ensemble_on_a_device_is_that_of_its_members(gpu):
    members, tile, t = 40_000, 2 * cuda_reduce.LANES, np.array([0.0, 0.5, 2.0])
    factory = random_networks(10**6, 1e-3, 1e-3, gamma=0.7, y=1.5)
    edges = np.linspace(0, 4, 2001)
    found = ls.ensemble(
        factory, members, t, observe=("loss", "ntk"), reduce=("mean", "variance", "max", Histogram(edges=edges)), rng=3,
        device="cuda", tile=tile,
    )  # fmt: skip
    drawn = []
    for k, count in enumerate((tile, members - tile)):
        flow, z0 = factory(cuda_reduce.generator(np.random.SeedSequence(3), k), count)
        drawn.append(flow(t, type(z0)(*(v.get() for v in z0)), engine="plain"))
    for name in ("loss", "ntk"):
        values = np.concatenate([traj[name] for traj in drawn], axis=-1)
        np.testing.assert_allclose(found[name, "mean"], values.mean(-1), rtol=1e-13)
        np.testing.assert_allclose(found[name, "variance"], values.var(-1, ddof=1), rtol=1e-9)
        np.testing.assert_allclose(found[name, "max"], values.max(-1), rtol=1e-13)
        assert (found[name, "histogram"].sum(-1) + found[name, "above"] + found[name, "below"] == members).all()
    assert found.edges["loss"].tolist() == edges.tolist()
    on_host = ls.ensemble(factory, members, t, observe="loss", reduce=("mean", "standard_error"), rng=3)
    assert np.all(np.abs(found["loss", "mean"] - on_host["loss", "mean"]) <= 8 * on_host["loss", "standard_error"])


@needs_compiler
def test_a_tile_larger_than_the_device_is_refused(gpu):
    gpu.limit = 4 * TIMES * cuda_reduce.LANES
    with pytest.raises(MemoryError, match=r"memory of the device is lacking for tile = 4194304 \(members"):
        ls.ensemble(random_networks(10), 10**6, 1.0, device="cuda")
    with pytest.raises(MemoryError, match=r"memory of the device is lacking for t of 50 times and observe of 1 names"):
        ls.ensemble(random_networks(10), 10**6, np.linspace(0.0, 1.0, 50), device="cuda")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"device": "tpu"}, "ensemble: device = 'tpu' is unknown"),
        ({"threads": 2}, "ensemble: threads = 2 does not go with device = 'cuda'"),
        ({"nonfinite": "omit"}, "nonfinite = 'omit' must be 'raise' on a device"),
        ({"reduce": "quantiles"}, "reduce = Quantiles is not available on a GPU.*leave out device"),
        ({"reduce": Histogram()}, "Histogram must have edges"),
        ({"members": 1}, "members = 1 must be at least 2 for a variance"),
        ({"tile": 5000}, "tile = 5000 must be a multiple of 16384"),
        ({"members": 0}, "members = 0 must be a positive integer"),
    ],
)
def test_impossible_ensembles_are_refused(gpu, change, message):
    given = {"members": 10, "device": "cuda"} | change
    with pytest.raises(ValueError, match=message):
        ls.ensemble(random_networks(10), given.pop("members"), 1.0, **given)


def test_a_factory_that_fails_is_named_with_its_members(gpu):
    def failing(rng, count):
        if count < cuda_reduce.LANES:
            raise RuntimeError("no more networks")
        return random_networks(10)(rng, count)

    members = cuda_reduce.LANES + 5
    with pytest.raises(BlockError, match=r"drawing members 16384 to 16388 failed: RuntimeError: no more") as caught:
        ls.ensemble(failing, members, 1.0, device="cuda", tile=cuda_reduce.LANES)
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_batches_of_several_axes_are_refused(gpu):
    with pytest.raises(ValueError, match=r"ensemble: batch = \(10, 2\) must be members only on a device"):
        ls.ensemble(random_networks([10, 20]), 10, 1.0, device="cuda")


def test_generators_of_a_device_draw_there(gpu):
    width = np.array([1.0, 5.0, 1e9])
    drawn = wishart(width, 4, rng=Generator(np.random.Philox(1)))
    host = wishart(width, 4, rng=np.random.Generator(np.random.Philox(1)))
    assert all(type(v) is DeviceArray and same(v, h) for v, h in zip(drawn, host, strict=True))
    norms, same_norms = (
        ls.ntk.sampling.layer_by_layer(rng, 7, [20, 1010, 1005], 2.0, 0.1)  # so wide that NumPy draws binomials too
        for rng in (Generator(np.random.Philox(2)), np.random.Generator(np.random.Philox(2)))
    )
    assert type(norms.inputs) is DeviceArray
    assert same(norms.gradients, same_norms.gradients)
