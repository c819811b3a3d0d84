"""Mutants that change nothing that can be seen: the name of each, without lines, and the reason."""

EQUIVALENT: dict[str, str] = {
    "linsolve/systems/mode/growth_traced.py:growth: t > _LATE -> t >= _LATE": "both branches have converged then",
    "linsolve/core/adaptive.py:adaptive_descent: times[-1] + h -> times[-1] - h": "both say that h vanishes beside t",
}
