"""CUDA kernels for the rounding of cuts."""

from __future__ import annotations

from functools import cache
from typing import Any

import cupy as cp
import numpy as np

from condgrad._types import Array

SOURCE = r"""
extern "C" __global__ void earlier(
    const int* __restrict__ place, const int* __restrict__ starts, const int* __restrict__ ends,
    const double* __restrict__ weight, int n, double* __restrict__ out) {
  int v = blockIdx.x * blockDim.x + threadIdx.x;
  if (v >= n) return;
  const int* own = place + (size_t)blockIdx.y * n;
  int here = own[v];
  double s = 0;
  for (int e = starts[v]; e < starts[v + 1]; e++) s += own[ends[e]] < here ? weight[e] : 0.0;
  out[(size_t)blockIdx.y * n + v] = s;
}
"""


@cache
def module() -> Any:
    """The kernels."""
    return cp.RawModule(code=SOURCE)


def earlier(place: Array, starts: Array, ends: Array, weight: Array) -> Array:
    """For each order of the vertices, a row of places, the weight between each and those before."""
    orders, n = place.shape
    out = cp.empty((orders, n))
    arguments = (place, starts, ends, weight, np.int32(n), out)
    module().get_function("earlier")((-(-n // 256), orders), (256,), arguments)
    return out
