"""`linsolve published`: the published formulas on record, with verdict, corrected form and test of each."""

from __future__ import annotations

import argparse
from typing import Any

__all__ = ["EXAMPLE", "HELP", "add", "run"]

HELP = "list published formulas with the verdict of their check; errata lists the corrected ones"
EXAMPLE = "linsolve published --source atanasov_2022 --verdict corrected --check"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--source", metavar="KEY", help="list one paper only, such as atanasov_2022")
    parser.add_argument(
        "--verdict",
        metavar="WORDS",
        help="list one verdict only: exact, 'exact under a condition', 'leading order', corrected, 'different setting'",
    )
    parser.add_argument(
        "--check", action="store_true", help="evaluate each formula, print its error; exit 1 on failure"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="print a table in Markdown")
    form.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    from linsolve.papers import published

    verdict = options.verdict
    if options.command == "errata" and verdict is None:
        verdict = published.CORRECTED
    rows = [_row(each, options.check) for each in published.find(options.source, verdict=verdict)]
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
        "published": formula.printed,
        "formula": formula.latex,
        "about": list(formula.about),
        "evidence": formula.evidence,
        "test": formula.name,
        "tolerance": formula.tolerance,
    }
    if check:
        errors = formula.errors()
        row |= {"error": errors.stated, "error as published": errors.printed, "holds": formula.holds(errors)}
    return row


def _errors(row: dict[str, Any]) -> str:
    if "error" not in row:
        return ""
    published = "" if row["error as published"] is None else f", as published {row['error as published']:.2g}"
    return f"error {row['error']:.1e} (of {row['tolerance']:.0e}){published}" + ("" if row["holds"] else "  FAILS")


def _as_json(rows: list[dict[str, Any]]) -> str:
    import json

    return json.dumps(rows, indent=1)


def _counts(rows: list[dict[str, Any]]) -> str:
    kinds = [row["verdict"] for row in rows]
    parts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds)) or "none"
    papers = len({row["source"] for row in rows})
    counts = f"{len(rows)} formulas of {papers} paper{'s' * (papers != 1)}"
    return f"{counts}: {parts}; tests/papers/test_published.py runs each under its name"


def _as_text(rows: list[dict[str, Any]]) -> str:
    lines: list[str] = []
    for k, row in enumerate(rows):
        if not k or rows[k - 1]["source"] != row["source"]:
            lines += ["", row["source"]]
        under = f" ({row['holds under']})" if row["holds under"] else ""
        lines.append(f"  {row['equation']:<24} {row['verdict']}{under}: {row['states']}")
        if row["published"]:
            lines += [f"      published  {row['published']}", f"      holds      {row['formula']}"]
        lines.append(f"      test       {row['test']}" + (f"  {_errors(row)}" if "error" in row else ""))
    return "\n".join([*lines[1:], "", _counts(rows)])


def _as_markdown(rows: list[dict[str, Any]]) -> str:
    checked = bool(rows) and "error" in rows[0]
    head = ["source", "equation", "verdict", "statement", "as published", "holds", "test"] + ["errors"] * checked
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for row in rows:
        formulas = [f"${row[name]}$".replace("|", r"\vert ") if row[name] else "" for name in ("published", "formula")]
        under = f"; {row['holds under']}".replace("|", r"\vert ") if row["holds under"] else ""
        cells = [row["source"], row["equation"], row["verdict"] + under, row["states"], *formulas, f"`{row['test']}`"]
        lines.append("| " + " | ".join(cells + [_errors(row)] * checked) + " |")
    return "\n".join([*lines, "", _counts(rows)])
