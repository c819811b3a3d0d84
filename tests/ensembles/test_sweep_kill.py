"""Sweeps that are killed: what is marked as finished is there, is never evaluated again, and the bits are the same."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import linsolve as ls

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")

A, B = np.arange(120.0), np.arange(70.0)
BLOCKS = 120  # of 1 x 70 cells

# Forks a process for each sweep, so that twenty of them do not import everything twenty times. Each line of the input
# is a store, the number of the flush to the disk at which the process kills itself, or -1, and the executor: threads,
# processes, loky, or the address of a Dask cluster. It answers with the process, and when that has ended with its
# status. Every third block of x consists of zeros.
ZYGOTE = """
import os, signal, sys, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
import numpy as np, tqdm, zarr
import linsolve as ls
import linsolve.ensembles.sweep_grid

LOG = os.environ["LOG"]  # travels to workers with the function

def observe(a, b, rng):
    handle = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, f"{int(a[0, 0])}\\n".encode())
    os.close(handle)
    time.sleep(0.01)
    x = (a % 3 > 0) * (a + b * rng.standard_normal(b.shape))
    return {"x": np.abs(x), "y": np.stack([a + 0 * b, np.sin(b + a)], axis=-1)}

def workers(kind):
    if kind == "threads":
        return {"threads": 2}
    if kind == "processes":
        return {"executor": ProcessPoolExecutor(2, mp_context=get_context("fork"))}
    if kind == "loky":
        import loky
        return {"executor": loky.ProcessPoolExecutor(2)}
    from distributed import Client
    return {"executor": Client(kind).get_executor()}

def fsync(handle, real=os.fsync):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    real(handle)

for line in sys.stdin:
    store, left, kind = line.rsplit(maxsplit=2)
    left = int(left)
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        if left > 0:
            os.fsync = fsync
        status = 1
        try:
            d = ls.sweep(observe, a=np.arange(120.0), b=np.arange(70.0), rng=7, store=store, **workers(kind))
            status = 0
        finally:
            os._exit(status)
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


class Sweeps:
    """Sweeps in processes of their own."""

    def __init__(self, folder):
        (folder / "zygote.py").write_text(ZYGOTE)
        self.log = folder / "log"
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", folder / "zygote.py"],
            env=os.environ | {"LOG": str(self.log), "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def begin(self, store, kill_at=-1, executor="threads"):
        self.process.stdin.write(f"{store} {kill_at} {executor}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def end(self):
        return int(self.process.stdout.readline())

    def evaluated(self):
        return self.log.read_text().split() if self.log.exists() else []


@pytest.fixture(scope="module")
def zygote(tmp_path_factory):
    found = Sweeps(tmp_path_factory.mktemp("zygote"))
    yield found
    found.process.stdin.close()
    found.process.wait(30)
    found.process.stdout.close()


@pytest.fixture
def sweeps(zygote):
    zygote.log.unlink(missing_ok=True)
    return zygote


def marks(store):
    path = Path(store) / "_sweep" / "finished"
    return path.read_text().split()[::2] if path.exists() else []  # numbers, each followed by its checksum


def content(store):
    """Return every byte that a sweep observed."""
    import zarr

    group = zarr.open_group(store, mode="r")
    return {name: group[name][...].tobytes() for name in ("x", "y")}


@pytest.fixture(scope="module")
def whole(zygote, tmp_path_factory):
    """Return the store of a sweep that nothing interrupted."""
    store = tmp_path_factory.mktemp("whole") / "sweep.zarr"
    zygote.log.unlink(missing_ok=True)
    zygote.begin(store)
    assert zygote.end() == 0
    assert sorted(map(int, zygote.evaluated())) == sorted(map(int, marks(store))) == list(range(BLOCKS))
    return store


@pytest.mark.parametrize("times", [8, pytest.param(20, marks=pytest.mark.exhaustive)])
def test_random_kills(times, whole, sweeps, tmp_path):
    assert killed(whole, sweeps, tmp_path / "sweep.zarr", "threads", times) >= 3 * times // 4


@pytest.mark.exhaustive
@pytest.mark.parametrize("executor", ["threads", "processes", "loky", "dask"])
def test_ten_random_kills_of_each_executor(whole, sweeps, tmp_path, executor, request):
    if executor == "dask":
        executor = request.getfixturevalue("cluster").scheduler.address
    assert killed(whole, sweeps, tmp_path / "sweep.zarr", executor, 10) >= 5


def killed(whole, sweeps, store, executor, kills):
    """Kill a sweep again and again at random moments, finish it, and return the number of kills amid its blocks."""
    rng, within = np.random.default_rng(20), 0
    for _ in range(kills):
        known, before = marks(store), len(sweeps.evaluated())
        process = sweeps.begin(store, executor=executor)
        more, end = int(rng.integers(0, 5)), time.monotonic() + 30
        while len(marks(store)) < len(known) + more and time.monotonic() < end:
            time.sleep(0.001)
        time.sleep(float(rng.uniform(0, 0.012)))
        os.kill(process, signal.SIGKILL)
        assert sweeps.end() == -signal.SIGKILL
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)  # workers that outlive it
        within += 0 < len(marks(store)) < BLOCKS
        assert not set(known) & set(sweeps.evaluated()[before:])  # nothing twice
        assert set(known) <= set(marks(store))
    time.sleep(0.1)  # a worker of a cluster ends its block
    known, before = marks(store), len(sweeps.evaluated())
    sweeps.begin(store)
    assert sweeps.end() == 0
    assert sorted(sweeps.evaluated()[before:], key=int) == [str(k) for k in range(BLOCKS) if str(k) not in known]
    assert content(store) == content(whole)
    return within


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.exhaustive)])
@pytest.mark.exhaustive
def test_killed_at_every_flush_to_the_disk(every, whole, sweeps, tmp_path):
    """Between the data and their mark, between two arrays, while the store is being made: each in turn."""
    store, left = tmp_path / "sweep.zarr", 0
    for flush in range(1, 31, every):
        known, before = marks(store), len(sweeps.evaluated())
        sweeps.begin(store, flush)
        assert sweeps.end() == -signal.SIGKILL
        assert not set(known) & set(sweeps.evaluated()[before:])
        left += len(marks(store)) < len(set(sweeps.evaluated()))
    assert left  # there were deaths between data and mark
    sweeps.begin(store)
    assert sweeps.end() == 0
    assert content(store) == content(whole)


def test_a_mark_that_was_cut_off_is_none(whole, sweeps, tmp_path):
    store = shutil.copytree(whole, tmp_path / "sweep.zarr")
    path = store / "_sweep" / "finished"
    last = marks(store)[-1]
    os.truncate(path, path.stat().st_size - 1)
    shutil.rmtree(store / "x" / "c" / "3")  # and what somebody removed is not there
    sweeps.begin(store)
    assert sweeps.end() == 0
    assert sorted(sweeps.evaluated(), key=int) == sorted({last, "3"}, key=int)
    assert content(store) == content(whole)


def test_two_processes_do_not_share_a_store(sweeps, tmp_path):
    from linsolve.ensembles import StoreError

    store = tmp_path / "sweep.zarr"
    process = sweeps.begin(store)
    while not marks(store):
        time.sleep(0.001)
    os.kill(process, signal.SIGSTOP)
    try:
        with pytest.raises(StoreError, match="is in use by another sweep"):
            ls.sweep(lambda a, b, rng: a * b, a=A, b=B, rng=7, store=store)
    finally:
        os.kill(process, signal.SIGCONT)
    assert sweeps.end() == 0
    assert len(marks(store)) == BLOCKS


@pytest.fixture(scope="module")
def cluster():
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as local,
        Client(local) as client,
    ):
        yield client


@pytest.mark.exhaustive  # a cluster takes seconds to start and stop
def test_a_dask_worker_killed_in_mid_sweep(cluster, tmp_path):
    log, store = str(tmp_path / "log"), tmp_path / "sweep.zarr"

    def observe(a, b, rng):
        handle = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, f"{int(a[0, 0])}\n".encode())
        os.close(handle)
        time.sleep(0.01)
        return a + b * rng.standard_normal(b.shape)

    workers, scheduler, known = list(cluster.run(os.getpid).values()), cluster.cluster.scheduler, []
    assert len(set(workers)) == 2

    def kill():
        while len(marks(store)) < BLOCKS // 4:
            time.sleep(0.001)
        known.extend(marks(store))
        # Dask evaluates again what a worker takes with it, unless it has forgotten it: soon after it was handed over
        held = set(scheduler.tasks)
        while held & set(scheduler.tasks):
            time.sleep(0.001)
        os.kill(workers[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    d = ls.sweep(observe, a=A, b=B, rng=7, store=store, executor=cluster.get_executor())
    killer.join()
    assert BLOCKS // 4 <= len(known) < BLOCKS
    evaluated = Path(log).read_text().split()
    assert sorted(set(evaluated), key=int) == [str(k) for k in range(BLOCKS)]
    assert all(evaluated.count(number) == 1 for number in known)
    assert d["value"].tobytes() == ls.sweep(observe, a=A, b=B, rng=7)["value"].tobytes()


@pytest.mark.exhaustive
def test_the_example_of_a_cluster(tmp_path):
    script = Path(__file__).parents[2] / "notebooks" / "cluster.py"
    store = tmp_path / "sweep.zarr"
    command = [sys.executable, script, "--cells", "40", "--store", store]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    assert "40 x 40" in told.stdout
    assert len(marks(store)) == len(set(marks(store))) > 1
