"""`python -m benchmarks.device` at a tiny scale, on the processor and on a simulated GPU."""

import json

import array_api_strict as strict
import numpy as np
import pytest
from host_cuda import FakeCupy, needs_compiler

import linsolve as ls
from benchmarks.device import bench as device_bench
from benchmarks.device import machine as device_machine
from benchmarks.device import workloads as device_workloads
from benchmarks.device.__main__ import main
from benchmarks.device.bench import Report, Row, bench, inserted
from benchmarks.device.machine import Following, Machine
from benchmarks.device.ready import BATCHED, ready
from benchmarks.device.workloads import WORKLOADS
from linsolve import arithmetic
from linsolve.engines import cuda

TINY = 2e-7


@pytest.fixture(autouse=True)
def no_compiler(monkeypatch):
    # the processor's side takes NumPy alone, whether the compiled extra is installed or not
    for module in (device_bench, device_machine, device_workloads):
        monkeypatch.setattr(module, "engine", lambda: "blocks")
    monkeypatch.setattr(device_workloads, "FEW", (1, 2))  # matrices to fifty digits take seconds


@pytest.fixture
def gpu(monkeypatch):
    fake = FakeCupy()
    monkeypatch.setattr(cuda, "device", lambda: fake)
    monkeypatch.setattr(arithmetic, "_cupy", lambda: fake)
    return fake


def test_every_workload_runs_on_the_processor(tmp_path, capsys):
    page, out = tmp_path / "page.md", tmp_path / "found.json"
    page.write_text("before\n<!-- device: begin -->\nold\n<!-- device: end -->\nafter\n")
    assert main(["--cpu", "--scale", str(TINY), "--out", str(out), "--write", str(page)]) == 0
    printed = capsys.readouterr().out
    found = json.loads(out.read_text())
    assert [row["name"] for row in found["rows"]] == list(WORKLOADS)
    assert found["scale"] == TINY
    assert found["copy"] > 0
    for row in found["rows"]:
        assert row["speedup"] is None
        assert row["error"] is None or row["error"] < 2e-13
    assert "old" not in page.read_text()
    assert page.read_text().startswith("before\n<!-- device: begin -->\n")
    for line in page.read_text().split("\n")[2:-3]:
        assert line in printed


@pytest.mark.exhaustive
@needs_compiler
def test_every_workload_runs_on_a_device(gpu):
    report = bench(True, TINY)
    assert [row.name for row in report.rows] == list(WORKLOADS)
    assert "no device" in report.machine
    for row in report.rows:
        assert row.speedup is not None
        assert row.speedup > 0
        assert (row.bandwidth is None) == (row.name == "W8")
        if row.ulp is not None:
            assert row.error < 2e-13
            assert row.ulp_median <= 1
    table = report.markdown().split("\n")
    assert len(table) == 2 + 2 + len(WORKLOADS)
    assert len({line.count("|") for line in table[2:]}) == 1


@pytest.mark.exhaustive
@needs_compiler
def test_a_wrong_kernel_shows_in_the_table(gpu, monkeypatch):
    import linsolve.engines.cuda_source as module

    monkeypatch.setitem(module._FORM, "where", "{1}")
    cuda.known_program.cache_clear()
    (row,) = bench(True, TINY, ["W4"]).rows
    assert not row.error < 1e-3


@needs_compiler
def test_blocks_shrink_while_the_benchmark_runs(gpu):
    gpu.limit, machine = 64 * 2000, Machine(gpu)
    modes = device_workloads._modes(machine, 5000)
    following = Following(machine, ls.BalancedMode, ("a",), modes, device_workloads.TIMES)
    assert device_workloads._all(machine, following, 5000, 4000) > 0
    assert gpu.refused >= 1


def test_a_sample_is_members_with_what_was_found():
    machine = Machine(np)
    found = device_workloads.phase_diagram(machine, 1e-6)
    sample = found.sample
    np.testing.assert_array_equal(sample.flow(sample.t, sample.start)["ntk"], sample.found["ntk"])
    assert len(np.unique(sample.flow.gamma)) > 3
    assert found.outputs == 20**2


def test_a_sample_of_matrices_is_followed_again(monkeypatch):
    monkeypatch.setattr(device_workloads, "FEW", (2, 3))
    found = device_workloads.matrix_flows(Machine(np), 1e-4)
    sample = found.sample
    assert found.outputs == 10 * 64 * 300
    assert sample.flow.target.shape == (2, 10, 10)
    assert sample.t.shape == (3,)
    assert min(sample.t) > 0
    again = sample.flow(sample.t, sample.start)
    for name, value in sample.found.items():
        np.testing.assert_allclose(value, again[name], rtol=0, atol=1e-14)
    z = sample.start
    np.testing.assert_allclose(z.product.mT @ z.product, z.gram_in @ z.gram_in, atol=1e-15)  # balanced
    assert np.abs(z.product - z.product.mT).max() > 0.01  # and not symmetric


def test_an_error_of_matrices_shows_in_the_table(monkeypatch):
    import linsolve.systems.whitened.matrix_riccati as module

    real = module.flow_map
    monkeypatch.setattr(module, "flow_map", lambda *args, **options: [(1 + 1e-9) * v for v in real(*args, **options)])
    (row,) = bench(False, TINY, ["W5"]).rows
    assert 5e-10 < row.error < 2e-9


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
    flow, z0 = device_workloads._matrices(np.random.default_rng(0), 5)
    own = flow.cast(strict), flow.State(*map(strict.asarray, z0))
    late = device_workloads.MATRIX_TIMES[::9], np.array([np.inf])
    for t in late:
        found = own[0](strict.asarray(t), own[1]).state
        for ours, right in zip(found, flow(t, z0).state, strict=True):
            assert type(ours) is array
            np.testing.assert_allclose(to_numpy(ours), right, rtol=0, atol=1e-13)
    monkeypatch.setattr("linsolve.systems.whitened.matrix_riccati.RELIABLE", 0)  # by Cholesky steps from time to time
    found = own[0](strict.asarray(late[0]), own[1]).state
    for ours, right in zip(found, flow(late[0], z0).state, strict=True):
        np.testing.assert_allclose(to_numpy(ours), right, rtol=0, atol=1e-13)


def test_every_flow_asks_for_nothing_that_cupy_lacks(capsys):
    assert main(["--ready"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(ls.flows.ALL)
    for flow, line in zip(ls.flows.ALL, lines, strict=True):
        found = ready(flow)
        assert line.split()[0] == flow.__name__
        assert set(found.linalg) <= set(BATCHED)
        assert "no batched" not in line
    assert [flow for flow in ls.flows.ALL if ready(flow).fused] == [ls.BalancedMode, ls.DeepMode, ls.TwoLayerOrder]
    assert "svd" in ready(ls.WhitenedTwoLayer).linalg


def test_what_is_done_for_every_time_is_told_from_what_a_start_needs():
    """Neither rotations nor eigenvectors at every time, which a device does slowly."""
    assert ready(ls.WhitenedTwoLayer).moving == ("cholesky", "diagonal", "inv")
    assert "(at every time cholesky, diagonal, inv)" in str(ready(ls.WhitenedTwoLayer))
    assert ready(ls.FrozenKernel).moving == ()
    assert str(ready(ls.FrozenKernel)) == "array functions and eigh"


def test_linear_algebra_that_cupy_lacks_is_seen():
    class Wrong(ls.BalancedMode):
        def loss(self, xp, z):
            return xp.linalg.matrix_exp(z.a) if hasattr(np.linalg, "matrix_exp") else xp.linalg.norm(z.a)

    assert "CuPy has no batched" in str(ready(Wrong)._replace(fused=False))


def test_without_a_device_the_extra_is_named(capsys, monkeypatch):
    def none():
        raise ImportError('cuda: CuPy is missing; pip install ".[cuda12]" or ".[cuda13]"')

    monkeypatch.setattr(cuda, "device", none)
    assert main(["--gpu"]) == 2
    assert "[cuda12]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "one of the arguments --ready --gpu --cpu is required"),
        (["--gpu", "--cpu"], "not allowed with"),
        (["--gpu", "--ready"], "not allowed with"),
        (["--ready", "W1", "--out", "x.json"], "bench: names = ['W1'] does not go with --ready"),
        (["--ready", "--out", "x.json"], "bench: out = x.json does not go with --ready"),
        (["--ready", "--scale", "0.5"], "bench: scale = 0.5 does not go with --ready"),
        (["--ready", "--write", "x.md"], "bench: write = x.md does not go with --ready"),
        (["--cpu", "--scale", "0"], "bench: scale = 0.0 must lie in"),
        (["--cpu", "--scale", "2"], "bench: scale = 2.0 must lie in"),
        (["--cpu", "--scale", "nan"], "bench: scale = nan must lie in"),
        (["--cpu", "W9"], "bench: workload = 'W9' is unknown"),
        (["--cpu", "--out", "found.txt"], "bench: out = found.txt must end in .json"),
        (["--cpu", "--write", "README.md"], "has 0 places for the table but must have one"),
        (["--cpu", "--write", "none.md"], "none.md"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_any_work(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "README.md").write_text("no place\n")
    monkeypatch.setattr(device_bench, "copy_bandwidth", None)
    assert main([*arguments]) == 2
    assert message in capsys.readouterr().err
    assert (tmp_path / "README.md").read_text() == "no place\n"


def test_a_table_goes_between_its_markers_once():
    page = "a\n<!-- device: begin -->\nx\n<!-- device: end -->\nb\n"
    assert inserted(page, r"\1 |", "page") == "a\n<!-- device: begin -->\n\\1 |\n<!-- device: end -->\nb\n"
    with pytest.raises(ValueError, match="page has 2 places"):
        inserted(page + page, "table", "page")


def test_a_row_without_samples_has_dashes():
    row = Row("W8", "title", 0.5, 10, None, 3.0, None, None, None, "")
    line = Report("a machine", 1e12, 1.0, (row,)).markdown().split("\n")[-1]
    assert line == "| W8 | title | 0.5 s | 20 | - | 3x | - | - |"
    assert "Sizes" not in Report("a machine", 1e12, 1.0, (row,)).markdown()
