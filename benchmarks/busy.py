"""Processes that keep every core of the computer busy, for timings beside other work."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

__all__ = ["busy"]

# half of the time on arithmetic in cache, half on reading memory; ends with the process that started it
WORK = """
import os
import numpy as np
small, large, parent = np.ones((64, 64)), np.ones(2**23), os.getppid()
while os.getppid() == parent:
    for _ in range(100):
        small @ small
    large.sum()
"""


@contextmanager
def busy() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Keep one process for each core at work inside the block; yield them."""
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with ExitStack() as stack:
        started = []
        for _ in range(os.cpu_count() or 1):
            started.append(stack.enter_context(subprocess.Popen([sys.executable, "-c", WORK], env=alone)))
            stack.callback(started[-1].kill)
        yield started
