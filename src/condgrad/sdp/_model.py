"""A semidefinite program as the user writes it down."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from condgrad import _progress as progress
from condgrad._check import canonical, numbers, positive
from condgrad._deadline import limited
from condgrad._round import counted
from condgrad._types import Array
from condgrad.applications.graphs import check_size
from condgrad.errors import ProblemError
from condgrad.functions import Smooth
from condgrad.io.sdpa import Sdpa
from condgrad.methods import Method
from condgrad.run.journal import KEPT, journaled
from condgrad.run.limits import Goal, Limits
from condgrad.run.solve import solve
from condgrad.sdp._solution import Solution
from condgrad.sdp.layout import BUILT, Layout, LowRank, blocks_of, layout_of, require_room

SMALLEST = 1e-290
"""Numbers other than 0 must not be smaller, and not larger than its inverse."""
FAR = 1e120
"""Costs up to this, and not all below its inverse, are scaled; so is W, by the ratios of rows."""
NOT_HERE = ("problem", "method", "start", "duals")
"""Parameters of `condgrad.solve` that are no options here."""
SENSES = {"==": 0, "<=": -1, ">=": 1}


@dataclass(frozen=True, eq=False)
class Loss:
    """weight · Σ_l h_l(⟨A_l, W⟩), A in flat form."""

    A: Any
    function: Smooth
    weight: float


class SDP:
    r"""min (or max) ⟨C, W⟩ over W ⪰ 0 with ⟨A_l, W⟩ = b_l, ≤ b_l or ≥ b_l.

    W is one positive semidefinite matrix, or has several blocks: matrices, and vectors of
    non-negative numbers.

    Parameters
    ----------
    C : array, SciPy sparse matrix or LowRank, or a list of them
        Cost. In a list every square matrix is a semidefinite block and every vector a non-negative
        one.
    sense : {"min", "max"}
        What to do with ⟨C, W⟩.

    Notes
    -----
    C and the A_l need not be symmetric: ⟨A, W⟩ = Σ A_ij W_ij is taken as it stands, and A is
    replaced by (A + Aᵀ)/2, which changes nothing as W is symmetric. A triangular matrix is refused:
    it may be meant as it stands, or as one half of a symmetric matrix of which the other was left
    out, and then ⟨A, W⟩ would be something else. Only a matrix of one entry is taken for what it
    is, so that a row with A_ij = 1 alone says W_ij.

    Examples
    --------
    The largest eigenvalue:

    >>> sdp = SDP(np.diag([1.0, 3.0, 2.0]), "max").subject_to(np.eye(3), "==", 1.0)
    >>> solution = sdp.solve(gap=1e-6)
    >>> round(solution.value, 3), round(solution.bound, 3)
    (3.0, 3.0)

    References
    ----------
    .. [1] G. Dresdner et al., AISTATS 2022, equation (2).
    """

    def __init__(self, C: Any, sense: str = "min") -> None:
        if sense not in ("min", "max"):
            raise ProblemError(f"sense is {sense!r}: it must be 'min' or 'max'")
        self.sense, self.layout = sense, layout_of(C)
        require_room(self.layout, BUILT)
        columns, values = self.layout.flatten("C", C)
        self.cost = np.zeros(self.layout.size)
        np.add.at(self.cost, columns, values)
        self.losses: list[Loss] = []
        self.low_rank: dict[int, tuple[int, Array, Array]] = {}
        """Rows that are kept as factors: block, U and s by number."""
        self._rows: list[Any] = []
        self._kinds: list[Array] = []
        self._b: list[Array] = []
        self.size = 0
        """Rows so far."""

    def __repr__(self) -> str:
        sides = ", ".join(map(str, self.blocks[:8])) + ", …" * (len(self.blocks) > 8)
        losses = f", {len(self.losses)} loss{'es' * (len(self.losses) > 1)}" if self.losses else ""
        return f"<SDP: {self.sense}, blocks {sides}; {counted(self.size, 'row')}{losses}>"

    @property
    def blocks(self) -> tuple[int, ...]:
        """n for a semidefinite block of side n, −n for a non-negative block of length n."""
        return self.layout.blocks

    @property
    def b(self) -> Array:
        """Right-hand sides, in the order of the rows."""
        return np.concatenate([np.empty(0), *self._b])

    @property
    def kinds(self) -> Array:
        """0 for a row with =, −1 with ≤, 1 with ≥."""
        return np.concatenate([np.empty(0, np.int64), *self._kinds])

    @property
    def A(self) -> Any:
        """The rows in flat form, m × size, empty where a row is kept as factors."""
        if not self._rows:
            return sp.csr_array((0, self.layout.size))
        return sp.csr_array(sp.vstack(self._rows, format="csr"))

    def subject_to(self, A: Any, sense: str, b: Any) -> SDP:
        """Add the row ⟨A, W⟩ = b, ≤ b or ≥ b; return the program, so that calls can be chained.

        Parameters
        ----------
        A : array, SciPy sparse matrix or LowRank, or a list of them
            Shaped as C; in a list None stands for zero.
        sense : {"==", "<=", ">="}
            The relation.
        b : float
            The right-hand side.
        """
        name, kind = f"A of row {self.size}", _kind(sense)
        right = numbers(f"b of row {self.size}", b)
        if right.size != 1:
            raise ProblemError(f"b has shape {right.shape}: a row has one number")
        given = blocks_of(A)
        alone = [i for i, one in enumerate(given) if one is not None]
        if len(alone) == 1 and isinstance(given[alone[0]], LowRank):
            self._factors(name, given, alone[0])
            columns, values = np.empty(0, np.int64), np.empty(0)
        else:
            columns, values = self.layout.flatten(name, A)
        row = (values, columns, np.array([0, columns.size]))
        self._append(sp.csr_array(row, shape=(1, self.layout.size)), kind, right.reshape(1))
        return self

    def _factors(self, name: str, given: Sequence[Any], block: int) -> None:
        """Keep the next row as factors."""
        if len(given) != len(self.blocks):
            self.layout.flatten(name, given)  # says what is wrong
        n = self.blocks[block]
        if n < 0:
            raise ProblemError(f"{name} is a LowRank, but its block is a vector: give a vector")
        self.low_rank[self.size] = (block, *given[block].checked(name, n))

    def subject_to_rows(self, A: Any, sense: str, b: Any) -> SDP:
        """Add many rows at once.

        Parameters
        ----------
        A : SciPy sparse matrix, shape (m, size)
            The A_l in flat form: the numbers of every block, a matrix row by row, one block behind
            the other.
        sense : {"==", "<=", ">="}
            The relation, for all of them.
        b : array, shape (m,), or float
            The right-hand sides.
        """
        kind, rows = _kind(sense), self._flat("A", A)
        right = numbers("b", b)
        right = np.full(rows.shape[0], right) if right.ndim == 0 else right
        if right.shape != (rows.shape[0],):
            raise ProblemError(f"b has shape {right.shape}: A has {rows.shape[0]} rows")
        self._append(rows, kind, right)
        return self

    def loss(self, A: Any, function: Smooth, weight: float = 1.0) -> SDP:
        """Add weight · Σ_l h_l(⟨A_l, W⟩) to what is minimised.

        Parameters
        ----------
        A : SciPy sparse matrix, shape (m, size)
            The A_l in flat form, as in `subject_to_rows`.
        function : Smooth
            h, one of `condgrad.functions`.
        weight : float, default 1
            Positive.
        """
        if self.sense == "max":
            raise ProblemError("a loss is convex and cannot be maximised: use sense='min'")
        if not isinstance(function, Smooth):
            raise ProblemError(f"function is a {type(function).__name__}: pass a smooth one")
        self.losses.append(Loss(self._flat("A", A), function, positive("weight", weight)))
        return self

    def _check_rows(self) -> None:
        """Refuse rows that ask for a W beyond the range of float64, whatever their own units."""
        sizes, b = abs(self.A).max(axis=1).toarray().reshape(-1), np.abs(self.b)
        used = (sizes > 0) & (b > 0)
        with np.errstate(over="ignore", under="ignore"):
            asked = b[used] / sizes[used]
        if (bad := np.flatnonzero((asked < 1 / FAR) | (asked > FAR))).size:
            row = np.flatnonzero(used)[bad[0]]
            raise ProblemError(
                f"row {row} has |b| = {b[row]:.3g} and entries of A up to {sizes[row]:.3g}: the "
                f"ratio must lie in {1 / FAR:g} … {FAR:g}: measure W in other units"
            )

    def _flat(self, name: str, A: Any) -> Any:
        if not sp.issparse(A):
            dense = np.atleast_2d(numbers(name, A))
            if dense.ndim != 2:
                raise ProblemError(f"{name} has shape {dense.shape}: it must be a matrix")
            A = sp.csr_array(dense)
        rows = canonical(name, A).copy()
        if rows.shape[1] != self.layout.size:
            raise ProblemError(
                f"{name} has {rows.shape[1]} columns: the variable has {self.layout.size} numbers"
            )
        return self.layout.symmetric_parts(name, rows)

    def _append(self, rows: Any, kind: int, b: Array) -> None:
        self._rows.append(rows)
        self._kinds.append(np.full(b.size, kind))
        self._b.append(b.astype(np.float64))
        self.size += b.size

    @classmethod
    def from_sdpa(cls, data: Sdpa) -> SDP:
        """The program max ⟨F_0, Y⟩, ⟨F_i, Y⟩ = c_i, Y ⪰ 0 of an SDPA file, from `io.read_sdpa`."""
        if not isinstance(data, Sdpa):
            raise ProblemError(f"data is a {type(data).__name__}: pass condgrad.io.read_sdpa(path)")
        layout = Layout(data.blocks)
        side = np.array(layout.blocks)[data.block]
        start = layout.starts[data.block]
        upper = np.where(side > 0, data.row * side + data.col, data.row) + start
        lower = np.where(side > 0, data.col * side + data.row, data.row) + start
        off = data.row != data.col
        rows = np.concatenate([data.matrix, data.matrix[off]])
        at = np.concatenate([upper, lower[off]])
        values = np.concatenate([data.value, data.value[off]])
        shape = (data.c.size + 1, layout.size)
        F = sp.csr_array((values, (rows, at)), shape=shape)
        sdp = cls([np.zeros((b, b)) if b > 0 else np.zeros(-b) for b in data.blocks], "max")
        sdp.cost = F[[0]].toarray().reshape(-1)
        return sdp.subject_to_rows(F[1:], "==", data.c)

    def to_sdpa(self, comment: str = "") -> Sdpa:
        """The program in SDPA form, where everything is a maximum: of −⟨C, W⟩ for a minimum.

        Rows with ≤ and ≥ get slack variables in a diagonal block.
        """
        if self.losses:
            raise ProblemError("a program with losses has no SDPA form: it has linear costs only")
        sign = 1.0 if self.sense == "max" else -1.0
        cost = sp.csr_array(sign * self.cost[None, :])
        F = sp.coo_array(sp.vstack([cost, self.sparse_rows()]))
        i, j = self.layout.positions()
        row, col = i[F.coords[1]], j[F.coords[1]]
        upper = row <= col
        block = np.searchsorted(self.layout.corners, row[upper], side="right") - 1
        corner = self.layout.corners[block]
        parts = [F.coords[0][upper], block, row[upper] - corner, col[upper] - corner, F.data[upper]]
        open_rows, blocks = np.flatnonzero(self.kinds), self.blocks
        if open_rows.size:
            own = np.arange(open_rows.size)
            slack = (open_rows + 1, np.full(own.size, len(blocks)), own, own)
            values = -self.kinds[open_rows].astype(np.float64)
            blocks = (*blocks, -open_rows.size)
            parts = [np.concatenate(p) for p in zip(parts, (*slack, values), strict=True)]
        order = np.lexsort(parts[3::-1])
        matrix, block, row, col = (p[order].astype(np.int64) for p in parts[:4])
        return Sdpa(self.b, blocks, matrix, block, row, col, parts[4][order], comment)

    def without_cost(self) -> SDP:
        """The rows alone: any W that meets them is a solution."""
        plain = SDP(self.layout.split(np.zeros(self.layout.size)))
        plain.low_rank, plain.size = dict(self.low_rank), self.size
        plain._rows, plain._kinds, plain._b = list(self._rows), list(self._kinds), list(self._b)
        return plain

    def sparse_rows(self) -> Any:
        """All rows in flat form, those kept as factors multiplied out."""
        A = self.A
        if not self.low_rank:
            return A
        rows = sp.lil_array(A)
        for l, (block, U, s) in self.low_rank.items():
            start = self.layout.starts[block]
            rows[l, start : start + U.shape[0] ** 2] = ((U * s) @ U.T).reshape(-1)
        return sp.csr_array(rows)

    @limited
    def solve(
        self,
        *,
        gap: float = 1e-3,
        feasibility: float = 1e-3,
        trace_bound: float | None = None,
        max_seconds: float | None = None,
        max_iter: int | None = None,
        method: Method | None = None,
        seed: int = 0,
        device: str = "cpu",
        **options: Any,
    ) -> Solution:
        """Solve until bound and value agree, or a limit ends the run.

        Parameters
        ----------
        gap, feasibility : float, default 1e-3
            Relative tolerances, as in `condgrad.solve`.
        trace_bound : float, optional
            A number that Tr W (the sum of all non-negative numbers included) does not exceed at
            some solution. Default: derived from the rows where they imply one; else guessed, and
            raised while it binds.
        max_seconds, max_iter : number, optional
            Limits on the whole, as in `condgrad.solve`, and on each run; default 100,000
            iterations.
        method : Method, optional
            Default: what suits, `condgrad.methods.choose`.
        seed : int, default 0
            Seed of all randomness.
        device : {"cpu", "cuda", "auto"}
            Where it is solved, as in `condgrad.solve`; the answer says where it was. Losses other
            than linear ones are not on a GPU.
        **options
            Further options of `condgrad.solve`, such as ``callbacks``, ``n_jobs``, ``checkpoint``
            and ``verbose``.

        Returns
        -------
        Solution
            The point, multipliers, a proven bound, and an honest status.
        """
        from condgrad.sdp._run import run

        limits = {"gap": gap, "feasibility": feasibility, "max_iter": max_iter, "seed": seed}
        keep = {name: options.pop(name) for name in KEPT if name in options}
        more = {"device": device, **options}
        if None in (gap, feasibility):
            raise ProblemError("gap and feasibility must be positive numbers: leave them out")
        Goal(gap, feasibility)
        Limits(max_iter, options.get("max_epochs"), max_seconds, options.get("max_lmo"))
        _check_names(options)
        check_size("C", self.cost, FAR)
        self._check_rows()
        verbose = more.pop("verbose", False)
        with progress.shown(verbose, max_iter=max_iter, max_seconds=max_seconds):
            progress.part("bound on the trace")
            how = {**limits, **more}
            return journaled(run)(self, trace_bound, max_seconds, method, how, **keep)


def check(sdp: SDP, trace_bound: float | None, options: Mapping[str, Any]) -> None:
    """Refuse what cannot be solved."""
    if trace_bound is not None and not (np.isfinite(trace_bound) and trace_bound > 0):
        raise ProblemError(f"trace_bound is {trace_bound!r}: it must be positive and finite")
    if sdp.size == 0 and not sdp.losses and trace_bound is None:
        raise ProblemError("the program has no rows: add some with subject_to, or a trace_bound")
    numbers = [sdp.A.data, sdp.cost, sdp.b, *(one.A.data for one in sdp.losses)]
    roots = [(np.abs(U) * np.sqrt(np.abs(s))).reshape(-1) for _, U, s in sdp.low_rank.values()]
    for data, least in ((numbers, SMALLEST), (roots, np.sqrt(SMALLEST))):
        sizes = np.abs(np.concatenate([np.zeros(0), *data]))
        if sizes.max(initial=0.0) > 1 / least or (sizes[sizes > 0] < least).any():
            raise ProblemError(
                f"the program has numbers below {SMALLEST:g} or above {1 / SMALLEST:g}, or factors "
                "of rows whose squares are: choose other units"
            )
    if {"start", "duals"} & set(options) or callable(options.get("callbacks")):
        raise ProblemError("start and duals are no options here, and callbacks must be a list")


def _check_names(options: Mapping[str, Any]) -> None:
    """Refuse options that nobody reads."""
    taken = list(inspect.signature(solve).parameters)
    known = [name for name in taken if name not in NOT_HERE]
    if unknown := [name for name in options if name not in taken]:
        raise ProblemError(
            f"{unknown[0]} is no option of SDP.solve: use trace_bound, method, {', '.join(known)}"
        )


def _kind(sense: str) -> int:
    if sense not in SENSES:
        raise ProblemError(f"sense is {sense!r}: it must be '==', '<=' or '>='")
    return SENSES[sense]
