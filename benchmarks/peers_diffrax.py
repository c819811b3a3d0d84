"""diffrax on JAX for CPUs: compiled, mapped over members, in double precision."""

from __future__ import annotations

from functools import partial
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import speed_matrix, workloads
from benchmarks.timing import Way

jax.config.update("jax_enable_x64", True)
SOLVERS = {"Tsit5": diffrax.Tsit5, "Dopri8": diffrax.Dopri8}


def _solve(field: Any, solver: str, tolerance: float, t: Any, z0: Any, kept: Any, args: Any) -> Any:
    control = diffrax.PIDController(rtol=tolerance, atol=1e-3 * tolerance)
    saved = diffrax.SaveAt(ts=t, fn=kept)
    steps = {"max_steps": 16**4, "stepsize_controller": control, "saveat": saved, "args": args}
    # no gradients are needed; this adjoint stores nothing
    steps["adjoint"] = diffrax.ForwardMode()
    return diffrax.diffeqsolve(diffrax.ODETerm(field), SOLVERS[solver](), t[0], t[-1], None, z0, **steps).ys


class Ensemble:
    """Modes of one depth."""

    def __init__(self, problem: workloads.Modes, solver: str, tolerance: float) -> None:
        gain = 1.0 if np.isinf(problem.depth) else problem.depth
        power = 2 - 2 / problem.depth

        def field(_: Any, a: Any, s: Any) -> Any:
            return gain * (a if problem.depth == 2 else a**power) * (s - a)

        def one(a0: Any, s: Any, t: Any) -> Any:
            return _solve(field, solver, tolerance, t, a0, lambda _, a, __: a, s)

        self.run = jax.jit(jax.vmap(one, in_axes=(0, 0, None), out_axes=1))
        self.given = tuple(jnp.asarray(v) for v in (problem.a0, problem.s, problem.t))

    def __call__(self) -> np.ndarray:
        return np.asarray(self.run(*self.given).block_until_ready())


class Training:
    """All weights of two-layer networks."""

    def __init__(self, problem: workloads.Networks, tolerance: float) -> None:
        gamma = problem.gamma

        def field(_: Any, z: Any, __: Any) -> Any:
            u, w = z
            push = -2 * gamma * (gamma * (u @ w) - 1.0)
            return push * w, push * u

        def kept(_: Any, z: Any, __: Any) -> Any:
            u, w = z
            uw, uu, ww = u @ w, u @ u, w @ w
            return {"loss": (gamma * uw - 1) ** 2, "alignment": uw / jnp.sqrt(uu * ww), "ntk": gamma**2 * (uu + ww)}

        def one(u: Any, w: Any, t: Any) -> Any:
            return _solve(field, "Tsit5", tolerance, t, (u, w), kept, None)

        self.run = jax.jit(jax.vmap(one, in_axes=(0, 0, None), out_axes=1))
        self.given = tuple(jnp.asarray(v) for v in (problem.u, problem.w, problem.t))

    def __call__(self) -> dict[str, np.ndarray]:
        return {name: np.asarray(v) for name, v in self.run(*self.given).items()}


class Products:
    """Product and Gram matrices of two-layer networks on white inputs, at all times."""

    def __init__(self, shape: tuple[int, int, int], members: int, times: int, solver: str, tolerance: float) -> None:
        target, _, start = speed_matrix.networks(shape, (speed_matrix.MEMBERS,))

        def field(_: Any, z: Any, s: Any) -> Any:
            p, x, q = z
            e = s - p
            forth, back = e.T @ p, e @ p.T
            return q @ e + e @ x, forth + forth.T, back + back.T

        def one(p: Any, x: Any, q: Any, s: Any, t: Any) -> Any:
            return _solve(field, solver, tolerance, t, (p, x, q), lambda _, z, __: z, s)

        self.run = jax.jit(jax.vmap(one, in_axes=(0, 0, 0, 0, None), out_axes=1))
        given = [v[:members] for v in (*start, target)]
        self.given = tuple(jnp.asarray(v) for v in (*given, speed_matrix.TIMES[:times]))

    def __call__(self) -> list[np.ndarray]:
        return [np.asarray(v) for v in self.run(*self.given)]


class Explicit:
    """Tangent kernels of explicit ReLU networks by automatic differentiation: random weights, one input."""

    def __init__(self, count: int, width: int, depth: int) -> None:
        def output(weights: Any, x: Any) -> Any:
            for w in weights[:-1]:
                x = jax.nn.relu(w @ x)
            return (weights[-1] @ x)[0]

        def one(key: Any) -> Any:
            keys = jax.random.split(key, depth)
            sizes = [width] * depth + [1]
            weights = [
                jnp.sqrt(2.0 / n) * jax.random.normal(k, (m, n), dtype=jnp.float64)
                for k, n, m in zip(keys, sizes[:-1], sizes[1:], strict=True)
            ]
            gradient = jax.grad(output)(weights, jnp.zeros(width).at[0].set(1.0))
            return sum(jnp.sum(g**2) for g in gradient)

        self.run = jax.jit(lambda key: jax.lax.map(one, jax.random.split(key, count)))
        self.seed = 0

    def __call__(self) -> np.ndarray:
        self.seed += 1
        return np.asarray(self.run(jax.random.key(self.seed)).block_until_ready())


def ways(small: bool) -> list[Way]:
    """Return the computations."""
    members, times = (8, 8) if small else (4096, 64)
    full, remark = workloads.FULL, f"{members} members at once, scaled"
    balanced, found = workloads.modes(members, times), []
    wrong = partial(workloads.error_of_modes, balanced)
    for solver, tolerance in [("Tsit5", 1e-7)] if small else [(s, e) for s in SOLVERS for e in (1e-4, 1e-7, 1e-10)]:
        call = Ensemble(balanced, solver, tolerance)
        found.append(Way("W2", f"diffrax {solver}, {tolerance:.0e}", call, full["W2"] / members, wrong, remark))
    for depth in workloads.DEPTHS[:1] if small else workloads.DEPTHS:
        deep = workloads.deep_modes(depth, members, times)
        call, wrong = Ensemble(deep, "Dopri8", 1e-8), partial(workloads.error_of_modes, deep)
        found.append(Way(f"W4, L = {depth:g}", "diffrax Dopri8, 1e-08", call, full["W4"] / members, wrong, remark))
    nets = workloads.networks(2, 20, 8) if small else workloads.networks(8)
    train, wrong = Training(nets, 1e-8), partial(workloads.error_of_networks, nets)
    remark = f"all weights of {len(nets.u)} networks at once, scaled"
    found.append(Way("W3", "diffrax Tsit5, 1e-08", train, full["W3"] / len(nets.u), wrong, remark))
    if not small:  # W5 is not measured in small
        shape, members = speed_matrix.MANY[0], speed_matrix.MEMBERS // 10  # larger batches are not faster per member
        workload = f"W5, {speed_matrix.MEMBERS} networks {'-'.join(map(str, shape))}, {len(speed_matrix.TIMES)} times"
        for solver in SOLVERS:
            call = Products(shape, members, len(speed_matrix.TIMES), solver, 1e-8)
            wrong, remark = partial(speed_matrix.many_error, shape), f"{members} members at once, scaled"
            scale = speed_matrix.MEMBERS / members
            found.append(Way(workload, f"diffrax {solver}, 1e-08", call, scale, wrong, remark))
    count, width, depth = (2, 8, 4) if small else (8, 200, 50)
    remark = f"{count} networks, weights drawn and differentiated, scaled"
    found.append(Way("W8", "explicit, JAX", Explicit(count, width, depth), full["W8"] / count, remark=remark))
    return found
