"""A run: a method on a problem, its state, and the one loop that advances it.

All that an iteration reads or writes is in the state. Callbacks, trace, proofs and progress watch
and change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from os import PathLike
from typing import Any

import numpy as np

from condgrad import _deadline as deadline
from condgrad._check import dimension
from condgrad._round import counted
from condgrad._types import Array
from condgrad.backends import memory, threads
from condgrad.backends.arrays import foreign
from condgrad.cluster import Engine, Late, Lost, Ray
from condgrad.domains import Domain
from condgrad.errors import ProblemError, from_keyboard
from condgrad.methods.balance import GPU_EFFORT
from condgrad.methods.protocol import Known, Method, State, length_of
from condgrad.problem import Problem
from condgrad.run import saved
from condgrad.run.callbacks import Callback, Info, check_callbacks
from condgrad.run.limits import Counts, Goal, Limits
from condgrad.run.monitor import Monitor, proposal
from condgrad.run.prepare import first_point, fitted, generator, prepared
from condgrad.run.result import GOES_ON, KEEP, Result, Status
from condgrad.testing import check_parts

BREAKS = (KeyboardInterrupt, SystemError, MemoryError, Late, Lost)
"""Errors that may break off a run and leave the best point so far."""
TOWARDS = 100_000
"""Iterations towards a goal, if there is no limit."""


@dataclass(frozen=True)
class Asked:
    """A run that is asked for: all its options, those that only watch it checked."""

    problem: Problem
    method: Method
    goal: Goal
    _: KW_ONLY
    start: Any = None
    certify: bool = True
    record: int | None = None
    metrics: Mapping[str, Callable[[Array], float]] = field(default_factory=dict)
    callbacks: Sequence[Callback] = ()
    propose: Callable[[Array], Array | None] | None = None
    floor: float | None = None
    errors: bool = False
    duals: bool = False
    seed: Any = 0
    n_jobs: int | None = None
    device: str = "cpu"
    cluster: Ray | None = None

    def __post_init__(self) -> None:
        if self.goal.wanted and not self.certify:
            raise ProblemError("certify is False, but a gap is asked for: leave certify out")
        if self.record is not None:
            dimension("record", self.record)
        if not isinstance(self.metrics, Mapping):
            raise ProblemError("metrics must be a dict from names to functions of W")
        for name, metric in self.metrics.items():
            if not callable(metric):
                raise ProblemError(f"metrics[{name!r}] is not callable: pass a function of W")
        check_callbacks(self.callbacks)
        number = isinstance(self.floor, (int, float, np.number))
        if self.floor is not None and not (number and np.isfinite(self.floor)):
            raise ProblemError(f"floor is {self.floor!r}: it must be a number below the optimum")
        if self.propose is not None and not callable(self.propose):
            raise ProblemError("propose is not callable: pass a function of W")


class Run:
    """A method on a problem, which can be advanced, looked at and left at any point.

    Made by `condgrad.start`. Iterating over a run advances it by one iteration at a time.

    Examples
    --------
    >>> import condgrad as cg
    >>> cost = cg.Term(cg.maps.Inner([1.0, 2.0]), cg.functions.Linear())
    >>> run = cg.start(cg.Problem(cg.domains.Simplex(2), [cost]))
    >>> run.advance(iterations=10).result().objective
    1.0
    """

    whole = True
    """Whether W is that of a whole iteration."""
    resumed: int | None = None
    """The iteration from which the run went on, if it came from a file."""
    _engine: Engine | None = None
    _note = ""
    state: State

    def __init__(self, asked: Asked) -> None:
        self.prepare(asked)
        W = first_point(self.problem, asked.start, self.form.factors)
        with self._threads():
            known, rng = self._known(W), generator(asked.seed)
            self.state = self.form.init(self.problem, W, rng, known)
            self._monitor = Monitor(self)

    def prepare(self, asked: Asked, method: Method | None = None) -> None:
        """Find the device and the form of the run; a file has the method itself."""
        self.asked = asked
        self._threads = threads.Calm(asked.n_jobs)
        self._engine = None if asked.cluster is None else Engine(asked.cluster)
        try:
            found = prepared(asked.problem, method or asked.method, asked.device, self._engine)
            check_parts(asked.problem, asked.certify)
        except BaseException:
            self.close()
            raise
        self.problem, self.method, self.form = found

    def close(self) -> None:
        """Give the actors of a cluster back, after which the run cannot go on; else nothing."""
        if self._engine is not None:
            self._engine.close()

    def _known(self, W: Array) -> Known:
        """Numbers that are known before the run, looked at from a point."""
        floor, propose = self.asked.floor, self.asked.propose
        seen = look(self.problem, propose, W) if propose is not None and self.form.looks else {}
        return Known(*self.asked.goal.all, -np.inf if floor is None else float(floor), **seen)

    def advance(
        self,
        *,
        iterations: int | None = None,
        epochs: float | None = None,
        seconds: float | None = None,
        lmo_calls: int | None = None,
        until: Goal | Callable[[Info], object] | None = None,
    ) -> Run:
        """Go on until a limit, counted from now, is reached, or the run ends by itself.

        Parameters
        ----------
        iterations, epochs, seconds, lmo_calls : number, optional
            Limits as those of `condgrad.solve`; without any and without `until` 1000 iterations.
        until : Goal or callable, optional
            A goal takes the place of the one that the run had, and stays; without a limit there
            are 100,000 iterations for it. A run that has converged goes on where it was, and so
            does one that ended by a limit or a callback. A callable is shown an `Info` after every
            iteration; True ends this call.

        Returns
        -------
        Run
            The run itself.
        """
        names = ("iterations", "epochs", "seconds", "lmo_calls")
        most: float | None = iterations
        if until is not None and iterations is epochs is seconds is lmo_calls is None:
            most = np.inf if not isinstance(until, Goal) else TOWARDS if until.wanted else None
        return self.advance_to(Limits(most, epochs, seconds, lmo_calls, names), until)

    def advance_to(
        self,
        limits: Limits,
        until: Goal | Callable[[Info], object] | None = None,
        since: Counts | None = None,
    ) -> Run:
        """Go on within limits that count from now, or from what was done before."""
        monitor = self._monitor
        if isinstance(until, Goal):
            self.asked, until = replace(self.asked, goal=until), None
            names = ("gap", "feasibility", "rows")
            own = dict(zip(names, self.asked.goal.all, strict=True))
            self.state.known = replace(self.state.known, **own)
            monitor.aim(self.asked)
        elif until is not None and not callable(until):
            raise ProblemError("until is no Goal and not callable: pass Goal(gap=1e-3)")
        with deadline.within(limits.seconds), self._threads():
            if monitor.begin(limits, until, since):
                try:
                    self._loop(monitor)
                except np.linalg.LinAlgError:
                    monitor.record.status, self.whole = Status.NONFINITE, True
                except BREAKS as error:
                    self._break_off(error)
                finally:  # after any other error the best point so far can be had
                    monitor.record.status = monitor.record.status or Status.INTERRUPTED
        return self

    def _loop(self, monitor: Monitor) -> None:
        """Every method is this loop."""
        errors = self.asked.errors
        over = False
        while not over:
            if errors:
                monitor.before = self.state.W.copy()
            k = self.state.k
            try:
                self.state = self.form.step(self.problem, self.state, monitor.room())
            finally:  # a compiled call may have made iterations before it was broken off
                self.whole = self.state.k > k
            over = monitor.after(self.state)

    def _break_off(self, error: BaseException) -> None:
        """Say what has broken it off."""
        if isinstance(error, MemoryError):
            self._monitor.record.status, self._note = Status.OUT_OF_MEMORY, memory.shortage(error)
        elif isinstance(error, Late):
            self._monitor.record.status = Status.MAX_SECONDS
        elif isinstance(error, Lost):
            self._monitor.record.status, self._note = Status.LOST, str(error)
        elif from_keyboard(error):
            self._monitor.record.status = Status.INTERRUPTED
        else:
            raise error

    def move(self, domain: Domain) -> Run:
        """Go on over another domain of the same kind, such as one with a larger trace.

        What the run remembers stays: slopes, what the steps have measured, iterations and counters.
        Multipliers are scaled by the factor in [0, 1] that proves most for this domain, since they
        grow if the rows have no solution. A β that the method finds goes halfway to a guess for
        this domain. Bound, status, best point and trace begin anew.

        Parameters
        ----------
        domain : Domain
            It must contain W, which is scaled if the domain fixes its trace.

        Returns
        -------
        Run
            The run itself.
        """
        s, before, given = self.state, self.problem, domain
        domain = domain.on(before.like) if foreign(before.like) else domain
        if type(domain) is not type(before.domain):
            raise ProblemError(
                f"domain is a {type(domain).__name__}: the run is over a "
                f"{type(before.domain).__name__}"
            )
        status = self._monitor.record.status
        if status in KEEP:
            raise ProblemError(f"the run cannot go on ({status}): start another")
        problem, own = before.over(domain, before.terms, before.like), self.asked.problem
        asked = replace(self.asked, problem=own.over(given, own.terms, own.like))
        check_parts(problem, asked.certify)
        W = fitted(s.W, domain)
        if W.shape != domain.shape or not domain.contains(W, 1e-6):
            kind = type(domain).__name__
            raise ProblemError(f"domain, a {kind}, does not contain the W of the run: enlarge it")
        with self._threads():
            self._monitor.record.status, self.whole = Status.INTERRUPTED, False  # until it is there
            self.problem, self.asked = problem, asked
            if W is not s.W:  # scaled
                s.W[...] = W.astype(problem.dtype, copy=False)
            share = 1.0
            if any(y is not None for y in self.form.multipliers(problem, s)):
                share = self.form.measure(problem, s).scale
            s.known, s.report = self._known(s.W), None
            self.state = self.form.rebase(problem, s, share)
            self._monitor = Monitor(self, self._monitor.record.clock)
            self.whole = True
        return self

    def save(self, path: str | PathLike[str]) -> None:
        """Write all of its state to a file, from which `condgrad.resume` goes on.

        The file is whole or not there: it is written beside and renamed.

        Raises
        ------
        ProblemError
            If the run was broken off within an iteration, or has parts of a user's own classes in
            its state.
        """
        if self._monitor.record.status in KEEP:
            raise ProblemError(
                f"the run was broken off ({self._monitor.record.status}), maybe within an "
                "iteration: save it before, or let solve(..., checkpoint=path) do so"
            )
        about = {"number": 0, "last": 0, "since": (0, 0.0, 0), "prints": saved.prints(self.asked)}
        saved.write(path, {"runs": [saved.entry_of(self, **about)]})

    def __repr__(self) -> str:
        done, status = counted(self.state.k, "iteration"), self._monitor.record.status
        return f"<Run: {self.name} after {done}; {status}>"

    def __iter__(self) -> Iterator[Info]:
        """Advance by one iteration at a time, until the run ends by itself."""
        while self.advance(iterations=1)._monitor.record.status in GOES_ON:
            self._monitor.record.status = Status.PAUSED
            yield self._monitor.info()

    @property
    def name(self) -> str:
        """The name of the method."""
        return self.method.name

    def result(self, factors: bool = False) -> Result:
        """The best point, an honest status and the trace; the run can be advanced afterwards.

        With `factors` a W that is kept as factors is a `Factored`, however small it is.
        """
        with self._threads():
            try:
                found = self._monitor.result(self.whole, factors)
            except BREAKS as error:
                self._break_off(error)
                found = self._monitor.result(False, factors)
            said = [self._note, "" if self._engine is None else self._engine.note]
            note = "; ".join(dict.fromkeys(filter(None, said)))
            return replace(found, note=note, resumed=self.resumed)


def look(problem: Problem, propose: Callable[[Array], Array | None], W: Array) -> dict[str, float]:
    """A point below and one above: the oracle's answer to ∇f(W), and what is proposed for it."""
    v = np.zeros(problem.domain.shape, like=problem.like)
    for t in problem.smooth:
        v += t.gradient(W, 1.0)
    effort = GPU_EFFORT if foreign(v) else None
    S = problem.domain.lmo(v, effort=effort, rng=np.random.default_rng(0)).dense()
    del v  # arrays of its size may be few
    point = proposal(propose, S.astype(problem.dtype, copy=not foreign(S)))
    if point is None:
        return {}
    families = problem.evaluate(S).families
    lengths = {t.name: length_of(t) for t in problem.composite}
    missed = sum((f.l2 / lengths[name]) ** 2 for name, f in families.items())
    return {"below": problem.objective(S), "above": problem.objective(point), "missed": missed}
