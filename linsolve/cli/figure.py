"""`linsolve figure`: figures of papers, drawn again with theory over simulation."""

from __future__ import annotations

import argparse

__all__ = ["HELP", "add", "run"]

HELP = "draw a figure of a paper again, theory over simulation; without a name, list them"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="figure to draw; none lists them")
    parser.add_argument("--out", metavar="FILE", help="file to write, .png, .pdf or .svg (default: figure-NAME.png)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random starts (default 0)")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    from linsolve.studies.figures import FIGURES, draw

    if options.name is None:
        for name, about in FIGURES.items():
            print(f"  {name:<4} {about.source}, {about.title}")
        return 0
    out = options.out or f"figure-{options.name}.png"
    draw(options.name, out, options.seed)
    print(out)
    return 0
