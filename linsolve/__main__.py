"""The `linsolve` command: list what is solved, verify it, learn a data set, judge a network, draw its phases."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from linsolve.cli import COMMANDS
from linsolve.cli.exit_status import OneLine, ended

__all__ = ["main"]

DESCRIPTION = "Exact training dynamics of solvable linear networks, proved against simulation."


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status, as `ended` says.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; by default those of the process.
    """

    def work() -> int:
        options = _parser().parse_args(argv)
        return int(options.run(options))

    return ended("linsolve", work)


def _parser() -> argparse.ArgumentParser:
    from linsolve import __version__

    parser = OneLine(prog="linsolve", description=DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"linsolve {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=OneLine)
    for name, file in COMMANDS.items():
        command = importlib.import_module(f"linsolve.cli.{file}")
        each = commands.add_parser(name, help=command.HELP)
        command.add(each)
        each.set_defaults(run=command.run)
    return parser


if __name__ == "__main__":
    sys.exit(main())
