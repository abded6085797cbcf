"""Constants of a problem, and the curves that they guarantee."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from condgrad._types import Array, Params
from condgrad.domains import Domain
from condgrad.errors import ProblemError
from condgrad.functions import Proximable, Smooth
from condgrad.maps import LinearMap
from condgrad.methods.protocol import Method
from condgrad.methods.register import METHODS, Entry, check
from condgrad.methods.sampling import batch_size
from condgrad.methods.table1 import (
    SAG,
    ConditionalGradient,
    Estimator,
    Full,
    Momentum,
    Recursive,
    Spider,
    Storm,
)
from condgrad.problem import Problem, Term
from condgrad.schedules import Power

ROWS = 2000
"""Up to this many rows the width of the domain along each is computed by two oracle calls."""


@dataclass(frozen=True)
class Constants:
    """Constants of Theorem 4.1, and the bounds that follow from them; k may be an array."""

    C1: float
    C2: float
    C3: float
    beta0: float
    slack: float
    """Σ ω L_g² rows over the Lipschitz terms: F ≤ F_β + β slack/2."""
    weight: float
    """The smallest weight of a constraint family, infinite where there is none."""

    def gap(self, k: Any) -> Any:
        """C1/√k + C2/k + C3/k², which bounds E[F_{β_k}(W_{k+1})] − F* (Theorem 4.1)."""
        k = np.asarray(k, dtype=np.float64)
        return self.C1 / np.sqrt(k) + self.C2 / k + self.C3 / k**2

    def objective(self, k: Any) -> Any:
        """Bound on E[objective(W_{k+1})] − F*: the gap, and β0 slack/(2√k) for Lipschitz terms.

        It may be passed from below by at most ‖y*‖ times the infeasibility. The β0/√k that
        Corollary 4.2 prints beside C1 for an indicator is not needed by its proof.
        """
        return self.gap(k) + self.beta0 * self.slack / (2 * np.sqrt(np.asarray(k, np.float64)))

    def lipschitz(self, k: Any) -> Any:
        """Bound on E F(W_{k+1}) − F* where no term is a constraint (Corollary 4.1)."""
        if np.isfinite(self.weight):
            raise ProblemError(
                "the problem has constraints, so F may be infinite: use objective(k) and "
                "infeasibility(k, y_norm)"
            )
        return self.objective(k)

    def infeasibility(self, k: Any, y_norm: float) -> Any:
        r"""Bound on E √(Σ_t dist_t²) at W_{k+1} (Corollary 4.2).

        With ω the smallest weight of a constraint family and S_k = `objective(k)`

        .. math:: 2 (β_k/ω) ‖y^*‖ + \sqrt{2 (β_k/ω) S_k}.

        A weight acts on the squared distance, ω dist²/(2β), and so as a smoothing of β/ω; the
        multipliers y* are those of the constraints A_t W ∈ K_t, which do not feel the weight. In
        place of this the paper prints 3/2 ‖y*‖ β0 for 2 ‖y*‖ β0 and leaves √β0 out of the root.

        Parameters
        ----------
        k : int or array
            Iteration.
        y_norm : float
            ‖y*‖, over all constraint families, or a bound on it.
        """
        if not np.isfinite(self.weight):
            raise ProblemError("the problem has no constraints: there is no infeasibility to bound")
        beta = self.beta0 / np.sqrt(np.asarray(k, dtype=np.float64) + 1) / self.weight
        return 2 * beta * y_norm + np.sqrt(2 * beta * self.objective(k))


def first_beta(method: ConditionalGradient, use: str) -> float:
    """β0 of a method with the sequences of the theorem."""
    eta, beta = method.schedule.eta, method.schedule.beta
    if eta != Power(2, 1, 1) or not isinstance(beta, Power) or beta != Power(beta.c, 1, 0.5):
        raise ProblemError(
            f"{method.name} does not use η = 2/(k + 1) and β = β0/√(k + 1), which {use}"
        )
    return beta.c


def iterations(ks: Sequence[int] | Array) -> Array:
    """Check the iterations asked for."""
    k = np.asarray(ks)
    if k.dtype.kind not in "iuf" or not k.size or np.any((k < 1) | (k % 1 > 0)):
        raise ProblemError("ks must hold iterations, whole numbers of at least 1")
    return k.astype(np.int64)


class Diameters(NamedTuple):
    """Sizes of the image of a domain, max ‖M(u − v)‖ in three norms, and ‖M‖."""

    l1: float
    linf: float
    l2: float
    norm: float


def diameters(map: LinearMap, domain: Domain) -> Diameters:
    r"""D_1(M), D_∞(M) and D_2(M): max over u, v of the domain of ‖M(u − v)‖.

    Parameters
    ----------
    map : LinearMap
        M, with m rows a_l.
    domain : Domain
        The set W, of diameter D_W.

    Returns
    -------
    Diameters
        ``linf`` = max w_l, with the widths w_l = max ⟨a_l, u − v⟩; exact for maps of at most 2000
        rows, the bound row_norm · D_W above. ``l1`` = min(Σ w_l, √m ‖M‖ D_W) and ``l2`` =
        min(‖M‖ D_W, √(Σ w_l²)) are upper bounds, exact for one row. ‖M‖ is `LinearMap.norm`, a
        the map's own `norm`, to about nine digits.

    Examples
    --------
    >>> from condgrad import domains, maps
    >>> diameters(maps.DataMatrix(np.array([[3.0, 1.0]])), domains.Simplex(2)).linf
    2.0
    """
    norm = map.norm(domain.symmetric)
    reach = norm * domain.diameter
    if map.size > ROWS:
        widths = np.full(map.size, min(map.row_norm * domain.diameter, reach))
    else:
        widths, unit = np.zeros(map.size), np.zeros(map.size)
        for l in range(map.size):
            unit[l] = 1.0
            row = map.adjoint(unit)
            widths[l] = max(domain.support(row) + domain.support(-row), 0.0)
            unit[l] = 0.0
    l1, l2 = float(widths.sum()), float(np.linalg.norm(widths))
    if map.size > 1:
        l1, l2 = min(l1, float(np.sqrt(map.size)) * reach), min(l2, reach)
    return Diameters(l1, float(widths.max()), l2, norm)


class _Facts:
    """Facts about one term that the bounds need."""

    def __init__(self, term: Term, estimator: Estimator, domain: Domain, W: Array) -> None:
        h, n, e = term.function, term.map.size, estimator
        self.term, self.estimator, self.n, self.z = term, e, n, term.map.rows(W)
        self.D, self.diameter = diameters(term.map, domain), domain.diameter
        self.curvature = h.smoothness if isinstance(h, Smooth) else 1.0  # times 1/β if composite
        self.lipschitz = h.lipschitz if isinstance(h, Proximable) else np.inf
        y = self.slope(1.0)
        self.norms = float(np.linalg.norm(y, 1)), float(np.linalg.norm(y))
        self.turnover = 0.0  # N: a row is drawn once in N iterations on average
        if isinstance(e, SAG):
            b = batch_size(e.batch, n)
            self.turnover = 1 / (1 - (1 - 1 / n) ** b) if e.replace else n / b

    def slope(self, beta: float) -> Array:
        """h'_β(A W_1)."""
        return self.term.function.slope(self.z, beta)

    def first(self, beta: float) -> float:
        """e0 of a SAG table, unweighted: its ℓ1 error before the first draw."""
        warm = getattr(self.estimator, "warm_start", False)
        return 0.0 if warm else float(np.linalg.norm(self.slope(beta), 1))

    def reach(self, beta0: float) -> float:
        """R of a composite term, see `constants`."""
        if self.term.function.indicator:
            return self.D.l1
        return self.D.l1 / 2 + beta0 * self.n * self.lipschitz / 10

    def largest(self, beta: float, p: int) -> float:
        """Y: a bound on ‖h'_β(A W)‖_p over the domain, p = 1 or 2; it does not fall as β does."""
        D = self.D.l1 if p == 1 else self.D.l2
        if self.term.function.smooth:
            return self.norms[p - 1] + self.curvature * D
        return D / beta if self.term.function.indicator else self.n ** (1 / p) * self.lipschitz

    def change(self, p: Params, norm: int) -> float:
        """δ: a bound on ‖h'_{β_k}(A W_k) − h'_{β_{k−1}}(A W_{k−1})‖ in ℓ1 or ℓ2."""
        if p.k == 1:
            return 0.0
        most = self.largest(p.beta, norm)
        moved = p.eta_before * (self.D.l1 if norm == 1 else self.D.l2)
        if self.term.function.smooth:
            return min(moved * self.curvature, 2 * most)
        return min(moved / p.beta + (1 - p.beta / p.beta_before) * most, 2 * most)


def _facts(
    problem: Problem, method: Method, W1: Array | None
) -> tuple[ConditionalGradient, list[_Facts], Array]:
    check(problem, method)
    if not isinstance(method, ConditionalGradient):
        raise ProblemError(
            f"no guarantee is known for {method.name}: use one of the methods of Table 1, such as "
            "h_sag_v2"
        )
    W = problem.domain.center() if W1 is None else np.asarray(W1, dtype=np.float64)
    if W.shape != problem.domain.shape:
        raise ProblemError(f"W1 has shape {W.shape}: points have {problem.domain.shape}")
    facts = [_Facts(t, method.estimator(t), problem.domain, W) for t in problem.terms]
    return method, facts, W


def constants(
    problem: Problem, method: Method, W1: Array | None = None, *, as_printed: bool = False
) -> Constants:
    r"""Constants of Theorem 4.1 for HCGM, H-SAG-CGM/v1 and /v2 and SAG Frank-Wolfe.

    A term of weight ω, with N = size/batch (the reciprocal of a row's chance to be drawn), adds

    - smooth: 2 ω L_f ‖X‖² D_W² to C2; with SAG also 8 ω N L_f D_1 D_∞ to C2 and
      2 N² D_∞ (e0 + 32 ω N L_f D_1) to C3;
    - composite: 2 ω ‖A‖² D_W²/β0 to C1; with SAG also 20 ω N R D_∞/β0 to C1, 2 N² D_∞ e0 to C3.

    e0 is the ℓ1 norm of the weighted slopes at W_1 (those of β0 for composite terms), 0 with
    ``warm_start``. R = D_1(A) for indicators. For a Lipschitz term R = D_1(A)/2 + β0 m L_g/10, as
    its slopes obey |h'_β − h'_β'| ≤ (1 − β/β') L_g for β < β'. (The paper argues by a scaling of
    the prox that holds for positively homogeneous g only, and by ‖A w‖_1 ≤ D_1(A), which needs
    0 ∈ W.)

    Parameters
    ----------
    problem : Problem
        The problem.
    method : Method
        With Full or SAG estimators and the sequences η_k = 2/(k + 1), β_k = β0/√(k + 1).
    W1 : array, optional
        The starting point; default: the domain's centre.
    as_printed : bool, default False
        False: the constants that the appendix proves. True: those printed in the main text, with
        squared operator norms and batch 1: a sampled composite term then adds
        ω m (2 ‖A‖² D_W² + 10 D_1(A))/β0 to C1. The print lost the factor 2 D_∞(A) of the proof, so
        it is no guarantee where D_∞(A) is large, and it has ‖A‖² without its 1/m.

    Raises
    ------
    ProblemError
        For a method that the theorem does not cover; `guarantee` covers more.
    """
    own, facts, _ = _facts(problem, method, W1)
    beta0, C1, C2, C3 = first_beta(own, "Theorem 4.1 is for: use guarantee()"), 0.0, 0.0, 0.0
    for t in facts:
        w, e, h = t.term.weight, t.estimator, t.term.function
        if not isinstance(e, (Full, SAG)):
            raise ProblemError(
                f"{method.name} follows term {t.term.name!r} by {e}, for which Theorem 4.1 has no "
                "constants: it covers Full and SAG; use guarantee()"
            )
        N = 0.0 if isinstance(e, Full) else t.n if as_printed else t.turnover
        smoothness = 2 * w * t.curvature * (t.D.norm * t.diameter) ** 2
        C3 += 2 * N**2 * t.D.linf * w * t.first(beta0)
        if h.smooth:
            C2 += smoothness + 8 * w * N * t.curvature * t.D.l1 * t.D.linf
            C3 += 64 * w * N**3 * t.curvature * t.D.l1 * t.D.linf
        elif as_printed and N:
            C1 += t.n * (smoothness + 10 * w * t.D.l1) / beta0
        else:
            C1 += (smoothness + 20 * w * N * t.reach(beta0) * t.D.linf) / beta0
    slack = sum(
        t.term.weight * t.lipschitz**2 * (t.n if t.term.function.separable else 1)
        for t in facts
        if not (t.term.function.smooth or t.term.function.indicator)
    )
    weight = min((t.weight for t in problem.terms if t.function.indicator), default=np.inf)
    return Constants(C1, C2, C3, beta0, slack, weight)


def estimator_error(
    problem: Problem, method: Method, ks: Sequence[int] | Array, W1: Array | None = None
) -> dict[str, Array]:
    r"""Lemmas 4.2 and 4.3: bounds on E ω ‖h'_{β_k}(A W_k) − y_k‖_1 for the SAG tables y_k.

    With N, e0 and R as in `constants` and r = 1 − 1/N, a table follows

    - a smooth term within r^k e0 + 2 ω L_f D_1 (r^{k/2} ln k + 2 (N − 1)/k) (Lemma 4.2);
    - a composite term within r^k e0 + 10 ω (N − 1) R/(β0 √k) (Lemma 4.3).

    The paper's are N = n or m and ω = 1/N, with N − 1 rounded up to m in Lemma 4.3. Neither asks
    which atoms are chosen, so the other terms may have any estimator. `solve` measures the error
    with ``errors=True``.

    Parameters
    ----------
    problem : Problem
        The problem; constraints must be feasible.
    method : Method
        With the sequences η_k = 2/(k + 1), β_k = β0/√(k + 1).
    ks : sequence of int
        Iterations, each at least 1.
    W1 : array, optional
        The starting point; default: the domain's centre.

    Returns
    -------
    dict of str to array
        One bound for each of `ks`, by the names of the terms that SAG follows.

    Raises
    ------
    ProblemError
        For other sequences.
    """
    own, facts, _ = _facts(problem, method, W1)
    k, beta0, out = iterations(ks), first_beta(own, "Lemmas 4.2 and 4.3 are for"), {}
    for t in facts:
        if not isinstance(t.estimator, SAG):
            continue
        N, keep = t.turnover, 1 - 1 / t.turnover
        if t.term.function.smooth:
            tail = 2 * t.curvature * t.D.l1 * (keep ** (k / 2) * np.log(k) + 2 * (N - 1) / k)
        else:
            tail = 10 * (N - 1) * t.reach(beta0) / (beta0 * np.sqrt(k))
        out[t.term.name] = t.term.weight * (keep**k * t.first(beta0) + tail)
    return out


def guarantee(
    problem: Problem, method: Method, ks: Sequence[int] | Array, W1: Array | None = None
) -> Array:
    r"""Guaranteed bound on E[F_{β_k}(W_{k+1})] − F* at the iterations `ks`; any method but CGAL.

    Lemma 4.1 is unrolled with the method's own sequences,

    .. math:: S_k = (1 - η_k) S_{k-1} + η_k \textstyle\sum_t ω_t ε_{t,k}
              + \tfrac{1}{2} η_k^2 \sum_t ω_t L_{t,k} D_2(A_t)^2,

    L = L_f or 1/β_k. S_0 is the Frank-Wolfe gap of F_{β_1} at W_1, which bounds F_{β_1}(W_1) − F*;
    all methods of the library have η_1 = 1 and forget it. ε bounds E⟨∇_k − d_k, s_k − W*⟩:

    - Full: 0.
    - SAG: D_∞ u_k, u_k = (1 − 1/N)(u_{k−1} + δ_k) in ℓ1.
    - Momentum: D_W q_k, q_k² = (1 − ρ_k)² (q_{k−1} + ‖A‖ δ_k)² + ρ_k² κ r² Y_k².
    - STORM: D_W q_k, q_k² = (1 − ρ_k)² q_{k−1}² + κ r² ((1 − ρ_k) δ_k + ρ_k Y_k)².
    - SPIDER: STORM with ρ = 0, q_k = 0 at a restart.

    r bounds the norm of a row; Y_k bounds the slopes over the domain (‖h'(A W_1)‖ + L_f D; D/β_k
    for indicators, because some point is feasible; L_g a row for Lipschitz terms);
    δ_k = min(η_{k−1} L D + (1 − β_k/β_{k−1}) Y_k, 2 Y_k) bounds their change in one iteration (the
    second summand for composite terms), in ℓ1 with D = D_1 for SAG and in ℓ2 with D_2 for the
    others; κ = (n/b)(n − b)/(n − 1), or n/b with replacement, is the variance of a batch;
    q_0 = ‖A* h'(A W_1)‖. The expectation is over the draws.

    Parameters
    ----------
    problem : Problem
        The problem; constraints must be feasible.
    method : Method
        The method.
    ks : sequence of int
        Iterations, each at least 1.
    W1 : array, optional
        The starting point; default: the domain's centre.

    Returns
    -------
    array
        One bound for each of `ks`.

    Raises
    ------
    ProblemError
        For estimators without a bound (the multipliers of CGAL), and for sequences that do not meet
        (1 − η_k)(β_{k−1} − β_k) ≤ η_k β_k or let β grow, which the lemma needs.
    """
    wanted = iterations(ks)
    own, facts, W = _facts(problem, method, W1)
    known = (Full, SAG, Momentum, Storm, Spider)
    for t in facts:
        if not isinstance(t.estimator, known):
            raise ProblemError(
                f"{method.name} follows term {t.term.name!r} by {t.estimator}, for which no bound "
                f"on the smoothed gap is known: use {', '.join(c.__name__ for c in known)}"
            )
    first = own.schedule(1).beta
    V = np.sum([t.gradient(W, first) for t in problem.terms], axis=0)
    gap = problem.domain.support(-V) + float(np.vdot(V, W))
    errors = [_initial(t, first) for t in facts]
    curve = np.zeros(int(wanted.max()) + 1)
    for k in range(1, curve.size):
        p = own.schedule(k)
        if problem.composite and k > 1:
            change = p.beta_before - p.beta
            if change < 0 or (1 - p.eta) * change > p.eta * p.beta * (1 + 1e-12):
                raise ProblemError(
                    f"the sequences of {method.name} break (1 − η_k)(β_(k−1) − β_k) ≤ η_k β_k or "
                    f"let β grow at k = {k}: let β fall more slowly, for example as 1/√k"
                )
        gap *= 1 - p.eta
        for i, t in enumerate(facts):
            L = t.curvature if t.term.function.smooth else 1 / p.beta
            errors[i], error = _follow(t, p, errors[i])
            gap += t.term.weight * p.eta * (error + 0.5 * p.eta * L * t.D.l2**2)
        curve[k] = gap
    return curve[wanted]


def _initial(t: _Facts, beta: float) -> float:
    """u_0 or q_0: the error of the estimate 0."""
    if isinstance(t.estimator, SAG):
        return t.first(beta)
    return float(np.linalg.norm(t.term.map.adjoint(t.slope(beta))))


def _follow(t: _Facts, p: Params, u: float) -> tuple[float, float]:
    """Bring u_{k−1} or q_{k−1} to iteration k and bound the error ε_k that follows from it."""
    e = t.estimator
    if isinstance(e, SAG):
        keep = 0.0 if e.warm_start and p.k == 1 else 1 - 1 / t.turnover
        u = keep * (u + t.change(p, 1))
        return u, t.D.linf * u
    b = e.rows_now(p, t.n) if isinstance(e, Recursive) else 0
    if not b:
        return 0.0, 0.0
    kappa = t.n / b if getattr(e, "replace", False) else t.n / b * (t.n - b) / max(t.n - 1, 1)
    noise, change = np.sqrt(kappa) * t.term.map.row_norm, t.change(p, 2)
    rho = 0.0 if isinstance(e, Spider) else p.rho
    kept = abs(1 - rho)
    if isinstance(e, (Storm, Spider)):
        q = np.hypot(kept * u, noise * (kept * change + rho * t.largest(p.beta, 2)))
    else:
        q = np.hypot(kept * (u + t.D.norm * change), rho * noise * t.largest(p.beta, 2))
    return float(q), t.diameter * float(q)


def rate(method: Method | Entry | str) -> float:
    """The exponent p of a method or of its name: the gap falls at least as k^(−p).

    Examples
    --------
    >>> rate("h-sag-v2")
    0.5
    """
    slug = method if isinstance(method, str) else method.slug
    if slug not in METHODS:
        raise ProblemError(f"no rate is known for {slug!r}: it is known for {', '.join(METHODS)}")
    return METHODS[slug].exponent
