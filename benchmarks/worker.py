"""One solver on one data set, in a process of its own: a JSON line for every tolerance.

    python worker.py BENCHMARK DATASET SOLVER FILE
    python worker.py BENCHMARK                      the solvers, and why one cannot be used

DATASET and SOLVER are the names that `benchopt run` prints, parameters in brackets. The classes are
benchopt's, loaded and called in its order; what is added is the limits and the peak memory.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path

from benchopt.benchmark import Benchmark
from benchopt.utils.parametrized_name_mixin import product_param


def instances(classes) -> dict:
    """Every instance of parametrised classes by its name."""
    found = {}
    for cls in classes:
        if not cls.is_installed(quiet=True):
            found[cls.name] = str(cls._exc)
            continue
        for parameters in product_param(cls.parameters):
            one = cls.get_instance(**parameters)
            found[str(one)] = one
    return found


def usage() -> list:
    """Of this process and of its children."""
    return [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]


def megabytes() -> float:
    """Peak resident set of this process, or of the largest child where that is larger."""
    return max(u.ru_maxrss for u in usage()) / 1024


def cpu() -> float:
    """CPU seconds so far."""
    return sum(u.ru_utime + u.ru_stime for u in usage())


def main(folder: str, dataset: str, solver: str, out: str) -> None:
    """Run the tolerances one after the other until the last target is certified."""
    limit = int(float(os.environ.get("CONDGRAD_BENCH_GIB", 20)) * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    with Path(out).open("a", encoding="utf-8") as file:

        def say(**line) -> None:
            file.write(json.dumps(line) + "\n")
            file.flush()

        try:
            work(folder, dataset, solver, say)
        except MemoryError:
            say(status="out of memory", megabytes=megabytes())
        except Exception as error:
            say(status=f"error: {type(error).__name__}: {str(error)[:200]}", megabytes=megabytes())


def work(folder: str, dataset: str, name: str, say) -> None:
    """Set up as benchopt does, and time `run`."""
    benchmark = Benchmark(Path(folder))
    data = instances(benchmark.get_datasets())[dataset]
    solver = instances(benchmark.get_solvers())[name]
    objective = benchmark.get_benchmark_objective().get_instance()
    objective._set_dataset(data)
    skip, reason = solver._set_objective(objective)
    if skip:
        return say(status=f"skipped: {reason}", megabytes=None)
    solver._warm_up()
    say(status="warm", megabytes=megabytes())
    stop_val, spent = solver.get_next(1.0), 0.0
    while True:
        start, before = time.perf_counter(), cpu()
        solver.run(stop_val)
        seconds, used, peak = time.perf_counter() - start, cpu() - before, megabytes()
        [found] = objective(solver.get_result())
        found = {key.removeprefix("objective_"): x for key, x in found.items()}
        over = seconds >= solver.time_limit
        status = "time-out" if over else "ran"
        line = {"tolerance": stop_val, "seconds": seconds, "cpu": used, "megabytes": peak, **found}
        say(status=status, trace=solver.trace[-400:], **line)
        criterion = solver._stopping_criterion.get_runner_instance(max_runs=99, solver=solver)
        last = {"objective_value": found["value"], "stop_val": stop_val}
        spent += seconds
        if over or criterion.check_convergence([last])[0]:
            return say(status="end", megabytes=peak)
        if spent > 2 * solver.time_limit:
            return say(status="time-out after earlier runs", megabytes=peak)
        stop_val = solver.get_next(stop_val)


def listing(folder: str) -> dict:
    """The solvers by name, with None or the reason why one is not installed."""
    found = instances(Benchmark(Path(folder)).get_solvers())
    return {name: one if isinstance(one, str) else None for name, one in found.items()}


if __name__ == "__main__":
    if len(sys.argv) == 2:
        print(json.dumps(listing(sys.argv[1])))
    else:
        main(*sys.argv[1:])
