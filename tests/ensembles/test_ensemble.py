"""Ensembles: what is streamed against what is held, to the last bit in any order, in constant memory; bad input."""

import dataclasses
import math
import random
import time
import tracemalloc
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import linsolve as ls
from linsolve import BalancedMode, TwoLayer, ensembles, observable
from linsolve.ensembles import Histogram, Quantiles, members, reductions
from linsolve.ensembles import quantiles as reductions_quantiles

LEVELS = (0.0, 0.05, 0.5, 0.95, 1.0)
T = np.array([0.0, 0.7, 2.0, np.inf])
ALL = ("mean", "variance", "standard_error", "count", "min", "max", Quantiles(LEVELS), Histogram(16))


def modes(rng, count):
    return BalancedMode(s=rng.uniform(1, 3, count)), (np.exp(rng.normal(-4, 1, count)),)


def held(factory, count, tile, names, seed=0, t=T):
    """Return the same networks without streaming, members along the last axis."""
    found = {name: [] for name in names}
    for k, start in enumerate(range(0, count, tile)):
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(k,)))
        flow, z0 = factory(rng, min(tile, count - start))
        for name in names:
            found[name].append(np.moveaxis(flow(t, z0).unjudged(name), 1, -1))
    return {name: np.concatenate(parts, axis=-1) for name, parts in found.items()}


def same(a, b):
    assert list(a.values) == list(b.values)
    return all(np.array_equal(a.values[key], b.values[key]) for key in a.values)


def extreme(rng, count):
    """Modes whose sizes leave the range of doubles when squared, among others."""
    s = np.where(np.arange(count) % 7 == 0, 1e200, rng.uniform(1, 3, count))
    return BalancedMode(s=s), (np.where(np.arange(count) % 5 == 0, 1e-200, np.exp(rng.normal(-4, 1, count))),)


def rows_of_modes(rng, count):
    """Members with a further batch axis, of which one parameter is common to all rows."""
    return BalancedMode(s=rng.uniform(1, 3, (count, 3)), tau=np.ones((1, 3))), (rng.uniform(0.01, 1, (count, 3)),)


FACTORIES = {
    "modes": (modes, ("loss", "a")),
    "extreme": (extreme, ("loss", "a")),
    "rows": (rows_of_modes, ("a", "loss")),
    "networks": (ensembles.random_networks(100, gamma=0.1), ("loss", "ntk", "P")),
}


@pytest.mark.parametrize("name", FACTORIES)
@pytest.mark.parametrize("t", [T, np.asarray(0.7)], ids=["times", "one time"])
@pytest.mark.quick(4)
def test_blocks_give_the_bits_of_the_plain_formula(name, t, monkeypatch):
    factory, names = FACTORIES[name]
    problem = members.drawn(factory, np.random.SeedSequence(0), 3, 1500, t)
    assert members.traceable(type(problem.flow), names)
    monkeypatch.setattr(members, "BLOCKS", 1)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        blocks = members.values_of(problem, names)
    monkeypatch.setattr(members, "unjudged", None)
    monkeypatch.setattr(members, "BLOCKS", 1e9)
    for a, b in zip(blocks, members.values_of(problem, names), strict=True):
        assert a.flags.c_contiguous
        np.testing.assert_array_equal(a, b)
    if name == "extreme" and t.ndim:
        assert not np.isfinite(blocks[0]).all()
        assert np.isfinite(blocks[0]).any()


@pytest.mark.parametrize("refined", [False, True], ids=["held", "refined"])
def test_statistics_of_all_members(refined, monkeypatch):
    if refined:
        monkeypatch.setattr(reductions_quantiles, "HELD", 0)
    found = ls.ensemble(modes, 5000, T, observe=("loss", "a"), reduce=ALL, rng=0, tile=512)
    for name, values in held(modes, 5000, 512, ("loss", "a")).items():
        assert found[name, "mean"] == pytest.approx(values.mean(axis=-1), rel=4e-16, abs=1e-300)
        assert found[name, "variance"] == pytest.approx(values.var(axis=-1, ddof=1), rel=1e-14, abs=1e-300)
        error = np.sqrt(values.var(axis=-1, ddof=1) / 5000)
        assert found[name, "standard_error"] == pytest.approx(error, rel=1e-14, abs=1e-300)
        assert np.array_equal(found[name, "min"], values.min(axis=-1))
        assert np.array_equal(found[name, "max"], values.max(axis=-1))
        quantiles = np.quantile(values, LEVELS, axis=-1, method="inverted_cdf")
        assert np.array_equal(found[name, "quantiles"], quantiles)
        edges = found.edges[name]
        assert (edges[0], edges[-1]) == (values.min(), values.max())
        assert np.array_equal(found[name, "histogram"], [np.histogram(row, edges)[0] for row in values])
        assert not found[name, "below"].any()
        assert not found[name, "above"].any()
    assert found.passes == 2


def test_same_bits_for_any_block_threads_and_order():
    options = {"observe": ("loss", "a"), "reduce": ALL, "rng": 5, "tile": 256}
    first = ls.ensemble(modes, 3000, T, threads=1, **options)
    for block, threads in ((1, 2), (700, 1), (700, 2), (10**6, 2)):
        assert same(first, ls.ensemble(modes, 3000, T, block=block, threads=threads, **options))

    class Shuffled(ThreadPoolExecutor):
        def submit(self, function, *args):
            delay = shuffle.choice((0.0, 0.004, 0.012))
            return super().submit(lambda: (time.sleep(delay), function(*args))[1])

    shuffle = random.Random(0)
    with Shuffled(4) as pool:
        assert same(first, ls.ensemble(modes, 3000, T, executor=pool, **options))
    assert not same(first, ls.ensemble(modes, 3000, T, **(options | {"rng": 6})))


def test_same_bits_from_other_processes():
    networks = ensembles.random_networks(50, 0.1, 0.1)
    options = {"reduce": ALL[:7], "rng": 1, "tile": 128}
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        far = ls.ensemble(networks, 600, [0.5, 1.0], executor=pool, block=256, **options)
    assert same(far, ls.ensemble(networks, 600, [0.5, 1.0], **options))


def test_generators_are_advanced_and_seeds_are_not():
    rng = np.random.default_rng(3)
    first, second = (ls.ensemble(modes, 10, 1.0, rng=rng)["loss", "mean"] for _ in range(2))
    assert first != second
    assert first == ls.ensemble(modes, 10, 1.0, rng=np.random.default_rng(3))["loss", "mean"]
    assert ls.ensemble(modes, 10, 1.0)["loss", "mean"] != ls.ensemble(modes, 10, 1.0)["loss", "mean"]


# single reductions, on hard numbers


def fed(gatherer, values, tile=100):
    """Return what a gatherer finds in values, shape (rows, members), a tile at a time."""
    while (question := gatherer.question()) is not None:
        for start in range(0, values.shape[1], tile):
            part = values[:, start : start + tile]
            finite = np.isfinite(part)
            gatherer.absorb(question(part, None if finite.all() else finite))
        gatherer.close()
    return gatherer.results()


def hard_rows(rng, count=1234):
    normal = rng.standard_normal(count)
    return {
        "normal": normal,
        "around a large number": 1e8 + normal,
        "all decades": np.sign(normal) * 10 ** rng.uniform(-307, 308, count),
        "ties": rng.integers(-2, 3, count) * 0.1,
        "equal": np.full(count, 0.1),
        "zeros of both signs": np.where(normal > 0, 0.0, -0.0),
        "subnormal": normal * 5e-320,
        "neighbors": 1.0 + rng.integers(0, 9, count) * np.finfo(float).eps,
        "some missing": np.where(normal > 1, np.nan, normal),
        "two left": np.where(np.arange(count) > 1, np.inf, normal),
    }


@pytest.mark.parametrize("counted", [1 << 18, 1], ids=["usual", "few counts held"])
def test_quantiles_of_hard_numbers_are_exact(counted, monkeypatch):
    monkeypatch.setattr(reductions_quantiles, "COUNTED", counted)
    rows = hard_rows(np.random.default_rng(0), 12_000)
    levels = (0.0, 1e-4, 0.25, 1 / 3, 0.5, 0.999, 1.0)
    found = fed(reductions_quantiles.Refined(levels, len(rows), exact=True), np.array(list(rows.values())))
    for k, (name, row) in enumerate(rows.items()):
        right = np.quantile(row[np.isfinite(row)], levels, method="inverted_cdf")
        assert np.array_equal(found["quantiles"][:, k], right), name


def test_whether_quantiles_are_exact_is_said_by_a_truth_value():
    with pytest.raises(TypeError, match="Quantiles: exact = 'no' must be True or False"):
        Quantiles(exact="no")


def test_pairs_of_names_can_be_listed_and_looked_for():
    found = ls.ensemble(ls.ensembles.random_networks(5), 9, T, reduce=("mean", "max"), rng=0)
    assert list(found) == [("loss", "mean"), ("loss", "max")]
    assert ("loss", "max") in found
    assert ("loss", "min") not in found


def test_quantiles_in_one_pass_are_within_their_bound():
    rows = {name: row for name, row in hard_rows(np.random.default_rng(1)).items() if name != "subnormal"}
    levels = np.linspace(0, 1, 101)
    gatherer = reductions_quantiles.Refined(tuple(levels), len(rows), exact=False)
    found = fed(gatherer, np.array(list(rows.values())))["quantiles"]
    worst = 0.0
    for k, row in enumerate(rows.values()):
        right = np.quantile(row[np.isfinite(row)], levels, method="inverted_cdf")
        off = np.abs(found[:, k] - right)
        assert (off <= reductions_quantiles.ERROR * np.abs(right) + 1e-307).all()
        worst = max(worst, np.max(off[right != 0] / np.abs(right[right != 0]), initial=0))
    assert worst > 0.9 * reductions_quantiles.ERROR  # so that the bound is no idle one


def test_keys_have_the_order_of_doubles():
    tiny = np.finfo(float).smallest_subnormal
    values = np.array([-np.inf, -1e308, -1.0, -tiny, 0.0, tiny, 1.0, np.nextafter(1, 2), 1e308, np.inf])
    keys = reductions_quantiles.key_of(values)
    assert (np.diff(keys) > 0).all()
    assert np.array_equal(reductions_quantiles.float_of(keys), values)
    assert reductions_quantiles.key_of(np.array([-0.0])) == reductions_quantiles.key_of(np.array([0.0]))


def variance_error(found, offsets):
    """Return the relative error of a variance of 1 + offset, from exact integers."""
    right = np.var(offsets.astype(float), ddof=1)  # small integers: exact squares and sums
    return abs(found / right - 1)


def test_variance_around_a_large_mean_and_a_formula_that_loses_it():
    offsets = np.random.default_rng(0).integers(-500, 500, 40_000)
    values = 1e9 + offsets[None, :].astype(float)
    found = fed(reductions_of("mean", "variance"), values, tile=512)
    assert found["mean"][0] == pytest.approx(1e9 + offsets.mean(), rel=2e-16)
    assert variance_error(found["variance"][0], offsets) < 1e-14
    naive = (np.sum(values**2) / values.size - np.mean(values) ** 2) * values.size / (values.size - 1)
    assert variance_error(naive, offsets) > 1e-6


def reductions_of(*names):
    return reductions.Moments(names)


def test_mean_of_many_tiles_does_not_drift_as_the_plain_update_does():
    values = np.random.default_rng(2).exponential(size=(1, 20_000)) * 0.1
    right = math.fsum(values[0]) / values.size
    assert abs(fed(reductions_of("mean"), values, tile=4)["mean"][0] - right) <= np.spacing(right)
    plain = 0.0
    for k, mean in enumerate(values.reshape(-1, 4).mean(axis=1)):
        plain += (mean - plain) / (k + 1)
    assert abs(plain - right) > 4 * np.spacing(right)


def test_histogram_between_given_edges_counts_what_is_outside():
    edges = (0.0, 0.5, 1.0)
    values = np.array([[-1.0, 0.0, 0.25, 0.5, 1.0, 2.0, np.nan]])
    found = fed(Histogram(edges=edges).gatherer(7, 1), values, tile=3)
    assert found["histogram"].tolist() == [[2, 2]]
    assert (found["below"].tolist(), found["above"].tolist()) == ([1], [1])


@pytest.mark.parametrize("spacing", ["linear", "log"])
def test_histogram_of_equal_values(spacing):
    found = fed(Histogram(4, spacing).gatherer(9, 1), np.full((1, 9), 3.0))
    assert found["histogram"].sum() == 9
    assert (np.diff(found["edges"]) > 0).all()


# shapes


def test_rest_of_the_batch_own_axes_and_pieces(monkeypatch):
    def factory(rng, count):
        flow = TwoLayer(y=[1.0, 2.0], x=[1.0, 0.5])
        return flow, TwoLayer.init(3, 2, batch=(count, 2), rng=rng)

    options = {"observe": ("loss", "u", "w"), "rng": 0, "tile": 64}
    found = ls.ensemble(factory, 150, [0.0, 1.0], **options)
    assert {name: found[name, "mean"].shape for name in found.observables} == {
        "loss": (2, 2), "u": (2, 2, 3), "w": (2, 2, 3, 2)
    }  # fmt: skip
    for name, values in held(factory, 150, 64, found.observables, t=[0.0, 1.0]).items():
        assert found[name, "mean"] == pytest.approx(values.mean(axis=-1), rel=1e-13, abs=1e-15)
    monkeypatch.setattr(members, "PIECE", 100)  # cuts the members of a tile
    cut = ls.ensemble(factory, 150, [0.0, 1.0], **options)
    assert cut["w", "variance"] == pytest.approx(found["w", "variance"], rel=1e-12)
    assert ls.ensemble(factory, 5, 1.0, rng=0)["loss", "mean"].shape == (2,)


def test_labelled():
    reduce = ("mean", "variance", Quantiles((0.1, 0.9)), Histogram(8))
    found = ls.ensemble(modes, 300, T, observe=("loss", "a"), reduce=reduce, rng=0)
    dataset = found.to_xarray()
    assert dataset["loss_mean"].dims == ("t",)
    assert dataset["a_quantiles"].dims == ("quantile", "t")
    assert dataset["a_histogram"].dims == ("t", "a_bin")
    assert dataset["loss_quantiles"].sel(quantile=0.9, t=0.7).item() == found["loss", "quantiles"][1, 1]
    assert dataset.attrs == {"flow": "BalancedMode", "members": 300}
    assert (dataset["a_low"] < dataset["a_high"]).all()


def test_drawn():
    found = ls.ensemble(modes, 300, T, reduce=("mean", "quantiles"), rng=0)
    with ls.plot.figure() as (_, ax):
        found.plot(ax=ax)
        assert [text.get_text() for text in ax.get_legend().get_texts()] == [
            "5 % to 95 %", "25 % to 75 %", "mean of 300 networks", "median"
        ]  # fmt: skip
        assert np.array_equal(ax.lines[0].get_ydata(), found["loss", "mean"][:3])  # not at infinity
        assert ax.get_xlabel().startswith("time")
        assert ax.get_ylabel() == "loss $L$"
    with ls.plot.figure() as (_, ax):
        ls.ensemble(modes, 300, T, rng=0).plot("loss", ax)
        assert ax.get_legend().get_texts()[0].get_text() == "mean ± standard deviation"
    with pytest.raises(ValueError, match="several times"):
        ls.ensemble(modes, 300, 1.0, rng=0).plot()
    with pytest.raises(ValueError, match="neither a mean nor a median"):
        ls.ensemble(modes, 300, T, reduce="max", rng=0).plot()
    with pytest.raises(ValueError, match="did you mean 'loss'"):
        found.plot("los")


def test_a_logarithmic_axis_drops_no_line():
    def descending(rng, count):
        return ls.TwoLayerOrder(y=-2.0), (rng.uniform(0.4, 0.6, count),) * 3

    found = ls.ensemble(descending, 300, T, observe="output", reduce=("mean", "variance"), rng=0)
    with ls.plot.figure() as (_, ax):
        with pytest.raises(ValueError, match=r"Ensemble.plot: output = -.* must be positive \(logarithmic scale\)"):
            found.plot(ax=ax, log=True)
        assert found.plot(ax=ax, log=False).get_yscale() == "linear"


def test_names_of_results():
    found = ls.ensemble(modes, 300, T, rng=0)
    assert repr(found) == "Ensemble(BalancedMode, 300 members, t: shape (4,); mean, variance of loss)"
    with pytest.raises(KeyError, match="did you mean 'mean'"):
        found["loss", "meen"]
    with pytest.raises(KeyError, match="observable and a statistic"):
        found["loss"]


# memory


def test_memory_does_not_grow_with_members(monkeypatch):
    monkeypatch.setattr(reductions_quantiles, "COUNTED", 1 << 12)  # so that few members reach what is held at most

    def peak(count):
        tracemalloc.start()
        reduce = ("mean", "variance", Quantiles(exact=False), Histogram(edges=np.linspace(0, 5, 51)))
        ls.ensemble(modes, count, [1.0], reduce=reduce, rng=0, tile=2000, threads=1)
        largest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return largest

    peak(4000)  # imports
    few, many = peak(20_000), peak(400_000)
    assert many < 1.5 * few
    assert many < 8 * 400_000  # which the values alone would take


# what is not finite


class Leaky(BalancedMode):
    """A mode with an observable that is not always a number."""

    @observable()
    def leaky(self, xp, z):
        """Return nan or inf for some networks."""
        return xp.where(z.a > 2.5, xp.nan, xp.where(z.a > 2.0, xp.inf, z.a))


def leaky_modes(rng, count):
    flow, z0 = modes(rng, count)
    return Leaky(s=flow.s), z0


def test_values_that_are_not_finite_are_refused_with_tile_and_member():
    bad = ~np.isfinite(held(leaky_modes, 900, 300, ("leaky",))["leaky"][:, :300])
    worst = bad.sum(axis=-1).argmax()
    tile = rf"leaky = nan or inf for {bad[worst].sum()} of the members 0 to 299 \(tile 0\)"
    with pytest.raises(ValueError, match=rf"{tile}, first for member {bad[worst].argmax()}, at t"):
        ls.ensemble(leaky_modes, 900, T, observe="leaky", rng=0, tile=300)


def test_the_first_member_that_a_flow_refuses_is_named():
    def networks(rng, count):
        first = np.tile(np.diag([0.1, 0.1]), (count, 1, 1))
        last = first.copy()
        if rng.bit_generator.seed_seq.spawn_key == (2,):
            first[[37, 80]] = np.diag([0.1, 0.4]), np.diag([0.1, 4.0])
        return ls.WhitenedTwoLayer(target=np.eye(2)), ls.WhitenedTwoLayer.of(first, last)

    distance = r"WhitenedTwoLayer: distance of the imbalance from a solvable one = 0.779"  # 1 for member 280
    with pytest.raises(ensembles.BlockError, match=rf"members 200 to 299 failed: NotExact: member 237: {distance}"):
        ls.ensemble(networks, 1000, T, tile=100, rng=0)
    fine = np.diag([0.1, 0.1])
    with pytest.raises(ls.NotExact, match=distance):  # alone
        ls.WhitenedTwoLayer(target=np.eye(2))(1.0, ls.WhitenedTwoLayer.of(np.diag([0.1, 0.4]), fine))


@pytest.mark.parametrize("refined", [False, True], ids=["held", "refined"])
def test_values_that_are_not_finite_are_left_out_and_counted(refined, monkeypatch):
    if refined:
        monkeypatch.setattr(reductions_quantiles, "HELD", 0)
    found = ls.ensemble(leaky_modes, 900, T, observe="leaky", reduce=ALL, rng=0, tile=300, nonfinite="omit")
    for k, row in enumerate(held(leaky_modes, 900, 300, ("leaky",))["leaky"]):
        kept = row[np.isfinite(row)]
        assert found.omitted["leaky"][k] == row.size - kept.size
        assert found["leaky", "mean"][k] == pytest.approx(kept.mean(), rel=1e-15)
        assert found["leaky", "variance"][k] == pytest.approx(kept.var(ddof=1), rel=1e-14)
        assert found["leaky", "count"][k] == kept.size
        assert found["leaky", "max"][k] == kept.max()
        right = np.quantile(kept, LEVELS, method="inverted_cdf")
        assert np.array_equal(found["leaky", "quantiles"][:, k], right)
        assert found["leaky", "histogram"][k].sum() == kept.size
    assert found.omitted["leaky"][-1] > 300


def test_too_few_finite_values_are_an_error():
    def lost(rng, count):
        return Leaky(s=np.full(count, 3.0)), (rng.uniform(1, 2, count),)

    assert ls.ensemble(lost, 50, [0.0], observe="leaky", rng=0)["leaky", "mean"] < 2
    with pytest.raises(ValueError, match="mean of leaky needs more members than the 0 whose values are finite"):
        ls.ensemble(lost, 50, [0.0, np.inf], observe="leaky", rng=0, nonfinite="omit")


def test_other_array_libraries():
    strict = pytest.importorskip("array_api_strict")

    def factory(rng, count):
        flow, z0 = modes(rng, count)
        return BalancedMode(s=strict.asarray(flow.s)), (strict.asarray(z0[0]),)

    found, right = (ls.ensemble(which, 300, T, reduce=ALL, rng=0) for which in (factory, modes))
    assert found["loss", "mean"] == pytest.approx(right["loss", "mean"], rel=1e-14)


def test_overflow_is_an_error():
    def huge(rng, count):
        return BalancedMode(s=np.full(count, 1.0)), (rng.uniform(0.1e154, 1.2e154, count),)

    with pytest.raises(OverflowError, match="variance of a overflows"):
        ls.ensemble(huge, 1000, 0.0, observe="a", rng=0)
    assert 6e153 < ls.ensemble(huge, 1000, 0.0, observe="a", reduce="mean", rng=0)["a", "mean"] < 7e153


# bad input


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"members": 0}, ValueError, "members = 0 must be a positive integer"),
        ({"members": 2.5}, ValueError, "members = 2.5"),
        ({"members": True}, ValueError, "members = True"),
        ({"members": 1}, ValueError, "at least 2 for a variance"),
        ({"block": 0}, ValueError, "block = 0 must be a positive integer"),
        ({"tile": -1}, ValueError, "tile = -1"),
        ({"t": []}, ValueError, "t has shape .0,., which is empty"),
        ({"t": [1.0, 0.0]}, ValueError, "times that ascend"),
        ({"t": [1.0, 1.0]}, ValueError, "times that ascend"),
        ({"t": [[0.0], [1.0]]}, ValueError, "times that ascend"),
        ({"t": [[0.0, 1.0], [2.0]]}, TypeError, "t = .* rectangular array"),
        ({"t": [0.0, np.nan]}, ValueError, r"t = nan at index \(1,\)"),
        ({"observe": ()}, ValueError, "observe"),
        ({"observe": None}, ValueError, "observe = None must be names"),
        ({"observe": np.array(3)}, ValueError, "observe = 3 must be names"),
        ({"reduce": 3}, TypeError, "reduce = 3 must be a name"),
        ({"factory": BalancedMode(s=1.0)}, TypeError, r"must be callable as factory\(rng, count\)"),
        ({"factory": lambda rng: None}, TypeError, r"factory = <function .* must be callable as factory\(rng, count\)"),
        ({"observe": ("loss", "loss")}, ValueError, "must not repeat"),
        ({"reduce": "meen"}, ValueError, "did you mean 'mean'"),
        ({"reduce": ()}, ValueError, "at least one reduction"),
        ({"reduce": ("mean", "mean")}, ValueError, "'mean' twice"),
        ({"reduce": np.ma.masked}, TypeError, "reduce = .* must be a name, Quantiles or Histogram"),
        ({"reduce": (3,)}, TypeError, "must be a name, Quantiles or Histogram"),
        ({"nonfinite": "drop"}, ValueError, "nonfinite = 'drop' is unknown"),
        ({"factory": BalancedMode(s=1.0)(0.0, 0.1)}, TypeError, "must be callable"),
        ({"members": 10**400}, ValueError, r"members = 1.00e\+400 at 4 times take .* days"),
        ({"observe": np.array(None)}, ValueError, "observe = .* must be names"),
        ({"reduce": np.array(None)}, TypeError, "reduce = .* must be a name"),
        ({"device": np.ones(2)}, ValueError, r"device = \[1.0, 1.0\] is unknown"),
        ({"executor": np.ones((99, 2))}, TypeError, r"executor = ndarray of shape \(99, 2\) must"),
        ({"executor": 3}, TypeError, "executor = 3"),
        ({"threads": 0}, ValueError, "threads = 0"),
        ({"rng": "a"}, TypeError, "rng = 'a'"),
        ({"progress": "x"}, TypeError, "ensemble: progress = 'x' must be True, False or None"),
    ],
)
def test_refused_before_any_network_is_drawn(given, error, message):
    def drawn(rng, count):
        raise AssertionError("drawn too early")

    call = {"factory": drawn, "members": 10, "t": T} | given
    with pytest.raises(error, match=message):
        ls.ensemble(call.pop("factory"), call.pop("members"), call.pop("t"), **call)


@pytest.mark.parametrize(
    ("factory", "error", "message"),
    [
        (lambda rng, count: 3, TypeError, "must give a flow and a start"),
        (lambda rng, count: (3, 4), TypeError, "must give a flow and a start"),
        (lambda rng, count: (BalancedMode(s=1.0), (0.1,)), ValueError, "asked for 2 members"),
        (lambda rng, count: (BalancedMode(s=1.0), (rng.uniform(size=(3, count)),)), ValueError, "leading batch axis"),
    ],
)
def test_factories_that_are_none(factory, error, message):
    with pytest.raises(error, match=message):
        ls.ensemble(factory, 10, T)


def test_unknown_observable_is_refused_after_two_members():
    counts = []

    def counting(rng, count):
        counts.append(count)
        return modes(rng, count)

    with pytest.raises(ValueError, match="did you mean 'loss'"):
        ls.ensemble(counting, 10**9, T, observe="los")
    assert counts == [2]


def test_a_factory_that_fails_at_once_is_named():
    with pytest.raises(
        ensembles.BlockError, match="ensemble: drawing members 0 to 1 failed: ZeroDivisionError"
    ) as caught:
        ls.ensemble(lambda rng, count: 1 / 0, 10, T, rng=0)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_tile_that_fails_is_named():
    def failing(rng, count):
        if rng.bit_generator.seed_seq.spawn_key == (2,):
            raise RuntimeError("no more networks")
        return modes(rng, count)

    with pytest.raises(ensembles.BlockError, match=r"members 200 to 299 failed: RuntimeError: no more networks"):
        ls.ensemble(failing, 1000, T, tile=100, rng=0)


def test_a_factory_with_a_memory_is_found_out(monkeypatch):
    monkeypatch.setattr(reductions_quantiles, "HELD", 0)
    own = np.random.default_rng(0)
    with pytest.raises(ValueError, match="other members when drawn again"):
        ls.ensemble(lambda rng, count: modes(own, count), 1000, T, reduce="quantiles")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Quantiles((0.5, 0.5)), "ascend"),
        (lambda: Quantiles((-0.1,)), r"must lie in \[0, 1\]"),
        (lambda: Quantiles(()), "empty"),
        (lambda: Histogram(0), "bins = 0"),
        (lambda: Histogram(4, "lag"), "did you mean 'log'"),
        (lambda: Histogram(edges=[1.0]), "at least two"),
        (lambda: Histogram(edges=[1.0, np.nan]), "not a number"),
        (lambda: Histogram(edges=[1.0, 2.0], bins=7), "bins = 7 does not go with edges"),
        (lambda: Histogram(edges=[1.0, 2.0], spacing="log"), "spacing = 'log' does not go with edges"),
    ],
)
def test_reductions_that_are_none(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_histogram_says_what_it_does():
    assert repr(Histogram()) == "Histogram(bins=64, spacing='linear', edges=None)"
    assert repr(Histogram(edges=[1, 2])) == "Histogram(bins=None, spacing=None, edges=(1.0, 2.0))"
    assert Histogram(edges=[1, 2]) == dataclasses.replace(Histogram(edges=[3, 4]), edges=[1, 2])


def test_logarithmic_bins_need_positive_values():
    with pytest.raises(ValueError, match="needs values above 0"):
        fed(Histogram(4, "log").gatherer(3, 1), np.array([[-1.0, 1.0, 2.0]]))
