"""How a command ends: its exit status, and one line on standard error for what went wrong."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["USAGE_ERROR", "OneLine", "ended"]

USAGE_ERROR = 2
INTERRUPTED = 130  # what a shell gives for a program that ends by the signal SIGINT
READER_GONE = 141  # and by SIGPIPE


class OneLine(argparse.ArgumentParser):
    """A parser whose errors are one line, as all others of a command, and to which -1e-3 is a number."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # argparse takes -1e-3 and -1,2 for the names of options
        self._negative_number_matcher = re.compile(r"-(\d|\.\d|inf|nan)")

    def error(self, message: str) -> Any:
        """End with the message, in one line."""
        self.exit(USAGE_ERROR, f"linsolve: {message}; see {self.prog} --help\n")


def ended(program: str, work: Callable[[], int]) -> int:
    """Do the work of a command and return its exit status.

    Parameters
    ----------
    program : str
        Its name, for errors.
    work : callable
        Prints what it finds, and returns 0, or 1 where a check failed.

    Returns
    -------
    int
        That of `work`; 2 where the input cannot be used, after one line on standard error; 130 where it was
        interrupted, after one line; 141, silently, where nobody reads the output any longer.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal without Unicode shows question marks rather than failing
            stream.reconfigure(errors="replace")
    try:
        status = work()
        if sys.stdout is not None:  # it is None where the shell has closed it
            sys.stdout.flush()
        return status
    except SystemExit as end:  # argparse has written its message
        return int(end.code or 0)
    except KeyboardInterrupt:
        print(f"{program}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # who read has read enough, as `head` does
        _hush(sys.stdout)
        return READER_GONE
    except MemoryError as error:
        print(f"{program}: out of memory: {error or 'the input is too large'}; ask for less", file=sys.stderr)
        return USAGE_ERROR
    except (ValueError, OSError, ImportError, ArithmeticError) as error:
        from linsolve.core.arguments import printable  # with NumPy, which `linsolve --help` does without

        text = printable(" ".join(str(error).split())) or type(error).__name__
        print(f"{program}: {text}", file=sys.stderr)
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
