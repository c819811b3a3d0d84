"""`linsolve applies`: the exact solutions that hold for a network."""

from __future__ import annotations

import argparse
from typing import Any

__all__ = ["EXAMPLE", "HELP", "add", "add_network", "read_network", "read_rates", "run"]

HELP = "find the exact solution that holds for a network, or the nearest one and its error"
EXAMPLE = "linsolve applies weights.npz digits --center"
NOT_EXACT = 3


def add_network(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments that give a network and its data."""
    parser.add_argument(
        "weights",
        metavar="WEIGHTS",
        help="read the layers from this .npz or .safetensors file: W1, W2, ..., NAME.weight (PyTorch), or NAME.kernel "
        "(Keras, Flax: transposed); biases b1, ..., NAME.bias are trained",
    )
    parser.add_argument(
        "data",
        metavar="DATA",
        help="use digits, breast_cancer or tree, or read a .npz file (X, Y, and X_test, Y_test if it has both; or "
        "Sigma_xx, Sigma_yx) or a .csv file",
    )
    parser.add_argument(
        "--test", metavar="FILE", help="read test samples from this file, and also find the test loss over time"
    )
    parser.add_argument(
        "--layers",
        metavar="A,B,...",
        help="use the layers of these names, first to last, such as 0.weight,2.weight; leave other arrays out [all]",
    )
    parser.add_argument("--target", metavar="COLUMN", help="read the labels from this column of a .csv file [last]")
    parser.add_argument("--rates", metavar="A,B,...", help="set the learning rates, one for each layer [1]")
    parser.add_argument(
        "--activation",
        metavar="NAME",
        help="take hidden units with this activation function: relu, or leaky_relu:ALPHA such as leaky_relu:0.2; exact "
        "for mirrored units and samples [linear]",
    )
    parser.add_argument("--center", action="store_true", help="remove the means of inputs and targets first")
    parser.add_argument(
        "--tolerance",
        type=float,
        metavar="D",
        help="count a condition as holding up to this relative distance [1e-9; 1.9e-6 for float32 weights or data]; "
        "solve then uses the closed form, whatever its error",
    )
    parser.add_argument(
        "--step",
        type=float,
        metavar="H",
        help="also find the first time at which gradient descent with this step differs from gradient flow",
    )
    parser.add_argument(
        "--within",
        type=float,
        metavar="D",
        help="set the size of that difference, as a share of the largest output [0.01]; needs --step",
    )
    parser.add_argument(
        "--base", metavar="FILE", help="add the frozen map in this .npz file, its only array, to the outputs (LoRA) [0]"
    )
    parser.add_argument(
        "--scale",
        type=float,
        metavar="C",
        help="multiply the product of the layers by this factor, 1e-12 to 1e12; alpha/rank in LoRA [1]",
    )
    parser.add_argument(
        "--context",
        type=float,
        metavar="N",
        help="take WEIGHTS as heads of linear attention and DATA as tokens, this many in a context. "
        "Arrays of WEIGHTS: value (heads,) and key_query (heads, d, d), or value (heads,), key and query (heads, d). "
        "Arrays of DATA, a .npz file: covariance (d, d), or tokens (P, N + 1, d) and targets (P, N + 1), the query "
        "last. Takes no --test: give test sequences to linsolve.applies in Python",
    )


def read_network(who: str, options: argparse.Namespace) -> tuple[Any, Any, dict[str, Any]]:
    """Return weights, data, and the arguments base, scale and context of the command `who`."""
    from linsolve.solvability.architecture_files import read_attention, read_base
    from linsolve.solvability.files import read_data, read_weights

    others = {"base": None, "scale": options.scale, "context": options.context}
    if options.context is not None:
        for name in ("layers", "target", "center", "test", "base"):
            if getattr(options, name):
                raise ValueError(f"{who}: --{name} does not go with --context (linear attention); leave it out")
        return *read_attention(who, options.weights, options.data, options.context), others
    weights = read_weights(options.weights, who, options.layers)
    data = read_data(options.data, target=options.target, center=options.center, who=who, test=options.test)
    if options.base is not None:
        others["base"] = read_base(who, options.base)
    return weights, data, others


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.description = (
        "Find the exact solutions that hold for the linear network in WEIGHTS on the data set DATA. If none holds, "
        "report the nearest exact case, the measured error of using it, and the conditions that fail. "
        "With test samples, say when to stop, and whether test accuracy comes later than train accuracy. Exit status: "
        "0 exact, 3 not exact, 2 bad input."
    )
    add_network(parser)
    parser.add_argument(
        "--until",
        type=float,
        metavar="T",
        help="measure errors, and compare the descent of --step, up to this time [a learning time]; --step needs "
        "it if the biases have no exact solution",
    )
    parser.add_argument(
        "--threshold",
        type=float,
        metavar="E",
        help="count a sample as correct up to this squared error [a tenth of the training error of the start]; needs "
        "test samples",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--all", action="store_true", help="print every flow with every condition, and all nearby cases")
    form.add_argument("--json", action="store_true", help="print the verdict as JSON")


def read_rates(who: str, text: str | None) -> list[float] | None:
    """Return the learning rates of a list separated by commas, None if not given."""
    from linsolve.solvability.files import read_numbers

    return None if text is None else read_numbers(who, "rates", text, "learning rates, one a layer", "0.1,0.5")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    import dataclasses

    from linsolve.solvability.activation import spelled
    from linsolve.solvability.answer import answered

    weights, data, others = read_network("applies", options)
    rates = read_rates("applies", options.rates)
    verdict = answered(
        weights.layers, data.pair, rates, covariances=data.covariances, until=options.until,
        tolerance=options.tolerance, names=weights.names, bias=weights.biases, step=options.step,
        within=options.within, test=data.test, threshold=options.threshold,
        activation=spelled("applies", options.activation), **others,
    )  # fmt: skip
    verdict = dataclasses.replace(verdict, remarks=(*weights.notes, *verdict.remarks))
    print(verdict.to_json() if options.json else verdict.report() if options.all else verdict)
    return 0 if verdict.exact else NOT_EXACT
