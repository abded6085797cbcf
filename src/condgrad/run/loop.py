"""A run is a value: everything an iteration reads or writes is in its state, and one function
advances it. Callbacks, trace, certificate and progress watch and change nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np

from condgrad import _deadline as deadline
from condgrad._round import counted
from condgrad._types import Array
from condgrad.backends import memory, threads
from condgrad.backends.arrays import foreign
from condgrad.certificate import Certificate
from condgrad.cluster import Engine, Lost
from condgrad.domains import Domain
from condgrad.errors import ProblemError, from_keyboard
from condgrad.methods.control import BalanceState
from condgrad.methods.lead import look
from condgrad.methods.registry import Method
from condgrad.points.dense import Dense
from condgrad.problem import Problem
from condgrad.rows import keeper_of
from condgrad.run import saved, vector_loop
from condgrad.run.asked import Options
from condgrad.run.callbacks import Info
from condgrad.run.direction import direction, lend
from condgrad.run.limits import Counts, Goal, Limits
from condgrad.run.monitor import Monitor
from condgrad.run.prepare import first_point, fitted, generator, leading
from condgrad.run.result import KEEP, Result, Status
from condgrad.run.state import RunState
from condgrad.testing import check_parts

GOES_ON = (*Status.limits(), Status.STOPPED, Status.PAUSED)
"""Ends after which a run can be advanced."""
BREAKS = (KeyboardInterrupt, SystemError, MemoryError, Lost)
"""Errors that may break off a run and leave the best point so far."""
TOWARDS = 100_000
"""Iterations towards a goal, where there is no limit."""


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

    _transient: tuple[str, ...] = (
        *("problem", "method", "asked", "first", "estimators", "_options", "_threads", "_engine"),
        *("torn", "stale", "_note", "resumed"),
    )
    """Attributes outside the state: they were given, or are made of what was (`saved.py`)."""
    _note = ""  # on memory
    _engine: Engine | None = None
    resumed: int | None = None
    """The iteration from which it went on, where it came from a file."""

    def __init__(self, problem: Problem, method: Method, options: Options) -> None:
        self.prepare(problem, method, options)
        self._begin()

    def prepare(self, problem: Problem, method: Method, options: Options) -> None:
        """See where it will run, and who begins; memory is asked for here."""
        self.asked, self.method, self._options = problem, method, options
        self._threads = threads.Calm(options.n_jobs)
        self._engine = None if options.cluster is None else Engine(options.cluster)
        try:
            found = leading(problem, method, options.device, self._engine)
            check_parts(problem, options.watch.certify)
        except BaseException:
            self.close()
            raise
        self.first, self.estimators, self.problem = found

    def close(self) -> None:
        """Give the actors of a cluster back, after which the run cannot go on; else nothing."""
        if self._engine is not None:
            self._engine.close()

    def _begin(self) -> None:
        """Make the state before the first iteration."""
        problem, options, estimators = self.problem, self._options, self.estimators
        self._lead = self.first
        method = self.method if self._lead is None else self._lead.method
        previous = options.watch.errors or any(e.needs_previous for e in estimators)
        W = Dense(first_point(problem, options.start), previous)
        deadline.check()
        pairs = zip(problem.terms, estimators, strict=True)
        rows = [keeper_of(t, e, problem) for t, e in pairs]
        v = np.zeros(problem.domain.shape, problem.dtype, like=problem.like)
        with self._threads():
            certificate = self._certificate(problem)
            self.state = RunState(W, v, rows, None, None, generator(options.seed))
            self._set_out(method, W.array, certificate)
            deadline.check()
            if self._lead is not None:
                self._seen = look(problem, options.watch.propose, problem.domain.center())
            if vector_loop.applies(problem, rows):
                self.state.vector = vector_loop.Scaled(W.array.copy(), np.ones(1))
            deadline.check()
            self._monitor = Monitor(
                problem,
                self.state,
                self._control,
                certificate,
                options.goal,
                options.watch,
                pace=self._step.proofs,
            )

    def _set_out(self, method: Method, W: Array, certificate: Certificate | None) -> None:
        """Begin with a method, or go on with another; W is the first point of the run."""
        s, problem, options = self.state, self.problem, self._options
        lend(s.terms, s.v)
        self._running, self._judge, self._control = method, certificate, None
        if not method.suits(problem):  # known before, but for arrays on a GPU
            raise ProblemError(
                f"{method.name} cannot run on a GPU here: leave device out, or use sag_cgal()"
            )
        self._step = method.step.begin(problem, s.terms)
        if method.auto and problem.composite:
            assert certificate is not None
            how = (options.goal.all, certificate, self._step, options.watch.propose)
            self._control = method.control.begin(problem, W, *how)
        s.step, s.control = self._step.state, None
        if self._control is not None:
            s.control = self._control.state

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
            self._aim(until)
            until = None
        elif until is not None and not callable(until):
            raise ProblemError("until is no Goal and not callable: pass Goal(gap=1e-3)")
        with deadline.within(limits.seconds), self._threads():
            if monitor.begin(limits, until, GOES_ON, since):
                self.torn = True
                try:
                    while self._iterate():
                        self._switch()
                    self.torn = False
                except deadline.OutOfTime:
                    monitor.status = Status.MAX_SECONDS
                except np.linalg.LinAlgError:
                    monitor.status = Status.NONFINITE
                except BREAKS as error:
                    self._break_off(error)
        return self

    def _break_off(self, error: BaseException) -> None:
        """Say what has broken it off."""
        if isinstance(error, MemoryError):
            self._monitor.status, self._note = Status.OUT_OF_MEMORY, memory.shortage(error)
        elif isinstance(error, Lost):
            self._monitor.status, self._note = Status.LOST, str(error)
        elif from_keyboard(error):
            self._monitor.status = Status.INTERRUPTED
        else:
            raise error

    def _aim(self, goal: Goal) -> None:
        self._options.watch.require(goal)
        self._options = replace(self._options, goal=goal)
        self._monitor.aim(goal, GOES_ON)
        if self._control is not None:
            self._control.aim(goal.all)

    def move(self, domain: Domain) -> Run:
        """Go on over another domain of the same kind, such as one with a larger trace.

        What the run remembers stays: slopes, what the step has measured, iterations and counters.
        Multipliers are scaled by the factor in [0, 1] that proves most for this domain, since they
        grow where the rows have no solution, and a β that the method finds goes halfway to a guess
        for this domain. Bound, status, best point and trace begin anew.

        Parameters
        ----------
        domain : Domain
            It must contain W, which is scaled where the domain fixes its trace.

        Returns
        -------
        Run
            The run itself.
        """
        s, before, watch = self.state, self.problem, self._options.watch
        domain = domain.on(before.like) if foreign(before.like) else domain
        if type(domain) is not type(before.domain):
            raise ProblemError(
                f"domain is a {type(domain).__name__}: the run is over a "
                f"{type(before.domain).__name__}"
            )
        if self._monitor.status in KEEP:
            raise ProblemError(f"the run cannot go on ({self._monitor.status}): start another")
        weights = before.infeasibility_weights
        problem = Problem(domain, before.terms, infeasibility_weights=weights, dtype=before.dtype)
        problem.like = before.like
        if self.stale:
            self.problem = problem
            return self
        check_parts(problem, watch.certify)
        W = fitted(s.W.array, domain)
        if W.shape != domain.shape or not domain.contains(W, 1e-6):
            kind = type(domain).__name__
            raise ProblemError(f"domain, a {kind}, does not contain the W of the run: enlarge it")
        W = W.astype(problem.dtype)
        with self._threads():
            s.W.array[...], s.W.taken, self.problem = W, None, problem
            share = self._share(problem)
            for rows in s.terms:
                rows.over(problem, share)
            self._step.over(domain)
            certificate = self._judge = self._certificate(problem)
            if self._control is not None:
                assert certificate is not None
                self._control.over(problem, s.W.array, s.k, certificate)
            parts = (problem, s, self._control, certificate, self._options.goal, watch)
            self._monitor = Monitor(*parts, self._monitor.clock, pace=self._step.proofs)
        return self

    def _share(self, problem: Problem) -> float:
        """The factor on the multipliers that proves most in another problem."""
        s = self.state
        if all(rows.state.multipliers is None for rows in s.terms):
            return 1.0
        judge = Certificate(problem)  # one of its own: nothing depends on who watches
        judge.evaluate(s.W.array, s.terms, self._monitor.betas())
        return judge.scale.get("multipliers", judge.scale.get("slopes", 1.0))

    torn = False
    """True if the run was broken off, maybe within an iteration; also while it is at work."""
    stale = False
    """True if the state is still in a file, from which it will come (`journal.py`)."""

    def _certificate(self, problem: Problem) -> Certificate | None:
        """Certificate of bounds, if they are wanted or control needs them."""
        watch = self._options.watch
        wanted = watch.certify or self.method.auto
        return Certificate(problem, watch.floor, watch.duals) if wanted else None

    def save(self, path: str | PathLike[str]) -> None:
        """Write all of its state to a file, from which `condgrad.resume` goes on.

        The file is whole or not there: it is written beside and renamed.

        Raises
        ------
        ProblemError
            Where the run was broken off within an iteration, or has parts of a user's own classes
            in its state.
        """
        saved.save(self, path)

    def __repr__(self) -> str:
        return (
            f"<Run: {self.name} after {counted(self.state.k, 'iteration')}; {self._monitor.status}>"
        )

    def __iter__(self) -> Iterator[Info]:
        """Advance by one iteration at a time, until the run ends by itself."""
        while self.advance(iterations=1)._monitor.status in GOES_ON:
            self._monitor.status = Status.PAUSED
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
            how: Any = {"method": self.name, "seed": self._options.seed, "factors": factors}
            try:
                found = self._monitor.result(**how)
                return replace(found, note=self.note, resumed=self.resumed)
            except deadline.OutOfTime:
                pass
            except BREAKS as error:
                self._break_off(error)
            found = self._monitor.result(**how, judge=False)
            return replace(found, note=self.note, resumed=self.resumed)

    @property
    def note(self) -> str:
        """Shortage of memory, or loss of shards, in words."""
        said = "" if self._engine is None else self._engine.note
        return "; ".join(dict.fromkeys(x for x in (self._note, said) if x))

    def snapshot(self, found: Any = None) -> Result:
        """Result so far, for a program that is about to end, see `_keyboard`."""
        if self._monitor.status not in KEEP:
            self._monitor.status = Status.INTERRUPTED
        return self._monitor.result(self.name, self._options.seed, judge=False)

    def _follows(self) -> bool:
        """True if it is time for the method that follows the first one."""
        if self._lead is None:
            return False
        control = self.state.control
        assert isinstance(control, BalanceState)
        return self._lead.over(self._monitor.epochs, control, self._seen)

    def _switch(self) -> None:
        """Go on with the method that follows the first one, from its W and its multipliers."""
        s, problem, method = self.state, self.problem, self.method
        self._lead = None
        for i, (t, old) in enumerate(zip(problem.terms, s.terms, strict=True)):
            old.leave()
            s.terms[i] = keeper_of(t, method.estimator(t), problem)
            s.terms[i].adopt(old)
        self._set_out(method, problem.domain.center(), self._judge)
        self._monitor.follow(self._control)

    def _iterate(self) -> bool:
        """Every method is this loop; True where another one follows."""
        s, problem, monitor = self.state, self.problem, self._monitor
        schedule, step, control = self._running.schedule, self._step, self._control
        if s.vector is not None:
            vector_loop.run(problem.domain, schedule, s, monitor)
            return False
        lap = monitor.clock.lap
        for k in itertools.count(s.k + 1):
            if self._follows():
                return True
            p = step.params(schedule(k))
            own = [p if control is None else control.params(i, p) for i in range(len(s.terms))]
            at = step.ahead(s.W)
            for rows, mine in zip(s.terms, own, strict=True):
                rows.update(at, mine, s.rng)
            lap("rows")
            direction(s.terms, s.v)
            if not (problem.domain.finite_only or step.finite(s.v)):
                monitor.status = Status.NONFINITE
                return False
            lap("direction")
            products = step.move(s.W, s.v, own, s.rng, lap)
            s.k, s.params, s.lmo_calls, s.matvecs = k, p, s.lmo_calls + 1, s.matvecs + products
            lap("step")
            measured = None
            if control is not None:
                measured = control.after(p, s.W.array, s.terms)
                lap("control")
            if monitor.after(measured):
                return False
        return False
