"""Quick tests in forks of this process: which lines each executes, and whether chosen ones pass."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Covered", "Outcome", "run", "warm_up"]

LIBRARIES = ("numpy", "scipy.integrate", "scipy.linalg", "scipy.optimize", "scipy.special", "mpmath", "sympy", "pytest")
LIBRARIES += ("hypothesis", "matplotlib.pyplot", "pandas", "xarray", "zarr", "sklearn", "coverage")
QUIET = ["-n0", "-q", "-p", "no:cacheprovider", "--assert=plain"]
LEFT_OUT = ("tests/core/test_wrong_formulas.py", "tests/core/test_mutants.py")  # minutes of proofs
MEMORY, SLACK, SLOWER = 8 * 2**30, 20.0, 10.0  # bytes; seconds and factor by which a test may be slower


class Outcome(NamedTuple):
    """Whether tests pass, and the first that fails or takes too long."""

    passed: bool
    test: str | None = None


def warm_up() -> None:
    """Import the libraries of the tests, but not linsolve, before forks."""
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg", "PYTHONDONTWRITEBYTECODE": "1"}
    for library in LIBRARIES:
        importlib.import_module(library)


@contextmanager
def _silence() -> Iterator[None]:
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    yield


def _forked(root: Path, work: Callable[[], Any]) -> int:
    """Return the exit code of `work`, run in a fork in the folder `root`."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with _silence():
                os.chdir(root)
                os.environ["PYTHONPATH"] = str(root)
                sys.path.insert(0, str(root))
                status = int(work())
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class _Recorder:
    """Plugin that attributes executed lines to tests and times them."""

    def __init__(self, measured: Any) -> None:
        self.measured, self.seconds = measured, dict[str, float]()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.measured.switch_context(nodeid)
        self.began = time.process_time()

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" and report.passed:
            self.seconds[report.nodeid] = time.process_time() - self.began


def _cover_file(root: Path, file: Path, data: Path) -> None:
    """Run the tests of one file and keep the lines and the seconds of each that passes."""
    import coverage
    import pytest

    def work() -> int:
        measured = coverage.Coverage(str(data), source=[str(root / "linsolve")], config_file=False)
        measured.set_option("run:relative_files", True)  # the copy has another path in another run
        recorder = _Recorder(measured)
        measured.start()
        pytest.main([*QUIET, str(file)], plugins=[recorder])
        measured.stop()
        measured.save()
        data.with_suffix(".json").write_text(json.dumps(recorder.seconds))
        return 0

    if _forked(root, work):
        raise SystemExit(f"mutation: {file} could not be run; run it with pytest -n0")


class Covered:
    """Lines that each quick test executes and its processor time, by folder of tests; `place` keeps them."""

    def __init__(self, root: Path, place: Path) -> None:
        import coverage

        self.root, self.place, self.seconds = root, place, dict[str, float]()
        self.held, self.folders = coverage.CoverageData(no_disk=True), set[str]()

    def add(self, folder: str) -> None:
        """Run the tests of a folder, except files that are the same as when they were run before."""
        import coverage

        if folder in self.folders:
            return
        self.folders.add(folder)
        for file in sorted(path.relative_to(self.root) for path in (self.root / folder).glob("**/test_*.py")):
            if str(file) in LEFT_OUT:
                continue
            mark = hashlib.sha256((self.root / file).read_bytes()).hexdigest()[:12]
            data = self.place / f"{'-'.join(file.with_suffix('').parts)}-{mark}.coverage"
            if not data.with_suffix(".json").exists():
                _cover_file(self.root, file, data)
            each = coverage.CoverageData(str(data))
            each.read()
            self.held.update(each)
            self.seconds |= json.loads(data.with_suffix(".json").read_text())

    def tests(self, path: str) -> dict[int, set[str]]:
        """Return the tests that execute each line of a module."""
        found = self.held.contexts_by_lineno(path)
        return {line: {name for name in names if name in self.seconds} for line, names in found.items()}


class _Chosen:
    """Plugin that runs chosen tests in their order, limits the time of each and notes the first that fails."""

    def __init__(self, names: Sequence[str], seconds: dict[str, float], note: Path) -> None:
        self.order, self.seconds, self.note = {name: k for k, name in enumerate(names)}, seconds, note

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = sorted((i for i in items if i.nodeid in self.order), key=lambda i: self.order[i.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.note.write_text(nodeid)
        most = int(time.process_time() + SLACK + SLOWER * self.seconds[nodeid])
        resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))
        signal.alarm(600)  # a wait that does not end


def run(names: Collection[str], seconds: dict[str, float], root: Path) -> Outcome:
    """Return whether tests pass in a copy of the repository at `root`, run in their order up to the first failure."""
    import pytest

    if not names:
        return Outcome(True)
    note = root / "running-test"
    note.write_text("collection")
    files = list(dict.fromkeys(name.split("::")[0] for name in names))

    def work() -> int:
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        return int(pytest.main([*QUIET, "-x", *files], plugins=[_Chosen(list(names), seconds, note)]))

    passed = _forked(root, work) == 0
    return Outcome(passed, None if passed else note.read_text())
