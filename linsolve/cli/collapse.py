"""`linsolve collapse`: a network followed to neural collapse, by theory and by simulation."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["HELP", "add", "run"]

HELP = "neural collapse of a network, by theory and by simulation"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--classes", type=int, default=3, metavar="C", help="classes (default 3)")
    parser.add_argument("--samples", type=int, default=4, metavar="M", help="samples of each class (default 4)")
    parser.add_argument(
        "--kappas", default="2,1,0.5", metavar="D,C,N",
        help="feature kernel of a sample with itself, its class, other classes (default 2,1,0.5)",
    )  # fmt: skip
    parser.add_argument("--features", type=int, metavar="n", help="features (default: two more than classes)")
    parser.add_argument("--scale", type=float, default=0.3, help="size of the initial weights (default 0.3)")
    parser.add_argument(
        "--start", metavar="KIND",
        help="balanced, lambda, aligned, mean, scatter or generic (default: scatter with bias 0.1, of which all three "
        "parts of the residual decay, or balanced with --weights); --list describes them",
    )  # fmt: skip
    parser.add_argument("--list", action="store_true", help="describe the kinds of starts, one a line")
    parser.add_argument("--imbalance", type=float, help="lambda, of starts 'lambda' and 'aligned' (default 0.5)")
    parser.add_argument("--bias", type=float, help="bias of every class at the start (default: the start's own)")
    parser.add_argument("--weights", metavar="FILE", help="a .npz with h, w, b instead of random weights")
    parser.add_argument("--seed", type=int, default=0, help="seed of the initial weights (default 0)")
    parser.add_argument("--until", type=float, metavar="T", help="last time (default: until it has settled)")
    parser.add_argument("--step", type=float, help="step of the descent in units of time")
    parser.add_argument("--out", metavar="DIR", help="where the results go (default: collapse-KIND)")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    from linsolve.studies.collapse.report import check_destination, read_weights, summary, write
    from linsolve.studies.collapse.run import collapse
    from linsolve.studies.collapse.starts import KINDS
    from linsolve.systems.collapse.neural_collapse import NeuralCollapse

    if options.list:
        width = max(map(len, KINDS))
        for name, text in KINDS.items():
            print(f"{name:<{width}}  {text}")
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
    rows = summary(found)
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        print(f"{name:<{width}}  {text}")
    for path in write(found, folder, source):
        print(path)
    return 0


def _three(text: str) -> list[float]:
    """Return the three kernels of an option."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if len(found) != 3:
        raise ValueError(f"collapse: kappas = {text!r} must be three numbers (feature kernel); say 2,1,0.5")
    return found
