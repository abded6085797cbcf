"""The methods of the paper's Table 1, each a short declaration.

A method is a choice of estimator for the smooth terms, one for the composite terms, and the scalar
sequences. To add one, write a function here under `@declare`; nothing else needs to know of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from condgrad.errors import ProblemError
from condgrad.estimators import SAG, Augmented, Estimator, Full, Momentum, Spider, Storm
from condgrad.problem import Problem, Term
from condgrad.sampling import Batch
from condgrad.schedules import ZERO, Constant, Power, Schedule, Sequence, smoothing


@dataclass(frozen=True)
class Method:
    """A composition of estimators and sequences that `solve` can run.

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
    """

    smooth: Estimator
    composite: Estimator
    schedule: Schedule
    estimators: Mapping[str, Estimator] = field(default_factory=dict)
    smooth_only: bool = False
    slug: str = "custom"
    name: str = "custom"

    def __post_init__(self) -> None:
        own = {f"estimators[{name!r}]": e for name, e in self.estimators.items()}
        for name, e in {"smooth": self.smooth, "composite": self.composite, **own}.items():
            if not isinstance(e, Estimator):
                raise ProblemError(
                    f"{name} is {e!r}: pass an instance of one of condgrad.estimators, like Full()"
                )

    def estimator(self, term: Term) -> Estimator:
        """The estimator that serves a term."""
        default = self.smooth if term.function.smooth else self.composite
        return self.estimators.get(term.name, default)

    def override(self, estimators: Mapping[str, Estimator]) -> Method:
        """The same method with other estimators for the terms named."""
        return replace(self, estimators={**self.estimators, **estimators})

    def with_effort(self, effort: float | Sequence | None) -> Method:
        """The same method with another effort of the oracle, in Krylov steps per ln n.

        None asks the oracle for full accuracy at every iteration.
        """
        number = isinstance(effort, (int, float, np.number)) and not isinstance(effort, bool)
        if not (effort is None or callable(effort) or (number and 0 < effort < np.inf)):
            raise ProblemError(
                f"effort is {effort!r}: it must be a positive number, a function of k or None"
            )
        sequence = effort if callable(effort) else Constant(cast(float, effort))
        return replace(self, schedule=replace(self.schedule, effort=sequence))


@dataclass(frozen=True)
class Entry:
    """A row of Table 1; call it to get the `Method`."""

    slug: str
    name: str
    build: Callable[..., Method]
    estimates: str
    """How the gradients of f and of g are followed."""
    needs: str
    """Assumptions on f and g."""
    iterations: str
    """Iterations to an ε-suboptimal solution."""
    cost: str
    """Total cost: rows of f and g times iterations."""
    exponent: float
    """The smoothed gap falls at least as k^(−exponent)."""
    reference: str

    def __call__(self, *args: Any, **options: Any) -> Method:
        return replace(self.build(*args, **options), slug=self.slug, name=self.name)

    @property
    def batched(self) -> bool:
        """Whether the method has a batch size to choose."""
        return "batch" in inspect.signature(self.build).parameters

    @property
    def smoothed(self) -> bool:
        """Whether the method has a β0 to choose."""
        return "beta0" in inspect.signature(self.build).parameters


METHODS: dict[str, Entry] = {}
"""Every method by its command-line name."""


def declare(slug: str, name: str, **about: Any) -> Callable[[Callable[..., Method]], Entry]:
    """Enter a method in `METHODS`."""

    def enter(build: Callable[..., Method]) -> Entry:
        entry = METHODS[slug] = Entry(slug, name, build, **about)
        object.__setattr__(entry, "__doc__", build.__doc__)
        return entry

    return enter


def homotopy(beta0: float, rho: Sequence = ZERO) -> Schedule:
    """η_k = 2/(k + 1), β_k = β0/√(k + 1)."""
    return Schedule(Power(2, 1, 1), smoothing(beta0, 1, 1 / 2), rho)


DETERMINISTIC_G = "f smooth; g with a prox, Lipschitz or an indicator"
SAMPLED_F = "f a smooth finite sum; g with a prox, Lipschitz or an indicator"
SAMPLED_G = "f a smooth finite sum; g a separable finite sum, Lipschitz or an indicator"


@declare(
    "hcgm",
    "HCGM",
    estimates="full, full",
    needs=DETERMINISTIC_G,
    iterations="ε⁻²",
    cost="ε⁻² d max(n, m)",
    exponent=1 / 2,
    reference="Yurtsever, Fercoq, Locatello, Cevher, ICML 2018",
)
def hcgm(beta0: float = 1.0) -> Method:
    """Homotopy conditional gradient method: full gradients of f + g_β, β_k = β0/√(k + 1)."""
    return Method(Full(), Full(), homotopy(beta0))


@declare(
    "cgal",
    "CGAL",
    estimates="full, full with multipliers",
    needs=DETERMINISTIC_G,
    iterations="ε⁻²",
    cost="ε⁻² d max(n, m)",
    exponent=1 / 2,
    reference="Yurtsever, Fercoq, Cevher, ICML 2019",
)
def cgal(beta0: float = 1.0, bound: float = float("inf")) -> Method:
    """Conditional gradient augmented Lagrangian: HCGM with multipliers, σ ≤ 1/β0, ‖y‖ ≤ bound."""
    schedule = homotopy(beta0)
    return Method(Full(), Augmented(1 / beta0, bound), schedule)


@declare(
    "shcgm",
    "SHCGM",
    estimates="momentum, full",
    needs=SAMPLED_F,
    iterations="ε⁻³",
    cost="ε⁻³ d m",
    exponent=1 / 3,
    reference="Locatello, Yurtsever, Fercoq, Cevher, NeurIPS 2019",
)
def shcgm(beta0: float = 1.0, batch: Batch = 1, **sampling: Any) -> Method:
    """Stochastic HCGM: η_k = 9/(k + 8), β_k = β0/√(k + 8), ρ_k = 4/(k + 7)^(2/3)."""
    schedule = Schedule(Power(9, 8, 1), smoothing(beta0, 8, 1 / 2), Power(4, 7, 2 / 3))
    return Method(Momentum(batch, **sampling), Full(), schedule)


@declare(
    "most-fw",
    "MOST-FW",
    estimates="STORM, full",
    needs=SAMPLED_F,
    iterations="ε⁻²",
    cost="ε⁻² d m",
    exponent=1 / 2,
    reference="Akhtar, Rajawat, arXiv 2107.06534, 2021",
)
def most_fw(beta0: float = 1.0, batch: Batch = 1, **sampling: Any) -> Method:
    """Momentum-based stochastic Frank-Wolfe: STORM on f, ρ_k = η_k = 2/(k + 1), β_k = β0/√(k + 1).

    The constants are chosen to give the stated rate (the error of the estimate falls as k^(−1/2));
    they are not quoted from the source.
    """
    return Method(Storm(batch, **sampling), Full(), homotopy(beta0, rho=Power(2, 1, 1)))


@declare(
    "h-sag-v1",
    "H-SAG-CGM/v1",
    estimates="SAG, full",
    needs=SAMPLED_F,
    iterations="ε⁻²",
    cost="ε⁻² d m",
    exponent=1 / 2,
    reference="Dresdner, Vladarean, Rätsch, Locatello, Cevher, Yurtsever, AISTATS 2022",
)
def h_sag_v1(beta0: float = 1.0, batch: Batch = 1, **sag: Any) -> Method:
    """H-SAG-CGM, variant 1: SAG on f, the full gradient of g_β. Options of `SAG` can be given."""
    return Method(SAG(batch, **sag), Full(), homotopy(beta0))


@declare(
    "h-1sfw",
    "H-1SFW",
    estimates="momentum, momentum",
    needs=SAMPLED_G,
    iterations="ε⁻⁶",
    cost="ε⁻⁶ d",
    exponent=1 / 6,
    reference="Vladarean, Alacaoglu, Hsieh, Cevher, ICML 2020",
)
def h_1sfw(beta0: float = 1.0, batch: Batch = 1, **sampling: Any) -> Method:
    """One-sample homotopy Frank-Wolfe: β_k = β0/(k + 1)^(1/6), ρ_k = 3/(k + 5)^(2/3)."""
    schedule = Schedule(Power(2, 1, 1), smoothing(beta0, 1, 1 / 6), Power(3, 5, 2 / 3))
    return Method(Momentum(batch, **sampling), Momentum(batch, **sampling), schedule)


@declare(
    "h-spider-fw",
    "H-SPIDER-FW",
    estimates="SPIDER, SPIDER",
    needs=SAMPLED_G,
    iterations="ε⁻²",
    cost="ε⁻² d m",
    exponent=1 / 2,
    reference="Vladarean, Alacaoglu, Hsieh, Cevher, ICML 2020",
)
def h_spider_fw(beta0: float = 1.0, **sampling: Any) -> Method:
    """Homotopy SPIDER Frank-Wolfe: epochs of length 1, 2, 4, …, each begun by a full gradient.

    With the global counter k the sequences are HCGM's, restarts fall where k is a power of two, and
    the batch is the length of the epoch: it grows until it holds every row.
    """
    return Method(Spider(**sampling), Spider(**sampling), homotopy(beta0))


@declare(
    "most-fw-plus",
    "MOST-FW⁺",
    estimates="STORM, STORM",
    needs=SAMPLED_G,
    iterations="ε⁻⁴",
    cost="ε⁻⁴ d",
    exponent=1 / 4,
    reference="Akhtar, Rajawat, arXiv 2107.06534, 2021",
)
def most_fw_plus(beta0: float = 1.0, batch: Batch = 1, **sampling: Any) -> Method:
    """STORM on f and g: ρ_k = η_k = 2/(k + 1), β_k = β0/(k + 1)^(1/4).

    The variance of the smoothed g grows as 1/β², which β ~ k^(−1/4) balances to ε⁻⁴. The constants
    are chosen to give that rate; they are not quoted from the source.
    """
    schedule = Schedule(Power(2, 1, 1), smoothing(beta0, 1, 1 / 4), Power(2, 1, 1))
    return Method(Storm(batch, **sampling), Storm(batch, **sampling), schedule)


@declare(
    "h-sag-v2",
    "H-SAG-CGM/v2",
    estimates="SAG, SAG",
    needs=SAMPLED_G,
    iterations="ε⁻²",
    cost="ε⁻² d",
    exponent=1 / 2,
    reference="Dresdner, Vladarean, Rätsch, Locatello, Cevher, Yurtsever, AISTATS 2022",
)
def h_sag_v2(beta0: float = 1.0, batch: Batch = 1, **sag: Any) -> Method:
    """H-SAG-CGM, variant 2: SAG on f and on g_β. Options of `SAG` can be given."""
    return Method(SAG(batch, **sag), SAG(batch, **sag), homotopy(beta0))


@declare(
    "sag-fw",
    "SAG Frank-Wolfe",
    estimates="SAG, –",
    needs="f a smooth finite sum; g = 0",
    iterations="ε⁻¹",
    cost="ε⁻¹ d",
    exponent=1.0,
    reference="Négiar, Dresdner, Tsai, El Ghaoui, Locatello, Freund, Pedregosa, ICML 2020",
)
def sag_fw(batch: Batch = 1, **sag: Any) -> Method:
    """Stochastic Frank-Wolfe with a SAG estimate, for problems without composite terms."""
    return Method(SAG(batch, **sag), Full(), homotopy(1.0), smooth_only=True)


def check(problem: Problem, method: Method) -> None:
    """Refuse a method that cannot run on a problem, with a sentence and a remedy."""
    if not isinstance(problem, Problem):
        raise ProblemError(f"problem is a {type(problem).__name__}: pass a condgrad.Problem")
    if not isinstance(method, Method):
        name = method.slug if isinstance(method, Entry) else method
        known = isinstance(name, str) and name in METHODS
        hint = f", for example METHODS[{name!r}]()" if known else ", for example condgrad.hcgm()"
        what = repr(name) if isinstance(name, str) else f"a {type(name).__name__}"
        raise ProblemError(f"method is {what}: pass a condgrad.Method{hint}")
    unknown = set(method.estimators) - {t.name for t in problem.terms}
    if unknown:
        raise ProblemError(
            f"estimators names {sorted(unknown)}, but the terms are "
            f"{[t.name for t in problem.terms]}: use those names"
        )
    if method.smooth_only and problem.composite:
        raise ProblemError(
            f"{method.name} is for g = 0, but term {problem.composite[0].name!r} is composite: use "
            "h_sag_v1 or h_sag_v2"
        )
    for term in problem.terms:
        estimator = method.estimator(term)
        objection = estimator.objection(term)
        if estimator.needs_rho and not method.schedule.rho(1) > 0:
            objection = (
                f"has no ρ, without which {type(estimator).__name__} on term {term.name!r} stands "
                "still: start from a method with one, such as shcgm or most_fw"
            )
        if objection:
            raise ProblemError(f"{method.name} {objection}")
