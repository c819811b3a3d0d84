"""Mutants that change nothing that can be seen: the beginning of the name of each, without lines, and the reason."""

EQUIVALENT: dict[str, str] = {
    "linsolve/systems/mode/growth_traced.py:growth: t > _LATE -> t >= _LATE": "both branches have converged then",
    "linsolve/core/adaptive.py:adaptive_descent: times[-1] + h -> times[-1] - h": "both say that h vanishes beside t",
    "linsolve/engines/compiled.py:_past_the_cache: not even or any": "the same numbers, stored another way",
    "linsolve/cli/result.py:print_json: 1 -> 2": "the same JSON, indented otherwise",
    "linsolve/engines/compiled.py:module: 23 -> 24": "the least work for a thread: the same numbers on fewer threads",
    "linsolve/arithmetic/symbols.py:_sqrt: sympy.count_ops(x) <= _LARGEST": "a limit on work: the same value",
    "linsolve/systems/attention/linear_attention.py:_flat: 1 -> 2": "the map is square",
}
