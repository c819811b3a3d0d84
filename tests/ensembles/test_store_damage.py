"""Damage of stores: every flipped bit, cut file and missing file is found and named, and zeros are kept."""

import json
import os
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

import linsolve as ls
from linsolve.ensembles import BlockError, StoreError

A, B = np.linspace(0.1, 2.0, 6), np.linspace(1.0, 2.0, 8)


def observe(a, b):
    return {"x": a * b, "sign": a > 1, "pair": np.stack(np.broadcast_arrays(a, b), axis=-1)}


def sweep(store):
    return ls.sweep(observe, a=A, b=B, store=store, block=8)


def bytes_of(diagram):
    return {name: value.tobytes() for name, value in diagram.values.items()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    store = tmp_path_factory.mktemp("damage") / "whole.zarr"
    return store, bytes_of(sweep(store))


def files(store, chunks):
    """Return the files of values, or all others but the lock, in order."""
    found = [p for p in sorted(store.rglob("*")) if p.is_file() and p.name != "lock"]
    values = tuple(str(store / name / "c") for name in ("x", "sign", "pair"))
    return [p for p in found if str(p).startswith(values) == chunks]


def flip(path, bit):
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


@pytest.mark.parametrize("flips", [60, pytest.param(100, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("chunks", [True, False], ids=["chunks", "metadata"])
def test_single_flipped_bits_are_found_and_named(whole, chunks, flips):
    store, expected = whole
    rng, diagram, named = np.random.default_rng(flips), sweep(store), 0
    for _ in range(flips):
        known = files(store, chunks)
        path = known[rng.integers(len(known))]
        before = path.read_bytes()
        flip(path, int(rng.integers(8 * len(before))))
        try:
            with pytest.raises(StoreError) as caught:
                bytes_of(diagram if chunks else sweep(store))
            message = str(caught.value)
            assert str(store) in message
            if chunks:
                name = path.relative_to(store).parts[0]
                assert f"{name} of block " in message
                assert str(path) in message
                assert "a = " in message
            else:
                assert f"cannot be read: {path.relative_to(store).as_posix()} " in message
            named += 1
        except pytest.fail.Exception:
            # the end of the last line of marks is that of a write that was cut off: its block is evaluated again
            assert path.name == "finished"
            assert bytes_of(sweep(store)) == expected
        path.write_bytes(before)
    assert named >= 0.9 * flips
    assert bytes_of(sweep(store)) == expected


@pytest.mark.parametrize("left", [0, 1, 10, -1])
def test_a_chunk_that_was_cut_off_is_named_and_evaluated_anew_once_removed(whole, tmp_path, left):
    store = shutil.copytree(whole[0], tmp_path / "s.zarr")
    path = files(store, True)[2]
    size = path.stat().st_size
    os.truncate(path, left % size)
    with pytest.raises(StoreError, match=r"is damaged: pair of block 2, a = .* cannot be read .*; remove .* again"):
        bytes_of(sweep(store))
    path.unlink()
    assert bytes_of(sweep(store)) == whole[1]


def test_a_missing_chunk_is_not_read_as_zeros(whole, tmp_path):
    store = shutil.copytree(whole[0], tmp_path / "s.zarr")
    diagram = sweep(store)
    files(store, True)[0].unlink()
    with pytest.raises(StoreError, match=r"pair of block 0, .*the file is missing"):
        diagram["pair"]
    assert bytes_of(sweep(store)) == whole[1]
    shutil.rmtree(store)
    with pytest.raises(StoreError, match=r"s.zarr cannot be read: it is gone"):
        diagram["pair"]


@pytest.mark.parametrize("text", [b"null", b"[]", b"{}", b"", b"1", b'"a"', b"\xff\xfe"])
@pytest.mark.parametrize("file", ["zarr.json", "_sweep/zarr.json", "x/zarr.json", "a/zarr.json", "_sweep/manifest"])
def test_metadata_of_another_kind_is_refused_by_name(whole, tmp_path, file, text):
    store = shutil.copytree(whole[0], tmp_path / "s.zarr")
    (store / file).write_bytes(text)
    with pytest.raises(StoreError, match=rf"s.zarr cannot be read: {file} fails its checksum; choose another path"):
        sweep(store)


def test_a_mark_of_no_block_is_refused(whole, tmp_path):
    store = shutil.copytree(whole[0], tmp_path / "s.zarr")
    with open(store / "_sweep" / "finished", "ab") as marks:
        marks.write(b"999 %08x\n" % zlib.crc32(b"999"))
    with pytest.raises(StoreError, match=r"_sweep/finished has the line b'999 "):
        sweep(store)


# zeros


ZEROS = []


def zeros(k):
    if ZEROS and k[0] == ZEROS[0]:
        raise RuntimeError("stopped")
    return {"zero": np.zeros(k.shape), "no": k < 0, "ramp": np.where(k < 4, 0.0, k)}


@pytest.mark.parametrize("at", [0, 1, 5])
@pytest.mark.quick(1)
def test_sweeps_with_blocks_of_zeros_are_resumed_from_any_block(tmp_path, at):
    ZEROS[:] = [at]
    with pytest.raises(BlockError, match="stopped"):
        ls.sweep(zeros, k=np.arange(6), store=tmp_path / "s.zarr", block=1, threads=1)
    ZEROS.clear()
    d = ls.sweep(zeros, k=np.arange(6), store=tmp_path / "s.zarr", block=1, threads=1)
    assert d["zero"].tolist() == [0.0] * 6
    assert d["no"].tolist() == [False] * 6
    assert d["ramp"].tolist() == [0, 0, 0, 0, 4, 5]
    assert len((tmp_path / "s.zarr" / "_sweep" / "finished").read_text().split()) == 12


def test_a_loss_that_vanishes_is_stored_and_resumed(tmp_path):
    loss = ls.ensembles.of(ls.BalancedMode, "loss", t=np.inf, start=0.1)
    for _ in range(2):
        d = ls.sweep(loss, s=np.linspace(1, 2, 50), store=tmp_path / "s.zarr", block=10)
        assert d["loss"].tolist() == [0.0] * 50
        (tmp_path / "s.zarr" / "loss" / "c" / "1").unlink()


# names and sizes


@pytest.mark.parametrize(
    "name", ["a\\b\0", "a\0", "a/b", "a\\b", "zarr.json", "ZARR.json", "", ".x", "_x", "a\n", "c:d"]
)
def test_names_that_no_store_can_hold_are_refused_with_a_store_or_without(tmp_path, name):
    for store in (None, tmp_path / "s.zarr"):
        with pytest.raises(BlockError, match=r"observe gave .* cannot name an array of a store .*rename it"):
            ls.sweep(lambda k: {name: k}, k=[1.0, 2.0], store=store)
        with pytest.raises(ValueError, match=r"axis = .* must be printable"):
            ls.sweep(lambda **given: given[name], store=store, **{name: [1.0, 2.0]})


def test_grids_and_ensembles_beyond_memory_or_time_are_refused_with_their_size(tmp_path):
    def never(**given):
        raise AssertionError

    axis = np.broadcast_to(0.0, 1)
    big = {name: np.resize(axis, 31623) for name in "ab"}
    with pytest.raises(ValueError, match=r"31623 x 31623 = 1e\+09 cells, .* 7.45 GiB .* store='sweep.zarr'"):
        ls.sweep(never, **big)
    many = {name: np.resize(axis, 10**4) for name in "abc"}
    with pytest.raises(ValueError, match=r"= 1e\+12 cells, which take 11.6 days .* fewer cells"):
        ls.sweep(never, store=tmp_path / "s.zarr", **many)
    assert not (tmp_path / "s.zarr").exists()
    networks = ls.ensembles.random_networks(10)
    for members, t, days in ((10**18, 0.0, "1.16e+6"), (10**12, [0.0, 1.0], "2.31")):
        with pytest.raises(ValueError, match=rf"ensemble: members = .* take {days.replace('+', '.')} days .* million"):
            ls.ensemble(networks, members, t)


# locking


HOLDER = """
import sys, time
import linsolve as ls

def observe(a):
    print("held", flush=True)
    time.sleep(60)
    return a

ls.sweep(observe, a=[1.0], store=sys.argv[1], threads=1)
"""


@pytest.mark.parametrize("ending", ["kill", "wait"])
@pytest.mark.quick(1)
def test_a_lock_of_another_process_is_refused_and_ends_with_it(tmp_path, ending):
    (tmp_path / "holder.py").write_text(HOLDER)
    command = [sys.executable, str(tmp_path / "holder.py"), str(tmp_path / "s.zarr")]
    where = {**os.environ, "PYTHONPATH": str(Path(ls.__file__).parents[1])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=where) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StoreError, match="is in use by another sweep; wait for it"):
            ls.sweep(observe, a=A, b=B, store=tmp_path / "s.zarr")
        holder.kill() if ending == "kill" else holder.terminate()
    with pytest.raises(StoreError, match="was made by another sweep"):  # the lock is gone, the record is not
        ls.sweep(observe, a=A, b=B, store=tmp_path / "s.zarr")


def test_the_manifest_names_every_file_of_metadata(whole):
    store, _ = whole
    text = (store / "_sweep" / "manifest").read_bytes().partition(b"\n")[2]
    listed = {store / name for name in json.loads(text)["files"]}
    rest = {store / "_sweep" / "manifest", store / "_sweep" / "finished"}
    assert listed | rest == set(files(store, False))
