"""The workloads as an asv suite: ``asv run --config benchmarks/asv.conf.json --python=same --quick``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # asv imports only this folder
