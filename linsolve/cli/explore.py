"""`linsolve explore`: pages with sliders, which work without a network."""

from __future__ import annotations

import argparse

from linsolve.cli.result import add_json, print_json, print_rows

__all__ = ["EXAMPLE", "HELP", "add", "run"]

HELP = "write a page with sliders, one HTML file that needs no network; without NAME, list the pages"
EXAMPLE = "linsolve explore stages --out stages.html"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="write this page; without NAME, list the pages")
    parser.add_argument(
        "--out", metavar="FILE", help="write to this .html file; missing folders are created [NAME.html]"
    )
    add_json(parser, "the list, or the file")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    from linsolve.studies.explorables import EXPLORABLES, write

    if options.name is None:
        options.parser.refuse_beside(options, "the list (NAME is missing)", "json")
        titles = {name: page.title for name, page in EXPLORABLES.items()}
        if not print_json(options, titles):
            print_rows(titles.items())
        return 0
    out = options.out if options.out is not None else f"{options.name}.html"
    write(options.name, out)
    if not print_json(options, {"name": options.name, "file": out}):
        print(out)
    return 0
