"""Parts of a method, and the registry of all of them."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from condgrad.errors import ProblemError
from condgrad.estimators import Estimator
from condgrad.methods.control import BALANCE, Balance, Balancing
from condgrad.methods.lead import Lead
from condgrad.methods.pairwise import Pairwise
from condgrad.methods.primal_dual import PrimalDual, PrimalWeight, Weighing
from condgrad.methods.projected import Accelerated, Balanced, Ratio, Relaxation
from condgrad.methods.spectral import Spectral
from condgrad.methods.steps import ATOMS, Atoms
from condgrad.problem import Problem, Term
from condgrad.schedules import Automatic, Constant, Schedule, Sequence

Control = Balancing | Weighing | Balanced
"""Types that move β or ω in a run."""


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
    step : Atoms, Spectral, PrimalDual, Relaxation, Accelerated or Pairwise
        How W moves; all but atoms need an automatic β0.
    control : Balance, PrimalWeight or Ratio, optional
        How β, or the weight ω, is found and moved where β0 is automatic.
    first : Lead, optional
        A method that runs before this one, which takes over its W and its multipliers, where rows
        are drawn.
    """

    smooth: Estimator
    composite: Estimator
    schedule: Schedule
    estimators: Mapping[str, Estimator] = field(default_factory=dict)
    smooth_only: bool = False
    step: Atoms | Spectral | PrimalDual | Relaxation | Accelerated | Pairwise = ATOMS
    control: Balance | PrimalWeight | Ratio = BALANCE
    first: Lead | None = None
    slug: str = "custom"
    name: str = "custom"

    def __post_init__(self) -> None:
        own = {f"estimators[{name!r}]": e for name, e in self.estimators.items()}
        for name, e in {"smooth": self.smooth, "composite": self.composite, **own}.items():
            if not isinstance(e, Estimator):
                raise ProblemError(
                    f"{name} is {e!r}: pass an instance of one of condgrad.estimators, like Full()"
                )
        if not (self.auto or isinstance(self.step, Atoms)):
            raise ProblemError(
                f"step is {type(self.step).__name__}, which needs an automatic β0: leave step out, "
                "or use a schedule with smoothing('auto', ...)"
            )

    @property
    def auto(self) -> bool:
        """Whether β0 is found while the method runs, see `condgrad.methods.control.Balance`."""
        return isinstance(self.schedule.beta, Automatic)

    def estimator(self, term: Term) -> Estimator:
        """The estimator that serves a term."""
        default = self.smooth if term.function.smooth else self.composite
        return self.estimators.get(term.name, default)

    def suits(self, problem: Problem) -> bool:
        """Whether the steps can be taken on a problem."""
        return self.step.suits(problem, [(self.estimator(t), t) for t in problem.terms])

    def on(self, problem: Problem) -> Method:
        """The method without `first` if all rows are taken at every iteration."""
        drawn = not all(self.estimator(t).whole(t) for t in problem.terms)
        return self if drawn else replace(self, first=None)

    def override(self, estimators: Mapping[str, Estimator]) -> Method:
        """Return this method with other estimators for the terms named."""
        if not isinstance(estimators, Mapping):
            raise ProblemError(
                f"estimators is a {type(estimators).__name__}: pass a dict from names of terms to "
                "estimators"
            )
        return replace(self, estimators={**self.estimators, **estimators})

    def with_effort(self, effort: float | Sequence | None) -> Method:
        """Return this method with another effort of the oracle, in Krylov steps per ln n.

        None asks the oracle for full accuracy at every iteration.
        """
        number = isinstance(effort, (int, float, np.number)) and not isinstance(effort, bool)
        if not (effort is None or callable(effort) or (number and 0 < effort < np.inf)):
            raise ProblemError(
                f"effort is {effort!r}: it must be a positive number, a function of k or None"
            )
        sequence = effort if callable(effort) else Constant(cast(float, effort))
        return replace(self, schedule=replace(self.schedule, effort=sequence))


Builder = Callable[..., Method]
"""Function that makes a `Method` from β0, a batch size and options."""


@dataclass(frozen=True, repr=False)
class Entry:
    """A method by name, with what is known of it; call it to get the `Method`."""

    slug: str
    name: str
    build: Builder
    estimates: str
    """How the gradients of f and of g are followed."""
    needs: str
    """Assumptions on f and g."""
    iterations: str
    """Iterations to an ε-suboptimal solution."""
    cost: str
    """Total cost: rows of f and g times iterations."""
    exponent: float
    """The smoothed gap falls at least as k^(−exponent); NaN where nothing is proved."""
    reference: str

    def __call__(self, *args: Any, **options: Any) -> Method:
        return self.build(*args, **options)

    def __repr__(self) -> str:
        return f"<{self.name}: {self.estimates}; {self.reference}>"

    @property
    def batched(self) -> bool:
        """Whether the method has a batch size to choose."""
        return "batch" in inspect.signature(self.build).parameters

    @property
    def chooses(self) -> bool:
        """True if the method chooses its batch size by itself."""
        return self.batched and inspect.signature(self.build).parameters["batch"].default == "auto"

    @property
    def smoothed(self) -> bool:
        """Whether the method has a β0 to choose."""
        return "beta0" in inspect.signature(self.build).parameters


METHODS: dict[str, Entry] = {}
"""Every method by its command-line name."""


PARAGRAPHS = {
    "beta0": """beta0 : float, default 1
    β0 > 0, the scale of the smoothing: small values press on the constraints sooner.""",
    "batch": """batch : int or float, default 1
    Rows drawn per iteration and term, a count or a fraction in (0, 1].""",
    "sampling": """**sampling
    ``replace=True`` draws with replacement.""",
    "sag": """**sag
    Options of `condgrad.estimators.SAG`: ``replace``, ``table``, ``table_dtype``, ``warm_start``,
    ``rescale``.""",
}
"""Paragraphs for docstrings of methods, on the parameters that they share."""


def documented(build: Builder) -> str:
    """The docstring of a builder, with a paragraph for every parameter."""
    text, _, tail = (inspect.getdoc(build) or "").partition("\n\nParameters\n----------\n")
    own = {part.split()[0].strip("*"): part for part in re.split(r"\n(?=\S)", tail) if part}
    names = inspect.signature(build).parameters
    paragraphs = [own.get(name) or PARAGRAPHS[name] for name in names]
    return "\n".join([text, "", "Parameters", "----------", *paragraphs, ""])


def declare(slug: str, name: str, **about: Any) -> Callable[[Builder], Builder]:
    """Enter a method in `METHODS` and give what it builds its name."""

    def enter(build: Builder) -> Builder:
        @functools.wraps(build)
        def method(*args: Any, **options: Any) -> Method:
            try:
                built = build(*args, **options)
            except TypeError as error:
                takes = ", ".join(inspect.signature(build).parameters)
                raise ProblemError(f"{slug} takes other options, {takes}: {error}") from None
            return replace(built, slug=slug, name=name)

        method.__doc__ = documented(build)
        METHODS[slug] = Entry(slug, name, method, **about)
        return method

    return enter


def check(problem: Problem, method: Method) -> None:
    """Refuse a method that cannot run on a problem, with a sentence and a remedy."""
    if not isinstance(problem, Problem):
        raise ProblemError(f"problem is a {type(problem).__name__}: pass a condgrad.Problem")
    if not isinstance(method, Method):
        name = method.slug if isinstance(method, Entry) else method
        if callable(name):
            name = getattr(name, "__name__", "").replace("_", "-")
        slug = name.lower().replace("_", "-") if isinstance(name, str) else ""
        own = slug.replace("-", "_") if slug in METHODS else "hcgm"
        what = repr(name) if isinstance(name, str) else f"a {type(name).__name__}"
        raise ProblemError(f"method is {what}: pass a condgrad.Method, as in condgrad.{own}()")
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
    if not method.suits(problem):
        needs = METHODS[method.slug].needs if method.slug in METHODS else "another problem"
        raise ProblemError(
            f"method is {method.name}, which needs {needs}: use sag_cgal(), or leave method out"
        )
