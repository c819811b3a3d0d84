"""Speed and accuracy of ensembles on a GPU against its copy bandwidth, the processor, and fifty digits."""

from __future__ import annotations

import dataclasses
import json
import platform
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.device.machine import Machine, Sample, copy_bandwidth, engine
from benchmarks.device.workloads import WORKLOADS
from linsolve import arithmetic
from linsolve.core.arguments import unknown_name
from linsolve.core.results import whole_files
from linsolve.engines import cuda
from linsolve.numerics.threads import processors

__all__ = ["Report", "Row", "as_json", "bench", "inserted", "save"]

DIGITS = 50


@dataclasses.dataclass(frozen=True)
class Row:
    """Time and accuracy of one workload.

    Parameters
    ----------
    name, title : str
    seconds : float
    outputs : int
        Number of output values.
    bandwidth : float or None
        Minimal bytes moved per second, over the measured bandwidth of a copy.
    speedup : float or None
        Time of the processor per output over that of the device.
    error : float or None
        Largest difference to 50 digits on the samples, over the largest entry of each name.
    ulp, ulp_median : float or None
        Largest and median difference to plain NumPy on the samples, in units of the last place of each value, for
        matrices of their largest entry.
    note : str
    """

    name: str
    title: str
    seconds: float
    outputs: int
    bandwidth: float | None
    speedup: float | None
    error: float | None
    ulp: float | None
    ulp_median: float | None
    note: str


@dataclasses.dataclass(frozen=True)
class Report:
    """A run of the benchmark on one machine.

    Parameters
    ----------
    machine : str
    copy : float
        Bytes per second.
    scale : float
        Share of the sizes in the titles.
    rows : tuple of Row
    """

    machine: str
    copy: float
    scale: float
    rows: tuple[Row, ...]

    def markdown(self) -> str:
        """Return the table."""
        head = ("", "workload", "time", "outputs/s", "of copy bandwidth", "over the processor", "error", "ulp")
        lines = [head, ("---",) * len(head), *(_cells(row) for row in self.rows)]
        size = "" if self.scale == 1 else f" Sizes are {self.scale:g} of those in the titles."
        above = f"{self.machine}; a copy reads and writes {self.copy / 1e9:.1f} GB/s.{size}\n\n"
        return above + "\n".join("| " + " | ".join(line) + " |" for line in lines)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return dataclasses.asdict(self)


def _cells(row: Row) -> tuple[str, ...]:
    def maybe(value: float | None, form: str, end: str = "") -> str:
        return "-" if value is None else format(value, form) + end

    ulp = "-" if row.ulp is None else f"{row.ulp:.3g} (median {row.ulp_median:.2g})"
    return (
        row.name, row.title, f"{row.seconds:.3g} s", f"{row.outputs / row.seconds:.2g}",
        maybe(None if row.bandwidth is None else 100 * row.bandwidth, ".0f", " %"), maybe(row.speedup, ".3g", "x"),
        maybe(row.error, ".1e"), ulp,
    )  # fmt: skip


def bench(device: bool, scale: float, names: Iterable[str] | None = None, tell: Any = None) -> Report:
    """Measure copy bandwidth, then each workload: time, and accuracy on samples.

    Parameters
    ----------
    device : bool
        Whether to run on the GPU; otherwise on the processor.
    scale : float
        Share of all sizes, in (0, 1].
    names : iterable of str, optional
        Keys of `WORKLOADS`, by default all.
    tell : callable, optional
        Receives a line per finished workload.

    Raises
    ------
    ValueError
        If the scale is out of range or a name is unknown.
    ImportError, OSError
        If CuPy or a device is missing.
    """
    if not (isinstance(scale, int | float) and 0 < scale <= 1):
        raise ValueError(f"bench: scale = {scale!r} must lie in (0, 1] (share of the full sizes); use 0.01")
    chosen = list(WORKLOADS) if names is None else list(names)
    for name in chosen:
        if name not in WORKLOADS:
            raise ValueError(unknown_name("bench", "workload", name, WORKLOADS))
    machine, processor = Machine(cuda.device() if device else np), Machine(np)
    copy = copy_bandwidth(machine, scale)
    rows = []
    for name in chosen:
        rows.append(_row(name, machine, processor, scale, copy))
        if tell:
            tell("  ".join(_cells(rows[-1])))
    return Report(_described(machine), copy, float(scale), tuple(rows))


def _row(name: str, machine: Machine, processor: Machine, scale: float, copy: float) -> Row:
    title, work, smaller = WORKLOADS[name]
    found = work(machine, scale)
    speedup = None
    if machine.is_device:
        other = work(processor, scale * smaller)
        speedup = (other.seconds / other.outputs) / (found.seconds / found.outputs)
    error = ulp = median = None
    if found.sample is not None:
        error, (ulp, median) = _error(found.sample), _ulps(found.sample)
    share = found.bytes / found.seconds / copy if found.bytes else None
    return Row(name, title, found.seconds, found.outputs, share, speedup, error, ulp, median, found.note)


def _error(sample: Sample) -> float:
    """Return the largest difference to 50 digits, over the largest entry of each name."""
    xp = arithmetic.precise(DIGITS)
    start = type(sample.start)(*(arithmetic.cast(xp, v) for v in sample.start))
    exact = sample.flow.cast(xp)(xp.asarray(sample.t), start)
    worst = 0.0
    for name, value in sample.found.items():
        true = arithmetic.to_numpy(exact[name])
        worst = float(np.maximum(worst, np.max(np.abs(value - true)) / np.max(np.abs(true))))  # also nan
    return worst


def _ulps(sample: Sample) -> tuple[float, float]:
    """Return the largest and the median difference to NumPy in ulps (matrices: of the largest entry)."""
    plain, found = sample.flow(sample.t, sample.start), []
    for name, value in sample.found.items():
        true, own = np.asarray(plain[name]), len(sample.flow.axes.get(name, ()))
        size = np.max(np.abs(true), axis=tuple(range(-own, 0)), keepdims=True)
        found.append((np.abs(value - true) / np.spacing(size)).ravel())
    every = np.concatenate(found)
    return float(every.max()), float(np.median(every))


def _described(machine: Machine) -> str:
    if not machine.is_device:
        return f"{platform.machine()} processor, {processors()} cores, NumPy {np.__version__}, engine {engine()}"
    runtime = machine.xp.cuda.runtime
    name = runtime.getDeviceProperties(0)["name"].decode()
    return f"{name}, CUDA runtime {runtime.runtimeGetVersion()}, driver {runtime.driverGetVersion()}"


def inserted(text: str, table: str, where: str) -> str:
    """Return the text with the table between its markers.

    Raises
    ------
    ValueError
        If the text does not contain the two markers exactly once.
    """
    begin, end = "<!-- device: begin -->\n", "<!-- device: end -->"
    new, count = re.subn(
        re.escape(begin) + ".*?" + re.escape(end), lambda _: begin + table + "\n" + end, text, flags=re.S
    )
    if count != 1:
        raise ValueError(
            f"bench: {where} has {count} places for the table but must have one (position of the table); add the lines "
            f"{begin.strip()} and {end}"
        )
    return new


def save(path: Path, text: str) -> None:
    """Write a file atomically."""
    with whole_files(path.parent) as made:
        new = made / path.name
        new.write_text(text, encoding="utf-8")
        if path.exists():
            shutil.copymode(path, new)


def as_json(report: Report) -> str:
    """Return a report as JSON."""
    return json.dumps(report.as_dict(), indent=2) + "\n"
