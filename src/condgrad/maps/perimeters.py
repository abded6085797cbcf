"""Perimeter inequalities: the fourth triangle inequality of three signs."""

from __future__ import annotations

import numpy as np

from condgrad._check import dimension
from condgrad._types import Array
from condgrad.backends import backend
from condgrad.backends.addresses import perimeter_address
from condgrad.backends.arrays import foreign
from condgrad.maps.triangles import Triples


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
