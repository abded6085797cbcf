"""No bound and no promise of an application is wrong: random small inputs against brute force."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

import condgrad as cg
from condgrad import ProblemError, report
from condgrad import applications as ap

pytestmark = pytest.mark.slow

CASES = 100
SCALES = (1.0, 2.0**-20, 2.0**30)
"""Powers of two: the weights stay exact."""


def graph(rng, signed):
    """A random graph, of connected parts or not, with weights 0, small, large or integer."""
    n = int(rng.integers(3, 8))
    kind = rng.integers(4)
    weights = rng.integers(1, 9, (n, n)).astype(float)
    if kind == 1:
        weights = np.rint(1024 * rng.random((n, n))) / 1024
    elif kind == 2:
        weights = 2.0 ** rng.integers(-12, 12, (n, n))
    if signed:
        weights *= rng.choice([-1.0, 1.0], (n, n), p=[0.4, 0.6])
    kept = rng.random((n, n)) < rng.choice([0.0, 0.3, 0.6, 1.0], p=[0.05, 0.25, 0.4, 0.3])
    A = np.triu(weights * kept, 1)
    return (A + A.T) * rng.choice(SCALES)


def cuts(A):
    """Each cut once, exactly: how many vertices on a side, and the weight across."""
    n = len(A)
    exact = [[Fraction(w) for w in row] for row in A.tolist()]
    for bits in itertools.product((0, 1), repeat=n - 1):
        side = (0, *bits)
        pairs = ((i, j) for i in range(n) for j in range(i) if side[i] != side[j])
        yield sum(side), sum((exact[i][j] for i, j in pairs), Fraction(0))


@pytest.mark.parametrize("preset", ["auto", "paper"])
def test_sparsest_cuts(preset):
    rng = np.random.default_rng(0)
    for _ in range(CASES // 2):
        A = graph(rng, signed=False)
        n = len(A)
        best = min(Fraction(n * n) * w / (2 * s * (n - s)) for s, w in cuts(A) if s)
        run = ap.sparsest_cut(A, preset).run(max_iter=int(rng.integers(0, 40)), gap=1e-3)
        assert Fraction(run.result.lower_bound) <= best
        assert run.rounded.value >= float(best) * (1 - 1e-12)
        promised = Fraction(run.rounded.value) * (1 - Fraction(run.rounded_gap))
        assert promised <= best * (1 + Fraction(1e-12))
        assert report.promise(run, "cut")


def test_sparsest_cuts_of_the_function():
    rng = np.random.default_rng(1)
    for _ in range(CASES):
        A = graph(rng, signed=False)
        n = len(A)
        best = min(w / (s * (n - s)) for s, w in cuts(A) if s)
        cut = cg.sparsest_cut(A, gap=0.3, max_seconds=None)
        assert Fraction(cut.bound) <= best
        assert cut.value >= float(best) * (1 - 1e-12)
        assert str(cut)


def test_maximum_cuts():
    rng = np.random.default_rng(2)
    for case in range(CASES):
        A = graph(rng, signed=True)
        best = max(w for _, w in cuts(A))
        warm = None if case % 2 else 1e-2
        run = ap.max_cut(A, warm=warm).run(max_iter=int(rng.integers(0, 30)), gap=1e-3)
        assert Fraction(-run.rounded_bound) >= best
        assert Fraction(-run.result.lower_bound) >= best
        size = np.abs(A).sum()
        assert -run.rounded.value <= float(best) + 1e-12 * size
        if run.rounded_gap < 1:
            least = Fraction(-run.rounded_bound) * (1 - Fraction(run.rounded_gap))
            assert -run.rounded.value >= float(least) - 1e-12 * size
        if run.rounded_gap == 0:
            assert -run.rounded.value >= float(best) - 1e-12 * size
        assert report.promise(run, "cut")


def distances(rng):
    """Squared distances of points with repeats, or any symmetric numbers of at least 0."""
    n, kind = int(rng.integers(2, 8)), rng.integers(3)
    if kind == 0:
        points = rng.integers(0, 4, (n, 2)).astype(float)
        C = np.square(points[:, None] - points).sum(axis=2)
    else:
        C = np.triu(rng.integers(0, 9, (n, n)) * (rng.random((n, n)) < 0.7), int(kind == 1))
        C = (C + np.triu(C, 1).T).astype(float)
    return C * rng.choice(SCALES)


def best_clustering(C, k):
    """The smallest Σ_S (1/|S|) Σ C_ij over partitions into k parts, exactly."""
    n = len(C)
    exact = [[Fraction(c) for c in row] for row in C.tolist()]
    masks = range(1 << n)
    members = [[i for i in range(n) if mask >> i & 1] for mask in masks]
    cost = [
        sum((exact[i][j] for i in m for j in m), Fraction(0)) / len(m) if m else None
        for m in members
    ]
    best = {0: Fraction(0)}
    for _ in range(k):
        following = {}
        for mask, value in best.items():
            rest = (1 << n) - 1 & ~mask
            first, others = rest & -rest, rest & (rest - 1)
            part = others
            while rest:  # every subset of what is left that has its first point
                found = value + cost[part | first]
                key = mask | part | first
                if key not in following or found < following[key]:
                    following[key] = found
                if not part:
                    break
                part = (part - 1) & others
        best = following
    return best[(1 << n) - 1]


@pytest.mark.parametrize("preset", ["auto", "paper"])
def test_clusterings(preset):
    rng = np.random.default_rng(3)
    for _ in range(CASES // 2):
        C = distances(rng)
        k = int(rng.integers(1, len(C) + 1))
        best = best_clustering(C, k)
        run = ap.kmeans(C, k, preset).run(max_iter=int(rng.integers(0, 40)), gap=1e-3)
        assert Fraction(run.result.lower_bound) <= best
        assert run.rounded.value >= float(best) * (1 - 1e-12)
        promised = Fraction(run.rounded.value) * (1 - Fraction(run.rounded_gap))
        assert promised <= best * (1 + Fraction(1e-12))
        assert report.promise(run, "clustering")


def test_distances_that_rounding_made_negative():
    """The floor is what W ≥ 0 with entries that sum to n proves, not 0."""
    rng = np.random.default_rng(4)
    for _ in range(CASES):
        C = distances(rng)
        if not C.any():
            continue
        below = 2.0**-36 * C.max() * (rng.random(C.shape) < 0.5)
        C -= np.triu(below) + np.triu(below, 1).T
        k = int(rng.integers(1, len(C) + 1))
        application = ap.kmeans(C, k)
        best = best_clustering(C, k)
        assert Fraction(application.floor) <= best
        run = application.run(max_iter=5)
        assert Fraction(run.result.lower_bound) <= best
        assert report.promise(run, "clustering")


def test_negative_distances_are_refused():
    """Similarities by mistake, or a negative diagonal, which once never ended."""
    rng = np.random.default_rng(5)
    for _ in range(CASES):
        C = distances(rng)
        i, j = rng.integers(len(C), size=2)
        C[i, j] = C[j, i] = -max(C.max(), 1.0) * rng.choice([1e-9, 1e-3, 1.0, 1e6])
        with pytest.raises(ProblemError, match="distances has a negative entry"):
            ap.kmeans(C, 1)
        with pytest.raises(ProblemError, match="distances has a negative entry"):
            ap.round_clusters(C, np.eye(len(C)), 1)


def test_an_edge_that_differs_by_direction_has_the_mean():
    """Up to 1e-10 of the largest weight, which can be all of a small one."""
    A = np.zeros((4, 4))
    A[0, 1] = A[1, 0] = A[2, 3] = A[3, 2] = 1e10
    A[1, 2] = 1.0
    for given in (A, A.T):
        cut = cg.sparsest_cut(given, max_seconds=None)
        assert cut.value == 0.5 / 4
        assert cut.bound <= cut.value
        assert cg.max_cut(given, max_seconds=None).bound >= 2e10 + 0.5


@pytest.mark.parametrize("size", [1e-320, 1e-200, 1e-100, 1e-64, 1e64, 1e100, 1e200, 1e308])
def test_magnitudes(size):
    """The answer is that of the same numbers near 1; beyond the range they are refused."""
    A = np.triu(np.random.default_rng(0).random((6, 6)), 1)
    A += A.T
    for answer in (
        lambda scale: cg.sparsest_cut(scale * A, max_seconds=None, gap=0.1).partition,
        lambda scale: cg.max_cut(scale * A, max_seconds=None, gap=0.1).partition,
        lambda scale: ap.kmeans(scale * A, 3).run(max_iter=20).rounded.answer.labels.tolist(),
    ):
        if 1e-65 < size < 1e65:
            assert answer(size) == answer(1.0)
        else:
            with pytest.raises(ProblemError, match=r"has entries up to .* divide it by"):
                answer(size)


def test_an_application_of_your_own_has_no_floor():
    """The optimum is −1: nothing says that costs are not negative."""
    cost = cg.Term(cg.maps.Inner(np.array([-1.0, 2.0])), cg.functions.Linear(), name="cost")
    problem = cg.Problem(cg.domains.Simplex(2), [cost])
    own = ap.Application("own", "auto", problem, np.array([0.5, 0.5]), {"": "auto"}, 1)
    run = own.run(max_iter=50)
    assert -1.001 <= run.result.lower_bound <= -1
