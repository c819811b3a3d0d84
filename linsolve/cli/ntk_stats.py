"""`linsolve ntk-stats`: how much the tangent kernels of random networks differ, by depth and phase."""

from __future__ import annotations

import argparse

__all__ = ["HELP", "add", "run"]

HELP = "dispersion of random networks' tangent kernels against depth: exact, in the limit, and sampled"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--width", type=int, default=100, help="units of a hidden layer (default 100)")
    parser.add_argument("--inputs", type=int, help="dimension of the input (default: the width)")
    parser.add_argument("--depth", type=int, default=100, help="layers of weights, up to which (default 100)")
    parser.add_argument(
        "--activation", default="relu", metavar="UNIT", help="relu, linear, or a leaky unit's slope (default relu)"
    )
    parser.add_argument(
        "--weight-variance",
        metavar="A,B,...",
        help="variances of the weights times fan-in (default: two in each phase and the edge of chaos)",
    )
    parser.add_argument("--networks", type=int, default=50_000, help="networks at a depth (default 50000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of random networks (default 0)")
    parser.add_argument("--out", metavar="DIR", help="where ntk-stats.png, .pdf and .npz go (default: ntk-stats)")


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
    print(table(found))
    for path in write(found, folder):
        print(path)
    return 0


def _numbers(text: str | None) -> list[float] | None:
    """Return the numbers of a list with commas."""
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(
            f"ntk-stats: weight_variance = {text!r} is not a list of numbers (variances of the weights times fan-in); "
            "write 1.6,2,2.4"
        ) from None
