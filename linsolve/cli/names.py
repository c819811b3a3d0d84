"""What the commands know by name: every flow and every law."""

from __future__ import annotations

from typing import Any

__all__ = ["known"]


def known() -> dict[str, Any]:
    """Return the flows and laws by name, in the order of their registries."""
    from linsolve.systems import flows, laws

    return {cls.__name__: cls for cls in (*flows.ALL, *laws.ALL)}
