"""Other tools on the same problems, each library in a separate process, timed in turn with ours.

A worker imports its library and answers one request per line. ``["run", k]`` runs its k-th computation once and returns
the seconds; the first run is a warm-up and includes compilation. ``["error", k]`` returns the error of the last result.
A library that cannot be imported is reported as absent, with the reason.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from typing import Any

from benchmarks.timing import Watch, Way

__all__ = ["LIBRARIES", "NOT_MEASURED", "Worker"]

LIBRARIES = {
    "scipy": "benchmarks.peers_scipy",
    "diffrax": "benchmarks.peers_diffrax",
    "heyoka": "benchmarks.peers_heyoka",
    "jax": "benchmarks.peers_jax",
}
NOT_MEASURED = {
    "torchdiffeq, torch loop": "the Linux wheels of torch on the package index need CUDA; no CPU build is available",
    "neural-tangents": "0.6.5 does not import with jax 0.10, which has no jax.core.Jaxpr",
}


def serve(library: str, small: bool) -> None:
    """Answer requests on standard input until it is closed."""
    answers = sys.stdout
    sys.stdout = sys.stderr  # output of the library is kept apart from the answers
    try:
        ways: list[Way] = importlib.import_module(LIBRARIES[library]).ways(small)
    except ImportError as error:
        print(json.dumps({"absent": str(error)}), file=answers, flush=True)
        return
    watches = [Watch(way) for way in ways]
    print(json.dumps({"ways": [(w.workload, w.who, w.remark) for w in ways]}), file=answers, flush=True)
    for line in sys.stdin:
        action, k = json.loads(line)
        print(json.dumps(watches[k]() if action == "run" else watches[k].error()), file=answers, flush=True)


class Worker:
    """A library in a separate process.

    Attribute `ways` has workload, label and remark of each computation; `absent` is the reason if there are none.

    Parameters
    ----------
    library : str
        A key of `LIBRARIES`.
    small : bool
        Tiny workloads, for tests.
    """

    def __init__(self, library: str, small: bool = False) -> None:
        command = [sys.executable, "-m", "benchmarks.peers", library, *(["small"] if small else [])]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        first = self._answer() or {"absent": "its process ended"}
        self.absent: str | None = first.get("absent")
        self.ways: list[tuple[str, str, str]] = [tuple(way) for way in first.get("ways", [])]

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def _ask(self, action: str, k: int) -> float:
        assert self.process.stdin is not None
        print(json.dumps([action, k]), file=self.process.stdin, flush=True)
        answer = self._answer()
        if answer is None:
            raise RuntimeError(
                f"benchmarks: the process of {self.ways[k][1]!r} ended; run its module directly to see the error"
            )
        return float(answer)

    def run(self, k: int) -> float:
        """Return the seconds of the k-th computation, scaled to the whole workload."""
        return self._ask("run", k)

    def error(self, k: int) -> float:
        """Return the error of its last result."""
        return self._ask("error", k)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


if __name__ == "__main__":
    serve(sys.argv[1], "small" in sys.argv[2:])
