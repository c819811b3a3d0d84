import os

import pytest

os.environ.setdefault("MPLBACKEND", "Agg")
# tests run one to a core already; a BLAS that also takes all cores for 10 x 10 matrices only slows them down
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@pytest.fixture
def undrawn(monkeypatch):
    """Reports with empty files for pictures, in tests of everything but the pictures: drawing takes seconds."""
    from linsolve.studies.comparison import KINDS

    def save_figure(fig, folder, name):
        for kind in KINDS:
            (folder / f"{name}.{kind}").touch()

    for study in ("learn", "collapse"):
        monkeypatch.setattr(f"linsolve.studies.{study}.report.save_figure", save_figure)
