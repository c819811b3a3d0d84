"""`linsolve collapse`: the training of a network to neural collapse, by theory and by simulation."""

from __future__ import annotations

import argparse
from pathlib import Path

from linsolve.cli.result import add_json, print_json, print_rows

__all__ = ["EXAMPLE", "HELP", "add", "run"]

HELP = "compute the training of a network to neural collapse, by theory and by simulation"
EXAMPLE = "linsolve collapse --start aligned --classes 4"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--classes", type=int, default=3, metavar="C", help="set the number of classes [3]")
    parser.add_argument("--samples", type=int, default=4, metavar="M", help="set the samples of each class [4]")
    parser.add_argument(
        "--kappas", default="2,1,0.5", metavar="D,C,N",
        help="set the feature kernel of a sample with itself (D), with its class (C), with other classes (N) [2,1,0.5]",
    )  # fmt: skip
    parser.add_argument(
        "--features", type=int, metavar="n", help="set the number of features [the number of classes plus two]"
    )
    parser.add_argument("--scale", type=float, default=0.3, help="set the size of the initial weights [0.3]")
    parser.add_argument(
        "--start", metavar="KIND",
        help="set the kind of start: balanced, lambda, aligned, mean, scatter or generic, described by --list [scatter "
        "with --bias 0.1; balanced with --weights]",
    )  # fmt: skip
    parser.add_argument("--list", action="store_true", help="list the kinds of starts, one a line")
    parser.add_argument(
        "--imbalance", type=float, help="set lambda for 'lambda', or the largest imbalance for 'aligned' [0.5]"
    )
    parser.add_argument(
        "--bias", type=float, help="set the initial bias of every class [1/C; 0 for 'mean', random for 'generic']"
    )
    parser.add_argument("--weights", metavar="FILE", help="read h, w, b from a .npz file instead of drawing weights")
    parser.add_argument("--seed", type=int, default=0, help="set the seed of the initial weights [0]")
    parser.add_argument(
        "--until", type=float, metavar="T", help="stop at this time [when the slowest part of the residual is small]"
    )
    parser.add_argument(
        "--step", type=float, help="set the step of the descent, in units of time [2%% of the largest stable step]"
    )
    parser.add_argument("--out", metavar="DIR", help="write the results to this folder [collapse-KIND]")
    add_json(parser, "the numbers and the files")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    from linsolve.studies.collapse.report import check_destination, numbers, read_weights, summary, write
    from linsolve.studies.collapse.run import collapse
    from linsolve.studies.collapse.starts import KINDS
    from linsolve.systems.collapse.neural_collapse import NeuralCollapse

    if options.list:
        options.parser.refuse_beside(options, "--list", "json")
        if print_json(options, KINDS):
            return 0
        print_rows(KINDS.items())
        return 0
    if options.start is None:
        options.start = "scatter" if options.weights is None else "balanced"
        if options.weights is None and options.bias is None:
            options.bias = 0.1
    kappa_d, kappa_c, kappa_n = _three(options.kappas)
    flow = NeuralCollapse(kappa_d, kappa_c, kappa_n, options.classes, options.samples)
    source = options.start if options.weights is None else str(Path(options.weights).resolve())
    folder = check_destination(f"collapse-{options.start}" if options.out is None else options.out, source)
    names = ("start", "features", "scale", "imbalance", "bias", "seed", "until", "step")
    chosen = {name: getattr(options, name) for name in names}
    weights = read_weights(options.weights) if options.weights is not None else None
    found = collapse(flow, weights=weights, **chosen)
    rows, files = summary(found), write(found, folder, source)
    if print_json(options, numbers(found) | {"files": files}):
        return 0
    print_rows(rows)
    for path in files:
        print(path)
    return 0


def _three(text: str) -> list[float]:
    """Return the three entries of the feature kernel."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if len(found) != 3:
        raise ValueError(f"collapse: kappas = {text!r} must be three numbers (feature kernel); say 2,1,0.5")
    return found
