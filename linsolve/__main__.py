"""The `linsolve` command: list the flows, verify them, follow a data set, find the exact solution of a network."""

from __future__ import annotations

import argparse
import importlib
import shlex
import sys
from collections.abc import Sequence
from contextvars import copy_context

from linsolve.cli import COMMANDS
from linsolve.cli.exit_status import OneLine, ended
from linsolve.core.provenance import COMMAND

__all__ = ["main"]

DESCRIPTION = (
    "Exact training dynamics of solvable linear networks, checked from the loss to the closed form "
    "and against simulation."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status, as `ended` says.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; by default those of the process.
    """

    def work() -> int:
        options, extra = _parser().parse_known_args(argv)
        if extra:
            options.parser.refuse_unknown(extra)
        COMMAND.set(shlex.join(["linsolve", *(sys.argv[1:] if argv is None else argv)]))
        return int(options.run(options))

    return copy_context().run(ended, "linsolve", work)


def _parser() -> argparse.ArgumentParser:
    from linsolve.core.version import VERSION

    parser = OneLine(prog="linsolve", description=DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"linsolve {VERSION}")
    commands = parser.add_subparsers(metavar="COMMAND", dest="command", required=True, parser_class=OneLine)
    for name, file in COMMANDS.items():
        command = importlib.import_module(f"linsolve.cli.{file}")
        description = f"{command.HELP[0].upper()}{command.HELP[1:]}."
        example = command.EXAMPLE.replace(f"linsolve {file} ", f"linsolve {name} ")
        each = commands.add_parser(name, help=command.HELP, description=description, epilog=f"Example: {example}")
        command.add(each)
        each.set_defaults(run=command.run, command=name, parser=each, root=parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
