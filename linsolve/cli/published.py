"""`linsolve published`: published formulas, each with place, quote, verdict, the form that holds, and its test."""

from __future__ import annotations

import argparse
from typing import Any

__all__ = ["EXAMPLE", "HELP", "add", "run"]

HELP = "list published formulas with quote, verdict and reason (errata: only those that need a correction)"
EXAMPLE = "linsolve published --source atanasov_2022 --check"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--source", metavar="KEY", help="list one paper only, such as atanasov_2022")
    parser.add_argument(
        "--verdict",
        metavar="WORDS",
        help="list one verdict only: holds, 'holds under a condition', 'leading order', convention, typographical, "
        "incorrect, or corrected for the last two",
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
    from linsolve.papers.references import REFERENCES

    row = {
        "source": formula.source,
        "edition": REFERENCES[formula.source].edition,
        "place": formula.place,
        "states": formula.states,
        "quote": formula.quote,
        "setting": formula.setting,
        "verdict": formula.verdict,
        "reason": formula.reason,
        "follows": formula.follows,
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
    from linsolve.core.json_text import json_text

    return json_text(rows, indent=1)


def _counts(rows: list[dict[str, Any]]) -> str:
    papers = len({row["source"] for row in rows})
    formulas = f"{len(rows)} formula{'s' * (len(rows) != 1)} of {papers} paper{'s' * (papers != 1)}"
    from linsolve.core.published_formula import CORRECTIONS

    follows = [row["follows"] for row in rows if row["verdict"] in CORRECTIONS]
    if follows:
        formulas += f"; {len(follows)} need a correction, {sum(map(bool, follows))} of them as another one does"
    return f"{formulas}; tests/papers/test_published.py runs each under its name"


def _judged(row: dict[str, Any]) -> str:
    follows = f"; as in {row['source']}-{row['follows']}" if row["follows"] else ""
    return row["verdict"] + (f": {row['reason']}" if row["reason"] else "") + follows


def _as_text(rows: list[dict[str, Any]]) -> str:
    lines: list[str] = []
    for k, row in enumerate(rows):
        if not k or rows[k - 1]["source"] != row["source"]:
            lines += ["", f"{row['source']} ({row['edition']})"]
        lines += [f"  {row['place']}: {row['states']}", f"      quote    {row['quote']}"]
        lines += [
            f"      setting  {row['setting']}",
            f"      verdict  {_judged(row)}",
            f"      formula  {row['formula']}",
        ]
        lines.append(f"      test     {row['test']}" + (f"  {_errors(row)}" if "error" in row else ""))
    return "\n".join([*lines[1:], "", _counts(rows)])


def _as_markdown(rows: list[dict[str, Any]]) -> str:
    checked = bool(rows) and "error" in rows[0]
    head = ["source", "place", "statement", "quote", "verdict", "form that holds", "test"] + ["errors"] * checked
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for row in rows:
        cells = [row["source"], row["place"], row["states"], row["quote"], _judged(row), f"${row['formula']}$"]
        cells += [f"`{row['test']}`"] + [_errors(row)] * checked
        lines.append("| " + " | ".join(cell.replace("|", r"\vert ") for cell in cells) + " |")
    return "\n".join([*lines, "", _counts(rows)])
