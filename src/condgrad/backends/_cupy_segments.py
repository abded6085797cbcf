"""CUDA kernels for sums over segments (`condgrad.backends.segments`)."""

from __future__ import annotations

from functools import cache
from typing import Any

import cupy as cp
import numpy as np

from condgrad._types import Array

THREADS = 256
SOURCE = r"""
// A few neighbouring threads, a power of two, add up a segment: each of them every `lanes`-th
// number, and then their sums are added in pairs.
__device__ __forceinline__ void finish(double sum, int lanes, long long s, long long count,
                                       double* out) {
  for (int o = lanes / 2; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  if (s < count && threadIdx.x % lanes == 0) out[s] = sum;
}

extern "C" __global__ void segment_sums(
    const long long* __restrict__ starts, long long first, long long count, int lanes,
    const double* __restrict__ data, long long base, double* __restrict__ out) {
  long long s = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / lanes;
  double sum = 0;
  if (s < count)
    for (long long e = starts[first + s] + threadIdx.x % lanes; e < starts[first + s + 1];
         e += lanes)
      sum += data[e - base];
  finish(sum, lanes, s, count, out);
}

extern "C" __global__ void product_sums(
    const long long* __restrict__ starts, long long first, long long count, int lanes,
    const double* __restrict__ data, const int* __restrict__ indices,
    const double* __restrict__ x, long long low, long long high, double* __restrict__ out) {
  long long s = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / lanes;
  double sum = 0;
  if (s < count)
    for (long long e = starts[first + s] + threadIdx.x % lanes; e < starts[first + s + 1];
         e += lanes) {
      long long i = indices[e];
      if (i >= low && i < high) sum += data[e] * x[i - low];
    }
  finish(sum, lanes, s, count, out);
}
"""


@cache
def kernel(name: str) -> Any:
    """One of them."""
    return cp.RawModule(code=SOURCE).get_function(name)


def _sums(
    name: str, starts: Array, first: int, count: int, lanes: int, data: Array, *more: Any
) -> Array:
    out = cp.empty(count)
    arguments = (starts, np.int64(first), np.int64(count), np.int32(lanes), data, *more, out)
    kernel(name)((-(-count * lanes // THREADS),), (THREADS,), arguments)
    return out


def segment_sums(
    starts: Array, first: int, count: int, lanes: int, data: Array, base: int
) -> Array:
    """Σ data[e − base] over each of the segments first … first + count − 1, at least one."""
    data = cp.ascontiguousarray(data, np.float64)
    return _sums("segment_sums", starts, first, count, lanes, data, np.int64(base))


def product_sums(
    starts: Array,
    first: int,
    count: int,
    lanes: int,
    data: Array,
    indices: Array,
    x: Array,
    low: int,
    high: int,
) -> Array:
    """Σ data[e] x[indices[e] − low] over each of the segments, where low ≤ indices[e] < high."""
    x = cp.ascontiguousarray(x, np.float64)
    ends = np.int64(low), np.int64(high)
    return _sums("product_sums", starts, first, count, lanes, data, indices, x, *ends)
