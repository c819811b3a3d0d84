"""Record of a sweep (function, bound values, axes, seed, version) and the manifest of its store."""

from __future__ import annotations

import errno
import hashlib
import inspect
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from linsolve.core.arguments import shown
from linsolve.core.version import VERSION
from linsolve.ensembles.axes import Axis, Grid
from linsolve.ensembles.value_texts import Unrecordable, Writer

__all__ = [
    "Manifest", "StoreError", "flush", "named", "record", "signature", "stored_seed", "unreadable",
    "zarr_module",
]  # fmt: skip

RECORD = "_sweep"  # group with the manifest, the marks of finished blocks and the lock
MANIFEST = f"{RECORD}/manifest"
REMEDY = "choose another path, or remove it"


def record(
    observe: Any, axes: Sequence[Axis], grid: Grid, seed: np.random.SeedSequence | None, store: Path | None
) -> dict[str, str]:
    """Return the entries that must agree for a sweep to be resumed, as text by name.

    A function is recorded by its name, its source and its bound values (defaults, closure, ``functools.partial``,
    attributes) with all that they hold, not by the global variables, functions, classes and modules that it names.

    Raises
    ------
    StoreError
        If there is a store and the state of a bound value cannot be read.
    """
    try:
        name, source, given = Writer(strict=store is not None).function(observe)
    except Unrecordable as error:
        raise StoreError(
            f"sweep: store = {store} must record all values on which observe = {shown(observe)} depends, but {error}; "
            "give the numbers it holds as arguments or axes, build it inside the function, or leave store out"
        ) from error
    found = {"linsolve": VERSION, "function": name, "source of the function": source}
    found |= {f"fixed parameter {key}": text for key, text in given.items()}
    found["axes"] = ", ".join(axis.name for axis in axes)
    found |= {f"axis {axis.name}": axis.record() for axis in axes}
    found["cells of a block"] = " x ".join(map(str, grid.block))
    found["cells of a tile"] = " x ".join(map(str, grid.tile))
    if seed is None:
        found["seed"] = "none"
    else:
        found["seed"] = f"{seed.entropy} at {list(seed.spawn_key)}"
    return found


# parameters of functions


def named(what: str, function: Any) -> dict[str, inspect.Parameter]:
    """Return the parameters of a function that can be passed by keyword."""
    found = signature(what, function)
    return {name: p for name, p in found.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}


def signature(what: str, function: Any) -> dict[str, inspect.Parameter]:
    """Return the parameters of a function; raise for a flow, a missing signature or positional-only parameters.

    Raises
    ------
    TypeError
    """
    from linsolve.core.flow import Flow

    kind = function if isinstance(function, type) else type(function)
    if issubclass(kind, Flow):
        raise TypeError(
            f"sweep: {what} = {kind.__name__} is a flow; name the observable: "
            f"ensembles.of(ls.{kind.__name__}, 'loss', t=1.0)"
        )
    try:
        found = dict(inspect.signature(function).parameters)
    except (TypeError, ValueError) as error:
        raise TypeError(f"sweep: {what} = {function!r} names no parameters; wrap it in a function") from error
    if nameless := [name for name, p in found.items() if p.kind is p.POSITIONAL_ONLY and p.default is p.empty]:
        raise TypeError(f"sweep: {what} takes {', '.join(nameless)} by position only; wrap it in a function")
    return found


# stores


class StoreError(RuntimeError):
    """Raised if a store belongs to another sweep, is in use, is damaged, or cannot be written."""


def unreadable(path: Path, reason: object) -> StoreError:
    """Return the error for a damaged store."""
    return StoreError(f"sweep: store = {path} cannot be read: {reason}; {REMEDY}")


def zarr_module() -> Any:
    """Return zarr, or raise ImportError that names the extra."""
    try:
        import zarr
    except ImportError as error:
        raise ImportError('sweep: zarr is missing (store); pip install ".[store]" in the clone') from error
    return zarr


def stored_seed(path: Path) -> np.random.SeedSequence | None:
    """Return the seed of the sweep in a store, or None."""
    entropy, found, key = (Manifest.read(path) or Manifest({})).record.get("seed", "none").partition(" at ")
    return np.random.SeedSequence(json.loads(entropy), spawn_key=json.loads(key)) if found else None


class Manifest:
    """Record of a sweep, names of its values, and SHA-256 of each metadata file and axis of its store.

    The file begins with the SHA-256 of the rest and is replaced atomically.
    """

    def __init__(
        self, record: Mapping[str, str], values: Sequence[str] = (), files: Mapping[str, str] | None = None
    ) -> None:
        self.record, self.values, self.files = dict(record), list(values), dict(files or {})

    @classmethod
    def read(cls, path: Path) -> Manifest | None:
        """Return the manifest of a store, or None if there is no store.

        Raises
        ------
        StoreError
            If the manifest is damaged, or the path is not a store.
        """
        zarr_module()
        try:
            if not path.exists() or (path.is_dir() and not any(path.iterdir())):
                return None
            if not (path / MANIFEST).is_file():
                raise StoreError(f"sweep: store = {path} is there but is no store of a sweep; {REMEDY}")
            digest, _, text = (path / MANIFEST).read_bytes().partition(b"\n")
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                raise ValueError(
                    f"sweep: store = {shown(str(path))} must be a shorter path (name of a folder); rename it"
                ) from error
            raise unreadable(path, error) from error
        if digest.decode("ascii", "replace") != hashlib.sha256(text).hexdigest():
            raise unreadable(path, f"{MANIFEST} fails its checksum")
        return cls(**json.loads(text))

    def write(self, path: Path) -> None:
        """Write the manifest of a store."""
        text = json.dumps(vars(self)).encode()
        draft = path / f"{MANIFEST}.new"
        draft.write_bytes(hashlib.sha256(text).hexdigest().encode() + b"\n" + text)
        flush(draft)
        os.replace(draft, path / MANIFEST)
        flush(draft.parent)

    def add(self, path: Path, files: Sequence[Path]) -> None:
        """Add checksums of files of a store."""
        self.files |= {file.relative_to(path).as_posix(): _digest(file) for file in files}

    def check(self, path: Path, under: str = "") -> None:
        """Raise if a metadata file of a store, or a file in the folder `under`, is missing or has changed.

        Raises
        ------
        StoreError
        """
        for name, digest in self.files.items():
            if name.startswith(under):
                try:
                    now = _digest(path / name)
                except OSError as error:
                    raise unreadable(path, error) from error
                if now != digest:
                    raise unreadable(path, f"{name} fails its checksum")


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def flush(path: Path) -> None:
    """Flush the content of a file, or the entries of a folder, to disk."""
    if os.name == "nt" and path.is_dir():  # Windows cannot flush a folder
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
