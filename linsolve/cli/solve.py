"""`linsolve solve`: the training trajectory of a network, in closed form or integrated, with figures and a page."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from linsolve.cli.applies import add_network, read_network, read_rates
from linsolve.cli.result import add_json, print_json

__all__ = ["EXAMPLE", "HELP", "add", "run"]

HELP = "compute the training trajectory of a network, in closed form or by integration, with figures and a page"
EXAMPLE = "linsolve solve weights.npz data.npz --t 0:5:200 --out training"
MOST = 1_000_000  # times


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.description = (
        "Train the linear network in WEIGHTS on the data set DATA by gradient flow: in closed form if "
        "an exact solution holds, otherwise by integrating the weights. Write weights, map, losses and tangent kernel, "
        "figures and a page. With --base or --scale the layers are adapters of a frozen map, with --context heads of "
        "linear attention."
    )
    add_network(parser)
    parser.add_argument(
        "--t",
        required=True,
        metavar="TIMES",
        help="evaluate at these finite times: A,B,... or FIRST:LAST:NUMBER, such as 0:5:200",
    )
    parser.add_argument(
        "--rtol", type=float, default=1e-10, help="set the relative tolerance of the integrator [1e-10]"
    )
    parser.add_argument("--out", metavar="DIR", help="write the results to this folder [solve-WEIGHTS]")
    add_json(parser, "route, notes, losses and files")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    from linsolve.solvability.activation import spelled
    from linsolve.solvability.solve import solved
    from linsolve.studies.network.report import check_destination, left_out, write

    times = _times(options.t)
    path = Path(options.weights)
    source = f"{path.resolve()} and {_resolved(options.data)}"
    for name, words in (("test", "test samples"), ("base", "frozen map")):
        if (given := getattr(options, name)) is not None:
            source += f" with the {words} {_resolved(given)}"
    folder = check_destination(f"solve-{path.stem}" if options.out is None else options.out, source)
    weights, data, others = read_network("solve", options)
    traj = solved(
        weights.layers, data.pair, times, read_rates("solve", options.rates), bias=weights.biases,
        activation=spelled("solve", options.activation), rtol=options.rtol, tolerance=options.tolerance,
        covariances=data.covariances, step=options.step, within=options.within, test=data.test, names=weights.names,
        **others,
    )  # fmt: skip
    files = write(traj, data, folder, source, weights.notes)
    notes = [*weights.notes, *traj.notes, *left_out(traj, data)]
    if print_json(options, _numbers(traj, notes, files)):
        return 0
    print(f"route: {traj.route}")
    for note in notes:
        print(f"note: {note}")
    print(f"loss: {traj['loss'][0]:.6g} at t = {times[0]:g}, {traj['loss'][-1]:.6g} at t = {times[-1]:g}")
    if "test_loss" in traj:
        losses = traj["test_loss"]
        print(
            f"test loss: {losses[0]:.6g} at t = {times[0]:g}, {losses[-1]:.6g} at t = {times[-1]:g}; least of the "
            f"{len(times)} times: {losses.min():.6g} at t = {times[losses.argmin()]:g}"
        )
    for each in files:
        print(each)
    return 0


def _resolved(source: str) -> str:
    return str(Path(source).resolve()) if Path(source).exists() else source


def _numbers(traj: Any, notes: list[str], files: list[Path]) -> dict[str, Any]:
    found = {"route": traj.route, "exact": traj.flow is not None, "notes": notes}
    found |= {name: traj[name] for name in ("loss", "train_loss", "test_loss") if name in traj}
    if traj.departure is not None:
        found["departure"] = traj.departure._asdict()
    return found | {"t": traj.t, "files": files}


def _times(text: str) -> Any:
    """Return the times of a list or of FIRST:LAST:NUMBER, finite, not negative and increasing."""
    import numpy as np

    rule = "must be times A,B,... or FIRST:LAST:NUMBER, finite and increasing from 0 or later (time); say 0:5:200"
    try:
        if ":" in text:
            first, last, number = text.split(":")
            count = int(number)
            if not 2 <= count <= MOST:
                raise ValueError(f"solve: t = {text!r} must have 2 to {MOST} times; say 0:5:200")
            found = np.linspace(float(first), float(last), count)
        else:
            found = np.array([float(part) for part in text.split(",")])
    except ValueError as error:
        raise ValueError(str(error) if str(error).startswith("solve:") else f"solve: t = {text!r} {rule}") from None
    if not (np.isfinite(found).all() and found[0] >= 0 and (np.diff(found) > 0).all()):
        raise ValueError(f"solve: t = {text!r} {rule}")
    return found
