"""The two-layer linear network on white inputs (Fukumizu 1998; Braun et al. 2022; Domine et al. 2024)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from linsolve import arithmetic
from linsolve.core.definition import Definition
from linsolve.core.flow import Flow, observable
from linsolve.core.kept import Last
from linsolve.core.named_arguments import named_arguments
from linsolve.core.parameters import parameter
from linsolve.numerics.cache import Memory
from linsolve.systems.whitened import raw_weights
from linsolve.systems.whitened import starts as whitened_start
from linsolve.systems.whitened.layer_root import LayerRoot
from linsolve.systems.whitened.matrix_riccati import is_balanced_start, is_large, known_start, matrix_riccati

__all__ = ["WhitenedTwoLayer"]


def _trace(xp: Any, a: Any, b: Any) -> Any:
    """Return ``tr(a^T b)``."""
    return xp.sum(a * b, axis=(-2, -1))


class WhitenedTwoLayer(Flow):
    r"""A two-layer linear network on white inputs; the state holds its product and Gram matrices.

    .. math:: L = |S - W_2 W_1|_F^2 / 2, \qquad
        \tau \dot W_1 = W_2^\top (S - W_2 W_1), \quad \tau \dot W_2 = (S - W_2 W_1) W_1^\top.

    Rotations of the hidden units are a symmetry. The state is invariant under them: the product :math:`Y = W_2 W_1` and
    the Gram matrices :math:`X = W_1^\top W_1`, :math:`Z = W_2 W_2^\top`. From any initial weights it obeys a closed
    equation,

    .. math:: \tau \dot P = G P + P G, \quad P = \begin{pmatrix} X & Y^\top \\ Y & Z \end{pmatrix}, \quad
        G = \begin{pmatrix} 0 & (S - Y)^\top \\ S - Y & 0 \end{pmatrix},

    which is a solvable matrix Riccati equation (`linsolve.systems.whitened.matrix_riccati`) for every initial state
    with :math:`P_0 J P_0 = (\lambda_1 + \lambda_2) P_0 - \lambda_1 \lambda_2 J`, ``J = diag(-1, 1)``.

    Parameters
    ----------
    target : array_like, shape batch + (n_out, n_in)
        Input-output map :math:`S` of the data, :math:`\Sigma_{yx} \Sigma_{xx}^{-1}`; any rank.
    tau : array_like, shape batch
        Time constant (units of time), positive.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, or shapes do not fit. At a call, also for an invalid
        state or time.
    NotExact
        At a call, if the imbalance of the layers belongs to no solvable class.
    OverflowError
        At a call, or at the access of an observable, if results leave the range of doubles; at a call, if the imbalance
        has two eigenvalues whose product, of the order of the fourth power of the weights, underflows.

    Notes
    -----
    Exact for: balanced weights (:math:`W_2^\top W_2 = W_1 W_1^\top`) of any width, bottlenecks included;
    lambda-balanced weights (:math:`W_2^\top W_2 - W_1 W_1^\top = \lambda I`), lambda of either sign; one hidden unit;
    one input and one output; imbalances with just two nonzero eigenvalues :math:`\lambda_1 > 0 > \lambda_2`, if the
    width is at least n_in + n_out and :math:`(W_1^\top; W_2)` has full rank (the limit of wide random networks); any
    rank of target and weights. Not for: other imbalances, inputs that are not white, more layers;
    use `linsolve.integrate`. For other imbalances no closed form is known. With three distinct eigenvalues, no closed
    form is rational in exponentials. The weights themselves include a rotation of hidden units that is not elementary:
    `weights` integrates it numerically. In a bottleneck, numerical integration of the Gram matrices is unreliable: they
    do not contain the number of hidden units, and rounding errors excite modes that the bottleneck forbids. Integrate
    the weights instead (`linsolve.deep.deep_weights`).

    A leaky ReLU network of mirrored units (w, u), (-w, -u), on white, mirrored samples (x, y), (-x, -y), without
    biases, is this flow in the weights :math:`\sqrt g\, W_l`, at the rates :math:`g \eta_l`, with
    :math:`g = (1 + \alpha) / 2` (Zhang, Saxe and Latham 2025). `linsolve.applies` measures these conditions.

    Sources: Fukumizu, "Effect of batch learning in multilayer neural networks" (1998); Braun, Domine, Fitzgerald,
    Saxe, "Exact learning dynamics of deep linear networks with prior knowledge" (2022), Theorem 3.1; Domine et al.,
    "From lazy to rich" (2024), Theorem 4.3. The published forms contain the inverses of :math:`\tilde F` and of a sum
    of singular vectors. These do not exist in a bottleneck, nor for the half of all square balanced weights that
    converge to a saddle, and they lose up to nine digits as lambda tends to 0. The form used here inverts neither.

    The loss is computed from the difference ``S - Y``: after convergence its error is a rounding error of ``|S|^2``.

    Accuracy: 1e-12 of each field's largest entry at every time, scales 1e-8 to 10 (typically 1e-14;
    ``tests/systems/whitened/test_matrix_riccati.py``), times the condition number of the flow in its initial state.
    In a bottleneck whose imbalance lambda is far larger than the singular values s of the target, the layers rotate in
    the time ``lambda/s^2``; this rotation and its end keep their digits up to ratios of 1e12
    (``tests/systems/whitened/test_large_imbalance.py``). Near a saddle (an imbalance of 1e-6 in a network of scale 10,
    for example) the condition number is large. An initial state within `tolerance` of the solvable class is replaced by
    the nearest one in it. States that no weights have raise ValueError
    (``tests/systems/whitened/test_impossible_states.py``).

    Gram matrices hold the squares of the weights: a mode of balanced weights at the share r of the largest one starts
    with the relative error 1e-16/r^2, and below r = 1e-7 it cannot be told from a rounding error and is taken for zero,
    although a target would make it grow. `starting` solves from the weights themselves, which hold such modes
    to 1e-16/r; `linsolve.solve` does so (``tests/systems/whitened/test_small_modes.py``).

    A flow caches the singular vectors of its target and the square root of the last initial state; a copy or pickle has
    no cache (``tests/systems/whitened/test_matrix_memory.py``).

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import WhitenedTwoLayer
    >>> flow = WhitenedTwoLayer(target=np.diag([3.0, 1.0]))
    >>> w = 0.1 * np.eye(2)
    >>> traj = flow([0.0, 1.0, np.inf], WhitenedTwoLayer.of(w, w))
    >>> traj["singular_values"].round(4).tolist()
    [[0.01, 0.01], [1.723, 0.0695], [3.0, 1.0]]
    """

    _memory: ClassVar[Memory]  # one per flow, shared by its casts
    _origin: ClassVar[LayerRoot | None] = None  # of the weights of one start; copies and pickles keep it

    target: Any = parameter("S", "input-output map", axes=("n_out", "n_in"))
    tau: Any = parameter(r"\tau", "time constant", domain="(0, inf)", typical=(0.5, 2.0), default=1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        whitened_start.refuse_large_target(type(self).__name__, self.target)
        object.__setattr__(self, "_memory", Memory())

    class State(NamedTuple):
        """Product ``W2 W1`` (n_out, n_in), Gram matrices ``W1^T W1`` (n_in, n_in) and ``W2 W2^T`` (n_out, n_out)."""

        product: Any
        gram_in: Any
        gram_out: Any

    axes: ClassVar = {"product": ("n_out", "n_in"), "gram_in": ("n_in", "n_in"), "gram_out": ("n_out", "n_out")}

    otherwise: ClassVar = (
        "use integrate(deep.deep_weights(target, 2, rates=1 / tau), t, (w1, w2)), which follows the weights; "
        "integrate(flow, t, z0) follows products, which is unreliable below full rank: rounding excites modes that the "
        "bottleneck forbids"
    )

    init = staticmethod(whitened_start.init)
    gaussian = staticmethod(whitened_start.gaussian)

    @classmethod
    def of(cls, w1: Any, w2: Any) -> State:
        """Return the state of weights `w1`, shape batch + (width, n_in), and `w2`, shape batch + (n_out, width)."""
        w1, w2 = whitened_start.checked(cls.__name__, w1, w2)
        return cls.State(*whitened_start.products(cls.__name__, {"w1": w1, "w2": w2}))

    @named_arguments()
    def starting(self, w1: Any, w2: Any) -> tuple[Self, State]:
        """Return this flow and the state of weights; the flow solves from this state by the weights themselves.

        Gram matrices lose modes of the weights below 1e-8 of the largest one. NumPy arrays of doubles only: for
        others, the flow is as before.

        Parameters
        ----------
        w1 : array_like, shape batch + (width, n_in)
        w2 : array_like, shape batch + (n_out, width)

        Returns
        -------
        flow : WhitenedTwoLayer
            From any other state, the same as this one.
        z0 : State
            ``of(w1, w2)``.

        Examples
        --------
        >>> import numpy as np
        >>> from linsolve import WhitenedTwoLayer
        >>> mix, small = np.array([[0.8, -0.6], [0.6, 0.8]]), np.array([1e-9, 1.0])
        >>> w1, w2 = (mix * small).T, mix * small  # balanced, with singular values 1 and 1e-9
        >>> flow, z0 = WhitenedTwoLayer(target=np.diag([3.0, 1.0])).starting(w1, w2)
        >>> flow(np.inf, z0)["singular_values"].round(12).tolist()
        [3.0, 1.0]
        """
        w1, w2 = whitened_start.checked(type(self).__name__, w1, w2)
        z0 = self.of(w1, w2)
        return self._with(_memory=Memory(), _last=Last(), _origin=LayerRoot.of(z0, w1, w2)), z0

    @classmethod
    def state(cls, z: Any) -> Any:
        """Return `z` as a State of real arrays; raise ValueError if no weights have this state."""
        return cls._possible(z)

    @classmethod
    def _possible(cls, z: Any, **known: Any) -> Any:
        found = super().state(z)
        given = z.values() if isinstance(z, Mapping) else z
        made_by = f"{cls.__name__}.of(w1, w2)"
        whitened_start.refuse_impossible(cls.__name__, found._asdict(), made_by, given, **known)
        return found

    def _called_from(self, z0: Any) -> Any:
        """Return ``state(z0)``; a large balanced state is checked by its root, which the solution needs too."""
        if type(self).state.__func__ is not WhitenedTwoLayer.state.__func__:  # type: ignore[attr-defined]
            return self.state(z0)
        return self._possible(z0, is_sound=self._is_balanced)

    def _is_balanced(self, *state: Any) -> bool:
        if self.tau.ndim or not is_large(self.target, *state):
            return False
        doubles = all(map(arithmetic.is_double, (self.target, self.tau, *state)))
        return doubles and is_balanced_start(self._memory, self._every_target(), *state)

    def loss(self, xp: Any, z: Any) -> Any:
        """Return ``|S - Y|^2 / 2``."""
        return xp.sum((self.target - z.product) ** 2, axis=(-2, -1)) / 2

    def descent(self, xp: Any, z: Any, gradient: Any) -> Any:
        """Return the velocity for a gradient with respect to the product, by the chain rule."""
        turned = xp.matrix_transpose
        e = -gradient.product / self.tau[..., None, None]
        return self.State(
            e @ z.gram_in + z.gram_out @ e,
            turned(e) @ z.product + turned(z.product) @ e,
            e @ turned(z.product) + z.product @ turned(e),
        )

    def velocity(self, xp: Any, z: Any) -> Any:
        """Return ``(G P + P G) / tau``, block by block."""
        e, turned = self.target - z.product, xp.matrix_transpose
        tau = self.tau[..., None, None]
        forth, back = turned(e) @ z.product, e @ turned(z.product)
        return self.State(
            (z.gram_out @ e + e @ z.gram_in) / tau, (forth + turned(forth)) / tau, (back + turned(back)) / tau
        )

    def solution(self, xp: Any, t: Any, z0: Any) -> Any:
        """Return the matrix Riccati solution; at ``t = 0`` bitwise equal to `z0`, at ``t = inf`` the limit."""
        options = {"memory": self._memory, "layer_root": self._layer_root(z0)}
        return self.State(*matrix_riccati(xp, t / self.tau, self._every_target(), *z0, **options))

    def compiled_solution(self, t: Any, z0: Any) -> Any:
        """Return `solution` of NumPy arrays by compiled linear algebra (extra ``[fast]``)."""
        options = {"memory": self._memory, "layer_root": self._layer_root(z0), "method": "compiled"}
        return self.State(*matrix_riccati(np, t / self.tau, self._every_target(), *z0, **options))

    def _every_target(self) -> Any:
        """Return the target of each network, with 0 in place of -0."""
        return self.target + 0 * self.tau[..., None, None]

    def _layer_root(self, z0: Any) -> Any:
        """Return the square root of `starting` if `z0` is its state, else None."""
        return self._origin.root if self._origin is not None and self._origin.fits(z0) else None

    def conditions(self, xp: Any, z0: Any) -> dict[str, Any]:
        """Return the distance of ``P0 J P0`` from the plane of ``P0`` and ``J``, relative to ``|P0|^2``.

        For one large balanced state it is an upper bound, at the level of rounding.
        """
        kind, _ = known_start(xp, self._memory, self._every_target(), *z0)
        return {"distance of the imbalance from a solvable one": kind.distance}

    def limit(self, xp: Any, z0: Any) -> Any:
        """Return the state at ``t = inf``."""
        return self.solution(xp, xp.inf * xp.ones_like(self.tau), z0)

    def invariants(self, xp: Any, z: Any) -> dict[str, Any]:
        """Return ``tr (J P)^k`` for k = 1, 2, 3: the power sums of the imbalance's eigenvalues."""
        x, y, q = z.gram_in, z.product, z.gram_out
        turned = xp.matrix_transpose(y)
        a, b, c = turned @ y - x @ x, q @ y - y @ x, q @ q - y @ turned
        # (J P)^2 = J (P J P), and tr (J P)^3 = tr(J (P J P) J P)
        return {
            "imbalance": _diagonal_sum(xp, q) - _diagonal_sum(xp, x),
            "imbalance_squared": _diagonal_sum(xp, c) - _diagonal_sum(xp, a),
            "imbalance_cubed": _trace(xp, a, x) - 2 * _trace(xp, b, y) + _trace(xp, c, q),
        }

    def step(self, xp: Any, z: Any, h: Any) -> Any:
        """Return the state after one step of gradient descent on the weights: ``(1 + h G/tau) P (1 + h G/tau)``."""
        return self._stepped(xp, z, h / self.tau[..., None, None] * (self.target - z.product))

    def _stepped(self, xp: Any, z: Any, e: Any) -> Any:
        """Return the state after the weights moved by ``W2^T e`` and ``e W1^T``."""
        turned = xp.matrix_transpose
        back, y, x, q = turned(e), z.product, z.gram_in, z.gram_out
        return self.State(
            y + q @ e + e @ x + e @ turned(y) @ e,
            x + back @ y + turned(y) @ e + back @ q @ e,
            q + e @ turned(y) + y @ back + e @ x @ back,
        )

    # observables

    @observable(bounds="[0, inf)", axes=("mode",))
    def singular_values(self, xp: Any, z: Any) -> Any:
        """Return the singular values of the product, in decreasing order."""
        return xp.linalg.svd(z.product, full_matrices=False)[1]

    @observable(bounds="[-1, 1]")
    def kernel_alignment(self, xp: Any, z: Any) -> Any:
        """Return the cosine between the tangent kernel on white inputs and the target's ``y y^T``.

        ``(tr S X S^T + tr S^T Z S) / (|S|^2 |K|)``, ``|K|^2 = n_out |X|^2 + 2 tr X tr Z + n_in |Z|^2``; zero for a zero
        kernel or target.
        """
        (s,), (x, q) = _scaled(xp, self.target), _scaled(xp, z.gram_in, z.gram_out)
        fit = _trace(xp, s, s @ x) + _trace(xp, s, q @ s)
        both = 2 * _diagonal_sum(xp, x) * _diagonal_sum(xp, q)
        size = xp.sqrt(q.shape[-1] * _trace(xp, x, x) + both + x.shape[-1] * _trace(xp, q, q)) * _trace(xp, s, s)
        return fit / xp.where(size > 0, size, xp.ones_like(size))

    @observable(bounds="[0, 1]")
    def obstructed(self, xp: Any, z: Any) -> Any:
        """Return 1 where parity forbids the target: square, balanced, ``det Y det S < 0``; else 0.

        A balanced square network keeps the sign of ``det Y``; the exact flow then converges to a saddle. At the saddle
        itself, as at ``t = inf``, ``det Y`` is zero and the result 0: judge by the start.
        """
        return whitened_start.obstructed(xp, self.target, *z)

    def final_loss(self, xp: Any, z0: Any) -> Any:
        """Return the loss at ``t = inf``; for generic obstructed states ``s^2/2``, s the least singular value of S."""
        return self.loss(xp, self.limit(xp, z0))

    def prospect(self, z0: Any) -> str:
        """Return a sentence that states the limit of the flow from `z0` and the reason."""
        return whitened_start.prospect(self, z0)

    def ntk(self, xp: Any, z: Any, x1: Any, x2: Any) -> Any:
        """Return the tangent kernel between inputs, ``K_cc'(x, x') = delta_cc' x.X x' + Z_cc' x.x'``.

        Parameters
        ----------
        xp : namespace
        z : State
        x1 : array, shape (m1, n_in)
        x2 : array, shape (m2, n_in)

        Returns
        -------
        array, shape batch + (m1, m2, n_out, n_out)
        """
        back = xp.matrix_transpose(x2)
        first = (x1 @ z.gram_in @ back)[..., None, None]
        second = (x1 @ back)[..., None, None]
        return first * xp.eye(z.gram_out.shape[-1]) + second * z.gram_out[..., None, None, :, :]

    @named_arguments()
    def weights(self, t: Any, w1: Any, w2: Any, *, rtol: float = 1e-10) -> tuple[Any, Any]:
        """Return raw weights at times `t`, by integration of a linear ODE; see `raw_weights.weights`."""
        return raw_weights.weights(self, t, w1, w2, rtol=rtol)

    def definition(self, xp: Any) -> Definition:
        """Return the network of raw weights, with two hidden units."""
        turned, (n_out, n_in) = xp.matrix_transpose, self.target.shape[-2:]

        def observables(w: Any, kernel: Any) -> dict[str, Any]:
            product, k = w["w2"] @ w["w1"], kernel(w, rates=False)
            y = xp.reshape(self.target, (*self.target.shape[:-2], n_out * n_in, 1))
            small = product @ turned(product) if n_out <= n_in else turned(product) @ product
            squares = xp.linalg.eigh(small)[0]
            size = xp.sqrt(xp.sum(k * k, axis=(-2, -1))) * xp.sum(y * y, axis=(-2, -1))
            return {
                "singular_values": xp.sqrt(xp.where(squares > 0, squares, 0 * squares))[..., ::-1],
                "kernel_alignment": (turned(y) @ k @ y)[..., 0, 0] / size,
                "obstructed": 0 * size,  # nonzero only where the layers are balanced
            }

        return Definition(
            weights={"w1": (2, n_in), "w2": (n_out, 2)},
            rates={"w1": 1 / self.tau, "w2": 1 / self.tau},
            output=lambda w: w["w2"] @ w["w1"],
            target=self.target,
            state=lambda w: self.State(w["w2"] @ w["w1"], turned(w["w1"]) @ w["w1"], w["w2"] @ turned(w["w2"])),
            observables=observables,
        )

    @classmethod
    def example(cls, rng: np.random.Generator) -> tuple[Flow, Any]:
        """Return a 3-2-4 network, lambda-balanced without rounding error, with generic target and time constant."""
        w1, w2 = whitened_start.dyadic(rng, 3, 2, 4)
        target = rng.normal(size=(4, 3))
        return cls(target=target, tau=rng.uniform(0.5, 2.0)), cls.of(w1, w2)


def _scaled(xp: Any, *matrices: Any) -> list[Any]:
    """Return matrices in units of their largest entry, so that products stay in the range of doubles."""
    size = reduce(xp.maximum, [xp.max(xp.abs(m), axis=(-2, -1)) for m in matrices])
    return [m / xp.where(size > 0, size, xp.ones_like(size))[..., None, None] for m in matrices]


def _diagonal_sum(xp: Any, a: Any) -> Any:
    return xp.sum(a * xp.eye(a.shape[-1]), axis=(-2, -1))
