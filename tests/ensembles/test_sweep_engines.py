"""Engines of sweeps: the same bits or the same to rounding, the same wherever and in whatever order, refused early."""

import importlib.util
import json
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import linsolve as ls
from linsolve.__main__ import main
from linsolve.engines.evaluate import evaluate
from linsolve.ensembles.blocks import ENOUGH, observed
from linsolve.ensembles.store import StoreError

GAMMA, SIGMA, TIMES = np.linspace(-2.0, 2.0, 83), np.geomspace(1e-6, 3.0, 61), np.array([0.0, 1e-9, 0.3, 2.0, np.inf])
NAMES = ("P", "Q", "R", "loss", "ntk", "alignment")
HAS_LLVMLITE = importlib.util.find_spec("llvmlite") is not None
compiles = pytest.mark.skipif(not HAS_LLVMLITE, reason="needs the extra [fast]")


def small(sigma):
    return ls.TwoLayerOrder.State(0.02 * sigma**2, 0.01 * sigma**2, 0 * sigma)


def drawn(sigma, rng):
    P, Q = sigma * rng.random((2, *sigma.shape))
    return ls.TwoLayerOrder.State(P, Q, (2 * rng.random(sigma.shape) - 1) * np.sqrt(P * Q))


def swept(engine, start=small, names=NAMES, **how):
    seen = ls.ensembles.of(ls.TwoLayerOrder, *names, start=start, y=1.0, engine=engine)
    return ls.sweep(seen, gamma=GAMMA, sigma=SIGMA, t=TIMES, **how)


def identical(one, other):
    assert one.names == other.names
    for name in one.names:
        assert one[name].tobytes() == other[name].tobytes(), name


@pytest.mark.parametrize("start", [small, drawn])
@pytest.mark.quick(1)
def test_blocks_give_the_bits_of_the_formula_as_it_stands(start):
    how = {"rng": 3} if start is drawn else {}
    plain = swept("plain", start, **how)
    identical(plain, swept("blocks", start, **how))
    identical(plain, swept(None, start, **how))


def test_the_default_takes_blocks_where_they_pay():
    """A flow that blocks cannot trace, and a part that is small, go as the formula stands; the rest does not."""
    seen = []

    class Counting(ls.TwoLayerOrder):
        def solution(self, xp, t, z0):
            seen.append(xp is np)
            return super().solution(xp, t, z0)

    flow, one = Counting(y=1.0), Counting.State(np.full(ENOUGH, 0.1), 0.1, 0.0)
    for engine, size, plain in (
        (None, ENOUGH, False),
        (None, ENOUGH - 1, True),
        ("plain", ENOUGH, True),
        ("blocks", 1, False),
    ):
        seen.clear()
        batch, found = observed(flow, np.array([0.5]), one._replace(P=one.P[:size]), ("P",), engine)
        assert (batch, found["P"].shape) == ((size,), (1, size))
        assert (True in seen) == plain
    wide = ls.TwoLayer.State(np.full((ENOUGH, 2), 0.1), np.full((ENOUGH, 2, 1), 0.2))
    assert observed(ls.TwoLayer(y=1.0), np.array([0.5]), wide, ("loss",), None)[1]["loss"].shape == (1, ENOUGH)


@compiles
def test_compiled_sweeps_are_right_and_the_same_wherever_and_in_whatever_order():
    found = swept("compiled")
    plain = swept("plain")
    for name in NAMES:  # in terms of the largest at each start: where the alignment passes through 0
        size = np.abs(plain[name]).max(axis=2, keepdims=True)
        assert (np.abs(found[name] - plain[name]) <= 1e-13 * size).all(), name
    identical(found, swept("compiled", threads=1, block=100))
    identical(found, swept("compiled", block=7001))
    with ThreadPoolExecutor(3) as pool:
        identical(found, swept("compiled", executor=pool))
    flow = ls.TwoLayerOrder(y=1.0, gamma=GAMMA[:, None])
    alone = evaluate(flow, TIMES, small(SIGMA), NAMES, engine="compiled")
    for name in NAMES:
        assert np.moveaxis(alone[name], 0, -1).tobytes() == found[name].tobytes(), name


@compiles
def test_compiled_sweeps_of_random_networks_draw_the_same():
    found, plain = (swept(engine, drawn, rng=5) for engine in ("compiled", "plain"))
    assert found["R"].tobytes() == plain["R"].tobytes()  # of the start, and conserved
    assert np.allclose(found["P"], plain["P"], rtol=1e-12, atol=0)


@compiles
def test_everything_is_observed_by_default():
    found = ls.sweep(ls.ensembles.of(ls.BalancedMode, start=0.01, t=0.7, engine="compiled"), s=SIGMA)
    plain = ls.sweep(ls.ensembles.of(ls.BalancedMode, start=0.01, t=0.7), s=SIGMA)
    assert found.names == plain.names
    for name in found.names:
        assert np.allclose(found[name], plain[name], rtol=1e-13, atol=1e-18), name


@compiles
@pytest.mark.exhaustive
def test_a_store_notices_another_engine(tmp_path):
    swept("compiled", names=("P",), store=tmp_path / "s.zarr")
    with pytest.raises(StoreError, match="fixed parameter engine = 'compiled' there, 'blocks' here"):
        swept("blocks", names=("P",), store=tmp_path / "s.zarr")
    identical(swept("compiled", names=("P",), store=tmp_path / "s.zarr"), swept("compiled", names=("P",)))


@pytest.mark.parametrize(
    ("flow", "names", "engine", "words"),
    [
        (ls.TwoLayerOrder, ("P",), "compield", "engine = 'compield' is unknown; did you mean 'compiled'"),
        (ls.TwoLayerOrder, ("P",), 3, "engine = '3' is unknown|engine = 3 is unknown"),
        (ls.TwoLayer, ("loss",), "blocks", "'blocks' cannot evaluate loss of TwoLayer"),
        (ls.TwoLayer, ("loss",), "compiled", "'compiled' cannot evaluate loss of TwoLayer"),
        (ls.WhitenedTwoLayer, ("loss",), "blocks", "cannot evaluate loss of WhitenedTwoLayer"),
    ],
)
def test_engines_are_refused_before_any_work(flow, names, engine, words):
    with pytest.raises(ValueError, match=words):
        ls.ensembles.of(flow, *names, t=1.0, engine=engine)


@pytest.mark.parametrize("flow", [ls.TwoLayerOrder, ls.WhitenedTwoLayer])
def test_a_missing_extra_is_named(flow, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "llvmlite" else real(name, *rest)
    )
    with pytest.raises(ModuleNotFoundError, match=r'needs llvmlite.*pip install "\.\[fast\]"'):
        ls.ensembles.of(flow, "loss", engine="compiled")
    ls.ensembles.of(flow, "loss", engine="plain")


GRID = {"flow": "TwoLayerOrder", "time": 1.0, "start": {"P": 0.1, "R": 0.0}, "parameters": {"y": 1.0},
        "axes": {"gamma": [1.0, 2.0, 3.0], "Q": [0.1, 0.2]}, "observe": ["P", "loss"], "out": "a.npz"}  # fmt: skip


def run(tmp_path, table, *options):
    (tmp_path / "spec.json").write_text(json.dumps(table), encoding="utf-8")
    return main(["sweep", str(tmp_path / "spec.json"), "--out", str(tmp_path / "a.npz"), "--overwrite", *options])


@pytest.mark.exhaustive
def test_the_command_takes_an_engine(tmp_path, capsys):
    found = {}
    for engine in ("plain", "blocks", *(["compiled"] if HAS_LLVMLITE else [])):
        assert run(tmp_path, GRID, "--engine", engine) == 0
        with np.load(tmp_path / "a.npz") as file:
            found[engine] = file["P"]
        assert run(tmp_path, GRID | {"engine": engine}) == 0
        with np.load(tmp_path / "a.npz") as file:
            assert file["P"].tobytes() == found[engine].tobytes()
    assert found["plain"].tobytes() == found["blocks"].tobytes()
    assert all(np.allclose(v, found["plain"], rtol=1e-13, atol=0) for v in found.values())
    capsys.readouterr()


@pytest.mark.parametrize(
    ("changes", "options", "words"),
    [
        ({}, ("--engine", "fast"), "engine = 'fast' is unknown; one of blocks, compiled, plain"),
        ({"engine": 3}, (), "engine = 3 must be a text"),
        (
            {"axes": {}, "start": {}, "ensemble": {"members": 9, "weights": {"width": 5}}},
            ("--engine", "blocks"),
            r"engine = 'blocks' does not go with \[ensemble\]",
        ),
    ],
)
def test_the_command_refuses_engines_in_a_line(changes, options, words, tmp_path, capsys):
    assert run(tmp_path, GRID | changes, *options) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert re.search(words, said), said
    assert [p.name for p in tmp_path.iterdir()] == ["spec.json"]
