"""Triangle inequalities: cubically many rows, none of them stored."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from condgrad._floats import TINY
from condgrad._types import ALL, Array, Rows, span
from condgrad.backends import backend, ops, threads
from condgrad.backends._reference import triangle_address
from condgrad.maps._base import Covering, Miss, Pairing, dimension, row_misses, scalar_bounds


class Triangles(Covering):
    r"""Triangle inequalities of a Gram matrix, one row per (pair, apex).

    .. math:: z_{(p,q,r)} = W_{pq} + W_{qr} - W_{pr} - W_{qq}, \qquad p < r,\; q \notin \{p, r\}

    z ≤ 0 says that the squared distances W_ii + W_jj − 2 W_ij obey the triangle inequality at apex
    q. There are :math:`n(n-1)(n-2)/2` rows. They are never listed: an id is taken apart by two
    divisions (`triples`), and a contiguous range of ids is walked in order, so memory is
    :math:`O(n^2)`. W is taken to be symmetric.

    Parameters
    ----------
    n : int
        Side of the symmetric matrix W, at least 3.

    References
    ----------
    .. [1] S. Arora, S. Rao, U. Vazirani, "Expander flows, geometric embeddings and graph
       partitioning", J. ACM 56(2), 2009.

    Examples
    --------
    >>> Triangles(4).size
    12
    """

    row_norm = 2.0

    def __init__(self, n: int) -> None:
        side = dimension("n", n, least=3)
        self.shape = (side, side)
        self.size = side * (side - 1) * (side - 2) // 2
        self.storage = side * side

    def triples(self, ids: Array) -> tuple[Array, Array, Array]:
        """The vertices (p, q, r) of given rows."""
        return triangle_address(self.shape[0], np.asarray(ids))

    def rows(self, W: Array, at: Rows = ALL) -> Array:
        z: Array
        W = np.ascontiguousarray(W)
        if isinstance(at, slice):
            start, stop = span(at, self.size)
            z = np.empty(stop - start, W.dtype)
            ops.triangle_sweep(W, start, stop, z)
        else:
            z = ops.triangle_gather(W, at)
        return z

    def scatter(self, G: Array, at: Rows, y: Array) -> None:
        square = G.reshape(self.shape)
        if isinstance(at, slice):
            ops.triangle_add(square, *span(at, self.size), y)
        else:
            ops.triangle_scatter(square, at, y)

    def renew(
        self,
        W: Array,
        G: Array,
        ranges: Sequence[slice],
        function: Any,
        y: Array,
        slopes: Array,
        beta: float,
        theta: float,
    ) -> None:
        bounds = scalar_bounds(function)
        if bounds is not None:
            W, square = np.ascontiguousarray(W), G.reshape(self.shape)
            ops.triangle_dual(W, square, y, slopes, self._ends(ranges), *bounds, beta, theta)
        else:
            super().renew(W, G, ranges, function, y, slopes, beta, theta)

    def fuses(self, function: Any) -> bool:
        """With the same interval for all rows."""
        return scalar_bounds(function) is not None

    def squares(self, D: Array, ranges: Sequence[slice], slopes: Array | None) -> float:
        if slopes is None:
            return super().squares(D, ranges, slopes)
        D = np.ascontiguousarray(D)

        def work(part: list[slice]) -> float:
            return float(ops.triangle_squares(D, slopes, self._ends(part)))

        return sum(threads.run([partial(work, part) for part in threads.share(ranges)]))

    def _ends(self, ranges: Sequence[slice]) -> Array:
        """Start and stop of each range, a row each."""
        return np.array([span(at, self.size) for at in ranges], np.int64).reshape(-1, 2)

    def miss(self, W: Array, at: slice, function: Any, unit: float = 0.0) -> Miss:
        bounds = scalar_bounds(function)
        if bounds is None:
            return super().miss(W, at, function, unit)
        W = np.ascontiguousarray(W)
        squares, images, worst = ops.triangle_miss(W, *span(at, self.size), *bounds)
        rows = row_misses(worst, self.row_norm, function.data_size(np.empty(0), at), unit)
        return Miss(squares, images, worst, *rows)

    def merit(self, W: Array, at: slice, function: Any, y: Array, beta: float) -> float:
        bounds = scalar_bounds(function)
        if bounds is None:
            return super().merit(W, at, function, y, beta)
        W = np.ascontiguousarray(W)
        squares, lengths = ops.triangle_merit(W, y, *span(at, self.size), *bounds, beta)
        return float(squares / (2 * beta) - beta * lengths / 2)

    def pair(
        self, W: Array | None, G: Array, at: slice, function: Any, y: Array | None, beta: float
    ) -> Pairing:
        bounds = scalar_bounds(function)
        if bounds is None or y is None:
            return super().pair(W, G, at, function, y, beta)
        lower, upper = bounds
        low, high = 0.0 if np.isneginf(lower) else -np.inf, 0.0 if np.isposinf(upper) else np.inf
        point = np.empty(self.shape) if W is None else np.ascontiguousarray(W)
        sums = ops.triangle_pair(
            point, W is not None, G.reshape(self.shape), y, *span(at, self.size), low, high
        )
        above, below, product = sums
        up, down = above * upper if above > 0 else 0.0, below * lower if below > 0 else 0.0
        size, total = abs(up) + abs(down), 2 * (above + below)
        size += TINY if (above > 0 and upper != 0) or (below > 0 and lower != 0) else 0.0
        total += self.size * (2 + self.shape[0]) * TINY if total > 0 else 0.0
        return Pairing(up - down, size, total, product)

    @property
    def depth(self) -> int:
        """About 3n: y is summed over the n rows that share p and q before it is added to W_qq.

        There are n such sums in W_qq, one more for every piece of rows that is handled at a time.
        Any other entry is in at most n rows as W_qr, in as many as W_pr, and in the sum over r as
        W_pq. The reference kernel adds all rows of an apex to W_qq one by one.
        """
        n, pairs = self.shape[0], self.block
        return pairs + 2 * n if backend() == "reference" else 3 * n + pairs // 2048 + 8

    @property
    def block(self) -> int:
        """All rows of one apex."""
        return (self.shape[0] - 1) * (self.shape[0] - 2) // 2

    def norm(self, symmetric: bool = False) -> float:
        r"""√(n(n − 1)/2) over symmetric W.

        A*A commutes with permutations of the vertices, so its eigenspaces are known: matrices
        aI + b11ᵀ give n(n − 2)/2; W_ii = a u_i, W_ij = b(u_i + u_j) with Σu = 0 have
        z = (2b − a) u_q and give at most n(n − 1)/2; matrices with zero diagonal and zero row sums
        give (3n − 4)/2. The second is the largest for every n ≥ 3.
        """
        n = self.shape[0]
        return float(np.sqrt(n * (n - 1) / 2)) if symmetric else super().norm()
