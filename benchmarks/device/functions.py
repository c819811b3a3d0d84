"""Elementary functions of a GPU against evaluation to 40 digits, in units of the last place."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np

from benchmarks.device import if_present
from benchmarks.markdown import table
from linsolve.engines import cuda
from linsolve.engines.cuda_source import evaluation
from linsolve.engines.plan import COLUMN
from linsolve.engines.program import Program, Tracer

__all__ = ["STATED", "functions", "rows", "run", "worst"]

COUNT = 4000  # arguments of each function
DPS = 40
# the largest errors, in units of the last place, that the CUDA C++ Programming Guide states for doubles
STATED = {
    "sqrt": 0, "exp": 1, "expm1": 1, "log": 1, "log1p": 1, "sin": 2, "cos": 2, "tan": 2, "asin": 2, "sinh": 2,
    "cosh": 1, "tanh": 1, "hypot": 2, "atan2": 2, "pow": 2,
}  # fmt: skip


def _signed(rng: np.random.Generator, low: float, high: float) -> np.ndarray:
    """Return numbers of both signs, of magnitudes between two powers of ten."""
    return rng.choice([-1.0, 1.0], COUNT) * 10 ** rng.uniform(low, high, COUNT)


def arguments(name: str, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Return arguments of all magnitudes at which a function is neither infinite nor subnormal."""
    if name in ("sqrt", "log"):
        near = 1 + _signed(rng, -12, -0.4)
        return (np.where(rng.random(COUNT) < 0.5, 10 ** rng.uniform(-300, 300, COUNT), near),)
    if name == "log1p":
        return (np.maximum(_signed(rng, -20, 20), rng.uniform(-1, 0, COUNT)),)
    if name == "asin":
        return (np.clip(_signed(rng, -20, 0.3), -1, 1),)
    if name in ("sin", "cos", "tan"):
        return (_signed(rng, -20, 5),)
    if name in ("hypot", "atan2"):
        return _signed(rng, -100, 100), _signed(rng, -100, 100)
    if name == "pow":
        return 10 ** rng.uniform(-10, 10, COUNT), rng.uniform(-30, 30, COUNT)
    return (_signed(rng, -20, 2.84),)  # up to 691, where exponentials are within doubles


def run(xp: Any, program: Program, *inputs: np.ndarray) -> tuple[list[np.ndarray], bool]:
    """Return the outputs of a program of numbers on a device, and whether one of them is not finite."""
    count = len(inputs[0])
    outs, lost = [xp.empty(count) for _ in program.outputs], xp.zeros(1, dtype=xp.int32)
    plan = tuple((name, COLUMN) for name in program.inputs)
    arrays = xp.zeros(1), xp.zeros(1), *map(xp.asarray, inputs)
    arguments = np.int64(count), np.int32(1), *arrays, *outs, lost
    cuda.kernel(xp, evaluation, "follow", program, plan)((-(-count // cuda.THREADS), 1), (cuda.THREADS,), arguments)
    return [out.get() for out in outs], bool(lost[0])


def worst(name: str, found: np.ndarray, inputs: tuple[np.ndarray, ...]) -> float:
    """Return the largest error of a function in units of the last place of the right result."""
    with mpmath.workdps(DPS):
        right = getattr(mpmath, {"pow": "power"}.get(name, name))
        errors = []
        for value, *at in zip(found.tolist(), *(v.tolist() for v in inputs), strict=True):
            exact = right(*map(mpmath.mpf, at))
            errors.append(float(abs(mpmath.mpf(value) - exact) / mpmath.mpf(float(np.spacing(abs(float(exact)))))))
    return float(np.max(errors))  # nan stays nan


def rows(xp: Any) -> list[tuple[str, float, int]]:
    """Return each function with its largest error and its bound, the error that CUDA states."""
    inputs, tracer = arguments("exp", np.random.default_rng(0)), Tracer()
    for name in ("exp", "expm1"):  # of one argument, they are the package's own
        tracer.program.outputs[name] = getattr(tracer, name)(tracer.input("x")).index
    both = zip(("exp", "expm1"), run(xp, tracer.program, *inputs)[0], strict=True)
    found = [(f"{name}, with the other", worst(name, values, inputs), 1) for name, values in both]
    for name, stated in STATED.items():
        inputs = arguments(name, np.random.default_rng(0))
        tracer = Tracer()
        given = [tracer.input(f"x{k}") for k in range(len(inputs))]
        tracer.program.outputs["f"] = getattr(tracer, name)(*given).index
        # half a unit of a correctly rounded result belongs to the error that is stated as 0
        found.append((name, worst(name, run(xp, tracer.program, *inputs)[0][0], inputs), stated))
    return found


def functions() -> str:
    """Return the largest errors of a GPU's elementary functions, or the reason for having none."""
    head = ("function", "largest error, units of the last place", "bound, beyond rounding")
    return if_present(lambda xp: table(head, [(name, f"{off:.2f}", str(stated)) for name, off, stated in rows(xp)]))
