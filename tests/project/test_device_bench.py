"""The table of ensembles on a GPU, at a tiny scale on a simulated one; nothing timed is judged."""

import math

import numpy as np
import pytest
from host_cuda import needs_compiler, simulated
from selection import quick

import linsolve as ls
from benchmarks import __main__ as command
from benchmarks.device import arrays, compiler, functions, table
from benchmarks.device.runge_kutta import runge_kutta
from linsolve.core.query import pose
from linsolve.engines import cuda, cuda_statements

needs_jax = pytest.mark.skipif(table.importlib.util.find_spec("jax") is None, reason="could not import 'jax'")
TINY = {title: 1e-6 if "streamed" in title else 1e-4 for title in table.WORKLOADS}


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setattr(table, "ROUNDS", 1)
    monkeypatch.setattr(table, "ENGINE", "blocks")
    return simulated(monkeypatch)


@needs_compiler
@needs_jax
@pytest.mark.parametrize(
    "title", quick(list(table.WORKLOADS), lambda t: t.startswith("W1: balanced") or t.endswith("streamed"))
)
@pytest.mark.quick(1)
def test_every_workload_is_evaluated_on_the_device_by_jax_and_by_the_processor(title, gpu):
    found = {row[1]: row for row in table.rows(gpu, title, TINY[title], 1e9)}
    first = next(iter(found))
    assert first == ("array functions" if title.startswith("W5") else "kernel")
    others = set() if title.endswith("streamed") or title.startswith("W4") else {"JAX"}
    assert set(found) - {"Runge-Kutta 4"} == {first, "processor"} | others
    for who, (_, _, each, _, share, error) in found.items():
        assert float(each.removesuffix(" ps")) > 0
        assert bool(share) == (table.WORKLOADS[title].is_written and who != "processor")
        assert bool(error) == table.WORKLOADS[title].is_written
        if error:
            assert float(error) <= (1e-6 if who.startswith("Runge") else 2e-13)


@needs_compiler
def test_a_wrong_kernel_shows_in_the_table(gpu, monkeypatch):
    monkeypatch.setitem(cuda_statements._INFIX, "add", "+ 1e-9 *")
    monkeypatch.setattr(table, "in_jax", lambda *args: [])
    kernel, processor, _ = table.rows(gpu, next(iter(TINY)), 1e-6, 1e9)
    assert not float(kernel[5]) <= 1e-3
    assert float(processor[5]) <= 1e-15


@needs_compiler
@pytest.mark.parametrize("cls", [ls.BalancedMode, ls.TwoLayerOrder])
def test_runge_kutta_is_of_order_four(cls, gpu):
    flow, z0 = cls.example(np.random.default_rng(0))
    start = type(z0)(*(np.broadcast_to(v, (3,)) for v in z0))
    t = np.array([0.0, 0.2, 0.5])
    exact, errors = flow(t, start), []
    for steps in (40, 80):
        found = runge_kutta(gpu, pose(flow, t, start), steps)()
        errors.append(max(np.abs(found[name] - exact[name]).max() for name in z0._fields))
    assert 14 <= errors[0] / errors[1] <= 18


@needs_compiler
def test_functions_of_a_device_are_compared_with_more_digits(gpu, monkeypatch):
    monkeypatch.setattr(functions, "COUNT", 40)
    monkeypatch.setattr(functions, "STATED", {"exp": 1, "hypot": 2, "sqrt": 0})
    for name, error, stated in functions.rows(gpu):
        assert 0 < error <= stated + 0.5, name
    monkeypatch.setitem(cuda_statements._CALL, "sqrt", "1.0000000000000007 * sqrt")
    cuda.kernel.cache_clear()
    assert functions.rows(gpu)[-1][1] > 0.5
    cuda.kernel.cache_clear()


@pytest.mark.parametrize("who", [pytest.param("JAX", marks=needs_jax), "CuPy"])
def test_flows_on_a_device_are_compared_with_numpy(who, gpu, monkeypatch):
    ((name, off),) = arrays.rows(who, [ls.BalancedMode])
    assert (name, off <= 1e-15) == ("BalancedMode", True)
    monkeypatch.setitem(arrays.WAYS, who, lambda flow, z0: {"a": flow(arrays.TIMES, z0)["a"] * 1.001})
    assert arrays.rows(who, [ls.BalancedMode])[0][1] > 1e-4


@needs_compiler
def test_the_table_names_the_device(gpu, monkeypatch):
    monkeypatch.setattr(table, "WORKLOADS", {"streamed": table.WORKLOADS["networks of width 10^6, 8 times, streamed"]})
    lines = table.device(1e-6).split("\n")
    assert lines[0].startswith("no device, CUDA 0, driver 0; a copy reads and writes ")
    assert lines[2].count("|") == lines[-1].count("|") == 7


def test_without_a_device_the_table_is_one_line_and_replaces_nothing(tmp_path, capsys, monkeypatch):
    def none():
        raise ImportError('cuda: CuPy is missing; pip install ".[cuda12]" or ".[cuda13]"')

    monkeypatch.setattr(cuda, "device", none)
    page = tmp_path / "page.md"
    page.write_text("<!-- device: begin -->\nfigures of another machine\n<!-- device: end -->\n")
    monkeypatch.setattr("sys.argv", ["benchmarks", "device", "--write", str(page)])
    command.main()
    assert "\nNot measured: cuda: CuPy is missing" in capsys.readouterr().out
    assert "figures of another machine" in page.read_text()


def test_without_a_compiler_its_report_is_one_line(monkeypatch):
    monkeypatch.setattr(compiler.shutil, "which", lambda name: None)
    assert compiler.kernels() == (
        "Not measured: device: nvcc = none is on the path (compiler of CUDA); install the CUDA toolkit"
    )


@pytest.mark.parametrize("title", list(table.WORKLOADS))
def test_every_workload_has_problems_of_any_size(title):
    given = table.WORKLOADS[title].problem(7)
    if not title.endswith("streamed"):
        assert given.batch == (7,)
        own = sum(math.prod(v.shape[1:]) for v in given.z0)
        assert table.WORKLOADS[title].each == given.t.size * (3 if title.startswith("W3") else own)
