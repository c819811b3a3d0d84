"""Speed of small calls at recorded commits, measured by asv: table, figure, and a check for calls that became slower.

The results are the JSON files that asv writes into ``benchmarks/history``. Times are processor times, which other
processes on the computer change little.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.markdown import table
from benchmarks.timing import short

__all__ = ["Commit", "check", "draw", "measure", "recorded", "rows"]

HERE = Path(__file__).parent
CONFIG = HERE / "asv.conf.json"
MACHINE, SMALL = "reference", "^small"
SLOWER = 1.3  # ratio of times that is no noise; asv also compares the samples


class Commit(NamedTuple):
    """Times of one commit, in seconds by the name of the call."""

    hash: str
    date: float
    seconds: dict[str, float]


def recorded(folder: Path = HERE / "history" / MACHINE) -> list[Commit]:
    """Return the recorded commits, the earliest first."""
    found = [json.loads(path.read_text("utf-8")) for path in folder.glob("*.json") if path.name != "machine.json"]
    return sorted(
        (Commit(each["commit_hash"], each["date"] / 1000, dict(_seconds(each))) for each in found), key=lambda c: c.date
    )


def _seconds(found: dict[str, Any]) -> Any:
    """Yield names and times of the results of a commit; a failed call has none."""
    for name, values in found["results"].items():
        about = dict(zip(found["result_columns"], values, strict=False))
        cases = itertools.product(*about["params"])
        for case, seconds in zip(cases, about["result"] or [], strict=False):
            if seconds is not None and seconds == seconds:
                parts = [name.split(".", 1)[1].replace("time_", "").replace("track_", ""), *case]
                yield ", ".join(part.strip("'") for part in parts), seconds


def names(commits: list[Commit]) -> list[str]:
    """Return the names of the calls that the last commit has."""
    return sorted(commits[-1].seconds)


def rows(commits: list[Commit]) -> list[tuple[str, ...]]:
    """Return the time of each call at each commit, and that of the last over that of the first."""
    found = []
    for name in names(commits):
        known = [each.seconds[name] for each in commits if name in each.seconds]
        cells = [short(each.seconds[name]) if name in each.seconds else "-" for each in commits]
        found.append((name, *cells, f"{known[-1] / known[0]:.2f}"))
    return found


def text() -> str:
    """Return the table of all recorded commits."""
    commits = recorded()
    return table(("call", *(each.hash[:8] for each in commits), "last / first"), rows(commits))


def draw(commits: list[Commit], ax: Any) -> None:
    """Draw the time of each call over that at the first commit that has it."""
    looks = itertools.product(("-", "--", ":"), "os^Dv")
    for name, (dash, marker) in zip(names(commits), looks, strict=False):
        known = [(k, each.seconds[name]) for k, each in enumerate(commits) if name in each.seconds]
        at, seconds = zip(*known, strict=True)
        ax.plot(at, [value / seconds[0] for value in seconds], dash, marker=marker, ms=5, lw=1.4, label=name)
    ax.set_ylim(bottom=0.0)
    ax.set_xticks(range(len(commits)), [each.hash[:8] for each in commits])
    ax.set_xlabel("commit, the earliest first")
    ax.set_ylabel("time over that at the first commit")
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=9)


def _asv(*arguments: str, config: Path = CONFIG) -> int:
    base = [sys.executable, "-m", "asv"]
    subprocess.run([*base, "machine", "--config", str(config), "--machine", MACHINE, "--yes"], check=True)
    command, *rest = arguments
    named = ["--config", str(config), "--machine", MACHINE, "--bench", SMALL]
    return subprocess.run([*base, command, *named, *rest], check=False).returncode


def measure() -> str:
    """Measure the last commit and add it to the record in benchmarks/history; return the table of all commits."""
    if find_spec("asv") is None:
        return 'Not measured: asv is missing; pip install ".[peers]" in the clone.'
    _asv("run", "--skip-existing-successful", "HEAD^!")
    return text()


def check() -> int:
    """Measure the last commit and the last recorded one in turns; return 1 if a call has become slower, else 0."""
    known = json.loads(CONFIG.read_text("utf-8"))
    folder = HERE / known["env_dir"]
    folder.parent.mkdir(exist_ok=True)
    own = {key: str(HERE / known[key]) for key in ("repo", "benchmark_dir", "env_dir")}
    config = folder.parent / "check.json"  # the results of a check are not recorded
    config.write_text(json.dumps(known | own | {"results_dir": str(folder.parent / "check")}), encoding="utf-8")
    base = recorded()[-1].hash
    return _asv("continuous", "--factor", str(SLOWER), "--interleave-rounds", base, "HEAD", config=config)
