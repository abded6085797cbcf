"""What all objectives and solvers of the suite share."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
from benchmark_utils.judge import certify
from benchmark_utils.lmi import TimeUp
from benchopt import BaseObjective, BaseSolver
from benchopt.stopping_criterion import StoppingCriterion

TARGETS = (1e-2, 1e-3, 1e-4)
"""The certified accuracies of the report."""
LAST = 1e-6
"""A solver that stops too early by its own rule is asked for more, down to this tolerance."""


class Certified(StoppingCriterion):
    """End once the best target is certified, or the solver has nothing tighter to offer."""

    def check_convergence(self, objective_list):
        last = objective_list[-1]
        done = last["objective_value"] <= TARGETS[-1] or last["stop_val"] <= LAST * 1.001
        return done or not self.solver.tunable, 0.0


class CertifiedObjective(BaseObjective):
    """Builds the condgrad problem of the data and judges by it."""

    min_benchopt_version = "1.10"
    sampling_strategy = "tolerance"
    requirements = ("pip::condgrad",)

    def set_data(self, **data):
        self.data = data
        self.problem = self.application(**data).problem

    def get_objective(self):
        return {"data": self.data, "tiny": self.tiny, "application": self.application}

    def evaluate_result(self, W, duals=None, lower_bound=None):
        if W is None:
            return {"value": np.inf, "gap": np.inf, "infeasibility": np.inf}
        return certify(self.problem, self.into_domain(W), duals, lower_bound)

    def get_one_result(self):
        return {"W": self.problem.domain.center(), "lower_bound": 0.0}


class CertifiedSolver(BaseSolver):
    """A solver that is run for a tolerance, then for a tenth of it, and so on.

    `run` leaves `W` and `duals` (or `lower_bound`) behind. Everything it needs is built inside it,
    so that the set-up counts; only the warm-up on a tiny instance does not.
    """

    sampling_strategy = "tolerance"
    stopping_criterion = Certified(strategy="tolerance")
    tunable = True
    """False: the solver has only its own tolerance."""
    warm_size = 8
    time_limit = float(os.environ.get("CONDGRAD_BENCH_LIMIT", 120))

    def set_objective(self, data, tiny, application):
        self.data, self.tiny = SimpleNamespace(**data), tiny
        self.application = lambda: application(**data)
        self.W = self.duals = self.lower_bound = None
        self.trace = []

    def skip(self, data, tiny, application):
        size = self.bytes(SimpleNamespace(**data))
        limit = float(os.environ.get("CONDGRAD_BENCH_GIB", 20))
        if size > limit * 2**30:
            return True, f"needs about {size / 2**30:.0f} GiB, the limit is {limit:.0f}"
        return False, None

    def bytes(self, data) -> float:
        """A guess of the memory needed, where one is known."""
        return 0.0

    def get_next(self, stop_val):
        return TARGETS[0] if stop_val > TARGETS[0] else stop_val / 10

    def warm_up(self):
        small = type(self).get_instance(**self._parameters)
        small.time_limit = 5.0
        small.set_objective(self.tiny(self.warm_size), self.tiny, type(self._objective).application)
        small.run(0.1)
        objective = type(self._objective).get_instance()
        objective.set_data(**self.tiny(self.warm_size))
        objective.evaluate_result(**small.get_result())

    def run(self, stop_val):
        self.start = time.perf_counter()
        self.W, self.trace = None, []
        with suppress(TimeUp):
            self.solve(min(stop_val, 0.1))

    @property
    def left(self) -> float:
        """Seconds until the limit."""
        return self.time_limit - (time.perf_counter() - self.start)

    def note(self, accuracy: float) -> None:
        """Add a point to the curve of the plots."""
        self.trace.append((time.perf_counter() - self.start, float(accuracy)))

    def get_result(self):
        return {"W": self.W, "duals": self.duals, "lower_bound": self.lower_bound}
