"""`linsolve ntk-stats`: dispersion of the tangent kernels of random networks, by depth and phase."""

from __future__ import annotations

import argparse

from linsolve.cli.result import add_json, print_json

__all__ = ["EXAMPLE", "HELP", "add", "run"]

HELP = "compute the dispersion of the tangent kernel of random networks by depth: exact, in the limit, and sampled"
EXAMPLE = "linsolve ntk-stats --width 30 --depth 10 --networks 20000"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--width", type=int, default=100, help="set the number of units of a hidden layer [100]")
    parser.add_argument("--inputs", type=int, help="set the dimension of the input [the width]")
    parser.add_argument("--depth", type=int, default=100, help="set the largest number of layers of weights [100]")
    parser.add_argument(
        "--activation", default="relu", metavar="UNIT", help="use relu, linear, or a leaky unit of this slope [relu]"
    )
    parser.add_argument(
        "--weight-variance",
        metavar="A,B,...",
        help="set the variances of the weights times fan-in [the edge of chaos and two values on each side of it]",
    )
    parser.add_argument("--networks", type=int, default=50_000, help="sample this many networks at each depth [50000]")
    parser.add_argument("--seed", type=int, default=0, help="set the seed of random networks [0]")
    parser.add_argument("--out", metavar="DIR", help="write ntk-stats.png, .pdf and .npz to this folder [ntk-stats]")
    add_json(parser, "all values and the files")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    from linsolve.core.results import folder_to_fill
    from linsolve.studies.ntk_stats.report import table, write
    from linsolve.studies.ntk_stats.survey import survey

    folder = folder_to_fill("ntk-stats", "ntk-stats" if options.out is None else options.out)
    found = survey(
        options.width, options.inputs, options.depth, options.activation, _numbers(options.weight_variance),
        options.networks, options.seed,
    )  # fmt: skip
    files = write(found, folder)
    if print_json(options, found.arrays() | {"files": files}):
        return 0
    print(table(found))
    for path in files:
        print(path)
    return 0


def _numbers(text: str | None) -> list[float] | None:
    """Return the numbers of a list separated by commas."""
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(
            f"ntk-stats: weight_variance = {text!r} is not a list of numbers (variances of the weights times fan-in); "
            "write 1.6,2,2.4"
        ) from None
