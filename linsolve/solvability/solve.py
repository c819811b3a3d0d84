"""`solve`: the trajectory of a linear network on a data set, by the closed form that holds or by integration."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from linsolve.core.arguments import Interval, known_array, number, shown
from linsolve.core.biased_values import on_centered, split_first
from linsolve.core.biases import UNSOLVED, distances, is_first_only, on_ones, worst
from linsolve.core.named_arguments import named_arguments
from linsolve.core.network_arguments import Network, read, refuse_unpaired
from linsolve.core.trajectory import Deferred, read_only
from linsolve.solvability.activation import read_activation
from linsolve.solvability.architectures import recognized
from linsolve.solvability.branched.branches import Branches
from linsolve.solvability.branched.trajectory import solve_branches
from linsolve.solvability.departure import departure, map_match
from linsolve.solvability.deviation import ROUNDING
from linsolve.solvability.held_out import read_test, test_loss
from linsolve.solvability.leaky_relu import Reduction
from linsolve.solvability.problem import BiasedProblem, Problem
from linsolve.solvability.rank_one import Heads, solve_heads
from linsolve.solvability.routes import Reason, by_closed_form, by_integration
from linsolve.solvability.trajectory import WHO, NetworkTrajectory

__all__ = ["NetworkTrajectory", "checked_step", "of_layers", "solve", "solved"]

FINEST = 1e-15  # directions of the samples below it are rounding


@named_arguments("solve")
def solve(
    weights: Any,
    data: Any,
    t: Any,
    rates: Any = None,
    *,
    bias: Any = None,
    activation: str | tuple[str, float] | None = None,
    rtol: float = 1e-10,
    tolerance: float | None = None,
    covariances: bool = False,
    step: float | None = None,
    within: float | None = None,
    test: Any = None,
    base: Any = None,
    scale: float | None = None,
    context: float | None = None,
    contexts: Any = None,
    gates: Any = None,
) -> NetworkTrajectory:
    r"""Return the training trajectory of a linear network on a data set.

    .. math:: L = \frac{1}{2P} \sum_\mu |y_\mu - W_L \cdots W_1 x_\mu|^2, \qquad
        \dot W_l = -\eta_l\, \partial L / \partial W_l .

    If an exact solution holds, by the conditions of `applies`, it is evaluated; otherwise the weights are integrated
    numerically. ``traj.route`` names the method and, for integrated weights, the nearest exact case that `applies`
    names, with the conditions that fail for it.

    Parameters
    ----------
    weights : sequence of array_like
        ``W1, ..., WL`` from the first layer, shape (n_1, n_in), to the last, shape (n_out, n_{L-1}) or, for one output,
        (n_{L-1},). Two-layer branches are pairs in a list, ``[[W1, W2], [W1, W2], ...]``; see `applies`.
    data : pair of array_like
        Samples ``(X, Y)``, shapes (P, n_in) and (P, n_out) or (P,); with ``covariances=True`` the moments
        ``(Sigma_xx, Sigma_yx) = (X^T X / P, Y^T X / P)``.
    t : array_like, any shape
        Times, not negative, in any order. The given weights are those at time 0. ``inf`` needs a closed form.
    rates : array_like, shape (L,), optional
        Learning rates, positive; 1 by default. For the loss summed over samples multiply them by P.
    bias : sequence of array_like, or a number, optional
        Trained biases, one entry a layer, shape (n_l,) or a number for all units, None for a layer without a bias; they
        have the learning rates of their layers, and need samples.
    activation : None, "linear", "relu" or ("leaky_relu", alpha)
        Activation function of the hidden units; `alpha`, above -1, is the slope of negative inputs. A network with one
        hidden layer of mirrored units, on mirrored samples and without biases, trains as a linear network (see Notes).
    rtol : float
        Relative tolerance of the integrator. A closed form whose conditions do not hold to rounding (1e-13) is used if
        the bound on its relative error is at most `rtol`.
    tolerance : float, optional
        Relative distance, 1e-15 to 0.1, up to which conditions hold and the closed form is used whatever its error;
        ``traj.route`` contains the bound on the error.
    covariances : bool
        Whether `data` holds second moments instead of samples.
    step : float, optional
        Length of a step of gradient descent, in units of time. ``traj.departure`` is then the first time at which its
        outputs differ from those of gradient flow by more than `within` times the largest output of the flow (root mean
        square over samples). Its `method` names the source: exact descent, for a network that reduces to a `Map`; a
        simulation; or a leading correction.
    within : float, optional
        Size of that difference, as a share of the largest output, 0.01 by default; needs `step`.
    test : pair of array_like, optional
        Test samples ``(X, Y)``, shapes (m, n_in) and (m, n_out) or (m,): adds ``test_loss``. `applies` finds the time
        at which it is least, and predicts it for linear models.
    base, scale : array_like, shape (n_out, n_in), and float, optional
        Frozen map and factor of the product of the layers; see `applies`. ``map`` is then that of base and update.
    context : float, optional
        Number of tokens in a context, for linear attention; see `applies`. The trajectory has ``value`` and
        ``key_query``, or ``value``, ``key`` and ``query``, and ``map``, shape (d, d), in place of layers.
    contexts, gates : array_like, shapes (P,) and (branches, K), optional
        Context of each sample and gates of the branches; see `applies`. The trajectory of branches has ``first_1``,
        ``last_1``, ``first_2``, ... in place of layers, shapes (width, n_in) and (n_out, width) or, for one head a
        context, (m, n_out, width), and ``map``, shape (K, n_out, n_in), or (n_out, n_in) without contexts; n_in counts
        the inputs of all arrays of X.

    Returns
    -------
    NetworkTrajectory
        By name, with leading axes ``t.shape``:

        - ``w1`` ... ``wL``: layers, shapes (n_l, n_{l-1}); ``b1`` ... ``bL``: biases, if given, shapes (n_l,);
        - ``map``: the product ``W_L ... W_1``, shape (n_out, n_in), and ``offset``, with biases, the output at
          ``x = 0``, shape (n_out,);
        - ``singular_values`` of the map, the largest first;
        - ``loss`` and ``train_loss``: both :math:`L`, including the part that no linear map explains; ``test_loss``,
          with `test`: the same on the test samples;
        - ``ntk``: tangent kernel on the samples, shape (P n_out, P n_out), with :math:`\dot f = -K (f - y) / P`. Row
          ``p n_out + i``, column ``q n_out + j``:
          :math:`\sum_l \eta_l \langle \partial f_i(x_p)/\partial W_l, \partial f_j(x_q)/\partial W_l \rangle`, biases
          included.

        From second moments ``loss`` is :math:`L` above its minimum over linear maps; ``train_loss`` and ``ntk`` are
        missing.

    Raises
    ------
    ValueError, TypeError
        If shapes do not fit, entries are not finite, a time is negative, or infinite without a closed form, biases come
        with second moments, or the activation is unknown; if the kernel exceeds the memory, at its access.
    NotExact
        If a network with leaky ReLU does not train as a linear network; the message names the condition, its distance,
        the unit or the sample, and the fix.
    ArithmeticError
        If the integrators exceed their evaluations before the last time.

    Notes
    -----
    The closed form of `WhitenedTwoLayer` holds for product and Gram matrices: ``loss`` and ``ntk`` come from it,
    ``map`` too if the data spans the inputs (or the first layer vanishes outside of their span). The layers, which
    differ by a rotation of the hidden units that is not elementary, are integrated at their first access, to
    ``rtol / 100``, and need finite times. All other closed forms give every weight. The closed form starts from the
    weights: a mode at the share r of the largest one starts with the relative error 1e-16/r.

    The integrator is DOP853; a small network that exceeds 50,000 evaluations of the velocity is stiff and integrated by
    Radau. A time beyond 1e14 time constants of the fastest mode is answered for a small network without biases whose
    hidden layers are as wide as the inputs or the outputs, if it is at rest by then, within `rtol`. Other such times
    are refused, as rounding moves a network that is not at rest. Rounding determines when a simulation leaves a saddle;
    if the start is a saddle, ``traj.notes`` states it.

    A network at which every gradient is exactly 0 is solved as it stays: the route is "closed form: stationary point".

    With biases a closed form holds in three cases. If only the first layer has a bias, it is a weight of the constant
    input 1, and the network without biases on the inputs ``(x, 1)`` is solved. If the inputs are centered and only the
    last layer has a bias, the weights move as without biases on centered targets, and
    :math:`b_L(t) = \bar y + (b_L(0) - \bar y) e^{-\eta_L t}`. If the inputs are centered, the hidden biases are zero,
    and the last bias is the mean of the targets, the weights move in the same way, and the biases do not change.
    Other networks with biases are integrated. If all inputs are 0, biases learn alone.

    A leaky ReLU network, :math:`f(x) = W_2 \phi(W_1 x)` with :math:`\phi(z) = z` for :math:`z > 0` and :math:`\alpha z`
    otherwise, trains as the linear network :math:`g W_2 W_1 x`, :math:`g = (1 + \alpha) / 2`, under four conditions
    (Zhang, Saxe & Latham, "When are bias-free ReLU networks effectively linear networks?"): each hidden unit (w, u),
    its row of W1 and column of W2, has a mirrored unit (-w, -u); each sample (x, y) has a mirrored sample (-x, -y);
    there is no bias, or an output bias of 0 and data of zero means; no sample other than 0 has
    :math:`w \cdot x = 0` exactly, where the slope is taken as :math:`\phi'(0) = g` and programs such as PyTorch take
    :math:`\alpha`. The network stays odd, and its weights are those of the linear network at every time, also under
    gradient descent, momentum and sign-equivariant optimizers such as Adam. Then ``map`` is the function of the
    network, :math:`g W_2 W_1`, and ``ntk`` its own tangent kernel, which is larger than that of the linear network. If
    a condition fails, or with two or more hidden layers, the network is not linear and is refused.

    Branches that share errors and are no `NeuralRace` are integrated with all others (``traj.route`` names the
    condition that fails), up to 1e14 time constants of the fastest mode; ``traj.flow`` is None if several flows
    describe the network. The bound on the error of a race within `tolerance` is Gronwall's for the curve of its layers;
    no bound is known at ``t = inf``, nor for contexts of unequal moments or correlated inputs that the tolerance leaves
    out of branches that learn alone.

    Exact for: linear layers, and leaky ReLU under these conditions, under gradient flow. Not for: other nonlinear
    units, momentum. The trajectory is that of gradient flow; `step` only finds the time at which gradient descent
    leaves it.

    Accuracy: layers, map and loss within 1e-10 (closed forms) and 1e-8 (integrated) of an independent integration of
    the raw weights, or within the change of the map under rounding errors of the weights where this is larger
    (``tests/solvability/test_solve.py``, and 300 networks by ``python -m benchmarks networks``). Leaky
    ReLU networks agree with the simulated nonlinear network to 1e-12 (``tests/solvability/test_leaky_relu.py``).
    Without `tolerance`, conditions that hold to 1e-13 count as exact; the error is this distance times its growth. The
    bound on the error of other closed forms is Gronwall's (`linsolve.applies`), which is large at large depth.
    Branches agree with simulated raw weights to 1e-11 (races), 1e-10 (separate branches) and 1e-8 (integrated), 100
    random draws each (``tests/solvability/test_branched.py``).

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> rng = np.random.default_rng(0)
    >>> X, weights = rng.normal(size=(20, 3)), [rng.normal(size=shape) for shape in ((4, 3), (4, 4), (2, 4))]
    >>> traj = ls.solve(weights, (X, X[:, :2]), [0.0, 1.0, 5.0])
    >>> traj.route.split(",")[0]
    'DOP853: DeepMode needs alignment'
    >>> bool(np.allclose(traj["map"], traj["w3"] @ traj["w2"] @ traj["w1"], atol=1e-12))
    True
    >>> traj = ls.solve([weights[0], weights[0][:, 0]], (X[:, :1] * [1.0, 2.0, 0.0], X[:, 0]), [0.0, float("inf")])
    >>> traj.route, float(traj["loss"][1].round(12))
    ('closed form: TwoLayer', 0.0)
    >>> W, u, Z = weights[0], weights[2][:, :1].T @ weights[2][:, :4], X[:, :1] * [1.0, 2.0, 0.0]
    >>> mirrored = [np.concatenate([W, -W]), np.concatenate([u, -u], axis=1)]
    >>> ls.solve(mirrored, (np.concatenate([Z, -Z]), np.concatenate([X[:, 1], -X[:, 1]])), 1.0, activation="relu").route
    'closed form: TwoLayer; linear network of gain 0.5'
    >>> ls.solve([[[0.0]]], ([[1.0]], [3.0]), [0.0, float("inf")], test=([[2.0]], [5.0]))["test_loss"].tolist()
    [12.5, 0.5]
    """
    return solved(
        weights, data, t, rates, bias=bias, activation=activation, rtol=rtol, tolerance=tolerance,
        covariances=covariances, step=step, within=within, test=test, base=base, scale=scale, context=context,
        contexts=contexts, gates=gates,
    )  # fmt: skip


def solved(
    weights: Any, data: Any, t: Any, rates: Any, *, bias: Any, activation: Any, rtol: Any, tolerance: Any,
    covariances: Any, step: Any, within: Any, test: Any, base: Any, scale: Any, context: Any,
    contexts: Any = None, gates: Any = None, names: Sequence[str] | None = None,
) -> NetworkTrajectory:  # fmt: skip
    """Return the trajectory; see `solve`. Error messages name the layers by `names`."""
    rule = checked_step(WHO, step, within)
    other = recognized(
        WHO, weights, data, rates, covariances, tolerance, bias, test, names, step, activation, base, scale, context,
        contexts, gates,
    )  # fmt: skip
    if isinstance(other, Heads):
        return solve_heads(WHO, other, t, rtol, tolerance)
    if isinstance(other, Branches):
        return solve_branches(WHO, other, t, rtol, tolerance)
    if other is None:
        return of_layers(weights, data, t, rates, bias, activation, rtol, tolerance, covariances, names, rule, test)
    weights, data, rates, covariances, test, names = other[:6]
    found = of_layers(weights, data, t, rates, bias, activation, rtol, tolerance, covariances, names, rule, test)
    return other.trajectory(found)


def checked_step(who: str, step: Any, within: Any) -> tuple[float, float] | None:
    """Return the checked step and tolerance (0.01 by default) of gradient descent, None without a step."""
    if step is None and within is not None:
        raise ValueError(f"{who}: within = {shown(within)} needs a step (of gradient descent); give step as well")
    within = 0.01 if within is None else within
    within = number(who, "within", within, meaning="difference of the outputs", domain="(0, inf)", example=0.01)
    if step is None:
        return None
    return number(who, "step", step, meaning="of gradient descent, in units of time", example=0.01), within


def of_layers(
    weights: Any, data: Any, t: Any, rates: Any, bias: Any, activation: Any, rtol: Any, tolerance: Any,
    covariances: bool, names: Sequence[str] | None, rule: tuple[float, float] | None, test: Any,
) -> NetworkTrajectory:  # fmt: skip
    """Return the trajectory of a network of layers; `rule` is from `checked_step`."""
    unit = read_activation(WHO, activation)
    refuse_unpaired(WHO, data, covariances is True)  # before t, which solve(weights, X, Y, t) would take for Y
    rtol = number(WHO, "rtol", rtol, meaning="relative tolerance of doubles", domain="[2.3e-14, 1)", example=1e-10)
    times = read_only(known_array(WHO, "t", t, meaning="time", domain=Interval("[0, inf]")))
    network = read(WHO, weights, data, rates, covariances, tolerance, names, bias, idle=True)
    held_out = None if test is None else read_test(WHO, test, network)
    samples = None if covariances else _samples(data)
    accept = tolerance is not None
    limit = network.tolerance if accept else min(ROUNDING, network.tolerance)
    idle = bool(network.biases)
    whole = network if covariances else read(WHO, weights, data, rates, covariances, FINEST, names, idle=idle)
    nonlinear = Reduction.of(WHO, unit, network._replace(tolerance=limit), data, covariances)
    if nonlinear is not None:
        nonlinear.refuse(WHO)
        network, whole = nonlinear.linear(network), nonlinear.linear(whole)

    def at(times: np.ndarray) -> NetworkTrajectory:
        if samples is not None and network.biases:
            return _with_biases(network, samples, times, rtol, accept)
        return _without_biases(network, Problem(whole, times, rtol, samples), accept)

    found = at(times)
    if nonlinear is not None:
        found = nonlinear.restored(found, Problem(whole, times, rtol, samples))
    if held_out is not None:
        network_values = found.values  # not the mapping that `test_loss` is in: no cycle
        values = network_values | Deferred(test_loss=lambda: test_loss(network_values, held_out))
        found = dataclasses.replace(found, values=values)
    return found if rule is None else _departing(found, at, network, Problem(whole, times, rtol, samples), rule)


def _departing(
    found: NetworkTrajectory, at: Callable[[np.ndarray], NetworkTrajectory], network: Network, problem: Problem,
    rule: tuple[float, float],
) -> NetworkTrajectory:  # fmt: skip
    """Return the trajectory with the departure of gradient descent from it, up to the last finite time."""
    until = float(np.max(problem.times, where=np.isfinite(problem.times), initial=0.0))
    if until == 0:
        raise ValueError(f"{WHO}: t must hold a finite time after 0 (horizon of the comparison with step); add one")
    span = problem.network.span

    def maps(times: np.ndarray) -> np.ndarray:
        traj = at(times)
        inside = traj["map"] @ span
        return np.concatenate([inside, traj["offset"][..., None]], axis=-1) if network.biases else inside

    if network.biases:
        fine = problem.network._replace(biases=network.biases)
        problem = BiasedProblem(fine, problem.times, problem.rtol, problem.samples)
    match = None if network.biases else map_match(network)
    left = departure(problem, match, maps, rule, until)
    return dataclasses.replace(found, departure=left, notes=(str(left), *found.notes))


def _samples(data: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return checked samples as two matrices."""
    X, Y = (np.array(each, dtype=float) for each in data)
    return X, Y.reshape(len(X), -1)


def _again(network: Network, weights: Any, samples: Any, tolerance: float) -> Network:
    """Return a network with other weights and samples and the same rates, without biases."""
    return read(WHO, weights, samples, network.rates, False, tolerance, idle=True)


def _without_biases(network: Network, problem: Problem, accept: bool) -> NetworkTrajectory:
    found, failure, remarks = by_closed_form(network, problem, accept=accept)
    return by_integration(problem, failure, remarks) if found is None else found


def _with_biases(
    network: Network, samples: tuple[np.ndarray, np.ndarray], times: np.ndarray, rtol: float, accept: bool
) -> NetworkTrajectory:
    """Return the trajectory of a network with biases, by an equivalent network without biases if there is one."""
    X, Y = samples
    weights, biases, tolerance = list(network.weights), network.biases, network.tolerance
    if is_first_only(biases):
        weights, samples = on_ones(weights, biases, X, Y)
        inner, whole = (_again(network, weights, samples, each) for each in (tolerance, FINEST))
        found = _without_biases(inner, Problem(whole, times, rtol, samples), accept)
        notes = ("biases: the first layer acts on the inputs (x, 1).", *found.notes)
        return dataclasses.replace(found, notes=notes, values=Deferred(**split_first(found.values)))
    name, distance = worst(distances(weights, biases, X, Y))
    failure: Reason = f"biases need {name}, relative distance {distance:.2g}"
    remarks: tuple[str, ...] = (UNSOLVED,)
    if distance <= (tolerance if accept else ROUNDING):
        centered = X, Y - Y.mean(axis=0)
        inner, whole = (_again(network, weights, centered, each) for each in (tolerance, FINEST))
        problem = Problem(whole, times, rtol, centered)
        exact: NetworkTrajectory | None
        if whole.power[0] == 0:
            exact = by_integration(problem, "all inputs are 0", ())
        else:
            exact, failure, remarks = by_closed_form(inner, problem, accept=accept)
        if exact is not None:
            notes = (
                "biases: on centered inputs the weights move as without biases, towards centered targets.",
                *exact.notes,
            )
            values = Deferred(**on_centered(exact.values, biases, network.rates, times, Y))
            return dataclasses.replace(exact, notes=notes, values=values)
    fine = _again(network, weights, samples, FINEST)._replace(biases=biases)
    problem = BiasedProblem(fine, times, rtol, samples)
    return by_integration(problem, "the start is a stationary point" if problem.constant else failure, remarks)
