"""Our closed forms under `jax.jit` on the CPU, compiled before they are timed, with donated output buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import linsolve as ls
from benchmarks import workloads
from benchmarks.timing import Way

jax.config.update("jax_enable_x64", True)

WHO = "ours, JAX"


class Jitted:
    """A function of arrays whose outputs, of one shape, overwrite those of its last call.

    Parameters
    ----------
    function : callable
        Returns a tuple of arrays.
    given : tuple
        Its arguments, arrays and flows.
    """

    def __init__(self, function: Callable[..., tuple[Any, ...]], *given: Any) -> None:
        # the output of the last call is not read, but its memory is used again
        self.run = jax.jit(lambda _, *given: function(*given), donate_argnums=0, keep_unused=True)
        self.given = jax.tree.map(jnp.asarray, given)
        self.function, self.out = function, ()

    def __call__(self) -> tuple[Any, ...]:
        if not self.out:
            self.out = tuple(jnp.zeros(v.shape, v.dtype) for v in jax.eval_shape(self.function, *self.given))
        self.out = jax.block_until_ready(self.run(self.out, *self.given))
        return self.out


def followed(problem: workloads.Modes, workload: str, scale: float = 1, remark: str = "") -> Way:
    """Return the evaluation of an ensemble of modes."""
    call = Jitted(lambda flow, t, a0: (flow(t, a0)["a"],), problem.flow, problem.t, problem.a0)
    return Way(
        workload, WHO, call, scale, lambda found: workloads.error_of_modes(problem, np.asarray(found[0])), remark
    )


def observed(problem: workloads.Networks) -> Way:
    """Return the evaluation of observables of networks given by all weights."""

    def values(net: Any, t: Any, u: Any, w: Any) -> tuple[Any, ...]:
        flow, z0 = ls.TwoLayerOrder.of(net, net.State(u=u, w=w[..., None]))
        traj = flow(t, z0)
        return tuple(traj[name] for name in problem.names)

    def wrong(found: tuple[Any, ...]) -> float:
        return workloads.error_of_networks(problem, dict(zip(problem.names, map(np.asarray, found), strict=True)))

    call = Jitted(values, problem.flow, problem.t, problem.u, problem.w)
    return Way("W3", WHO, call, 1, wrong, "most of it: sums of the weights in double-double")


def ways(small: bool) -> list[Way]:
    """Return the computations; of deep modes only a part, as intermediate results take memory."""
    members, times = (20, 8) if small else (5000, workloads.TIMES)
    scale, remark = workloads.FULL["W4"] / members, f"{members} members, scaled"
    return [
        followed(workloads.modes(40, 8) if small else workloads.modes(), "W1"),
        observed(workloads.networks(3, 20, 8) if small else workloads.networks()),
        *(
            followed(workloads.deep_modes(depth, members, times), f"W4, L = {depth:g}", scale, remark)
            for depth in workloads.DEPTHS[-1 if small else 0 :]
        ),
    ]
