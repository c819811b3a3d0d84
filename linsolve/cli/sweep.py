"""`linsolve sweep`: a grid of networks, or an ensemble of random ones, from a file."""

from __future__ import annotations

import argparse
from typing import Any

from linsolve.cli.result import add_json, print_json

__all__ = ["EXAMPLE", "HELP", "add", "run"]

HELP = "evaluate a grid or an ensemble of networks that a file describes"
EXAMPLE = "linsolve sweep --example > sweep.toml; linsolve sweep sweep.toml"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "spec",
        nargs="?",
        metavar="SPEC",
        help="read this .toml or .json file; --example prints one. Its key store = FOLDER.zarr (extra [store]) keeps "
        "finished blocks of a grid, and an interrupted sweep is resumed from them; block sets their size",
    )
    parser.add_argument("--example", action="store_true", help="print a specification with comments that can be run")
    parser.add_argument("--out", metavar="FILE", help="write the result to this .npz or .nc file [as in SPEC]")
    parser.add_argument(
        "--engine",
        metavar="NAME",
        help="set the evaluation engine of a grid: plain, blocks (bitwise equal), or compiled (extra [fast])",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an existing result")
    add_json(parser, "the range of each value and the files")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    import dataclasses
    import importlib.util
    from pathlib import Path

    from linsolve.core.results import folder_to_fill
    from linsolve.ensembles import spec as specs

    if options.example:
        options.parser.refuse_beside(options, "--example")
        print(specs.EXAMPLE, end="")
        return 0
    if options.spec is None:
        raise ValueError("sweep: SPEC is missing (a .toml or .json file); linsolve sweep --example prints one")
    spec = specs.read(options.spec)
    if options.out is not None:
        spec = dataclasses.replace(spec, out=options.out)
    if options.engine is not None:
        spec = dataclasses.replace(spec, engine=options.engine)
    out = Path(spec.out)
    if out.suffix not in (".npz", ".nc"):
        raise ValueError(f"sweep: out = {out} must end in .npz or .nc (NumPy's archives, netCDF); rename it")
    folder_to_fill("sweep", out.parent)
    if out.suffix == ".nc" and not all(importlib.util.find_spec(name) for name in ("xarray", "netCDF4")):
        raise ImportError(f'sweep: out = {out} needs xarray and netCDF4; pip install ".[labelled]" in the clone')
    for path in (out, out.with_suffix(".png")):
        if path.is_dir():
            raise ValueError(f"sweep: out = {path} is a folder (where a file goes); choose another name")
        if path.exists() and not options.overwrite:
            raise ValueError(f"sweep: out = {path} is there already; say --overwrite, or choose another name")

    from linsolve.ensembles.execute import BlockError
    from linsolve.ensembles.from_spec import perform, write
    from linsolve.ensembles.store import StoreError

    try:
        found = perform(spec)
    except (BlockError, StoreError, TypeError, KeyError) as error:
        raise ValueError(str(error.args[0] if error.args else error)) from error
    files = write(found, out)
    if print_json(options, {"result": str(found), "values": _ranges(found), "files": files}):
        return 0
    for line in _summary(found):
        print(line)
    for path in files:
        print(path)
    return 0


def _ranges(found: Any) -> dict[str, dict[str, Any]]:
    """Return shape and range of each value by name."""
    arrays = {name: value for name, value in found.arrays().items() if name not in getattr(found, "axes", {})}
    return {name: {"shape": v.shape, "least": v.min(), "largest": v.max()} for name, v in arrays.items()}


def _summary(found: Any) -> list[str]:
    """Return the kind of the result and the range of each value, in a line each."""
    lines, arrays = [str(found)], found.arrays()
    names = [name for name in arrays if name not in getattr(found, "axes", {})]
    width = max(map(len, names))
    for name in names:
        value = arrays[name]
        if name.endswith("_omitted") and not value.any():
            continue
        low, high = f"{value.min():.6g}", f"{value.max():.6g}"
        text = low if low == high else f"{low} to {high}"
        lines.append(f"  {name:<{width}}  {text}" + (f"  (shape {value.shape})" if value.ndim else ""))
    return lines
