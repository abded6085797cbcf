"""Edges as a reader finds them: checked one by one, then a symmetric matrix with names."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from condgrad._check import ROUNDED, rounded
from condgrad.errors import InputError, InputWarning, ProblemError
from condgrad.io._text import number, remedy, require, show

PER_VERTEX = 32
"""Bytes of a sparse matrix and what it is made of for each vertex, with or without edges."""
USUAL = "weight"
"""The attribute or column that has the weight where nobody says another; without it all are 1."""
NO_WEIGHT = ("id", "key", "source", "target", "label", "name", "type")
"""Attributes of edges that are numbers, but say which edge it is."""
NEGATIVE = ": a sparsest cut has none, for a maximum cut pass signed=True (max-cut)"
REPEATS, LOOPS = ("auto", "refuse", "sum", "once"), ("refuse", "drop")


class NamedGraph(NamedTuple):
    """An adjacency matrix, and the names of the vertices where the source has names."""

    adjacency: sp.csr_array
    names: tuple[Any, ...] | None

    def __repr__(self) -> str:
        n, named = self.adjacency.shape[0], "without" if self.names is None else "with"
        return f"<NamedGraph: {n} vertices {named} names, {self.adjacency.nnz // 2} edges>"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Options of a reader, as `condgrad.io.read_graph` explains them."""

    signed: bool = False
    weight: str | int | None = USUAL
    repeats: str = "auto"
    undirected: bool = False
    loops: str = "refuse"
    delimiter: str | None = None

    def __post_init__(self) -> None:
        for name, known in (("repeats", REPEATS), ("loops", LOOPS)):
            if getattr(self, name) not in known:
                raise ProblemError(
                    f"{name} is {getattr(self, name)!r}: choose one of {', '.join(known)}"
                )
        if not isinstance(self.weight, (str, int, type(None))):
            raise ProblemError(f"weight is {self.weight!r}: give a name, a column's number or None")
        if self.delimiter is not None and not self.delimiter:
            raise ProblemError("delimiter is empty: give what stands between two fields")

    def no_directions(self, path: str | Path, what: str, line: int | None = None) -> None:
        """Refuse directions, unless they are to be dropped."""
        if not self.undirected:
            reason = f"{what}; a cut has no directions: drop them by undirected=True (--undirected)"
            raise InputError(path, reason, line)


class Edges:
    """The edges of one graph.

    Parameters
    ----------
    path : str or Path
        Where they come from, for errors.
    asked : Asked
        What to do with weights, repeats and loops.
    repeats : {"refuse", "sum"}
        What an edge that stands twice means where `asked` does not say.
    """

    def __init__(self, path: str | Path, asked: Asked, repeats: str = "refuse") -> None:
        self.path, self.asked = path, asked
        self._repeats = repeats if asked.repeats == "auto" else asked.repeats
        self._weights: dict[tuple[int, int], float] = {}
        self._stood: dict[tuple[int, int], int | None] = {}
        self._weighted = self._bare = 0
        self._first_bare: tuple[str, int | None] = ("", None)
        self._others: dict[str, None] = {}

    def __len__(self) -> int:
        """Edges, each once."""
        return len(self._weights)

    def weight_of(self, attributes: Mapping[Any, Any]) -> Any:
        """The weight among the attributes of an edge; None where it has none.

        One that is None, a list or the like is given as text, which is refused.
        """
        if self.asked.weight in attributes:
            found = attributes[self.asked.weight]
            return found if isinstance(found, (str, int, float, np.number)) else str(found)
        for name, value in attributes.items():
            text = value if isinstance(value, str) else repr(value)
            if name not in NO_WEIGHT and number(text) is not None:
                self._others[str(name)] = None
        return None

    def add(self, i: int, j: int, weight: Any, line: int | None = None, ends: Any = None) -> None:
        """Take the edge of vertices number i and j.

        Parameters
        ----------
        i, j : int
            From 0.
        weight : str, number or None
            None where the edge has none.
        line : int, optional
            Where it stands.
        ends : pair, optional
            What the file calls the vertices; default: i + 1 and j + 1.
        """
        u, v = ends or (i + 1, j + 1)
        value = 1.0
        if weight is None or self.asked.weight is None:
            if not self._bare:
                self._first_bare = f"{u} - {v}", line
            self._bare += 1
        else:
            self._weighted += 1
            value = self._number(weight, u, v, line)
        if i == j:
            if self.asked.loops == "refuse":
                remedy = "no cut has it, leave such out by loops='drop' (--drop-loops)"
                self._refuse(f"self-loop at vertex {u}; {remedy}", u, v, line)
            return
        if not math.isfinite(value):
            self._refuse(f"the weight {value} is not finite", u, v, line)
        if value < 0 and not self.asked.signed:
            self._refuse(f"negative weight {value:g}{NEGATIVE}", u, v, line)
        key = (i, j) if i < j else (j, i)
        if key not in self._weights:
            self._weights[key], self._stood[key] = value, line
            return
        if self._repeats == "refuse":
            at = f" on line {self._stood[key]}" if self._stood[key] is not None else ""
            self._refuse(
                f"the edge {u} {v} stood before{at}: repeats='sum' (--repeats sum) adds the "
                "weights, 'once' takes it as said twice",
                *(u, v, line),
            )
        if self._repeats == "sum":
            self._weights[key] += value
            if not math.isfinite(self._weights[key]):
                self._refuse("the summed weight is not finite", u, v, line)
        elif value != self._weights[key]:
            reason = f"the edge {u} {v} has the weight {value:g}, before {self._weights[key]:g}"
            self._refuse(f"{reason}: repeats='once' needs equal ones", u, v, line)

    def _number(self, given: Any, u: Any, v: Any, line: int | None) -> float:
        found = number(given) if isinstance(given, str) else None
        if isinstance(given, (int, float, np.number, np.bool_)):
            try:
                found = float(given)
            except (OverflowError, TypeError):
                self._refuse(f"the weight {show(str(given))} is not a finite number", u, v, line)
            if rounded(given):
                self._refuse(f"the weight {show(str(given))} is {ROUNDED}", u, v, line)
        if found is None:
            reason = f"the weight {show(str(given))} is not a number"
            say = remedy(str(given)) or "; weight=None (--unweighted) counts edges"
            self._refuse(reason + say, u, v, line)
        return found  # type: ignore[return-value]

    def _refuse(self, reason: str, u: Any, v: Any, line: int | None) -> None:
        where = f"edge {u} - {v}: " if line is None else ""
        raise InputError(self.path, where + reason, line)

    def graph(
        self, n: int, names: Sequence[str] | None = None, line: int | None = None
    ) -> NamedGraph:
        """The graph of n vertices; `line` is where the file says how many."""
        check_order(self.path, n, line)
        say_weights(self.path, self.asked.weight, self._weighted, self._bare, *self._first_bare)
        if self._others and not self._weighted and self.asked.weight == USUAL:
            other = next(iter(self._others))
            warnings.warn(
                f"{self.path}: no edge has a {USUAL!r}, all count 1; weight={other!r} "
                f"(--weight {other}) takes that, weight=None (--unweighted) means it so",
                InputWarning,
                stacklevel=2,
            )
        kept = [(key, w) for key, w in self._weights.items() if w]
        ends = np.array([key for key, _ in kept], dtype=np.intp).reshape(-1, 2)
        weights = np.array([w for _, w in kept], dtype=np.float64)
        half = sp.coo_array((weights, (ends[:, 0], ends[:, 1])), shape=(n, n))
        return NamedGraph(sp.csr_array(half + half.T), None if names is None else tuple(names))


def say_weights(
    path: str | Path,
    weight: str | int | None,
    weighted: int,
    bare: int,
    first: str,
    line: int | None = None,
) -> None:
    """Refuse a weight that no edge has; warn where some have none.

    Parameters
    ----------
    path : str or Path
        Where the edges are from.
    weight : str, int or None
        What was asked for.
    weighted, bare : int
        How many edges have it, and how many do not.
    first, line : str, int
        The first of those that do not, and where it stands.
    """
    if weight is None or not bare:
        return
    name = f"column {weight}" if isinstance(weight, int) else repr(weight)
    if not weighted and weight != USUAL:
        reason = f"weight is {weight!r}, but no edge has it: name another, or pass weight=None"
        raise InputError(path, f"{reason} (--unweighted) to count edges")
    if weighted:
        where = first if line is None else f"{first} on line {line}"
        warnings.warn(
            f"{path}: {bare} of {bare + weighted} edges have no {name}, the first is {where}: "
            "they count 1",
            InputWarning,
            stacklevel=2,
        )


def check_order(path: str | Path, n: int, line: int | None = None) -> None:
    """Refuse graphs with too few vertices for a cut, or too many for the limit."""
    if n < 2:
        found = f"the file says {n}" if line else f"found {n}"
        raise InputError(path, f"a cut needs at least 2 vertices, {found}", line)
    require(path, f"a graph of {show(str(n))[1:-1]} vertices", PER_VERTEX * n, line)


class Names:
    """Vertices by what a file calls them, numbered in the order in which they come."""

    def __init__(self) -> None:
        self.at: dict[str, int] = {}

    def __call__(self, name: str) -> int:
        """The number of a vertex."""
        return self.at.setdefault(name, len(self.at))

    def __len__(self) -> int:
        return len(self.at)
