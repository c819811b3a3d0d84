"""Provenance of a result: version, command and date."""

from __future__ import annotations

import os
import time
from contextvars import ContextVar

from linsolve.core.version import VERSION

__all__ = ["COMMAND", "provenance"]

COMMAND: ContextVar[str] = ContextVar("COMMAND", default="")  # command line of the run, empty in Python


def provenance() -> tuple[str, str, str]:
    """Return the version of the package, the command line, and the date (UTC).

    The variable ``SOURCE_DATE_EPOCH`` (seconds since 1970) sets the date, for reproducible builds.
    """
    seconds = os.environ.get("SOURCE_DATE_EPOCH", "")
    date = time.gmtime(int(seconds) if seconds.isdecimal() else time.time())
    return f"linsolve {VERSION}", COMMAND.get(), time.strftime("%Y-%m-%d", date)
