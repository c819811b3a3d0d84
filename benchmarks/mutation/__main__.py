"""``python -m benchmarks.mutation [--each 10] [--seed 0] [--only FOLDER] [--work FOLDER] [--write FILE]``: mutants.

Each mutant changes one operator, comparison, condition or number of a module in a copy of the repository. The quick
tests that execute the changed line run there, those of the module's own folder first, then others, until one fails: the
mutant is killed. It is killed, too, if a test takes ten times its time, and survives if all pass. Mutants of
``equivalent.py`` change nothing that can be seen and are not counted. Prints the mutants and the score of each
folder; `--work` keeps the lines that each test executes and the mutants that were killed, so that a second run takes
minutes. Needs the package coverage.
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
from benchmarks.mutation.equivalent import EQUIVALENT
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


class Judge:
    """Copy of the repository in which mutants are tried."""

    def __init__(self, copied: Path, covered: Covered) -> None:
        self.copied, self.covered = copied, covered
        self.kills = collections.Counter[str]()
        shutil.copytree(ROOT, copied, ignore=shutil.ignore_patterns(".git", "__pycache__", "site", "*.egg-info"))
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

    def _confirmed(self, test: str | None) -> bool:
        """Return whether a test fails alone, too, not only after others."""
        return test not in self.covered.seconds or not run([test], self.covered.seconds, self.copied).passed

    def outcome(self, mutant: Mutant) -> Outcome:
        """Return whether the tests accept a mutant."""
        target = self.copied / mutant.path
        target.write_text(mutant.text, encoding="utf-8")
        try:
            for tests in self.stages(mutant):
                found = run(tests, self.covered.seconds, self.copied)
                if not found.passed and self._confirmed(found.test):
                    self.kills[str(found.test)] += 1
                    return found
            return Outcome(True)
        finally:
            shutil.copy2(ROOT / mutant.path, target)


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
        judge = Judge(Path(place) / "copy", Covered(ROOT, work.resolve()))
        log = work / "killed.json"
        known = json.loads(log.read_text()) if log.exists() else {}
        counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        tried = set[str]()
        for folder in sorted({name.split("/")[0] for name in modules("")}):
            judge.covered.add(f"tests/{folder}")
        for folder, found in modules(given.only).items():
            for mutant in draw_mutants(ROOT, found, f"{given.seed} {folder}"):
                if counts[folder]["killed"] + counts[folder]["survived"] >= given.each:
                    break
                killer = known.get(mutant.name)
                if mutant.name.startswith(tuple(EQUIVALENT)):
                    verdict = "equivalent"
                elif killer is None:
                    outcome = judge.outcome(mutant)
                    verdict, killer = "survived" if outcome.passed else "killed", outcome.test
                else:
                    verdict = "killed"
                if killer is not None:
                    known[mutant.name] = killer
                    log.write_text(json.dumps(known, indent=1))
                counts[folder][verdict] += 1
                tried.add(mutant.name)
                print(f"{verdict:10} {mutant.name} (line {mutant.lines.start}) {killer or ''}", flush=True)
        killers = sorted({killer for name, killer in known.items() if name in tried} & set(judge.covered.seconds))
        sound = run(killers, judge.covered.seconds, judge.copied)
    if not sound.passed:
        raise SystemExit(f"mutation: {sound.test} fails without a mutant, too; run it with pytest")
    text = score(counts)
    print(text)
    if given.write:
        write(given.write, "mutation", text)


if __name__ == "__main__":
    main()
