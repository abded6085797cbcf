"""The record of a run: what is saved, drawn and reported of it."""

from __future__ import annotations

import io
import json
import platform
import shlex
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from rich.console import Console

import condgrad
from condgrad import report
from condgrad._adjacency import drawn_graph
from condgrad._files import replaced
from condgrad._types import Array
from condgrad.applications import Outcome
from condgrad.applications.answers import names_of, outcome_of
from condgrad.applications.planes import principal_plane
from condgrad.errors import InputError, ProblemError, cause
from condgrad.points import Factored, Gram
from condgrad.run.answer import Answer
from condgrad.run.result import Result, Trace

REMEDY = "write one by --save or Trace.save"
ARRAYS = ("edges", "side", "labels", "points", "names")
"""Arrays that belong to a picture."""
MODEL = "model."
"""Beginning of the names of arrays that are a model."""
COMPRESSED = 1 << 23
"""Bytes above which a run is not compressed: W hardly gets smaller, and a signal does not wait."""
FACTORS = ("U", "s", "V")
"""Arrays of a W that is kept as factors."""
COLUMNS = frozenset({"k", "epochs", "seconds", "objective", "infeasibility"})
"""Columns without which a trace cannot be drawn."""


@dataclass(frozen=True, repr=False)
class Record:
    """A run as plain facts, without the problem it came from.

    Examples
    --------
    >>> from condgrad.applications import sparsest_cut
    >>> ring = np.roll(np.eye(5), 1, axis=0) + np.roll(np.eye(5), -1, axis=0)
    >>> record = Record.of(sparsest_cut(ring).run(max_iter=3), adjacency=ring)
    >>> record.facts["iterations"], sorted(record.arrays)
    (3, ['edges', 'side'])
    """

    facts: Mapping[str, Any]
    """`Outcome.to_json` with ``summary`` (pairs of name and text), ``answer`` (sentences),
    ``command`` and ``versions``; empty where only a trace was saved."""
    trace: Trace
    W: Any = None
    arrays: Mapping[str, Array] = field(default_factory=dict)
    """Arrays of the run, of ``edges`` (a row of u, v and weight for each, vertices counted from
    0), ``names`` (of vertices), ``side``, ``labels`` and ``points`` (in their principal plane), and
    those of a model, ``model.NAME``."""

    def __repr__(self) -> str:
        arrays = ", ".join([*([] if self.W is None else ["W"]), *self.arrays]) or "no arrays"
        title = self.facts.get("title", "a trace")
        return f"<Record: {title}; {len(self.trace)} rows of the trace; {arrays}>"

    @classmethod
    def of(
        cls,
        run: Answer,
        *,
        adjacency: Any = None,
        points: Any = None,
        names: Sequence[str] | None = None,
        W: Array | None = None,
        model: Mapping[str, Any] | None = None,
        command: Sequence[str] = (),
        answer: Callable[[Console], None] | None = None,
        **more: Any,
    ) -> Record:
        """The record of a run.

        Parameters
        ----------
        run : Answer
            The run: an Outcome, a Result, or what else a call has returned, such as a GraphCut or a
            Partition.
        adjacency : networkx.Graph, array or SciPy sparse matrix, optional
            The graph that was cut.
        points : array, optional
            The points that were clustered, one a row.
        names : sequence of str, optional
            The names of the vertices; default: those of the graph or the answer.
        W : array, optional
            The point, where that of the result is in other units.
        model : mapping, optional
            Arrays of a model that was fitted, kept under the names ``model.NAME``.
        command : sequence of str, optional
            The command line that repeats the run; of paths only the file name is kept.
        answer : callable, optional
            Prints the answer in words to a console.
        **more
            Further facts, such as ``input`` (a file) and ``limits`` (a mapping).
        """
        given, run = run, outcome_of(run)
        if answer is None and not isinstance(given, (Outcome, Result)):
            answer = partial(_say, given)
        found = None if run.rounded is None else run.rounded.answer
        arrays = {name: np.asarray(a) for name in ("side", "labels")
                  if (a := getattr(found, name, None)) is not None}  # fmt: skip
        if adjacency is not None:
            graph, called = drawn_graph(adjacency)
            names = called if names is None else names
            edges = sp.coo_array(sp.triu(graph, k=1))
            arrays["edges"] = np.column_stack([*edges.coords, edges.data])
        names = names_of(given) if names is None else names
        if names is not None:
            arrays["names"] = np.array([str(name) for name in names])
        arrays |= {f"{MODEL}{name}": np.asarray(a) for name, a in (model or {}).items()}
        if points is not None:
            arrays["points"] = principal_plane(points)
        facts = {
            **run.to_json(),
            **more,
            "title": f"{run.application}, {run.result.method}",
            "method_name": run.result.method,
            "bound_name": run.bound_name,
            "called": run.called,
            "returned": run.returned.last,
            "summary": report.summary(run, more.get("profile")),
            "answer": _words(run, answer),
            "command": shlex.join(map(_name_only, command)),
            "versions": versions(),
        }
        return cls(facts, run.trace, run.result.W if W is None else W, arrays)

    @property
    def adjacency(self) -> Any:
        """The graph that was cut, sparse and symmetric; None where there is none."""
        parts = self.arrays.get("side", self.arrays.get("labels"))
        if "edges" not in self.arrays or parts is None:
            return None
        n, (u, v, weight) = parts.size, self.arrays["edges"].T
        half = sp.coo_array((weight, (u.astype(np.int64), v.astype(np.int64))), shape=(n, n))
        return sp.csr_array(half + half.T)

    @property
    def sense(self) -> str:
        """``"min"`` or ``"max"``."""
        return str(self.facts.get("sense", "min"))

    def save(self, path: str | Path) -> None:
        """Write to an ``.npz`` file: ``W``, ``trace.NAME``, the arrays, ``facts`` as JSON.

        A `Factored` W is three arrays, ``W.U``, ``W.s`` and ``W.V``; a `Gram` VVᵀ is ``factor``.
        """
        path = Path(path)
        if path.suffix not in ("", ".npz") and (path.is_file() or not path.exists()):
            raise ProblemError(f"path is {str(path)!r}: end it in .npz")
        arrays: dict[str, Any] = {f"trace.{name}": self.trace[name] for name in self.trace}
        arrays |= {**self.arrays, "facts": json.dumps(dict(self.facts), default=str)}
        if isinstance(self.W, Factored):
            arrays |= {f"W.{name}": getattr(self.W, name) for name in FACTORS}
        elif isinstance(self.W, Gram):
            arrays["factor"] = self.W.factor
        elif self.W is not None:
            arrays["W"] = np.asarray(self.W)
        write_arrays(path, arrays)

    @classmethod
    def load(cls, path: str | Path) -> Record:
        """Read what `save` or `Trace.save` wrote.

        Files of earlier versions have no facts: their trace and W can still be drawn.
        """
        path = Path(path)
        try:
            if path.suffix in (".csv", ".json"):
                return _checked(cls({}, Trace.load(path)))
            if path.is_file() and not zipfile.is_zipfile(path):
                raise ValueError("it is neither .npz nor .csv nor .json")
            with path.open("rb") as file, np.load(file) as data:
                arrays = {name: data[name] for name in data.files}
            prefix = "trace." if any(name.startswith("trace.") for name in arrays) else ""
            columns = {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
            if missing := sorted(COLUMNS - set(columns)):
                raise ValueError(
                    f"it has no {', '.join(missing)}, but {', '.join(arrays) or 'nothing'}"
                )
            trace = Trace.of({n: a for n, a in columns.items() if prefix or n != "W"})
            facts = json.loads(str(arrays["facts"])) if "facts" in arrays else {}
            kept = {n: a for n, a in arrays.items() if n in ARRAYS or n.startswith(MODEL)}
            W: Any = Gram(arrays["factor"]) if "factor" in arrays else arrays.get("W")
            if all(f"W.{name}" in arrays for name in FACTORS):
                W = Factored(*(arrays[f"W.{name}"] for name in FACTORS))
            return _checked(cls(facts, trace, W, kept))
        except FileNotFoundError:
            raise InputError(path, "there is no such file") from None
        except InputError as error:
            raise InputError(path, f"{error.reason}: {REMEDY}") from None
        except Exception as error:  # zip, zlib, header, text and number errors of many types
            reason = f"this is no saved run ({cause(error)}): {REMEDY}"
            raise InputError(path, reason) from None


def write_arrays(path: str | Path, arrays: Mapping[str, Any]) -> None:
    """Write an ``.npz`` file that is whole or not there; compressed unless that would take long."""
    path = Path(path)
    if path.suffix != ".npz" and not (path.exists() and not path.is_file()):
        path = path.with_name(f"{path.name}.npz")
    size = sum(np.asarray(array).nbytes for array in arrays.values())
    with replaced(path) as file:
        (np.savez_compressed if size <= COMPRESSED else np.savez)(file, **arrays)


def versions() -> dict[str, str]:
    """Versions with which the run was made; nothing that names the machine or its user."""
    found = {"condgrad": condgrad.__version__, "Python": platform.python_version()}
    for package in ("numpy", "scipy", "numba", "matplotlib"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return {**found, "system": f"{platform.system()} {platform.machine()}".strip()}


def _words(run: Outcome, answer: Callable[[Console], None] | None) -> list[str]:
    """The answer in the words of the command line, a sentence a line."""
    found = None if run.rounded is None else run.rounded.answer
    file = io.StringIO()
    console = Console(file=file)
    if answer is not None:
        answer(console)
    elif hasattr(found, "labels"):
        report.print_clusters(run, console)
    elif hasattr(found, "side"):
        report.print_cut(run, console)
    return file.getvalue().splitlines()


def _say(answer: Answer, console: Console) -> None:
    """An answer in its own words."""
    console.print(str(answer), soft_wrap=True, highlight=False, markup=False)


def _name_only(argument: str) -> str:
    """An argument of the command line with the file name for a path."""
    option, equals, value = argument.rpartition("=") if argument[:2] == "--" else ("", "", argument)
    return option + equals + (Path(value).name or value)


def _checked(record: Record) -> Record:
    """Refuse a record without a trace, or whose facts are not named."""
    if missing := sorted(COLUMNS - set(record.trace)):
        raise ValueError(f"it has no column {', '.join(missing)}")
    if not len(record.trace):
        raise ValueError("it has no rows")
    if not isinstance(record.facts, dict):
        raise ValueError("its facts are not those of a run")
    return record
