"""Measured convergence of every method against the theory, on problems with a known optimum.

The problems are made backwards: choose W*, multipliers y* and a normal of the domain at W*, then
the data of the loss so that the optimality conditions hold. So F* is known to rounding. Weights are
the paper's averages, 1/n and 1/m.

What is measured is the smoothed gap, F_{β_k}(W_{k+1}) − F*, of a seed or the mean over several.

(i) It must stay under `theory.guarantee` (and under the theorem's closed form where there is one).

(ii) It must fall at least as fast as stated. The gap itself is of no use in a logarithm, because
F_β lies below F and so the gap passes 0: already min F_β − F* ≈ −β ‖y*‖²/(2ω). By duality no point
is lower than that, F_β(W) ≥ F* − bias(β), bias = β ‖y*‖²/(2ω) for an indicator and β ω ‖y*‖²/2 for
a Lipschitz term; y* is the multiplier of the constraint, or the slope of a row. The slope is
therefore fitted to gap + bias, which is never negative (checked) and, as β falls at least as fast
as each stated rate, must obey the rate just as the gap does. Nothing is clipped and no absolute
value is taken.

β0 = 0.1 balances bias and curvature (1/β) on these problems. With batches of a fifth a row is drawn
every five iterations, so that after 10² iterations tables and averages have long forgotten the
start; the slope is that of 10² … 10⁴. Problems this small often converge faster than the worst
case, so the test is one-sided.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import condgrad as cg
from condgrad import domains, functions, maps
from condgrad.methods import METHODS, Method
from condgrad.problem import Problem, Term
from condgrad.theory import constants, guarantee, rate
from general import GENERAL

pytestmark = pytest.mark.slow

BETA0, LENGTH, SEEDS = 0.1, 10_000, 1
KS = np.unique(np.round(np.geomspace(1, LENGTH, 41)).astype(int))
LATE = KS >= LENGTH // 100
NINE = sorted(set(GENERAL) - {"sag-fw", "sag-cgal", "spdhg"})


class Solved(NamedTuple):
    problem: Problem
    optimum: float
    W: np.ndarray
    bias: float
    """F_β ≥ F* − β·bias."""


def fit(X: np.ndarray, w: np.ndarray, gradient: np.ndarray) -> tuple[functions.Squared, float]:
    """Targets b for which (1/n) Σ (x_i w − b_i)²/2 has the gradient wanted at w, and its value."""
    n = X.shape[0]
    r = n * np.linalg.lstsq(X.T, gradient, rcond=None)[0]
    assert np.allclose(X.T @ r / n, gradient)
    return functions.Squared(X @ w - r), float(r @ r) / (2 * n)


def vector_problem(lipschitz: bool) -> Solved:
    """Least squares over the simplex; 40 inequalities, 4 of them active, or 40 absolute values."""
    rng = np.random.default_rng(3)
    d, n, m, active = 12, 60, 40, 4
    w = np.concatenate([rng.dirichlet(np.full(6, 5.0)), np.zeros(6)])
    X, A = rng.standard_normal((n, d)), rng.standard_normal((m, d))
    inner = np.concatenate([np.zeros(6), rng.uniform(0.1, 0.5, 6)])  # multipliers of w ≥ 0
    y, slack = np.zeros(m), rng.uniform(0.2, 1, m)
    slack[:active] = 0
    g: functions.Proximable
    if lipschitz:
        off = slack * rng.choice([-1, 1], m)
        y = np.where(off == 0, rng.uniform(-0.8, 0.8, m), np.sign(off))
        g, value, pull = functions.Absolute(A @ w - off), np.abs(off).sum() / m, A.T @ y / m
        bias = float(y @ y) / (2 * m)
    else:
        y[:active] = rng.uniform(0.2, 0.6, active)
        g, value, pull = functions.AtMost(A @ w + slack), 0.0, A.T @ y
        bias = float(y @ y) * m / 2
    f, least = fit(X, w, inner - 0.3 - pull)
    terms = [Term(maps.DataMatrix(X), f, 1 / n, "f"), Term(maps.DataMatrix(A), g, 1 / m, "g")]
    return Solved(Problem(domains.Simplex(d), terms), least + value, w, bias)


def matrix_problem() -> Solved:
    """Least squares over {W ⪰ 0, Tr W = 1} with W* of rank 3 and bounds on entries, 4 active."""
    rng = np.random.default_rng(4)
    side, n, active = 6, 40, 4
    Q = np.linalg.qr(rng.standard_normal((side, side)))[0]
    W = Q[:, :3] @ np.diag([0.5, 0.3, 0.2]) @ Q[:, :3].T
    Z = Q[:, 3:] @ np.diag(rng.uniform(0.1, 0.5, 3)) @ Q[:, 3:].T  # multiplier of W ⪰ 0
    half = rng.standard_normal((n, side, side))
    data = 0.5 * (half + half.transpose(0, 2, 1))
    rows = []
    for i, j in zip(*np.triu_indices(side), strict=True):
        E = np.zeros((side, side))
        E[i, j] += 0.5
        E[j, i] += 0.5
        rows.append(E)
    entries, m = maps.SparseStack(rows), len(rows)
    y, slack = np.zeros(m), rng.uniform(0.1, 0.5, m)
    at = rng.permutation(m)[:active]
    y[at], slack[at] = rng.uniform(0.2, 0.6, active), 0
    gradient = Z - 0.2 * np.eye(side) - entries.adjoint(y)
    f, least = fit(data.reshape(n, -1), W.reshape(-1), gradient.reshape(-1))
    g = functions.AtMost(entries.rows(W) + slack)
    terms = [Term(maps.SparseStack(list(data)), f, 1 / n, "f"), Term(entries, g, 1 / m, "g")]
    domain = domains.Spectrahedron(side, 1.0, equality=True)
    return Solved(Problem(domain, terms), least, W, float(y @ y) * m / 2)


PROBLEMS = {
    "vector": vector_problem(False),
    "lipschitz": vector_problem(True),
    "matrix": matrix_problem(),
}


def build(slug: str) -> Method:
    batch = {"batch": 0.2} if METHODS[slug].batched else {}
    return METHODS[slug](beta0=BETA0, **batch)


def gaps(solved: Solved, method: Method, seeds: int) -> np.ndarray:
    """Mean smoothed gap at the iterations KS."""
    wanted, out = set(KS.tolist()), []
    for seed in range(seeds):

        def look(info: cg.Info) -> None:
            if info.k in wanted:
                out.append(solved.problem.smoothed(info.W, info.params.beta) - solved.optimum)

        cg.solve(solved.problem, method, max_iter=LENGTH, callbacks=[look], seed=seed, record=1)
    return np.array(out).reshape(seeds, KS.size).mean(axis=0)


def decline(values: np.ndarray) -> float:
    """Slope of log values against log k over the last two decades."""
    return float(np.polyfit(np.log(KS[LATE]), np.log(values[LATE]), 1)[0])


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_optimum_is_one(name):
    solved = PROBLEMS[name]
    assert solved.problem.domain.contains(solved.W)
    assert solved.problem.objective(solved.W) == pytest.approx(solved.optimum, rel=1e-12)
    assert solved.problem.infeasibility(solved.W) < 1e-12


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("slug", NINE)
def test_rate(slug, name):
    solved, method = PROBLEMS[name], build(slug)
    seeds = 1 if slug in ("hcgm", "cgal") else SEEDS
    gap = gaps(solved, method, seeds)
    if slug != "cgal":  # whose multipliers the lemma does not cover
        assert np.all(gap <= guarantee(solved.problem, method, KS))
    if slug in ("hcgm", "h-sag-v1", "h-sag-v2"):
        assert np.all(gap <= constants(solved.problem, method).gap(KS))
    beta = np.array([method.schedule.beta(int(k)) for k in KS])
    raised = gap + beta * solved.bias
    assert np.all(raised > 0)
    assert decline(raised) <= -rate(slug) + 0.05


def test_rate_of_sag_frank_wolfe():
    # g = 0 and an optimum inside a face of the simplex, where Frank-Wolfe is no faster than 1/k.
    rng = np.random.default_rng(3)
    w = np.concatenate([rng.dirichlet(np.full(6, 5.0)), np.zeros(6)])
    X = rng.standard_normal((60, 12))
    f, least = fit(X, w, np.concatenate([np.zeros(6), rng.uniform(0.1, 0.5, 6)]) - 0.3)
    problem = Problem(domains.Simplex(12), [Term(maps.DataMatrix(X), f, 1 / 60)])
    solved, method = Solved(problem, least, w, 0.0), METHODS["sag-fw"](batch=0.2)
    gap = gaps(solved, method, SEEDS)
    assert np.all(gap >= 0)
    assert np.all(gap <= guarantee(problem, method, KS))
    assert np.all(gap <= constants(problem, method).gap(KS))
    assert decline(gap) <= -rate(method) + 0.05
