"""``python -m benchmarks.mutation [--each 10] [--seed 0] [--only FOLDER] [--work FOLDER] [--write FILE]``: mutants.

Each mutant changes one operator, comparison, condition or number of a module in a copy of the repository. The quick
tests that execute the changed line run there, those of the module's own folder first, then others, until one fails: the
mutant is killed. It is killed, too, if a test takes ten times its time, and survives if all pass. Mutants of
``equivalent.py`` change nothing that can be seen and are not counted. A test that fails without a mutant, too, is left
out. Prints the mutants and the score of each folder; `--work` keeps the lines that each test executes and the mutants
that were killed, so that a second run takes minutes. Needs the package coverage.
"""

from __future__ import annotations

import argparse
import collections
import compileall
import json
import shutil
import tempfile
from pathlib import Path

from benchmarks.markdown import table, write
from benchmarks.mutation.equivalent import is_equivalent
from benchmarks.mutation.sites import Mutant, draw_mutants
from benchmarks.mutation.tests import Covered, Outcome, run, warm_up

ROOT = Path(__file__).resolve().parents[2]
OWN, OTHERS = 40.0, 60.0  # seconds of the tests in the module's own folder, and of others
FILES = 16  # files of other folders; each takes its time to import


def folder_of(path: str) -> str:
    """Return the folder of a module and of its tests."""
    parts = path.split("/")[1:-1]
    return "/".join(parts[: 2 if parts[0] == "systems" else 1])


def modules(only: str) -> dict[str, list[Path]]:
    """Return the modules with mutants by folder."""
    found: dict[str, list[Path]] = collections.defaultdict(list)
    for module in sorted((ROOT / "linsolve").glob("*/**/*.py")):
        folder = folder_of(str(module.relative_to(ROOT)))
        if folder.startswith(tuple(only.split(","))) and (ROOT / "tests" / folder).is_dir() and folder != "systems":
            found[folder].append(module)
    return found


def line_of(mutant: Mutant) -> str:
    """Return the line of the source that a mutant changes, or all of a longer expression."""
    lines = (ROOT / mutant.path).read_text(encoding="utf-8").splitlines()
    return "\n".join(lines[mutant.lines.start - 1 : mutant.lines.stop - 1])


class Judge:
    """Copy of the repository in which mutants are tried."""

    def __init__(self, copied: Path, place: Path) -> None:
        self.copied, self.covered = copied, Covered(copied, place)
        self.kills, self.sound = collections.Counter[str](), set[str]()  # `sound` tests pass without a mutant
        shutil.copytree(ROOT, copied, ignore=shutil.ignore_patterns(".git", "__pycache__", "*.egg-info"))
        # the forks read compiled files and write none: a mutant, of another date, is compiled in memory
        compileall.compile_dir(copied / "linsolve", quiet=1)

    def stages(self, mutant: Mutant) -> list[list[str]]:
        """Return the tests that execute a mutant: those of its folder, then others; killers before, then fast ones."""
        lines = self.covered.tests(mutant.path)
        found = set().union(*(lines.get(line, set()) for line in mutant.lines))
        if mutant.imported or not found:  # the test that imports the module first says nothing about the line
            found = set().union(*lines.values())
        folder = f"tests/{folder_of(mutant.path)}/"
        order = sorted(found, key=lambda test: (-self.kills[test], self.covered.seconds[test]))
        own = self._within(OWN, [test for test in order if test.startswith(folder)], 10**6)
        return [own, self._within(OTHERS, [test for test in order if not test.startswith(folder)], FILES)]

    def _within(self, budget: float, tests: list[str], files: int) -> list[str]:
        chosen, spent, opened = list[str](), 0.0, set[str]()
        for test in tests:
            spent += self.covered.seconds[test]
            opened.add(test.split("::")[0])
            if chosen and (spent > budget or len(opened) > files):
                break
            chosen.append(test)
        return chosen

    def _run(self, tests: list[str], mutant: Mutant | None = None) -> Outcome:
        """Run tests with a mutant or without."""
        if mutant is None:
            return run(tests, self.covered.seconds, self.copied)
        target = self.copied / mutant.path
        target.write_text(mutant.text, encoding="utf-8")
        try:
            return run(tests, self.covered.seconds, self.copied)
        finally:
            shutil.copy2(ROOT / mutant.path, target)

    def check(self, tests: list[str]) -> None:
        """Run tests without a mutant; those that fail say nothing about mutants and are left out."""
        while tests and not (found := self._run(tests)).passed:
            failed = [found.test] if found.test in tests else tests  # none ran if a file could not be collected
            tests = [test for test in tests if test not in failed]
            for test in failed:
                del self.covered.seconds[test]
                print(f"left out   {test} fails without a mutant; run it with pytest", flush=True)
        self.sound.update(tests)

    def _kills(self, tests: list[str], mutant: Mutant) -> bool:
        """Return whether tests fail alone, too, not only after others, and pass without the mutant."""
        if self._run(tests, mutant).passed:
            return False
        self.check([test for test in tests if test not in self.sound])
        return self.sound.issuperset(tests)

    def outcome(self, mutant: Mutant) -> Outcome:
        """Return whether the tests accept a mutant."""
        for tests in self.stages(mutant):
            while not (found := self._run(tests, mutant)).passed:
                ran = found.test in tests  # otherwise a file could not be collected
                if self._kills([str(found.test)] if ran else tests, mutant):
                    self.kills[str(found.test)] += 1
                    return found
                tests = tests[tests.index(str(found.test)) + 1 :] if ran else []
        return Outcome(True)


def score(counts: dict[str, collections.Counter[str]]) -> str:
    """Return the table of killed, surviving and equivalent mutants of each folder."""
    total = sum(counts.values(), collections.Counter[str]())
    rows = []
    for name, found in [*sorted(counts.items()), ("all", total)]:
        decided = found["killed"] + found["survived"]
        share = f"{100 * found['killed'] / decided:.0f} %" if decided else "none decided"
        rows.append((name, str(decided), str(found["killed"]), str(found["equivalent"]), share))
    return table(("folder of `linsolve/`", "decided", "killed", "equivalent", "score"), rows)


def main() -> None:
    """Try mutants of each folder in turn, and print the score."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=10, help="decided mutants of each folder")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample")
    parser.add_argument("--only", default="", help="folders, such as systems/mode,data, or systems for all of them")
    parser.add_argument("--work", type=Path, help="folder that keeps the covered lines and the killed mutants")
    parser.add_argument("--write", type=Path, metavar="FILE", help="also write the table between the markers of FILE")
    given = parser.parse_args()
    warm_up()
    with tempfile.TemporaryDirectory() as place:
        work = given.work or Path(place)
        work.mkdir(parents=True, exist_ok=True)
        judge = Judge(Path(place) / "copy", work.resolve())
        log = work / "killed.json"
        known = json.loads(log.read_text()) if log.exists() else {}
        counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        for folder in sorted({name.split("/")[0] for name in modules("")}):
            judge.covered.add(f"tests/{folder}")
        judge.check(sorted(set(known.values()) & set(judge.covered.seconds)))
        for folder, found in modules(given.only).items():
            for mutant in draw_mutants(ROOT, found, f"{given.seed} {folder}"):
                if counts[folder]["killed"] + counts[folder]["survived"] >= given.each:
                    break
                killer = known.get(mutant.name)
                if is_equivalent(mutant.name, line_of(mutant)):
                    verdict = "equivalent"
                elif killer not in judge.sound:
                    outcome = judge.outcome(mutant)
                    verdict, killer = "survived" if outcome.passed else "killed", outcome.test
                else:
                    verdict = "killed"
                if killer is not None:
                    known[mutant.name] = killer
                    log.write_text(json.dumps(known, indent=1))
                counts[folder][verdict] += 1
                print(f"{verdict:10} {mutant.name} (line {mutant.lines.start}) {killer or ''}", flush=True)
    text = score(counts)
    print(text)
    if given.write:
        write(given.write, "mutation", text)


if __name__ == "__main__":
    main()
