"""Runs the CUDA source of the package on the host, one thread after another, under a CuPy of NumPy arrays."""

import ctypes
import functools
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from linsolve import arithmetic
from linsolve.engines import cuda
from linsolve.ensembles import cuda_reduce

COMPILER = next((path for name in ("g++", "clang++", "c++") if (path := shutil.which(name))), None)
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler on this computer")

HOST = r"""
#include <math.h>
#include <string.h>
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(threads, blocks)
#define __restrict__
#define __longlong_as_double(bits) as_double(bits)
#define __double_as_longlong(x) as_bits(x)
struct Place { unsigned x, y; };
static Place blockIdx, gridDim, blockDim = {1, 1}, threadIdx = {0, 0};
static inline double as_double(long long bits) { double x; memcpy(&x, &bits, 8); return x; }
static inline long long as_bits(double x) { long long bits; memcpy(&bits, &x, 8); return bits; }
template <class T> static inline void atomicAdd(T* place, T what) { *place += what; }
"""
TYPES = {"whole": ctypes.c_longlong, "int": ctypes.c_int, "double": ctypes.c_double}


@functools.cache
def compiled(source, name, options=("--fmad=false",)):
    """Return the kernel of a source as a function of (grid, arguments)."""
    declared = source.split(f"void {name}(")[1].split(") {")[0].replace("\n", " ").split(",")
    types = [d.replace("const", "").replace("__restrict__", "").rsplit(maxsplit=1)[0].strip() for d in declared]
    calls = ", ".join(f"a{k}" for k in range(len(types)))
    entry = f'extern "C" void run(unsigned nx, unsigned ny, {", ".join(f"{t} a{k}" for k, t in enumerate(types))}) {{\n'
    entry += "  gridDim = {nx, ny};\n  for (blockIdx.y = 0; blockIdx.y < ny; ++blockIdx.y)\n"
    entry += f"    for (blockIdx.x = 0; blockIdx.x < nx; ++blockIdx.x) {name}({calls});\n}}\n"
    # by default CUDA contracts products and sums; so does the host
    fused = ["-O2", "-ffp-contract=fast", *(["-mfma"] if platform.machine() == "x86_64" else [])]
    contraction = ["-O1", "-ffp-contract=off"] if "--fmad=false" in options else fused
    with tempfile.TemporaryDirectory() as folder:
        text, library = Path(folder) / "kernel.cpp", Path(folder) / "kernel.so"
        text.write_text(HOST + source + entry)
        # no function of a constant is computed by the compiler instead of the library
        command = [COMPILER, "-fno-builtin", "-std=c++17", *contraction, "-shared", "-fPIC"]
        done = subprocess.run(
            [*command, str(text), "-o", str(library), "-lm"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SyntaxError(done.stderr[:2000])
        function = ctypes.CDLL(str(library)).run
    function.restype = None
    function.argtypes = [ctypes.c_uint, ctypes.c_uint, *(ctypes.c_void_p if "*" in t else TYPES[t] for t in types)]
    return function


class DeviceArray(np.ndarray):
    """An array of the simulated device; it comes to the host by `get`."""

    def get(self):
        return np.array(self)


DeviceArray.__module__ = "cupy"  # what the package looks at


class RawKernel:
    """Compiles on the first launch, as CuPy's."""

    def __init__(self, code, name, options=()):
        self.code, self.name, self.options = code, name, options

    def __call__(self, grid, block, arguments):
        plain = []
        for a in arguments:
            if isinstance(a, np.ndarray):
                assert isinstance(a, DeviceArray), "an array of the host was given to a kernel"
                assert a.flags.c_contiguous
                plain.append(a.ctypes.data)
            else:
                plain.append(a.item())
        # threads are numbered through, so that each is a block of its own
        compiled(self.code, self.name, self.options)(grid[0] * block[0], grid[1], *plain)


class Generator:
    """Random numbers of NumPy as arrays of the device; like CuPy's it takes no arrays of the host."""

    def __init__(self, bits):
        self.rng = np.random.Generator(bits)

    def __getattr__(self, name):
        def drawn(*args):
            assert not any(type(a) is np.ndarray for a in args), "an array of the host was given to the generator"
            return np.asarray(getattr(self.rng, name)(*args)).view(DeviceArray)

        return drawn


Generator.__module__ = "cupy.random"


class OutOfMemoryError(MemoryError):
    """As CuPy's."""


class FakeCupy:
    """CuPy as the package uses it, on NumPy arrays; memory for more than `limit` numbers at once is refused."""

    ndarray, float64, int32, uint64 = DeviceArray, np.float64, np.int32, np.uint64

    def __init__(self, limit=None):
        self.limit = limit
        self.RawKernel = RawKernel
        runtime = SimpleNamespace(
            getDeviceCount=lambda: 1,
            getDeviceProperties=lambda k: {"name": b"no device"},
            runtimeGetVersion=lambda: 0,
            driverGetVersion=lambda: 0,
        )
        null = SimpleNamespace(synchronize=lambda: None)
        memory = SimpleNamespace(OutOfMemoryError=OutOfMemoryError)
        self.cuda = SimpleNamespace(runtime=runtime, memory=memory, Stream=SimpleNamespace(null=null))
        self.random = SimpleNamespace(Generator=Generator, Philox4x3210=np.random.Philox)

    def _made(self, value):
        if self.limit is not None and value.size > self.limit:
            raise OutOfMemoryError(f"{value.size} numbers")
        return value.view(DeviceArray)

    def __getattr__(self, name):
        function = getattr(np, name)

        def made(*args, **kwargs):
            value = function(*args, **kwargs)
            return self._made(value) if isinstance(value, np.ndarray) else value

        return made if callable(function) and not isinstance(function, type) else function


def simulated(monkeypatch):
    """Put a simulated device in the place of CuPy, and return it."""
    fake = FakeCupy()
    for module in (cuda, cuda_reduce):
        monkeypatch.setattr(module, "device", lambda: fake)
    monkeypatch.setattr(arithmetic, "_cupy", lambda: fake)
    return fake
