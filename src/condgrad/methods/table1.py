"""The methods of Table 1: an estimator for f, one for g, and the sequences η, β and ρ.

All of them do Algorithm 1 of the reference, H-SAG-CGM. Its lines for iteration k are

    3, 4    η_k and β_k: the `Schedule`,
    5 to 7  α_k, the slopes of f, and v_k^f = X*α_k: the estimator for f,
    8       γ_k, the slopes of g_β at β_k, and v_k^g = A*γ_k: the estimator for g,
    9       v_k = v_k^f + v_k^g, the direction,
    10      s_k, the answer of the oracle,
    11      w_{k+1} = w_k + η_k (s_k − w_k).

The paper has the weights ω = 1/n and 1/m of terms in α_k and γ_k; here line 9 multiplies by them.
Methods differ in how a term is followed, which is an estimator (`Full`, `Augmented`, `SAG`,
`Momentum`, `Storm`, `Spider`), and in the sequences. Lines 5 to 8 do not care whether a term is a
loss or a constraint, so that the same estimators serve both: `SAG` for f, with `Full` for g, is
Variant 1, and with `SAG` for g Variant 2.

Reference: Dresdner, Vladarean, Rätsch, Locatello, Cevher, Yurtsever, AISTATS 2022, Table 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

import numpy as np
from numpy.random import Generator

from condgrad._check import precision
from condgrad._types import ALL, Array, Params, Rows
from condgrad.backends import ops
from condgrad.certificate.lower_bound import Duals, Slopes
from condgrad.errors import ProblemError
from condgrad.functions import Proximable
from condgrad.methods.balance import BALANCE, Balance, Pressure
from condgrad.methods.protocol import Given, Known, Method, State, direction, gradient
from condgrad.methods.register import declare
from condgrad.methods.sampling import Batch, batch_size, check_batch, draw
from condgrad.methods.tables import objection
from condgrad.problem import Problem, Term
from condgrad.schedules import (
    ZERO,
    Automatic,
    Beta0,
    Power,
    Schedule,
    epoch_length,
    power_of_two,
    smoothing,
)

# --- state ----------------------------------------------------------------------------------------


@dataclass
class Followed:
    """Memory of an estimator for one term."""

    G: Array
    """v_k^f or v_k^g: A*y of the slopes y, in the storage of the map."""
    slopes: Array | None = None
    """α_k of a term of f, γ_k of one of g: a slope for every row, if the estimator keeps them."""
    y: Array | None = None
    """A multiplier for every row, of `Augmented`."""
    reach: float = 0.0
    """D_W ‖A‖, of `Augmented`."""


@dataclass(kw_only=True)
class TableOneState(State):
    """The iterate and what is kept of every term."""

    terms: list[Followed]
    """Memory of the estimators, one for every term."""
    before: Array | None = None
    """W_{k−1}, for estimators that compare both points."""
    pressure: Pressure | None = None
    """Memory of `Balance`, if β is automatic."""


# --- estimators -----------------------------------------------------------------------------------


class Estimator(ABC):
    """A rule that follows the gradient of one term: a frozen dataclass of its constants."""

    compares: ClassVar[bool] = False
    """Whether the estimator evaluates rows at W_{k−1} too."""
    numbers: ClassVar[int] = 0
    """Numbers that it has for every row."""

    def begin(self, term: Term, problem: Problem) -> Followed:
        """Memory before the first iteration: the estimate is 0."""
        return Followed(term.map.zeros(problem.dtype))

    @abstractmethod
    def follow(self, s: Followed, term: Term, run: TableOneState, p: Params) -> int:
        """Bring the estimate to iteration `p.k` of a run, in place; how many rows that took."""

    def objection(self, term: Term) -> str | None:
        """A sentence that says why it cannot serve a term, or None."""
        return None


@dataclass(frozen=True)
class Full(Estimator):
    """The exact gradient, by a pass over all rows: y_l = h'_{β_k}(z_l)."""

    def follow(self, s: Followed, term: Term, run: TableOneState, p: Params) -> int:
        return gradient(term, run.W, s.G, p.beta)


@dataclass(frozen=True)
class Augmented(Estimator):
    r"""The exact gradient of the augmented Lagrangian, with CGAL's multipliers y.

    .. math:: γ = h'_{β_k}(z + β_k y), \qquad y ← y + σ r,
              \qquad r = z - \mathrm{prox}_{β_k h}(z + β_k y)

    The dual step of iteration k − 1 is taken at the start of iteration k, where z = A W_k is known,
    with σ = min(step, 4 η_{k−1}² D_W² ‖A‖² / (β_k ‖r‖²)); it is skipped if ‖y‖ would pass
    `bound`. Each family has its own σ; its multiplier in the problem's Lagrangian is ω y.

    Parameters
    ----------
    step : float
        Largest dual step; CGAL takes 1/β0.
    bound : float, default inf
        Bound on ‖y‖.

    References
    ----------
    .. [1] A. Yurtsever, O. Fercoq, V. Cevher, "A conditional-gradient-based augmented Lagrangian
       framework", ICML 2019.
    """

    numbers: ClassVar[int] = 7
    step: float
    bound: float = float("inf")

    def __post_init__(self) -> None:
        for name, value in (("step", self.step), ("bound", self.bound)):
            number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
            if not (number and value >= 0):
                raise ProblemError(f"{name} is {value!r}: it must be a number of at least 0")

    def begin(self, term: Term, problem: Problem) -> Followed:
        y = np.zeros(term.map.size, problem.dtype)
        return Followed(term.map.zeros(problem.dtype), None, y, reach(term, problem))

    def follow(self, s: Followed, term: Term, run: TableOneState, p: Params) -> int:
        z, h = term.map.rows(run.W), cast(Proximable, term.function)
        assert s.y is not None
        if p.k > 1:
            r = z - h.prox(z + p.beta * s.y, p.beta)
            squared, limit = float(np.vdot(r, r)), 4 * (p.eta_before * s.reach) ** 2 / p.beta
            sigma = min(self.step, limit / squared) if squared > 0 else self.step
            y = s.y + sigma * r
            if float(np.linalg.norm(y)) <= self.bound:
                s.y = y.astype(s.y.dtype, copy=False)
        s.slopes = h.slope(z + p.beta * s.y, p.beta)
        s.G.fill(0)
        term.map.scatter(s.G, ALL, s.slopes)
        return term.map.size

    def objection(self, term: Term) -> str | None:
        if term.function.smooth:
            return f"keeps multipliers for term {term.name!r}, which is smooth: use Full() there"
        return None


def reach(term: Term, problem: Problem) -> float:
    """D_W ‖A‖."""
    return float(problem.domain.diameter * term.map.norm(problem.domain.symmetric))


class Sampled(Estimator):
    """A rule that draws rows, which needs a separable function."""

    batch: Batch = 1.0
    replace: bool = False

    def __post_init__(self) -> None:
        check_batch(self.batch)

    def objection(self, term: Term) -> str | None:
        if not term.function.separable:
            return (
                f"samples the rows of term {term.name!r}, but {type(term.function).__name__} is "
                "not separable: take the term in full with "
                f"method.override({{{term.name!r}: Full()}})"
            )
        return objection(term, self.batch)


@dataclass(frozen=True)
class SAG(Sampled):
    r"""Stochastic average gradient: a table of slopes, the drawn rows overwritten.

    .. math:: γ_l ← h'_{β_k,l}(⟨a_l, W_k⟩) \text{ for the drawn rows}, \qquad G = A^*γ

    These are lines 5 to 7 of Algorithm 1 for a term of f, whose slopes are called α there, and
    Variant 2 of line 8 for a term of g. A row keeps the slope of the β at which it was last drawn.

    Parameters
    ----------
    batch : int or float, default 1
        Rows per iteration, a count or a fraction.
    replace : bool, default False
        Draw with replacement.
    table_dtype : float64 or float32
        Precision of the table.
    warm_start : bool, default False
        Fill the table by a full pass at the first iteration, instead of starting from 0.

    References
    ----------
    .. [1] G. Négiar et al., "Stochastic Frank-Wolfe for constrained finite-sum minimization",
       ICML 2020.
    .. [2] G. Dresdner et al., AISTATS 2022, Algorithm 1 and Variant 2.
    """

    numbers: ClassVar[int] = 1
    batch: Batch = 1
    replace: bool = False
    table_dtype: Any = np.float64
    warm_start: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        precision("table_dtype", self.table_dtype)

    def begin(self, term: Term, problem: Problem) -> Followed:
        return Followed(term.map.zeros(problem.dtype), np.zeros(term.map.size, self.table_dtype))

    def follow(self, s: Followed, term: Term, run: TableOneState, p: Params) -> int:
        size, count = term.map.size, batch_size(self.batch, term.map.size)
        first = self.warm_start and p.k == 1
        drawn = slice(0, size) if first else draw(size, count, self.replace, run.rng)  # line 5
        assert s.slopes is not None
        for at in in_chunks(term, drawn):
            new = term.function.slope(term.map.rows(run.W, at), p.beta, at)
            changed = swap(s.slopes, at, new)  # line 6: α_k, by α_k − α_{k−1}
            term.map.scatter(s.G, at, changed)  # line 7: v_k^f, by X*(α_k − α_{k−1})
        return size if first else count


class Recursive(Sampled):
    r"""G ← keep·G + now·ĝ_k(W_k) − before·ĝ_k(W_{k−1}), one batch for both points.

    ĝ_k is the unbiased batch estimate, the drawn rows scaled by size/batch. Momentum, STORM and
    SPIDER are three rows of coefficients.
    """

    @abstractmethod
    def coefficients(self, p: Params) -> tuple[float, float, float]:
        """The coefficients keep, now and before."""

    def rows_now(self, p: Params, size: int) -> int:
        """Rows to draw at this iteration; 0: the exact gradient."""
        return batch_size(self.batch, size)

    def follow(self, s: Followed, term: Term, run: TableOneState, p: Params) -> int:
        size, h = term.map.size, term.function
        batch = self.rows_now(p, size)
        if not batch:
            return gradient(term, run.W, s.G, p.beta)
        keep, new, past = self.coefficients(p)
        scale, compares = size / batch, bool(past) and p.k > 1
        s.G *= keep
        for at in in_chunks(term, draw(size, batch, self.replace, run.rng)):
            y = (new * scale) * h.slope(term.map.rows(run.W, at), p.beta, at)
            if compares:
                z = term.map.rows(cast(Array, run.before), at)
                y -= (past * scale) * h.slope(z, p.beta_before, at)
            term.map.scatter(s.G, at, y.astype(s.G.dtype, copy=False))
        return batch * (2 if compares else 1)


@dataclass(frozen=True)
class Momentum(Recursive):
    r"""d_k = (1 − ρ_k) d_{k−1} + ρ_k ĝ_k(W_k), d_0 = 0.

    Parameters
    ----------
    batch : int or float, default 1
        Rows per iteration, a count or a fraction.
    replace : bool, default False
        Draw with replacement.

    References
    ----------
    .. [1] A. Mokhtari, H. Hassani, A. Karbasi, "Stochastic conditional gradient methods",
       JMLR 21, 2020.
    """

    batch: Batch = 1
    replace: bool = False

    def coefficients(self, p: Params) -> tuple[float, float, float]:
        return 1 - p.rho, p.rho, 0.0


@dataclass(frozen=True)
class Storm(Momentum):
    r"""d_k = ĝ_k(W_k) + (1 − ρ_k)(d_{k−1} − ĝ_k(W_{k−1})), the same rows at both points.

    The earlier point is evaluated with its own β_{k−1}.

    Parameters
    ----------
    batch : int or float, default 1
        Rows per iteration, a count or a fraction.
    replace : bool, default False
        Draw with replacement.

    References
    ----------
    .. [1] A. Cutkosky, F. Orabona, "Momentum-based variance reduction in non-convex SGD",
       NeurIPS 2019.
    """

    compares: ClassVar[bool] = True

    def coefficients(self, p: Params) -> tuple[float, float, float]:
        return 1 - p.rho, 1.0, 1 - p.rho


@dataclass(frozen=True)
class Spider(Recursive):
    r"""v_k = v_{k−1} + ĝ_k(W_k) − ĝ_k(W_{k−1}), with a full gradient at every restart.

    With the defaults restarts fall where k is a power of two and the epoch that starts at 2^t
    draws min(2^t, size) rows at each of its iterations.

    Parameters
    ----------
    restart : callable
        k ↦ whether iteration k takes the full gradient.
    batch_at : callable
        k ↦ rows to draw at iteration k.
    replace : bool, default False
        Draw with replacement.

    References
    ----------
    .. [1] C. Fang et al., "SPIDER: near-optimal non-convex optimization via stochastic
       path-integrated differential estimator", NeurIPS 2018.
    """

    compares: ClassVar[bool] = True
    batch = 1  # for memory: a million rows, after as many iterations, are little beside W
    restart: Callable[[int], bool] = power_of_two
    batch_at: Callable[[int], int] = epoch_length
    replace: bool = False

    def rows_now(self, p: Params, size: int) -> int:
        return 0 if self.restart(p.k) else min(self.batch_at(p.k), size)

    def coefficients(self, p: Params) -> tuple[float, float, float]:
        return 1.0, 1.0, 1.0


def in_chunks(term: Term, drawn: Rows) -> list[Rows]:
    """Drawn rows as they are; a slice of all rows in chunks that fit the cache."""
    return list(term.chunks()) if isinstance(drawn, slice) else [drawn]


def swap(table: Array, at: Rows, new: Array) -> Array:
    """Store `new` in the rows `at`, and by how much each changed; repeats are safe."""
    if not isinstance(at, slice):
        delta: Array = ops.table_swap(table, at, new)
        return delta
    old = table[at].astype(new.dtype)
    table[at] = new
    return table[at].astype(new.dtype) - old


# --- Algorithm 1 ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ConditionalGradient(Method):
    """One estimator for the terms of f, one for those of g, and the scalar sequences.

    If β0 is automatic, the β of the schedule is multiplied by a factor per term, which `balance`
    finds.

    Parameters
    ----------
    smooth, composite : Estimator
        Estimator for the terms of f and for those of g.
    schedule : Schedule
        η, β, ρ and the effort of the oracle.
    estimators : mapping, optional
        Another estimator for single terms, by name.
    smooth_only : bool, default False
        Whether the method is for g = 0.
    balance : Balance
        How β is found and moved if β0 is automatic.
    """

    remedy: ClassVar[str] = (
        "solve a smaller problem, or keep tables of SAG in single precision (table_dtype='float32')"
    )
    smooth: Estimator
    composite: Estimator
    schedule: Schedule
    estimators: Mapping[str, Estimator] = field(default_factory=dict)
    smooth_only: bool = False
    balance: Balance = BALANCE
    slug: str = "custom"
    name: str = "custom"

    def __post_init__(self) -> None:
        own = {f"estimators[{name!r}]": e for name, e in self.estimators.items()}
        for name, e in {"smooth": self.smooth, "composite": self.composite, **own}.items():
            if not isinstance(e, Estimator):
                raise ProblemError(
                    f"{name} is {e!r}: pass an instance of one of condgrad.methods, like Full()"
                )

    def estimator(self, term: Term) -> Estimator:
        """The estimator that serves a term."""
        default = self.smooth if term.function.smooth else self.composite
        return self.estimators.get(term.name, default)

    def override(self, estimators: Mapping[str, Estimator]) -> ConditionalGradient:
        """Return this method with other estimators for the terms named."""
        if not isinstance(estimators, Mapping):
            raise ProblemError(
                f"estimators is a {type(estimators).__name__}: pass a dict from names of terms to "
                "estimators"
            )
        return replace(self, estimators={**self.estimators, **estimators})

    def suits(self, problem: Problem) -> str | None:
        names = [t.name for t in problem.terms]
        unknown = sorted(set(self.estimators) - set(names))
        if unknown:
            return f"estimators names {unknown}, but the terms are {names}: use those names"
        if self.smooth_only and problem.composite:
            return (
                f"{self.name} is for g = 0, but term {problem.composite[0].name!r} is composite: "
                "use h_sag_v1 or h_sag_v2"
            )
        for term in problem.terms:
            estimator = self.estimator(term)
            objection = estimator.objection(term)
            if isinstance(estimator, Momentum) and not self.schedule.rho(1) > 0:
                objection = (
                    f"has no ρ, without which {type(estimator).__name__} on term {term.name!r} "
                    "stands still: start from a method with one, such as shcgm or most_fw"
                )
            if objection:
                return f"{self.name} {objection}"
        return None

    def on(self, problem: Problem) -> Method:
        from condgrad.methods.vector_sag import compiled  # which is derived from this class

        return compiled(self, problem)

    def portable(self, problem: Problem) -> bool:
        return all(isinstance(self.estimator(t), Full) for t in problem.terms)

    def init(
        self, problem: Problem, W: Array, rng: Generator, known: Known, multipliers: Given = None
    ) -> TableOneState:
        pairs = [(self.estimator(t), t) for t in problem.terms]
        terms = [e.begin(t, problem) for e, t in pairs]
        before = W.copy() if any(e.compares for e, _ in pairs) else None
        state = TableOneState.begun(problem, W, rng, known, terms=terms, before=before)
        if self.measures(problem):
            self.balance.begin(problem, state)
        return state

    def step(self, problem: Problem, state: TableOneState, at_most: int = 1) -> TableOneState:
        s, p = state, self.schedule(state.k + 1)  # lines 3 and 4: η_k and β_k
        factors = s.pressure.factors if s.pressure else [1.0] * len(s.terms)
        betas = [factor * p.beta for factor in factors]
        for i, (t, beta) in enumerate(zip(problem.terms, betas, strict=True)):
            own = p._replace(beta=beta, beta_before=s.betas[i])
            s.rows[i] += self.estimator(t).follow(s.terms[i], t, s, own)  # lines 5 to 7, or 8
        v = direction(problem, [f.G for f in s.terms])  # line 9
        atom = problem.domain.lmo(v, effort=p.effort, hint=s.W, rng=s.rng)  # line 10
        if s.before is not None:
            s.before[...] = s.W
        atom.blend(s.W, p.eta)  # line 11
        s.eta, s.beta, s.betas = p.eta, p.beta, betas
        s.k, s.calls, s.products, s.report = p.k, s.calls + 1, s.products + atom.products, None
        self.balance.follow(problem, self, s, press=1.0)
        return s

    def duals(self, problem: Problem, state: TableOneState) -> dict[str, Duals]:
        pairs = list(zip(state.terms, state.betas, strict=True))
        first = [Slopes(b) if f.slopes is None else f.slopes for f, b in pairs]
        if all(f.y is None for f in state.terms):
            return {"slopes": first}
        other = [y if f.y is None else f.y for y, f in zip(first, state.terms, strict=True)]
        return {"slopes": first, "multipliers": other}

    def multipliers(self, problem: Problem, state: TableOneState) -> list[Array | None]:
        return [f.y for f in state.terms]

    def rebase(self, problem: Problem, state: TableOneState, share: float) -> TableOneState:
        s = state
        for t, f in zip(problem.terms, s.terms, strict=True):
            if f.y is not None and f.slopes is not None:
                f.y, f.slopes, f.G = share * f.y, share * f.slopes, share * f.G
                f.reach = reach(t, problem)
        self.balance.rebase(problem, s)
        return s

    def measures(self, problem: Problem) -> bool:
        return isinstance(self.schedule.beta, Automatic) and bool(problem.composite)

    def errors(self, problem: Problem, state: TableOneState, W: Array) -> dict[str, float]:
        found = {}
        for t, s, beta in zip(problem.terms, state.terms, state.betas, strict=True):
            if isinstance(self.estimator(t), Full):
                found[t.name] = 0.0
            elif isinstance(self.estimator(t), SAG):
                y, h = cast(Array, s.slopes), t.function
                offs = (h.slope(t.map.rows(W, b), beta, b) - y[b] for b in t.chunks())
                sums = (float(np.abs(off).sum(dtype=np.float64)) for off in offs)
                found[t.name] = t.weight * sum(sums)
        return found

    def row_bytes(self, term: Term, problem: Problem) -> int:
        e, size = self.estimator(term), term.map.size
        table = e.numbers * np.dtype(getattr(e, "table_dtype", np.float64)).itemsize
        drawn = batch_size(e.batch, size) if isinstance(e, Sampled) else 0
        return table * size + size // 8 + 6 * 8 * drawn  # a bit for every row, to draw it


def homotopy(beta0: Beta0, rho: Callable[[int], float] = ZERO) -> Schedule:
    """η_k = 2/(k + 1), β_k = β0/√(k + 1)."""
    return Schedule(Power(2, 1, 1), smoothing(beta0, 1, 1 / 2), rho)


# --- Table 1 --------------------------------------------------------------------------------------

ONLY_F = "f a smooth finite sum; g = 0"
PROX_G = "f smooth; g with a prox, Lipschitz or an indicator"
SAMPLED_F = "f a smooth finite sum; g with a prox, Lipschitz or an indicator"
SAMPLED_G = "f a smooth finite sum; g a separable finite sum, Lipschitz or an indicator"

ICML_2018 = "Yurtsever, Fercoq, Locatello, Cevher, ICML 2018"
ICML_2019 = "Yurtsever, Fercoq, Cevher, ICML 2019"
NEURIPS_2019 = "Locatello, Yurtsever, Fercoq, Cevher, NeurIPS 2019"
ICML_2020 = "Vladarean, Alacaoglu, Hsieh, Cevher, ICML 2020"
SAG_2020 = "Négiar, Dresdner, Tsai, El Ghaoui, Locatello, Freund, Pedregosa, ICML 2020"
ARXIV_2021 = "Akhtar, Rajawat, arXiv 2107.06534, 2021"
AISTATS_2022 = "Dresdner, Vladarean, Rätsch, Locatello, Cevher, Yurtsever, AISTATS 2022"

# slug, name, estimates of f and g, needs, reference, iterations, total cost, exponent of the rate


@declare("hcgm", "HCGM", "full, full", PROX_G, ICML_2018, "ε⁻²", "ε⁻² d max(n, m)", 1 / 2)
def hcgm(beta0: Beta0 = 1.0) -> ConditionalGradient:
    """Homotopy conditional gradient method: full gradients of f + g_β, β_k = β0/√(k + 1)."""
    return ConditionalGradient(Full(), Full(), homotopy(beta0))


@declare(
    "cgal", "CGAL", "full, full with multipliers", PROX_G, ICML_2019, "ε⁻²", "ε⁻² d max(n, m)", 0.5
)
def cgal(beta0: float = 1.0, bound: float = float("inf")) -> ConditionalGradient:
    """Conditional gradient augmented Lagrangian: HCGM with multipliers, σ ≤ 1/β0, ‖y‖ ≤ bound.

    Parameters
    ----------
    bound : float, default inf
        Bound on the norm of the multipliers.
    """
    if isinstance(beta0, str):
        raise ProblemError(
            f"beta0 is {beta0!r}: it must be a number; CGAL's automatic form is sag_cgal(batch=1.0)"
        )
    schedule = homotopy(beta0)
    return ConditionalGradient(Full(), Augmented(1 / beta0, bound), schedule)


@declare("shcgm", "SHCGM", "momentum, full", SAMPLED_F, NEURIPS_2019, "ε⁻³", "ε⁻³ d m", 1 / 3)
def shcgm(beta0: Beta0 = 1.0, batch: Batch = 1, **sampling: Any) -> ConditionalGradient:
    """Stochastic HCGM: η_k = 9/(k + 8), β_k = β0/√(k + 8), ρ_k = 4/(k + 7)^(2/3)."""
    schedule = Schedule(Power(9, 8, 1), smoothing(beta0, 8, 1 / 2), Power(4, 7, 2 / 3))
    return ConditionalGradient(Momentum(batch, **sampling), Full(), schedule)


@declare("most-fw", "MOST-FW", "STORM, full", SAMPLED_F, ARXIV_2021, "ε⁻²", "ε⁻² d m", 1 / 2)
def most_fw(beta0: Beta0 = 1.0, batch: Batch = 1, **sampling: Any) -> ConditionalGradient:
    """Momentum-based stochastic Frank-Wolfe: STORM on f, ρ_k = η_k = 2/(k + 1), β_k = β0/√(k + 1).

    The constants are chosen to give the stated rate (the error of the estimate falls as k^(−1/2));
    they are not quoted from the source.
    """
    return ConditionalGradient(
        Storm(batch, **sampling), Full(), homotopy(beta0, rho=Power(2, 1, 1))
    )


@declare("h-sag-v1", "H-SAG-CGM/v1", "SAG, full", SAMPLED_F, AISTATS_2022, "ε⁻²", "ε⁻² d m", 1 / 2)
def h_sag_v1(beta0: Beta0 = 1.0, batch: Batch = 1, **sag: Any) -> ConditionalGradient:
    """H-SAG-CGM, variant 1: SAG on f, the full gradient of g_β. Options of `SAG` can be given."""
    return ConditionalGradient(SAG(batch, **sag), Full(), homotopy(beta0))


@declare("h-1sfw", "H-1SFW", "momentum, momentum", SAMPLED_G, ICML_2020, "ε⁻⁶", "ε⁻⁶ d", 1 / 6)
def h_1sfw(beta0: Beta0 = 1.0, batch: Batch = 1, **sampling: Any) -> ConditionalGradient:
    """One-sample homotopy Frank-Wolfe: β_k = β0/(k + 1)^(1/6), ρ_k = 3/(k + 5)^(2/3)."""
    schedule = Schedule(Power(2, 1, 1), smoothing(beta0, 1, 1 / 6), Power(3, 5, 2 / 3))
    return ConditionalGradient(Momentum(batch, **sampling), Momentum(batch, **sampling), schedule)


@declare(
    "h-spider-fw", "H-SPIDER-FW", "SPIDER, SPIDER", SAMPLED_G, ICML_2020, "ε⁻²", "ε⁻² d m", 1 / 2
)
def h_spider_fw(beta0: Beta0 = 1.0, **sampling: Any) -> ConditionalGradient:
    """Homotopy SPIDER Frank-Wolfe: epochs of length 1, 2, 4, …, each begun by a full gradient.

    With the global counter k the sequences are HCGM's, restarts fall where k is a power of two, and
    the batch is the length of the epoch: it grows until it holds every row.
    """
    return ConditionalGradient(Spider(**sampling), Spider(**sampling), homotopy(beta0))


@declare("most-fw-plus", "MOST-FW⁺", "STORM, STORM", SAMPLED_G, ARXIV_2021, "ε⁻⁴", "ε⁻⁴ d", 1 / 4)
def most_fw_plus(beta0: Beta0 = 1.0, batch: Batch = 1, **sampling: Any) -> ConditionalGradient:
    """STORM on f and g: ρ_k = η_k = 2/(k + 1), β_k = β0/(k + 1)^(1/4).

    The variance of the smoothed g grows as 1/β², which β ~ k^(−1/4) balances to ε⁻⁴. The constants
    are chosen to give that rate; they are not quoted from the source.
    """
    schedule = Schedule(Power(2, 1, 1), smoothing(beta0, 1, 1 / 4), Power(2, 1, 1))
    return ConditionalGradient(Storm(batch, **sampling), Storm(batch, **sampling), schedule)


@declare("h-sag-v2", "H-SAG-CGM/v2", "SAG, SAG", SAMPLED_G, AISTATS_2022, "ε⁻²", "ε⁻² d", 1 / 2)
def h_sag_v2(beta0: Beta0 = 1.0, batch: Batch = 1, **sag: Any) -> ConditionalGradient:
    """H-SAG-CGM, variant 2: SAG on f and on g_β. Options of `SAG` can be given."""
    return ConditionalGradient(SAG(batch, **sag), SAG(batch, **sag), homotopy(beta0))


@declare("sag-fw", "SAG Frank-Wolfe", "SAG, –", ONLY_F, SAG_2020, "ε⁻¹", "ε⁻¹ d", 1.0)
def sag_fw(batch: Batch = 1, **sag: Any) -> ConditionalGradient:
    """Stochastic Frank-Wolfe with a SAG estimate, for problems without composite terms."""
    return ConditionalGradient(SAG(batch, **sag), Full(), homotopy(1.0), smooth_only=True)
