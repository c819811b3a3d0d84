"""`linsolve applies`: the exact solutions that hold for a network."""

from __future__ import annotations

import argparse

__all__ = ["HELP", "add", "run"]

HELP = "which exact solution holds for a network, how far others are"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("weights", metavar="WEIGHTS", help="a .npz file with the layers W1, W2, ..., first to last")
    parser.add_argument("data", metavar="DATA", help="digits, breast_cancer, tree, a .npz (X, Y) or a .csv file")
    parser.add_argument("--target", metavar="COLUMN", help="label column of a .csv file (default: the last)")
    parser.add_argument("--rates", metavar="A,B,...", help="learning rates, one a layer (default: 1)")
    parser.add_argument("--center", action="store_true", help="remove the means of inputs and targets first")
    parser.add_argument("--until", type=float, metavar="T", help="horizon of bounds and measurements, in time")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    from linsolve import applies, data
    from linsolve.solvability.files import read_rates, read_weights

    weights = read_weights(options.weights)
    rates = read_rates(options.rates) if options.rates is not None else None
    dataset = data.load(options.data, target=options.target)
    X, Y = dataset.inputs, dataset.targets
    if options.center:
        X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    verdict = applies(weights, (X, Y), rates, until=options.until)
    print(verdict.to_json() if options.json else verdict)
    return 0
