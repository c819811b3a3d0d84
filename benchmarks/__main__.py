"""``python -m benchmarks [NAME ...] [--write FILE] [--out FOLDER]``: measure and print Markdown tables."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from benchmarks import (
    accuracy_block_kernel,
    accuracy_deep_mode,
    accuracy_frozen_kernel,
    accuracy_modes,
    accuracy_two_layer,
    accuracy_whitened,
    busy,
    descent,
    edges,
    ensembles,
    explorables,
    generalization,
    growth,
    history,
    imports,
    networks,
    sgd,
    small_calls,
    speed,
    speed_table,
    sweeps,
    throughput,
    wide,
)
from benchmarks.device import arrays, compiler, functions
from benchmarks.device import table as device_table
from benchmarks.markdown import refuse_unmarked, table, write
from benchmarks.timing import Timing, stolen


def accuracy() -> str:
    """Return the worst errors of the closed forms in doubles against evaluation to at least 50 digits."""
    sections = {
        "TwoLayer": accuracy_two_layer.rows(),
        "WhitenedTwoLayer": accuracy_whitened.rows(),
        "DeepMode": accuracy_deep_mode.rows(),
        "FrozenKernel": accuracy_frozen_kernel.rows(),
        "BlockKernel": accuracy_block_kernel.rows("block"),
        "SpecializedKernel": accuracy_block_kernel.rows("specialized"),
        "HiddenMode": accuracy_modes.hidden_rows(),
        "BiasedMode": accuracy_modes.biased_rows(),
    }
    rows = [
        (flow, name, f"{worst:.1e}", how if isinstance(how, str) else f"of the largest entry; reach {how:.0e}")
        for flow, found in sections.items()
        for name, worst, how in found
    ]
    return table(("flow", "quantity", "worst error", "measure"), rows)


def starts() -> str:
    """Return counts of refused and obstructed random balanced starts, and the worst difference to DOP853."""
    head = ("n_in-width-n_out", "starts", "refused", "obstructed", "worst difference to DOP853")
    rows = [
        (name, str(count), str(refused), str(obstructed), f"{worst:.1e}")
        for name, count, refused, obstructed, worst in accuracy_whitened.starts()
    ]
    return table(head, rows)


def solved_networks() -> str:
    """Return the errors and wrong routes of 300 random networks through `linsolve.solve`."""
    head = ("networks", "number", "wrong routes", "beyond bound", "worst error of map", "of loss", "of layers")
    rows = [
        (kind, str(count), str(wrong), str(beyond), *(f"{error:.1e}" for error in errors))
        for kind, count, wrong, beyond, *errors in networks.rows()
    ]
    return table(head, rows)


def wide_networks() -> str:
    """Return the processor time of `linsolve.applies` on wide networks."""
    return table(("network", "weights", "processor time", "maps against DOP853"), wide.rows())


def averages_of_sgd() -> str:
    """Return the times of exact averages of SGD over 200 steps, against 10^4 simulated runs."""
    head = ("200 steps of SGD", "exact averages", f"{sgd.RUNS:,} simulated runs", "ratio", "worst z of mean, variance")
    return table(head, sgd.rows())


def map_of_generalization() -> str:
    """Return the time of the map of double descent in time, against one simulated cell."""
    return table(("double descent in time", "processor time", "against the law"), generalization.rows())


def exact_descent() -> str:
    """Return the times of exact descent steps of two layers, against a NumPy loop over the weights."""
    head = ("networks", "width", "steps", "rule", "exact", "NumPy loop over the weights")
    head += ("ratio", "difference")
    return table(head, descent.rows())


def edges_of_descent() -> str:
    """Return the boundaries of the diagram of descent in closed form and measured."""
    return table(("boundary", "imbalance", "closed form", "measured", "difference"), edges.rows())


def pages_with_sliders() -> str:
    """Return the time to redraw the pages with sliders in Chromium."""
    found = list(explorables.rows())
    head = ("page", "size", "moved sliders", "median time to redraw", "longest")
    return table(head, found) if found else "Not measured: no Chromium on this computer."


def import_time() -> str:
    """Return the import time relative to NumPy and the heavy modules loaded."""
    found = imports.ratio()
    heavy = ", ".join(imports.heavy()) or "none"
    row = (f"{1e3 * found['numpy']:.0f} ms", f"{1e3 * found['linsolve']:.0f} ms", f"{found['ratio']:.2f}", heavy)
    return table(("import numpy", "import linsolve", "ratio", "heavy modules loaded"), [row])


def ensemble_cost() -> str:
    """Return time and memory of statistics over 4 million random networks of width 10^9 at 8 times."""
    few, many = ensembles.MEMBERS
    head = (
        "statistics",
        "passes",
        "time",
        "processor time",
        "over evaluation alone",
        f"memory, {few:,}",
        f"memory, {many:,}",
    )
    return table(head, ensembles.rows())


def cost_of_small_calls() -> str:
    """Return the time of one small call of every flow, over a plain NumPy formula and over SciPy's solve_ivp."""
    return table(small_calls.HEAD, small_calls.rows())


def least_times() -> str:
    """Return the least time of a number of W1, W3 and W4, compiled, by its instructions in their measured mix."""
    if not find_spec("llvmlite"):
        return "Not measured: the extra [fast] is not installed."
    return table(throughput.HEAD, throughput.rows())


def sweep_cost() -> str:
    """Return time and peak memory of a sweep over 1500 x 1500 networks, each evaluated at its limit."""
    rows = [
        (
            "one network at every size" if which == "fixed" else "a random network per cell",
            "NumPy" if engine == "blocks" else engine,
            str(threads),
            f"{seconds:.2f} s",
            f"{work:.2f} s",
            f"{ratio:.0f}",
            f"{memory:.2f}",
        )
        for which, engine, threads, seconds, work, ratio, memory in sweeps.rows()
    ]
    head = ("start", "engine", "threads", "time", "processor time", "time / filling the output", "peak memory / output")
    return table(head, rows)


def _say(name: str) -> None:
    """Print the name of the workload that runs."""
    print(f"speed: {name}", file=sys.stderr, flush=True)


def _measured() -> tuple[list[Timing], str]:
    """Return all timings, and a sentence about what other virtual computers took of the time."""
    before = stolen()
    timings = speed.measure(say=_say)
    taken, work = (after - first for after, first in zip(stolen(), before, strict=True))
    share = 100 * taken / max(1, work)
    return timings, f"Other virtual computers took {share:.1f} % of the processor time of this run."


def speed_of_all(out: Path | None = None) -> str:
    """Return our times with floors and peers on every workload; write Markdown, JSON and a picture to a folder."""
    timings, share = _measured()
    text = f"{share}\n\n{speed_table.text(timings)}"
    if out is not None:
        speed.write(timings, text, out)
    return text


def speed_beside_others() -> str:
    """Return our times, floors and peers on every workload while other processes keep every core busy."""
    with busy.busy():
        timings, share = _measured()
    return f"{share}\n\n{speed_table.brief(timings)}"


def growth_of_cost(out: Path | None = None) -> str:
    """Return time and peak memory over sizes with their exponents; draw both to a folder."""
    found = [(each, growth.measure(each)) for each in growth.GROWTHS]
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        growth.draw(found, out / "growth.png")
    return table(growth.HEAD, growth.rows(found))


MEASUREMENTS: dict[str, Callable[[], str]] = {
    "accuracy": accuracy,
    "starts": starts,
    "networks": solved_networks,
    "wide": wide_networks,
    "descent": exact_descent,
    "edges": edges_of_descent,
    "sgd": averages_of_sgd,
    "generalization": map_of_generalization,
    "explorables": pages_with_sliders,
    "imports": import_time,
    "ensembles": ensemble_cost,
    "small-calls": cost_of_small_calls,
    "growth": growth_of_cost,
    "instructions": least_times,
    "sweeps": sweep_cost,
    "speed": speed_of_all,
    "speed-busy": speed_beside_others,
    "history": history.measure,
    "kernels": compiler.kernels,
    "device": device_table.device,
    "device-functions": functions.functions,
    "device-flows": arrays.flows,
}
DRAWN: dict[str, Callable[[Path | None], str]] = {"speed": speed_of_all, "growth": growth_of_cost}


def _purpose(measure: Callable[[], str]) -> str:
    """Return the first sentence of the docstring of a measurement, without "Return"."""
    return (measure.__doc__ or "").split("\n")[0].removeprefix("Return ").replace("`", "").rstrip(".")


def main() -> None:
    """Print the named measurements, by default all."""
    about = [f"  {name:18}{_purpose(measure)}" for name, measure in MEASUREMENTS.items()]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure speed, memory and accuracy of linsolve, and print Markdown tables.",
        epilog="\n".join(["measurements:", *about]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="measure these; see below [all]")
    parser.add_argument("--write", type=Path, metavar="FILE", help="also write the tables between the markers of FILE")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="for speed and growth: also write figures")
    parser.add_argument("--check", action="store_true", help="for history: fail if a call has become slower")
    options = parser.parse_args()
    for name in options.names:
        if name not in MEASUREMENTS:
            parser.error(f"NAME = {name} is unknown; choose from {', '.join(MEASUREMENTS)}")
    if options.check:
        if options.names != ["history"]:
            parser.error("--check goes with history alone; run python -m benchmarks history --check")
        sys.exit(history.check())
    if options.write:
        refuse_unmarked(options.write, options.names or MEASUREMENTS)
    for name in options.names or MEASUREMENTS:
        text = DRAWN[name](options.out) if name in DRAWN else MEASUREMENTS[name]()
        print(f"## {name}\n\n{text}\n", flush=True)
        if options.write and not text.startswith("Not measured"):  # figures of another machine stay
            write(options.write, name, text)


if __name__ == "__main__":
    main()
