"""Networks for the laws, and the errors of laws against `solve` at several sizes of the small parameter."""

import contextlib

import numpy as np

import linsolve as ls

RATES = np.array([0.7, 1.9, 1.2, 0.6])


def white(rng, samples, n_in, kappa=1.7):
    """Return inputs of second moment ``kappa`` times a projector."""
    q = np.linalg.qr(rng.normal(size=(max(samples, n_in), min(samples, n_in))))[0]
    return np.sqrt(kappa * samples) * (q if samples >= n_in else q.T)


def network(seed, sigma, *, widths, samples, kind="white"):
    """Return weights of size sigma, samples with noisy targets, and unequal rates."""
    rng = np.random.default_rng(seed)
    n_in, n_out = widths[0], widths[-1]
    X = white(rng, samples, n_in) if kind == "white" else rng.normal(size=(samples, n_in)) * rng.uniform(0.5, 1.5, n_in)
    Y = X @ rng.normal(size=(n_in, n_out)) + 0.1 * rng.normal(size=(samples, n_out))
    sizes = zip(widths[1:], widths[:-1], strict=True)
    weights = [sigma * rng.normal(size=size) / np.sqrt(size[1]) for size in sizes]
    return weights, (X, Y), RATES[: len(weights)]


def on_line(seed, overlap, *, gap, n_in=3, width=20, kernel=3.0):
    """Return a network with data on a line, half its kernel, its overlap and its gap at the start."""
    rng, rates = np.random.default_rng(seed), RATES[:2]
    n, a, v = (each / np.linalg.norm(each) for each in (rng.normal(size=k) for k in (n_in, width, width)))
    v = (v - (v @ a) * a) / np.linalg.norm(v - (v @ a) * a)
    last, size = 1.2 * np.sqrt(kernel) * a, np.sqrt((2 - 1.44) * kernel)
    along = overlap * kernel / (1.2 * np.sqrt(kernel) * size)
    first = np.outer(size * (along * a + np.sqrt(1 - along**2) * v), n)
    first = first + 0.3 * rng.normal(size=(width, n_in)) @ (np.eye(n_in) - np.outer(n, n))
    clock, x = np.sqrt(np.prod(rates)), rng.normal(size=8)
    weights = [np.sqrt(rates[0] / clock) * first, np.sqrt(rates[1] / clock) * last[None]]
    return weights, (np.outer(x, n), kernel * (overlap + gap) * x), rates


def aligned(seed, sigma, *, depth):
    """Return a balanced network of two modes, aligned with the data, its rates, and the modes' target values."""
    rng, s = np.random.default_rng(seed), np.array([1.5, 0.7])
    frames = [np.linalg.qr(rng.normal(size=(n, 2)))[0] for n in (5, *[6] * (depth - 1), 3)]
    rates = RATES[:depth]
    scales = np.sqrt(rates / np.exp(np.mean(np.log(rates))))
    pairs = zip(frames[1:], frames[:-1], scales, strict=True)
    weights = [scale * (after * sigma * np.array([1.0, 1.3])) @ before.T for after, before, scale in pairs]
    X = white(rng, 40, 5)
    return weights, (X, X @ ((frames[-1] * s) @ frames[0].T).T), rates


def network_of(law, **given):
    """Return arguments of `law.of` for which the law holds; `given` overrides weights, data and rates."""
    shapes = [((3, 4, 2), 9), ((3, 4, 1), 9), ((4, 5, 5, 1), 9)]
    found = [network(0, 0.02, widths=w, samples=n, kind=k) for w, n in shapes for k in ("white", "any")]
    found += [on_line(0, 0.0, gap=0.1), on_line(0, 0.0, gap=100.0), aligned(0, 0.05, depth=3)]
    for weights, data, rates in found:
        arguments = {"weights": weights, "data": data, "rates": rates, **given}
        with contextlib.suppress(ls.NotExact):
            law.of(**arguments)
            return arguments
    raise LookupError(f"{law.__name__}: no network has this law; add one to tests/systems/laws_of_networks.py")


def learned(given):
    """Return the map of the data."""
    net = given.network
    return (net.cross @ net.span) / net.power @ net.span.T


def pace(given):
    """Return the rate of growth of the strongest mode."""
    net = given.network
    return np.linalg.norm(net.cross, 2) * np.exp(np.mean(np.log(net.rates)))


def seen(name, traj, given):
    """Return a quantity of a law from the trajectory of `solve`."""
    target, span, rates = learned(given), given.network.span, given.network.rates
    if name in traj:
        return traj[name]
    if name == "output":
        return traj["map"][..., 0, :] @ target[0] / np.linalg.norm(target)
    if name == "alignment":
        kernel, y = traj["ntk"], (given.samples[0] @ target.T).ravel()
        return (kernel @ y) @ y / (np.linalg.norm(kernel, axis=(-2, -1)) * (y @ y))
    if name == "kernel direction":
        first, square = traj["w1"] @ span @ span.T, np.sum(traj["w2"] ** 2, axis=(-2, -1))[..., None, None]
        return rates[1] * np.swapaxes(first, -1, -2) @ first / (rates[0] * square) + span @ span.T
    if name.startswith("layer "):
        made = span @ span.T
        for k in range(int(name.split()[1])):
            made = traj[f"w{k + 1}"] @ made
        return np.swapaxes(made, -1, -2) @ made
    weights = [traj["w1"], traj["w2"]]
    kernel = rates[1] * weights[0].T @ weights[0] + rates[0] * np.sum(weights[1] ** 2) * np.eye(span.shape[0])
    features = given.samples[0] @ kernel
    regression = given.samples[1].T @ np.linalg.solve(traj["ntk"], features)
    return {"regression": regression, "gap": traj["map"] - regression}[name]


def trained(weights, data, rates, given):
    """Return the trajectory of `solve` at one time, after training."""
    t = 40.0 / pace(given)
    for _ in range(20):
        traj = ls.solve(weights, data, t, rates)
        if np.abs((traj["map"] - learned(given)) @ given.network.span).max() < 1e-9:
            return traj
        t *= 4
    raise AssertionError("training has not ended")


def measured(cls, networks, times=None, names=None):
    """Return small parameters, and by name: errors against `solve`, estimates, trajectory of the smallest."""
    small, errors, estimates = [], {}, {}
    for weights, data, rates in networks:
        law = cls.of(weights, data, rates)
        traj = law(times(law)) if times else law()
        truth = (
            ls.solve(weights, data, traj.t, rates, rtol=1e-12) if times else trained(weights, data, rates, law.given)
        )
        small.append(law.small)
        for name in names or traj:
            value, expected = traj[name], seen(name, truth, law.given)
            assert value.shape == expected.shape, name
            errors.setdefault(name, []).append(np.abs(value - expected).max() / np.abs(expected).max())
            estimates.setdefault(name, []).append(traj.error[name])
    return (
        np.array(small),
        {n: np.array(e) for n, e in errors.items()},
        {n: np.array(e) for n, e in estimates.items()},
        traj,
    )
