"""The workloads as an asv suite: ``asv run --config benchmarks/asv.conf.json --python=same --quick``."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))  # for `benchmarks`, after the installed package of the commit
