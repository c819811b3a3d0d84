"""Results as JSON, in which numbers that are not finite are null."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

__all__ = ["json_text", "plain"]


def json_text(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON; see `plain`.

    Examples
    --------
    >>> json_text({"loss": float("inf"), "t": (0.0, 1.0)})
    '{"loss": null, "t": [0.0, 1.0]}'
    """
    import json

    return json.dumps(plain(value), allow_nan=False, indent=indent)


def plain(value: Any) -> Any:
    """Return a value of JSON types: arrays as lists, records as mappings, None for numbers that are not finite."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
