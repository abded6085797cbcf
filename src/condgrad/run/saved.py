"""The state of a run in a file, and a run that goes on from there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import fields, replace
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from condgrad._types import Array
from condgrad.backends.arrays import foreign
from condgrad.checkpoint import Given, Pack, Print, Reader, packed, print_of, unpacked, write
from condgrad.checkpoint.graph import Maker, attributes
from condgrad.checkpoint.packs import FAULTS
from condgrad.checkpoint.prints import difference
from condgrad.cluster import Ray, cluster_of
from condgrad.errors import InputError, ProblemError
from condgrad.methods.protocol import Method, State
from condgrad.run.callbacks import Callback, Watch
from condgrad.run.monitor import Monitor
from condgrad.run.result import KEEP, Status

if TYPE_CHECKING:
    from condgrad.problem import Problem
    from condgrad.run.loop import Options, Run
    from condgrad.run.solve import Asked

COMMON = {"arrays": list, "prints": dict}
PARTS: dict[str, dict[str, type]] = {
    "done": {"name": str, **COMMON},
    "runs": {"number": int, "last": int, "since": list, "lightness": int, "device": str, **COMMON},
    "pages": {"number": int, **COMMON},
}
"""Keys and types of the entries of a file."""
_told: ContextVar[Mapping[str, Any]] = ContextVar("condgrad_told", default=MappingProxyType({}))
OPTIONS = ("record", "errors", "duals", "certify", "floor")
"""Options of `Watch` that a checkpoint keeps."""


def version() -> str:
    """Version of this package."""
    return str(sys.modules["condgrad"].__version__)


def given_by(run: Run) -> Given:
    """Objects that a run was given, or that are made of them before it begins."""
    watch = run._options.watch
    roots = {"problem": run.problem, "method": run.form}
    opaque = {"watch": watch, "metrics": watch.metrics, "propose": watch.propose}
    opaque |= {f"callback {i}": c for i, c in enumerate(watch.callbacks)}
    return Given(roots, opaque)


def memory_of(value: Any) -> dict[str, Any] | None:
    """Attributes that a callback or a metric must remember (`remembers` of the class), or None.

    Functions remember nothing.
    """
    names = getattr(type(value), "remembers", None)
    if names is None:
        return None
    parts = {name: getattr(value, name) for name in names}
    parts = {name: v for name, v in parts.items() if _minds(v) or not callable(v)}
    return {n: [memory_of(v), None] if _minds(v) else [None, v] for n, v in parts.items()}


def _minds(value: Any) -> bool:
    return hasattr(type(value), "remembers")


def remind(value: Any, memory: Mapping[str, Any] | None) -> None:
    """Restore the saved attributes of a callback or a metric."""
    for name, (inner, own) in (memory or {}).items():
        if inner is not None:
            remind(getattr(value, name), inner)
        else:
            setattr(value, name, own)


def watchers(watch: Watch) -> list[Any]:
    """Objects that may have a memory."""
    return [watch.propose, *watch.callbacks]


def pack(run: Run, **facts: Any) -> Pack:
    """All that a run needs to go on."""
    options, engine = run._options, run._engine
    if engine is not None:
        facts["shards"] = engine.shards
    value = {
        "run": attributes(run),
        "goal": options.goal,
        "memories": [memory_of(w) for w in watchers(options.watch)],
    }
    about = {
        "lightness": run.lightness,
        "device": "cuda" if foreign(run.problem.like) else "cpu",
        "method": _alone(run.method),
        "options": _alone(
            {name: getattr(options.watch, name) for name in OPTIONS}
            | {"seed": options.seed, "goal": options.goal}
        ),
    }
    with nullcontext() if engine is None else engine.fetched():
        return packed(value, "the run", given_by(run), **about, **facts)


def _alone(method: Any) -> Any:
    """A method as it can be made again without being given; None where it has a user's parts."""
    try:
        found = packed(method, "method")
    except ProblemError:
        return None
    return None if found.blocks else found.text


def prints(problem: Problem, method: Method, options: Options) -> Print:
    """Fingerprints that must agree for a checkpoint to be used."""
    watch, goal, given = options.watch, options.goal, _told.get()
    found = {**print_of(problem, "problem"), **print_of(method, "method")}
    about: dict[str, Any] = {name: getattr(watch, name) for name in OPTIONS}
    about |= {name: getattr(goal, name) for name in ("gap", "feasibility", "row_feasibility")}
    about |= {"seed": options.seed, "start": options.start, "metrics": sorted(watch.metrics)}
    about["propose"] = watch.propose is not None
    if options.cluster is not None:
        about["shards"] = options.cluster.shards
    if given:  # these are named first
        about = {**given, **{f"{n} of the run" if n in given else n: v for n, v in about.items()}}
    for name, value in about.items():
        found.update(print_of(value, name))
    return found


@contextmanager
def told(**options: Any) -> Iterator[None]:
    """Keep the options of the user, by name, if the runs in the block get other ones.

    A checkpoint of another call is refused in the user's words.
    """
    token = _told.set(options)
    try:
        yield
    finally:
        _told.reset(token)


def restore(run: Run, entry: Any, reader: Reader) -> None:
    """Give a run that is prepared the state of one that was saved."""
    for name in attributes(run):
        delattr(run, name)  # another state of the same size
    found = unpacked(entry, reader, given_by(run), run.problem.like)
    try:
        vars(run).update(found["run"])
        _require_fit(run)
        if run._engine is not None:
            run._engine.revive(run.state)
        run._options, watch = replace(run._options, goal=found["goal"]), run._options.watch
        for who, memory in zip(watchers(watch), found["memories"], strict=False):
            remind(who, memory)
        if run._monitor.status is None:
            run._monitor.status = Status.PAUSED
    except FAULTS as error:
        raise reader.damaged(f"it does not fit together ({error})") from None
    run.stale = run.torn = False
    run.resumed = run.state.k


def _require_fit(run: Run) -> None:
    """Raise a TypeError if arrays are not those of the problem; kernels do not look."""
    s, terms = run.state, run.problem.terms
    good = isinstance(s, State) and isinstance(run._monitor, Monitor)
    good = good and s.W.shape == run._monitor._best.W.shape == run.problem.domain.shape
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


def save(run: Run, path: str | PathLike[str]) -> None:
    """Write a run to a file."""
    if not sound(run):
        raise ProblemError(
            f"the run was broken off ({run._monitor.status}), maybe within an iteration: save it "
            "before, or let solve(..., checkpoint=path) do so"
        )
    own = prints(run.asked, run.method, run._options)
    ready = pack(run, number=0, last=0, since=[0, 0.0, 0], prints=own)
    blocks: list[Any] = []
    entry = ready.entry(blocks)
    write(path, {"condgrad": version(), "done": [], "runs": [entry], "pages": []}, blocks)


def sound(run: Run) -> bool:
    """True if the state is that of a whole iteration."""
    status = run._monitor.status
    return status not in KEEP and not (run.torn and status is not None)


def ended(run: Run) -> bool:
    """Whether a run was over when it was saved, by a callback that says so (`final`).

    Such a callback depends on nothing but the iteration. After the others a run goes on.
    """
    monitor = run._monitor
    if monitor.status not in (Status.STOPPED, *Status.limits()) or not run.state.k:
        return False
    watchers = [c for c in run._options.watch.callbacks if getattr(c, "final", False)]
    return any(bool(c(monitor.info())) for c in watchers)


def opened(path: str | PathLike[str]) -> Reader:
    """A checkpoint of this version, or the reason why it is none."""
    try:
        reader = Reader(path)
    except FileNotFoundError:
        raise ProblemError(
            f"there is no checkpoint {str(path)!r}: start without it (resume=None)"
        ) from None
    except OSError as error:
        raise InputError(Path(path), f"the checkpoint cannot be read ({error.strerror})") from None
    text = reader.text
    if not isinstance(text, dict) or not all(_entries(text.get(n), PARTS[n]) for n in PARTS):
        raise reader.damaged("its description cannot be read")
    if text.get("condgrad") != version():
        raise InputError(
            reader.path,
            f"this checkpoint is of condgrad {text.get('condgrad')}, and this is {version()}: go "
            "on with that version, or start anew",
        )
    return reader


def _entries(found: Any, parts: dict[str, type]) -> bool:
    """Whether these are entries of a file with such parts."""
    return isinstance(found, list) and all(
        isinstance(e, dict) and all(isinstance(e.get(n), kind) for n, kind in parts.items())
        for e in found
    )


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
    from condgrad.run.loop import Options  # which saves itself
    from condgrad.run.solve import Asked

    reader = opened(path)
    if not reader.text["runs"]:
        raise InputError(
            reader.path, "this checkpoint has no run at work: its call has other parts"
        )
    entry = reader.text["runs"][-1]
    try:
        options, old, device = dict(_plain(entry["options"])), entry["prints"], entry["device"]
        if method is None:
            method = _plain(entry["method"])
        if method is None:
            raise ProblemError("the method has parts of your own: pass it as `method`")
        seed, goal = options.pop("seed"), options.pop("goal")
        watch = Watch(metrics=metrics or {}, callbacks=callbacks, propose=propose, **options)
        wish = cluster_of(cluster)
        own = Asked(problem, method, Options(None, goal, watch, seed, n_jobs, device, wish))
    except ProblemError:
        raise
    except FAULTS:
        raise reader.damaged("its description cannot be read") from None
    here = {**print_of(problem, "problem"), **print_of(method, "method")}
    there = {n: v for n, v in old.items() if n.startswith(("problem", "method"))}
    refuse(path, here, there)
    return revived(own, entry, reader)


def _for_shards(shards: Any, wish: Ray | None) -> Ray | None:
    """A cluster for the shards of a checkpoint."""
    if shards is None and wish is None:
        return None
    if shards is None:
        raise ProblemError("cluster is given, but the checkpoint is of a run without: leave it out")
    if wish is None or wish.shards not in (None, shards):
        raise ProblemError(
            f"the checkpoint is of a run on a cluster with {shards} shards: pass "
            f"cluster=Ray(shards={shards})"
        )
    return replace(wish, shards=int(shards))


def revived(own: Asked, entry: Any, reader: Reader) -> Run:
    """The run that an entry of a file is of; `own` says what is given to it."""
    from condgrad.run.loop import Run  # which saves itself

    run = Run.__new__(Run)
    wish = _for_shards(entry.get("shards"), own.options.cluster)
    options = replace(own.options, device=entry.get("device", "cpu"), cluster=wish)
    run.prepare(own.problem, own.method, options, int(entry.get("lightness", 0)))
    try:
        restore(run, entry, reader)
    except BaseException:
        run.close()
        raise
    return run


def refuse(path: Any, here: Print, there: Print) -> None:
    """Refuse a checkpoint of something else."""
    other = difference(here, there)
    if other is not None:
        raise InputError(path, f"this checkpoint is of something else: {other}")


def _plain(text: Any) -> Any:
    """A value without arrays."""
    return Maker(Given({}, {}), cast(Any, [])).value(text)
