"""Measured speed as Markdown: one row per workload, one row per target ratio, and all timings."""

from __future__ import annotations

import math

from benchmarks.markdown import table
from benchmarks.speed import FAST, GOOD, JAX, NUMPY, computer, fastest, judged
from benchmarks.timing import Timing, short

__all__ = ["brief", "text"]


def with_error(timing: Timing | None) -> str:
    """Return a time with its error."""
    if timing is None:
        return "-"
    return short(timing.seconds) + ("" if math.isnan(timing.error) else f" ({timing.error:.0e})")


def times(ratio: float) -> str:
    """Return a ratio of times, as a fraction below one."""
    if math.isnan(ratio):
        return "-"
    return f"{ratio:.3g}" if ratio >= 1 else f"1/{1 / ratio:.3g}"


def is_peer(timing: Timing) -> bool:
    """Whether a timing is a measured one of another tool."""
    return not timing.who.startswith(("ours", "floor", "limit")) and timing.workload != "absent"


def by_workload(timings: list[Timing]) -> str:
    """Return our times, the floor and the fastest sufficiently accurate peer of each workload."""
    rows = []
    for name in dict.fromkeys(t.workload for t in timings if t.who.startswith("ours")):
        mine, fast, jitted = (fastest(timings, name, who) for who in (NUMPY, FAST, JAX))
        floor = next((t for t in timings if t.workload == name and t.who.startswith("floor")), None)
        among = [t for t in timings if t.workload in ({"W1", "W2"} if name == "W1" else {name}) and is_peer(t)]
        peer = min((t for t in among if not t.error > GOOD), key=lambda t: t.seconds, default=None)
        best = min((t for t in (mine, fast, jitted) if t), key=lambda t: t.seconds)
        ratios = [times(t.seconds / floor.seconds) if t and floor else "-" for t in (mine, fast, jitted)]
        beside = f"{floor.who.removeprefix('floor: ')}: {short(floor.seconds)}" if floor else "-"
        other = (f"{peer.who}: {with_error(peer)}", f"{peer.seconds / best.seconds:.3g}") if peer else ("-", "-")
        rows.append((name, *map(with_error, (mine, fast, jitted)), beside, *ratios, *other))
    head = ("workload", *(f"{who} (error)" for who in (NUMPY, FAST, JAX)), "floor")
    over = ("NumPy / floor", "compiled / floor", "JAX / floor")
    return table((*head, *over, "best peer (error)", "times faster"), rows)


def by_reach(timings: list[Timing]) -> str:
    """Return the target ratios of times and the measured ones."""
    rows = []
    for reach, mine, other, ratio in judged(timings):
        who = f"{reach.workload}: {mine.who if mine else reach.who}"
        rows.append((who, other.who if other else reach.other, f"<= {times(reach.ratio)}", times(ratio)))
    return table(("ours", "other", "reach, ratio of times", "measured"), rows)


def by_bound(timings: list[Timing]) -> str:
    """Return the targets that are missed: the time that each needs, and the parts of our time, measured alone."""
    rows = []
    for reach, mine, other, ratio in judged(timings):
        if mine is None or other is None or not ratio > reach.ratio:
            continue
        own = mine.workload, reach.against
        parts = [t for part in reach.parts for t in timings if t.workload in own and t.who.startswith(part)]
        needs, least = reach.ratio * other.seconds, sum(t.seconds for t in parts)
        terms = " + ".join(f"{t.who.removeprefix('floor: ')} {short(t.seconds)}" for t in parts) or "-"
        terms += f" = {short(least)}" if len(parts) > 1 else ""
        verdict = "out of reach" if least >= needs else "missed"
        who = f"{mine.workload}: {mine.who}", other.who
        rows.append((*who, short(needs), terms, short(mine.seconds), verdict))
    return table(("ours", "other", "needs", "parts of ours, measured alone", "ours takes", "target"), rows)


def in_full(timings: list[Timing]) -> str:
    """Return all timings."""
    rows = [
        (t.workload, t.who, short(t.seconds), "" if math.isnan(t.error) else f"{t.error:.1e}", t.remark)
        for t in timings
    ]
    return table(("workload", "method", "time", "error", "remark"), rows)


def brief(timings: list[Timing]) -> str:
    """Return the tables of workloads and of target ratios as one text."""
    about = f"Medians of interleaved calls in one run on {computer()}; errors against 50 digits. The best peer is the "
    about += f"fastest with an error below {GOOD:.0e}."
    return "\n\n".join((about, by_workload(timings), by_reach(timings)))


def text(timings: list[Timing]) -> str:
    """Return all tables as one text."""
    rest = "<details><summary>All timings</summary>", in_full(timings), "</details>"
    return "\n\n".join((brief(timings), by_bound(timings), *rest))
