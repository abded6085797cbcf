"""Ten typical CVXPY models: `condgrad.cvxpy.solve` beside the solvers that CVXPY has installed.

    python benchmarks/cvxpy_models.py [--models max-cut,theta] [--size 10] [--solvers ...]

Every solver has a copy of each model, solves it once, so that everything is compiled, and then
`--repeats` times more. The table has the medians of those calls, in milliseconds of the processor
and of the clock, and how far the value is from Clarabel's at its tightest, relative to 1 or that.
`condgrad` is `solve` as it is, `insisted` has ``backend="condgrad"``. A call that takes longer than
`--seconds` is cut short there, or not repeated.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np

import condgrad.cvxpy as door

Model = Callable[[int, np.random.Generator], cp.Problem]
MODELS: dict[str, Model] = {}
TIGHT = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}


def model(make: Model) -> Model:
    """Add a model to the table, by the name of its function."""
    MODELS[make.__name__.replace("_", "-")] = make
    return make


def symmetric(n: int, rng: np.random.Generator) -> np.ndarray:
    A = rng.normal(size=(n, n))
    return (A + A.T) / 2


def graph(n: int, rng: np.random.Generator, degree: float) -> np.ndarray:
    """The adjacency matrix of a random graph on a circle, so that it is connected."""
    W = np.triu(rng.random((n, n)) < degree / n, 1) * 1.0
    i = np.arange(n)
    W[np.minimum(i, (i + 1) % n), np.maximum(i, (i + 1) % n)] = 1.0
    return W + W.T


@model
def max_cut(n: int, rng: np.random.Generator) -> cp.Problem:
    W = graph(n, rng, 4.0)
    X = cp.Variable((n, n), PSD=True, name="X")
    L = np.diag(W.sum(axis=0)) - W
    return cp.Problem(cp.Maximize(cp.trace(L @ X) / 4), [cp.diag(X) == 1])


@model
def theta(n: int, rng: np.random.Generator) -> cp.Problem:
    X, edges = cp.Variable((n, n), PSD=True, name="X"), graph(n, rng, 4.0)
    rows = [cp.trace(X) == 1, cp.multiply(edges, X) == 0]
    return cp.Problem(cp.Maximize(cp.sum(X)), rows)


@model
def minimum_trace_completion(n: int, rng: np.random.Generator) -> cp.Problem:
    U = rng.normal(size=(n, 2))
    M, known = U @ U.T, np.triu(rng.random((n, n)) < 0.6)
    X = cp.Variable((n, n), symmetric=True, name="X")
    i, j = np.nonzero(known)
    return cp.Problem(cp.Minimize(cp.trace(X)), [X >> 0, X[i, j] == M[i, j]])


@model
def nearest_psd(n: int, rng: np.random.Generator) -> cp.Problem:
    X = cp.Variable((n, n), PSD=True, name="X")
    return cp.Problem(cp.Minimize(cp.norm(X - symmetric(n, rng), "fro")))


@model
def nearest_correlation(n: int, rng: np.random.Generator) -> cp.Problem:
    M = np.clip(symmetric(n, rng), -1, 1)
    np.fill_diagonal(M, 1.0)
    X = cp.Variable((n, n), PSD=True, name="X")
    return cp.Problem(cp.Minimize(cp.sum_squares(X - M)), [cp.diag(X) == 1])


@model
def sensor_localisation(n: int, rng: np.random.Generator) -> cp.Problem:
    """Sensors in the plane, three anchors, distances with noise: Biswas and Ye's relaxation."""
    anchors, points = rng.random((3, 2)), rng.random((n, 2))
    Z = cp.Variable((n + 2, n + 2), PSD=True, name="Z")
    misses = []
    for i in range(n):
        for j in (*range(i + 1, n), *(-1, -2, -3)):
            other = points[j] if j >= 0 else anchors[j]
            squared = float(np.sum((points[i] - other) ** 2))
            if squared > 0.25:
                continue
            v = np.zeros(n + 2)
            v[2 + i] = 1.0
            if j >= 0:
                v[2 + j] = -1.0
            else:
                v[:2] = -other
            misses.append(v @ Z @ v - squared * (1 + 0.1 * rng.normal()))
    return cp.Problem(cp.Minimize(cp.norm1(cp.hstack(misses))), [Z[:2, :2] == np.eye(2)])


@model
def fastest_mixing_chain(n: int, rng: np.random.Generator) -> cp.Problem:
    W = graph(n, rng, 4.0)
    P = cp.Variable((n, n), symmetric=True, name="P")
    rows = [P >= 0, cp.sum(P, axis=1) == 1, cp.multiply(1 - W - np.eye(n), P) == 0]
    return cp.Problem(cp.Minimize(cp.sigma_max(P - np.ones((n, n)) / n)), rows)


@model
def k_means(n: int, rng: np.random.Generator) -> cp.Problem:
    points = rng.normal(size=(n, 2)) + 4 * rng.integers(0, 3, size=(n, 1)) * np.array([1.0, -1.0])
    D = ((points[:, None] - points[None]) ** 2).sum(axis=-1)
    X = cp.Variable((n, n), PSD=True, name="X")
    rows = [cp.sum(X, axis=1) == 1, cp.trace(X) == 3, X >= 0]
    return cp.Problem(cp.Minimize(cp.sum(cp.multiply(D, X)) / 2), rows)


@model
def robust_pca(n: int, rng: np.random.Generator) -> cp.Problem:
    u, v = rng.normal(size=(2, n))
    noise = 3 * (rng.random((n, n)) < 0.1) * rng.normal(size=(n, n))
    L, S = cp.Variable((n, n), name="L"), cp.Variable((n, n), name="S")
    goal = cp.normNuc(L) + cp.norm1(cp.vec(S, order="F")) / np.sqrt(n)
    return cp.Problem(cp.Minimize(goal), [np.outer(u, v) + noise == L + S])


@model
def portfolio(n: int, rng: np.random.Generator) -> cp.Problem:
    """The worst variance over covariances within a box around an estimate, as an SDP."""
    factors = rng.normal(size=(n, n + 5))
    covariance = factors @ factors.T / (n + 5)
    width, returns = 0.1 * np.abs(covariance), rng.random(n)
    w = cp.Variable(n, nonneg=True, name="w")
    up, down = (cp.Variable((n, n), symmetric=True, name=a) for a in ("up", "down"))
    column, corner = cp.reshape(w, (n, 1), order="F"), cp.Variable((1, 1), name="corner")
    block = cp.bmat([[up - down, column], [column.T, corner]])
    worst = cp.sum(cp.multiply(up, covariance + width) - cp.multiply(down, covariance - width))
    rows = [block >> 0, up >= 0, down >= 0, cp.sum(w) == 1, corner == 1, returns @ w >= 0.6]
    return cp.Problem(cp.Minimize(worst), rows)


class Timing(NamedTuple):
    """Medians of the calls after the first, in seconds."""

    cpu: float
    clock: float
    value: float
    status: str
    extra: Any


def solvers(seconds: float) -> dict[str, Callable[[Any], Any]]:
    """Who solves a model, by name."""
    return {
        "clarabel": lambda p: p.solve(solver=cp.CLARABEL, time_limit=seconds),
        "scs": lambda p: p.solve(solver=cp.SCS, warm_start=False, time_limit_secs=seconds),
        "condgrad": lambda p: door.solve(p, max_seconds=seconds),
        "insisted": lambda p: door.solve(p, max_seconds=seconds, backend="condgrad"),
    }


def timed(problem: Any, solve: Callable[[Any], Any], repeats: int, seconds: float) -> Timing:
    """Solve once, then again and again."""
    rows = []
    for k in range(repeats + 1):
        cpu, clock = time.process_time(), time.perf_counter()
        try:
            solve(problem)
        except Exception as error:
            return Timing(np.nan, np.nan, np.nan, f"{type(error).__name__}: {error}"[:70], None)
        spent = time.process_time() - cpu, time.perf_counter() - clock
        if k or spent[1] >= 0.5 * seconds:
            rows.append(spent)
        if sum(row[1] for row in rows) >= 0.5 * seconds:
            break
    value = np.nan if problem.value is None else float(problem.value)
    medians = (statistics.median(column) for column in zip(*rows, strict=True))
    return Timing(*medians, value, problem.status, problem.solver_stats.extra_stats)


def bound_of(extra: Any) -> str:
    """What is proved, and who found the point."""
    if not isinstance(extra, door.Certificate):
        return ""
    return f"{extra.bound:.8g} (gap {extra.gap:.1e}; {extra.solved_by})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--solvers", default="clarabel,scs,condgrad,insisted")
    parser.add_argument("--size", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    chosen = {k: v for k, v in solvers(args.seconds).items() if k in args.solvers.split(",")}
    print("| model | solver | CPU ms | clock ms | off by | status | bound |")
    print("|---|---|---:|---:|---:|---|---|")
    for name in args.models.split(","):
        fresh = lambda: MODELS[name](args.size, np.random.default_rng(args.seed))  # noqa: B023, E731
        truth = fresh().solve(solver=cp.CLARABEL, **TIGHT) if args.size <= 50 else np.nan
        for solver, solve in chosen.items():
            found = timed(fresh(), solve, args.repeats, args.seconds)
            off = abs(found.value - truth) / max(1.0, abs(truth))
            cells = [name, solver, f"{1e3 * found.cpu:.1f}", f"{1e3 * found.clock:.1f}"]
            cells += [f"{off:.1e}", found.status, bound_of(found.extra)]
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
