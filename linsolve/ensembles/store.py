"""Sweeps on disk: a zarr group with checksums, written block by block, consistent after a crash at any time."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import threading
import uuid
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from linsolve.ensembles.axes import Axis, Block, Grid
from linsolve.ensembles.blocks import same
from linsolve.ensembles.record import RECORD, REMEDY, Manifest, StoreError, flush, unreadable, zarr_module

__all__ = ["Store", "StoreError", "Stored"]

MARKS = f"{RECORD}/finished"


def _every_chunk() -> Any:
    """Return a context in which opened arrays also write chunks of zeros."""
    return zarr_module().config.set({"array.write_empty_chunks": True})


class Store:
    """Blocks of a sweep in a zarr group with a single writer.

    The files of a block are flushed to disk before its number is appended to the list of finished blocks, which is
    flushed afterwards. A marked block is therefore complete even if the process dies; a truncated last line is not a
    mark. Chunks carry a CRC-32C, marks a CRC-32, all other files a SHA-256 in the manifest.

    Parameters
    ----------
    path : Path
    axes : sequence of Axis
    grid : Grid
    record : dict of str
        Record of the sweep; it must agree with that of an existing store.
    """

    def __init__(self, path: Path, axes: Sequence[Axis], grid: Grid, record: Mapping[str, str]) -> None:
        self.path, self.axes, self.grid = path, tuple(axes), grid
        self.manifest = Manifest(record)
        self.arrays: dict[str, Any] = {}
        self.finished: set[int] = set()
        self.folders: set[Path] = set()

    @contextmanager
    def open(self) -> Iterator[Store]:
        """Create or open the store, and lock it against other writers.

        Raises
        ------
        StoreError
            If the store belongs to another sweep, is in use, is damaged, or cannot be written.
        """
        with ExitStack() as stack:
            with self._explained():
                if Manifest.read(self.path) is None:
                    self._make()
                stack.enter_context(_locked(self.path / RECORD / "lock", self.path))
                self._compare()
                self.finished = self._marks()
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
        """Create the store under a temporary name and rename it, so that it appears atomically."""
        if self.path.is_symlink() and not self.path.exists():
            raise StoreError(
                f"sweep: store = {self.path} is a link to {os.readlink(self.path)}, which does not exist; create this "
                "folder, or remove the link"
            )
        place = self.path.resolve()  # a link to an empty folder is kept
        place.parent.mkdir(parents=True, exist_ok=True)
        draft = place.with_name(f".{place.name}.{uuid.uuid4().hex}")
        try:
            self._draft(draft)
            os.rename(draft, place)  # the target is absent or an empty folder
        except OSError:
            shutil.rmtree(draft, ignore_errors=True)
            if Manifest.read(self.path) is None:  # if another process was faster, its record is compared
                raise
        flush(place.parent)

    def _draft(self, draft: Path) -> None:
        record = self.manifest.record
        with _every_chunk():
            group = zarr_module().create_group(draft, attributes={"title": record["function"]})
            for axis in self.axes:
                about = {"long_name": axis.meaning or axis.label, "symbol": axis.label}
                names = {"dimension_names": [axis.name], "attributes": about}
                group.create_array(axis.name, data=axis.values, **names)
            group.create_group(RECORD, attributes={"sweep": record})
        self.manifest.add(draft, [file for file in draft.rglob("*") if file.is_file()])
        self.manifest.write(draft)
        (draft / MARKS).touch()
        for each in [*draft.rglob("*"), draft]:
            flush(each)

    def _compare(self) -> None:
        """Raise if the store is damaged or belongs to another sweep."""
        known = Manifest.read(self.path) or Manifest({})
        here, there = self.manifest.record, known.record
        for name in dict.fromkeys([*here, *there]):
            if there.get(name) != here.get(name):
                raise StoreError(
                    f"sweep: store = {self.path} was made by another sweep: {name} = {there.get(name, 'none')} there, "
                    f"{here.get(name, 'none')} here; {REMEDY}"
                )
        known.check(self.path)
        self.manifest = known

    def _marks(self) -> set[int]:
        """Return the finished blocks, and open the arrays if there are any."""
        marks = self.path / MARKS
        text = marks.read_bytes()
        if text and not text.endswith(b"\n"):  # a process died while writing a line
            text = text[: text.rfind(b"\n") + 1]
            os.truncate(marks, len(text))
        with _every_chunk():
            for name in self.manifest.values:
                self.arrays[name] = zarr_module().open_array(self.path, path=name, mode="r+")
        numbers = set()
        for line in text.splitlines():
            number = line.partition(b" ")[0]
            if line != _mark(number) or not int(number) < len(self.grid):
                raise unreadable(self.path, f"{MARKS} has the line {line!r:.60}, which fails its checksum")
            numbers.add(int(number))
        return {k for k in numbers if self.arrays and all(p.exists() for p in self._files(k))}

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
            with open(self.path / MARKS, "ab") as marks:
                marks.write(_mark(str(block.number).encode()) + b"\n")
                marks.flush()
                os.fsync(marks.fileno())
        self.finished.add(block.number)

    def _allocate(self, values: Mapping[str, np.ndarray], meanings: Mapping[str, str]) -> None:
        """Create the arrays, replacing those of a sweep that died before they were in the manifest."""
        zarr, ndim, made = zarr_module(), len(self.axes), {}
        from zarr.codecs import Crc32cCodec, ZstdCodec

        with _every_chunk():
            for name, value in values.items():
                own = value.shape[ndim:]
                made[name] = zarr.create_array(
                    self.path,
                    name=name,
                    shape=self.grid.shape + own,
                    chunks=self.grid.block + tuple(max(n, 1) for n in own),
                    dtype=value.dtype,
                    compressors=[ZstdCodec(level=0), Crc32cCodec()],
                    dimension_names=[axis.name for axis in self.axes] + [f"{name}_axis{k}" for k in range(len(own))],
                    attributes={"long_name": meanings.get(name, name)},
                    overwrite=True,
                )
        metadata = [self.path / name / "zarr.json" for name in made]
        for file in metadata:
            flush(file)
            flush(file.parent)
        flush(self.path)
        self.manifest.values = list(made)
        self.manifest.add(self.path, metadata)
        self.manifest.write(self.path)
        self.arrays = made

    def _flush_block(self, index: int) -> None:
        """Flush the files of a block, their directory entries, and those of new parent folders to disk."""
        for file in self._files(index):
            flush(file)
            folder = file.parent
            flush(folder)
            while folder not in self.folders and folder != self.path:
                self.folders.add(folder)
                folder = folder.parent
                flush(folder)

    def _files(self, index: int) -> list[Path]:
        """Return the files of a block."""
        place = tuple(map(int, np.unravel_index(index, self.grid.counts)))
        return [_chunk(self.path, name, array, place) for name, array in self.arrays.items()]


def _mark(number: bytes) -> bytes:
    """Return the line that marks a block as finished."""
    return b"%s %08x" % (number, zlib.crc32(number))


def _chunk(path: Path, name: str, array: Any, place: tuple[int, ...]) -> Path:
    """Return the file of a block of an array, which has one chunk along each own axis."""
    return path / name / array.metadata.encode_chunk_key((*place, *(0,) * (array.ndim - len(place))))


class Stored(Mapping):
    """Values of a store, read at each access; damage raises `StoreError` that names the block."""

    def __init__(self, path: Path, names: Sequence[str], grid: Grid) -> None:
        self.path, self.names, self.grid = path, tuple(names), grid

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.names:
            raise KeyError(name)
        manifest = Manifest.read(self.path)
        if manifest is None:
            raise unreadable(self.path, "it is gone")
        manifest.check(self.path, f"{name}/")
        array = zarr_module().open_array(self.path, path=name, mode="r")
        found = np.empty(array.shape, array.dtype)
        for k, place in enumerate(itertools.product(*map(range, self.grid.counts))):
            block, file = self.grid[k], _chunk(self.path, name, array, place)
            try:
                if not file.exists():  # zarr would return zeros
                    raise FileNotFoundError("the file is missing")
                found[block.where] = array[block.where]
            except Exception as error:  # of codecs, zarr and the file system
                raise StoreError(
                    f"sweep: store = {self.path} is damaged: {name} of block {k}, {block}, cannot be read ({error}); "
                    f"remove {file} and call sweep again, which evaluates this block anew"
                ) from error
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


_held: set[Path] = set()
_guard = threading.Lock()


def _renew() -> None:
    """Give a forked process its own lock, as no thread of it will release the old one; it inherits no store."""
    global _guard
    _guard = threading.Lock()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


@contextmanager
def _locked(path: Path, store: Path) -> Iterator[None]:
    """Hold a lock that ends with this process in any case and is not inherited by child processes."""
    key, refusal = path.resolve(), f"sweep: store = {store} is in use by another sweep; wait for it"
    with _guard:  # file locks belong to processes: another thread is not excluded and would release the lock
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
