"""`linsolve completion`: shell completion of the command, by the library shtab."""

from __future__ import annotations

import argparse

__all__ = ["EXAMPLE", "HELP", "add", "run"]

HELP = "print the completion script of a shell"
EXAMPLE = "linsolve completion bash >> ~/.bashrc"
SHELLS = ("bash", "zsh")


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.description = (
        "Print a script that completes commands, options and files of linsolve in a shell. Append it to ~/.bashrc, or "
        "write it to _linsolve in a folder of $fpath (zsh). Needs the extra [completion]."
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=f"print the script of {', '.join(SHELLS)}")


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
