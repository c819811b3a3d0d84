"""`linsolve list`: what is solved, in a line each."""

from __future__ import annotations

import argparse
import inspect

from linsolve.cli.names import known

__all__ = ["HELP", "add", "run"]

HELP = "the flows and laws that are solved, in a line each"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments: none."""


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    solved = known()
    width = max(map(len, solved))
    for name, cls in solved.items():
        first = (inspect.getdoc(cls) or "").split("\n", 1)[0]
        print(f"{name:<{width}}  {first}")
    return 0
