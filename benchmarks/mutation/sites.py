"""Mutants of a module: one operator, comparison, condition or number changed; texts, types and defaults are not."""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["Mutant", "draw_mutants"]

SWAPPED: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
FREE = ("example",)  # functions that draw a network for `verify`; any network that satisfies the conditions will do
SKIPPED = (ast.JoinedStr, ast.Raise, ast.ImportFrom, ast.arguments, ast.AnnAssign)  # texts, types and defaults


class Mutant(NamedTuple):
    """A changed module: path in the repository, function, change, new text, lines; whether these run on import."""

    path: str
    function: str
    change: str
    text: str
    lines: range
    imported: bool

    @property
    def name(self) -> str:
        """Name without line numbers, stable under edits elsewhere in the module."""
        return f"{self.path}:{self.function}: {self.change}"


class _Site(NamedTuple):
    node: ast.AST
    function: str
    first: int  # line of its statement
    imported: bool  # whether it is executed on import


def _sites(node: ast.AST, function: str = "module", first: int = 1, imported: bool = True) -> Iterator[_Site]:
    """Yield the nodes that can be mutated."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, SKIPPED) or getattr(child, "name", "") in FREE:
            continue
        inside = child.name if isinstance(child, ast.FunctionDef | ast.ClassDef) else function
        start = child.lineno if isinstance(child, ast.stmt | ast.Lambda) else first
        early = imported and not isinstance(child, ast.FunctionDef | ast.Lambda)
        number = isinstance(child, ast.Constant) and type(child.value) in (int, float)
        op = getattr(child, "op", None)
        operator = type(op) in SWAPPED or isinstance(op, ast.USub | ast.Not)
        comparison = isinstance(child, ast.Compare) and type(child.ops[0]) in SWAPPED
        if number or operator or comparison or isinstance(child, ast.If | ast.IfExp):
            yield _Site(child, inside, start, early)
        yield from _sites(child, inside, start, early)


def _text(node: ast.AST) -> bool:
    """Return whether a node is a text, or a choice between texts."""
    if isinstance(node, ast.IfExp):
        return _text(node.body) or _text(node.orelse)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _mutate(node: ast.AST) -> None:
    """Change a node in place."""
    if isinstance(node, ast.Constant):
        node.value = node.value + 1 if isinstance(node.value, int) else 2 * node.value or 1.0  # type: ignore[operator]
    elif isinstance(node, ast.UnaryOp):
        node.op = ast.UAdd() if isinstance(node.op, ast.USub) else ast.Not()
        if isinstance(node.op, ast.Not):  # not not x
            node.operand = ast.UnaryOp(ast.Not(), node.operand)
    elif isinstance(node, ast.Compare):
        node.ops[0] = SWAPPED[type(node.ops[0])]()
    elif isinstance(node, ast.If | ast.IfExp):
        node.test = ast.UnaryOp(ast.Not(), node.test)
    else:
        node.op = SWAPPED[type(node.op)]()  # type: ignore[attr-defined]


def _mutant(root: Path, module: Path, draw: random.Random) -> Mutant | None:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    found = list(_sites(tree))
    if not found:
        return None
    node, function, first, imported = draw.choice(found)
    if _text(node) or module.name == "references.py":  # words, and a bibliography
        return None
    before = copy.deepcopy(node)
    _mutate(node)
    shown = (" ".join(ast.unparse(each.test if isinstance(each, ast.If) else each).split()) for each in (before, node))
    last = node.test if isinstance(node, ast.If) else node
    lines = range(first, (getattr(last, "end_lineno", None) or first) + 1)
    text = ast.unparse(ast.fix_missing_locations(tree))
    return Mutant(str(module.relative_to(root)), function, " -> ".join(shown), text, lines, imported)


def draw_mutants(root: Path, modules: list[Path], seed: str) -> Iterator[Mutant]:
    """Yield different mutants of modules, each module as likely as its share of the lines, without end."""
    draw, seen = random.Random(seed), set()
    sizes = [module.read_text(encoding="utf-8").count("\n") for module in modules]
    misses = 0
    while misses < 1000:  # a folder of few sites ends
        made = _mutant(root, draw.choices(modules, sizes)[0], draw)
        misses += 1
        if made is not None and made.name not in seen:
            seen.add(made.name)
            misses = 0
            yield made
