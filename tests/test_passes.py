"""What a new map or an array of another package must bring, to be served by compiled passes."""

import numpy as np
import pytest

import condgrad as cg
from condgrad import Problem, Term, domains, functions, maps
from condgrad.backends import OTHERS, kernels, ops
from condgrad.backends.arrays import namespace
from condgrad.maps._base import Covering
from condgrad.passes import Fused, Plain, Stored, passes_of


class Differences(Covering):
    """z_l = W_l − W_{l+1} of a vector, with its two kernels and nothing else compiled."""

    row_norm = np.sqrt(2.0)

    def __init__(self, d):
        self.shape, self.size, self.storage = (d,), d - 1, d

    def rows(self, W, at=slice(None)):
        ids = np.arange(self.size)[at]
        return W[ids] - W[ids + 1]

    def scatter(self, G, at, y):
        ids = np.arange(self.size)[at]
        np.add.at(G, ids, y)
        np.subtract.at(G, ids + 1, y)


def sweep(W, start, stop, out):
    for l in range(start, stop):
        out[l - start] = W[l] - W[l + 1]


def add(G, start, stop, y):
    for l in range(start, stop):
        G[l] += y[l - start]
        G[l + 1] -= y[l - start]


class FastDifferences(Differences):
    kernels = (sweep, add)


class Doubled(FastDifferences):
    """Changed rows: the kernels are no longer theirs."""

    def rows(self, W, at=slice(None)):
        return 2 * super().rows(W, at)


def test_a_map_with_two_kernels_runs_fused(monkeypatch):
    d, upper = 9000, functions.AtMost(1e-5)  # more rows than a chunk
    slow, fast = passes_of(Differences(d), upper), passes_of(FastDifferences(d), upper)
    assert (type(slow), type(fast)) == (Plain, Fused)
    assert type(passes_of(Doubled(d), upper)) is Plain
    assert type(passes_of(FastDifferences(d), functions.AtMost(np.ones(d - 1)))) is Plain
    assert type(passes_of(maps.Diagonal(3), upper)) is Stored
    rng = np.random.default_rng(0)
    W, ranges = rng.standard_normal(d), [slice(0, 5000), slice(6000, d - 1)]
    outcomes = []
    for passes in (slow, fast):
        G, y, slopes = np.zeros(d), np.zeros(d - 1), np.zeros(d - 1)
        for beta in (0.5, 2.0):
            passes.renew(W, G, ranges, y, slopes, beta, 0.4)
        whole = slice(0, d - 1)
        numbers = [
            passes.squares(W, ranges, slopes),
            *passes.miss(W, whole, 0.1),
            passes.merit(W, whole, y, 0.7),
        ]
        A = np.zeros(d)
        numbers += [*passes.pair(W, A, whole, y, 1.0)]
        outcomes.append((G, y, slopes, A, np.array(numbers)))
    for a, b in zip(*outcomes, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_a_run_with_such_a_map():
    d = 40
    target = np.sin(np.arange(d))
    runs = []
    for kind in (Differences, FastDifferences):
        fit = Term(maps.AllEntries((d,)), functions.Squared(target), name="fit")
        rows = Term(kind(d), functions.AtMost(0.0), name="rising")
        problem = Problem(domains.Box(-1.0, 1.0, d), [fit, rows])
        runs.append(cg.solve(problem, max_iter=300))
    assert runs[0].objective == pytest.approx(runs[1].objective, rel=1e-2)  # atoms flip at ties
    assert max(r.lower_bound for r in runs) <= min(r.objective for r in runs) + 0.1
    assert runs[1].rows == runs[0].rows


class Elsewhere:
    """Stands for an array of another package."""


def test_the_type_of_an_array_picks_the_kernels(monkeypatch):
    assert kernels(np.zeros(2)) is ops
    assert namespace(np.zeros(2)) is np
    with pytest.raises(TypeError, match="no kernels for arrays of"):
        kernels(Elsewhere())
    monkeypatch.setitem(OTHERS, Elsewhere.__module__.partition(".")[0], "math")
    assert kernels(Elsewhere()).__name__ == "math"
