"""`linsolve completion`: shell completion of the command, by the library shtab."""

from __future__ import annotations

import argparse

__all__ = ["EXAMPLE", "HELP", "add", "run"]

HELP = "print the completion script of a shell"
EXAMPLE = 'eval "$(linsolve completion bash)"'
SHELLS = ("bash", "zsh")


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.description = (
        "Print a script that completes commands, options and files of linsolve in a shell. Load it at the start of the "
        "shell: write the example into ~/.bashrc, or the script into a folder of $fpath as _linsolve (zsh). Needs the "
        "extra [completion]."
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=f"take {', '.join(SHELLS)}")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    try:
        import shtab
    except ImportError:
        raise ImportError(
            'completion: shell completion needs the library shtab; pip install ".[completion]" in the clone'
        ) from None
    print(shtab.complete(options.root, options.shell))
    return 0
