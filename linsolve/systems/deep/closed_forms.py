r"""Layers and kernels of a balanced, aligned deep linear network, as functions of the strengths of its modes.

Throughout, ``c``, shape lead + (k,), are the strengths of the modes in the map :math:`W = W_L \cdots W_1 = \sum_\alpha
c_\alpha u_\alpha v_\alpha^T`, ``rates`` the learning rates of the layers, and :math:`\bar\eta` their geometric mean.
With :math:`W_\ell = \sqrt{\eta_\ell / \bar\eta}\, U_\ell` all layers :math:`U_\ell` have the same singular values
:math:`|c_\alpha|^{1/L}`. All functions are pure: array-API names only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["kernel_alignment", "layer_kernel", "layers", "mean_rate", "ntk", "product", "share"]


def mean_rate(xp: Any, rates: Any) -> Any:
    """Return the geometric mean of the layers' learning rates."""
    return xp.exp(xp.sum(xp.log(rates)) / rates.shape[0])


def share(xp: Any, rates: Any, weighted: bool) -> Any:
    r"""Return the factor of each layer in the tangent kernel, shape (L,), relative to the product of the others.

    The factor is :math:`\prod_{k \ne \ell} \eta_k / \bar\eta = \bar\eta / \eta_\ell`. If `weighted`, each layer is
    multiplied by its learning rate, as in the kernel that drives the output, and the factor is :math:`\bar\eta`.
    """
    mean = mean_rate(xp, rates)
    return mean * xp.ones_like(rates) if weighted else mean / rates


def product(xp: Any, c: Any, u: Any, v: Any) -> Any:
    """Return the map ``u diag(c) v^T``, shape lead + (n_out, n_in)."""
    return (u * c[..., None, :]) @ xp.matrix_transpose(v)


def layers(xp: Any, c: Any, frames: Sequence[Any], rates: Any) -> list[Any]:
    r"""Return :math:`W_\ell = \sqrt{\eta_\ell/\bar\eta}\, R_{\ell+1}\, \mathrm{diag}(|c|^{1/L})\, R_\ell^T`.

    Parameters
    ----------
    xp : namespace
    c : array, shape lead + (k,)
    frames : sequence of array, shapes (N_l, k)
        ``R_1 = v``, the hidden frames, ``R_(L+1) = u``.
    rates : array, shape (L,)

    Returns
    -------
    list of array, shapes lead + (N_(l+1), N_l)
        First layer first. The last one carries the signs of the modes.
    """
    depth = rates.shape[0]
    each = xp.pow(xp.abs(c), xp.ones_like(c) / depth)
    gains = xp.sqrt(rates / mean_rate(xp, rates))
    made = []
    for k in range(depth):
        size = gains[k] * (xp.sign(c) * each if k == depth - 1 else each)
        made.append((frames[k + 1] * size[..., None, :]) @ xp.matrix_transpose(frames[k]))
    return made


def ntk(xp: Any, c: Any, u: Any, v: Any, shares: Any, x1: Any, x2: Any) -> Any:
    r"""Return the tangent kernel between inputs.

    .. math:: K_{cc'}(x, x') = \sum_{\ell=1}^L \rho_\ell\,
        \Big[\sum_\alpha |c_\alpha|^{2 - 2\ell/L} u_\alpha u_\alpha^T\Big]_{cc'}
        x^T \Big[\sum_\alpha |c_\alpha|^{(2\ell - 2)/L} v_\alpha v_\alpha^T\Big] x',

    where the first bracket is the identity at :math:`\ell = L` and the second at :math:`\ell = 1`.

    Parameters
    ----------
    xp : namespace
    c : array, shape lead + (k,)
    u : array, shape (n_out, k)
    v : array, shape (n_in, k)
    shares : array, shape (L,)
        ``rho``, from `share`.
    x1, x2 : array, shapes (m1, n_in), (m2, n_in)

    Returns
    -------
    array, shape lead + (m1, m2, n_out, n_out)
    """
    depth, back = shares.shape[0], xp.matrix_transpose
    power = xp.pow(xp.abs(c), 2 * xp.ones_like(c) / depth)[..., None, :]
    left, right = x1 @ v, back(x2 @ v)
    total = 0 * xp.sum(c, axis=-1)[..., None, None, None, None]
    for k in range(depth):
        out = xp.eye(u.shape[0]) if k == depth - 1 else (u * power ** (depth - 1 - k)) @ back(u)
        inner = x1 @ back(x2) if k == 0 else (left * power**k) @ right
        total = total + shares[k] * inner[..., :, :, None, None] * out[..., None, None, :, :]
    return total


def layer_kernel(xp: Any, c: Any, v: Any, rates: Any, layer: int, x1: Any, x2: Any) -> Any:
    r"""Return the kernel of a layer's activations, :math:`h_\ell(x) \cdot h_\ell(x')`, shape lead + (m1, m2).

    .. math:: h_\ell \cdot h_\ell' = \prod_{k \le \ell} \frac{\eta_k}{\bar\eta} \;
        x^T \Big[\sum_\alpha |c_\alpha|^{2\ell/L} v_\alpha v_\alpha^T\Big] x', \qquad h_\ell = W_\ell \cdots W_1 x;

    layer 0 stands for the inputs, ``x . x'``.
    """
    back, depth = xp.matrix_transpose, rates.shape[0]
    if layer == 0:
        return x1 @ back(x2) + 0 * xp.sum(c, axis=-1)[..., None, None]
    gain = xp.exp(xp.sum(xp.log(rates[:layer] / mean_rate(xp, rates))))
    power = xp.pow(xp.abs(c), 2 * layer * xp.ones_like(c) / depth)[..., None, :]
    return gain * (((x1 @ v) * power) @ back(x2 @ v))


def kernel_alignment(xp: Any, c: Any, s: Any, shares: Any, n_out: int, n_in: int) -> Any:
    r"""Return the cosine between the tangent kernel on white inputs and the target's ``y y^T``, shape lead.

    With :math:`\mu = |c|^{2/L}`, :math:`p_j = \sum_\alpha \mu_\alpha^j` for :math:`j > 0`,

    .. math:: \frac{\sum_\ell \rho_\ell \; \sum_\alpha s_\alpha^2 \mu_\alpha^{L-1}}
        {\sum_\alpha s_\alpha^2 \; \sqrt{\sum_{\ell m} \rho_\ell \rho_m \, p_{2L-\ell-m} \, p_{\ell+m-2}}},

    where :math:`p_0` is `n_out` in the first factor (:math:`\ell = m = L`) and `n_in` in the second
    (:math:`\ell = m = 1`). Zero where the kernel is zero.

    Parameters
    ----------
    xp : namespace
    c : array, shape lead + (k,)
    s : array, shape (k,)
        Singular values of the target.
    shares : array, shape (L,)
        ``rho``, from `share`.
    n_out, n_in : int
        Outputs; white inputs (the rank of the data).
    """
    depth = shares.shape[0]
    power = xp.pow(xp.abs(c), 2 * xp.ones_like(c) / depth)
    sums = [None] + [xp.sum(power**j, axis=-1) for j in range(1, 2 * depth - 1)]
    square = 0 * xp.sum(c, axis=-1)
    for k in range(depth):
        for m in range(depth):
            below, above = k + m, 2 * (depth - 1) - k - m
            factors = (sums[above] if above else n_out) * (sums[below] if below else n_in)
            square = square + shares[k] * shares[m] * factors
    fit = xp.sum(shares) * xp.sum(s**2 * power ** (depth - 1), axis=-1)
    size = xp.sqrt(square) * xp.sum(s**2)
    return fit / xp.where(size > 0, size, xp.ones_like(size))
