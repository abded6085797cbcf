"""The oracle for singular vectors: how much it may miss, whatever it starts from."""

from itertools import pairwise

import numpy as np
import pytest

import condgrad as cg
from condgrad import domains, functions, maps
from condgrad.backends import _reference as reference
from condgrad.domains import eigen
from condgrad.domains.eigen import top_singular_pair

numba_kernels = pytest.importorskip("condgrad.backends._numba", exc_type=ImportError)
BOTH = pytest.mark.parametrize("ops", [reference, numba_kernels], ids=["reference", "numba"])
REAL = pytest.mark.parametrize("dtype", [np.float64, np.float32])
SHAPE = (230, 160)
SPECTRA = {
    "second far below": np.r_[3.0, 1.0, np.linspace(0.3, 0.1, 158)],
    "second near": np.r_[1.1, 1.0, np.linspace(0.9, 0.1, 158)],
    "cluster": np.r_[1 - 1e-3 * np.arange(30), np.linspace(0.5, 0.1, 130)],
    "repeated": np.r_[np.ones(5), np.linspace(0.99, 0.1, 155)],
    "dense": np.linspace(1.0, 0.0, 160),
    "falling": 0.8 ** np.arange(160),
}


def matrix(spectrum, dtype=np.float64, seed=0, shape=SHAPE):
    """U diag(spectrum) Qᵀ with its U and Q."""
    rng = np.random.default_rng(seed)
    U, Q = (np.linalg.qr(rng.standard_normal((n, spectrum.size)))[0] for n in shape)
    return ((U * spectrum) @ Q.T).astype(dtype), U, Q


def hints(U, Q):
    """Starts that know nothing of the leading vector, or all of it, and none."""
    near = Q[:, 1] + 1e-3 * Q[:, 2]
    return {
        "second vector": Q[:, 1],
        "near the second": near,
        "third and fourth": Q[:, 2] + Q[:, 3],
        "iterate": np.outer(U[:, 1], Q[:, 1]),
        "last": Q[:, -1],
        "leading": Q[:, 0],
        "none": None,
    }


@REAL
@pytest.mark.parametrize("kind", SPECTRA)
@pytest.mark.parametrize("effort", [4.0, 10.0])
def test_no_start_deceives_the_oracle(dtype, kind, effort):
    V, U, Q = matrix(SPECTRA[kind], dtype)
    top = np.linalg.svd(V.astype(np.float64), compute_uv=False)[0]
    allowed = min(eigen.HIDDEN, eigen.BEYOND / effort**2)
    for name, hint in hints(U, Q).items():
        near = None if hint is None else hint.astype(dtype)
        for seed in range(5):
            rng = np.random.default_rng(seed)
            value, u, v, _ = top_singular_pair(V, effort=effort, hint=near, rng=rng)
            assert value**2 * (1 + allowed) >= top**2, (name, seed)
            assert u.dtype == v.dtype == dtype
            assert np.linalg.norm(u) == pytest.approx(1, abs=1e-5)
            assert np.linalg.norm(v) == pytest.approx(1, abs=1e-5)
            assert u @ V.astype(np.float64) @ v == pytest.approx(value, rel=1e-5)


@REAL
@pytest.mark.parametrize("shape", [(300, 60), (60, 300)])
def test_full_accuracy_from_a_start_orthogonal_to_the_answer(dtype, shape):
    V, U, Q = matrix(np.r_[1.2, 1.0, np.linspace(0.9, 0.1, 58)], dtype, 1, shape)
    value, u, v, _ = top_singular_pair(V, hint=Q[:, 1].astype(dtype))
    assert value == pytest.approx(1.2, rel=1e-5)
    assert abs(u @ U[:, 0]) == pytest.approx(1, abs=1e-4)
    assert abs(v @ Q[:, 0]) == pytest.approx(1, abs=1e-4)


@REAL
def test_steps_that_look_for_a_larger_value_leave_the_pair_as_it_was(dtype, monkeypatch):
    V, U, Q = matrix(SPECTRA["cluster"], dtype)
    iterate = (U[:, :9] @ Q[:, :9].T).astype(dtype)
    pairs, spent = [], []
    for hidden in (0.02, 1e9):  # a long look, and none
        monkeypatch.setattr(eigen, "HIDDEN", hidden)
        rng = np.random.default_rng(0)
        value, u, v, products = top_singular_pair(V, effort=4.0, hint=iterate, rng=rng)
        pairs.append((value, *u, *v))
        spent.append(products)
    assert pairs[0] == pairs[1]
    assert spent[0] > spent[1]


@REAL
def test_more_effort_brings_the_value_closer(dtype):
    V, _, Q = matrix(SPECTRA["dense"], dtype)
    misses, products = [], []
    for effort in (10.0, 30.0, 100.0):
        found = [
            top_singular_pair(
                V, effort=effort, hint=Q[:, 9].astype(dtype), rng=np.random.default_rng(seed)
            )
            for seed in range(10)
        ]
        misses.append(1 - np.mean([value for value, *_ in found]))
        products.append(np.mean([spent for *_, spent in found]))
    assert all(a > 1.5 * b for a, b in pairwise(misses))
    assert all(a < b for a, b in pairwise(products))


def test_the_effort_of_a_method_reaches_the_oracle():
    V, _, _ = matrix(SPECTRA["dense"])
    cost = cg.Term(maps.Inner(V), functions.Linear())
    problem = cg.Problem(domains.NuclearBall(SHAPE, 1.0), [cost])
    spent = [
        cg.solve(problem, cg.hcgm(1.0).with_effort(e), max_iter=20, certify=False).matvecs
        for e in (1.0, 4.0, 16.0, None)
    ]
    assert spent == sorted(set(spent))


@BOTH
@pytest.mark.parametrize("steps", [1, 4, 9])
def test_hidden_bounds_what_the_start_holds(ops, steps):
    rng = np.random.default_rng(steps)
    values, start = np.sort(rng.standard_normal(40)), rng.standard_normal(40)
    start /= np.linalg.norm(start)
    diagonal, off = np.empty(steps), np.empty(steps)
    q, before = start, np.zeros(40)
    for i in range(steps):
        r = values * q - (off[i - 1] * before if i else 0)
        diagonal[i] = q @ r
        r = r - diagonal[i] * q
        off[i] = np.linalg.norm(r)
        before, q = q, r / off[i]
    for value, part in zip(values, start**2, strict=True):
        assert part <= ops.hidden(diagonal, off, value) * (1 + 1e-9)
    below = values[0] - np.array([0.0, 0.5, 1.0, 10.0, 1e60])
    found = [ops.hidden(diagonal, off, at) for at in below]
    assert found == sorted(found, reverse=True)
    twin = [reference.hidden(diagonal, off, at) for at in below]
    assert found == pytest.approx(twin, rel=1e-9)


def test_twins_go_on_until_nothing_is_hidden():
    V, _, Q = matrix(np.r_[1.2, np.linspace(1, 0, 159)])
    start = Q[:, 1] + 0.01 * Q[:, 2:].sum(axis=1) + 1e-4 * Q[:, 0]
    for seen, value in ((0.0, 1.0), (1e-9, 1.44)):  # σ² = 1.44 and 1: the second shows first
        ends = []
        for ops in (reference, numba_kernels):
            room = np.empty((40, 160))
            ends.append(ops.lanczos(V, True, start, room, 0, 2.2e-16, 0.03, seen, 0.1))
        assert ends[0][4] == ends[1][4]
        assert ends[0][1] == pytest.approx(-value, rel=0.01)
        assert ends[0][1:4] == pytest.approx(ends[1][1:4], rel=1e-3, abs=1e-6)
