"""The state of a run in a file, and a run that goes on from there.

A file has *fingerprints* too: enough to tell that it belongs to another problem.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from enum import Enum
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from condgrad._types import Array
from condgrad.backends.arrays import foreign, host
from condgrad.cluster import Ray, cluster_of
from condgrad.errors import InputError, ProblemError
from condgrad.methods.protocol import Method, State
from condgrad.run import files
from condgrad.run.callbacks import Callback
from condgrad.run.files import FAULTS, OURS, Pack, damaged
from condgrad.run.limits import Goal
from condgrad.run.monitor import Monitor, Record
from condgrad.run.result import Status

if TYPE_CHECKING:
    from condgrad.problem import Problem
    from condgrad.run.loop import Asked, Run

MARK = ", with the digest "
SHOWN = (bool, int, float, complex, str, bytes, slice, range, np.dtype, Enum, type(None))
Print = dict[str, str]
"""Fingerprint: facts by the name of a part."""
COMMON: dict[str, Any] = {"number": int, "prints": dict}
PARTS: dict[str, dict[str, Any]] = {
    "done": {"name": str, "prints": dict},
    "runs": {
        **COMMON,
        **{"last": int, "since": tuple, "form": (Method, type(None))},
        **{"method": (Method, type(None)), "goal": Goal, "options": dict},
        **{"device": str, "shards": (int, type(None))},
    },
    "pages": COMMON,
}
"""Facts of the entries of a file, with their types."""
OPTIONS = ("record", "errors", "duals", "certify", "floor", "seed")
"""Options that a checkpoint keeps."""


@dataclass
class Entry:
    """A part of a file: a run, a page, or the result of a stage that is done."""

    about: dict[str, Any]
    """Facts that are known before the tree is made."""
    pack: Pack


Kept = dict[str, list[Entry]]
"""The entries of a file: of stages that are done, of ``runs`` and of ``pages``."""


def write(path: str | PathLike[str], kept: Kept) -> None:
    """Write a file: a description, and the trees."""
    about = {name: [entry.about for entry in kept.get(name, ())] for name in PARTS}
    head = Pack.of({"condgrad": version(), **about}, "the checkpoint")
    packs = [entry.pack for name in PARTS for entry in kept.get(name, ())]
    files.save(path, [head, *packs])


def version() -> str:
    """Version of this package."""
    return str(sys.modules["condgrad"].__version__)


def memory_of(value: Any) -> dict[str, Any] | None:
    """Attributes that a callback must remember (`remembers` of its class), or None.

    Functions remember nothing.
    """
    names = getattr(type(value), "remembers", None)
    if names is None:
        return None
    parts = {name: getattr(value, name) for name in names}
    own = {n: memory_of(v) if hasattr(type(v), "remembers") else v for n, v in parts.items()}
    return {name: v for name, v in own.items() if not callable(v)}


def remind(value: Any, memory: Mapping[str, Any] | None) -> None:
    """Restore the saved attributes of a callback."""
    for name, own in (memory or {}).items():
        there = getattr(value, name)
        if isinstance(own, dict) and hasattr(type(there), "remembers"):
            remind(there, own)
        else:
            setattr(value, name, own)


def memories_of(asked: Asked) -> list[dict[str, Any] | None]:
    """The memories of all that may have one."""
    return [memory_of(w) for w in (asked.propose, *asked.callbacks)]


def remind_all(asked: Asked, memories: Sequence[Any]) -> None:
    """Restore the saved attributes of all that had a memory."""
    for one, memory in zip((asked.propose, *asked.callbacks), memories, strict=False):
        remind(one, memory)


def entry_of(run: Run, **about: Any) -> Entry:
    """All that a run needs to go on, and what is known of it."""
    asked, engine = run.asked, run._engine
    tree = {"state": run.state, "record": run._monitor.record, "memories": memories_of(asked)}
    methods: tuple[Method | None, ...] = asked.method, run.method
    try:
        Pack.of(methods, "method")
    except ProblemError:  # it has a user's parts
        methods = None, None
    about["method"], about["form"] = methods
    about["shards"] = None if engine is None else engine.shards
    about |= {"device": "cuda" if foreign(run.problem.like) else "cpu"}
    about["goal"] = asked.goal
    about["options"] = {name: getattr(asked, name) for name in OPTIONS}
    with nullcontext() if engine is None else engine.fetched(run.state):
        return Entry(about, Pack.of(tree, "run"))


def prints(asked: Asked) -> Print:
    """Fingerprints that must agree for a checkpoint to be used."""
    found = {**print_of(asked.problem, "problem"), **print_of(asked.method, "method")}
    about: dict[str, Any] = {name: getattr(asked, name) for name in (*OPTIONS, "start")}
    about |= vars(asked.goal) | {"metrics": sorted(asked.metrics)}
    about["propose"] = asked.propose is not None
    about["shards"] = None if asked.cluster is None else asked.cluster.shards
    for name, value in about.items():
        found |= print_of(value, name)
    return found


def restore(run: Run, entry: Entry, path: Path) -> None:
    """Give a run that is prepared the state of one that was saved."""
    for name in {"state", "_monitor"} & set(vars(run)):
        delattr(run, name)  # another state of the same size comes
    found = entry.pack.tree(path, run.problem.like)
    try:
        run.state, record = found["state"], found["record"]
        _require_fit(run, record)
        if run._engine is not None:
            run._engine.revive(run.state)
        run.asked = replace(run.asked, goal=entry.about["goal"])
        remind_all(run.asked, found["memories"])
        run._monitor = Monitor(run, record=record)
        record.status = record.status or Status.PAUSED
    except FAULTS as error:
        raise damaged(path, f"it does not fit together ({error})") from None
    run.resumed = run.state.k


def _require_fit(run: Run, record: Any) -> None:
    """Raise a TypeError if arrays are not those of the problem; kernels do not look."""
    s, terms = run.state, run.problem.terms
    good = isinstance(s, State) and isinstance(record, Record)
    good = good and s.W.shape == record.best.W.shape == run.problem.domain.shape
    good = good and len(s.rows) == len(s.betas) == len(terms)
    good = good and isinstance(s.rng, np.random.Generator)
    for f in fields(s):
        parts = getattr(s, f.name)
        if not (isinstance(parts, list) and parts and hasattr(parts[0], "G")):
            continue
        for term, part in zip(terms, parts, strict=True):
            sizes = {"G": term.map.storage, "y": term.map.size, "slopes": term.map.size}
            own = {n: getattr(part, n, None) for n in sizes}
            good = good and all(
                a is None or foreign(a) or a.size == sizes[n] for n, a in own.items()
            )
    if not good:
        raise TypeError("arrays of other sizes")


def ended(run: Run) -> bool:
    """Whether a run was over when it was saved, by a callback that says so (`final`).

    Such a callback depends on nothing but the iteration. After the others a run goes on.
    """
    monitor = run._monitor
    if monitor.record.status not in (Status.STOPPED, *Status.limits()) or not run.state.k:
        return False
    final = [c for c in run.asked.callbacks if getattr(c, "final", False)]
    return any(bool(c(monitor.info())) for c in final)


def opened(path: str | PathLike[str]) -> Kept:
    """A checkpoint of this version, or the reason why it is none."""
    try:
        head, *packs = files.load(path) or [Pack()]
    except FileNotFoundError:
        raise ProblemError(
            f"there is no checkpoint {str(path)!r}: start without it (resume=None)"
        ) from None
    except OSError as error:
        raise InputError(Path(path), f"the checkpoint cannot be read ({error.strerror})") from None
    about = head.tree(path)
    try:
        if about["condgrad"] != version():
            raise InputError(
                Path(path),
                f"this checkpoint is of condgrad {about['condgrad']}, and this is {version()}: go "
                "on with that version, or start anew",
            )
        rest = iter(packs)
        kept = {name: [Entry(facts, next(rest)) for facts in about[name]] for name in PARTS}
        for name, entries in kept.items():
            for entry in entries:
                if any(not isinstance(entry.about[n], kind) for n, kind in PARTS[name].items()):
                    raise TypeError("facts of other types")
    except InputError:
        raise
    except (*FAULTS, StopIteration):
        raise damaged(path, "its description cannot be read") from None
    return kept


def resume(
    path: str | PathLike[str],
    problem: Problem,
    method: Any = None,
    *,
    metrics: Mapping[str, Callable[[Array], float]] | None = None,
    callbacks: Sequence[Callback] = (),
    propose: Callable[[Array], Array | None] | None = None,
    n_jobs: int | None = None,
    cluster: str | Ray | None = None,
) -> Run:
    """The run of a checkpoint, as it was when it was saved; `advance` takes it further.

    With as many threads as before its iterates, its trace and its result are those of a run that
    was never stopped, bit for bit. Its clock goes on where it stood.

    Parameters
    ----------
    path : str or Path
        A file that `Run.save` or ``solve(..., checkpoint=path)`` wrote.
    problem : Problem
        The same problem: a checkpoint has none of its data. Classes, shapes, parameters and arrays
        are compared, functions by their names.
    method : Method, optional
        The same method, where it has parts that are not of this package; default: that of the file.
    metrics, callbacks, propose, n_jobs
        As they were given to `condgrad.solve`, of which a checkpoint has none.
    cluster : str or condgrad.cluster.Ray, optional
        Where the run was on a cluster: one for as many shards.

    Returns
    -------
    Run
        The run.

    Raises
    ------
    InputError
        Where the file is damaged, no checkpoint, or of another problem, method or version.
    """
    from condgrad.run.loop import Asked  # which saves itself

    path, runs = Path(path), opened(path)["runs"]
    if not runs:
        raise InputError(path, "this checkpoint has no run at work: its call has other parts")
    about = runs[-1].about
    try:
        method = about["method"] if method is None else method
        if method is None:
            raise ProblemError("the method has parts of your own: pass it as `method`")
        own = Asked(
            *(problem, method, about["goal"]),
            **about["options"],
            metrics=metrics or {},
            callbacks=callbacks,
            propose=propose,
            n_jobs=n_jobs,
            cluster=cluster_of(cluster),
        )
        there = {n: v for n, v in about["prints"].items() if n.startswith(("problem", "method"))}
    except ProblemError:
        raise
    except FAULTS:
        raise damaged(path, "its description cannot be read") from None
    refuse(path, {**print_of(problem, "problem"), **print_of(method, "method")}, there)
    return revived(own, runs[-1], path)


def revived(own: Asked, entry: Entry, path: Path) -> Run:
    """The run that an entry of a file is of; `own` says what is given to it."""
    from condgrad.run.loop import Run  # which saves itself

    run, about = Run.__new__(Run), entry.about
    wish, shards = own.cluster, about["shards"]
    if wish is not None and shards is None:
        raise ProblemError("cluster is given, but the checkpoint is of a run without: leave it out")
    if shards is not None and (wish is None or wish.shards not in (None, shards)):
        raise ProblemError(
            f"the checkpoint is of a run on a cluster with {shards} shards: pass "
            f"cluster=Ray(shards={shards})"
        )
    if wish is not None:
        wish = replace(wish, shards=shards)
    try:
        run.prepare(replace(own, device=about["device"], cluster=wish), about["form"])
    except AssertionError:
        raise damaged(path, "its run has no such form") from None
    try:
        restore(run, entry, path)
    except BaseException:
        run.close()
        raise
    return run


def refuse(path: Any, here: Print, there: Print) -> None:
    """Refuse a checkpoint of something else, by the first difference of the fingerprints."""
    for name in {**there, **here}:
        facts = [str(own.get(name, "missing")) for own in (here, there)]
        if facts[0] != facts[1]:
            new, old = (fact.partition(MARK)[0] for fact in facts)
            how = "has other numbers" if new == old else f"is {new} here and was {old}"
            raise InputError(path, f"this checkpoint is of something else: {name} {how}")


def print_of(value: Any, name: str, seen: set[int] | None = None) -> Print:
    """Fingerprint of a value, part by part: classes, numbers, and digests of arrays.

    Functions count by their names. What an object finds out by itself when it is asked
    (`cached_property`) does not count.
    """
    seen = set() if seen is None else seen
    value = value.item() if isinstance(value, np.generic) else value
    if foreign(value) or isinstance(value, np.ndarray):
        return {name: _digest(host(value))}
    if isinstance(value, SHOWN):
        return {name: repr(value)}
    if id(value) in seen:
        return {}
    seen.add(id(value))
    called = value if hasattr(value, "__qualname__") else type(value)
    found = {name: f"{called.__module__}.{called.__qualname__}"}
    for step, part in _parts(value).items():
        found |= print_of(part, name + step, seen)
    return found


def _parts(value: Any) -> Mapping[str, Any]:
    """The parts of a value by what their names add to its own; none of a stranger's object."""
    if isinstance(value, partial):
        return {".func": value.func, ".args": value.args, ".keywords": value.keywords}
    if isinstance(value, Mapping):
        return {f"[{k!r}]": v for k, v in value.items()}
    if isinstance(value, (set, frozenset)):
        return {"": repr(sorted(map(repr, value)))}
    if isinstance(value, (list, tuple)):
        return {f"[{i}]": v for i, v in enumerate(value)}
    if sp.issparse(value):
        same = sp.csr_array(value)
        numbers = {".data": same.data, ".indptr": same.indptr, ".indices": same.indices}
        return {".shape": repr(same.shape), **numbers}
    kind = type(value)
    if not any(base.__module__.startswith(OURS) for base in kind.__mro__):
        return {}
    own = vars(value).items()
    return {f".{n}": v for n, v in own if not isinstance(getattr(kind, n, None), cached_property)}


def _digest(array: Any) -> str:
    """Type, shape and a digest of the numbers."""
    flat = np.ascontiguousarray(array).reshape(-1)
    data: Any = repr(array.tolist()).encode() if array.dtype.hasobject else flat.view(np.uint8).data
    digest = hashlib.blake2b(data, digest_size=16).hexdigest()
    return f"an array of {array.dtype} and shape {array.shape}{MARK}{digest}"
