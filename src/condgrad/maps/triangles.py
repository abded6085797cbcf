"""Triangle and perimeter inequalities: cubically many rows, none of them stored."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from condgrad._check import dimension, numbers
from condgrad._types import ALL, Array, Rows, span
from condgrad.backends import backend, kernels, tiles
from condgrad.backends.arrays import contiguous, diagonal, foreign
from condgrad.backends.tiles import perimeter_address, triangle_address
from condgrad.errors import ProblemError
from condgrad.maps._base import Covering


class Triples(Covering):
    """A row for each of many triples of vertices, never listed."""

    kind: ClassVar[str]
    """The beginning of the names of its kernels."""
    share: tuple[int, int] | None = None
    """The first tile of its tables on a GPU and how many they have, where others are elsewhere."""

    def _kernel(self, what: str, like: Array) -> Any:
        return getattr(kernels(like), f"{self.kind}_{what}")

    def rows(self, W: Array, at: Rows = ALL) -> Array:
        z: Array
        W = contiguous(self.seen(W))
        if isinstance(at, slice):
            start, stop = span(at, self.size)
            z = np.empty(stop - start, W.dtype, like=W)
            self._kernel("sweep", W)(W, start, stop, z)
        else:
            z = self._kernel("gather", W)(W, at)
        return z

    def scatter(self, G: Array, at: Rows, y: Array) -> None:
        square = G.reshape(self.shape)
        if isinstance(at, slice):
            self._kernel("add", G)(square, *span(at, self.size), y)
        else:
            self._kernel("scatter", G)(square, at, y)

    @property
    def entries(self) -> int:
        """Numbers in a table of the rows, which on a GPU has gaps (`condgrad.backends.tiles`)."""
        return tiles.entries(self.shape[0], self.share) if foreign(self.like) else self.size

    def listed(self, table: Array) -> Array:
        """The numbers of a table in the order of the rows."""
        if not foreign(table):
            return table
        both = self.kind == "perimeter"
        return tiles.listed(self.shape[0], table, self.size, both, self.share)


class Triangles(Triples):
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
    weights : array, optional
        Positive numbers μ: the inequalities are those of :math:`W_{ij}/\sqrt{μ_i μ_j}`, the Gram
        matrix where :math:`W_{ij} = \sqrt{μ_i μ_j}\, ⟨x_i, x_j⟩`. Default: all 1.
    unit : bool, default False
        Whether the diagonal is known to be 1 and left out: the rows are
        :math:`W_{pq} + W_{qr} - W_{pr}`, to be at most 1. `Perimeters` are the fourth inequality of
        a triple of signs. ‖A‖ is much smaller so, about √(3n/2). Not with `weights`.

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
    portable = True
    kind = "triangle"
    kernels = ("triangle_sweep", "triangle_add")

    def __init__(self, n: int, weights: Any = None, unit: bool = False) -> None:
        side = dimension("n", n, least=3)
        self.shape = (side, side)
        self.size = side * (side - 1) * (side - 2) // 2
        self.storage = side * side
        self._scale: Array | None = None
        self._unit = bool(unit)
        if self._unit:
            if weights is not None:
                raise ProblemError("weights are given beside unit=True: leave one of them out")
            self._scale, self.row_norm = 1 - np.eye(side), float(np.sqrt(3))
        elif weights is not None:
            mu = numbers("weights", weights)
            if mu.shape != (side,) or not (mu > 0).all():
                raise ProblemError(f"weights must be {side} positive numbers, one for each vertex")
            root = 1 / np.sqrt(mu)
            self._scale = np.outer(root, root)
            self.row_norm = 2.0 * float(self._scale.max())

    def seen(self, W: Array) -> Array:
        """W_ij/√(μ_i μ_j), or W without its diagonal."""
        return W if self._scale is None else W * self._scale.astype(W.dtype, copy=False)

    def set_to(self, G: Array, weight: float, out: Array) -> None:
        super().set_to(G, weight, out)
        if self._scale is not None:
            out *= self._scale.astype(out.dtype, copy=False)

    def add_to(self, G: Array, weight: float, out: Array) -> None:
        super().add_to(self.seen(G.reshape(self.shape)).reshape(-1), weight, out)

    def triples(self, ids: Array) -> tuple[Array, Array, Array]:
        """The vertices (p, q, r) of given rows."""
        return triangle_address(self.shape[0], np.asarray(ids))

    @property
    def depth(self) -> int:
        """About 3n: y is summed over the n rows that share p and q before it is added to W_qq.

        There are n such sums in W_qq, one more for every piece of rows that is handled at a time.
        Any other entry is in at most n rows as W_qr, in as many as W_pr, and in the sum over r as
        W_pq. The reference kernel adds all rows of an apex to W_qq one by one. On a GPU sums over
        64 rows or columns come before those over tiles, and sums over apexes are cut into parts.
        """
        n, pairs = self.shape[0], self.stretch
        if foreign(self.like):
            return 3 * n + 256
        own = pairs + 2 * n if backend() == "reference" else 3 * n + pairs // 2048 + 8
        return own if self._scale is None else own + 8  # the scale has been rounded, too

    @property
    def stretch(self) -> int:
        """All rows of one apex."""
        return (self.shape[0] - 1) * (self.shape[0] - 2) // 2

    def norm(self, symmetric: bool = False) -> float:
        r"""√(n(n − 1)/2) over symmetric W.

        A*A commutes with permutations of the vertices, so its eigenspaces are known: matrices
        aI + b11ᵀ give n(n − 2)/2; W_ii = a u_i, W_ij = b(u_i + u_j) with Σu = 0 have
        z = (2b − a) u_q and give at most n(n − 1)/2; matrices with zero diagonal and zero row sums
        give (3n − 4)/2. The second is the largest for every n ≥ 3. Without the diagonal they are
        (n − 2)/2, n − 1 and (3n − 4)/2, the last for n > 3 only.
        """
        n = self.shape[0]
        if symmetric and self._unit:
            return float(np.sqrt((3 * n - 4) / 2 if n > 3 else 2.0))
        if symmetric and self._scale is None:
            return float(np.sqrt(n * (n - 1) / 2))
        return self._power() if symmetric and foreign(self.like) else super().norm(symmetric)

    def gram(self, W: Array) -> Array:
        """The symmetric part of A*A W for a symmetric W, no row being evaluated.

        With X = W_ij/√(μ_i μ_j), its row sums R, its trace t and the sum S of its entries, that of
        A*A X is ((3n − 4) X_ij − (n − 2)(X_ii + X_jj) − R_i − R_j + t)/2 beside the diagonal and
        (n − 1)(n − 2)/2 X_qq − (n − 1)(R_q − X_qq) + (S − t)/2 on it.
        """
        n, X = self.shape[0], self.seen(W)
        R, d, t = X.sum(axis=1), diagonal(X).copy(), diagonal(X).sum()
        H: Array = (3 * n - 4) * X - ((n - 2) * d + R) - ((n - 2) * d + R)[:, None] + t
        H *= 0.5
        diagonal(H)[:] = (n - 1) * ((n / 2 - 1) * d - (R - d)) + (R.sum() - t) / 2
        return self.seen(H)

    def _power(self) -> float:
        """‖A‖ over symmetric W by at most 1000 steps of the power method."""
        start = np.random.default_rng(0).standard_normal(self.shape)
        W, top = np.asarray(start + start.T, like=self.like), 0.0
        for _ in range(1000):
            W /= np.linalg.norm(W)
            H, before = self.gram(W), top
            top, W = float(np.vdot(W, H)), H
            if top - before <= 1e-9 * top:
                break
        return float(np.sqrt(top))


class Perimeters(Triples):
    r"""Sums of W over three vertices, one row per triple.

    .. math:: z_{(p,q,r)} = W_{pq} + W_{qr} + W_{pr}, \qquad p < r < q

    For W = xxᵀ with signs x the sum is 3 or −1, so z ≥ −1 holds for all cuts: of three vertices two
    are on one side. With `Triangles` (``unit=True``) these are all 4 C(n, 3) triangle inequalities
    of max-cut [1]_. There are C(n, 3) rows, never listed: row C(q, 3) + C(r, 2) + p is that of the
    triple (p, q, r). W is taken to be symmetric; its entries below the diagonal are read.

    Parameters
    ----------
    n : int
        Side of the symmetric matrix W, at least 3.

    References
    ----------
    .. [1] C. Helmberg, F. Rendl, "Solving quadratic (0,1)-problems by semidefinite programs and
       cutting planes", Math. Program. 82, 1998.

    Examples
    --------
    >>> Perimeters(4).size
    4
    """

    row_norm = float(np.sqrt(3))
    portable = True
    kind = "perimeter"
    kernels = ("perimeter_sweep", "perimeter_add")

    def __init__(self, n: int) -> None:
        side = dimension("n", n, least=3)
        self.shape = (side, side)
        self.size = side * (side - 1) * (side - 2) // 6
        self.storage = side * side

    def triples(self, ids: Array) -> tuple[Array, Array, Array]:
        """The vertices (p, q, r), p < r < q, of given rows."""
        return perimeter_address(np.asarray(ids))

    @property
    def depth(self) -> int:
        """About 3n: y is summed over the rows that share q and r before it is added to W_qr.

        An entry is in at most n rows as W_pq, in as many as W_pr, and in that sum, which is cut
        where a piece of rows that is handled at a time ends.
        """
        n = self.shape[0]
        if foreign(self.like):
            return 3 * n + 256
        return 3 * n + 8 if backend() == "reference" else 3 * n + n // 2048 + 8

    @property
    def stretch(self) -> int:
        """An n-th of the rows; on a GPU as many as the largest q has, since it draws such."""
        n = self.shape[0]
        return (n - 1) * (n - 2) // 2 if foreign(self.like) else -(-self.size // n)

    def norm(self, symmetric: bool = False) -> float:
        """√(3(n − 2)/2) over symmetric W, at 11ᵀ: a pair is in n − 2 triples, with two others each.

        Over all W it is √2 times that, since only entries below the diagonal are read.
        """
        return float(np.sqrt(3 * (self.shape[0] - 2) / (2 if symmetric else 1)))
