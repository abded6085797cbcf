"""Small and smooth problems to a proven gap: the default beside plain accelerated gradients.

    python benchmarks/small.py [NAME …] [--gap 1e-4] [--method sag-cgal] [--limit 30]

Every problem is solved twice in one process, so that nothing is compiled in the second run, whose
CPU seconds (one thread) are shown. `plain` is FISTA in NumPy with the norm of the data known
beforehand and its Frank-Wolfe gap looked at after every tenth iteration, for those without rows.
Writes a table in Markdown.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import scipy.sparse as sp

import condgrad as cg
from condgrad import Problem, Term, domains, functions, maps

Made = tuple[Problem, Any]
"""A problem, and its data where it is ½ω‖X w − b‖² alone."""
SHAPES: dict[str, Callable[[], Made]] = {}


def shape(make: Callable[[], Made]) -> Callable[[], Made]:
    SHAPES[make.__name__.replace("_", " ")] = make
    return make


def drawn(rows: int, columns: int) -> tuple[np.random.Generator, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng, rng.standard_normal((rows, columns))


def squares(domain: Any, X: Any, b: np.ndarray) -> Made:
    """Mean squares."""
    fit = Term(maps.DataMatrix(X), functions.Squared(b), 1 / len(b), "fit")
    return Problem(domain, [fit]), (X, b)


@shape
def nuclear_ball_20x15() -> Made:
    rng, A = drawn(600, 300)
    M = rng.standard_normal((20, 2)) @ rng.standard_normal((2, 15))
    b = A @ M.reshape(-1) + 0.1 * rng.standard_normal(600)
    rows = maps.DataMatrix(A.reshape(600, 20, 15))
    ball = domains.NuclearBall((20, 15), 0.8 * np.linalg.norm(M, "nuc"))
    return Problem(ball, [Term(rows, functions.Squared(b), 1 / 600, "fit")]), (A, b)


@shape
def squares_in_a_box() -> Made:
    rng, X = drawn(400, 200)
    b = X @ rng.standard_normal(200) + rng.standard_normal(400)
    return squares(domains.Box(-0.5, 0.5, 200), X, b)


def returns(assets: int, scenarios: int = 5000) -> np.ndarray:
    """Five factors, noise of every asset, and a little drift."""
    rng, F = drawn(scenarios, 5)
    noise = rng.standard_normal((scenarios, assets)) * (0.5 + rng.random(assets))
    drift = 0.0005 * (1 + rng.random(assets))
    return drift + 0.01 * (F @ rng.standard_normal((5, assets)) + noise)


@shape
def portfolio_mean_and_variance() -> Made:
    R = returns(100)
    mean = R.mean(axis=0)
    risk = Term(maps.DataMatrix(R - mean), functions.Squared(0.0), 10 / len(R), "risk")
    gain = Term(maps.Inner(-mean), functions.Linear(), name="gain")
    return Problem(domains.Simplex(100), [risk, gain]), None


@shape
def portfolio_near_a_target() -> Made:
    R = returns(100)
    return squares(domains.Simplex(100), R, np.full(len(R), 0.002))


@shape
def portfolio_least_variance_for_a_mean() -> Made:
    R = returns(100)
    mean = R.mean(axis=0)
    risk = Term(maps.DataMatrix(R - mean), functions.Squared(0.0), 1 / len(R), "risk")
    least = 0.5 * (mean.max() + mean.mean())
    gain = Term(maps.Inner(mean), functions.AtLeast(least), name="gain")
    return Problem(domains.Simplex(100), [risk, gain]), None


@shape
def portfolio_no_scenario_below() -> Made:
    R = returns(100)
    gain = Term(maps.Inner(-R.mean(axis=0)), functions.Linear(), name="gain")
    floor = Term(maps.DataMatrix(R), functions.AtLeast(-0.06), name="floor")
    return Problem(domains.Simplex(100), [gain, floor]), None


@shape
def portfolio_mean_absolute_deviation() -> Made:
    R = returns(100)
    mean = R.mean(axis=0)
    gain = Term(maps.Inner(-mean), functions.Linear(), name="gain")
    risk = Term(maps.DataMatrix(R - mean), functions.Absolute(), 0.5 / len(R), "risk")
    return Problem(domains.Simplex(100), [gain, risk]), None


@shape
def squares_in_an_l2_ball() -> Made:
    rng, X = drawn(400, 200)
    return squares(domains.L2Ball(200, 5.0), X, X @ rng.standard_normal(200))


@shape
def logistic_in_an_l1_ball() -> Made:
    rng, X = drawn(1000, 300)
    t = np.where(rng.random(1000) < 1 / (1 + np.exp(-3 * X[:, :10].sum(axis=1))), 1.0, -1.0)
    loss = Term(maps.DataMatrix(X), functions.Logistic(t), 1 / 1000, "loss")
    return Problem(domains.L1Ball(300, 5.0), [loss]), None


@shape
def lasso_of_correlated_columns() -> Made:
    rng, Z = drawn(300, 20)
    X = Z @ rng.standard_normal((20, 1000)) + 0.3 * rng.standard_normal((300, 1000))
    b = X[:, :10] @ rng.standard_normal(10) + 0.5 * rng.standard_normal(300)
    return squares(domains.L1Ball(1000, 3.0), X, b)


@shape
def squares_in_a_box_with_equations() -> Made:
    rng, X = drawn(200, 200)
    A = rng.standard_normal((30, 200))
    problem, _ = squares(domains.Box(0, 1, 200), X, rng.standard_normal(200))
    rows = Term(maps.DataMatrix(A), functions.Equal(A @ rng.random(200)), name="rows")
    return Problem(problem.domain, [*problem.terms, rows]), None


@shape
def linear_program_in_a_box() -> Made:
    rng = np.random.default_rng(0)
    A = rng.random((50, 200))
    cost = Term(maps.Inner(-rng.random(200)), functions.Linear(), name="cost")
    rows = Term(maps.DataMatrix(A), functions.AtMost(0.2 * A.sum(axis=1)), name="rows")
    return Problem(domains.Box(0, 1, 200), [cost, rows]), None


@shape
def linear_program_over_a_simplex() -> Made:
    rng, A = drawn(50, 300)
    cost = Term(maps.Inner(rng.standard_normal(300)), functions.Linear(), name="cost")
    rows = Term(maps.DataMatrix(A), functions.AtMost(0.1), name="rows")
    return Problem(domains.Simplex(300), [cost, rows]), None


@shape
def sparse_squares_100000_rows() -> Made:
    rng = np.random.default_rng(0)
    X = sp.random_array((100_000, 10_000), density=1e-3, rng=rng).tocsr()
    w = np.r_[rng.standard_normal(50), np.zeros(9950)]
    ball = domains.L1Ball(10_000, 0.7 * np.abs(w).sum())
    return squares(ball, X, X @ w + 0.1 * rng.standard_normal(100_000))


@shape
def sparse_linear_program_100000_rows() -> Made:
    rng = np.random.default_rng(0)
    A = sp.random_array((100_000, 10_000), density=5e-4, rng=rng).tocsr()
    cost = Term(maps.Inner(-rng.random(10_000)), functions.Linear(), name="cost")
    rows = Term(maps.DataMatrix(A), functions.AtMost(A @ rng.random(10_000) + 0.1), name="rows")
    return Problem(domains.Box(0, 1, 10_000), [cost, rows]), None


@shape
def dense_squares_100000_rows() -> Made:
    rng, X = drawn(100_000, 100)
    w = np.r_[rng.standard_normal(10), np.zeros(90)]
    ball = domains.L1Ball(100, 0.7 * np.abs(w).sum())
    return squares(ball, X, X @ w + 0.5 * rng.standard_normal(100_000))


def plain(problem: Problem, X: Any, b: np.ndarray, gap: float) -> float:
    """CPU seconds of FISTA for mean squares, the norm of X given."""
    norm = (
        sp.linalg.svds(X, 1, return_singular_vectors=False)[0]
        if sp.issparse(X)
        else np.linalg.norm(X, 2)
    )
    began, domain = time.process_time(), problem.domain
    projector, m = domain.projector(), len(b)
    W = Z = domain.center()
    t = 1.0
    for k in range(100_000):
        v = (X.T @ (X @ Z.reshape(-1) - b) / m).reshape(W.shape)
        S = projector.project(Z - v * (m / norm**2))[0]
        later = (1 + np.sqrt(1 + 4 * t * t)) / 2
        Z, W, t = S + (t - 1) / later * (S - W), S, later
        if k % 10 == 9:
            r = X @ W.reshape(-1) - b
            v = (X.T @ r / m).reshape(W.shape)
            value = float(r @ r) / (2 * m)
            if np.vdot(v, W - domain.lmo(v).dense()) <= gap * value:
                break
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="parts of the names of problems")
    parser.add_argument("--gap", type=float, default=1e-4)
    parser.add_argument("--method", help="another method than the default")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds for a run")
    args = parser.parse_args()
    print("| problem | method | CPU s | iterations | gap | plain s |\n|---|---|---|---|---|---|")
    for name, make in SHAPES.items():
        if args.names and not any(part in name for part in args.names):
            continue
        problem, data = make()
        method = cg.METHODS[args.method]() if args.method else None
        for _ in range(2):
            began = time.process_time()
            r = cg.solve(
                problem, method, gap=args.gap, feasibility=args.gap, max_seconds=args.limit
            )
            spent = time.process_time() - began
            if spent > 0.5 * args.limit:
                break
        other = "" if data is None else f"{plain(problem, *data, args.gap):.3f}"
        gap = f"{r.gap:.1e}" if r.status is cg.Status.CONVERGED else f"{r.gap:.1e} (limit)"
        print(
            f"| {name} | {r.method} | {spent:.3f} | {r.iterations} | {gap} | {other} |", flush=True
        )


if __name__ == "__main__":
    main()
