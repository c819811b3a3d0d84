"""Sweeps: evaluation of a function on a grid, in blocks, on any executor, restartable; see W7 in ``RESULTS.md``."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from linsolve.core.arguments import integer, shown
from linsolve.core.named_arguments import named_arguments
from linsolve.ensembles.axes import Grid, read_axes, refuse_large
from linsolve.ensembles.blocks import Evaluation, same, sequence
from linsolve.ensembles.diagram import Diagram
from linsolve.ensembles.execute import check_workers, run
from linsolve.ensembles.observe import FlowObservation, check_names, takes_rng
from linsolve.ensembles.record import record, stored_seed
from linsolve.ensembles.store import Store, Stored

__all__ = ["sweep"]


@named_arguments("sweep")
def sweep(
    observe: Callable[..., Any],
    *,
    store: str | os.PathLike[str] | None = None,
    executor: Executor | None = None,
    threads: int | None = None,
    block: int | None = None,
    rng: Any = None,
    progress: bool | None = None,
    **axes: Any,
) -> Diagram:
    """Evaluate a function of parameters on the grid spanned by their axes.

    Parameters
    ----------
    observe : callable
        Function of parameters by keyword. Each parameter is an array along one axis of the grid; together they
        broadcast to a part of the grid. The function returns an array, or arrays by name (mapping or named tuple), of
        the shape of the part followed by own axes. It must act on each cell independently, so that the result does not
        depend on the division of the grid. ``ensembles.of(Flow, "loss", ...)`` makes such a function from a flow. If
        it takes ``rng``, it receives a `numpy.random.Generator` for each part.
    store : path, optional
        A zarr group (extra ``[store]``) to which finished blocks are written. If it holds the same sweep, interrupted
        at any time, the sweep is resumed; finished blocks are not evaluated again. It is the same if version, source of
        the function, all values that the function holds (closure, defaults, attributes), axes, blocks and seed agree.
        Changes of the global variables, functions, classes and modules that the function names are not detected.
    executor : concurrent.futures.Executor, optional
        Executor of the tasks: processes, ``loky``, ``mpi4py.futures.MPIPoolExecutor``, or a Dask cluster by its
        ``Client.get_executor()``; by default threads of this process. It is not shut down.
    threads : int, optional
        Threads of this process, by default as many as it has cores.
    block : int, optional
        Approximate number of cells per task, by default up to 65536.
    rng : None, int, numpy.random.Generator or SeedSequence
        As in SPEC 7 of Scientific Python, for functions that take ``rng``. With None a sweep with a store keeps its
        first seed.
    progress : bool, optional
        Whether a progress bar is shown; by default where the standard error is a terminal.
    **axes : array_like of shape (n,), or (label, array_like)
        Values of each parameter, in the order of the axes of the result.

    Returns
    -------
    Diagram
        ``d["loss"]`` has shape ``(n, m, ...) + own``. An unnamed result has the name "value".

    Raises
    ------
    TypeError, ValueError
        If an axis is invalid, is no parameter of `observe`, the grid is too large, or the executor is invalid; before
        any evaluation.
    StoreError
        If the store belongs to another sweep, is in use, is damaged or cannot be written, or if the function holds a
        value whose state cannot be read, such as a generator; contents of the store are unchanged.
        Values of a store are checked against their checksums at each access.
    BlockError
        If the function fails or returns another shape; the message gives the parameters of the block. Finished blocks
        are kept.
    ImportError
        If an extra is missing.

    Notes
    -----
    Parameters are not broadcast to the grid. The function is called on tiles of at most 16384 cells, whose temporaries
    fit a core's cache. Tiles depend only on the grid, and each has its own random numbers, from
    ``SeedSequence(entropy, spawn_key=(tile,))``: results are bitwise identical on any executor, in any order
    (``tests/ensembles/test_sweep.py``). Blocks smaller than a tile reduce the tiles to their size; with random numbers,
    blocks consist of whole tiles. Only this process writes to the store. If a Dask cluster loses a worker, it repeats
    the unfinished blocks with bitwise identical results.

    Examples
    --------
    >>> import linsolve as ls
    >>> def area(width, height):
    ...     return width * height
    >>> d = ls.sweep(area, width=[1.0, 2.0], height=[3.0, 4.0, 5.0])
    >>> d["value"].tolist()
    [[3.0, 4.0, 5.0], [6.0, 8.0, 10.0]]
    """
    check_names(observe, axes)
    flow = observe if isinstance(observe, FlowObservation) else None
    spanned = read_axes("sweep", axes, flow.labels if flow else {})
    if flow:
        flow.check_axes(spanned)
    check_workers("sweep", executor, threads, progress)
    _check_rest(observe, executor, block)
    path, random = None if store is None else _path(store), takes_rng(observe)
    seed = _seed(rng, random, path)
    refuse_large("sweep", tuple(len(axis.values) for axis in spanned), path is not None)
    grid = Grid(spanned, None if block is None else int(block), whole_tiles=random)
    work = Evaluation(observe, grid.tile, grid.shape, seed)
    source = record(observe, spanned, grid, seed, path)
    meanings = flow.meanings if flow else {}
    how: dict[str, Any] = {"executor": executor, "threads": threads, "progress": progress, "label": "sweep"}
    values: Mapping[str, np.ndarray]
    if path is None:
        values = _in_memory(grid, work, how)
    else:
        values = _in_store(Store(path, spanned, grid, source), work, how, meanings)
    own = flow.own if flow else {}
    return Diagram(
        {axis.name: axis for axis in spanned},
        values,
        {name: own[name] for name in values if name in own},
        {name: meanings[name] for name in values if name in meanings},
        source,
    )


def _in_memory(grid: Grid, work: Evaluation, how: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return the values on the whole grid, by name."""
    found: dict[str, np.ndarray] = {}
    with closing(run(grid, work, **how)) as finished:  # type: ignore[type-var]
        for k, values in finished:
            if not found:  # the first block gives names and shapes
                found = {name: np.empty(grid.shape + v.shape[len(grid.shape) :], v.dtype) for name, v in values.items()}
            same({name: (v.dtype, v.shape[len(grid.shape) :]) for name, v in found.items()}, values, len(grid.shape))
            place = grid[k].where
            for name, value in values.items():
                found[name][place] = value
    return found


def _in_store(store: Store, work: Evaluation, how: dict[str, Any], meanings: Mapping[str, str]) -> Stored:
    """Evaluate the blocks missing in a store, and return its values."""
    grid = store.grid
    with store.open():
        todo = [k for k in range(len(grid)) if k not in store.finished]
        with closing(run(_Part(grid, todo), work, finished=len(grid) - len(todo), **how)) as finished:  # type: ignore[type-var]
            for k, values in finished:
                store.write(grid[todo[k]], values, meanings)
    return Stored(store.path, list(store.arrays), grid)


class _Part(Sequence):
    """Lazy sequence of some blocks of a grid."""

    def __init__(self, grid: Grid, numbers: list[int]) -> None:
        self.grid, self.numbers = grid, numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, k: Any) -> Any:
        return self.grid[self.numbers[k]]


def _check_rest(observe: Any, executor: Any, block: Any) -> None:
    if block is not None:
        integer("sweep", "block", block, meaning="cells of a block", example=65536)
    if isinstance(executor, ProcessPoolExecutor):
        try:
            pickle.dumps(observe)
        except Exception as error:  # the type of the error depends on the object
            raise TypeError(
                f"sweep: observe = {observe!r} cannot be sent to other processes ({error}); define it at the top of a "
                "module, or use executor=loky.get_reusable_executor()"
            ) from error


def _path(store: Any) -> Path:
    if not isinstance(store, str | os.PathLike) or not str(store):
        raise TypeError(f"sweep: store = {shown(store)} must be a path (where blocks are kept); say 'sweep.zarr'")
    if "\0" in str(store):
        raise ValueError(f"sweep: store = {store!r} has a NUL character (where blocks are kept); say 'sweep.zarr'")
    return Path(store)


def _seed(rng: Any, random: bool, path: Path | None) -> np.random.SeedSequence | None:
    """Return the seed of a sweep; if `rng` is None, that of its store."""
    if not random:
        if rng is not None:
            raise ValueError(
                f"sweep: rng = {shown(rng)} is given but observe takes no rng (random numbers); name it there"
            )
        return None
    known = stored_seed(path) if rng is None and path is not None else None
    return known or sequence(rng)
