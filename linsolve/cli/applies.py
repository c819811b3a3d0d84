"""`linsolve applies`: the exact solutions that hold for a network."""

from __future__ import annotations

import argparse

__all__ = ["EXAMPLE", "HELP", "add", "run"]

HELP = "find the exact solution that holds for a network, or the nearest one and its error"
EXAMPLE = "linsolve applies weights.npz digits --center"
NOT_EXACT = 3


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.description = (
        "Find the exact solutions that hold for the linear network in WEIGHTS on the data set DATA. If none holds, "
        "report the nearest exact case, the measured error of using it, and the conditions that fail. Exit status: 0 "
        "exact, 3 not exact, 2 bad input."
    )
    parser.add_argument(
        "weights",
        metavar="WEIGHTS",
        help="read the layers from this .npz file: W1, W2, ..., NAME.weight (PyTorch), or NAME.kernel (Keras, Flax: "
        "transposed); biases must be zero",
    )
    parser.add_argument(
        "data", metavar="DATA", help="take digits, breast_cancer, tree, a .npz file (X, Y) or a .csv file"
    )
    parser.add_argument("--target", metavar="COLUMN", help="take the labels from this column of a .csv file [last]")
    parser.add_argument("--rates", metavar="A,B,...", help="set the learning rates, one a layer [1]")
    parser.add_argument("--center", action="store_true", help="remove the means of inputs and targets first")
    parser.add_argument("--until", type=float, metavar="T", help="measure errors up to this time [a learning time]")
    parser.add_argument(
        "--tolerance",
        type=float,
        metavar="D",
        help="count a condition as holding up to this relative distance [1e-9; 1.9e-6 for float32 weights or data]",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--all", action="store_true", help="print every flow with every condition, and all nearby cases")
    form.add_argument("--json", action="store_true", help="print the verdict as JSON")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    import dataclasses

    from linsolve import data
    from linsolve.solvability.decision import judge
    from linsolve.solvability.files import read_rates, read_weights

    weights = read_weights(options.weights)
    rates = read_rates(options.rates) if options.rates is not None else None
    dataset = data.load(options.data, target=options.target)
    X, Y = dataset.inputs, dataset.targets
    if options.center:
        X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    verdict = judge(
        weights.layers, (X, Y), rates, covariances=False, until=options.until, tolerance=options.tolerance,
        names=weights.names,
    )  # fmt: skip
    verdict = dataclasses.replace(verdict, remarks=(*weights.notes, *verdict.remarks))
    print(verdict.to_json() if options.json else verdict.report() if options.all else verdict)
    return 0 if verdict.exact else NOT_EXACT
