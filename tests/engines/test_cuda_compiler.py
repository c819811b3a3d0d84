"""Resources of the printed kernels on an H100, from the report of NVIDIA's compiler; no GPU is needed."""

import shutil

import pytest
from selection import quick

from benchmarks.device.compiler import KERNELS, resources, source_of
from linsolve.engines.cuda_source import OPTIONS, evaluation
from linsolve.engines.plan import COLUMN, plan_for
from linsolve.engines.program import Tracer

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no CUDA compiler on this computer")
# registers that leave an eighth to three quarters of the threads of a multiprocessor resident, without spills: no array
# of a thread lies in memory, and each input, time, output and step of the host is in one place of the code
REGISTERS = dict(zip(KERNELS, (40, 128, 128, 184, 128), strict=True))
PLACES = dict(zip(KERNELS, ((3, 2), None, (24, 4), None, (87, 2)), strict=True))


@needs_nvcc
@pytest.mark.parametrize("name", quick(list(KERNELS), 2))
@pytest.mark.quick(1)
def test_kernels_stay_in_registers(name):
    found = resources(source_of(name)[0])
    assert 0 < found.registers <= REGISTERS[name]
    assert found.stack == found.spilled == 0
    assert PLACES[name] in (None, (found.loads, found.stores))


@needs_nvcc
@pytest.mark.exhaustive
def test_products_and_sums_are_contracted_only_without_the_option():
    tracer = Tracer()
    x, y, z = (tracer.input(name) for name in "xyz")
    tracer.program.outputs["f"] = (x * y + z).index
    source = evaluation(plan_for(tracer.program, tuple((name, COLUMN) for name in "xyz")))
    assert resources(source).fused == 0
    assert resources(source, tuple(option for option in OPTIONS if "fmad" not in option)).fused == 1
