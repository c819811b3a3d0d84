"""`linsolve card`: a flow or law on one page."""

from __future__ import annotations

import argparse

__all__ = ["EXAMPLE", "HELP", "add", "run"]

HELP = "print a flow or law on one page: statement, closed form, conditions, accuracy, sources, checked formulas"
EXAMPLE = "linsolve card TwoLayer --markdown"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", metavar="NAME", help="name a flow or law, as `linsolve list` prints it")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="print Markdown")
    form.add_argument("--html", action="store_true", help="print HTML")
    form.add_argument("--bibtex", action="store_true", help="print BibTeX of its sources and of this package")
    form.add_argument("--code", action="store_true", help="print its closed form as a function of NumPy alone")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    import linsolve as ls

    if options.bibtex:
        print(ls.cite(options.name))
    elif options.code:
        print(ls.to_code(options.name))
    else:
        page = ls.card(options.name)
        print(page._repr_markdown_() if options.markdown else page._repr_html_() if options.html else page)
    return 0
