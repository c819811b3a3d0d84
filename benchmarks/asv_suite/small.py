"""Small calls of public names, in processor time: their history is kept, see ``python -m benchmarks history``."""

import subprocess
import sys
import time

import numpy as np

import linsolve as ls


class _Small:
    """A call of milliseconds, timed in processor time: other processes on the computer count little."""

    timer = time.process_time
    rounds, repeat, warmup_time = 4, (3, 20, 2.0), 0.05
    timeout = 120


class Flow(_Small):
    """One network of a flow at 100 times, with its loss."""

    params = (
        "BalancedMode",
        "DeepMode",
        "TwoLayer",
        "WhitenedTwoLayer",
        "FrozenKernel",
        "BlockKernel",
        "NeuralCollapse",
    )
    param_names = ("flow",)

    def setup(self, name):
        self.flow, self.z0 = getattr(ls, name).example(np.random.default_rng(0))
        self.t = np.linspace(0.01, 1.0, 100)
        self.time_trajectory(name)

    def time_trajectory(self, name):
        return self.flow(self.t, self.z0)["loss"]


class Ensemble(_Small):
    """30,000 modes at 16 times, on one thread."""

    params = ("blocks", "compiled")
    param_names = ("engine",)

    def setup(self, engine):
        rng = np.random.default_rng(0)
        self.flow, self.a0 = ls.BalancedMode(s=rng.uniform(0.5, 3.0, 30_000)), 10 ** rng.uniform(-4, -2, 30_000)
        self.t = np.linspace(0.0, 10.0, 16)
        self.time_modes(engine)

    def time_modes(self, engine):
        return self.flow(self.t, self.a0, engine=engine, threads=1)["a"]


class Network(_Small):
    """A network of three layers on 50 samples: its training by `solve`, and the answer of `applies`."""

    def setup(self):
        rng = np.random.default_rng(0)
        self.data = rng.normal(size=(50, 4)), rng.normal(size=(50, 2))
        self.weights = [rng.normal(size=shape) / 2 for shape in ((5, 4), (5, 5), (2, 5))]
        self.t = np.linspace(0.0, 2.0, 20)

    def time_solve(self):
        return ls.solve(self.weights, self.data, self.t)["loss"]

    def time_applies(self):
        return ls.applies(self.weights, self.data)


def track_import_time():
    """Return the processor time of ``import linsolve`` in a new process, the least of five, in seconds."""
    code = "import time; a = time.process_time(); import linsolve; print(time.process_time() - a)"
    return min(
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout) for _ in range(5)
    )


track_import_time.unit = "seconds"
