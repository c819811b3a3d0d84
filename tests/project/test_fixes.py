"""Every error of the package names the fix: after a semicolon, or in a second sentence, read from the code."""

import ast
import re
from pathlib import Path

import pytest

import linsolve

ROOT = Path(linsolve.__file__).parent
ERRORS = {"ValueError", "TypeError", "NotExact", "OverflowError", "ArithmeticError"}
FIX = re.compile(r"; \S|[.] [A-Z]")
EXCEPTIONS = {  # by file and function
    "data/archive.py: _array": "a reason inside the message of `arrays`, which names the fix",
    "data/archive.py: _refuse_format": "a reason inside the message of `arrays`, which names the fix",
    "systems/two_layer/phase_classes.py: _rational": "caught by the function itself",
}
TREES = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text("utf-8")) for path in sorted(ROOT.rglob("*.py"))}


def functions(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


RETURNS = {}  # returned expressions by the name of a function, for messages that a function writes
for each in TREES.values():
    for made in functions(each):
        found = [node.value for node in ast.walk(made) if isinstance(node, ast.Return) and node.value is not None]
        RETURNS.setdefault(made.name, []).extend(found)


def text(node, local, depth=2):
    """Return the constant text of an expression, with that of the names and the calls in it, "{}" for other values."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.IfExp):
        return text(node.body, local, depth) + text(node.orelse, local, depth)
    if isinstance(node, ast.JoinedStr | ast.BinOp):
        return "".join(text(part, local, depth) for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr))
    if isinstance(node, ast.FormattedValue):
        return text(node.value, local, depth)
    parts = []
    if depth and isinstance(node, ast.Name):
        parts = local.get(node.id, ["{}"])
    if depth and isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        parts = RETURNS.get(node.func.id, [])
    return " ".join(part if isinstance(part, str) else text(part, {}, depth - 1) for part in parts) or "{}"


def assigned(function):
    """Return the expressions assigned to each name in a function; an error that it catches names no fix."""
    local = {node.name: [" "] for node in ast.walk(function) if isinstance(node, ast.ExceptHandler) and node.name}
    for node in ast.walk(function):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            if isinstance(target, ast.Name) and getattr(node, "value", None) is not None:
                local.setdefault(target.id, []).append(node.value)
    return local


def raised(function):
    """Yield line and message of every error that a function raises, but for those that it passes on."""
    local = assigned(function)
    for node in ast.walk(function):
        error = node.exc if isinstance(node, ast.Raise) else None
        if isinstance(error, ast.Call) and getattr(error.func, "id", None) in ERRORS:
            caught = any(local.get(getattr(part, "id", None)) == [" "] for part in ast.walk(error.args[0]))
            message = text(error.args[0], local)
            if not (caught and message.strip() in ("", "{}")):
                yield node.lineno, message


def without_fix(name, tree):
    return [
        f"{name}:{line}: {message}"
        for function in functions(tree)
        if f"{name}: {function.name}" not in EXCEPTIONS
        for line, message in raised(function)
        if not FIX.search(message)
    ]


@pytest.mark.parametrize("room", sorted({name.split("/")[0] for name in TREES if "/" in name}))
def test_messages_name_a_fix(room):
    wrong = [fault for name in TREES if name.split("/")[0] == room for fault in without_fix(name, TREES[name])]
    assert wrong == []


@pytest.mark.parametrize("place", EXCEPTIONS)
def test_no_exception_is_idle(place):
    name, function = place.split(": ")
    (found,) = (each for each in functions(TREES[name]) if each.name == function)
    assert any(not FIX.search(message) for _, message in raised(found))


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ("raise ValueError(f'{who}: t = {t} must be positive (time)')", True),
        ("raise ValueError(f'{who}: t = {t} must be positive (time); say 1.0')", False),
        ("rule = 'must be positive; say 1.0'\n    raise TypeError(f'{who}: t {rule}')", False),
        ("raise TypeError(f'{who}: t {rule}')", True),
        ("raise ValueError(unknown_name(who, 'name', name, known))", False),
        ("raise ValueError(message)", True),
        ("try:\n        pass\n    except KeyError as error:\n        raise ValueError(error.args[0])", False),
        ("raise ValueError('t is negative. Give a later time.')", False),
        ("raise KeyError(name)", False),
    ],
)
def test_the_rule_sees_what_it_should(body, wrong):
    assert bool(without_fix("file.py", ast.parse(f"def made(who):\n    {body}"))) == wrong
