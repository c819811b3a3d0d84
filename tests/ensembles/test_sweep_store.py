"""Stores of sweeps: what is in them, what they refuse, and that they keep what finished."""

import functools
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import linsolve as ls
from linsolve.ensembles import BlockError, StoreError

A, B = np.linspace(0.1, 2.0, 23), np.geomspace(1e-3, 10.0, 31)
CALLS = []


def observe(a, b, power=2):
    CALLS.append(1)
    return {"x": a * b**power, "pair": np.stack(np.broadcast_arrays(a, b), axis=-1), "sign": np.sign(a - b) > 0}


def noisy(a, b, rng):
    CALLS.append(1)
    return a * b + rng.standard_normal(np.broadcast_shapes(a.shape, b.shape))


def other(a, b, power=2):
    return {"x": a + b}


def bytes_of(diagram):
    return {name: (value.dtype, value.shape, value.tobytes()) for name, value in diagram.values.items()}


def test_a_store_gives_what_memory_gives_and_is_evaluated_once(tmp_path):
    plain = ls.sweep(observe, a=A, b=B)
    d = ls.sweep(observe, a=A, b=B, store=tmp_path / "deep" / "s.zarr")
    assert bytes_of(d) == bytes_of(plain)
    assert d.names == ["x", "pair", "sign"]
    CALLS.clear()
    assert bytes_of(ls.sweep(observe, a=A, b=B, store=tmp_path / "deep" / "s.zarr")) == bytes_of(plain)
    assert not CALLS
    assert d.to_xarray().equals(plain.to_xarray())
    assert os.listdir(tmp_path / "deep") == ["s.zarr"]


def test_a_store_opens_in_xarray_with_its_axes(tmp_path):
    import xarray

    observed = ls.ensembles.of(ls.BalancedMode, "loss", start=0.01)
    d = ls.sweep(observed, s=A, t=[0.0, 1.0], store=tmp_path / "s.zarr")
    with xarray.open_zarr(tmp_path / "s.zarr", consolidated=False, chunks=None) as data:
        assert data["loss"].dims == ("s", "t")
        assert np.array_equal(data["loss"], d["loss"])
        assert np.array_equal(data["s"], A)
        assert "singular value" in data["s"].attrs["long_name"]


def test_zeros_nans_and_minus_zeros_come_back_as_they_were(tmp_path):
    odd = np.array([0.0, -0.0, np.nan, -np.nan, np.inf, 5e-324])
    d = ls.sweep(lambda k: odd[k], k=np.arange(6), store=tmp_path / "s.zarr", block=1)
    assert d["value"].tobytes() == odd.tobytes()
    CALLS.clear()
    zeros = ls.sweep(lambda k: CALLS.append(1) or np.zeros_like(k), k=np.arange(6), store=tmp_path / "z.zarr", block=1)
    assert zeros["value"].tolist() == [0] * 6
    assert len(CALLS) == 6


@pytest.mark.parametrize(
    ("difference", "function", "axes", "options"),
    [
        ("axis a = 23 values", observe, {"a": A[:-1], "b": B}, {}),
        ("axis b = 31 values", observe, {"a": A, "b": np.nextafter(B, 20)}, {}),
        ("axes = a, b there, b, a here", observe, {"b": B, "a": A}, {}),
        ("fixed parameter power = 2 there, 3", functools.partial(observe, power=3), {"a": A, "b": B}, {}),
        ("function = observe there, other here", other, {"a": A, "b": B}, {}),
        ("cells of a block", observe, {"a": A, "b": B}, {"block": 200}),
        ("function = observe there, noisy here", noisy, {"a": A, "b": B}, {"rng": 3}),
    ],
)
@pytest.mark.quick(2)
def test_the_store_of_another_sweep_is_refused_with_the_difference(difference, function, axes, options, tmp_path):
    store = tmp_path / "s.zarr"
    before = bytes_of(ls.sweep(observe, a=A, b=B, store=store, block=300))
    CALLS.clear()
    with pytest.raises(StoreError, match=f"was made by another sweep: {difference}"):
        ls.sweep(function, store=store, **axes, **({"block": 300} | options))
    assert not CALLS
    assert bytes_of(ls.sweep(observe, a=A, b=B, store=store, block=300)) == before
    assert not CALLS


def test_another_seed_source_or_version_is_refused(tmp_path, monkeypatch):
    store = tmp_path / "s.zarr"
    first = ls.sweep(noisy, a=A, b=B, rng=3, store=store)
    with pytest.raises(StoreError, match=r"seed = 3 at \[\] there, 4 at \[\] here"):
        ls.sweep(noisy, a=A, b=B, rng=4, store=store)
    with pytest.raises(StoreError, match="seed = 3"):
        ls.sweep(noisy, a=A, b=B, rng=np.random.SeedSequence(3).spawn(1)[0], store=store)
    assert bytes_of(ls.sweep(noisy, a=A, b=B, store=store)) == bytes_of(first)  # any seed: that of the store
    version = ls.__version__
    with monkeypatch.context() as patch:
        patch.setattr("linsolve.ensembles.record.VERSION", "9.9")
        with pytest.raises(StoreError, match=rf"linsolve = {version} there, 9\.9 here"):
            ls.sweep(noisy, a=A, b=B, rng=3, store=store)

    def rewritten(a, b, rng):
        return a - b + rng.standard_normal(np.broadcast_shapes(a.shape, b.shape))

    rewritten.__qualname__ = "noisy"
    with pytest.raises(StoreError, match="source of the function = sha256 "):
        ls.sweep(rewritten, a=A, b=B, rng=3, store=store)


@pytest.mark.parametrize("seed", [None, 5, np.random.SeedSequence([1, 2]), np.random.SeedSequence(5, spawn_key=(1, 2))])
def test_a_sweep_without_a_seed_keeps_that_of_its_store(seed, tmp_path):
    first = ls.sweep(noisy, a=A, b=B, rng=seed, store=tmp_path / "s.zarr", block=300)
    os.truncate(tmp_path / "s.zarr" / "_sweep" / "finished", 0)
    again = ls.sweep(noisy, a=A, b=B, store=tmp_path / "s.zarr", block=300)
    assert bytes_of(first) == bytes_of(again)


def test_what_a_closure_or_a_flow_holds_tells_sweeps_apart(tmp_path):
    def make(scale):
        return lambda a: scale * a

    ls.sweep(make(1.0), a=A, store=tmp_path / "s.zarr")
    with pytest.raises(StoreError, match=r"fixed parameter scale = 1.0 there, 2.0 here"):
        ls.sweep(make(2.0), a=A, store=tmp_path / "s.zarr")
    kernel = np.eye(2)
    fixed = {"y": [1.0, 2.0], "t": 1.0, "start": [0.0, 0.0]}
    ls.sweep(ls.ensembles.of(ls.FrozenKernel, "loss", kernel=kernel, **fixed), eta=A, store=tmp_path / "t.zarr")
    with pytest.raises(StoreError, match=r"fixed parameter fixed = .*'kernel': array \(2, 2\)"):
        ls.sweep(ls.ensembles.of(ls.FrozenKernel, "loss", kernel=2 * kernel, **fixed), eta=A, store=tmp_path / "t.zarr")


BROKEN = []


def fragile(a, b):
    CALLS.append((float(a[0, 0]), float(b[0, 0])))
    if BROKEN and a[0, 0] == BROKEN[0]:
        raise ValueError("not yet")
    return a * b


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.quick(1)
def test_a_failure_keeps_what_finished(threads, tmp_path):
    CALLS.clear()
    BROKEN[:] = [A[11]]
    with pytest.raises(BlockError, match="not yet"):
        ls.sweep(fragile, a=A, b=B, store=tmp_path / "s.zarr", threads=threads)
    BROKEN.clear()
    finished = {call for call in CALLS if call[0] != A[11]}
    assert len(finished) >= 11
    before = len(CALLS)
    d = ls.sweep(fragile, a=A, b=B, store=tmp_path / "s.zarr", threads=threads)
    assert not finished & set(CALLS[before:])
    assert np.array_equal(d["value"], A[:, None] * B)


@pytest.mark.parametrize("kind", ["file", "folder", "zarr"])
def test_what_is_no_store_is_left_alone(kind, tmp_path):
    import zarr

    path = tmp_path / "mine"
    if kind == "file":
        path.write_text("precious")
    elif kind == "folder":
        path.mkdir()
        (path / "notes").write_text("precious")
    else:
        zarr.create_array(path, shape=(2,), dtype="f8")
    before = sorted((p, p.is_file() and p.read_bytes()) for p in [path, *path.rglob("*")])
    with pytest.raises(StoreError, match="is no store of a sweep; choose another path"):
        ls.sweep(observe, a=A, b=B, store=path)
    assert sorted((p, p.is_file() and p.read_bytes()) for p in [path, *path.rglob("*")]) == before


def test_an_empty_folder_becomes_a_store(tmp_path):
    d = ls.sweep(observe, a=A, b=B, store=tmp_path)
    assert d["x"].shape == (23, 31)


@pytest.mark.skipif(os.name == "nt", reason="links need rights")
def test_a_link_to_a_folder_stays_and_one_to_nothing_is_refused(tmp_path):
    (tmp_path / "disk" / "folder").mkdir(parents=True)
    (tmp_path / "link").symlink_to(os.path.join("disk", "folder"))
    for _ in range(2):
        assert np.array_equal(ls.sweep(other, a=A, b=B, store=tmp_path / "link")["x"], A[:, None] + B)
    assert (tmp_path / "link").is_symlink()
    assert os.listdir(tmp_path / "disk") == ["folder"]
    assert (tmp_path / "disk" / "folder" / "x").is_dir()
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(StoreError, match="dangling is a link to nowhere, which does not exist; create this folder, or"):
        ls.sweep(other, a=A, b=B, store=tmp_path / "dangling")
    assert sorted(os.listdir(tmp_path)) == ["dangling", "disk", "link"]


def test_a_path_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    CALLS.clear()
    with pytest.raises(StoreError, match=r"store = .*s.zarr cannot be (written|read): .*(Not a directory|exists)"):
        ls.sweep(observe, a=A, b=B, store=tmp_path / "file" / "s.zarr")
    assert not CALLS


FULL = """
import resource, sys
import numpy as np
import linsolve as ls

room = [20]

def observe(a):
    if room == [a[0]]:  # a limit on the size of files stands for a disk that is full
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
    return a * 2

def sweep():
    return ls.sweep(observe, a=np.arange(40), block=1, store=sys.argv[1], threads=1)

try:
    sweep()
except ls.ensembles.StoreError as error:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(error)
room.clear()
print(sweep()["value"].tolist())
"""


@pytest.mark.skipif(os.name == "nt", reason="there are no limits on files")
def test_a_full_disk_keeps_what_finished(tmp_path):
    (tmp_path / "full.py").write_text(FULL)
    command = [sys.executable, tmp_path / "full.py", tmp_path / "s.zarr"]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout.splitlines()
    assert "cannot be written: File too large; 20 of 40 blocks are finished and kept; make room" in told[0]
    assert told[1] == str(list(range(0, 80, 2)))
    assert (tmp_path / "s.zarr" / "_sweep" / "finished").read_text().split()[::2] == [str(k) for k in range(40)]


INSIDE, GO = threading.Event(), threading.Event()


def test_two_threads_do_not_share_a_store(tmp_path):
    def slow(a):
        INSIDE.set()
        GO.wait(10)
        return a

    first = threading.Thread(target=lambda: ls.sweep(slow, a=A, store=tmp_path / "s.zarr", threads=2))
    first.start()
    INSIDE.wait(10)
    try:
        for _ in range(2):  # the refusal does not end the lock
            with pytest.raises(StoreError, match="is in use by another sweep"):
                ls.sweep(slow, a=A, store=tmp_path / "s.zarr")
    finally:
        GO.set()
        first.join()
    assert np.array_equal(ls.sweep(slow, a=A, store=tmp_path / "s.zarr")["value"], A)


FORKED = """
import os, signal, sys, threading, warnings
import linsolve as ls
from linsolve.ensembles import store

warnings.simplefilter("ignore")  # newer versions of Python warn of a fork beside threads
held, done = threading.Event(), threading.Event()

def hold():
    with store._guard:
        store._held.add((store.Path(sys.argv[1]) / "_sweep" / "lock").resolve())
        held.set()
        done.wait(60)

threading.Thread(target=hold).start()
held.wait(60)
child = os.fork()
if not child:
    signal.alarm(20)
    found = ls.sweep(lambda a: 2 * a, a=[1.0, 2.0], store=sys.argv[1], threads=1)["value"].tolist()
    os._exit(0 if found == [2.0, 4.0] else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
done.set()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_does_not_wait_for_the_threads_of_its_parent(tmp_path):
    command = [sys.executable, "-c", FORKED, str(tmp_path / "s")]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    assert told.stdout == "0\n", told.stderr


def test_a_type_that_changes_is_refused(tmp_path):
    with pytest.raises((BlockError, ValueError), match=r"but of .* before"):
        ls.sweep(lambda a: a if a[0] < 1 else a.astype(int), a=A, block=1, store=tmp_path / "s.zarr", threads=1)


def test_functions_of_one_line_are_told_apart(tmp_path):
    once, twice = lambda a: a, lambda a: 2 * a
    assert np.array_equal(ls.sweep(once, a=A, store=tmp_path / "s")["value"], A)
    assert np.array_equal(ls.sweep(once, a=A, store=tmp_path / "s")["value"], A)
    with pytest.raises(StoreError, match="source of the function"):
        ls.sweep(twice, a=A, store=tmp_path / "s")


class Scaled:
    """A function with slots in place of a dictionary."""

    __slots__ = ("factor",)

    def __init__(self, factor):
        self.factor = factor

    def __call__(self, a):
        return self.factor * a


def test_objects_with_slots_are_told_apart(tmp_path):
    assert np.array_equal(ls.sweep(Scaled(2.0), a=A, store=tmp_path / "s")["value"], 2 * A)
    assert np.array_equal(ls.sweep(Scaled(2.0), a=A, store=tmp_path / "s")["value"], 2 * A)
    with pytest.raises(StoreError, match=r"2.0.* there, .*3.0.* here"):
        ls.sweep(Scaled(3.0), a=A, store=tmp_path / "s")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("_sweep/finished", b"abc\n"),
        ("_sweep/finished", b"999\n"),
        ("_sweep/finished", b"\xff\n"),
        ("_sweep/zarr.json", b""),
        ("_sweep/zarr.json", b"[]"),
        ("x/zarr.json", b"{}"),
        ("zarr.json", b""),
    ],
)
@pytest.mark.quick(3)
def test_a_damaged_store_is_refused_and_kept(tmp_path, file, text):
    ls.sweep(other, a=A, b=B, store=tmp_path / "s")
    (tmp_path / "s" / file).write_bytes(text)
    with pytest.raises(StoreError, match=r"s cannot be read: .*; choose another path, or remove it"):
        ls.sweep(other, a=A, b=B, store=tmp_path / "s")
    assert (tmp_path / "s" / file).read_bytes() == text


def test_a_damaged_seed_is_refused(tmp_path):
    ls.sweep(noisy, a=A, b=B, store=tmp_path / "s", rng=7)
    record = tmp_path / "s" / "_sweep" / "zarr.json"
    record.write_text(record.read_text().replace("7 at []", "seven at []"))
    with pytest.raises(StoreError, match="cannot be read"):
        ls.sweep(noisy, a=A, b=B, store=tmp_path / "s")
