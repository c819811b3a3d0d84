"""`linsolve learn`: a network trained on a data set, in closed form, by integration and by gradient descent."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from linsolve.cli.result import add_json, print_json

__all__ = ["EXAMPLE", "HELP", "add", "run"]

HELP = "train a linear network on a data set, in closed form and by simulation"
EXAMPLE = "linsolve learn digits --classes 0,1,2"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "data", metavar="DATA", help="use digits, breast_cancer or tree, or read a .npz file (X, Y) or a .csv file"
    )
    parser.add_argument("--classes", metavar="A,B,...", help="keep only these classes")
    parser.add_argument("--target", metavar="COLUMN", help="read the labels from this column of a .csv file [last]")
    parser.add_argument("--depth", type=float, default=2, help="set the number of layers [2]")
    parser.add_argument("--width", type=int, help="set the number of hidden units [the smaller of inputs and outputs]")
    parser.add_argument("--scale", type=float, help="set the size of the initial weights [1e-3; larger if deeper]")
    parser.add_argument(
        "--imbalance", type=float, default=0.0, help="set lambda of two layers: W2^T W2 = W1 W1^T + lambda I [0]"
    )
    parser.add_argument("--rate", type=float, default=1.0, help="set the learning rate, 1/tau [1]")
    parser.add_argument(
        "--step", type=float, help="set the step of the descent, in units of time [2%% of the largest stable step]"
    )
    parser.add_argument("--seed", type=int, default=0, help="set the seed of the initial weights [0]")
    parser.add_argument(
        "--descent",
        action="store_true",
        help="start from aligned weights, and also compare the descent with its exact theory",
    )
    parser.add_argument("--out", metavar="DIR", help="write the results to this folder [learn-DATA]")
    add_json(parser, "the numbers and the files")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    from linsolve.solvability.files import load_for
    from linsolve.studies.learn.report import check_destination, write
    from linsolve.studies.learn.rows import summary
    from linsolve.studies.learn.run import learn

    path = Path(options.data)
    source = str(path.resolve()) if os.path.exists(path) else options.data
    out = f"learn-{path.name.replace('.', '-')}" if options.out is None else options.out
    folder = check_destination(out, source)
    classes = [c.strip() for c in options.classes.split(",") if c.strip()] if options.classes is not None else None
    dataset = load_for("learn", options.data, classes=classes, target=options.target)
    chosen = {
        name: getattr(options, name)
        for name in ("depth", "width", "scale", "imbalance", "rate", "step", "seed", "descent")
    }
    found = learn(dataset, **chosen)
    sections = summary(found)
    notes = write(found, folder, source)
    numbers: dict[str, Any] = {title: {row.name: row.value for row in rows} for title, rows in sections.items()}
    if print_json(options, numbers | {"files": sorted(folder.iterdir()), "notes": notes}):
        return 0
    width = max(len(row.name) for rows in sections.values() for row in rows)
    for title, rows in sections.items():
        print(title)
        for row in rows:
            print(f"  {row.name:<{width}}  {row.value}" + (f"  ({row.meaning})" if row.meaning else ""))
    for name, note in notes.items():
        print(f"{name}: {note}")
    print(f"Open {folder / 'report.html'}")
    return 0
