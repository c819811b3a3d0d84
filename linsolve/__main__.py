"""The `linsolve` command: list what is solved, verify it, learn a data set, judge a network, draw its phases."""

from __future__ import annotations

import argparse
import inspect
import itertools
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["main"]

DESCRIPTION = "Exact training dynamics of solvable linear networks, proved against simulation."
USAGE_ERROR = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; by default those of the process.

    Returns
    -------
    int
        0; 1 where a check failed; 2 where the input cannot be used, after one line on standard error.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal without Unicode shows question marks rather than failing
            stream.reconfigure(errors="replace")
    try:
        options = _parser().parse_args(argv)
    except SystemExit as end:  # argparse has written its message
        return int(end.code or 0)
    try:
        return options.run(options)
    except (ValueError, OSError, ImportError, ArithmeticError) as error:
        text = " ".join(str(error).split()) or type(error).__name__
        print(f"linsolve: {text}", file=sys.stderr)
        return USAGE_ERROR


class _OneLine(argparse.ArgumentParser):
    """A parser whose errors are one line, as all others of this command."""

    def error(self, message: str) -> Any:
        self.exit(USAGE_ERROR, f"linsolve: {message}; see {self.prog} --help\n")


def _parser() -> argparse.ArgumentParser:
    parser = _OneLine(prog="linsolve", description=DESCRIPTION)
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_OneLine)

    show = commands.add_parser("list", help="the flows and laws that are solved, in a line each")
    show.set_defaults(run=_list)

    verify = commands.add_parser("verify", help="prove flows (loss to velocity to closed form, simulation) and laws")
    verify.add_argument("names", nargs="*", metavar="NAME", help="flows and laws to prove; all if none is named")
    verify.add_argument("--seeds", type=int, default=1, metavar="K", help="examples of each flow (default 1)")
    verify.add_argument("--dps", type=int, default=50, help="decimal digits of the exact checks (default 50)")
    verify.add_argument("--json", action="store_true", help="print the worst of each check as JSON")
    verify.add_argument("--latex", action="store_true", help="print the closed forms that SymPy proved, in LaTeX, too")
    verify.set_defaults(run=_verify)

    learn = commands.add_parser("learn", help="follow a network on a data set, exactly and by simulation")
    learn.add_argument("data", metavar="DATA", help="digits, breast_cancer, tree, a .npz (X, Y) or a .csv file")
    learn.add_argument("--classes", metavar="A,B,...", help="keep only these classes")
    learn.add_argument("--target", metavar="COLUMN", help="label column of a .csv file (default: the last)")
    learn.add_argument("--depth", type=float, default=2, help="layers (default 2)")
    learn.add_argument("--width", type=int, help="units of a hidden layer (default: the smaller of inputs and outputs)")
    learn.add_argument("--scale", type=float, help="size of the initial weights (default 1e-3; larger where deeper)")
    learn.add_argument("--imbalance", type=float, default=0.0, help="of the two layers' initial weights (default 0)")
    learn.add_argument("--rate", type=float, default=1.0, help="learning rate, 1/tau (default 1)")
    learn.add_argument("--step", type=float, help="step of the descent in units of time (default: 2%% of the largest)")
    learn.add_argument("--seed", type=int, default=0, help="seed of the initial weights (default 0)")
    learn.add_argument("--out", metavar="DIR", help="where the results go (default: learn-DATA)")
    learn.set_defaults(run=_learn)

    applies = commands.add_parser("applies", help="which exact solution holds for a network, how far others are")
    applies.add_argument("weights", metavar="WEIGHTS", help="a .npz file with the layers W1, W2, ..., first to last")
    applies.add_argument("data", metavar="DATA", help="digits, breast_cancer, tree, a .npz (X, Y) or a .csv file")
    applies.add_argument("--target", metavar="COLUMN", help="label column of a .csv file (default: the last)")
    applies.add_argument("--rates", metavar="A,B,...", help="learning rates, one a layer (default: 1)")
    applies.add_argument("--center", action="store_true", help="remove the means of inputs and targets first")
    applies.add_argument("--until", type=float, metavar="T", help="horizon of bounds and measurements, in time")
    applies.add_argument("--json", action="store_true", help="print the verdict as JSON")
    applies.set_defaults(run=_applies)

    phase = commands.add_parser("phase", help="draw a phase diagram, or print the table of common scalings")
    phase.add_argument("name", nargs="?", metavar="NAME", help="which diagram, or 'table'; --list names them")
    phase.add_argument("--list", action="store_true", help="name the diagrams, in a line each")
    phase.add_argument("--out", metavar="DIR", help="where NAME.png, NAME.pdf and NAME.npz go (default: phase-NAME)")
    phase.add_argument("--cells", type=int, default=121, help="points of the map along each axis (default 121)")
    phase.add_argument("--seed", type=int, default=0, help="seed of random networks (default 0)")
    phase.set_defaults(run=_phase)
    return parser


def _known() -> dict[str, Any]:
    from linsolve import flows, laws

    return {cls.__name__: cls for cls in (*flows.ALL, *laws.ALL)}


def _list(options: argparse.Namespace) -> int:
    known = _known()
    width = max(map(len, known))
    for name, cls in known.items():
        first = (inspect.getdoc(cls) or "").split("\n", 1)[0]
        print(f"{name:<{width}}  {first}")
    return 0


def _verify(options: argparse.Namespace) -> int:
    from tqdm import tqdm

    from linsolve.inputs import unknown_name

    known = _known()
    for name in options.names:
        if name not in known:
            raise ValueError(unknown_name("verify", "flow", name, known))
    if options.seeds < 1:
        raise ValueError(f"verify: seeds = {options.seeds} must be at least 1 (examples of each flow)")
    chosen = [known[name] for name in dict.fromkeys(options.names)] or list(known.values())
    jobs = list(itertools.product(chosen, range(options.seeds)))
    worst: dict[tuple[str, str], Any] = {}
    for cls, seed in tqdm(jobs, disable=None, delay=2, unit="proof", leave=False):
        for check in _prove(cls, seed, options.dps):
            key = (cls.__name__, check.name)
            if key not in worst or _severity(check) > _severity(worst[key]):
                worst[key] = check
    print(_as_json(worst, options.seeds) if options.json else _as_table(worst, options.seeds))
    if options.latex and not options.json:
        print(_as_latex([cls for cls in chosen if (cls.__name__, "symbols") in worst]))
    return 0 if all(check.ok for check in worst.values()) else 1


def _prove(cls: Any, seed: int, dps: int) -> Any:
    """Return the report of a flow's or a law's example."""
    import numpy as np

    from linsolve import Law, verify

    case: Any = cls.example(np.random.default_rng(seed))
    if isinstance(case, Law):
        return verify(case)
    flow, z0 = case
    return verify(flow, z0, dps)


def _as_latex(proved: list[Any]) -> str:
    from linsolve.verify.symbols import latex

    return "\n".join(f"{cls.__name__}: {name} = {form}" for cls in proved for name, form in latex(cls).items())


def _severity(check: Any) -> tuple[bool, float]:
    return not check.ok, check.value if check.value == check.value else float("inf")


def _as_json(worst: dict[tuple[str, str], Any], seeds: int) -> str:
    rows = [
        {"flow": flow, "check": name, "ok": c.ok, "value": float(c.value), "tolerance": c.tolerance, "detail": c.detail}
        for (flow, name), c in worst.items()
    ]
    for row in rows:
        if row["value"] != row["value"]:  # JSON has no nan
            row["value"] = None
    return json.dumps({"ok": all(row["ok"] for row in rows), "seeds": seeds, "checks": rows}, indent=1)


def _as_table(worst: dict[tuple[str, str], Any], seeds: int) -> str:
    lines: list[str] = []
    names = list(dict.fromkeys(flow for flow, _ in worst))
    for flow in names:
        checks = [check for (owner, _), check in worst.items() if owner == flow]
        failed = [check.name for check in checks if not check.ok]
        lines.append(f"{flow}: {'NOT PROVED: ' + ', '.join(failed) if failed else 'proved'}")
        for c in checks:
            mark = "ok  " if c.ok else "FAIL"
            lines.append(f"  {mark} {c.name:<14} {c.value:8.1e} <= {c.tolerance:7.0e}  {c.detail}")
    failures = sum(not check.ok for check in worst.values())
    examples = f"{seeds} example{'s' if seeds > 1 else ''} each, the worst shown"
    lines.append(f"{len(worst)} checks of {len(names)}, {examples}: {failures or 'none'} failed")
    return "\n".join(lines)


def _learn(options: argparse.Namespace) -> int:
    from linsolve import data
    from linsolve.learn import learn
    from linsolve.report import check_destination, summary, write

    folder = Path(options.out if options.out is not None else f"learn-{Path(options.data).stem}")
    check_destination(folder)
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
    for name, note in write(found, folder).items():
        print(f"{name}: {note}")
    print(f"Open {folder / 'report.html'}")
    return 0


def _applies(options: argparse.Namespace) -> int:
    from linsolve import applies, data
    from linsolve.applies.files import read_rates, read_weights

    weights = read_weights(options.weights)
    rates = read_rates(options.rates) if options.rates is not None else None
    dataset = data.load(options.data, target=options.target)
    X, Y = dataset.inputs, dataset.targets
    if options.center:
        X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    verdict = applies(weights, (X, Y), rates, until=options.until)
    print(verdict.to_json() if options.json else verdict)
    return 0


def _phase(options: argparse.Namespace) -> int:
    from linsolve import phases

    names = phases.DIAGRAMS | {"table": "table 1 of Xu and Ziyin (2024), with the lazy column put right"}
    if options.list or options.name is None:
        width = max(map(len, names))
        for name, title in names.items():
            print(f"{name:<{width}}  {title}")
        return 0
    if options.name == "table":
        print(phases.table_text())
        return 0
    found = phases.diagram(options.name, options.cells, options.seed)
    for path in phases.write(found, options.out if options.out is not None else f"phase-{options.name}"):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
