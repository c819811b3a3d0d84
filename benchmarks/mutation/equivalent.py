"""Mutants that change nothing that can be seen: the beginning of the name of each, without lines, and the reason."""

EQUIVALENT: dict[str, str] = {
    "linsolve/systems/mode/growth_traced.py:growth: t > _LATE -> t >= _LATE": "both branches have converged then",
    "linsolve/core/adaptive.py:adaptive_descent: times[-1] + h -> times[-1] - h": "both say that h vanishes beside t",
    "linsolve/engines/compiled.py:_past_the_cache: not even or any": "the same numbers, stored another way",
    "linsolve/cli/result.py:print_json: 1 -> 2": "the same JSON, indented otherwise",
    "linsolve/engines/compiled.py:module: 23 -> 24": "the least work for a thread: the same numbers on fewer threads",
    "linsolve/arithmetic/symbols.py:_sqrt: sympy.count_ops(x) <= _LARGEST": "a limit on work: the same value",
    "linsolve/systems/attention/linear_attention.py:_flat: 1 -> 2": "the map is square",
    "linsolve/systems/attention/linear_attention.py:strengths: 1 -> 2": "the map is square",
    "linsolve/systems/kernel_regime/kernel_matrix.py:symmetric: 1 -> 2": "the kernel is square",
    "linsolve/studies/phases/reversal.py:_isochrones: 1e-06 -> 2e-06": "a margin far below the size of a pixel",
    "linsolve/systems/collapse/published_limits.py:means_of_a_kernel_without_classes: 0.1 -> 0.2": "another example",
    "linsolve/systems/random_networks/published_background.py:limit_of_gradient_descent: 4000 -> 4001": "converged",
    "linsolve/systems/gated/race_clock.py:_unlogistic: 1 -> 2": "both branches are exact at u = -1.5",
    "linsolve/systems/lora/low_rank_adaptation.py:_network: self.scale * self.ratio * self.tau": "times 0",
    "linsolve/systems/streaming_sgd/typical.py:_pruned: weights > NEGLIGIBLE": "this very weight is negligible",
    "linsolve/systems/streaming_sgd/typical.py:log_rate: 0.0 -> 1.0": "a value of the branch that is not taken",
    "linsolve/systems/mode/growth.py:_more: reached < digits -> reached <= digits": "one step more than needed",
    "linsolve/systems/mode/growth_far.py:module: 400 * log(2)": "saturation is negligible beyond either ratio",
    "linsolve/systems/mode/relaxation.py:_panels: panels + 1 -> panels - 1": "fewer panels, exact to rounding, too",
}
