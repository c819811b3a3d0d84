"""Linear attention with merged keys and queries, trained for in-context linear regression (Zhang et al. 2025)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.core.definition import Definition
from linsolve.core.flow import Flow, observable
from linsolve.core.integrate import integrate
from linsolve.core.network import deep_weights
from linsolve.core.parameters import parameter
from linsolve.core.trajectory import Trajectory
from linsolve.numerics.cache import Memory
from linsolve.systems.attention import heads
from linsolve.systems.attention.in_context import InContext
from linsolve.systems.attention.tokens import curvature, least_error, mean_error, network_outputs, refuse_lost_rates
from linsolve.systems.whitened.starts import products, refuse_impossible
from linsolve.systems.whitened.whitened_two_layer import WhitenedTwoLayer

__all__ = ["LinearAttention"]


class LinearAttention(InContext, Flow):
    r"""Linear attention with merged keys and queries that learns linear regression in context.

    A context of N tokens :math:`x_n \sim N(0, \Lambda)` with targets :math:`y_n = w \cdot x_n`, :math:`w \sim N(0, 1)`,
    precedes a query :math:`x_q \sim N(0, \Lambda)`. H heads with value weights :math:`v_i` and merged key-query
    matrices :math:`U_i` predict its target :math:`y = w \cdot x_q`,

    .. math:: \hat y = \beta^\top M x_q, \qquad \beta = \frac1N \sum_n y_n x_n, \qquad M = \sum_i v_i U_i .

    The loss is half the mean squared error over tasks, tokens and queries,

    .. math:: L = \frac12 E (y - \hat y)^2
        = \frac12 \mathrm{tr}\,(\Lambda - 2 \Lambda^2 M + M^\top \Lambda C M \Lambda), \qquad
        C = \Lambda + \frac{\Lambda + \mathrm{tr}(\Lambda)\, 1}{N},

    and gradient flow is :math:`\tau \dot U_i = v_i G`, :math:`\tau \dot v_i = \mathrm{tr}\, U_i^\top G` with
    :math:`G = \Lambda^2 - \Lambda C M \Lambda`. Rotations of the heads are a symmetry; the state is invariant under
    them. For white tokens, :math:`\Lambda = \lambda 1`, :math:`C = c 1` with
    :math:`c = \lambda + (1 + D) \lambda/N`, and the flow is that of `WhitenedTwoLayer` with :math:`D^2` inputs, H
    hidden units, one output, the target :math:`\mathrm{vec}(1)/c` and the time constant :math:`\tau/(\lambda^2 c)`.

    Parameters
    ----------
    context : array_like, shape batch
        Number of tokens in the training contexts, N; ``inf`` is allowed.
    dim : array_like, shape batch
        Dimension of the tokens, D; the same integer for a whole batch.
    variance : array_like, one number or shape batch + (d,)
        Variances of the tokens along the eigenvectors of their covariance; one number for white tokens. Key-query
        matrices are given in this eigenbasis.
    tau : array_like, shape batch
        Time constant (units of time), positive.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, `dim` is not the size of `variance`, or shapes do not
        fit. At a call, also for an invalid state or time.
    NotExact
        At a call, if the tokens are not white, or the imbalance of the layers belongs to no solvable class.
    OverflowError
        If products of parameters or, at a call, results leave the range of doubles.

    Notes
    -----
    Exact for: white tokens and one head, any start; white tokens and any number of heads, if the imbalance
    :math:`v v^\top - (\mathrm{tr}\, U_i^\top U_j)_{ij}` satisfies a condition of `WhitenedTwoLayer`: zero (`init`), or
    a multiple of the identity. Not for: other imbalances; tokens that are not white, for which no closed form from a
    general start is known (use `simulate`, which integrates the heads). Heads of rank one that start along eigenvectors
    of any covariance: `RankOneAttention`. With fewer heads than entries of the map, `linsolve.integrate` of this state
    is unreliable, as for `WhitenedTwoLayer`.

    The other entries of the value and key-query matrices of an attention layer stay zero if they start at zero, and do
    not affect the prediction.

    Source: Zhang, Singh, Latham and Saxe, "Training dynamics of in-context learning in linear attention" (2025),
    the model with merged key and query. The time course from any balanced start follows here from `WhitenedTwoLayer`.

    Accuracy: that of `WhitenedTwoLayer`; 1e-10 against simulated heads in 100 random draws
    (``tests/systems/attention/test_linear_attention.py``).

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import LinearAttention
    >>> flow = LinearAttention(context=31, dim=4)
    >>> traj = flow([0.0, 3.0, float("inf")], flow.of(*flow.init(4, heads=8, scale=0.01, rng=0)))
    >>> traj["loss"].round(4).tolist()
    [2.0, 0.4396, 0.2778]
    >>> flow.test_error(np, traj.state, 1000).round(4).tolist()  # contexts of another length
    [4.0, 0.6562, 0.092]
    """

    _memory: ClassVar[Memory]  # one per flow, shared by its casts

    context: Any = parameter("N", "number of tokens in a context", domain="[1, inf]", typical=(4, 64))
    dim: Any = parameter("D", "dimension of the tokens", domain="[1, inf)", typical=(2, 8), whole=True)
    variance: Any = parameter(
        r"\lambda", "variances of the tokens", domain="(0, inf)", axes=("d",), default=1.0, uniform=True
    )
    tau: Any = parameter(r"\tau", "time constant", domain="(0, inf)", default=1.0)

    class State(NamedTuple):
        """Map ``sum v U`` (d, d), key-query Gram tensor ``sum U U`` (d, d, d, d) and ``sum v^2`` of the values."""

        product: Any
        gram_in: Any
        gram_out: Any

    axes: ClassVar = {"product": ("d", "d"), "gram_in": ("d", "d", "d", "d"), "gram_out": ()}

    otherwise: ClassVar = (
        "use flow.simulate(t, value, key_query), which integrates the heads; integrate(flow, t, z0) follows products, "
        "which is unreliable with few heads"
    )

    init = staticmethod(heads.init)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.variance.ndim:
            self._refuse_size("variance", self.variance.shape[-1])
        refuse_lost_rates(type(self).__name__, self.variance, self.tau, self.dim)
        object.__setattr__(self, "_memory", Memory())

    def _refuse_size(self, name: str, size: int) -> None:
        """Raise ValueError if an array of the user is not of dimension `dim`."""
        if not arithmetic.readable(self.dim):
            return
        given = arithmetic.to_numpy(self.dim)
        if (given != size).any():
            raise ValueError(
                f"LinearAttention: dim = {given[given != size].flat[0]:g} must equal d = {size} of {name} (dimension "
                "of the tokens); change one of the two"
            )

    @classmethod
    def of(cls, value: Any, key_query: Any) -> State:
        """Return the state of value weights, shape batch + (heads,), and key-query matrices, batch + (heads, d, d)."""
        v, u = heads.checked(cls.__name__, value, key_query)
        d = u.shape[-1]
        xp = arithmetic.namespace(v, u)
        rows = xp.reshape(u, (*u.shape[:-2], d * d))
        layers = {"key_query": rows, "value": v[..., None, :]}
        return cls._merged(xp, WhitenedTwoLayer.State(*products(cls.__name__, layers)))

    @classmethod
    def state(cls, z: Any) -> Any:
        """Return `z` as a State of real arrays; raise ValueError if no heads have this state."""
        found = super().state(z)
        given = z.values() if isinstance(z, Mapping) else z
        layers = cls._flat(arithmetic.namespace(*found), found)._asdict()
        refuse_impossible(cls.__name__, layers, f"{cls.__name__}.of(value, key_query)", given)
        return found

    def simulate(self, t: Any, value: Any, key_query: Any, **options: Any) -> Trajectory:
        """Return the trajectory by integration of the heads themselves, from any start and for any token variances.

        Parameters
        ----------
        t : array_like
            Times.
        value : array_like, shape batch + (heads,)
        key_query : array_like, shape batch + (heads, d, d)
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
        flow = self.cast(np)
        variance = flow._tokens(np, self.of(value, key_query))[1]
        v, u = (arithmetic.to_numpy(w) for w in (value, key_query))
        entries = (*u.shape[:-2], u.shape[-1] ** 2)
        c = curvature(np, flow.context, variance)
        best = np.eye(u.shape[-1]) / c[..., None]
        pull = (variance * c)[..., :, None] * variance[..., None, :]
        heads_as_layers = deep_weights(
            best.reshape((*best.shape[:-2], 1, entries[-1])),
            2,
            rates=np.stack([1 / flow.tau] * 2, axis=-1),
            covariance=pull.reshape((*pull.shape[:-2], entries[-1], 1)) * np.eye(entries[-1]),
        )
        found = integrate(heads_as_layers, t, (u.reshape(entries), v[..., None, :]), **options)
        rows, values = found.state
        return Trajectory(
            flow, found.t, flow.of(values[..., 0, :], rows.reshape((*rows.shape[:-1], *u.shape[-2:]))), found.route
        )

    # the two-layer network of the heads

    @classmethod
    def _flat(cls, xp: Any, z: Any) -> WhitenedTwoLayer.State:
        """Return the state with the map as a row of d^2 entries."""
        size = z.product.shape[-1] ** 2
        return WhitenedTwoLayer.State(
            xp.reshape(z.product, (*z.product.shape[:-2], 1, size)),
            xp.reshape(z.gram_in, (*z.gram_in.shape[:-4], size, size)),
            z.gram_out[..., None, None],
        )

    @classmethod
    def _merged(cls, xp: Any, layers: Any) -> Any:
        """Return the state of a two-layer network with d^2 inputs and one output."""
        d = round(layers.product.shape[-1] ** 0.5)
        return cls.State(
            xp.reshape(layers.product, (*layers.product.shape[:-2], d, d)),
            xp.reshape(layers.gram_in, (*layers.gram_in.shape[:-2], d, d, d, d)),
            layers.gram_out[..., 0, 0],
        )

    def _size(self) -> int:
        return int(arithmetic.to_numpy(self.dim).flat[0])

    def _variances(self, xp: Any, d: int) -> Any:
        return self.variance * xp.ones(d) if self.variance.ndim == 0 else self.variance

    def _tokens(self, xp: Any, z: Any) -> tuple[Any, Any]:
        """Return context and variances, shape batch + (d,); raise ValueError if the state is of another dimension."""
        self._refuse_size("the state", z.product.shape[-1])
        return self.context, self._variances(xp, z.product.shape[-1])

    def _network(self, xp: Any, z: Any) -> WhitenedTwoLayer:
        """Return the two-layer network whose flow that of the heads is, if the tokens are white."""
        context, variance = self._tokens(xp, z)
        c, first = curvature(xp, context, variance), variance[..., 0]
        d = variance.shape[-1]
        best = xp.eye(d) / c[..., None]
        network = WhitenedTwoLayer(np.zeros((1, 1)))._with(
            target=xp.reshape(best, (*best.shape[:-2], 1, d * d)), tau=self.tau / first / first / c[..., 0]
        )
        object.__setattr__(network, "_memory", self._memory)
        return network

    # the problem

    def loss(self, xp: Any, z: Any) -> Any:
        """Return half the mean squared error."""
        return mean_error(xp, *self._tokens(xp, z), z.product) / 2

    def _pull(self, xp: Any, z: Any) -> Any:
        """Return ``G``, minus the gradient of the loss with respect to the map."""
        context, variance = self._tokens(xp, z)
        c = curvature(xp, context, variance)
        off = xp.eye(variance.shape[-1]) / c[..., None] - z.product
        return (variance * c)[..., :, None] * off * variance[..., None, :]

    def descent(self, xp: Any, z: Any, gradient: Any) -> Any:
        """Return the velocity for a gradient with respect to the map, by the chain rule of the heads."""
        network = self._network(xp, z)._with(tau=self.tau)
        return self._merged(xp, network.descent(xp, self._flat(xp, z), self._flat(xp, gradient)))

    def velocity(self, xp: Any, z: Any) -> Any:
        """Return ``|v|^2 G + K[G]`` for the map, with the key-query Gram tensor K, and those of the Gram tensors."""
        return self.descent(xp, z, z._replace(product=-self._pull(xp, z)))

    def step(self, xp: Any, z: Any, h: Any) -> Any:
        """Return the state after one step of gradient descent on the heads, of length `h` in units of time."""
        flat = self._flat(xp, z)
        pull = self._flat(xp, z._replace(product=(h / self.tau)[..., None, None] * self._pull(xp, z))).product
        return self._merged(xp, self._network(xp, z)._stepped(xp, flat, pull))

    # the closed form

    def solution(self, xp: Any, t: Any, z0: Any) -> Any:
        """Return the state by `WhitenedTwoLayer`; at ``t = 0`` bitwise equal to `z0`."""
        return self._merged(xp, self._network(xp, z0).solution(xp, t, self._flat(xp, z0)))

    def limit(self, xp: Any, z0: Any) -> Any:
        """Return the state at ``t = inf``."""
        return self._merged(xp, self._network(xp, z0).limit(xp, self._flat(xp, z0)))

    def conditions(self, xp: Any, z0: Any) -> dict[str, Any]:
        """Return the relative spread of the variances, and the condition of `WhitenedTwoLayer` on the heads."""
        _, variance = self._tokens(xp, z0)
        most = xp.max(variance, axis=-1)
        spread = {"distance of the tokens from white": (most - xp.min(variance, axis=-1)) / most}
        return spread | self._network(xp, z0).conditions(xp, self._flat(xp, z0))

    def invariants(self, xp: Any, z: Any) -> dict[str, Any]:
        """Return power sums of the eigenvalues of the heads' imbalance, conserved for every token covariance."""
        return self._network(xp, z).invariants(xp, self._flat(xp, z))

    # observables

    @observable(axes=("d",))
    def strengths(self, xp: Any, z: Any) -> Any:
        """Return the diagonal of the map: its strengths along the eigenvectors of the token covariance."""
        return xp.sum(z.product * xp.eye(z.product.shape[-1]), axis=-1)

    def least_loss(self, xp: Any) -> Any:
        """Return the smallest loss, that of the map ``C^-1``."""
        return least_error(xp, self.context, self._variances(xp, self._size())) / 2

    def _map(self, xp: Any, z: Any) -> tuple[Any, Any]:
        return self._tokens(xp, z)[1], z.product

    def definition(self, xp: Any) -> Definition:
        """Return two heads on averages over tasks, tokens and queries; see `tokens.network_outputs`."""
        d = self._size()
        variance = self._variances(xp, d)
        inputs, targets = network_outputs(xp, self.context, variance)
        query = xp.sqrt(variance)[..., None, :]

        def map_of(w: Any) -> Any:
            return xp.sum(w["value"][..., None, None] * w["key_query"], axis=-3)

        def state(w: Any) -> Any:
            u = xp.reshape(w["key_query"], (*w["key_query"].shape[:-2], d * d))
            gram = xp.sum(u[..., :, None] * u[..., None, :], axis=-3)
            gram = xp.reshape(gram, (*gram.shape[:-2], d, d, d, d))
            return self.State(map_of(w), gram, xp.sum(w["value"] ** 2, axis=-1))

        return Definition(
            weights={"value": (2,), "key_query": (2, d, d)},
            rates={"value": 1 / self.tau, "key_query": 1 / self.tau},
            output=lambda w: inputs @ (map_of(w) * query)[..., None, :, :],
            target=targets,
            state=state,
            observables=lambda w, kernel: {"strengths": xp.stack([map_of(w)[..., k, k] for k in range(d)], axis=-1)},
        )

    @classmethod
    def counterexamples(cls, rng: np.random.Generator) -> dict[str, tuple[Flow, Any]]:
        """Return tokens with two different variances."""
        coloured = cls(context=8, dim=2, variance=[1.0, rng.uniform(0.3, 0.8)])
        return {"distance of the tokens from white": (coloured, cls.of(*cls.init(2, scale=0.5, rng=rng)))}

    @classmethod
    def example(cls, rng: np.random.Generator) -> tuple[Flow, Any]:
        """Return two heads on tokens of two dimensions, lambda-balanced without rounding error."""
        value, lean = rng.integers(1, 6, 2) / 8.0, float(rng.integers(2, 6)) / 8.0
        mirror = np.eye(4) - 0.5  # orthogonal, with dyadic entries
        rows = np.stack([value, [lean, 0.0], [0.0, lean], [0.0, 0.0]], axis=-1) @ mirror  # rows rows^T = v v^T + lean^2
        flow = cls(context=rng.integers(3, 20), dim=2, variance=rng.uniform(0.6, 1.4), tau=rng.uniform(0.5, 2.0))
        return flow, cls.of(value, rows.reshape(2, 2, 2))
