"""Times at which late fusion learns two modalities from small initial weights (Zhang, Latham and Saxe 2024)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np
from scipy.integrate import solve_ivp

from linsolve import arithmetic
from linsolve.core.arguments import number
from linsolve.core.integrate import first_zero
from linsolve.core.law import Expansion
from linsolve.core.matrix_arguments import semidefinite
from linsolve.core.parameters import parameter
from linsolve.core.reduced_network import norm
from linsolve.systems.gated.branched_weights import BranchedWeights, Wire, branched_weights
from linsolve.systems.small_start.start import ROUNDING, check_range, refuse

__all__ = ["LEAST", "UnimodalBias"]

_NEAR = 1e-8  # distance of an orbit from its saddle at the start; errors are of its square
_RTOL = 1e-13
_SETTLED = 35  # relaxation times after which a branch has converged
_LATEST = 1e6  # end of the search for a time, in units of 1/|Sigma_yA|
LEAST = 1e-2  # smallest eigenvalue of the covariance, and smallest correlation of B after A
_SMALLEST = 1e-300  # of initial weights that are integrated; the absolute tolerance is 1e-16 of them
_ROW = np.array([[1.0]])  # second layer of a branch of one hidden unit, over its size


class _Moments(NamedTuple):
    """Second moments by modality, in units in which the correlation of A and its largest covariance are 1."""

    pace: float  # |Sigma_yA|: time is measured in units of 1/pace
    weight: float  # unit of the weights
    first: np.ndarray  # Sigma_yA
    second: np.ndarray  # Sigma_yB
    left: np.ndarray  # Sigma_yB - Sigma_yA Sigma_A^-1 Sigma_AB
    cross: np.ndarray  # Sigma_AB
    own: np.ndarray  # Sigma_A
    alone: np.ndarray  # Sigma_yA Sigma_A^-1
    whole: np.ndarray  # Sigma_yx Sigma^-1
    covariance: np.ndarray  # Sigma
    drops: tuple[float, float]  # of the loss, by A and then by B

    @property
    def sizes(self) -> tuple[float, float, float]:
        """Lengths of the correlations: of A, of B, and of B after A."""
        lengths = [float(np.linalg.norm(v)) for v in (self.first, self.second, self.left)]
        return lengths[0], lengths[1], lengths[2]


class UnimodalBias(Expansion):
    r"""Times at which a two-layer network with late fusion learns two modalities from small initial weights.

    Each modality has its own two layers, and their outputs are added. The modality that is correlated more with the
    output, A, is learned first, and alone. The other one, B, is learned after a plateau. With the correlations
    :math:`S_A = |\Sigma_{yA}| > S_B = |\Sigma_{yB}|`, and that of B with the residual of A,
    :math:`\tilde S = |\Sigma_{yB} - \Sigma_{yA} \Sigma_A^{-1} \Sigma_{AB}|`, initial weights of size
    :math:`\sigma` have

    .. math:: \frac{t_B}{t_A} \to 1 + \frac{S_A - S_B}{\tilde S} \qquad (\sigma \to 0),

    with an error of order :math:`1/\log(1/\sigma)`, since both times are logarithms of the start. If B is one input
    whose correlation changes its sign on the plateau, its grown weights decay there, and :math:`S_B` counts as
    negative. The constants beside the logarithms do not depend on :math:`\sigma`; with them the error is a power of
    :math:`\sigma`:

    .. math:: t_A = t_0 + T_A, \qquad
        t_B = t_0 + \frac{1}{\tilde S} \log \frac{\epsilon}{\sigma |y\, e^{M t_0} z_B|} + T_B, \qquad
        t_0 = \frac{1}{S_A} \log \frac{\epsilon}{\sigma |g_A|}, \quad M = \begin{pmatrix} 0 & \Sigma_{yB} \\
        \Sigma_{yB}^\top & 0 \end{pmatrix} .

    Here :math:`g_A = (a_A + W_A n_A)/2`, :math:`n_A = \Sigma_{yA}/S_A`, is the growing part of A, the columns of
    :math:`z_B = (a_B, W_B)^\top` are the weights of the hidden units of B, and :math:`T_A`, :math:`T_B` are the times
    from the distance :math:`\epsilon` of a saddle on the orbits that leave the zero map and the map of A alone; y is
    what A's transition makes of the linear growth of B. All three are integrated once, without :math:`\sigma`.

    Parameters
    ----------
    last_a, last_b : array_like, shapes (width_a,), (width_b,)
        Second layers over ``sigma``.
    first_a, first_b : array_like, shapes (width_a, d_a), (width_b, d_b)
        First layers over ``sigma``.
    covariance : array_like, shape (d_a + d_b, d_a + d_b)
        Second moments of the inputs, those of A first; positive definite.
    correlation : array_like, shape (d_a + d_b,)
        Second moments of inputs and output, :math:`(\Sigma_{yA}, \Sigma_{yB})`.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    NotExact
        If B is correlated with the output at least as much as A.
    ValueError
        If shapes do not fit, an eigenvalue of the covariance is below 1 % of the largest, A is not correlated with the
        output, B with the residual of A less than 1 % of that, or a branch lacks its growing part.

    Notes
    -----
    :math:`t_A`: the loss has fallen by half of what A alone can explain; :math:`t_B`: by all of this and half of what
    B adds. `times` returns them, `limit` the limit of their ratio. `approximation` returns the delays
    :math:`t_A - \log(1/\sigma)/S_A`, and :math:`t_B` minus `limit` times this logarithm. With :math:`r = S_B/S_A`, the
    delay of A has an error of order ``min(1, 2(1 - r))``; that of B ``1 - r``, or ``min(1, 2(1 - r))`` for one input,
    or :math:`(1 - r) \lambda/\tilde S` if that is less, where :math:`\lambda` is the slowest relaxation of A on the
    plateau. `exact` integrates all weights; ``tests/systems/gated/test_unimodal_bias.py`` integrates them separately.

    Source: Zhang, Latham, Saxe, "Understanding unimodal bias in multimodal deep linear networks" (2024), the ratio of
    the times of late fusion. The constants, with them the power of :math:`\sigma`, follow here.

    Examples
    --------
    >>> import linsolve as ls
    >>> one = [[1.0]]
    >>> law = ls.laws.UnimodalBias([1.0], one, [1.0], one, covariance=[[1.0, 0.3], [0.3, 1.0]], correlation=[2.0, 1.0])
    >>> law.limit  # 1 + (2 - 1)/|1 - 2 0.3|
    3.5
    >>> times = [law.times(small) for small in (1e-3, 1e-6, 1e-12)]
    >>> [round(b / a, 4) for a, b in times]  # with the constants; without them 3.5
    [2.8495, 3.177, 3.339]
    """

    last_a: Any = parameter("a_A", "second layer of A at the start, over sigma", axes=("width_a",))
    first_a: Any = parameter("W_A", "first layer of A at the start, over sigma", axes=("width_a", "d_a"))
    last_b: Any = parameter("a_B", "second layer of B at the start, over sigma", axes=("width_b",))
    first_b: Any = parameter("W_B", "first layer of B at the start, over sigma", axes=("width_b", "d_b"))
    covariance: Any = parameter(r"\Sigma", "second moments of the inputs", axes=("n_in", "n_in"))
    correlation: Any = parameter(r"\Sigma_{yx}", "second moments of inputs and output", axes=("n_in",))

    approximates: ClassVar[str] = "two-layer networks with late fusion from a start of size sigma"
    unapplied: ClassVar[str] = "its network has a separate first layer for each modality"
    timed: ClassVar[bool] = False
    names: ClassVar[tuple[str, ...]] = ("delay of A", "delay of B")
    orders: ClassVar[Mapping[str, float]] = dict.fromkeys(names, 0.5)
    constants: ClassVar[Mapping[str, float]] = {"delay of A": 1.0, "delay of B": 0.1}
    scales: ClassVar[tuple[float, ...]] = (1e-7, 1e-8, 1e-9)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._refuse_starts()
        _, s_b, left = self.moments.sizes
        late = min(1.0, 2 * (1 - s_b)) if len(self.moments.second) == 1 else 1 - s_b
        late = min(late, (1 - self._signed) * self._slowest() / left)
        object.__setattr__(self, "orders", dict(zip(self.names, (min(1.0, 2 * (1 - s_b)), late), strict=True)))

    def __call__(self, *t: Any) -> NoReturn:
        """Raise TypeError: the law has two times and no curve."""
        rule = "law(t) is not defined (the law has two times for each size of the start)"
        raise TypeError(f"{type(self).__name__}: {rule}; say law.times(1e-3), law.limit or law.simulated(1e-3)")

    def _refuse_starts(self) -> None:
        """Raise for starts without the growing part of a modality."""
        m = self.moments
        for name, along in (("a", m.first), ("b", m.second if self._signed > 0 else m.left)):
            last, first = self._branch(name)
            growing = last + first @ along / np.linalg.norm(along)
            if not np.abs(growing).max() > ROUNDING * max(np.abs(last).max(), np.abs(first).max()):
                rule = f"must not be minus first_{name} along the correlation"
                fix = "the modality is never learned; change it"
                refuse(self, f"last_{name}", "a start without the growing part", rule, fix)

    def _branch(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the layers of a modality over sigma, in the unit of the weights."""
        layers = (arithmetic.to_numpy(getattr(self, f"{layer}_{name}")).astype(float) for layer in ("last", "first"))
        last, first = (layer / self.moments.weight for layer in layers)
        return last, first

    def conditions(self, xp: Any) -> dict[str, Any]:
        """Return 1 if B is correlated with the output at least as much as A, else 0."""
        return {"correlation of B at least that of A (swap them)": np.asarray(float(self.moments.sizes[1] >= 1))}

    @cached_property
    def moments(self) -> _Moments:
        """Second moments by modality, checked."""
        check_range(self)
        covariance, y = (arithmetic.to_numpy(v).astype(float) for v in (self.covariance, self.correlation))
        cut, d_b, n_in = self.first_a.shape[-1], self.first_b.shape[-1], len(y)
        if cut + d_b != n_in:
            rule = f"must have d_a + d_b = {cut + d_b} entries, as first_a and first_b have {cut} and {d_b} columns"
            refuse(self, "correlation", f"a vector of {n_in}", rule, "change one of them")
        meaning = "second moments of the inputs"
        values, _ = semidefinite(type(self).__name__, "covariance", covariance, meaning=meaning, margin=ROUNDING)
        if not (values[0] > 0 and values[0] >= LEAST * values[-1]):
            rule = f"must have eigenvalues of at least {LEAST:g} of the largest"
            refuse(self, "covariance", f"a matrix with eigenvalue {values[0]:.3g}", rule, "add to its diagonal")
        pace = norm(y[:cut])
        if not pace > ROUNDING * np.abs(y).max():
            rule, fix = "must not vanish on modality A", "A is never learned; swap the modalities"
            refuse(self, "correlation", "a vector", rule, fix)
        sigma, y = covariance / values[-1], y / pace
        own, cross = sigma[:cut, :cut], sigma[:cut, cut:]
        alone = np.linalg.solve(own, y[:cut])
        left = y[cut:] - alone @ cross
        if not np.linalg.norm(left) >= LEAST:
            value, rule = f"{np.linalg.norm(left):.3g} for B after A, over that of A,", f"must be at least {LEAST:g}"
            refuse(self, "correlation", value, rule, "B explains nothing that A does not; change one of them")
        rest = sigma[cut:, cut:] - cross.T @ np.linalg.solve(own, cross)
        drops = float(alone @ y[:cut]) / 2, float(left @ np.linalg.solve(rest, left)) / 2
        weight, whole = float(np.sqrt(pace / values[-1])), np.linalg.solve(sigma, y)
        return _Moments(pace, weight, y[:cut], y[cut:], left, cross, own, alone, whole, sigma, drops)

    def _slowest(self) -> float:
        """Return the slowest relaxation rate of A on the plateau."""
        beta = self.moments.alone
        size = float(np.linalg.norm(beta))
        metric = size * np.eye(len(beta)) + np.outer(beta, beta) / size
        return float(np.min(np.linalg.eigvals(metric @ self.moments.own).real))

    @property
    def _signed(self) -> float:
        """``S_B/S_A``, negative where the correlation of a single input changes its sign on the plateau."""
        m = self.moments
        return -m.sizes[1] if len(m.second) == 1 and m.second @ m.left <= 0 else m.sizes[1]

    @property
    def limit(self) -> float:
        """Ratio of the times in the limit of small starts."""
        return 1 + (1 - self._signed) / self.moments.sizes[2]

    # the constants, without sigma

    @cached_property
    def flow(self) -> BranchedWeights:
        """Gradient flow of all weights."""
        m, cut = self.moments, len(self.moments.first)
        wires = Wire((0, cut), (0,), False), Wire((cut, len(m.whole)), (0,), False)
        found: BranchedWeights = branched_weights(wires, m.whole[None, None], m.covariance[None])
        return found

    def _fallen(self, flow: BranchedWeights, start: Any, *, first: bool) -> tuple[float, Any]:
        """Return the time at which the loss has fallen by half of the drop of A, or by that of A and half of B's."""
        drops = self.moments.drops
        goal = drops[0] / 2 + drops[1] if first else drops[1] / 2

        def gap(z: Any) -> float:
            return float(flow.loss(np, z)) / goal - 1

        atol = 1e-3 * _RTOL * max(float(np.abs(w).max()) for w in start)
        return first_zero(flow, start, gap, until=_LATEST, rtol=_RTOL, atol=atol, newton=1)

    @cached_property
    def orbits(self) -> tuple[float, float, float, np.ndarray]:
        """``epsilon``, the times ``T_A`` and ``T_B`` on the orbits, and the row ``y``."""
        m, flow = self.moments, self.flow
        near = _NEAR * float(np.sqrt(np.linalg.norm(m.alone)))

        def branch(size: float, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return (size * v / np.linalg.norm(v))[None, :], size * _ROW

        none = (0 * m.second[None, :], 0 * _ROW)
        start = flow.State(*branch(near, m.first), *none)
        first = self._fallen(flow, start, first=True)[0]
        plateau = flow.State(*branch(float(np.sqrt(np.linalg.norm(m.alone))), m.alone), *branch(near, m.left))
        second = self._fallen(flow, plateau, first=False)[0]
        return near, first, second, self._passage(near)

    def _passage(self, near: float) -> np.ndarray:
        """Return the row y: the growing part of B on the plateau, in units of its growth, for B when A is at `near`."""
        m = self.moments
        (s_a, _, left), d_a, size = m.sizes, len(m.first), 1 + len(m.second)

        def rate(_: float, z: np.ndarray) -> np.ndarray:
            u, v, made = z[0], z[1 : 1 + d_a], z[1 + d_a :].reshape(size, size)
            pull = m.first - u * v @ m.own
            turn = np.zeros((size, size))
            turn[0, 1:] = turn[1:, 0] = m.second - u * v @ m.cross
            return np.concatenate([[v @ pull], u * pull, (turn @ made - left * made).ravel()])

        end = 2 * np.log(1 / _NEAR) / s_a + _SETTLED * (1 / self._slowest() + 1 / left)
        start = np.concatenate([[near], near * m.first / s_a, np.eye(size).ravel()])
        found = solve_ivp(rate, (0.0, end), start, "DOP853", rtol=_RTOL, atol=1e-16 * near).y[:, -1]
        return np.append(1.0, m.left / left) / 2 @ found[1 + d_a :].reshape(size, size)

    def _at_departure(self, t: float) -> np.ndarray:
        """Return the weights of B over sigma after linear growth for a time t, shape (1 + d_b, width_b)."""
        last, first = self._branch("b")
        s_b = self.moments.sizes[1]
        n = self.moments.second / (s_b or 1.0)
        along = first @ n
        up, down = (last + along) / 2 * np.exp(s_b * t), (last - along) / 2 * np.exp(-s_b * t)
        if self._signed < 0:  # the growing part decays on the plateau, without remainder
            up = 0 * up
        return np.vstack([up + down, (first + np.outer(up - down - along, n)).T])

    def times(self, small: float) -> tuple[float, float]:
        """Return the times of both modalities at initial weights of size `small`.

        Raises
        ------
        ValueError
            If `small` is not between 1e-100 and 1, or so large that a modality is learned at the start.
        """
        sigma = self._size("times", small)
        begin, first, second = self._departures(sigma)
        if not begin + first > 0 < second:
            raise self._large("times", sigma)
        return (begin + first) / self.moments.pace, second / self.moments.pace

    def _size(self, method: str, small: Any) -> float:
        who, meaning = f"{type(self).__name__}.{method}", "size of the start"
        return number(who, "small", small, meaning=meaning, domain="[1e-100, 1]", example=1e-3)

    def _large(self, method: str, sigma: float) -> ValueError:
        rule = "must leave both modalities to be learned (size of the start); take less"
        return ValueError(f"{type(self).__name__}.{method}: small = {sigma:g} {rule}")

    def _departures(self, sigma: float) -> tuple[float, float, float]:
        """Return the time at which A is at `near`, its time from there, and the time of B."""
        near, first, second, row = self.orbits
        s_a, _, left = self.moments.sizes
        last, layer = self._branch("a")
        # differences of logarithms, since products of sigma and small weights underflow
        far = float(np.log(near) - np.log(sigma))
        begin = (far - float(np.log(norm(last + layer @ self.moments.first / s_a) / 2))) / s_a
        size = norm(row @ self._at_departure(begin))
        return begin, first, begin + (far - float(np.log(size))) / left + second

    def _delays(self, xp: Any, small: Any, first: float, second: float) -> dict[str, Any]:
        """Return the times without their leading logarithms."""
        log = float(np.log(1 / float(small))) / self.moments.pace
        return dict(zip(self.names, (xp.asarray(first - log), xp.asarray(second - self.limit * log)), strict=True))

    def approximation(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the delays of both modalities: their times without the leading logarithms."""
        begin, first, second = self._departures(float(small))
        return self._delays(xp, small, (begin + first) / self.moments.pace, second / self.moments.pace)

    def exact(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the delays of the integrated weights."""
        return self._delays(xp, small, *self.simulated(float(small)))

    def simulated(self, small: float) -> tuple[float, float]:
        """Return the times of both modalities by integration of all weights.

        Raises
        ------
        ValueError
            As for `times`, or if the initial weights are below 1e-300.
        """
        sigma = self._size("simulated", small)
        layers = ((first, last[None]) for last, first in map(self._branch, "ab"))
        start = self.flow.State(*(sigma * w for pair in layers for w in pair))
        size = max(float(np.abs(w).max()) for w in start)
        if not size >= _SMALLEST:
            rule = f"makes initial weights of {size:.3g}, whose errors are no doubles (size of the start)"
            raise ValueError(f"{type(self).__name__}.simulated: small = {sigma:g} {rule}; use times")
        if not float(self.flow.loss(np, start)) > self.moments.drops[0] / 2 + self.moments.drops[1]:
            raise self._large("simulated", sigma)
        first, middle = self._fallen(self.flow, start, first=True)
        second = first + self._fallen(self.flow, self.flow.State(*middle), first=False)[0]
        return first / self.moments.pace, second / self.moments.pace

    @classmethod
    def counterexamples(cls, rng: np.random.Generator) -> dict[str, dict[str, Any]]:
        """Return modalities in the other order."""
        law = cls.example(rng).parameters() | {"correlation": np.array([0.5, 0.2, 1.5, 0.1])}
        return {"correlation of B at least that of A (swap them)": law}

    @classmethod
    def example(cls, rng: np.random.Generator) -> UnimodalBias:
        """Return modalities of two inputs each, correlated with each other, and four hidden units each."""
        moments = [[1.0, 0.3, 0.2, -0.1], [0.3, 0.8, 0.1, 0.2], [0.2, 0.1, 1.0, 0.4], [-0.1, 0.2, 0.4, 0.9]]
        base = [[0.1, -0.3, -0.2, -1.2], [0.9, 0.6, -0.2, 0.4], [0.1, -0.3, 0.5, 0.1]]
        other = [[0.3, 0.5, -0.1, -0.3], [0.4, 0.2, -0.3, 0.5], [-0.2, 0.4, 0.3, 0.1]]
        layers = np.array(base + other) * rng.uniform(0.8, 1.2, (6, 4))
        return cls(
            last_a=layers[0],
            first_a=layers[1:3].T,
            last_b=layers[3],
            first_b=layers[4:].T,
            covariance=np.array(moments) * rng.uniform(0.7, 1.2),
            correlation=np.array([1.5, 0.6, 0.5, -0.2]) * rng.uniform(0.8, 1.2),
        )
