"""``python -m benchmarks.device``: ensembles on a GPU against its copy bandwidth, the processor and fifty digits."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from linsolve.cli.exit_status import OneLine, ended

__all__ = ["main"]

HELP = "measure ensembles on a GPU against its copy bandwidth, the processor and fifty digits"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""

    def work() -> int:
        parser = OneLine(prog="python -m benchmarks.device", description=HELP)
        _add(parser)
        return _run(parser.parse_args(argv))

    return ended("bench", work)


def _add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--ready", action="store_true", help="only print the GPU evaluation of each flow")
    where.add_argument("--gpu", action="store_true", help="on the first CUDA device (extra [cuda12] or [cuda13])")
    where.add_argument("--cpu", action="store_true", help="run the workloads on the processor")
    parser.add_argument("names", nargs="*", metavar="NAME", help='workloads, such as "W1" (default: all)')
    parser.add_argument("--scale", type=float, metavar="X", help="share of all sizes (default: 1; with --cpu 0.001)")
    parser.add_argument("--out", metavar="FILE", help="write the numbers to FILE.json")
    parser.add_argument("--write", metavar="FILE", help="write the table between its markers in a Markdown file")


def _run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    from pathlib import Path

    from benchmarks.device.bench import as_json, bench, inserted, save

    if options.ready:
        _refuse_rest(options)
        _print_ready()
        return 0
    out = None if options.out is None else Path(options.out)
    if out is not None and out.suffix != ".json":
        raise ValueError(f"bench: out = {out} must end in .json (file of the numbers); rename it")
    page = None if options.write is None else Path(options.write)
    if page is not None:
        inserted(page.read_text(encoding="utf-8"), "", str(page))  # raises before any work
    scale = options.scale if options.scale is not None else 1.0 if options.gpu else 1e-3
    report = bench(options.gpu, scale, options.names or None)
    print(report.markdown())
    for row in report.rows:
        if row.note:
            print(f"\n{row.name}: {row.note}", end="")
    print()
    if out is not None:
        save(out, as_json(report))
        print(out)
    if page is not None:
        save(page, inserted(page.read_text(encoding="utf-8"), report.markdown(), str(page)))
        print(page)
    return 0


def _refuse_rest(options: argparse.Namespace) -> None:
    """Raise ValueError for arguments of measurements."""
    for name in ("names", "scale", "out", "write"):
        value = getattr(options, name)
        if value not in (None, []):
            raise ValueError(f"bench: {name} = {value} does not go with --ready (which measures nothing); omit it")


def _print_ready() -> None:
    """Print the GPU evaluation of each flow."""
    from benchmarks.device.ready import ready
    from linsolve.systems import flows

    width = max(map(len, flows.WHERE))
    for flow in flows.ALL:
        print(f"{flow.__name__:<{width}}  {ready(flow)}")


if __name__ == "__main__":
    sys.exit(main())
