"""The phase diagrams: maps from the exact solution, boundaries in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.plot.style import COLORS
from linsolve.studies.phases.diagrams import Axis, Curve, Diagram, Mark
from linsolve.systems.two_layer.lazy import LazyTwoLayer
from linsolve.systems.two_layer.phase_classes import Exponents
from linsolve.systems.two_layer.phase_measures import diagnose, networks, slopes
from linsolve.systems.two_layer.two_layer import TwoLayer

__all__ = ["exponents", "lazy", "rates", "start", "time"]

XU = "Xu and Ziyin (2024)"


def centers(low: float, high: float, cells: int, *, log: bool = False) -> np.ndarray:
    """Return the centers of equal cells that fill an interval, as powers of ten if `log`."""
    found = low + (high - low) * (np.arange(cells) + 0.5) / cells
    return 10**found if log else found


def exponents(cells: int, rng: np.random.Generator) -> Diagram:
    """Return the phases of wide networks with weights of order one, by measured slopes, over model scale and rate."""
    x, y = centers(-2.0, 0.5, cells), centers(-1.5, 2.5, cells)
    found = slopes(Exponents(1, x, 0, 0, y[:, None], y[:, None]), (1e30, 1e60), count=100, rng=rng)
    fast, rich = found.rate > 0, found.kernel_change > 0
    edge = np.linspace(1.0, 2.5, 50)
    low = np.linspace(-1.5, 1.0, 50)
    solid = {"linewidth": 3.4}
    return Diagram(
        name="exponents",
        title=r"Phases of wide networks: $d \sim \kappa$,  weights of order one",
        x=Axis("x", x, r"exponent of the model scale,  $c_\gamma$   ($\gamma \sim \kappa^{c_\gamma}$)", log=False),
        y=Axis("y", y, r"exponent of both learning rates,  $c_\eta$   ($\eta \sim \kappa^{c_\eta}$)", log=False),
        values=2 * fast + rich,
        label="sign of the measured slopes of $1/t_c$ and of the kernel change",
        source=f"Curves: exact exponents, after {XU}, (15), (16):\n$A = 2c_\\gamma + 2c_\\eta$, "
        "$B = 2c_\\gamma + 1 + c_\\eta$. Map: signs of the slopes of $1/t_c$ and $K_\\infty/K_0 - 1$ in\n"
        "$\\log \\kappa$, $\\kappa = 10^{30}$ to $10^{60}$, exact solution, medians of 100 random networks.",
        sides={"speed = 0": fast, "chg = 0": rich},
        curves=(
            Curve("kernel phase:  $0 = B > A$", -(1 + low) / 2, low, "speed = 0", solid | {"color": COLORS["blue"]}),
            Curve(
                "feature phase, log-slow:  $0 = A > 2B$",
                -edge,
                edge,
                "speed = 0",
                solid | {"color": COLORS["vermilion"]},
            ),
            Curve(
                "kernel changes by order one:  $A = 2B$",
                np.full(2, -1.0),
                np.array([-1.5, 2.5]),
                "chg = 0",
                {"linestyle": (0, (4, 2.5))},
            ),
        ),
        regions=(
            ("frozen, kernel stays", "#CFE6F6"),
            ("frozen, kernel would change", "#9CCBEA"),
            ("unstable, kernel stays", "#FBEBC8"),
            ("unstable, kernel changes", "#F3CC83"),
        ),
        marks=(
            Mark("NTK", -0.5, 0.0),
            Mark(r"mean field, $\eta \sim 1$", -1.0, 0.0, (-8, 5)),
            Mark(r"mean field, $\eta \sim d$  (feature: $A = B = 0$)", -1.0, 1.0, (9, 5)),
        ),
        notes=(Mark("frozen", -1.5, -0.8), Mark("unstable", -0.2, 1.8)),
    )


def lazy(cells: int, rng: np.random.Generator) -> Diagram:
    """Return the kernel's change over output scale and width, with the curves of its two crossovers.

    The change is 1 at the first. The change of the kernel's square has a part of even order in y, proportional to
    ``(y/alpha)^2``, and one of odd order, proportional to ``2 f_0 y/alpha`` with the output ``f_0`` of the reference,
    of mean square ``rho^2``. The root mean square of their ratio is 1 at the second, ``alpha = |y|/(2 rho)``.
    """
    alpha, h = centers(-4, 1, cells, log=True), centers(1, 6, cells, log=True)
    ends = np.array([1e1, 1e6])
    rows, shares = [], []
    for width in h:
        gamma = width**-0.5
        _, z0 = networks(width, 2000, gamma=gamma, rng=rng)
        u, w = z0.u[:, None], z0.w[:, None]
        each = [LazyTwoLayer(y=y, gamma=gamma, x=[1.0], alpha=alpha, u0=u, w0=w) for y in (1.0, -1.0)]
        found = [diagnose(flow, (u, w)).kernel_change for flow in each]
        rows.append(np.median(np.abs(found[0]), axis=0))
        above, below = (change * (2 + change) for change in found)  # of the kernel's square
        shares.append(np.mean(((above - below) / (above + below)) ** 2, axis=0))
    change = np.array(rows)
    return Diagram(
        name="lazy",
        title="Lazy and feature training of a two-layer linear network",
        x=Axis("x", alpha, r"output scale  $\alpha$   (units of $|y|/\rho$)", log=True),
        y=Axis("y", h, "width  $h$   (hidden units)", log=True),
        values=np.log10(change),
        label=r"$\log_{10}$ of the kernel's relative change  $|K_\infty/K_0 - 1|$",
        source="Curves: $\\alpha^*$ exact for wide networks, the other at every width; $\\rho = |x|/\\sqrt{d_{in}}$.\n"
        "Map: exact solution, medians of 2000 random networks. After Geiger et al. (2020), $\\alpha^* = O(h^{-1/2})$.",
        sides={"alpha*": change > 1, "fluctuations": np.array(shares) > 1},
        curves=(
            Curve(
                r"kernel doubles:  $\alpha^* = |y|\,/\,(\sqrt{3}\,\rho\,\sqrt{h})$",
                1 / np.sqrt(3 * ends),
                ends,
                "alpha*",
            ),
            Curve(
                r"output $f_0$ at the start fluctuates:  $\alpha = |y|\,/\,(2 \rho)$",
                np.full(2, 0.5),
                ends,
                "fluctuations",
                {"linestyle": (0, (4, 2.5))},
            ),
        ),
        notes=(
            Mark("feature", 3e-4, 80.0),
            Mark(r"lazy, $\propto \alpha^{-2}$", 0.02, 1e5),
            Mark(r"$\propto \alpha^{-1}$", 2.0, 1e5),
        ),
    )


def start(cells: int, rng: np.random.Generator) -> Diagram:
    """Return alignment and change of length of two layers at an angle of 60 degrees, over these lengths."""
    cells += cells % 2  # without a layer of length 0
    sides = centers(-3.0, 3.0, cells)
    a, b = sides, sides[:, None]
    u, w = np.zeros((cells, cells, 2)), np.zeros((cells, cells, 2, 1))
    u[..., 0] = a + 0 * b
    w[..., 0, 0], w[..., 1, 0] = b / 2 + 0 * a, np.sqrt(0.75) * b + 0 * a
    t = np.concatenate([[0.0], np.logspace(-4, 0.5, 24), [np.inf]])
    traj = TwoLayer(y=1.0)(t, (u, w))
    size, angle = traj["u_norm"], traj["alignment"]
    gain = angle[-1] - angle[0]
    dips = size[1:-1].min(axis=0) < np.minimum(size[0], size[-1]) * (1 - 1e-12)
    shrinks = ~dips & (size[-1] < size[0])
    right = np.geomspace(2 / 3, 3.0, 100)
    axis = np.array([-3.0, 3.0])
    dashed = {"linestyle": (0, (4, 2.5)), "linewidth": 1.5}
    return Diagram(
        name="start",
        title="Alignment, disalignment and rescaling, by the start",
        x=Axis("x", sides, r"$\sigma_u$:  length of $u(0)$, signed   [units of $(y/\gamma|x|)^{1/2}$]", log=False),
        y=Axis(
            "y", sides, r"$\sigma_w$:  length of $Wx/|x|$ at 0, signed   [units of $(y/\gamma|x|)^{1/2}$]", log=False
        ),
        values=np.where(dips, 2, shrinks),
        label="paler: the cosine of the layers changes less",
        source=f"Curves: exact, $f_0 = \\gamma\\, u \\cdot W x = \\gamma |x| \\sigma_u \\sigma_w / 2$. After {XU}, "
        "sections 3.2, 3.3.\nMap: trajectories of two layers at 60 degrees (120 where signs differ), same rates.",
        sides={"f0 = y": gain > 0, "f0 = 0": dips},
        curves=(
            Curve("$f_0 = y$:  nothing moves", right, 2 / right, "f0 = y"),
            Curve("", -right, -2 / right, "f0 = y"),
            Curve("$f_0 = 0$:  one layer is 0", axis, 0 * axis, "f0 = 0", dashed),
            Curve("", 0 * axis, axis, "f0 = 0", dashed),
        ),
        regions=(
            ("align, lengths grow", COLORS["green"]),
            ("disalign, lengths shrink", COLORS["vermilion"]),
            ("turn around: lengths dip, then grow", COLORS["blue"]),
        ),
        notes=(
            *(Mark("disalign", s * 2.2, s * 2.2) for s in (1, -1)),
            *(Mark("align", s * 0.75, s * 0.75) for s in (1, -1)),
            *(Mark("turn around", s * 1.5, -s * 1.5) for s in (1, -1)),
        ),
        strength=np.sqrt(np.abs(gain) / np.abs(gain).max()),
    )


def rates(cells: int, rng: np.random.Generator) -> Diagram:
    """Return which layer moves farther relative to its length, over the ratio of rates and that of lengths."""
    ratio, shape = centers(-3, 3, cells, log=True), centers(-2, 2, cells, log=True)
    ends = np.array([1e-3, 1e3])
    root, lengths = np.sqrt(ratio), np.sqrt(shape)[:, None]
    u, w = np.zeros((cells, cells, 2)), np.zeros((cells, cells, 2, 1))
    u[..., 0] = 1 / lengths
    w[..., 0, 0], w[..., 1, 0] = 0.3 * lengths, np.sqrt(1 - 0.3**2) * lengths
    flow = TwoLayer(y=2.0, eta_u=1 / root, eta_w=root)
    end = flow.limit(np, TwoLayer.State(u, w))
    far_u = np.linalg.norm(end.u - u, axis=-1) * lengths
    far_w = np.linalg.norm((end.w - w)[..., 0], axis=-1) / lengths
    moved = np.log10(far_u / far_w)
    return Diagram(
        name="rates",
        title="The layer that learns: learning rates against lengths",
        x=Axis("x", ratio, r"ratio of the learning rates  $\eta_w / \eta_u$", log=True),
        y=Axis("y", shape, r"ratio of the layers at the start  $|Wx| \,/\, |x||u|$", log=True),
        values=moved,
        label=r"$\log_{10}$ of relative change of $u$ over that of $Wx$",
        source="Curve: exact, for every start and target: balanced layers, which learning keeps balanced,\n"
        f"move by equal shares of their lengths. After {XU}, Theorem 1. Map: limits of\nthe exact solution, "
        "$y = 2$, $|u||Wx| = |x| = \\gamma = \\eta_u\\eta_w = 1$, cosine 0.3 between the layers.",
        sides={"balance": moved > 0},
        curves=(Curve(r"balance:  $\eta_u |Wx|^2 = \eta_w |x|^2 |u|^2$", ends, np.sqrt(ends), "balance"),),
        notes=(Mark("$u$ moves more", 0.02, 8.0), Mark("$Wx$ moves more", 50.0, 0.12)),
        diverging=True,
    )


def time(cells: int, rng: np.random.Generator) -> Diagram:
    """Return the time to 1 % of the loss over the size of the start and the target, for orthogonal layers."""
    sigma, y = centers(-3, 0.5, cells, log=True), centers(-3, 3, cells, log=True)
    ends = np.array([1e-3, 10**0.5])
    u, w = np.zeros((cells, cells, 2)), np.zeros((cells, cells, 2, 1))
    u[..., 0] = w[..., 1, 0] = sigma
    flow, z0 = TwoLayer(y=y[:, None]), TwoLayer.State(u, w)
    needed = flow.time_to(np, z0, loss=0.01 * flow.y**2)
    change = diagnose(flow, z0).kernel_change
    times = {k: f"t = 1e{k}" for k in range(-2, 4)}
    strength = np.geomspace(1e-7, 1e11, 2000)
    return Diagram(
        name="time",
        title="Time to 1 % of the initial loss",
        x=Axis("x", sigma, r"size of the start  $\sigma = |u| = |Wx|\,/\,|x|$", log=True),
        y=Axis("y", y, r"target  $|y| \,/\, \gamma |x|$", log=True),
        values=np.log10(needed),
        label=r"$\log_{10} t$   (units of $1/(\eta\,\gamma^2 |x|^2)$)",
        source="Curves: exact, $t = \\mathrm{atanh}(qT)/(2 q \\sigma^2)$ with $q^2 = 1 + G^2$, "
        "$G = |y|/\\gamma|x|\\sigma^2$,\n$T = \\beta/(\\sqrt{1 + \\beta^2 G^2} + 1 - \\beta)$, $\\beta = 0.9$. "
        "Map: inverse of the closed form, orthogonal\n"
        f"layers of equal length and rate. After {XU}, Theorem 1.",
        sides={name: needed < 10.0**k for k, name in times.items()} | {"kernel doubles": change > 1},
        curves=(
            *(
                Curve("time $t$" * (k == -2), *_isochrone(10.0**k, strength), name, inline=f"{10.0**k:g}")
                for k, name in times.items()
            ),
            Curve(
                r"kernel doubles:  $|y| = \sqrt{3}\, \gamma |x| \sigma^2$  (above: feature, below: lazy)",
                ends, np.sqrt(3) * ends**2, "kernel doubles", {"linestyle": (0, (4, 2.5)), "color": COLORS["black"]},
            ),
        ),
    )  # fmt: skip


def _isochrone(t: float, G: np.ndarray, beta: float = 0.9) -> tuple[Any, Any]:
    """Return sizes and targets whose residual has fallen to ``1 - beta`` at time `t`, from ``G = y/sigma^2``."""
    q = np.sqrt(1 + G**2)
    T = beta / (np.sqrt(1 + (beta * G) ** 2) + 1 - beta)
    sigma = np.sqrt(np.arctanh(q * T) / (2 * q) / t)
    return sigma, G * sigma**2
