"""`linsolve figure`: figures of papers, drawn with theory over simulation."""

from __future__ import annotations

import argparse

from linsolve.cli.result import add_json, print_json, print_rows

__all__ = ["EXAMPLE", "HELP", "add", "run"]

HELP = "draw a figure of a paper, with theory over simulation; without NAME, list the figures"
EXAMPLE = "linsolve figure 2 --out figure-2.pdf"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="draw this figure; without NAME, list the figures")
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="write to this .png, .pdf or .svg file; missing folders are created [figure-NAME.png]",
    )
    parser.add_argument("--seed", type=int, default=0, help="set the seed of the random starts [0]")
    add_json(parser, "the list, or data and file")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    from linsolve.studies.figures import FIGURES, draw

    if options.name is None:
        options.parser.refuse_beside(options, "the list (NAME is missing)", "json")
        titles = {name: f"{about.source}, {about.title}" for name, about in FIGURES.items()}
        if not print_json(options, titles):
            print_rows(titles.items())
        return 0
    out = options.out or f"figure-{options.name}.png"
    data = draw(options.name, out, options.seed)
    if not print_json(options, {"name": options.name, "file": out, "data": data}):
        print(out)
    return 0
