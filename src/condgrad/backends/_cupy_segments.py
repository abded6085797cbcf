"""CUDA kernels for sums over segments (`condgrad.backends.segments`) and the rounding of cuts."""

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

// A block has an order: found gets its lowest value, and behind all of them the last place of S.
extern "C" __global__ void prefixes(
    const long long* __restrict__ order, const double* __restrict__ earlier,
    const double* __restrict__ degree, const double* __restrict__ mu, int n, double total,
    double* __restrict__ found) {
  __shared__ double gains[256], sizes[256];
  __shared__ int places[256];
  const long long* own = order + (size_t)blockIdx.x * n;
  const double* before = earlier + (size_t)blockIdx.x * n;
  int t = threadIdx.x, chunk = (n + 255) / 256, first = t * chunk, last = min(n, first + chunk);
  double gain = 0, size = 0;
  for (int i = first; i < last; i++) {
    long long v = own[i];
    gain += degree[v] - 2 * before[v];
    size += mu[v];
  }
  gains[t] = gain;
  sizes[t] = size;
  __syncthreads();
  gain = size = 0;
  for (int j = 0; j < t; j++) {
    gain += gains[j];
    size += sizes[j];
  }
  double best = 1.0 / 0.0;
  int at = n - 2;
  for (int i = first; i < min(last, n - 1); i++) {
    long long v = own[i];
    gain += degree[v] - 2 * before[v];
    size += mu[v];
    double value = gain * (total * total / 2) / (size * (total - size));
    if (value < best) {
      best = value;
      at = i;
    }
  }
  __syncthreads();
  gains[t] = best;
  places[t] = at;
  __syncthreads();
  if (t == 0) {
    for (int j = 1; j < 256; j++)
      if (gains[j] < best) {
        best = gains[j];
        at = places[j];
      }
    found[blockIdx.x] = best;
    found[gridDim.x + blockIdx.x] = at;
  }
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


@cache
def scattered() -> Any:
    """The kernel of `places`."""
    source = "place[(i / n) * n + order] = i % n"
    return cp.ElementwiseKernel("int64 order, int64 n", "raw int32 place", source, "places")


def places(order: Array) -> Array:
    """`_reference_segments.places`."""
    place = cp.empty(order.shape, np.int32)
    scattered()(order, order.shape[1], place)
    return place


def prefixes(order: Array, earlier: Array, degree: Array, mu: Array, total: float) -> Array:
    """`_reference_segments.prefixes`."""
    orders, n = order.shape
    found = cp.empty((2, orders))
    arguments = (order, earlier, degree, mu, np.int32(n), np.float64(total), found)
    kernel("prefixes")((orders,), (256,), arguments)
    return found


def earlier(place: Array, starts: Array, ends: Array, weight: Array) -> Array:
    """`_reference_segments.earlier`."""
    orders, n = place.shape
    out = cp.empty((orders, n))
    arguments = (place, starts, ends, weight, np.int32(n), out)
    kernel("earlier")((-(-n // 256), orders), (256,), arguments)
    return out
