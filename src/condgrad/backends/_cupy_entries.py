"""Passes over the entries of W on a GPU, each as one kernel; `_cupy` hands them out."""

from __future__ import annotations

from functools import cache
from typing import Any

import cupy as cp
import numpy as np

from condgrad._types import Array
from condgrad.backends import _reference, _reference_segments

THREADS = 256
BLOCKS, FEW = 1056, 264
"""Blocks of every launch on any GPU, so that sums are the same; `FEW` for inner products."""
KINDS = {"float32": "float", "float64": "double"}
SIDE = 32
"""Side of the tiles in which a matrix is transposed."""

SOURCE = r"""
extern "C" __global__ void ascend(
    const REAL* __restrict__ z, long long size, REAL beta, REAL low, REAL high,
    REAL* __restrict__ y, REAL* __restrict__ G, double* __restrict__ found) {
  __shared__ double room[8];
  double square = 0;
  long long step = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < size; i += step) {
    REAL before = y[i], x = before + z[i] / beta, after = x - min(max(x, low), high);
    REAL change = after - before;
    y[i] = after;
    G[i] += change;
    square += (double)change * (double)change;
  }
  for (int o = 16; o > 0; o >>= 1) square += __shfl_xor_sync(0xffffffffu, square, o);
  if ((threadIdx.x & 31) == 0) room[threadIdx.x >> 5] = square;
  __syncthreads();
  if (threadIdx.x == 0) {
    square = 0;
    for (int w = 0; w < 8; w++) square += room[w];
    found[blockIdx.x] = square;
  }
}

extern "C" __global__ void dot(
    const REAL* __restrict__ x, const REAL* __restrict__ y, long long size,
    double* __restrict__ found) {
  __shared__ double room[8];
  double sum = 0;
  long long step = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < size; i += step)
    sum += (double)x[i] * (double)y[i];
  for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  if ((threadIdx.x & 31) == 0) room[threadIdx.x >> 5] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    sum = 0;
    for (int w = 0; w < 8; w++) sum += room[w];
    found[blockIdx.x] = sum;
  }
}

// out = W − step (v + vᵀ)/2 − offset, either of W and offset being null for 0.
extern "C" __global__ void descend(
    const REAL* __restrict__ v, int n, REAL step, const REAL* __restrict__ W,
    const REAL* __restrict__ offset, REAL* __restrict__ out) {
  __shared__ REAL tile[32][33];
  int column = 32 * blockIdx.x + threadIdx.x, row = 32 * blockIdx.y + threadIdx.y;
  for (int r = 0; r < 32; r += 8) {
    int i = 32 * blockIdx.x + threadIdx.y + r, j = 32 * blockIdx.y + threadIdx.x;
    if (i < n && j < n) tile[threadIdx.y + r][threadIdx.x] = v[(size_t)i * n + j];
  }
  __syncthreads();
  for (int r = 0; r < 32; r += 8) {
    if (row + r >= n || column >= n) continue;
    size_t at = (size_t)(row + r) * n + column;
    REAL x = (REAL)0.5 * (v[at] + tile[threadIdx.x][threadIdx.y + r]);
    x *= step;
    if (W) x = W[at] - x;
    if (offset) x -= offset[at];
    out[at] = x;
  }
}

// V ← V/2 + Vᵀ/2: a block has a tile on or above the diagonal, and its mirror image.
extern "C" __global__ void symmetrise(REAL* __restrict__ V, int n) {
  if (blockIdx.x < blockIdx.y) return;
  __shared__ REAL one[32][33], two[32][33];
  for (int r = threadIdx.y; r < 32; r += 8) {
    int i = 32 * blockIdx.y + r, j = 32 * blockIdx.x + threadIdx.x;
    int k = 32 * blockIdx.x + r, l = 32 * blockIdx.y + threadIdx.x;
    if (i < n && j < n) one[r][threadIdx.x] = (REAL)0.5 * V[(size_t)i * n + j];
    if (k < n && l < n) two[r][threadIdx.x] = (REAL)0.5 * V[(size_t)k * n + l];
  }
  __syncthreads();
  for (int r = threadIdx.y; r < 32; r += 8) {
    int i = 32 * blockIdx.y + r, j = 32 * blockIdx.x + threadIdx.x;
    int k = 32 * blockIdx.x + r, l = 32 * blockIdx.y + threadIdx.x;
    if (i < n && j < n) V[(size_t)i * n + j] = one[r][threadIdx.x] + two[threadIdx.x][r];
    if (k < n && l < n) V[(size_t)k * n + l] = two[r][threadIdx.x] + one[threadIdx.x][r];
  }
}
"""


@cache
def kernel(real: np.dtype, name: str) -> Any:
    """A kernel for arrays of a type."""
    options = ("-std=c++17", f"-DREAL={KINDS[real.name]}")
    return cp.RawModule(code=SOURCE, options=options).get_function(name)


@cache
def added() -> Any:
    """The kernel of `axpy`."""
    return cp.ElementwiseKernel("T weight, T y", "S out", "out += (S)(weight * y)", "axpy")


def axpy(out: Array, weight: float, y: Array) -> None:
    """Add weight·y to `out`, both flat."""
    added()(y.dtype.type(weight), y, out)


@cache
def scattered() -> Any:
    """The kernel of `axpy_at`."""
    source = "out[index] += (S)(weight * y)"
    return cp.ElementwiseKernel("T weight, int64 index, T y", "raw S out", source, "axpy_at")


def axpy_at(out: Array, index: Array, weight: float, y: Array) -> None:
    """out[index] += weight·y, an index being there once."""
    scattered()(y.dtype.type(weight), index, y, out)


def dots(*pairs: tuple[Array, Array]) -> list[float]:
    """⟨x, y⟩ of each pair, summed in float64, with one copy to the CPU for all of them."""
    found = cp.empty((len(pairs), FEW))
    for (x, y), own in zip(pairs, found, strict=True):
        if x.dtype != y.dtype or not _flat(x, y):
            x, y = (cp.ascontiguousarray(a, np.float64) for a in (x, y))
        kernel(x.dtype, "dot")((FEW,), (THREADS,), (x, y, np.int64(x.size), own))
    sums: list[float] = found.get().sum(axis=1).tolist()
    return sums


def interval_ascend(z: Array, lower: float, upper: float, beta: float, y: Array, G: Array) -> float:
    """`_reference.interval_ascend`."""
    if not {z.dtype, y.dtype, G.dtype} <= {z.dtype} or not _flat(z, y, G):
        return _reference.interval_ascend(z, lower, upper, beta, y, G)
    found, real = cp.empty(BLOCKS), z.dtype.type
    scalars = np.int64(z.size), real(beta), real(lower / beta), real(upper / beta)
    kernel(z.dtype, "ascend")((BLOCKS,), (THREADS,), (z, *scalars, y, G, found))
    return float(found.get().sum())


def symmetric_part(v: Array, out: Array) -> None:
    """(v + vᵀ)/2, written to `out`."""
    if v.dtype == out.dtype and _flat(v, out):
        _descend(v, 1.0, None, None, out)
    else:
        _reference.symmetric_part(v, out)


def symmetrise(V: Array) -> None:
    """V ← V/2 + Vᵀ/2."""
    if not _flat(V):
        _reference_segments.symmetrise(V)
        return
    n, across = V.shape[0], -(-V.shape[0] // SIDE)
    kernel(V.dtype, "symmetrise")((across, across), (SIDE, 8), (V, np.int32(n)))


def descended(W: Array, v: Array, step: float, offset: Array | None, out: Array) -> None:
    """`_reference.descended`."""
    given = [x for x in (W, v, offset, out) if x is not None]
    if {x.dtype for x in given} == {out.dtype} and _flat(*given):
        _descend(v, step, W, offset, out)
    else:
        _reference.descended(W, v, step, offset, out)


def _descend(v: Array, step: float, W: Array | None, offset: Array | None, out: Array) -> None:
    n, none = v.shape[0], np.uintp(0)
    across = -(-n // SIDE)
    own = [none if x is None else x for x in (W, offset)]
    arguments = (v, np.int32(n), v.dtype.type(step), *own, out)
    kernel(v.dtype, "descend")((across, across), (SIDE, 8), arguments)


def _flat(*arrays: Array) -> bool:
    """Whether all entries lie one behind the other."""
    return all(x.flags.c_contiguous for x in arrays)
