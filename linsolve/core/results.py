"""Output folders: results appear only when complete, and replace only results of the same command."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["folder_of_results", "folder_to_fill", "whole_files", "whole_folder"]

SCRATCH = ".linsolve-"  # prefix of temporary folders; one that remains belongs to a killed run


def folder_to_fill(who: str, out: str | os.PathLike[str]) -> Path:
    """Return `out` as the path of a folder that exists or can be made.

    Raises
    ------
    ValueError
        If it is a file, or cannot be written.
    """
    folder = Path(out)
    if not folder.is_dir() and (folder.exists() or folder.is_symlink()):
        raise ValueError(f"{who}: out = {folder} is not a folder (where results go); choose another name")
    there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if not (there.is_dir() and os.access(there, os.W_OK)):
        raise ValueError(
            f"{who}: out = {folder} cannot be written, as {there} cannot (where results go); choose another"
        )
    return folder


def folder_of_results(who: str, out: str | os.PathLike[str], *, marks: Collection[str], names: Collection[str]) -> Path:
    """Return `out` as a path that can be replaced: missing, an empty folder, or only an earlier result.

    Parameters
    ----------
    who : str
        Name of the command, for errors.
    out : str or path
    marks : collection of str
        Files that every result has.
    names : collection of str
        Files that a result may have.

    Raises
    ------
    ValueError
        If it is a file, or a folder with other contents.
    """
    folder = folder_to_fill(who, out)
    held = {each.name for each in folder.iterdir() if not each.name.startswith(SCRATCH)} if folder.is_dir() else set()
    ours = held <= {*marks, *names} and all((folder / name).is_file() for name in held)
    if held and not (ours and held >= set(marks)):
        raise ValueError(f"{who}: out = {folder} holds other files and is not overwritten; choose another folder")
    return folder


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder, which replaces the contents of `folder` at the end of the block.

    An existing folder itself is kept, as it may be a mount point or the working directory.
    """
    there = folder.is_dir()
    where = folder if there else folder.parent
    with _made(where), tempfile.TemporaryDirectory(dir=where, prefix=SCRATCH) as scratch:
        made, old = Path(scratch) / "new", Path(scratch) / "old"
        made.mkdir()
        yield made
        if not there:
            made.replace(folder)
            return
        old.mkdir()
        try:
            _move(folder, old)
            _move(made, folder)
        except BaseException:
            _move(old, folder)  # the rest is deleted with the scratch folder
            raise


def _move(source: Path, goal: Path) -> None:
    """Move the contents of a folder except scratch folders."""
    for each in sorted(source.iterdir()):
        if not each.name.startswith(SCRATCH):
            each.replace(goal / each.name)


@contextmanager
def whole_files(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder, whose files move to `folder`, made if missing, at the end of the block.

    Files of the same names are replaced, all or none.

    Raises
    ------
    ValueError
        If a folder is in the place of a file.
    """
    with _made(folder), tempfile.TemporaryDirectory(dir=folder, prefix=SCRATCH) as scratch:
        made, old = Path(scratch) / "new", Path(scratch) / "old"
        made.mkdir()
        yield made
        old.mkdir()
        _place(sorted(each.name for each in made.iterdir()), made, folder, old)


def _place(names: list[str], made: Path, folder: Path, old: Path) -> None:
    """Move files into a folder, all or none; `old` is for copies of those that they replace."""
    for name in names:
        if (folder / name).is_dir():
            raise ValueError(f"out = {folder / name} is a folder (where a file of results goes); move it or rename out")
        with suppress(FileNotFoundError):
            shutil.copy2(folder / name, old / name, follow_symlinks=False)
    placed: list[str] = []
    try:
        for name in names:
            (made / name).replace(folder / name)
            placed.append(name)
    except BaseException:
        for name in placed:
            if (old / name).is_symlink() or (old / name).exists():
                (old / name).replace(folder / name)
            else:
                (folder / name).unlink()
        raise


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Make a folder, with its parents; those that are new go again if the block fails and has left nothing in them."""
    new = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        for each in new:
            with suppress(OSError):
                each.rmdir()
        raise
