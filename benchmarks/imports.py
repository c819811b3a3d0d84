"""Import time of the package relative to that of NumPy, interleaved in one run."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

HEAVY = ("sympy", "scipy.integrate", "matplotlib.pyplot", "mpmath", "sklearn")


def seconds(statement: str) -> float:
    """Return the wall time of a fresh interpreter that runs one statement; it keeps bytecode, as by default."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True, env=own)
    return time.perf_counter() - start


def ratio(repeats: int = 15) -> dict[str, float]:
    """Return median seconds over the bare interpreter for NumPy and for linsolve, and their ratio."""
    statements = {"bare": "pass", "numpy": "import numpy", "linsolve": "import linsolve"}
    found: dict[str, list[float]] = {name: [] for name in statements}
    for _ in range(repeats):
        for name, statement in statements.items():
            found[name].append(seconds(statement))
    median = {name: statistics.median(values) for name, values in found.items()}
    numpy, linsolve = median["numpy"] - median["bare"], median["linsolve"] - median["bare"]
    return {"numpy": numpy, "linsolve": linsolve, "ratio": linsolve / numpy}


def heavy() -> list[str]:
    """Return the heavy modules that `import linsolve` loads; the expected result is empty."""
    code = f"import sys, linsolve; print([m for m in {HEAVY!r} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    return [name.strip("' ") for name in out.strip()[1:-1].split(",") if name.strip()]
