"""Mutants that change nothing that can be seen: the beginning of the name of each, and the reason.

A function may hold the same number in other places: then the key is the name and a part of the line that is meant.
"""

EQUIVALENT: dict[str | tuple[str, str], str] = {
    "linsolve/systems/mode/growth_traced.py:growth: t > _LATE -> t >= _LATE": "both branches have converged then",
    "linsolve/core/adaptive.py:adaptive_descent: times[-1] + h -> times[-1] - h": "both say that h vanishes beside t",
    "linsolve/engines/compiled.py:_past_the_cache: not even or any": "the same numbers, stored another way",
    "linsolve/cli/result.py:print_json: 1 -> 2": "the same JSON, indented otherwise",
    "linsolve/engines/compiled.py:module: 23 -> 24": "the least work for a thread: the same numbers on fewer threads",
    "linsolve/arithmetic/symbols.py:_sqrt: sympy.count_ops(x) <= _LARGEST": "a limit on work: the same value",
    "linsolve/systems/attention/linear_attention.py:_flat: 1 -> 2": "the map is square",
    "linsolve/systems/attention/linear_attention.py:strengths: 1 -> 2": "the map is square",
    "linsolve/systems/kernel_regime/kernel_matrix.py:symmetric: 1 -> 2": "the kernel is square",
    "linsolve/systems/whitened/imbalance.py:_diagonal: 1 -> 2": "the matrix is square",
    "linsolve/systems/whitened/buffers.py:raised: 1 -> 2": "the matrix is square",
    "linsolve/studies/phases/reversal.py:_isochrones: 1e-06 -> 2e-06": "a margin far below the size of a pixel",
    "linsolve/systems/collapse/published_limits.py:means_of_a_kernel_without_classes: 0.1 -> 0.2": "another example",
    "linsolve/systems/random_networks/published_background.py:limit_of_gradient_descent: 4000 -> 4001": "converged",
    "linsolve/systems/gated/race_clock.py:_unlogistic: 1 -> 2": "both branches are exact at u = -1.5",
    "linsolve/systems/lora/low_rank_adaptation.py:observables: n_out <= n_in -> n_out < n_in": "the map is square then",
    "linsolve/systems/kernel_regime/frozen_kernel.py:__post_init__: np if arithmetic.is_object(xp)": "the same check",
    "linsolve/systems/whitened/whitened_two_layer.py:solution: 0 * self.tau": "both are 0",
    "linsolve/systems/lora/low_rank_adaptation.py:_network: self.scale * self.ratio * self.tau": "times 0",
    "linsolve/systems/streaming_sgd/typical.py:_pruned: weights > NEGLIGIBLE": "this very weight is negligible",
    "linsolve/systems/streaming_sgd/typical.py:log_rate: 0.0 -> 1.0": "a value of the branch that is not taken",
    "linsolve/systems/mode/growth.py:_more: reached < digits -> reached <= digits": "one step more than needed",
    "linsolve/systems/mode/growth_far.py:module: 400 * log(2)": "saturation is negligible beyond either ratio",
    "linsolve/systems/mode/relaxation.py:_panels: panels + 1 -> panels - 1": "fewer panels, exact to rounding, too",
    "linsolve/engines/loop.py:text: 2 -> 3": "loads that no instruction uses",
    "linsolve/engines/compiled.py:module: 2 -> 3": "sizes of tiles and cached arrays: the same numbers",
    ("linsolve/engines/compiled.py:_run: 0 -> 1", "judged[:] = 0"): "finite, like 0, unless an output is not",
    "linsolve/systems/gated/unimodal_bias.py:_departures: layer @ self.moments.first / s_a": "s_a is the unit, 1",
    "linsolve/systems/lora/low_rank_adaptation.py:observables: squares > 0 -> squares >= 0": "0 either way",
    "linsolve/solvability/laws.py:module: 4000000 -> 4000001": "a limit on memory",
    "linsolve/plot/axes.py:scale_axis: values.min() < FLOOR * top": "a value on the very end of the axis is drawn",
}


def is_equivalent(name: str, line: str) -> bool:
    """Return whether a mutant of this name, in this line of the source, is listed."""
    keys = ((key, "") if isinstance(key, str) else key for key in EQUIVALENT)
    return any(name.startswith(known) and part in line for known, part in keys)
