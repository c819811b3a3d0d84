"""`linsolve phase`: phase diagrams, and the table of common scalings."""

from __future__ import annotations

import argparse
from typing import Any

from linsolve.cli.result import add_json, print_json, print_rows

__all__ = ["EXAMPLE", "HELP", "add", "run"]

HELP = "draw a phase diagram, or print the table of common scalings"
EXAMPLE = "linsolve phase chaos --cells 61"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="draw this diagram, or print 'table'; see --list")
    parser.add_argument("--list", action="store_true", help="list the diagrams, one a line")
    parser.add_argument("--out", metavar="DIR", help="write NAME.png, .pdf and .npz to this folder [phase-NAME]")
    parser.add_argument("--cells", type=int, default=121, help="set the number of points along each axis [121]")
    parser.add_argument("--seed", type=int, default=0, help="set the seed of random networks [0]")
    add_json(parser, "the list, the table, or boundaries, formulas of curves and files")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    from linsolve.core.arguments import unknown_name
    from linsolve.core.results import folder_to_fill
    from linsolve.studies import phases

    names = phases.DIAGRAMS | {"table": "table 1 of Xu and Ziyin (2024), with the lazy column at random initial output"}
    if options.list or options.name is None:
        options.parser.refuse_beside(options, "--list" if options.list else "the list (NAME is missing)", "json")
        if print_json(options, names):
            return 0
        print_rows(names.items())
        return 0
    if options.name not in names:
        raise ValueError(unknown_name("phase", "name", options.name, names))
    if options.name == "table":
        options.parser.refuse_beside(options, "the table, which is printed", "name", "json")
        if print_json(options, [_entry(each) for each in phases.table()]):
            return 0
        print(phases.table_text())
        return 0
    folder = folder_to_fill("phase", options.out if options.out is not None else f"phase-{options.name}")
    found = phases.diagram(options.name, options.cells, options.seed)
    files = phases.write(found, folder)
    curves = [{"boundary": each.boundary, "formula": each.label} for each in found.curves if each.label]
    about = {
        "name": found.name,
        "title": found.title,
        "boundaries": list(found.sides),
        "curves": curves,
        "files": files,
    }
    if print_json(options, about):
        return 0
    for path in files:
        print(path)
    return 0


def _entry(entry: Any) -> dict[str, Any]:
    """Return an entry of the table with its exponents."""
    return entry.exponents._asdict() | {
        "start": entry.scaling, "block": entry.block, "phase": entry.found.phase, "published": entry.printed
    }  # fmt: skip
