"""``python -m benchmarks [accuracy] [starts] [imports] [--write README.md]``: measure, and print as Markdown."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks import (
    accuracy_block_kernel,
    accuracy_deep_mode,
    accuracy_frozen_kernel,
    accuracy_modes,
    accuracy_two_layer,
    accuracy_whitened,
    ensembles,
    imports,
    sweeps,
)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    head = list(head)
    lines = [head, ["---"] * len(head), *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


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
    return table(("flow", "quantity", "worst error", "measured"), rows)


def starts() -> str:
    """Return what becomes of random balanced starts: none refused, all as DOP853 has it, some obstructed."""
    head = ("n_in-width-n_out", "starts", "refused", "obstructed", "worst difference to DOP853")
    rows = [
        (name, str(count), str(refused), str(obstructed), f"{worst:.1e}")
        for name, count, refused, obstructed, worst in accuracy_whitened.starts()
    ]
    return table(head, rows)


def import_time() -> str:
    """Return what importing costs, and that nothing heavy is loaded."""
    found = imports.ratio()
    heavy = ", ".join(imports.heavy()) or "none"
    row = (f"{1e3 * found['numpy']:.0f} ms", f"{1e3 * found['linsolve']:.0f} ms", f"{found['ratio']:.2f}", heavy)
    return table(("import numpy", "import linsolve", "ratio", "heavy modules loaded"), [row])


def ensemble_cost() -> str:
    """Return time and memory of statistics over 4 million random networks of width 10^9 at 8 times."""
    few, many = ensembles.MEMBERS
    head = ("kept", "passes", "time", "processor time", "over following", f"memory, {few:,}", f"memory, {many:,}")
    return table(head, ensembles.rows())


def sweep_cost() -> str:
    """Return time and peak memory of a grid of 1500 x 1500 networks, each followed to its final state."""
    rows = [
        (
            "one network at every size" if which == "fixed" else "a random network a cell",
            str(threads),
            f"{seconds:.2f} s",
            f"{work:.2f} s",
            f"{ratio:.0f}",
            f"{memory:.2f}",
        )
        for which, threads, seconds, work, ratio, memory in sweeps.rows()
    ]
    head = ("start", "threads", "time", "of all cores", "over filling the output", "peak memory over the output")
    return table(head, rows)


MEASUREMENTS: dict[str, Callable[[], str]] = {
    "accuracy": accuracy,
    "starts": starts,
    "imports": import_time,
    "ensembles": ensemble_cost,
    "sweeps": sweep_cost,
}


def write(path: Path, name: str, text: str) -> None:
    """Put a table between its two markers in a Markdown file."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    old = path.read_text(encoding="utf-8")
    new, count = re.subn(
        re.escape(begin) + ".*?" + re.escape(end), lambda _: begin + text + "\n" + end, old, flags=re.S
    )
    if count != 1:
        raise SystemExit(f"benchmarks: {path} has no place marked {name!r}; add the lines {begin.strip()} and {end}")
    path.write_text(new, encoding="utf-8")


def main() -> None:
    """Print the measurements asked for, all by default."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *MEASUREMENTS], metavar="NAME", help=", ".join(MEASUREMENTS))
    parser.add_argument("--write", type=Path, metavar="FILE", help="also put the tables between their markers there")
    options = parser.parse_args()
    for name in options.names or MEASUREMENTS:
        text = MEASUREMENTS[name]()
        print(f"## {name}\n\n{text}\n", flush=True)
        if options.write:
            write(options.write, name, text)


if __name__ == "__main__":
    main()
