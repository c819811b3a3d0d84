"""The English of docstrings, messages and help texts: rule 1 of the style, read from the code."""

import ast
import re
from pathlib import Path

import pytest

import linsolve

ROOT = Path(linsolve.__file__).parent
# as the subject of a sentence; a question may open with them, and "Where ..., ..." as a clause inside a docstring
OPENERS = re.compile(r"(?:^|(?<=[.:;] )|(?<=\n\n))(What|Who|Whose|How|Which)\b[^.?]*[.?]?")
FIRST = re.compile(r"^(What|Who|Whose|Where|When|How|Which)\b")
PHRASES = re.compile(
    r"\b(that (is|are) none|nobody|somebody|who does it|on paper|the roads?|mis[p]rint(s|ed)?|gloat\w*|honest\w*)\b"
)


def texts(path):
    """Yield line, kind and text of every docstring and of every message of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            docstrings.add(id(node.body[0].value))
            yield node.body[0].lineno, "docstring", re.split(r"\n\s*Examples\n", ast.get_docstring(node))[0]
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
        if " " in text.strip() and id(node) not in docstrings:
            yield node.lineno, "string", text


def faults(text, kind):
    found = [m.group(0)[:60] for m in OPENERS.finditer(text) if not m.group(0).rstrip().endswith("?")]
    if kind == "docstring":
        found += [m.group(0) for m in FIRST.finditer(text) if m.group(0) in ("Where", "When")]
    return found + [m.group(0) for m in PHRASES.finditer(text)]


@pytest.mark.parametrize("folder", sorted(p.name for p in ROOT.iterdir() if (p / "__init__.py").exists()))
def test_no_text_breaks_rule_one(folder):
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {fault}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, kind, text in texts(path)
        for fault in faults(text, kind)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("What a user gives, checked.", True),
        ("Return what a user gives.", False),
        ("A state. Who keeps the code is returned.", True),
        ("How far is it?", False),
        ("When a network is looked at.", True),
        ("Value ranges of every step, from the ranges of the inputs.", False),
        ("Axes that are none.", True),
    ],
)
def test_the_rule_sees_what_it_should(text, wrong):
    assert bool(faults(text, "docstring")) == wrong
