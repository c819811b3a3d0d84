"""`linsolve learn`: a network on a data set, followed by three routes."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

__all__ = ["HELP", "add", "run"]

HELP = "follow a network on a data set, exactly and by simulation"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("data", metavar="DATA", help="digits, breast_cancer, tree, a .npz (X, Y) or a .csv file")
    parser.add_argument("--classes", metavar="A,B,...", help="keep only these classes")
    parser.add_argument("--target", metavar="COLUMN", help="label column of a .csv file (default: the last)")
    parser.add_argument("--depth", type=float, default=2, help="layers (default 2)")
    parser.add_argument(
        "--width", type=int, help="units of a hidden layer (default: the smaller of inputs and outputs)"
    )
    parser.add_argument("--scale", type=float, help="size of the initial weights (default 1e-3; larger where deeper)")
    parser.add_argument("--imbalance", type=float, default=0.0, help="of the two layers' initial weights (default 0)")
    parser.add_argument("--rate", type=float, default=1.0, help="learning rate, 1/tau (default 1)")
    parser.add_argument("--step", type=float, help="step of the descent in units of time (default: 2%% of the largest)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the initial weights (default 0)")
    parser.add_argument("--out", metavar="DIR", help="where the results go (default: learn-DATA)")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    from linsolve import data
    from linsolve.studies.learn.report import check_destination, write
    from linsolve.studies.learn.rows import summary
    from linsolve.studies.learn.run import learn

    path = Path(options.data)
    source = str(path.resolve()) if os.path.exists(path) else options.data
    out = f"learn-{path.name.replace('.', '-')}" if options.out is None else options.out
    folder = check_destination(out, source)
    classes = [c.strip() for c in options.classes.split(",") if c.strip()] if options.classes is not None else None
    dataset = data.load(options.data, classes=classes, target=options.target)
    chosen = {name: getattr(options, name) for name in ("depth", "width", "scale", "imbalance", "rate", "step", "seed")}
    found = learn(dataset, **chosen)
    sections = summary(found)
    width = max(len(row.name) for rows in sections.values() for row in rows)
    for title, rows in sections.items():
        print(title)
        for row in rows:
            print(f"  {row.name:<{width}}  {row.value}" + (f"  ({row.meaning})" if row.meaning else ""))
    for name, note in write(found, folder, source).items():
        print(f"{name}: {note}")
    print(f"Open {folder / 'report.html'}")
    return 0
