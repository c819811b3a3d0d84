"""``python -m benchmarks.mutation [--count 60] [--seed 0] [--minutes 30] [--only FOLDER] [--budget 150]``: mutants.

Each mutant changes one operator, comparison, condition or number of a module in a copy of the repository, and runs
tests of the module's folder there in a fork of this process, which has imported the libraries: first the files that
name most of its contents, then the others. It is killed if a test fails, survives if all pass, and is left undecided
if the budget of processor time ends before. Prints the mutants and the score of each folder; the tests of a folder
without survivors are run without a mutant, too.
"""

from __future__ import annotations

import argparse
import ast
import collections
import copy
import importlib
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
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
SKIPPED = (ast.JoinedStr, ast.Raise, ast.ImportFrom, ast.arguments, ast.AnnAssign)  # texts, types and defaults
LIBRARIES = ("numpy", "scipy.integrate", "scipy.linalg", "scipy.optimize", "scipy.special", "mpmath", "sympy", "pytest")
LIBRARIES += ("hypothesis", "matplotlib.pyplot", "pandas", "xarray", "zarr", "sklearn")
# mutants that change nothing that can be seen: the beginning of the change, without its line, and the reason
EQUIVALENT: dict[str, str] = {
    "linsolve/systems/random_networks/kernel_moments.py: 0 * (widths + omega + beta) + (0 * (second": "a sum of zeros",
    "linsolve/systems/mode/growth_traced.py: t > _LATE -> t >= _LATE": "both branches have converged at that time",
    "linsolve/systems/small_start/published_outputs.py: 2.3 -> 4.6": "a number of an example, the same on both sides",
}


def sites(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that can be mutated."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, SKIPPED):
            continue
        number = isinstance(child, ast.Constant) and type(child.value) in (int, float)
        op = getattr(child, "op", None)
        operator = type(op) in SWAPPED or isinstance(op, ast.USub | ast.Not)
        comparison = isinstance(child, ast.Compare) and type(child.ops[0]) in SWAPPED
        if number or operator or comparison or isinstance(child, ast.If | ast.IfExp):
            yield child
        yield from sites(child)


def mutate(node: ast.AST) -> None:
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


def folder_of(module: Path) -> str:
    """Return the folder of tests of a module."""
    parts = module.relative_to(ROOT / "linsolve").parts[:-1]
    return "/".join(parts[: 2 if parts[0] == "systems" else 1])


def modules(only: str | None) -> dict[str, list[Path]]:
    """Return the modules with mutants by folder of tests."""
    found: dict[str, list[Path]] = collections.defaultdict(list)
    for module in sorted((ROOT / "linsolve").glob("*/**/*.py")):
        folder = folder_of(module)
        if (ROOT / "tests" / folder).is_dir() and folder != "systems" and (only is None or folder.startswith(only)):
            found[folder].append(module)
    return found


def mutant(module: Path, draw: random.Random) -> tuple[str, str] | None:
    """Return the text of a mutated module and the change, or None if it has nothing to mutate."""
    tree = ast.parse(module.read_text())
    found = list(sites(tree))
    if not found:
        return None
    node = draw.choice(found)
    before = copy.deepcopy(node)
    mutate(node)
    shown = [ast.unparse(each.test if isinstance(each, ast.If) else each) for each in (before, node)]
    line = getattr(node, "lineno", 0)
    return ast.unparse(ast.fix_missing_locations(tree)), f"{module.relative_to(ROOT)}:{line}: {shown[0]} -> {shown[1]}"


def is_equivalent(change: str) -> bool:
    """Return whether a change, given with its line, is listed as equivalent."""
    return re.sub(r":\d+:", ":", change, count=1).startswith(tuple(EQUIVALENT))


def tests_of(module: Path) -> list[str]:
    """Return the files of tests of a module's folder, those that name most of its contents first."""
    defined = (ast.FunctionDef, ast.ClassDef)
    names = [node.name for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, defined)]
    known = re.compile(rf"\b({'|'.join(map(re.escape, [module.stem, *names]))})\b")
    if module.name.startswith("published"):  # published formulas of all systems are checked by one file
        return ["tests/papers/test_published.py"]
    files = sorted((ROOT / "tests" / folder_of(module)).glob("**/test_*.py"))
    shares = {file: len(set(known.findall(file.read_text()))) for file in files}
    return [str(file.relative_to(ROOT)) for file in sorted(files, key=lambda file: -shares[file])]


def passes(files: Sequence[str], copied: Path, budget: int) -> bool | None:
    """Return whether files of tests pass in a copy of the repository, None if the seconds of `budget` end before."""
    for file in files:
        spent = _processor_time()
        if (passed := _forked(file, copied, max(budget, 1))) is not True:
            return passed
        budget -= int(_processor_time() - spent)
    return True


def _processor_time() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _forked(file: str, copied: Path, budget: int) -> bool | None:
    child = os.fork()
    if child == 0:
        import pytest

        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        os.chdir(copied)
        sys.path.insert(0, str(copied))
        resource.setrlimit(resource.RLIMIT_CPU, (budget, budget))
        status = 1
        try:
            status = int(pytest.main(["-n0", "-x", "-q", "-p", "no:cacheprovider", "--assert=plain", file]))
        finally:
            os._exit(status)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return None if code in (-signal.SIGXCPU, -signal.SIGKILL) else code in (0, 5)  # 5: no quick test in the file


def survives(module: Path, text: str, copied: Path, count: int, budget: int) -> bool | None:
    """Return whether the tests of a module's folder pass with another text of the module, None if undecided."""
    target = copied / module.relative_to(ROOT)
    good = target.read_text()
    target.write_text(text)
    os.utime(target, (count, count))  # compiled code is known by its time
    try:
        return passes(tests_of(module), copied, budget)
    finally:
        target.write_text(good)


def main() -> None:
    """Draw mutants folder by folder, in turn, until their number or the time is used up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=60, help="number of mutants")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample")
    parser.add_argument("--minutes", type=float, default=30.0, help="time after which no mutant is started")
    parser.add_argument("--only", help="one folder, such as systems/mode, or systems for all of them")
    parser.add_argument("--budget", type=int, default=150, help="seconds of processor time for each mutant")
    given = parser.parse_args()
    draw, found, end = random.Random(given.seed), modules(given.only), time.monotonic() + 60 * given.minutes
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    for library in LIBRARIES:
        importlib.import_module(library)
    decided, killed = collections.Counter[str](), collections.Counter[str]()
    with tempfile.TemporaryDirectory() as place:
        copied = Path(place) / "copy"
        shutil.copytree(ROOT, copied, ignore=shutil.ignore_patterns(".git", "__pycache__", "site", "*.egg-info"))
        os.environ["PYTHONPATH"] = str(copied)
        if not passes(["tests/numerics/test_stable.py"], copied, given.budget):
            raise SystemExit("mutation: tests/numerics/test_stable.py fails without a mutant; run it with pytest")
        folders = draw.sample(sorted(found), len(found))
        drawn = 0
        while drawn < given.count and time.monotonic() < end:
            folder = folders[drawn % len(folders)]
            module = draw.choice(found[folder])
            if (made := mutant(module, draw)) is None or is_equivalent(made[1]):
                continue
            drawn += 1
            lives = survives(module, made[0], copied, drawn, given.budget)
            decided[folder] += lives is not None
            killed[folder] += lives is False
            print({True: "survived ", False: "killed   ", None: "undecided"}[lives], made[1], flush=True)
        for folder in sorted(decided):
            sound = killed[folder] < decided[folder] or passes(tests_of(found[folder][0]), copied, 600)
            print(f"| {folder} | {killed[folder]} of {decided[folder]} |{'' if sound else ' fails without a mutant'}")
    print(f"| all | {killed.total()} of {decided.total()} |")


if __name__ == "__main__":
    main()
