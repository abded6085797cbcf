"""CUDA source of the passes over triangle rows.

A block of 256 threads owns a tile of 64 × 64 pairs (`condgrad.backends.tiles`) and walks over some
apexes. Each thread keeps 4 × 4 entries of W and of the sums over apexes in registers; sums over the
rows and columns of the tile, which belong to an apex, are written to a buffer that `fold` adds up.
Nothing is added atomically: the same numbers give the same bits. REAL is the type of the work on
tables, which are of that type or, where HALF is set, in bfloat16. Where PERIMETER is set the rows
are W_pq + W_qr + W_pr with p < r < q, the apex being the largest: signs differ, and the places of
other apexes have no row. Where SKIP and HELD are set the tables, and the grid, have only HELD tiles
from tile SKIP on: others are elsewhere. The sums at the end are in
float64.
"""

SOURCE = r"""
// The image of a row from what is near its apex and what is far, and what W_qq adds to it.
#if PERIMETER
#define IMAGE(near, far) ((near) + (far))
#define OWN(x) 0
#else
#define IMAGE(near, far) ((near) - (far))
#define OWN(x) (x)
#endif

#ifndef HELD
#define SKIP 0
#endif

struct alignas(16) Four { REAL v[4]; };
struct alignas(16) Wide { double v[4]; };

#if HALF
struct alignas(8) Kept { unsigned short v[4]; };
#else
typedef Four Kept;
#endif

__device__ __forceinline__ Four streamed(const Kept* p) {
  Four x;
#if HALF
  uint2 two = __ldcs(reinterpret_cast<const uint2*>(p));
  x.v[0] = __uint_as_float(two.x << 16); x.v[1] = __uint_as_float(two.x & 0xffff0000u);
  x.v[2] = __uint_as_float(two.y << 16); x.v[3] = __uint_as_float(two.y & 0xffff0000u);
#else
  if constexpr (sizeof(REAL) == 4) {
    *reinterpret_cast<float4*>(&x) = __ldcs(reinterpret_cast<const float4*>(p));
  } else {
    double2* to = reinterpret_cast<double2*>(&x);
    const double2* from = reinterpret_cast<const double2*>(p);
    to[0] = __ldcs(from); to[1] = __ldcs(from + 1);
  }
#endif
  return x;
}

// Numbers that the table can hold, see `rounded`.
__device__ __forceinline__ void stream(Kept* p, const Four& x) {
#if HALF
  uint2 two;
  two.x = (__float_as_uint(x.v[0]) >> 16) | (__float_as_uint(x.v[1]) & 0xffff0000u);
  two.y = (__float_as_uint(x.v[2]) >> 16) | (__float_as_uint(x.v[3]) & 0xffff0000u);
  __stcs(reinterpret_cast<uint2*>(p), two);
#else
  if constexpr (sizeof(REAL) == 4) {
    __stcs(reinterpret_cast<float4*>(p), *reinterpret_cast<const float4*>(&x));
  } else {
    const double2* from = reinterpret_cast<const double2*>(&x);
    __stcs(reinterpret_cast<double2*>(p), from[0]);
    __stcs(reinterpret_cast<double2*>(p) + 1, from[1]);
  }
#endif
}

// Four numbers as the table holds them. In bfloat16 a number goes to one of its two neighbours, to
// the nearer one more often, by a hash of its place, its bits and a salt that differs from pass to
// pass: small steps are not lost then, and the same numbers give the same bits. 0 stays 0, and no
// sign changes.
__device__ __forceinline__ void rounded(Four& x, size_t place, unsigned salt) {
#if HALF
  #pragma unroll
  for (int e = 0; e < 4; e += 2) {
    unsigned a = __float_as_uint(x.v[e]), b = __float_as_uint(x.v[e + 1]);
    unsigned h = (unsigned)(2 * place + (e >> 1)) * 0x9e3779b1u + salt;
    h ^= a * 0x85ebca6bu ^ b * 0xc2b2ae35u;
    h ^= h >> 16; h *= 0x7feb352du; h ^= h >> 15; h *= 0x846ca68bu; h ^= h >> 16;
    x.v[e] = __uint_as_float((a + (h & 0xffffu)) & 0xffff0000u);
    x.v[e + 1] = __uint_as_float((b + (h >> 16)) & 0xffff0000u);
  }
#endif
}

// The salt of a row of a tile at an apex: W differs from pass to pass, too.
__device__ __forceinline__ unsigned salted(unsigned salt, REAL a, REAL b) {
#if HALF
  return salt ^ __float_as_uint(a) * 0x27d4eb2fu ^ __float_as_uint(b) * 0x165667b1u;
#else
  return salt;
#endif
}

// The tile of a block, what of it a thread has, and which of its 16 entries are pairs p < r < n.
struct Place {
  int t, row, column, i0, k0, pairs;
  __device__ Place(int tile, int n, int across) {
    int a = 0, left = tile;
    while (left >= across - a) { left -= across - a; a++; }
    t = threadIdx.x; row = t >> 4; column = t & 15;
    i0 = 64 * a + 4 * row; k0 = 64 * (a + left) + 4 * column; pairs = 0;
    for (int q = 0; q < 4; q++) for (int e = 0; e < 4; e++)
      if (i0 + q < k0 + e && k0 + e < n) pairs |= 1 << (4 * q + e);
  }
  __device__ __forceinline__ int without(int j) const {
    int m = pairs;
#if PERIMETER
    if (j <= k0) return 0;
    return j < k0 + 4 ? m & 0x1111 * ((1 << (j - k0)) - 1) : m;
#endif
    if ((unsigned)(j - i0) < 4u) m &= ~(0xF << (4 * (j - i0)));
    if ((unsigned)(j - k0) < 4u) m &= ~(0x1111 << (j - k0));
    return m;
  }
};

// Sums over the rows and the columns of a tile for one apex; col is for one of two apexes in turn.
template <class A> __device__ __forceinline__ void reduced(
    const Place& at, const A* rs, const A* cs, A (*col)[64], A* out) {
  const unsigned all = 0xffffffffu;
  bool h = at.t & 1, g = at.t & 2, f = at.t & 16;
  A a0 = h ? rs[2] : rs[0], a1 = h ? rs[3] : rs[1];
  a0 += __shfl_xor_sync(all, h ? rs[0] : rs[2], 1);
  a1 += __shfl_xor_sync(all, h ? rs[1] : rs[3], 1);
  A s = g ? a1 : a0;
  s += __shfl_xor_sync(all, g ? a0 : a1, 2);
  s += __shfl_xor_sync(all, s, 4);
  s += __shfl_xor_sync(all, s, 8);
  if (at.column < 4) out[4 * at.row + 2 * (at.t & 1) + ((at.t >> 1) & 1)] = s;
  A c0 = f ? cs[2] : cs[0], c1 = f ? cs[3] : cs[1];
  c0 += __shfl_xor_sync(all, f ? cs[0] : cs[2], 16);
  c1 += __shfl_xor_sync(all, f ? cs[1] : cs[3], 16);
  A* to = &col[at.t >> 5][4 * at.column + (f ? 2 : 0)];
  to[0] = c0; to[1] = c1;
  __syncthreads();
  if (at.t < 64) {
    A x = 0;
    #pragma unroll
    for (int w = 0; w < 8; w++) x += col[w][at.t];
    out[64 + at.t] = x;
  }
}

__device__ __forceinline__ double total(double x, double* room) {
  for (int o = 16; o > 0; o >>= 1) x += __shfl_xor_sync(0xffffffffu, x, o);
  __syncthreads();
  if ((threadIdx.x & 31) == 0) room[threadIdx.x >> 5] = x;
  __syncthreads();
  double s = 0;
  for (int w = 0; w < 8; w++) s += room[w];
  return s;
}

__device__ __forceinline__ double highest(double x, double* room) {
  for (int o = 16; o > 0; o >>= 1) x = fmax(x, __shfl_xor_sync(0xffffffffu, x, o));
  __syncthreads();
  if ((threadIdx.x & 31) == 0) room[threadIdx.x >> 5] = x;
  __syncthreads();
  double s = 0;
  for (int w = 0; w < 8; w++) s = fmax(s, room[w]);
  return s;
}

// y (and where TWO slopes) of drawn apexes; G gets A*(the change of y, or of the slopes).
template <bool TWO> __device__ __forceinline__ void moved(
    const REAL* __restrict__ W, int n, int across, const int* __restrict__ apexes, int count,
    int per, Kept* __restrict__ y, Kept* __restrict__ slopes, REAL inverse, REAL low, REAL high,
    REAL theta, unsigned salt, REAL* __restrict__ sums, Four* __restrict__ pairs,
    double* __restrict__ squares) {
  Place at(blockIdx.x + SKIP, n, across);
  __shared__ REAL col[2][8][64];
  __shared__ double room[8];
  int ld = 64 * across, first = blockIdx.y * per, last = min(count, first + per);
  Four w[4], acc[4];
  #pragma unroll
  for (int q = 0; q < 4; q++) {
    w[q] = *reinterpret_cast<const Four*>(W + (size_t)(at.i0 + q) * ld + at.k0);
    #pragma unroll
    for (int e = 0; e < 4; e++) acc[q].v[e] = 0;
  }
  size_t tile = (size_t)blockIdx.x * n;
  double length = 0;
  Four ys[4];
  #pragma unroll
  for (int q = 0; q < 4; q++) ys[q] = streamed(y + (tile + apexes[first]) * 1024 + at.t + 256 * q);
  for (int b = first; b < last; b++) {
    int j = apexes[b];
    Four old[4], gs[4];
    size_t base = (tile + j) * 1024 + at.t;
    #pragma unroll
    for (int q = 0; q < 4; q++) {
      old[q] = ys[q];
      if constexpr (TWO) gs[q] = streamed(slopes + base + 256 * q);
    }
    if (b + 1 < last) {  // the next one is on its way while this one is worked on
      size_t next = (tile + apexes[b + 1]) * 1024 + at.t;
      #pragma unroll
      for (int q = 0; q < 4; q++) ys[q] = streamed(y + next + 256 * q);
    }
    const REAL* Wj = W + (size_t)j * ld;
    REAL own = OWN(Wj[j]);
    Four wi = *reinterpret_cast<const Four*>(Wj + at.i0);
    Four wk = *reinterpret_cast<const Four*>(Wj + at.k0);
    int m = at.without(j);
    REAL rs[4], cs[4] = {0, 0, 0, 0}, part = 0;
    #pragma unroll
    for (int q = 0; q < 4; q++) {
      REAL s = 0, lead = wi.v[q] - own;
      Four to, gamma;
      #pragma unroll
      for (int e = 0; e < 4; e++) {
        REAL x = old[q].v[e] + inverse * IMAGE(lead + wk.v[e], w[q].v[e]);
        REAL g = x - min(max(x, low), high);
        g = (m >> (4 * q + e)) & 1 ? g : (REAL)0;
        gamma.v[e] = g;
        if constexpr (TWO) to.v[e] = old[q].v[e] + theta * (g - old[q].v[e]);
      }
      rounded(gamma, base + 256 * q, salted(salt, wi.v[q], own));
      if constexpr (TWO) rounded(to, base + 256 * q, salted(~salt, wi.v[q], own));
      #pragma unroll
      for (int e = 0; e < 4; e++) {  // of what is kept
        REAL change = gamma.v[e] - (TWO ? gs[q].v[e] : old[q].v[e]);
        if constexpr (!TWO) part += change * change;
        s += change; cs[e] += change; acc[q].v[e] += change;
      }
      stream(y + base + 256 * q, TWO ? to : gamma);
      if constexpr (TWO) stream(slopes + base + 256 * q, gamma);
      rs[q] = s;
    }
    length += part;
    reduced<REAL>(at, rs, cs, col[b & 1], sums + ((size_t)blockIdx.x * count + b) * 128);
  }
  size_t block = (size_t)blockIdx.y * gridDim.x + blockIdx.x;
  #pragma unroll
  for (int q = 0; q < 4; q++) pairs[block * 1024 + 256 * q + at.t] = acc[q];
  if constexpr (!TWO) {
    length = total(length, room);
    if (at.t == 0) squares[block] = length;
  }
}

extern "C" __global__ void __launch_bounds__(256, 2) ascend(
    const REAL* W, int n, int across, const int* apexes, int count, int per, Kept* y, REAL inverse,
    REAL low, REAL high, unsigned salt, REAL* sums, Four* pairs, double* squares) {
  moved<false>(W, n, across, apexes, count, per, y, nullptr, inverse, low, high, 0, salt, sums,
               pairs, squares);
}

extern "C" __global__ void __launch_bounds__(256, 2) dual(
    const REAL* W, int n, int across, const int* apexes, int count, int per, Kept* y, Kept* slopes,
    REAL inverse, REAL low, REAL high, REAL theta, unsigned salt, REAL* sums, Four* pairs) {
  moved<true>(W, n, across, apexes, count, per, y, slopes, inverse, low, high, theta, salt, sums,
              pairs, nullptr);
}

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
