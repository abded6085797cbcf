"""Numbers that are far from 0: what is called optimal is near a bound in the user's own units."""

from __future__ import annotations

import numpy as np
import pytest

cp = pytest.importorskip("cvxpy")
door = pytest.importorskip("condgrad.cvxpy")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:Solution may be")]
CHUNK = 20
"""Random cases of one test."""


def offset_program(seed):
    """A problem with an optimum near 1, data near 10^k, and that optimum."""
    rng = np.random.default_rng(seed)
    far = 10.0 ** rng.integers(0, 10)
    n = int(rng.integers(2, 5))
    if seed % 4 == 0:  # the nearest point of a half space
        a, s = far + rng.integers(-3, 4, n), float(rng.integers(1, 4))
        x = cp.Variable(n)
        objective, rows = cp.norm(x - a), [cp.sum(x) >= a.sum() + s]
        return cp.Problem(cp.Minimize(objective), rows), s / np.sqrt(n)
    if seed % 4 == 1:  # a row that is far from active
        x, t = cp.Variable(), cp.Variable()
        u = float(rng.integers(1, 6))
        return cp.Problem(cp.Minimize(-x), [x <= u, t <= far, t >= x - 1]), -min(u, far + 1)
    if seed % 4 == 2:  # the same in a matrix
        x, u = cp.Variable(), float(rng.integers(1, 6))
        matrix = cp.diag(cp.hstack([far + 0 * x, u - x]))
        return cp.Problem(cp.Maximize(x), [matrix >> 0]), u
    x, t, d = cp.Variable(), cp.Variable(), float(rng.integers(1, 6))
    return cp.Problem(cp.Minimize(x - t), [x >= far, t <= x - d, x <= far + d]), d


@pytest.mark.parametrize("chunk", range(0, 40, CHUNK))
def test_cone_door(chunk):
    for seed in range(chunk, chunk + CHUNK):
        problem, optimum = offset_program(seed)
        problem.solve(solver=door.CONDGRAD, max_iter=300)
        assert problem.status in ("optimal", "optimal_inaccurate", "user_limit"), seed
        certificate = problem.solver_stats.extra_stats
        side = -1.0 if isinstance(problem.objective, cp.Maximize) else 1.0
        assert side * certificate.bound <= side * optimum + 1e-6, seed
        if problem.status == "optimal":
            assert certificate.value == pytest.approx(certificate.bound, rel=2e-3, abs=1e-6), seed
            assert certificate.value == pytest.approx(optimum, rel=2e-2), seed


@pytest.mark.parametrize("far", [0.0, 1e3, 1e5, 1e7])
@pytest.mark.parametrize("cone", [True, False])
@pytest.mark.parametrize("maximise", [True, False])
def test_a_constant_counts(far, cone, maximise):
    """The gap is that of the objective as it is written."""
    x = cp.Variable(2, nonneg=True)
    rows = [x[0] >= far + 5, x[0] + x[1] <= 2 * far + 20]
    objective = cp.Maximize(far - x[0]) if maximise else cp.Minimize(x[0] - far)
    problem = cp.Problem(objective, rows)
    if cone:
        problem.solve(solver=door.CONDGRAD, max_iter=600)
    else:
        door.solve(problem, max_iter=2000)
    certificate, optimum = problem.solver_stats.extra_stats, -5.0 if maximise else 5.0
    size = max(abs(certificate.value), abs(certificate.bound))
    assert (certificate.bound - optimum) * (1 if maximise else -1) >= -1e-6
    if problem.status == "optimal":
        assert abs(certificate.value - certificate.bound) <= 2e-3 * size
        assert problem.value == pytest.approx(optimum, rel=2e-2)
    if far <= 1e3:
        assert problem.status == "optimal"
