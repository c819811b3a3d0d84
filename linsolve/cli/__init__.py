"""The subcommands of `linsolve`, one file each: `HELP`, `add` for its arguments, and `run`.

A command's file imports at its top nothing heavier than the standard library, so that ``linsolve --help`` costs
nothing.
"""

from __future__ import annotations

__all__ = ["COMMANDS"]

# a command's name and its file; one line makes it known
COMMANDS = {
    "list": "list_solved",
    "verify": "verify",
    "learn": "learn",
    "applies": "applies",
    "phase": "phase",
    "card": "card",
    "errata": "errata",
    "sweep": "sweep",
    "ntk-stats": "ntk_stats",
    "collapse": "collapse",
    "figure": "figure",
}
