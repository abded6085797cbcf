"""Steps of a W that is kept as factors: accelerated projected gradients over a nuclear ball."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from condgrad._types import Array
from condgrad.backends import memory
from condgrad.functions.group import project_simplex
from condgrad.maps.pattern import SparseMatrix
from condgrad.points.factored import Factored
from condgrad.rows.observed import Observed

CLOSE = 1e-2
"""How far from orthonormal columns may be that a second Cholesky factor makes so."""
Lap = Callable[[str], object]


@dataclass(frozen=True)
class Rule:
    """How the steps are made; see `FactoredStep`.

    Parameters
    ----------
    guard : int, default 20
        Columns kept beyond the rank, or a part of the rank where that is more; and as many are
        drawn where all singular values survive.
    part : int, default 5
        That part of the rank, 1/`part`.
    small : int, default 100
        Up to this smaller side all singular vectors are kept.
    fall, slow : float, default 0.7 and 0.2
        L is multiplied by max(fall, ρ^slow) after a step, ρ ≤ 1 the measured curvature by L.
    safety : float, default 1.2
        Factor on a measured curvature after a step that was too long.
    tries : int, default 20
        Steps tried at most in an iteration.
    brisk : float, default 0.02
        While f falls by more than this part of itself in an iteration the frame does not grow.
    """

    guard: int = 20
    part: int = 5
    small: int = 100
    fall: float = 0.7
    slow: float = 0.2
    safety: float = 1.2
    tries: int = 20
    brisk: float = 0.02


RULE = Rule()


@dataclass
class FactoredState:
    """State of the steps."""

    before: Factored
    """The point before."""
    entries: Array
    """Entries of the point at all rows."""
    entries_before: Array
    """Entries of the point before at all rows."""
    v: Array
    """Values of ∇f at the point."""
    objective: float
    """f at the point."""
    frame: Array
    """Columns near the leading right singular vectors of what is projected next."""
    L: float
    momentum: float = 1.0
    brisk: bool = True
    """Whether f fell fast in the latest iteration."""
    y: Array | None = None
    """Multipliers of all rows; None if nothing is smoothed."""
    beta: float = 1.0
    """β, the smoothing around the multipliers."""
    squares: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """‖W‖², ⟨W, W_before⟩ and ‖W_before‖²."""

    def length(self, m: float, square: float, inner: float) -> float:
        """‖W⁺ − Z‖² from ‖W⁺‖² and ⟨W⁺, Z⟩."""
        new, both, old = self.squares
        far = (1 + m) ** 2 * new - 2 * m * (1 + m) * both + m**2 * old
        return max(0.0, square - 2 * inner + far)

    def along(self, m: float, square: float, inner: float, beside: float) -> float:
        """⟨Z − W⁺, W⁺ − W⟩ from the same and ⟨W⁺, W⟩."""
        new, both, _ = self.squares
        return inner - ((1 + m) * new - m * both) - square + beside


class FactoredStep:
    r"""W⁺ = proj(Z − ∇f(Z)/L), Z = W + m (W − W_before): FISTA with restarts, all by products.

    ∇f(Z) is a sparse matrix V on the observed entries and Z a difference of two points of low rank,
    so X = Z − V/L is never formed: X K and XᵀQ are products of thin matrices and gathers along the
    rows or the columns of V. Its leading singular vectors come from one step of subspace iteration
    on the frame K of the iteration before: Q = orth(X K), then the singular value decomposition of
    QᵀX. The singular values are projected onto {d ≥ 0, Σ d ≤ r}; those that survive, and some more,
    are the next frame. Where all of them do it grows, but not while f falls fast: in what was tried
    most of what is added then was taken out again later.

    L is measured: a step with ⟨∇f(W⁺) − ∇f(Z), W⁺ − Z⟩ > L ‖W⁺ − Z‖² is made anew with a larger L,
    and L falls a little from one iteration to the next. Along matrices of low rank the curvature is
    about the share of entries observed of what it is along a single entry, so that this L is far
    below the Lipschitz constant. m follows Nesterov's sequence, which begins anew where
    ⟨Z − W⁺, W⁺ − W⟩ > 0 [2]_.

    Constraints and regularisers are smoothed with a fixed β about multipliers y, which every step
    renews: y ← h'_β(z + βy). Extrapolation then goes wrong after a while, so that it begins anew
    with every round of steps (`rounds`).

    References
    ----------
    .. [1] A. Beck, M. Teboulle, "A fast iterative shrinkage-thresholding algorithm for linear
       inverse problems", SIAM J. Imaging Sci. 2(1), 2009.
    .. [2] B. O'Donoghue, E. Candès, "Adaptive restart for accelerated gradient schemes", Found.
       Comput. Math. 15, 2015.
    """

    def __init__(
        self,
        observed: Observed,
        radius: float,
        W: Factored,
        rng: np.random.Generator,
        rule: Rule,
        beta: float = 1.0,
    ) -> None:
        self.observed, self.radius, self._rng, self._rule = observed, radius, rng, rule
        entries = observed.entries(W)
        y = None if observed.plain else np.zeros(observed.size, observed.dtype)
        v, objective = observed.gradient(entries, y, beta)
        self._most = observed.smoothness(beta)
        L = self._most * observed.density
        self.state = FactoredState(W, entries, entries, v, objective, self._first_frame(W), L)
        self.state.squares = (W.square, W.square, W.square)
        self.state.y, self.state.beta = y, beta
        self._lost = 100 * float(np.finfo(observed.dtype).eps)

    def move(self, W: Factored, lap: Lap) -> tuple[Factored, int]:
        """The next point and the products with X that it took."""
        s, observed, rule = self.state, self.observed, self._rule
        later = (1 + np.sqrt(1 + 4 * s.momentum**2)) / 2
        m, products = (s.momentum - 1) / later, 0
        entries, v = s.entries, s.v
        if m:
            entries = observed.mixed(s.entries, s.entries_before, m)
            v, _ = observed.gradient(entries, s.y, s.beta)
        lap("rows")
        V = observed.pattern.matrix(v)
        least = 1e-9 * float(np.linalg.norm(v)) / self.radius
        lap("direction")
        for _ in range(rule.tries):
            L = max(min(s.L, self._most), least) or 1.0
            columns = s.frame.shape[1]
            products += 2 * columns
            new, inner = self._projected(W, m, V, L)
            lap("oracle")
            found = observed.entries(new)
            slopes, objective = observed.gradient(found, s.y, s.beta)
            bend = observed.bent(slopes, v, found, entries)
            inner += float(np.vdot(v, found)) / L  # ⟨W⁺, Z⟩
            size = s.length(m, new.square, inner)
            lap("rows")
            clear = size > self._lost * new.square
            if not clear or bend <= L * size or self._most <= L:
                break
            s.L = rule.safety * bend / size
            s.frame = s.frame[:, :columns]
        if clear:
            s.L = L * max(rule.fall, min(1.0, max(0.0, bend / (size * L))) ** rule.slow)
        beside = new.dot(W)
        turned = s.along(m, new.square, inner, beside) > 0 or objective > s.objective
        s.momentum = 1.0 if turned else later
        s.squares = (new.square, beside, s.squares[0])
        s.entries_before, s.entries, s.before = s.entries, found, W
        s.brisk = s.objective - objective > rule.brisk * abs(s.objective)
        s.v, s.objective = slopes, objective
        if s.y is not None:
            s.y = observed.ascended(found, s.y, s.beta)
            s.v, s.objective = observed.gradient(found, s.y, s.beta)
        lap("step")
        return new, products

    def read(self, observed: Observed, y: Array, W: Factored) -> None:
        """Go on with other rows and their multipliers, without extrapolation at first."""
        s = self.state
        if observed is not self.observed:
            s.entries, s.entries_before = observed.entries(W), observed.entries(s.before)
        self.observed, s.y, s.momentum = observed, y, 1.0
        s.v, s.objective = observed.gradient(s.entries, y, s.beta)

    def _projected(
        self, W: Factored, m: float, V: SparseMatrix, L: float
    ) -> tuple[Factored, float]:
        """The projection W⁺ of X = Z − V/L, as far as the frame sees it, and ⟨W⁺, X⟩."""
        s, before, kind = self.state, self.state.before, self.observed.dtype.type
        K = s.frame
        Y = V.times(K)
        Y *= kind(-1 / L)
        _add(Y, W, K, 1 + m)
        _add(Y, before, K, -m)
        Q, _ = orthonormal(Y)
        B = V.transposed(Q)
        B *= kind(-1 / L)
        _add(B, W.T, Q, 1 + m)
        _add(B, before.T, Q, -m)
        P, R = orthonormal(B)
        a, values, bt = scipy.linalg.svd(R.T, full_matrices=False, check_finite=False)
        d = values.astype(np.float64)
        if d.sum() > self.radius:
            d = project_simplex(d, self.radius)
        rank = int(np.count_nonzero(d))
        right = np.ascontiguousarray(P @ bt.T)
        waits = s.brisk and rank == K.shape[1]
        s.frame = right if waits else self._framed(right, rank)
        new = Factored(Q @ a[:, :rank], d[:rank].astype(kind), right[:, :rank])
        return new, float(d @ values)

    def _framed(self, right: Array, rank: int) -> Array:
        """The frame of the next step: what survived, a guard, and drawn columns for what lacks."""
        n, most = right.shape[0], min(self.observed.pattern.shape)
        wanted = rank + max(self._rule.guard, rank // self._rule.part)
        wanted = most if most <= self._rule.small else min(wanted, most)
        have = min(wanted, right.shape[1])
        if wanted > right.shape[1]:
            sides = sum(self.observed.pattern.shape)
            more = 10 * sides * (wanted - have) * right.itemsize
            if more > 0.9 * memory.free_memory():
                raise MemoryError
        return np.hstack([right[:, :have], self._drawn(n, wanted - have)])

    def _first_frame(self, W: Factored) -> Array:
        """Columns to begin with."""
        return self._framed(W.V, W.rank)

    def _drawn(self, n: int, columns: int) -> Array:
        drawn = self._rng.standard_normal((n, columns)) / np.sqrt(n)
        return drawn.astype(self.observed.dtype)


def _add(out: Array, W: Factored, K: Array, factor: float) -> None:
    """out += factor · W K."""
    if W.rank and factor:
        small = (W.V.T @ K) * (W.s * factor)[:, None]
        out += W.U @ small.astype(out.dtype, copy=False)


def orthonormal(Y: Array) -> tuple[Array, Array]:
    """Orthonormal columns Q and R with Y = QR.

    By Cholesky factors of YᵀY, its columns scaled to length 1, and once more of QᵀQ: products of
    matrices, six times as fast as reflections. These answer where the columns are too close to one
    another for that.
    """
    R, Q = np.eye(Y.shape[1], dtype=Y.dtype), Y
    for again in (False, True):
        gram = Q.T @ Q
        sizes = np.sqrt(np.diagonal(gram))
        if not (np.isfinite(gram).all() and np.all(sizes > 0)):
            break
        gram /= np.outer(sizes, sizes)
        if again and float(np.abs(gram - np.eye(sizes.size)).max()) > CLOSE:
            break
        try:
            C = scipy.linalg.cholesky(gram, check_finite=False) * sizes
        except np.linalg.LinAlgError:
            break
        inverse = scipy.linalg.solve_triangular(C, np.eye(sizes.size), check_finite=False)
        Q, R = Q @ inverse.astype(Y.dtype, copy=False), (C @ R).astype(Y.dtype, copy=False)
        if again:
            return Q, R
    if not np.isfinite(Y).all():
        raise np.linalg.LinAlgError("the direction is not finite")
    Q, R = scipy.linalg.qr(Y, mode="economic", check_finite=False)
    return np.ascontiguousarray(Q), R
