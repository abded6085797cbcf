"""Projection-free convex optimisation.

    min over W in a compact set of  Σ_t ω_t h_t(A_t W)

with stochastic conditional gradient methods: losses, regularisers and constraints are terms, a
method is a choice of estimators and sequences, and one loop runs them all. Start with `Problem`,
`Term` and `solve`; `start` gives the run itself.
"""

# isort: off
from condgrad import _signals as _signals  # first: the rest takes a moment to load
# isort: on

import importlib
from typing import Any

from condgrad import _deadline as _deadline  # its clock begins now
from condgrad import domains, functions, maps, methods, schedules, theory
from condgrad.errors import InputError, ProblemError
from condgrad.evaluation import Violation
from condgrad.methods import METHODS, Method, State
from condgrad.problem import Problem, Term
from condgrad.run import (
    Answer,
    Goal,
    Info,
    Progress,
    Result,
    Run,
    Status,
    StopWhen,
    Trace,
    checkpoints,
    resume,
    solve,
    start,
)

__version__ = "0.1.0"

__all__ = [
    "METHODS",
    "Answer",
    "Goal",
    "Info",
    "InputError",
    "Method",
    "Problem",
    "ProblemError",
    "Progress",
    "Result",
    "Run",
    "State",
    "Status",
    "StopWhen",
    "Term",
    "Trace",
    "Violation",
    "checkpoints",
    "domains",
    "functions",
    "maps",
    "methods",
    "resume",
    "schedules",
    "solve",
    "start",
    "theory",
]

DOORS = {
    "bisection": "partitions",
    "correlation_clustering": "partitions",
    "k_section": "partitions",
    "load_model": "models",
    "max_cut": "graphs",
    "qubo": "quadratic",
    "sparsest_cut": "graphs",
    "theta": "lovasz",
}
"""Functions that are loaded on demand, and where they are."""


def __getattr__(name: str) -> Any:
    """Methods by their own name, ``condgrad.h_sag_v2(beta0=1.0)``, and what is loaded on demand."""
    if name.replace("_", "-") in METHODS:
        return METHODS[name.replace("_", "-")].build
    if name in DOORS:
        return getattr(importlib.import_module(f"condgrad.{DOORS[name]}"), name)
    if name in ("applications", "cluster", "graphs", "html", "io", "plot", "quadratic", "record"):
        return importlib.import_module(f"condgrad.{name}")
    raise AttributeError(f"module 'condgrad' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *DOORS, *(slug.replace("-", "_") for slug in METHODS)]
