"""Exit status of a command, and its errors: one line on standard error."""

from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["USAGE_ERROR", "OneLine", "ended"]

USAGE_ERROR = 2
INTERRUPTED = 130  # as a shell reports a program ended by SIGINT
READER_GONE = 141  # and by SIGPIPE
IN_PYTHON = {  # arguments of `applies` and `solve` without an option
    "--contexts": "branches need Python: linsolve.applies([[W1, W2], ...], (X, Y), contexts=..., gates=...)",
}
IN_PYTHON["--gates"] = IN_PYTHON["--contexts"]


class OneLine(argparse.ArgumentParser):
    """A parser with errors of one line that name the nearest option or command; it reads -1e-3 as a number."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # argparse takes -1e-3 and -1,2 for the names of options
        self._negative_number_matcher = re.compile(r"-(\d|\.\d|inf|nan)")
        self._given: set[str] = set()  # options of this call

    def parse_known_args(self, *args: Any, **options: Any) -> Any:
        """Parse arguments; an option is refused if it is given twice, unless it collects values."""
        self._given.clear()
        return super().parse_known_args(*args, **options)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        if action.option_strings and not isinstance(action, argparse._AppendAction):
            if action.dest in self._given:
                self.error(f"argument {'/'.join(action.option_strings)}: given twice; give it once")
            self._given.add(action.dest)
        if action.option_strings and action.nargs is None and arg_strings == ["--"]:  # some versions return []
            self.error(f"argument {'/'.join(action.option_strings)}: expected one argument")
        return super()._get_values(action, arg_strings)  # type: ignore[misc]

    def error(self, message: str) -> Any:
        """Exit with the message in one line."""
        if match := re.search(r"argument (\S+): invalid choice: '(.*)' \(choose from (.*)\)", message, re.DOTALL):
            known = [name.strip("'") for name in match[3].split(", ")]
            message = f"{match[1].lower()} = {match[2]!r} is unknown{_nearest(match[2], known)}"
        line = " ".join(message.split())
        shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
        self.exit(USAGE_ERROR, f"linsolve: {shown}; see {self.prog} --help\n")

    def refuse_beside(self, options: argparse.Namespace, form: str, *allowed: str) -> None:
        """Exit if an option other than the form itself, which would have no effect, is given."""
        for action in self._actions:
            own = {form.removeprefix("--"), "help", *allowed}
            if action.dest not in own and (value := getattr(options, action.dest, None)) != action.default:
                self.error(f"{action.dest} = {value} does not go with {form}; leave it out")

    def refuse_unknown(self, extra: Sequence[str]) -> None:
        """Exit with the arguments that the parser does not know, and the nearest option of the first."""
        options = [name for action in self._actions for name in action.option_strings]
        name = extra[0].split("=")[0]
        near = _nearest(name, options) if name.startswith("-") else ""
        near = f"; {IN_PYTHON[name]}" if name in IN_PYTHON else near
        self.error(f"unrecognized arguments: {' '.join(extra)}{near}")


def _nearest(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else ""


def ended(program: str, work: Callable[[], int]) -> int:
    """Run the work of a command and return its exit status.

    Parameters
    ----------
    program : str
        Its name, for errors.
    work : callable
        Prints its result, and returns 0, or 1 if a check failed.

    Returns
    -------
    int
        That of `work`; 2 for bad input, after one line on standard error; 130 after an interrupt, with one line; 141,
        silently, if the output pipe was closed.
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
    except BrokenPipeError:  # the reader has stopped, as `head` does
        _hush(sys.stdout)
        return READER_GONE
    except MemoryError as error:
        print(f"{program}: out of memory: {error or 'the input is too large'}; use a smaller problem", file=sys.stderr)
        return USAGE_ERROR
    except (ValueError, OSError, ImportError, ArithmeticError) as error:
        from linsolve.core.arguments import printable  # with NumPy, which `linsolve --help` does without

        text = printable(" ".join(str(error).split())) or type(error).__name__
        print(f"{program}: {text}", file=sys.stderr)
        return USAGE_ERROR


def _hush(stream: Any) -> None:
    """Redirect a stream whose reader has gone to the null device, so that Python reports no error at exit."""
    try:
        number = stream.fileno()
    except (AttributeError, OSError):  # no file, as in tests
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)
