"""`linsolve errata`: the published formulas that are checked, with their verdicts, corrections and tests."""

from __future__ import annotations

import argparse
from typing import Any

__all__ = ["HELP", "add", "run"]

HELP = "published formulas, checked: verdict, correction and test of each"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--source", metavar="KEY", help="only those of one paper, such as atanasov_2022")
    parser.add_argument("--misprints", action="store_true", help="only what is misprinted")
    parser.add_argument(
        "--check", action="store_true", help="evaluate each and print the errors; fails if one does not hold"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="print a table in Markdown")
    form.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    from linsolve.papers import published as errata

    rows = [_row(each, options.check) for each in errata.find(options.source, misprints=options.misprints)]
    write = _as_json if options.json else _as_markdown if options.markdown else _as_text
    print(write(rows))
    return 0 if all(row.get("holds", True) for row in rows) else 1


def _row(formula: Any, check: bool) -> dict[str, Any]:
    row = {
        "source": formula.source,
        "equation": formula.number,
        "states": formula.states,
        "verdict": formula.verdict,
        "holds under": formula.condition,
        "printed": formula.printed,
        "formula": formula.latex,
        "about": list(formula.about),
        "evidence": formula.evidence,
        "test": formula.name,
        "tolerance": formula.tolerance,
    }
    if check:
        errors = formula.errors()
        row |= {"error": errors.stated, "error as printed": errors.printed, "holds": formula.holds(errors)}
    return row


def _figures(row: dict[str, Any]) -> str:
    if "error" not in row:
        return ""
    printed = "" if row["error as printed"] is None else f", as printed {row['error as printed']:.2g}"
    return f"error {row['error']:.1e} (of {row['tolerance']:.0e}){printed}" + ("" if row["holds"] else "  FAILS")


def _as_json(rows: list[dict[str, Any]]) -> str:
    import json

    return json.dumps(rows, indent=1)


def _counted(rows: list[dict[str, Any]]) -> str:
    kinds = [row["verdict"] for row in rows]
    parts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    papers = len({row["source"] for row in rows})
    counts = f"{len(rows)} formulas of {papers} paper{'s' if papers > 1 else ''}"
    return f"{counts}: {parts}; tests/test_errata.py runs each under its name"


def _as_text(rows: list[dict[str, Any]]) -> str:
    lines: list[str] = []
    for k, row in enumerate(rows):
        if not k or rows[k - 1]["source"] != row["source"]:
            lines += ["", row["source"]]
        under = f" ({row['holds under']})" if row["holds under"] else ""
        lines.append(f"  {row['equation']:<24} {row['verdict']}{under}: {row['states']}")
        if row["printed"]:
            lines += [f"      printed  {row['printed']}", f"      holds    {row['formula']}"]
        lines.append(f"      test     {row['test']}" + (f"  {_figures(row)}" if "error" in row else ""))
    return "\n".join([*lines[1:], "", _counted(rows)])


def _as_markdown(rows: list[dict[str, Any]]) -> str:
    checked = bool(rows) and "error" in rows[0]
    head = ["source", "equation", "verdict", "what it states", "as printed", "what holds", "test"] + [
        "figures"
    ] * checked
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for row in rows:
        formulas = [f"${row[name]}$".replace("|", r"\vert ") if row[name] else "" for name in ("printed", "formula")]
        under = f"; {row['holds under']}".replace("|", r"\vert ") if row["holds under"] else ""
        cells = [row["source"], row["equation"], row["verdict"] + under, row["states"], *formulas, f"`{row['test']}`"]
        lines.append("| " + " | ".join(cells + [_figures(row)] * checked) + " |")
    return "\n".join([*lines, "", _counted(rows)])
