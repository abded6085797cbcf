"""What a Ray cluster costs on this machine, beside threads.

    python benchmarks/cluster.py gap --n 300        the same proven gap, with actors and without
    python benchmarks/cluster.py overhead --n 500   seconds of two actors and of two threads
    python benchmarks/cluster.py memory --n 300     memory of each of 1, 2 and 4 actors
    python benchmarks/cluster.py pass --n 1000      what travels in a pass, and how long it takes
    python benchmarks/cluster.py gpus --n 1000      two actors that share a GPU, beside that GPU

Runs with actors and with threads take turns in one process, and the median of their ratios counts.
The time of actors to begin is not a part of it and is given by itself.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
import time
from pathlib import Path

import numpy as np

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

import ray

import condgrad as cg
from condgrad import applications
from condgrad.cluster import Ray, Table
from condgrad.cluster.connect import connected

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from on_gpu import planted  # after the path

MIB = 1 << 20


def gap(n: int) -> None:
    """The sparsest cut of a planted graph, to a gap of 1e-3."""
    A = planted(n, n)
    for name, wish in (("two threads", {"n_jobs": 2}), ("two actors", {"cluster": Ray(shards=2)})):
        began = time.perf_counter()
        cut = cg.sparsest_cut(A, gap=1e-3, max_seconds=None, presolve=False, **wish)
        spent, result = time.perf_counter() - began, cut.result
        print(
            f"{name}: gap {cut.gap:.6e}, bound {cut.bound:.12g}, {result.iterations} iterations, "
            f"{result.epochs:.1f} passes, {spent:.1f} s, {cut.status.name}"
        )


def started(application: applications.Application, **how: object) -> cg.Run:
    """A run of which two iterations are done, so that everything is loaded."""
    run = cg.start(application.problem, cg.spdhg(), start=application.start, gap=1e-3, **how)
    return run.advance(iterations=2)


def overhead(n: int, rounds: int, iterations: int) -> None:
    """Iterations of two actors and of two threads in turns."""
    application = applications.sparsest_cut(planted(n, n))
    began = time.perf_counter()
    there = started(application, cluster=Ray(shards=2))
    print(f"actors began and made two iterations in {time.perf_counter() - began:.1f} s")
    here, ratios, totals = started(application, n_jobs=2), [], np.zeros(2)
    for _ in range(rounds):
        spent = []
        for run in (here, there):
            began = time.perf_counter()
            run.advance(iterations=iterations)
            spent.append(time.perf_counter() - began)
        ratios.append(spent[1] / spent[0])
        totals += spent
        print(f"{iterations} iterations: threads {spent[0]:.2f} s, actors {spent[1]:.2f} s")
    there.close()
    whole = totals[1] / totals[0]
    print(f"all of it {whole:.3f}, median of the ratios {statistics.median(ratios):.3f}")


def resident(process: int | str = "self") -> int:
    """Resident memory of a process of this machine."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def memory(n: int) -> None:
    """Resident memory of actors with their tables, less that of one with hardly any rows."""
    small = started(applications.sparsest_cut(planted(40, 1)), cluster=Ray(shards=1))
    base = resident(small._engine.facts[0][1])
    small.close()
    application = applications.sparsest_cut(planted(n, n))
    rows = application.problem.terms[-1].map.size
    print(f"{rows} rows; an actor with hardly any: {base / MIB:.0f} MiB")
    for shards in (1, 2, 4):
        before = resident()
        run = started(application, cluster=Ray(shards=shards)).advance(iterations=10)
        facts = run._engine.facts.values()
        sizes = [(resident(process) - base) / MIB for _, process, _ in facts]
        after, tables = resident(), np.zeros(shards)
        for table in (value for part in run.state.tables for value in vars(part).values()):
            if isinstance(table, Table):
                parts = run._engine.ask(table.name, "fetch", table)
                tables += [part.nbytes / MIB for part in parts]
        run.close()
        each, held = (", ".join(f"{x:.0f}" for x in some) for some in (sizes, tables))
        print(
            f"{shards} actors: {each} MiB more each, of which tables {held}; here "
            f"{(after - before) / MIB:+.0f} MiB"
        )


def gpus(n: int) -> None:
    """One GPU alone, and the same with rows at two actors, W on the CPU or on the GPU."""
    A, shared = planted(n, n), Ray(shards=2, gpus_per_shard=0.4)
    wishes = {
        "GPU": {"device": "cuda"},
        "actors, W on the GPU": {"device": "cuda", "cluster": shared},
        "actors, W on the CPU": {"cluster": shared},
    }
    if n > 1000:  # minutes
        del wishes["actors, W on the CPU"]
    for name, wish in wishes.items():
        application = applications.sparsest_cut(A)
        run = started(application, **wish)
        began = time.perf_counter()
        result = run.advance(until=cg.Goal(gap=1e-3)).result()
        spent = time.perf_counter() - began
        parts = ", ".join(
            f"{part} {t:.2f}" for part, t in result.profile.items() if t > 0.005 * spent
        )
        print(
            f"{name}: gap {result.gap:.1e}, {result.iterations} iterations, {spent:.2f} s: {parts}"
        )
        run.close()
        del run, result
        if "cupy" in sys.modules:  # memory for the actors
            gc.collect()
            sys.modules["cupy"].get_default_memory_pool().free_all_blocks()


class Idle:
    """An actor that answers with an array of the size of W."""

    def __init__(self, n: int) -> None:
        self.cotangent = np.ones(n * n, np.float32)

    def answer(self, W: object) -> np.ndarray:
        return self.cotangent


def travel(n: int, repeats: int) -> None:
    """W out, a cotangent back from every actor, summed here."""
    W = np.zeros((n, n), np.float32)
    for shards in (1, 2, 4):
        actors = [ray.remote(Idle).options(num_cpus=1).remote(n) for _ in range(shards)]
        ray.get([a.answer.remote(None) for a in actors])
        spent = []
        for _ in range(repeats):
            began = time.perf_counter()
            sent = ray.put(W)
            found = ray.get([a.answer.remote(sent) for a in actors])
            total = sum(found[1:], found[0].copy())
            spent.append(time.perf_counter() - began)
        least, middle = min(spent), statistics.median(spent)
        print(
            f"n = {n}, {shards} actors: {(W.nbytes + shards * total.nbytes) / MIB:.1f} MiB, "
            f"median {1e3 * middle:.2f} ms, least {1e3 * least:.2f} ms"
        )
        for actor in actors:
            ray.kill(actor)
        time.sleep(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("gap", "overhead", "memory", "pass", "gpus"))
    parser.add_argument("--n", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--iterations", type=int, default=20)
    given = parser.parse_args()
    connected(Ray(shards=4, address="local"))  # as a run would do
    match given.what:
        case "gap":
            gap(given.n)
        case "overhead":
            overhead(given.n, given.rounds, given.iterations)
        case "memory":
            memory(given.n)
        case "pass":
            travel(given.n, 30)
        case "gpus":
            gpus(given.n)
    ray.shutdown()


if __name__ == "__main__":
    main()
