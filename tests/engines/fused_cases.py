"""Flows and starts of every sign and magnitude, and flows that answer through an engine, for the tests of `fused`."""

import numpy as np

import linsolve as ls

FLOWS = (ls.BalancedMode, ls.DeepMode, ls.TwoLayerOrder)
NAMES = {
    ls.BalancedMode: ("a", "loss"),
    ls.DeepMode: ("a", "loss"),
    ls.TwoLayerOrder: ("P", "loss", "alignment", "ntk"),
}
# the checks that evaluate the closed form in doubles, which an engine does; others see the formula alone
IN_DOUBLES = ("start", "dop853", "descent", "limit", "lifetime", "batch")
# largest relative difference from the plain formula, over all magnitudes, of an engine with elementary functions of its
# own; of the cosine, the absolute difference
LARGEST = {
    (ls.BalancedMode, "a"): 4e-15,
    (ls.BalancedMode, "loss"): 1e-14,
    (ls.DeepMode, "a"): 1e-12,
    (ls.DeepMode, "loss"): 1e-11,
    (ls.TwoLayerOrder, "P"): 1e-13,
    (ls.TwoLayerOrder, "loss"): 1e-12,
    (ls.TwoLayerOrder, "alignment"): 1e-8,
    (ls.TwoLayerOrder, "ntk"): 1e-13,
}
TIMES = np.array([0.0, 1e-30, 0.01, 0.3, 1.0, 4.0, 25.0, 1e4, np.inf])


def signed(rng, decades, shape):
    values = rng.choice([-1.0, 1.0], shape) * 10 ** rng.uniform(-decades, decades, shape)
    return np.where(rng.random(shape) < 0.05, 0.0, values)


def drawn(cls, rng, shape, decades=3):
    """Return a flow and a start of members of `shape`, of magnitudes within so many decades of 1."""
    if cls is ls.TwoLayerOrder:
        P, Q = (np.abs(signed(rng, decades, shape)) for _ in range(2))
        R = np.sqrt(P) * np.sqrt(Q) * rng.uniform(-1, 1, shape)
        flow = cls(y=signed(rng, 1, shape), gamma=signed(rng, 1, shape), eta_u=10 ** rng.uniform(-1, 1, shape))
        return flow, cls.State(P, Q, R)
    a0, s, tau = signed(rng, decades, shape), signed(rng, decades, shape), 10 ** rng.uniform(-1, 1, shape)
    if cls is ls.BalancedMode:
        return cls(s=s, tau=tau), cls.State(a0)
    depth = rng.choice([1.0, 1.4, 2.0, 3.0, 4.7, np.inf], shape)
    lost = (depth > 1) & (depth < 2) & (a0 * s < 0)
    return cls(s=np.where(lost, -s, s), depth=depth, tau=tau), cls.State(a0)


def through(cls, engine, evaluate=None):
    """Return the flow whose closed form in doubles is what an engine gives."""

    class Through(cls):
        def solution(self, xp, t, z0):
            batch = np.broadcast_shapes(*(np.shape(v) for v in (*self.parameters().values(), *z0))) if xp is np else ()
            if xp is not np or np.shape(t)[np.ndim(t) - len(batch) :] != (1,) * len(batch):
                return super().solution(xp, t, z0)
            plain = cls(**self.parameters())
            times = np.reshape(t, np.shape(t)[: np.ndim(t) - len(batch)])
            return (evaluate or (lambda flow, t, z0: flow(t, z0, engine=engine).state))(plain, times, z0)

    Through.__name__ = f"{cls.__name__}Through{engine}"
    return Through


def beyond(cls, found, plain):
    """Return the names whose values differ by more than LARGEST from the plain trajectory, or in being finite."""
    failed = []
    for name in NAMES[cls]:
        value, expected = np.asarray(found[name]), np.broadcast_to(plain[name], found[name].shape)
        with np.errstate(all="ignore"):
            apart = np.abs(value - expected) / (1 if name == "alignment" else np.abs(expected))
        # numbers that are nearly 0 are differences that rounding leaves
        near = (value == expected) | (np.abs(expected) <= 1e-290) | (apart < LARGEST[cls, name])
        if not (near & (np.isfinite(value) == np.isfinite(expected))).all():
            failed.append(name)
    return failed
