"""The subcommands of `linsolve`, one file each: `HELP`, `EXAMPLE`, `add` for its arguments, and `run`.

At its top a command's file imports only the standard library, so that ``linsolve --help`` is fast.
"""

from __future__ import annotations

__all__ = ["COMMANDS"]

# a command's name and its file; add a command with one line
COMMANDS = {
    "list": "list_solved",
    "verify": "verify",
    "learn": "learn",
    "applies": "applies",
    "solve": "solve",
    "compare": "compare",
    "phase": "phase",
    "card": "card",
    "published": "published",
    "errata": "published",
    "sweep": "sweep",
    "ntk-stats": "ntk_stats",
    "collapse": "collapse",
    "figure": "figure",
    "explore": "explore",
    "completion": "completion",
}
