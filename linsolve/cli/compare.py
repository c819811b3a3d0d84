"""`linsolve compare`: runs of a simulator against the exact solution, PASS or FAIL."""

from __future__ import annotations

import argparse
from typing import Any

from linsolve.cli.result import add_json, print_json

__all__ = ["EXAMPLE", "HELP", "add", "run"]

HELP = "compare runs of a simulator with the exact solution: errors, observed order, PASS or FAIL"
EXAMPLE = "linsolve compare run.npz --flow TwoLayer --set y=1 --set x=[1,-2,0.5]"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.description = (
        "Compare runs of a simulator with the exact solution of the same network. Exit status: 0 PASS, 1 FAIL, 2 bad "
        "input."
    )
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="read times t (or step numbers k) and arrays over time from this .npz, .csv or .json file: state, weights "
        "w1, w2, ... (NAME.weight, NAME.kernel), or observables; a number step is the step size",
    )
    parser.add_argument("--flow", metavar="NAME", help="compare with the closed form of this flow; see linsolve list")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set a parameter of the flow: a number, A,B,... or nested lists; once for each [those in the first RUN]",
    )
    parser.add_argument(
        "--start",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set a field of the state at t = 0; once for each [the first state of RUN]",
    )
    parser.add_argument(
        "--data",
        metavar="DATA",
        help="compare a linear network with its solution on these samples: digits, breast_cancer, tree, a .npz file "
        "(X, Y) or a .csv file",
    )
    parser.add_argument("--rates", metavar="A,B,...", help="set the learning rates of the layers, with --data [1]")
    parser.add_argument("--steps", metavar="A,B,...", help="set the step size of each run [step in RUN]")
    parser.add_argument("--order", type=float, metavar="P", help="require this order of convergence in the step size")
    parser.add_argument("--tolerance", type=float, default=0.01, metavar="E", help="allow this relative error [0.01]")
    parser.add_argument("--names", metavar="A,B,...", help="compare these quantities [all that are known]")
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="write the figure to this .png, .pdf or .svg file; missing folders are created [none]",
    )
    add_json(parser, "errors, orders and verdict")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    from linsolve.cli.applies import read_rates
    from linsolve.studies.simulators.check import compare
    from linsolve.studies.simulators.figure import checked_path

    if options.out is not None:
        checked_path(options.out)
    if (options.flow is None) == (options.data is None):
        raise ValueError("compare: flow or data must be given, and only one (exact solution); say --flow TwoLayer")
    if options.data is not None and (options.set or options.start):
        raise ValueError(f"compare: {'set' if options.set else 'start'} does not go with --data; leave it out")
    found = compare(
        options.runs,
        _samples(options.data) if options.flow is None else _flow(options),
        start=_values("start", options.start) or None,
        rates=read_rates("compare", options.rates),
        steps=_steps(options.steps),
        order=options.order,
        tolerance=options.tolerance,
        names=None if options.names is None else options.names.split(","),
    )
    if options.out is not None:
        found.draw(options.out)
    if not print_json(options, found.numbers() | {"figure": options.out}):
        print(found)
        if options.out is not None:
            print(options.out)
    return 0 if found.ok else 1


def _steps(text: str | None) -> list[float] | None:
    from linsolve.solvability.files import read_numbers

    return None if text is None else read_numbers("compare", "steps", text, "step sizes", "0.02,0.01")


def _samples(source: str) -> Any:
    from linsolve.solvability.files import read_data

    data = read_data(source, who="compare")
    if data.covariances:
        raise ValueError(f"compare: data = {source} holds second moments but must hold samples X, Y; write these")
    return data.pair


def _flow(options: argparse.Namespace) -> Any:
    """Return the flow with the parameters of ``--set``, and those in the first run."""
    import dataclasses

    from linsolve.core.arguments import unknown_name
    from linsolve.studies.simulators.runs import parameters_in
    from linsolve.systems import flows

    known = {cls.__name__: cls for cls in flows.ALL}
    if options.flow not in known:
        raise ValueError(unknown_name("compare", "flow", options.flow, known))
    cls, given = known[options.flow], _values("set", options.set)
    fields = {field.name: field.default for field in dataclasses.fields(cls)}
    for name in given:
        if name not in fields:
            raise ValueError(unknown_name("compare", f"parameter of {options.flow}", name, fields))
    given = parameters_in(options.runs[0], fields) | given
    missing = [name for name, default in fields.items() if name not in given and default is dataclasses.MISSING]
    if missing:
        raise ValueError(
            f"compare: set is missing {', '.join(missing)} (parameters of {options.flow}); say --set {missing[0]}=VALUE"
        )
    return cls(**given)


def _values(option: str, texts: list[str]) -> dict[str, Any]:
    """Return the numbers and nested lists of NAME=VALUE by name."""
    import json

    found: dict[str, Any] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if name in found:
            raise ValueError(f"compare: {option} gives {name} twice (one value each); give it once")
        numbers = value if value.lstrip().startswith("[") or "," not in value else f"[{value}]"
        try:
            found[name] = json.loads(numbers.replace("inf", "Infinity"))
        except (ValueError, RecursionError):
            found[name] = None
        if not sign or not name or not isinstance(found[name], int | float | list):
            raise ValueError(
                f"compare: {option} = {text!r} must be NAME=VALUE (a number, A,B,... or nested lists); say y=1 or "
                "x=1,-2"
            )
    return found
