"""`linsolve list`: the solved flows and laws, one a line."""

from __future__ import annotations

import argparse
import inspect
from typing import Any

from linsolve.cli.result import add_json, print_json, print_rows

__all__ = ["EXAMPLE", "HELP", "add", "known", "run"]

HELP = "list the solved flows and laws, one a line"
EXAMPLE = "linsolve list"


def known() -> dict[str, Any]:
    """Return the flows and laws by name, in the order of their registries."""
    from linsolve.systems import flows, laws

    return {cls.__name__: cls for cls in (*flows.ALL, *laws.ALL)}


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_json(parser, "names and first lines")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    from linsolve.papers.card_text import plain_line

    solved = known()
    about = {name: (inspect.getdoc(cls) or "").split("\n", 1)[0] for name, cls in solved.items()}
    if print_json(options, [{"name": name, "about": text} for name, text in about.items()]):
        return 0
    print_rows((name, plain_line(text)) for name, text in about.items())
    return 0
