"""Output folders: only complete results are written, and they replace only results of the same command."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["folder_of_results", "folder_to_fill", "mark", "whole_files", "whole_folder"]

MARK = "linsolve.json"  # file in every folder of results

SCRATCH = ".linsolve-"  # prefix of temporary folders; a killed run leaves its folder behind


def folder_to_fill(who: str, out: str | os.PathLike[str], name: str = "out") -> Path:
    """Return `out` as the path of a folder that exists or can be created; errors call it `name`.

    Raises
    ------
    ValueError
        If `out` is a file, or cannot be written.
    """
    folder = Path(out)
    if not folder.is_dir() and (folder.exists() or folder.is_symlink()):
        raise ValueError(f"{who}: {name} = {folder} is not a folder (where results go); choose another name")
    there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    try:
        tempfile.TemporaryDirectory(dir=there, prefix=SCRATCH).cleanup()  # permissions do not tell all: /proc
    except OSError as error:
        reason = (error.strerror or str(error)) + (f" in {there}" if there != folder else "")
        raise ValueError(
            f"{who}: {name} = {folder} cannot be written: {reason} (where results go); choose another"
        ) from None
    return folder


def folder_of_results(who: str, out: str | os.PathLike[str], of: str, names: Collection[str]) -> Path:
    """Return `out` as a path that may be replaced: missing, an empty folder, or an earlier result of the same command.

    Parameters
    ----------
    who : str
        Name of the command.
    out : str or path
    of : str
        Subject of the run, such as the path of its data.
    names : collection of str
        File names that a result may contain, besides `MARK`.

    Raises
    ------
    ValueError
        If `out` is a file, a folder with other contents, or the result of another command or subject.
    """
    folder = folder_to_fill(who, out)
    held = {each.name for each in folder.iterdir() if not each.name.startswith(SCRATCH)} if folder.is_dir() else set()
    if not held:
        return folder
    if MARK not in held or not held <= {MARK, *names} or not all((folder / name).is_file() for name in held):
        raise ValueError(f"{who}: out = {folder} holds other files and is not overwritten; choose another folder")
    made = _mark_of(folder / MARK)
    if made != {"command": who, "of": of}:
        whose = f"linsolve {made['command']} on {made['of']}" if made else "an unknown run"
        raise ValueError(
            f"{who}: out = {folder} holds results of {whose} and is not overwritten; choose another folder"
        )
    return folder


def mark(folder: Path, who: str, of: str) -> None:
    """Write the file from which `folder_of_results` reads the command and the subject of a result."""
    (folder / MARK).write_text(json.dumps({"command": who, "of": of}) + "\n", encoding="utf-8")


def _mark_of(path: Path) -> dict[str, str]:
    """Return command and subject of a result, an empty dict if the file is not such a record."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return {}
    known = isinstance(found, dict) and set(found) == {"command", "of"}
    return found if known and all(isinstance(v, str) for v in found.values()) else {}


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder that replaces the contents of `folder` at the end of the block.

    An existing folder itself is kept, because it may be a mount point or the working directory.
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
            _move(old, folder)  # the remaining files are deleted with the scratch folder
            raise


def _move(source: Path, goal: Path) -> None:
    """Move the contents of a folder except scratch folders."""
    for each in sorted(source.iterdir()):
        if not each.name.startswith(SCRATCH):
            each.replace(goal / each.name)


@contextmanager
def whole_files(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder whose files are moved to `folder`, created if missing, at the end of the block.

    Files of the same names are replaced, all or none.

    Raises
    ------
    ValueError
        If a folder has the name of a file.
    """
    with _made(folder), tempfile.TemporaryDirectory(dir=folder, prefix=SCRATCH) as scratch:
        made, old = Path(scratch) / "new", Path(scratch) / "old"
        made.mkdir()
        yield made
        old.mkdir()
        _place(sorted(each.name for each in made.iterdir()), made, folder, old)


def _place(names: list[str], made: Path, folder: Path, old: Path) -> None:
    """Move files into a folder, all or none; `old` holds copies of the replaced files."""
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
    """Create a folder and its parents; remove the new ones if the block fails and they are empty."""
    new = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        for each in new:
            with suppress(OSError):
                each.rmdir()
        raise
