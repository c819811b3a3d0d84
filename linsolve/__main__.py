"""The `linsolve` command: list what is solved, verify it, learn a data set, judge a network, draw its phases."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

from linsolve.commands import COMMANDS

__all__ = ["main"]

DESCRIPTION = "Exact training dynamics of solvable linear networks, proved against simulation."
USAGE_ERROR = 2
READER_GONE = 141  # what a shell gives for a program that ends by the signal SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; by default those of the process.

    Returns
    -------
    int
        0; 1 where a check failed; 2 where the input cannot be used, after one line on standard error; 141, silently,
        where nobody reads the output any longer.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal without Unicode shows question marks rather than failing
            stream.reconfigure(errors="replace")
    try:
        options = _parser().parse_args(argv)
    except SystemExit as end:  # argparse has written its message
        return int(end.code or 0)
    try:
        status = options.run(options)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # who read has read enough, as `head` does
        _hush(sys.stdout)
        return READER_GONE
    except MemoryError as error:
        print(f"linsolve: out of memory: {error or 'the input is too large'}; ask for less", file=sys.stderr)
        return USAGE_ERROR
    except (ValueError, OSError, ImportError, ArithmeticError) as error:
        text = " ".join(str(error).split()) or type(error).__name__
        print(f"linsolve: {text}", file=sys.stderr)
        return USAGE_ERROR


def _hush(stream: Any) -> None:
    """Point a stream whose reader has gone at nothing, so that Python has nothing to complain about at exit."""
    try:
        number = stream.fileno()
    except (AttributeError, OSError):  # no file, as in tests
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)


class _OneLine(argparse.ArgumentParser):
    """A parser whose errors are one line, as all others of this command."""

    def error(self, message: str) -> Any:
        self.exit(USAGE_ERROR, f"linsolve: {message}; see {self.prog} --help\n")


def _parser() -> argparse.ArgumentParser:
    parser = _OneLine(prog="linsolve", description=DESCRIPTION)
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_OneLine)
    for name, file in COMMANDS.items():
        command = importlib.import_module(f"linsolve.commands.{file}")
        each = commands.add_parser(name, help=command.HELP)
        command.add(each)
        each.set_defaults(run=command.run)
    return parser


if __name__ == "__main__":
    sys.exit(main())
