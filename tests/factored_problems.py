"""Problems over a nuclear ball that read entries, and their optima by factors and by arrays."""

import numpy as np

import condgrad as cg
from condgrad import Problem, Term, domains, functions, maps
from condgrad.functions.group import project_simplex
from condgrad.methods import FactoredApg


def ratings(rng, shape, count=None):
    """Distinct places in any order, with numbers of rank 2 and noise."""
    n, m = shape
    flat = rng.permutation(n * m)[: count or max(1, int(0.4 * n * m))]
    i, j = np.divmod(flat, m)
    truth = rng.standard_normal((n, 2)) @ rng.standard_normal((2, m))
    return i, j, truth[i, j] + 0.1 * rng.standard_normal(i.size)


LOSSES = {
    "squared": lambda x: functions.Squared(x),
    "huber": lambda x: functions.Huber(x, 0.7),
    "logistic": lambda x: functions.Logistic(np.where(x > 0, 1.0, -1.0)),
    "linear": lambda x: functions.Linear(x),
}


def problem(seed=0, shape=(12, 9), loss="squared", radius=6.0, scaled=False, dtype=np.float64):
    rng = np.random.default_rng(seed)
    i, j, x = ratings(rng, shape)
    entries = maps.Entries(i, j, shape)
    if scaled:
        entries = maps.Scaled(entries, rng.uniform(0.5, 2.0, i.size))
    term = Term(entries, LOSSES[loss](x), weight=2.0, name="fit")
    return Problem(domains.NuclearBall(shape, radius), [term], dtype=dtype)


def fit(problem, start=None, max_iter=None, **options):
    """The result of a run with W as factors, however small it is."""
    run = cg.start(problem, FactoredApg(), start=start, **options)
    return run.advance(iterations=max_iter or 100_000).result(factors=True)


def ball(X, radius):
    """The projection onto a nuclear ball by all singular vectors."""
    U, s, VT = np.linalg.svd(X, full_matrices=False)
    return (U * (s if s.sum() <= radius else project_simplex(s, radius))) @ VT


def by_arrays(problem, steps=3000):
    """The optimum by accelerated projected gradients on arrays, with all singular vectors."""
    radius, W = problem.domain.radius, np.zeros(problem.domain.shape)
    before, t = W, 1.0
    L = sum(term.weight * term.function.smoothness * term.map.row_norm**2 for term in problem.terms)
    for _ in range(steps):
        later = (1 + np.sqrt(1 + 4 * t * t)) / 2
        Z = W + (t - 1) / later * (W - before)
        new = ball(Z - sum(term.gradient(Z, 1.0) for term in problem.terms) / (L or 1e-3), radius)
        t = 1.0 if np.vdot(Z - new, new - W) > 0 else later
        W, before = new, W
    return problem.objective(W)
