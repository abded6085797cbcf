"""CUDA source of the sums over triangle rows, all in float64; it follows `_cupy_source`."""

SOURCE = r"""
// A*v for v = clip(y, low, high) in float64, `low` and `high` being 0 or infinite, and the sums of
// what is above and below 0; where `images` are wanted ⟨v, A W⟩. With ONE all v have one sign.
template <bool ONE> __device__ __forceinline__ void collected(
    const double* __restrict__ W, int images, int n, int across, const int* __restrict__ apexes,
    int count, int per, const Kept* __restrict__ y, REAL low, REAL high,
    double* __restrict__ sums, Wide* __restrict__ pairs, double* __restrict__ found) {
  Place at(blockIdx.x + SKIP, n, across);
  __shared__ double col[2][8][64];
  __shared__ double room[8];
  int ld = 64 * across, first = blockIdx.y * per, last = min(count, first + per);
  Wide acc[4];
  #pragma unroll
  for (int q = 0; q < 4; q++) for (int e = 0; e < 4; e++) acc[q].v[e] = 0;
  double above = 0, below = 0, product = 0;
  size_t tile = (size_t)blockIdx.x * n;
  Four next[4];
  #pragma unroll
  for (int q = 0; q < 4; q++)
    next[q] = streamed(y + (tile + apexes[first]) * 1024 + at.t + 256 * q);
  for (int b = first; b < last; b++) {
    int j = apexes[b];
    Four some[4];
    #pragma unroll
    for (int q = 0; q < 4; q++) some[q] = next[q];
    if (b + 1 < last) {  // the next one is on its way while this one is worked on
      size_t base = (tile + apexes[b + 1]) * 1024 + at.t;
      #pragma unroll
      for (int q = 0; q < 4; q++) next[q] = streamed(y + base + 256 * q);
    }
    double rs[4], cs[4];
    #pragma unroll
    for (int q = 0; q < 4; q++) {
      double v[4];
      #pragma unroll
      for (int e = 0; e < 4; e++) {
        v[e] = (double)min(max(some[q].v[e], low), high);
        acc[q].v[e] += v[e];
        cs[e] = q ? cs[e] + v[e] : v[e];
        if constexpr (!ONE) {
          above += fmax(v[e], 0.0); below += fmax(-v[e], 0.0);
          if (images && v[e] != 0) {
            const double *Wj = W + (size_t)j * ld, *Wi = W + (size_t)(at.i0 + q) * ld;
            double near = Wj[at.i0 + q] + Wj[at.k0 + e];
            product += v[e] * (IMAGE(near, Wi[at.k0 + e]) - OWN(Wj[j]));
          }
        }
      }
      rs[q] = (v[0] + v[1]) + (v[2] + v[3]);
      if constexpr (ONE) above += rs[q];
    }
    reduced<double>(at, rs, cs, col[b & 1], sums + ((size_t)blockIdx.x * count + b) * 128);
  }
  size_t block = (size_t)blockIdx.y * gridDim.x + blockIdx.x, blocks = gridDim.x * gridDim.y;
  #pragma unroll
  for (int q = 0; q < 4; q++) pairs[block * 1024 + 256 * q + at.t] = acc[q];
  above = total(above, room); below = total(below, room); product = total(product, room);
  if (ONE && above < 0) { below = -above; above = 0; }
  if (at.t == 0) {
    found[block] = above; found[blocks + block] = below; found[2 * blocks + block] = product;
  }
}

extern "C" __global__ void __launch_bounds__(256, 2) pair(
    const double* W, int images, int n, int across, const int* apexes, int count, int per,
    const Kept* y, REAL low, REAL high, double* sums, Wide* pairs, double* found) {
  collected<false>(W, images, n, across, apexes, count, per, y, low, high, sums, pairs, found);
}
extern "C" __global__ void __launch_bounds__(256, 2) pair_one(
    const double* W, int images, int n, int across, const int* apexes, int count, int per,
    const Kept* y, REAL low, REAL high, double* sums, Wide* pairs, double* found) {
  collected<true>(W, images, n, across, apexes, count, per, y, low, high, sums, pairs, found);
}

template <class A> struct alignas(16) Quad { A v[4]; };

// D[j][i] += sums over the rows and columns of all tiles, D[j][j] −= all of them.
template <class A, class B> __device__ __forceinline__ void folded(
    B* __restrict__ D, const A* __restrict__ sums, const int* __restrict__ apexes, int count,
    int n, int across) {
  __shared__ double room[8];
  int b = blockIdx.x, j = apexes[b];
  double all = 0;
  for (int i = 4 * threadIdx.x; i < n; i += 1024) {
    int a = i >> 6, o = i & 63;
    double rows[4] = {0, 0, 0, 0}, columns[4] = {0, 0, 0, 0};
    #pragma unroll 4
    for (int x = a; x < across; x++) {
      size_t tile = (size_t)a * across - a * (a - 1) / 2 + (x - a);
#ifdef HELD
      if (tile < SKIP || tile >= SKIP + HELD) continue;
      tile -= SKIP;
#endif
      Quad<A> s = *reinterpret_cast<const Quad<A>*>(sums + (tile * count + b) * 128 + o);
      for (int e = 0; e < 4; e++) rows[e] += s.v[e];
    }
    #pragma unroll 4
    for (int x = 0; x <= a; x++) {
      size_t tile = (size_t)x * across - x * (x - 1) / 2 + (a - x);
#ifdef HELD
      if (tile < SKIP || tile >= SKIP + HELD) continue;
      tile -= SKIP;
#endif
      Quad<A> s = *reinterpret_cast<const Quad<A>*>(sums + (tile * count + b) * 128 + 64 + o);
      for (int e = 0; e < 4; e++) columns[e] += s.v[e];
    }
    for (int e = 0; e < 4 && i + e < n; e++) {
      size_t at = (size_t)j * n + i + e;
      all += rows[e];
      D[at] = (B)(D[at] + (rows[e] + columns[e]));
    }
  }
  all = total(all, room);
  if (threadIdx.x == 0 && !PERIMETER) {
    size_t at = (size_t)j * n + j;
    D[at] = (B)(D[at] - all);
  }
}

// D[i][k] −= sums over apexes, which blocks have made of some apexes each.
template <class A, class B> __device__ __forceinline__ void paired(
    B* __restrict__ D, const A* __restrict__ pairs, int parts, int n, int across) {
  int a = 0, left = blockIdx.x + SKIP;
  while (left >= across - a) { left -= across - a; a++; }
  int place = blockIdx.y * 256 + threadIdx.x, low = place & 1023;
  int i = 64 * a + 4 * (low >> 6) + (place >> 10), k = 64 * (a + left) + (low & 63);
  if (i >= k || k >= n) return;
  double s = 0;
  #pragma unroll 4
  for (int b = 0; b < parts; b++) s += pairs[((size_t)b * gridDim.x + blockIdx.x) * 4096 + place];
#if PERIMETER
  size_t at = (size_t)k * n + i;  // below the diagonal, as the other two
  D[at] = (B)(D[at] + s);
#else
  size_t at = (size_t)i * n + k;
  D[at] = (B)(D[at] - s);
#endif
}

extern "C" __global__ void fold(
    double* D, const REAL* sums, const int* apexes, int count, int n, int across) {
  folded<REAL, double>(D, sums, apexes, count, n, across);
}
extern "C" __global__ void fold_single(
    float* D, const REAL* sums, const int* apexes, int count, int n, int across) {
  folded<REAL, float>(D, sums, apexes, count, n, across);
}
extern "C" __global__ void fold_wide(
    double* D, const double* sums, const int* apexes, int count, int n, int across) {
  folded<double, double>(D, sums, apexes, count, n, across);
}
extern "C" __global__ void add_pairs(
    double* D, const REAL* pairs, int parts, int n, int across) {
  paired<REAL, double>(D, pairs, parts, n, across);
}
extern "C" __global__ void add_pairs_single(
    float* D, const REAL* pairs, int parts, int n, int across) {
  paired<REAL, float>(D, pairs, parts, n, across);
}
extern "C" __global__ void add_pairs_wide(
    double* D, const double* pairs, int parts, int n, int across) {
  paired<double, double>(D, pairs, parts, n, across);
}

// Sums over rows: of a kind each, see `Sums` in the module that calls it.
template <int KIND, bool ALL> __device__ __forceinline__ void added(
    int m, double own, const Wide& wi, const Wide& wk, const Wide* w, const Four* some, double low,
    double high, double beta, double& one, double& two, double& worst) {
  #pragma unroll
  for (int q = 0; q < 4; q++) {
    double lead = wi.v[q] - own;
    #pragma unroll
    for (int e = 0; e < 4; e++) {
      bool row = ALL || ((m >> (4 * q + e)) & 1);
      double z = row ? IMAGE(lead + wk.v[e], w[q].v[e]) : 0.0;
      double v = KIND > 0 ? (double)some[q].v[e] : 0.0;
      if (KIND == 2) {
        one += v != 0 ? z * z : 0.0;
        continue;
      }
      double x = KIND == 1 ? z + beta * v : z;
      double r = row ? x - fmin(fmax(x, low), high) : 0.0;
      if (KIND == 3) {
        one += fabs(v * r);
      } else {
        one += r * r;
        two += KIND == 0 ? z * z : v * v;
        if (KIND == 0) worst = fmax(worst, fabs(r));
      }
    }
  }
}

template <int KIND> __device__ __forceinline__ void summed(
    const double* __restrict__ W, int n, int across, const int* __restrict__ apexes, int count,
    int per, const Kept* __restrict__ y, double low, double high, double beta,
    double* __restrict__ found) {
  Place at(blockIdx.x + SKIP, n, across);
  __shared__ double room[8];
  int ld = 64 * across, first = blockIdx.y * per, last = min(count, first + per);
  Wide w[4];
  #pragma unroll
  for (int q = 0; q < 4; q++)
    w[q] = *reinterpret_cast<const Wide*>(W + (size_t)(at.i0 + q) * ld + at.k0);
  double one = 0, two = 0, worst = 0;
  for (int b = first; b < last; b++) {
    int j = apexes[b], m = at.without(j);
    const double* Wj = W + (size_t)j * ld;
    double own = OWN(Wj[j]);
    Wide wi = *reinterpret_cast<const Wide*>(Wj + at.i0);
    Wide wk = *reinterpret_cast<const Wide*>(Wj + at.k0);
    Four some[4];
    if (KIND > 0) {
      #pragma unroll
      for (int q = 0; q < 4; q++)
        some[q] = streamed(y + ((size_t)blockIdx.x * n + j) * 1024 + at.t + 256 * q);
    }
    if (m == 0xFFFF)
      added<KIND, true>(m, own, wi, wk, w, some, low, high, beta, one, two, worst);
    else
      added<KIND, false>(m, own, wi, wk, w, some, low, high, beta, one, two, worst);
  }
  size_t block = (size_t)blockIdx.y * gridDim.x + blockIdx.x, blocks = gridDim.x * gridDim.y;
  one = total(one, room); two = total(two, room); worst = highest(worst, room);
  if (at.t == 0) {
    found[block] = one; found[blocks + block] = two; found[2 * blocks + block] = worst;
  }
}

#define SUMS(KIND) extern "C" __global__ void __launch_bounds__(256, 2) sums##KIND( \
    const double* W, int n, int across, const int* apexes, int count, int per, const Kept* y, \
    double low, double high, double beta, double* found) { \
  summed<KIND>(W, n, across, apexes, count, per, y, low, high, beta, found); \
}
SUMS(0)
SUMS(1)
SUMS(2)
SUMS(3)

// Σ y² of a table.
extern "C" __global__ void __launch_bounds__(256) square(
    const Kept* __restrict__ y, long long fours, double* __restrict__ found) {
  __shared__ double room[8];
  double s = 0;
  long long step = (long long)gridDim.x * 256;
  for (long long i = (long long)blockIdx.x * 256 + threadIdx.x; i < fours; i += step) {
    Four x = streamed(y + i);
    #pragma unroll
    for (int e = 0; e < 4; e++) s += (double)x.v[e] * (double)x.v[e];
  }
  s = total(s, room);
  if (threadIdx.x == 0) found[blockIdx.x] = s;
}
"""
