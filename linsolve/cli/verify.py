"""`linsolve verify`: the checks of flows and laws, as a table or as JSON."""

from __future__ import annotations

import argparse
import itertools
from typing import Any

from linsolve.cli.list_solved import known

__all__ = ["EXAMPLE", "HELP", "add", "run"]

HELP = "check flows from the loss to the closed form and against simulation, and laws by their order or z-scores"
EXAMPLE = "linsolve verify TwoLayer --seeds 5"
MOST_SEEDS = 100_000


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="check these flows and laws [all]")
    parser.add_argument("--seeds", type=int, default=1, metavar="K", help="draw this many examples of each flow [1]")
    parser.add_argument("--dps", type=int, default=50, help="set the decimal digits of the exact checks [50]")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the worst value of each check as JSON")
    form.add_argument("--latex", action="store_true", help="also print the closed forms that SymPy proved, in LaTeX")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    from tqdm import tqdm

    from linsolve.core.arguments import integer, unknown_name

    solved = known()
    for name in options.names:
        if name not in solved:
            raise ValueError(unknown_name("verify", "flow", name, solved))
    integer("verify", "seeds", options.seeds, meaning="examples of each flow", high=MOST_SEEDS)
    chosen = [solved[name] for name in dict.fromkeys(options.names)] or list(solved.values())
    jobs = list(itertools.product(chosen, range(options.seeds)))
    worst: dict[tuple[str, str], Any] = {}
    for cls, seed in tqdm(jobs, disable=None, delay=2, unit="proof", leave=False):
        for check in _prove(cls, seed, options.dps):
            key = (cls.__name__, check.name)
            if key not in worst or _severity(check) > _severity(worst[key]):
                worst[key] = check
    print(_as_json(worst, options.seeds) if options.json else _as_table(worst, options.seeds))
    if options.latex:
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
    from linsolve.core.verify.symbols import latex

    return "\n".join(f"{cls.__name__}: {name} = {form}" for cls in proved for name, form in latex(cls).items())


def _severity(check: Any) -> tuple[bool, float]:
    return not check.ok, check.value if check.value == check.value else float("inf")


def _as_json(worst: dict[tuple[str, str], Any], seeds: int) -> str:
    from linsolve.core.json_text import json_text

    rows = [
        {"flow": flow, "check": name, "ok": c.ok, "value": float(c.value), "tolerance": c.tolerance, "detail": c.detail}
        for (flow, name), c in worst.items()
    ]
    return json_text({"ok": all(row["ok"] for row in rows), "seeds": seeds, "checks": rows}, indent=1)


def _as_table(worst: dict[tuple[str, str], Any], seeds: int) -> str:
    lines: list[str] = []
    names = list(dict.fromkeys(flow for flow, _ in worst))
    for flow in names:
        checks = [check for (owner, _), check in worst.items() if owner == flow]
        failed = [check.name for check in checks if not check.ok]
        lines.append(f"{flow}: {'FAILED: ' + ', '.join(failed) if failed else 'passed'}")
        for c in checks:
            mark = "ok  " if c.ok else "FAIL"
            lines.append(f"  {mark} {c.name:<14} {c.value:8.1e} <= {c.tolerance:7.0e}  {c.detail}")
    failures = sum(not check.ok for check in worst.values())
    examples = f"{seeds} example{'s' if seeds > 1 else ''} each, the worst shown"
    lines.append(f"{len(worst)} checks of {len(names)}, {examples}: {failures or 'none'} failed")
    return "\n".join(lines)
