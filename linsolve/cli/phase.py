"""`linsolve phase`: phase diagrams, and the table of common scalings."""

from __future__ import annotations

import argparse

__all__ = ["HELP", "add", "run"]

HELP = "draw a phase diagram, or print the table of common scalings"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="which diagram, or 'table'; --list names them")
    parser.add_argument("--list", action="store_true", help="name the diagrams, in a line each")
    parser.add_argument("--out", metavar="DIR", help="where NAME.png, NAME.pdf and NAME.npz go (default: phase-NAME)")
    parser.add_argument("--cells", type=int, default=121, help="points of the map along each axis (default 121)")
    parser.add_argument("--seed", type=int, default=0, help="seed of random networks (default 0)")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    from linsolve.core.results import folder_to_fill
    from linsolve.studies import phases

    names = phases.DIAGRAMS | {"table": "table 1 of Xu and Ziyin (2024), with the lazy column put right"}
    if options.list or options.name is None:
        width = max(map(len, names))
        for name, title in names.items():
            print(f"{name:<{width}}  {title}")
        return 0
    if options.name == "table":
        if options.out is not None:
            raise ValueError(f"phase: out = {options.out} does not go with the table (it is printed); leave it out")
        print(phases.table_text())
        return 0
    folder = folder_to_fill("phase", options.out if options.out is not None else f"phase-{options.name}")
    for path in phases.write(phases.diagram(options.name, options.cells, options.seed), folder):
        print(path)
    return 0
