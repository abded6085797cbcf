"""From a semidefinite program to a condgrad problem: blocks split, rows scaled, zeros pinned."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from condgrad import _deadline as deadline
from condgrad._floats import EPS, power_of_two, powers_of_two
from condgrad._types import Array
from condgrad.backends.arrays import HOST, SMALL
from condgrad.domains import BlockSpectrahedron, Domain, PinnedSpectrahedron
from condgrad.domains.checked import deflate
from condgrad.domains.eigen import lowest_bound
from condgrad.functions import Interval, Linear
from condgrad.maps import Inner, LinearMap, LowRankStack, SparseStack, Stack
from condgrad.problem import Problem, Term
from condgrad.sdp._families import Family, holds
from condgrad.sdp._model import SDP
from condgrad.sdp._trace import trace_rows

CLEAR = 1e-2
"""A row pins vectors if its eigenvalues other than 0 are at least this part of the largest."""
ZERO = 1e-12
"""Eigenvalues of a row up to this part of the largest count as 0."""
TILT = 1e-10
"""How far computed pinned vectors may be from those of the exact rows: a few ε/`CLEAR`² for each
row, and 20 rows at most."""
PINNING = 20
"""The most rows that pin vectors."""


class Reduced:
    """The program as it is solved: a minimisation over one block-diagonal matrix.

    Indices that no cost and no row connects are blocks of their own, down to single numbers on the
    diagonal: entries of W between them can be 0. A row ⟨A, W⟩ = 0 or ≤ 0 with A ⪰ 0 says that W
    vanishes on the range of A, which the domain takes over where W has one block only and A ⪰ 0 is
    certain: an eigenvalue of −1e-14 would let entries of 1e-7 pass.

    Parameters
    ----------
    sdp : SDP
        The program.
    scale : array, optional
        d for every index, powers of two: D W D is solved for, D = Diag(d), without rounding.
    like : array, optional
        Smallest eigenvalues are proved where it lies.
    """

    def __init__(self, sdp: SDP, scale: Array | None = None, like: Array = HOST) -> None:
        self.sdp, self.like, layout = sdp, like, sdp.layout
        self.failure = 0.0
        """Probability that one of the eigenvalues that were bounded so far is smaller."""
        self.sign = -1.0 if sdp.sense == "max" else 1.0
        self.cost = self.sign * sdp.cost
        self.positions = self._i, self._j = layout.positions()
        """Row and column in the program of every number of the flat form."""
        self.off = self._i != self._j
        """Which numbers of the flat form are off the diagonal."""
        self.scaled = scale is not None
        d = np.ones(layout.side) if scale is None else scale
        self._unit = 1 / (d[self._i] * d[self._j])
        self._order_blocks()
        self.widest = float(self._unit[~self.off].max())
        """Tr W is at most this many times the trace in the scale of the domain."""
        self.norms = self._norms(self._unit)
        """‖A_l‖_F of every row, in the scale of the domain."""
        self.plain_norms = self.norms if scale is None else self._norms(np.ones(layout.size))
        """‖A_l‖_F of every row, in the scale of the program."""
        self.absolute = sp.csr_array(abs(sdp.A))
        self.depth = self._depth()
        """The most numbers that an entry of C + Σ ω A*u − A*y is summed from."""
        self.money = self._money()
        """The unit of costs in a run: a power of two, 1 but for extreme costs."""
        self.refuted = self._at_sight()
        """Whether a row cannot hold for any W ⪰ 0: one without entries, or a semidefinite one."""
        self.families = self._families()
        self.pins, self.pressed = self._pins()
        """Vectors on which W vanishes, and multipliers y of the rows that say so, A*y ⪯ 0 there."""
        self.trace, self.lift = trace_rows(self)
        """Rows that bound the trace, and a scale that makes them alike, where they are not."""

    def _order_blocks(self) -> None:
        """Find the connected blocks, and a place for every index so that they stand together."""
        sdp, N = self.sdp, self.sdp.layout.side
        used = self.cost != 0
        for A in (sdp.A, *(one.A for one in sdp.losses)):
            used[A.indices] = True
        i, j = [self._i[used]], [self._j[used]]
        for block, U, _ in sdp.low_rank.values():
            touched = sdp.layout.corners[block] + np.flatnonzero(np.abs(U).sum(axis=1))
            i.append(touched[:-1])
            j.append(touched[1:])
        at = (np.concatenate(i), np.concatenate(j))
        graph = sp.coo_array((np.ones(at[0].size), at), shape=(N, N))
        count, label = connected_components(graph, directed=False)
        sizes = np.bincount(label, minlength=count)
        rank = np.lexsort((np.arange(count), sizes == 1))  # single numbers last
        place = np.empty(count, np.int64)
        place[rank] = np.arange(count)
        order = np.lexsort((np.arange(N), place[label]))
        self.blocks = [int(s) for s in sizes[rank]]
        self.place = np.empty(N, np.int64)
        self.place[order] = np.arange(N)
        self._at = self.place[self._i] * N + self.place[self._j]
        """Position of every number of the flat form in the reordered matrix."""

    def moved(self, flat: Any) -> Any:
        """Rows in flat form as rows over the reordered N × N matrix."""
        N = self.sdp.layout.side
        data = flat.data * self._unit[flat.indices]  # a copy: it is sorted in place
        parts = (data, self._at[flat.indices], flat.indptr)
        rows = sp.csr_array(parts, shape=(flat.shape[0], N * N))
        rows.sort_indices()
        return rows

    def _norms(self, scale: Array) -> Array:
        sdp, A = self.sdp, sp.csr_array(self.sdp.A @ sp.diags_array(scale))
        largest = abs(A).max(axis=1).toarray().reshape(-1) if A.nnz else np.zeros(sdp.size)
        unit = np.where(largest > 0, largest, 1.0)  # squares must not underflow
        A = sp.csr_array(sp.diags_array(1 / unit) @ A) if sdp.size else A
        norms: Array = unit * np.sqrt(np.asarray(A.multiply(A).sum(axis=1)).reshape(-1))
        for l, (_, U, s) in sdp.low_rank.items():
            norms[l] = LowRankStack(U, [s.size], s).norms[0]
        return norms

    def _at_sight(self) -> bool:
        """Whether ⟨A_l, W⟩ would need a sign that it cannot have, A_l being 0, ⪰ 0 or ⪯ 0."""
        sdp = self.sdp
        unmet = ~holds(sdp, np.zeros(sdp.size))
        if unmet[self.norms == 0].any():
            return True
        b, kinds = sdp.b, sdp.kinds
        wanted = np.where(kinds == 0, np.sign(b), kinds)  # the sign that the row asks for
        diagonal = sp.csr_array(sdp.A[:, ~self.off])
        alone = np.asarray((self.absolute @ self.off.astype(np.float64)) == 0).reshape(-1)
        alone[list(sdp.low_rank)] = False
        high, low = (
            f(axis=1).toarray().reshape(-1) if diagonal.nnz else np.zeros(sdp.size)
            for f in (diagonal.max, diagonal.min)
        )
        never = np.where(wanted > 0, high <= 0, low >= 0)
        if (unmet & alone & never).any():
            return True
        traces = np.asarray(sdp.A @ (~self.off).astype(np.float64)).reshape(-1)
        for l, (_, U, s) in sdp.low_rank.items():
            traces[l] = float(np.sum(s * np.square(U).sum(axis=0)))
        against = unmet & (wanted * traces <= -(1 - 1e-9) * self.norms)  # |Tr A| ≥ ‖A‖ where A ⪰ 0
        return any(self.semidefinite(int(l)) for l in np.flatnonzero(against)[:PINNING])

    def _money(self) -> float:
        largest = float(np.abs(self.cost * self._unit).max(initial=0.0))
        return power_of_two(np.array([largest])) if largest and not 1e-50 < largest < 1e50 else 1.0

    def _depth(self) -> int:
        sdp = self.sdp
        counts = np.bincount(sdp.A.indices, minlength=sdp.layout.size)
        for one in sdp.losses:
            counts += np.bincount(one.A.indices, minlength=sdp.layout.size)
        ranks = sum(s.size for _, _, s in sdp.low_rank.values())
        return int(counts.max()) + ranks + 1

    def _families(self) -> list[Family]:
        sdp, families = self.sdp, []
        A, b, kinds, norms = sdp.A, sdp.b, sdp.kinds, self.norms
        factors = np.isin(np.arange(sdp.size), list(sdp.low_rank))
        turn = np.where(kinds > 0, -1.0, 1.0)
        for equality, few in product((True, False), (False, True)):
            own = ((kinds == 0) == equality) & (factors == few)
            ids = np.flatnonzero(own & (norms > 0))
            if ids.size:
                factor = turn[ids] / powers_of_two(norms[ids])  # lengths from 0.7 to 1.5
                stack = self._low_rank(ids, factor) if few else self._sparse(A[ids], factor)
                families.append(Family(stack, ids, factor, factor * b[ids], equality))
        return families

    def _sparse(self, A: Any, factor: Array) -> SparseStack:
        rows = sp.csr_array(sp.diags_array(factor) @ self.moved(A))
        return SparseStack(rows, self.sdp.layout.side)

    def _low_rank(self, ids: Array, factor: Array) -> LowRankStack:
        sdp = self.sdp
        counts = [sdp.low_rank[l][1].shape[1] for l in ids]
        U, s, start = np.zeros((sdp.layout.side, sum(counts))), [], 0
        for l, count, scale in zip(ids, counts, factor, strict=True):
            block, factors, weights = sdp.low_rank[l]
            corner = sdp.layout.corners[block]
            U[self.place[corner : corner + len(factors)], start : start + count] = factors
            s.append(scale * weights)
            start += count
        return LowRankStack(U, counts, np.concatenate(s))

    def _pins(self) -> tuple[Array, Array]:
        """Orthonormal vectors on which W vanishes, and multipliers of the rows that say so."""
        sdp, N = self.sdp, self.sdp.layout.side
        basis, y = np.zeros((N, 0)), np.zeros(sdp.size)
        families = self.families if self.blocks == [N] and N > 1 else []
        for f in families:
            traces = f.map.rows(np.eye(N))
            traces = np.abs(traces) if f.equality else traces
            lengths = np.abs(f.factor) * self.norms[f.ids]
            likely = traces > (1 - 1e-9) * lengths  # A ⪰ 0: Tr A ≥ ‖A‖
            for l in np.flatnonzero((f.right == 0) & likely):
                if np.count_nonzero(y) == PINNING or not self.semidefinite(int(f.ids[l])):
                    continue
                if not deadline.fits(deadline.cost(N, 4 * deadline.VECTORS)):
                    break  # rows that pin nothing stay rows
                A = f.map.adjoint((np.arange(f.map.size) == l).astype(np.float64))
                sign = 1.0 if np.trace(A) > 0 else -1.0
                wider = _joined(basis, _range(sign * A))
                if wider is not None and wider.shape[1] < N:
                    basis, y[f.ids[l]] = wider, -sign * f.factor[l]
        rows = np.flatnonzero(y)
        if rows.size:
            self.families = [one for f in self.families if (one := _without(f, rows)) is not None]
        return basis, y

    def semidefinite(self, l: int) -> bool:
        """Whether row l is ⪰ 0 or ⪯ 0 beyond rounding: blocks diagonal, or multiples of aaᵀ."""
        if l in self.sdp.low_rank:
            s = self.sdp.low_rank[l][2]
            return bool((s >= 0).all() or (s <= 0).all())
        blocks = self.sdp.layout.split(self.sdp.A[[l]].toarray().reshape(-1))
        signs = {_sign(A) for A in blocks}
        return None not in signs and len(signs - {0}) == 1

    def lowest(self, V: Array) -> float:
        """At most the smallest eigenvalue of a reordered matrix, off the pinned vectors."""
        if not np.isfinite(V).all():  # multipliers beyond the range of floats prove nothing
            return -np.inf
        if self.pins.shape[1]:
            V = (V + V.T) / 2
            size = float(np.linalg.norm(V))
            deflate(V, self.pins)
            return self.eigenvalue((V + V.T) / 2) - TILT * size
        values, start = [], 0
        singles = self.blocks.count(1)
        for b in self.blocks[: len(self.blocks) - singles]:
            part = V[start : start + b, start : start + b]
            values.append(self.eigenvalue((part + part.T) / 2))
            start += b
        return float(min([*values, *np.diagonal(V)[start:]]))

    def eigenvalue(self, V: Array) -> float:
        """At most the smallest eigenvalue of a symmetric matrix; by its rows if time is short."""
        if not deadline.fits(deadline.cost(len(V), deadline.PROOF)):
            return _by_rows(V)
        value, chance = lowest_bound(np.asarray(V, like=self.like) if len(V) > SMALL else V)
        self.failure += chance
        return value

    def problem(self, trace: float, equality: bool, cost: bool = True) -> Problem:
        """The problem over Tr W = trace or Tr W ≤ trace, or its rows alone."""
        N, terms = self.sdp.layout.side, []
        if cost and self.cost.any():
            used = np.flatnonzero(self.cost)
            where = np.divmod(self._at[used], N)
            costs = self.cost[used] * self._unit[used] / self.money
            C = sp.csr_array((costs, where), shape=(N, N))
            dense = used.size > 0.2 * N * N
            terms.append(Term(Inner(C.toarray() if dense else C), Linear(), name="cost"))
        for i, one in enumerate(self.sdp.losses if cost else ()):
            stack = SparseStack(self.moved(one.A), N)
            weight = one.weight / self.money
            terms.append(Term(stack, one.function, weight, f"loss {i + 1}"))
        if self.families:
            terms.append(self._rows())
        return Problem(self.domain(trace, equality), terms)

    def domain(self, trace: float, equality: bool) -> Domain:
        """The W ⪰ 0 with Tr W = trace or Tr W ≤ trace."""
        if self.pins.shape[1]:
            return PinnedSpectrahedron(self.pins, trace, 0.0, equality)
        return BlockSpectrahedron(self.blocks, trace, equality)

    def stack(self) -> LinearMap:
        """All rows as one map."""
        maps = [f.map for f in self.families]
        return maps[0] if len(maps) == 1 else Stack(maps)

    def multipliers(self, duals: Mapping[str, Array]) -> Array:
        """y of the minimisation for every row of the program, from those of the term ``rows``."""
        y, start = np.zeros(self.sdp.size), 0
        for f in self.families if "rows" in duals else ():
            own = duals["rows"][start : start + f.map.size]
            y[f.ids] = -f.factor * (own if f.equality else np.maximum(own, 0.0))
            start += f.map.size
        return y

    def _rows(self) -> Term:
        """All rows as one family: their lengths are near 1, so one β serves them."""
        upper = np.concatenate([f.right for f in self.families])
        lower = [f.right if f.equality else np.full(f.right.size, -np.inf) for f in self.families]
        function = Interval(np.concatenate(lower), upper)
        return Term(self.stack(), function, name="rows")

    def tolerance(self, feasibility: float) -> float:
        """Tolerance for rows of length 1 so that ‖AW − b‖ ≤ feasibility (1 + ‖b‖) before scaling.

        At most a thousandth of `feasibility` is asked for.
        """
        if not self.families:
            return feasibility
        longest = max(float(np.abs(1 / f.factor).max()) for f in self.families)
        right = float(np.linalg.norm(np.concatenate([f.right for f in self.families])))
        share = (1 + float(np.linalg.norm(self.sdp.b))) / (longest * (1 + right))
        return feasibility * float(np.clip(share, 1e-3, 1.0))

    def flat(self, W: Array) -> Array:
        """A point of the domain in flat form, the scale taken off."""
        return W.reshape(-1)[self._at] * self._unit

    def square(self, flat: Array) -> Array:
        """A cost or a slack in flat form as a reordered matrix, to the scale of the domain."""
        return self.plain(flat * self._unit)

    def flat_slack(self, Z: Array) -> Array:
        """Undo `square`."""
        return Z.reshape(-1)[self._at] / self._unit

    def plain(self, flat: Array) -> Array:
        """A vector in flat form as a reordered matrix, as it is."""
        N = self.sdp.layout.side
        V = np.zeros(N * N)
        V[self._at] = flat
        return V.reshape(N, N)


def _by_rows(V: Array) -> float:
    """A number below the smallest eigenvalue of a symmetric V, by the circles of Gershgorin."""
    if not V.size:
        return 0.0
    sizes = np.abs(V).sum(axis=1)
    own = np.diagonal(V)
    rounding = (len(V) + 4) * EPS * float(sizes.max())
    return float((own - (sizes - np.abs(own))).min()) - rounding


def _sign(A: Array) -> int | None:
    """1 where A ⪰ 0 beyond rounding, −1 where A ⪯ 0, 0 for A = 0, None where it is not certain."""
    diagonal = A if A.ndim == 1 else np.diagonal(A)
    i = int(np.argmax(np.abs(diagonal)))
    sign = int(np.sign(diagonal[i]))
    if A.ndim == 1 or not (A - np.diag(diagonal)).any():
        return sign if (sign * diagonal >= 0).all() else None
    if not sign:
        return None  # numbers off a diagonal of zeros
    with np.errstate(over="ignore"):
        short = np.array_equal(A, A.astype(np.float32))  # then products in float64 are exact
    return sign if short and np.array_equal(A * A[i, i], np.outer(A[i], A[i])) else None


def _range(A: Array) -> Array | None:
    """Orthonormal vectors that span the range of A ⪰ 0; None where it is large or unclear."""
    values, vectors = np.linalg.eigh(A)
    high = values > ZERO * values[-1]
    small = high.sum() < len(A) // 2
    return vectors[:, high] if small and values[high].min() > CLEAR * values[-1] else None


def _joined(basis: Array, vectors: Array | None) -> Array | None:
    """An orthonormal basis of both; None where some nearly depend on the others."""
    if vectors is None:
        return None
    U, s, _ = np.linalg.svd(np.hstack([basis, vectors]), full_matrices=False)
    wider: Array = U[:, s > ZERO]
    return wider if s[s > ZERO].min() > CLEAR else None


def _without(f: Family, rows: Array) -> Family | None:
    """A family without some rows; None where nothing is left."""
    keep = ~np.isin(f.ids, rows)
    if keep.all():
        return f
    if not keep.any():
        return None
    left = np.flatnonzero(keep)
    return f._replace(
        map=f.map.chosen(left), ids=f.ids[left], factor=f.factor[left], right=f.right[left]
    )
