"""Low-rank adaptation (LoRA) of a linear map (Hu et al. 2022; Hayou et al. 2024)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import number
from linsolve.core.definition import Definition
from linsolve.core.flow import Flow, observable
from linsolve.core.integrate import integrate
from linsolve.core.network import deep_weights
from linsolve.core.network_arguments import meeting
from linsolve.core.parameters import batch_shape, own_sizes, parameter
from linsolve.core.randomness import orthonormal, seeded
from linsolve.core.trajectory import Trajectory
from linsolve.numerics.cache import Memory
from linsolve.systems.whitened import starts
from linsolve.systems.whitened.whitened_two_layer import WhitenedTwoLayer

__all__ = ["LoRA"]

_NETWORK = WhitenedTwoLayer(target=[[0.0]])  # copied with the target and time constant of each call


def _root(value: Any) -> Any:
    return arithmetic.namespace(value).sqrt(value)


class LoRA(Flow):
    r"""Fine-tuning of a linear map on white inputs by low-rank adaptation: ``W0`` is frozen, A and B learn.

    .. math:: L = |S - W_0 - c B A|_F^2 / 2, \qquad
        \tau \dot A = c B^\top E, \quad \tau \dot B = \rho\, c\, E A^\top, \quad E = S - W_0 - c B A.

    A has `rank` rows, B has `rank` columns, and :math:`c = \alpha/\mathrm{rank}`. The rescaled adapters
    :math:`\tilde A = c^{1/2} \rho^{1/4} A` and :math:`\tilde B = c^{1/2} \rho^{-1/4} B` are the two layers of a
    `WhitenedTwoLayer` with target :math:`S - W_0` and time constant :math:`\tau / (c \sqrt\rho)`, exactly. Its
    condition concerns the imbalance

    .. math:: c\, (\rho^{-1/2} B^\top B - \rho^{1/2} A A^\top).

    At the usual start, ``B = 0``, the closed form holds if the rows of A are orthonormal up to one factor, or the rank
    is one.

    Parameters
    ----------
    target : array_like, shape batch + (n_out, n_in)
        Input-output map :math:`S` of the new task.
    base : array_like, shape batch + (n_out, n_in)
        Frozen map :math:`W_0`.
    scale : array_like, shape batch
        Factor :math:`c = \alpha/\mathrm{rank}` of the update, positive.
    ratio : array_like, shape batch
        Learning rate of B over that of A, :math:`\rho` of LoRA+, positive.
    tau : array_like, shape batch
        Time constant of A (units of time), positive.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, or shapes do not fit. At a call, also for an invalid
        state or time.
    NotExact
        At a call, if the imbalance of the adapters belongs to no solvable class.
    OverflowError
        If products of parameters or, at a call, results leave the range of doubles.

    Notes
    -----
    Exact for: ``B = 0`` and A with orthonormal rows times one number (`init`), any rank; rank one with any A and B; all
    adapters whose imbalance is zero, a multiple of the identity, or, at a rank of at least n_in + n_out, has just two
    nonzero eigenvalues; any target, base, scale and ratio. Not for: Gaussian A of rank two or more, whose distance from
    the class the error states (`simulate` integrates A and B); inputs that are not white; several adapted layers; Adam.

    The order of learning is that of the singular values :math:`s_i` of :math:`S - W_0` (observable `strengths`): from a
    small start direction i is learned at a time of :math:`\tau \ln(1/|A|^2) / (2 c \sqrt\rho\, s_i)` to leading order,
    and a generic start of rank r learns the r strongest directions; the limit is the best approximation of
    :math:`S - W_0` of rank r.

    Sources: Hu, Shen et al., "LoRA" (2022), eq. (3) and the scale of section 4.1; Hayou, Ghosh, Yu, "LoRA+" (2024), the
    ratio of learning rates. The solution is that of Braun, Domine, Fitzgerald, Saxe (2022) and Domine et al. (2024).

    Accuracy: that of `WhitenedTwoLayer`, also for A far larger than the target; 1e-11 against simulated adapters, 100
    random draws (``tests/systems/lora/test_lora.py``).

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import LoRA
    >>> flow = LoRA(target=np.diag([4.0, 2.0, 2.0]), base=np.eye(3), scale=2.0)  # changes by 3, 1 and 1
    >>> a, b = LoRA.init(3, 2, 3, size=0.1, rng=0)
    >>> flow([0.0, 0.5, 1.5, np.inf], flow.of(a, b))["strengths"][:, 0].round(3).tolist()
    [0.0, 0.201, 2.999, 3.0]
    """

    _memory: ClassVar[Memory]  # one per flow, shared by its casts

    target: Any = parameter("S", "input-output map of the new task", axes=("n_out", "n_in"))
    base: Any = parameter("W_0", "frozen map", axes=("n_out", "n_in"))
    scale: Any = parameter("c", "scale of the update, alpha/rank", domain="[1e-100, 1e100]", default=1.0)
    ratio: Any = parameter(r"\rho", "learning rate of B over that of A", domain="[1e-100, 1e100]", default=1.0)
    tau: Any = parameter(r"\tau", "time constant of A", domain="(0, inf)", typical=(0.5, 2.0), default=1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("target", "base"):
            starts.refuse_large_target(type(self).__name__, getattr(self, name), name)
        self._refuse_lost_rates()
        object.__setattr__(self, "_memory", Memory())

    def _refuse_lost_rates(self) -> None:
        """Raise OverflowError if the rate ``c sqrt(rho) / tau`` of the adapters leaves the range of doubles."""
        if arithmetic.is_object(arithmetic.namespace(self.tau)) or not arithmetic.readable(
            self.scale, self.ratio, self.tau
        ):
            return
        tau, scale, ratio = (arithmetic.to_numpy(v) for v in (self.tau, self.scale, self.ratio))
        decades = np.log10(tau) - np.log10(scale) - np.log10(ratio) / 2
        starts.refuse_lost_rates(type(self).__name__, "rate scale sqrt(ratio) / tau", "time constant", decades, tau=tau)

    def _refuse_lost_grams(self, z0: Any) -> None:
        """Raise OverflowError if a Gram matrix of the rescaled adapters, which determines the start, underflows."""
        if not arithmetic.readable(*z0, self.scale, self.ratio) or arithmetic.is_object(arithmetic.namespace(*z0)):
            return
        factors = zip(("gram_in", "gram_out"), z0[1:], self._factors()[1:], strict=True)
        for (name, gram, factor), power in zip(factors, ("scale sqrt(ratio)", "scale / sqrt(ratio)"), strict=True):
            held = np.abs(arithmetic.to_numpy(gram)).max(axis=(-2, -1))
            factor = arithmetic.to_numpy(factor)[..., 0, 0]
            lost = (held > 0) & (held * factor < np.finfo(float).tiny)
            if lost.any():
                held, factor = (np.broadcast_to(v, lost.shape)[lost][0] for v in (held, factor))
                raise OverflowError(
                    f"{type(self).__name__}: {name} = {held:.3g} (largest entry) times {power} = {factor:.3g} leaves "
                    "the range of doubles (Gram matrix of the rescaled adapters); rescale, or give it in "
                    "linsolve.arithmetic.precise(50)"
                )

    class State(NamedTuple):
        """Product ``B A`` (n_out, n_in), Gram matrices ``A^T A`` (n_in, n_in) and ``B B^T`` (n_out, n_out)."""

        product: Any
        gram_in: Any
        gram_out: Any

    axes: ClassVar = dict(WhitenedTwoLayer.axes)

    otherwise: ClassVar = (
        "at B = 0 give A orthonormal rows times one number (LoRA.init), or take rank one; flow.simulate(t, a, b) "
        "integrates A and B from any start"
    )

    # adapters

    @staticmethod
    def init(
        n_in: int,
        rank: int,
        n_out: int,
        *,
        size: float,
        batch: tuple[int, ...] = (),
        rng: np.random.Generator | int | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return a start with closed form: A with random orthonormal rows times `size`, and ``B = 0``.

        Parameters
        ----------
        n_in, rank, n_out : int
            Sizes; the rank is at most `n_in`.
        size : float
            Length of the rows of A, not negative.
        batch : tuple of int
            Leading shape.
        rng : Generator or int, optional

        Returns
        -------
        a : array, shape batch + (rank, n_in)
        b : array, shape batch + (n_out, rank)

        Raises
        ------
        ValueError
            If an argument is invalid.
        """
        who = "LoRA.init"
        sizes, batch = starts.layer_sizes(who, batch, n_in=n_in, rank=rank, n_out=n_out)
        n_in, rank, n_out = sizes.values()
        if rank > n_in:
            raise ValueError(f"{who}: rank = {rank} must be at most n_in = {n_in} (orthonormal rows of A); take less")
        size = number(who, "size", size, meaning="length of the rows of A", domain="[0, 1e150]", example=0.1)
        rows = np.swapaxes(orthonormal(seeded(who, rng), batch, n_in, rank), -1, -2)
        return size * rows, np.zeros((*batch, n_out, rank))

    @classmethod
    def of(cls, a: Any, b: Any) -> State:
        """Return the state of adapters `a`, shape batch + (rank, n_in), and `b`, shape batch + (n_out, rank)."""
        first = ("a", a, "first adapter", "rank, n_in")
        a, b = meeting(cls.__name__, first, ("b", b, "second adapter", "n_out, rank"), "rank")
        return cls.State(*starts.products(cls.__name__, {"a": a, "b": b}))

    @classmethod
    def state(cls, z: Any) -> Any:
        """Return `z` as a State of real arrays; raise ValueError if no adapters have this state."""
        found = super().state(z)
        given = z.values() if isinstance(z, Mapping) else z
        starts.refuse_impossible(cls.__name__, found._asdict(), f"{cls.__name__}.of(a, b)", given)
        return found

    def simulate(self, t: Any, a: Any, b: Any, **options: Any) -> Trajectory:
        """Return the trajectory by integration of A and B themselves, from any start.

        Parameters
        ----------
        t : array_like
            Times.
        a : array_like, shape batch + (rank, n_in)
        b : array_like, shape batch + (n_out, rank)
        **options
            Passed to `linsolve.integrate`.

        Returns
        -------
        Trajectory
            In the state of this flow.

        Raises
        ------
        ValueError, TypeError
            If an argument is invalid.
        """
        who, flow = f"{type(self).__name__}.simulate", self.cast(np)
        self.of(a, b)  # refuses adapters that do not fit each other
        a, b = (arithmetic.to_numpy(w) for w in (a, b))
        sizes: dict[str, tuple[int, str]] = {}
        layers = ("target", flow.target, ("n_out", "n_in")), ("a", a, ("rank", "n_in")), ("b", b, ("n_out", "rank"))
        batch_shape(who, {name: own_sizes(who, name, value.shape, axes, sizes) for name, value, axes in layers})
        root = np.sqrt(flow.scale)[..., None, None]
        pace = flow.scale / flow.tau
        rates = np.stack(np.broadcast_arrays(pace, flow.ratio * pace), axis=-1)
        found = integrate(deep_weights(flow.target - flow.base, 2, rates=rates), t, (root * a, root * b), **options)
        return Trajectory(flow, found.t, flow.of(*(w / root for w in found.state)), found.route)

    # the reduction to two layers

    def _network(self) -> WhitenedTwoLayer:
        """Return the two-layer network of the rescaled adapters."""
        one = (0 * (self.scale * self.ratio * self.tau))[..., None, None]
        pace = self.scale * _root(self.ratio)
        return _NETWORK._with(target=self.target - self.base + one, tau=self.tau / pace, _memory=self._memory)

    def _factors(self) -> tuple[Any, Any, Any]:
        """Return the factors between the fields of the state and those of the rescaled adapters."""
        c, root = self.scale[..., None, None], _root(self.ratio)[..., None, None]
        return c, c * root, c / root

    def _rescaled(self, z: Any) -> Any:
        return WhitenedTwoLayer.State(*(f * v for f, v in zip(self._factors(), z, strict=True)))

    def _restored(self, z: Any) -> Any:
        return self.State(*(v / f for f, v in zip(self._factors(), z, strict=True)))

    # the problem, in the adapters' own Gram matrices: those of the rescaled adapters may underflow

    def _paces(self) -> tuple[Any, Any]:
        """Return ``c / tau`` and ``rho c / tau``, the paces of A and B."""
        first = (self.scale / self.tau)[..., None, None]
        return first, self.ratio[..., None, None] * first

    def loss(self, xp: Any, z: Any) -> Any:
        """Return ``|S - W0 - c B A|^2 / 2``."""
        return xp.sum((self.target - self.map(xp, z)) ** 2, axis=(-2, -1)) / 2

    def descent(self, xp: Any, z: Any, gradient: Any) -> Any:
        """Return the velocity for a gradient with respect to ``B A``, by the chain rule."""
        return self._velocity(xp, z, -gradient.product / self.scale[..., None, None])

    def velocity(self, xp: Any, z: Any) -> Any:
        """Return the velocity of the product and the Gram matrices of the adapters."""
        return self._velocity(xp, z, self.target - self.map(xp, z))

    def _velocity(self, xp: Any, z: Any, e: Any) -> Any:
        """Return the velocity for the error `e` of the map."""
        (first, second), turned = self._paces(), xp.matrix_transpose
        forth, back = turned(e) @ z.product, e @ turned(z.product)
        return self.State(
            second * (e @ z.gram_in) + first * (z.gram_out @ e),
            first * (forth + turned(forth)),
            second * (back + turned(back)),
        )

    def solution(self, xp: Any, t: Any, z0: Any) -> Any:
        """Return the solution of the two-layer network, restored; at ``t = 0`` bitwise equal to `z0`."""
        found = self._restored(self._network().solution(xp, t, self._rescaled(z0)))
        still = (t == 0)[..., None, None]
        return self.State(*(xp.where(still, start, end) for start, end in zip(z0, found, strict=True)))

    def conditions(self, xp: Any, z0: Any) -> dict[str, Any]:
        """Return the condition of the two-layer network, a distance of its imbalance from the solvable class."""
        self._refuse_lost_grams(z0)
        return self._network().conditions(xp, self._rescaled(z0))

    def limit(self, xp: Any, z0: Any) -> Any:
        """Return the state at ``t = inf``."""
        return self._restored(self._network().limit(xp, self._rescaled(z0)))

    def invariants(self, xp: Any, z: Any) -> dict[str, Any]:
        """Return the power sums of the eigenvalues of the imbalance of the rescaled adapters."""
        return self._network().invariants(xp, self._rescaled(z))

    def step(self, xp: Any, z: Any, h: Any) -> Any:
        """Return the state after one step of gradient descent on A and B."""
        e, turned = self.target - self.map(xp, z), xp.matrix_transpose
        # A moves by B^T a, B by b A^T
        a, b = (h * pace * e for pace in self._paces())
        y, x, q = z.product, z.gram_in, z.gram_out
        return self.State(
            y + b @ x + q @ a + b @ turned(y) @ a,
            x + turned(a) @ y + turned(y) @ a + turned(a) @ q @ a,
            q + b @ turned(y) + y @ turned(b) + b @ x @ turned(b),
        )

    # observables

    @observable(axes=("n_out", "n_in"))
    def map(self, xp: Any, z: Any) -> Any:
        """Return the adapted map ``W0 + c B A``."""
        return self.base + self.scale[..., None, None] * z.product

    @observable(bounds="[0, inf)", axes=("mode",))
    def singular_values(self, xp: Any, z: Any) -> Any:
        """Return the singular values of the update ``c B A``, in decreasing order."""
        return self._network().singular_values(xp, self._rescaled(z))

    @observable(axes=("mode",))
    def strengths(self, xp: Any, z: Any) -> Any:
        """Return ``u_i^T c B A v_i`` for each singular direction of ``S - W0``, strongest first; learned at ``s_i``."""
        u, _, vh = xp.linalg.svd(self.target - self.base, full_matrices=False)
        return xp.sum(u * (self.scale[..., None, None] * z.product @ xp.matrix_transpose(vh)), axis=-2)

    def definition(self, xp: Any) -> Definition:
        """Return the network of A and B, of rank two."""
        turned, (n_out, n_in) = xp.matrix_transpose, self.target.shape[-2:]
        scale, change = self.scale[..., None, None], self.target - self.base

        def observables(w: Any, kernel: Any) -> dict[str, Any]:
            update = scale * (w["b"] @ w["a"])
            small = update @ turned(update) if n_out <= n_in else turned(update) @ update
            squares = xp.linalg.eigh(small)[0]
            # singular directions of the smaller side, from its Gram matrix; the others are their images
            if n_out <= n_in:
                values, u = xp.linalg.eigh(change @ turned(change))
                parts = xp.sum(u * (update @ turned(change) @ u), axis=-2)
            else:
                values, v = xp.linalg.eigh(turned(change) @ change)
                parts = xp.sum(v * (turned(change) @ update @ v), axis=-2)
            return {
                "map": self.base + update,
                "singular_values": xp.sqrt(xp.where(squares > 0, squares, 0 * squares))[..., ::-1],
                "strengths": (parts / xp.sqrt(values))[..., ::-1],
            }

        return Definition(
            weights={"a": (2, n_in), "b": (n_out, 2)},
            rates={"a": 1 / self.tau, "b": self.ratio / self.tau},
            output=lambda w: self.base + scale * (w["b"] @ w["a"]),
            target=self.target,
            state=lambda w: self.State(w["b"] @ w["a"], turned(w["a"]) @ w["a"], w["b"] @ turned(w["b"])),
            observables=observables,
        )

    @classmethod
    def example(cls, rng: np.random.Generator) -> tuple[Flow, Any]:
        """Return adapters of rank 2, ``B = 0`` and A with rows of one length, orthogonal without rounding error."""
        a = np.array([[1.0, 2.0, 2.0], [2.0, 1.0, -2.0]])[:, rng.permutation(3)] / 8
        target, base = rng.normal(size=(2, 4, 3))
        scale, ratio, tau = rng.uniform(0.5, 2.0, size=3)
        return cls(target=target, base=base, scale=scale, ratio=ratio, tau=tau), cls.of(a, np.zeros((4, 2)))
