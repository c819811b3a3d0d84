"""Table 1 of Xu and Ziyin (2024): common scalings and their phases, for zero and for random initial output."""

from __future__ import annotations

from typing import NamedTuple

from linsolve.systems.two_layer.phase_classes import Classification, Exponents, classify

__all__ = ["Entry", "table", "table_text"]

# c_d, c_u, c_w of each scaling
STARTS = {"NTK": (1, 0, 0), "mean field": (1, 0, 0), "Xavier": (1, -1, -1), "Kaiming": (1, 0, -1), "lazy": (0, 0, 0)}

# (c_gamma, c_eta, printed phase) of each block of the table, in the order of the scalings
BLOCKS = {
    "plain": (("-1/2", 0, "kernel"), (-1, 0, "frozen"), (0, 0, "feature"), (0, 0, "unstable"), (1, 0, "unstable")),
    "eta*": (("-1/2", 0, "kernel"), (-1, 1, "feature"), (0, 0, "feature"), (0, -1, "kernel"), (1, -2, "kernel")),
    "+": ((-1, 1, "feature"), (-1, 1, "feature"), (0, 0, "feature"), (-1, 1, "feature"), (0, 0, "feature")),
    "-": (("-1/2", 0, "kernel"), ("-1/2", 0, "kernel"), (1, -2, "kernel"), (0, -1, "kernel"), (1, -2, "kernel")),
}


class Entry(NamedTuple):
    """One entry of the table.

    Parameters
    ----------
    scaling, block : str
        Column and row.
    exponents : Exponents
        For independent Gaussian weights.
    printed : str
        Printed phase; the source's "learning" is called feature here.
    found : Classification
        For independent Gaussian weights.
    zero_output : Classification
        For initial weights with output 0.

    Examples
    --------
    >>> from linsolve import phases
    >>> [entry.block for entry in phases.table() if entry.ambiguous]
    ['eta*', '-']
    """

    scaling: str
    block: str
    exponents: Exponents
    printed: str
    found: Classification
    zero_output: Classification

    @property
    def ambiguous(self) -> bool:
        """Whether the phase depends on the initial output, which the table does not state."""
        return self.found.phase != self.zero_output.phase


def table() -> tuple[Entry, ...]:
    r"""Return the entries of Table 1, row by row; those of the lazy column depend on the initial output.

    Notes
    -----
    Source: Xu and Ziyin (2024), Table 1; both layers learn at the same rate. The lazy column is printed as kernel in
    the rows ``eta*`` and ``-``. That requires an initial output of 0, as the source of lazy training assumes. With
    independent Gaussian weights at fixed width, as in the other columns, ``f0 ~ kappa`` and the kernel changes by
    a factor of order one: feature learning, by disalignment. The column "Kaiming" with ``c_u = 0``, ``c_w = -1`` is
    fan-out; fan-in, ``c_u = -1``, ``c_w = 0``, has the same phases. The source's "learning" is called feature here.

    Examples
    --------
    >>> from linsolve import phases
    >>> [entry.found.phase for entry in phases.table()[:5]]
    ['kernel', 'frozen', 'feature', 'unstable', 'unstable']
    """
    entries = []
    for block, row in BLOCKS.items():
        for (scaling, (c_d, c_u, c_w)), (c_gamma, c_eta, printed) in zip(STARTS.items(), row, strict=True):
            given = Exponents(c_d, c_gamma, c_u, c_w, c_eta, c_eta)
            still = classify(*given._replace(zero_output=True))
            entries.append(Entry(scaling, block, given, printed, classify(*given), still))
    return tuple(entries)


def table_text() -> str:
    """Return the table as text: exponents and phase of each entry, with corrections marked and explained.

    Examples
    --------
    >>> from linsolve import phases
    >>> print(phases.table_text().splitlines()[0])
                   NTK      mean field  Xavier   Kaiming   lazy
    """
    entries = table()
    cells = [["", *STARTS]]
    cells += [[name, *(str(STARTS[s][k]) for s in STARTS)] for k, name in enumerate(("c_d", "c_u", "c_w"))]
    for block in BLOCKS:
        row = [entry for entry in entries if entry.block == block]
        cells.append([])
        cells.append([f"c_gamma {block}", *(str(entry.exponents.c_gamma) for entry in row)])
        cells.append([f"c_eta {block}", *(str(entry.exponents.c_eta_u) for entry in row)])
        cells.append(["phase", *(_phase(entry) for entry in row)])
    widths = [max(len(row[k]) for row in cells if row) for k in range(len(STARTS) + 1)]
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)).rstrip() for row in cells]
    wrong = sum(entry.found.phase != entry.printed for entry in entries)
    lines += [
        "",
        "Two-layer linear networks whose sizes are powers of kappa; both layers learn at the rate kappa^c_eta.",
        "Source: Xu and Ziyin (2024), Table 1, for independent Gaussian weights.",
        f"* printed as kernel, {wrong} entries: true only for an initial output of 0. Here the output starts at order",
        "  kappa, and training removes it by disalignment of the layers.",
    ]
    return "\n".join(lines)


def _phase(entry: Entry) -> str:
    return entry.found.phase + ("*" if entry.found.phase != entry.printed else "")
