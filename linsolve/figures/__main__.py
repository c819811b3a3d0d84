"""``python -m linsolve.figures NAME --out FILE``: a figure of a paper, drawn again; without a name, the list."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from linsolve.commands.ending import OneLine, ended
from linsolve.figures import FIGURES, draw


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status, as `ended` says."""
    return ended("linsolve.figures", lambda: _run(argv))


def _run(argv: Sequence[str] | None) -> int:
    parser = OneLine(prog="python -m linsolve.figures", description=__doc__)
    parser.add_argument("name", nargs="?", metavar="NAME", help="which figure; none lists them")
    parser.add_argument("--out", metavar="FILE", help="where it goes, .png, .pdf or .svg (default: figure-NAME.png)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random starts (default 0)")
    options = parser.parse_args(argv)
    if options.name is None:
        for name, about in FIGURES.items():
            print(f"  {name:<4} {about.source}, {about.title}")
        return 0
    out = options.out or f"figure-{options.name}.png"
    draw(options.name, out, options.seed)
    print(out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
