"""Fused passes equal the plain ones they replace: kernels, full passes, whole runs."""

from types import SimpleNamespace

import numpy as np
import pytest

import condgrad as cg
from condgrad import domains, functions, maps
from condgrad.backends import _reference as reference
from condgrad.methods import Full
from condgrad.methods.table1 import Followed
from condgrad.passes import Plain, Stored
from condgrad.problem import Problem, Term

numba_kernels = pytest.importorskip("condgrad.backends._numba", exc_type=ImportError)
REAL = pytest.mark.parametrize("dtype", [np.float64, np.float32])
SEED = pytest.mark.parametrize("seed", range(3))


def twins(name, dtype, *arguments):
    """Run both twins on copies and compare everything returned or written in place."""
    outcomes = []
    for module in (reference, numba_kernels):
        mine = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        result = getattr(module, name)(*mine)
        outcomes.append([result] + [a for a in mine if isinstance(a, np.ndarray)])
    tol = 1e-11 if dtype == np.float64 else 2e-4
    for a, b in zip(*outcomes, strict=True):
        if a is not None or b is not None:
            assert a.dtype == b.dtype
            assert np.allclose(a, b, rtol=tol, atol=tol, equal_nan=True)
    return outcomes[1]


@REAL
@SEED
def test_axpy(dtype, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((2, 33)).astype(dtype)
    index = rng.integers(0, 33, 33)
    assert twins("axpy", dtype, x, -1.5, y)[1] == pytest.approx(x - 1.5 * y, abs=1e-5)
    total = twins("axpy_at", dtype, x, index, 0.3, y)[1]
    assert total == pytest.approx(x + np.bincount(index, 0.3 * y, 33), abs=1e-5)
    for name, more in (("axpy", ()), ("axpy_at", (index[:0],))):
        twins(name, dtype, x[:0], *more, 2.0, y[:0])


@REAL
@pytest.mark.parametrize("bounds", [(-1.0, 1.0), (0.1, 0.1), (-np.inf, 0.3), (0.0, np.inf)])
def test_slopes_written_in_place(dtype, bounds):
    z = np.r_[np.random.default_rng(0).standard_normal(70), 0.1, -1, 1, 0, np.nan].astype(dtype)
    for name, data in (("interval_slope", bounds), ("absolute_slope", (0.3, 0.7))):
        out = twins(name, dtype, z, *data, 0.2, np.full_like(z, 9))[2]
        assert np.isnan(out[-1])  # a lost NaN would hide that a run went wrong
    assert np.abs(out[:-1]).max() <= dtype(0.7)


@REAL
@pytest.mark.parametrize("shape", [(1, 1), (63, 5), (64, 7), (65, 40), (40, 130), (200, 33)])
def test_gram_product(dtype, shape):
    V = np.random.default_rng(3).standard_normal(shape).astype(dtype)
    x = np.random.default_rng(4).standard_normal(shape[1]).astype(dtype) / shape[0]
    out = twins("gram_product", dtype, V, x)[0]
    assert out.dtype == dtype
    assert out == pytest.approx(V.T @ (V @ x), abs=1e-4)


FUNCTIONS = {
    "interval": lambda m: functions.Interval(-0.5, 0.25),
    "interval per row": lambda m: functions.Interval(-0.5, np.linspace(-0.4, 1, m)),
    "at most": lambda m: functions.AtMost(0.1),
    "absolute": lambda m: functions.Absolute(0.2, 0.7),
    "absolute per row": lambda m: functions.Absolute(np.linspace(-1, 1, m), 0.7),
    "l1": lambda m: functions.L1(0.3),
    "squared": lambda m: functions.Squared(np.linspace(-1, 1, m)),
    "not separable": lambda m: functions.SecondOrder(),
}
MAPS = {
    "all": maps.AllEntries((9, 6)),
    "some": maps.Entries([0, 3, 8, 2], [5, 1, 0, 2], (9, 6)),
    "stack": maps.Stack([maps.AllEntries((9, 6)), maps.Entries([1, 2], [0, 3], (9, 6))]),
    "scaled": maps.Scaled(maps.AllEntries((9, 6)), 2.0),
}


@REAL
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("map", MAPS)
def test_a_full_pass_equals_slope_and_scatter(dtype, map, function, monkeypatch):
    monkeypatch.setattr("condgrad.problem.CHUNK", 7)
    A = MAPS[map]
    term = Term(A, FUNCTIONS[function](A.size), 0.6, "t")
    W = np.random.default_rng(0).standard_normal(A.shape).astype(dtype)
    params = cg.hcgm(beta0=0.4).schedule(3)
    s = Followed(np.full(A.storage, 7.0, dtype))  # what an earlier iteration left
    assert (
        Full().follow(s, term, SimpleNamespace(W=W, before=W, rng=np.random.default_rng(0)), params)
        == A.size
    )
    G = A.zeros(dtype)
    A.scatter(G, slice(0, A.size), term.function.slope(A.rows(W), params.beta))
    assert s.G.dtype == dtype
    tol = 1e-13 if dtype == np.float64 else 1e-5
    assert np.allclose(s.G, G, rtol=tol, atol=tol)
    for order in "CF":  # a reshaped copy would swallow the sum
        out = np.asarray(np.ones(A.shape, dtype), order=order)
        A.add_to(s.G, -0.3, out)
        assert out == pytest.approx(
            1 - 0.3 * A.adjoint(term.function.slope(A.rows(W), params.beta)),
            rel=10 * tol,
            abs=10 * tol,
        )


def completion(dtype, shape=(60, 50)):
    rng = np.random.default_rng(0)
    at = rng.choice(shape[0] * shape[1], 400, replace=False)
    fit = maps.Entries(*np.divmod(at, shape[1]), shape)
    terms = [
        Term(fit, functions.Squared(rng.integers(1, 6, 400).astype(float)), 2.0, "fit"),
        Term(maps.AllEntries(shape), functions.Interval(1, 5), name="box"),
        Term(maps.AllEntries(shape), functions.L1(0.01), name="l1"),
    ]
    return Problem(domains.NuclearBall(shape, 300.0), terms, dtype=dtype)


@REAL
def test_a_fused_run_is_the_plain_run(dtype, monkeypatch):
    method = cg.h_sag_v1(beta0=10.0, batch=100).with_effort(None)
    fused = cg.solve(completion(dtype), method, max_iter=40)
    monkeypatch.setattr(Stored, "gradient", Plain.gradient)
    plain = cg.solve(completion(dtype), method, max_iter=40)
    assert fused.W.dtype == plain.W.dtype == dtype
    tol = 1e-9 if dtype == np.float64 else 1e-2
    assert fused.objective == pytest.approx(plain.objective, rel=tol)
    assert np.linalg.norm(fused.W - plain.W) <= tol * np.linalg.norm(plain.W)
