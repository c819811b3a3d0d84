"""Sweeps on disk: blocks are written as they finish, each marked only once it is there for good."""

from __future__ import annotations

import errno
import json
import os
import shutil
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from linsolve.ensembles.axes import Axis, Block, Grid
from linsolve.ensembles.blocks import same

__all__ = ["Store", "StoreError", "stored_seed"]

RECORD = "_sweep"  # the group of a store that says what made it, and in its folder the marks and the lock
KEY = "sweep"
VALUES = "values"  # attribute that names what was observed, set once the arrays are there


_DAMAGE = (OSError, KeyError, ValueError, TypeError)  # of JSON, Unicode, zarr and what has been put into them


class StoreError(RuntimeError):
    """A store belongs to another sweep, is in use, or cannot be read or written; the message says which."""


def _unreadable(path: Path, error: Exception) -> StoreError:
    return StoreError(f"sweep: store = {path} cannot be read: {error}; choose another path, or remove it")


def _zarr() -> Any:
    try:
        import zarr
    except ImportError as error:
        raise ImportError("sweep: zarr is missing (store); pip install 'linsolve-dynamics[store]'") from error
    return zarr


def stored_seed(path: Path) -> np.random.SeedSequence | None:
    """Return the seed of the sweep in a store, if there is one."""
    entropy, found, key = (_read(path) or {}).get("seed", "none").partition(" at ")
    try:
        return np.random.SeedSequence(json.loads(entropy), spawn_key=json.loads(key)) if found else None
    except _DAMAGE as error:
        raise _unreadable(path, error) from error


def _read(path: Path) -> dict[str, str] | None:
    """Return the record of a store; None where there is none yet.

    Raises
    ------
    StoreError
        If something else is there.
    """
    zarr = _zarr()
    try:
        if not path.exists() or (path.is_dir() and not any(path.iterdir())):
            return None
        if path.is_dir() and (path / RECORD / "zarr.json").exists():
            return dict(zarr.open_group(path, path=RECORD, mode="r").attrs[KEY])  # type: ignore[arg-type]
    except _DAMAGE as error:
        raise _unreadable(path, error) from error
    raise StoreError(f"sweep: store = {path} is there but is no store of a sweep; choose another path, or remove it")


class Store:
    """The blocks of a sweep in a zarr group, by one writer.

    The files of a block are flushed to the disk before its number is appended to the list of finished blocks, which is
    flushed then: whenever a process dies, what is marked is there. A last line that was cut off is no mark.

    Parameters
    ----------
    path : Path
    axes : sequence of Axis
    grid : Grid
    record : dict of str
        What must agree with a sweep that is there already.
    """

    def __init__(self, path: Path, axes: Sequence[Axis], grid: Grid, record: Mapping[str, str]) -> None:
        self.path, self.axes, self.grid, self.record = path, tuple(axes), grid, dict(record)
        self.arrays: dict[str, Any] = {}
        self.finished: set[int] = set()
        self.folders: set[Path] = set()

    @contextmanager
    def open(self) -> Iterator[Store]:
        """Make or find the store, and keep others from writing to it.

        Raises
        ------
        StoreError
            If it belongs to another sweep, is in use, or cannot be written.
        """
        with ExitStack() as stack:
            with self._explained():
                if _read(self.path) is None:
                    self._make()
                stack.enter_context(_locked(self.path / RECORD / "lock", self.path))
                self._compare()
                try:
                    self.finished = self._marks()
                except (KeyError, ValueError, TypeError) as error:
                    raise _unreadable(self.path, error) from error
            yield self

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(
                f"sweep: store = {self.path} cannot be written: {error.strerror or error}; {len(self.finished)} of "
                f"{len(self.grid)} blocks are finished and kept; make room or choose another path, then call again"
            ) from error

    def _make(self) -> None:
        """Make the store under another name and move it in place, so that it is there as a whole or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_name(f".{self.path.name}.{uuid.uuid4().hex}")
        try:
            self._draft(draft)
            os.rename(draft, self.path)  # onto nothing or an empty folder
        except OSError:
            shutil.rmtree(draft, ignore_errors=True)
            if _read(self.path) is None:  # unless another process was faster: then theirs is compared
                raise
        _flush(self.path.parent)

    def _draft(self, draft: Path) -> None:
        zarr = _zarr()
        group = zarr.create_group(draft, attributes={"title": self.record["function"]})
        for axis in self.axes:
            about = {"long_name": axis.meaning or axis.label, "symbol": axis.label}
            group.create_array(axis.name, data=axis.values, dimension_names=[axis.name], attributes=about)
        group.create_group(RECORD, attributes={KEY: self.record})
        (draft / RECORD / "finished").touch()
        for each in [*draft.rglob("*"), draft]:
            _flush(each)

    def _compare(self) -> None:
        known = _read(self.path) or {}
        for name in dict.fromkeys([*self.record, *known]):
            if known.get(name) != self.record.get(name):
                raise StoreError(
                    f"sweep: store = {self.path} was made by another sweep: {name} = {known.get(name, 'none')} there, "
                    f"{self.record.get(name, 'none')} here; choose another path, or remove it"
                )

    def _marks(self) -> set[int]:
        """Return the finished blocks, and open the arrays if there are any."""
        marks = self.path / RECORD / "finished"
        text = marks.read_text(encoding="ascii")
        if text and not text.endswith("\n"):  # a process died in the middle of a line
            text = text[: text.rfind("\n") + 1]
            os.truncate(marks, len(text))
        zarr = _zarr()
        names = zarr.open_group(self.path, mode="r").attrs.get(VALUES, [])
        try:
            for name in names:
                self.arrays[name] = zarr.open_array(
                    self.path, path=name, mode="r+", config={"write_empty_chunks": True}
                )
        except FileNotFoundError:  # removed by hand
            self.arrays = {}
        numbers = {int(line) for line in text.split()} if self.arrays else set()
        return {k for k in numbers if all(p.exists() for p in self._files(k))}

    def write(self, block: Block, values: Mapping[str, np.ndarray], meanings: Mapping[str, str]) -> None:
        """Write a block and mark it as finished."""
        with self._explained():
            if not self.arrays:
                self._allocate(values, meanings)
            ndim = len(self.axes)
            same({name: (array.dtype, array.shape[ndim:]) for name, array in self.arrays.items()}, values, ndim)
            for name, value in values.items():
                self.arrays[name][block.where] = value
            self._flush_block(block.number)
            with open(self.path / RECORD / "finished", "a", encoding="ascii") as marks:
                marks.write(f"{block.number}\n")
                marks.flush()
                os.fsync(marks.fileno())
        self.finished.add(block.number)

    def _allocate(self, values: Mapping[str, np.ndarray], meanings: Mapping[str, str]) -> None:
        """Make the arrays; those of a sweep that died before its first mark are made anew."""
        zarr, ndim, made = _zarr(), len(self.axes), {}
        for name, value in values.items():
            own = value.shape[ndim:]
            made[name] = zarr.create_array(
                self.path,
                name=name,
                shape=self.grid.shape + own,
                chunks=self.grid.block + tuple(max(n, 1) for n in own),
                dtype=value.dtype,
                dimension_names=[axis.name for axis in self.axes] + [f"{name}_axis{k}" for k in range(len(own))],
                attributes={"long_name": meanings.get(name, name)},
                config={"write_empty_chunks": True},
                overwrite=True,
            )
            _flush(self.path / name / "zarr.json")
        zarr.open_group(self.path, mode="r+").attrs[VALUES] = list(made)
        for each in [self.path / "zarr.json", self.path]:
            _flush(each)
        self.arrays = made

    def _flush_block(self, index: int) -> None:
        """Return once the files of a block, their names, and those of new folders above them are on the disk."""
        for file in self._files(index):
            _flush(file)
            folder = file.parent
            _flush(folder)
            while folder not in self.folders and folder != self.path:
                self.folders.add(folder)
                folder = folder.parent
                _flush(folder)

    def _files(self, index: int) -> list[Path]:
        """Return the files of a block."""
        place = np.unravel_index(index, self.grid.counts)
        files = []
        for name, array in self.arrays.items():
            coordinates = (*map(int, place), *(0,) * (array.ndim - len(place)))
            files.append(self.path / name / array.metadata.encode_chunk_key(coordinates))
        return files


class Stored(Mapping):
    """The values of a store, read each time that they are asked for."""

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self.path, self.names = path, tuple(names)

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.names:
            raise KeyError(name)
        return np.asarray(_zarr().open_array(self.path, path=name, mode="r")[...])

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def _flush(path: Path) -> None:
    """Return once a file's content, or a folder's list of names, is on the disk."""
    if os.name == "nt" and path.is_dir():  # Windows has no such thing
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


_held: set[Path] = set()
_guard = threading.Lock()


@contextmanager
def _locked(path: Path, store: Path) -> Iterator[None]:
    """Hold a lock that ends with this process, however it ends, and that no process started by it inherits."""
    key, refusal = path.resolve(), f"sweep: store = {store} is in use by another sweep; wait for it"
    with _guard:  # such locks are of processes: another thread is not kept out by them, and ends them
        if key in _held:
            raise StoreError(refusal)
        _held.add(key)
    try:
        with open(path, "a") as file:
            try:
                _lock(file)
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EAGAIN):
                    raise
                raise StoreError(refusal) from error
            yield
    finally:
        with _guard:
            _held.discard(key)


def _lock(file: Any) -> None:
    if os.name == "nt":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    else:
        import fcntl

        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
