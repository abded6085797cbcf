"""The register of all methods, `METHODS`, and how a method enters it."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from condgrad.errors import ProblemError
from condgrad.methods.protocol import Method
from condgrad.problem import Problem

Builder = Callable[..., Any]
"""Function that makes a method from β0, a batch size and options."""


@dataclass(frozen=True, repr=False)
class Entry:
    """A method by name, with what is known of it; call it to get the `Method`."""

    slug: str
    """Name on the command line."""
    name: str
    """Name in results."""
    build: Builder
    """Function that makes the method, with its options."""
    estimates: str
    """How the gradients of f and of g are followed."""
    needs: str
    """Assumptions on f and g."""
    reference: str
    """Source of the method."""
    iterations: str = "not proved"
    """Iterations to an ε-suboptimal solution."""
    cost: str = "not proved"
    """Total cost: rows of f and g times iterations."""
    exponent: float = float("nan")
    """The smoothed gap falls at least as k^(−exponent); NaN where nothing is proved."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.build(*args, **options)

    def __repr__(self) -> str:
        return f"<{self.name}: {self.estimates}; {self.reference}>"

    @property
    def options(self) -> dict[str, Any]:
        """The options by name, with their defaults."""
        return {p.name: p.default for p in inspect.signature(self.build).parameters.values()}

    @property
    def batched(self) -> bool:
        """Whether the method has a batch size to choose."""
        return "batch" in self.options

    @property
    def smoothed(self) -> bool:
        """Whether the method has a β0 to choose."""
        return "beta0" in self.options


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
    Options of `condgrad.methods.SAG`: ``replace``, ``table_dtype``, ``warm_start``.""",
}
"""Paragraphs for docstrings of methods, on the parameters that they share."""


def documented(build: Builder) -> str:
    """The docstring of a builder, with a paragraph for every parameter."""
    text, _, tail = (inspect.getdoc(build) or "").partition("\n\nParameters\n----------\n")
    own = {part.split()[0].strip("*"): part for part in re.split(r"\n(?=\S)", tail) if part}
    names = inspect.signature(build).parameters
    paragraphs = [own.get(name) or PARAGRAPHS[name] for name in names]
    return "\n".join([text, "", "Parameters", "----------", *paragraphs, ""])


def declare(slug: str, name: str, *about: Any, **more: Any) -> Callable[[Builder], Builder]:
    """Enter a method in `METHODS`, with the fields of an `Entry`, and give it both names.

    It decorates a function that makes the method, which has the fields `slug` and `name`.
    """

    def enter(build: Builder) -> Builder:
        @functools.wraps(build)
        def method(*args: Any, **options: Any) -> Method:
            try:
                built = build(*args, **options)
            except TypeError as error:
                takes = ", ".join(inspect.signature(build).parameters)
                raise ProblemError(f"{slug} takes other options, {takes}: {error}") from None
            return replace(built, slug=slug, name=name)

        METHODS[slug] = Entry(slug, name, method, *about, **more)
        method.__doc__ = documented(build)
        return method

    return enter


def check(problem: Any, method: Any) -> None:
    """Refuse a method that cannot run on a problem, with a sentence and a remedy."""
    if not isinstance(problem, Problem):
        raise ProblemError(f"problem is a {type(problem).__name__}: pass a condgrad.Problem")
    if not isinstance(method, Method):
        name = getattr(method, "slug", getattr(method, "__name__", method))
        what = repr(name) if isinstance(name, str) else f"a {type(name).__name__}"
        own = str(name).lower().replace("-", "_")
        own = own if own.replace("_", "-") in METHODS else "hcgm"
        raise ProblemError(f"method is {what}: pass a condgrad.Method, as in condgrad.{own}()")
    objection = method.suits(problem)
    if objection is not None:
        raise ProblemError(objection)


def refusal(method: Method) -> str:
    """The sentence that says what a method needs, for a problem that has not got it."""
    needs = METHODS[method.slug].needs if method.slug in METHODS else "another problem"
    return f"method is {method.name}, which needs {needs}: use sag_cgal(), or leave method out"
