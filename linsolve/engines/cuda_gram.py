"""One pass over the weights of many networks: the inner products that decide how each of them trains."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.engines.cuda_source import OPTIONS

__all__ = ["SOURCE", "gram"]

THREADS = 32  # that share a network

SOURCE = r"""
typedef long long whole;

extern "C" __global__ void gram(
    const whole count, const whole width, const double b, const double a, const double* __restrict__ h,
    const double* __restrict__ u, double* __restrict__ out) {
  __shared__ double sums[96];
  double pp = 0.0, qq = 0.0, pq = 0.0;
  const whole row = (whole)blockIdx.x * width;
#pragma unroll 4
  for (whole i = threadIdx.x; i < width; i += blockDim.x) {
    const double x = b * h[row + i], y = a * u[row + i], p = x + y, q = x - y;
    pp += p * p;
    qq += q * q;
    pq += p * q;
  }
  sums[threadIdx.x] = pp;
  sums[32 + threadIdx.x] = qq;
  sums[64 + threadIdx.x] = pq;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {  // in pairs, always the same
    if (threadIdx.x < half)
      for (int k = 0; k < 96; k += 32) sums[k + threadIdx.x] += sums[k + threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0)
    for (int k = 0; k < 3; ++k) out[k * count + blockIdx.x] = sums[32 * k];
}
"""

_kernels: dict[Any, Any] = {}


def gram(xp: Any, h: Any, u: Any, b: float, a: float) -> Any:
    """Return ``|p|^2``, ``|q|^2``, ``p.q`` of ``p, q = b h + a u, b h - a u`` for each row, each weight read once.

    With ``b = sqrt(eta_u)/2``, ``a = sqrt(eta_w)/2`` and ``h = W x/rho`` these are the order parameters of
    `TwoLayerOrder`.

    Parameters
    ----------
    xp : module
        CuPy; NumPy takes three products instead.
    h, u : array, shape (networks, width)
        C-contiguous doubles.
    b, a : float

    Returns
    -------
    array, shape (3, networks)
        The order of the sums is fixed, so that the result is the same in every run.
    """
    count, width = h.shape
    if xp is np:
        p, q = b * h + a * u, b * h - a * u
        return np.stack([np.vecdot(p, p), np.vecdot(q, q), np.vecdot(p, q)])
    if id(xp) not in _kernels:
        _kernels[id(xp)] = xp.RawKernel(SOURCE, "gram", options=OPTIONS)
    out = xp.empty((3, count))
    _kernels[id(xp)]((count,), (THREADS,), (np.int64(count), np.int64(width), np.float64(b), np.float64(a), h, u, out))
    return out
