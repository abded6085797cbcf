"""Projections onto spectrahedra against an exact twin."""

import numpy as np
import pytest

from condgrad import domains
from condgrad.domains.projections import FaceProjector
from condgrad.methods.frames import AGAIN, Frame, _corrected
from projections import KINDS, Projected, domain_of, leading, nearest, symmetric


@pytest.mark.parametrize("size", [1e-9, 0.01, 1.0, 100.0])
@pytest.mark.parametrize("equality", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_small_projections_are_exact(kind, equality, size):
    rng = np.random.default_rng(0)
    for n in (3, 12, 40, 100):
        domain = domain_of(kind, n, equality)
        step = Projected(domain)
        for _ in range(2):  # of size 1e-9 the mass goes everywhere but to the pinned vectors
            X = symmetric(rng, n, size)
            W = step(X)
            assert domain.contains(W)
            np.testing.assert_allclose(W, nearest(domain, X), atol=1e-9 * max(1, size))
            S, *_ = FaceProjector(domain.face).project(X)
            assert domain.contains(S)
            np.testing.assert_allclose(S, nearest(domain, X), atol=1e-9 * max(1, size))


@pytest.mark.parametrize("equality", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_large_projections_follow_the_leading_eigenvectors(kind, equality):
    rng = np.random.default_rng(1)
    domain = domain_of(kind, 110, equality)
    step, X = Projected(domain), leading(rng, 110, 5)
    for _ in range(3):  # the frame spans them from the first on; what is added to it is noise
        np.testing.assert_allclose(step(X), nearest(domain, X), atol=1e-9)
    X = X + symmetric(rng, 110, 1e-3)
    for _ in range(20):
        W = step(X)
        assert domain.contains(W)
    np.testing.assert_allclose(W, nearest(domain, X), atol=1e-7)


@pytest.mark.parametrize("size", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("equality", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_large_projections_stay_in_the_domain(kind, equality, size):
    rng = np.random.default_rng(2)
    domain = domain_of(kind, 110, equality)
    step = Projected(domain)
    for _ in range(6):
        assert domain.contains(step(domain.center() + symmetric(rng, 110, size)))


@pytest.mark.parametrize("kind", KINDS)
def test_large_projections_of_high_rank_are_exact(kind):
    rng = np.random.default_rng(4)
    domain = domain_of(kind, 110)
    step = Projected(domain)
    for size in (1e-9, 1e-6, 1e-4):
        X = domain.center() + symmetric(rng, 110, size)
        W = step(X)
        assert np.linalg.matrix_rank(W) > 110 // 4
        np.testing.assert_allclose(W, nearest(domain, X), atol=1e-12)


def test_nearly_all_of_a_large_matrix_pinned():
    rng = np.random.default_rng(3)
    domain = domains.PinnedSpectrahedron(rng.standard_normal((110, 100)), 1.0, equality=True)
    step = Projected(domain)
    for _ in range(4):
        X = symmetric(rng, 110)
        np.testing.assert_allclose(step(X), nearest(domain, X), atol=1e-9)


@pytest.mark.parametrize("equality", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_projections_of_high_rank_follow_a_slow_change(kind, equality):
    rng, n = np.random.default_rng(0), 110
    domain = domain_of(kind, n, equality)
    step, X, change = Projected(domain), leading(rng, n, 30, 0.2), symmetric(rng, n, 1e-4)
    corrected, before = 0, nearest(domain, X)
    for k in range(24):  # leading eigenvalues are 0.2 to 0.4, the others change by about 0.003
        X = X + change
        W, exact = step(X), nearest(domain, X)
        corrected += step.frames[0].vectors is not None
        assert domain.contains(W)
        off = np.linalg.norm(W - exact) / np.linalg.norm(exact - before)
        assert off < (1e-9 if k % (AGAIN + 1) == 0 else 0.3)  # or taken apart whole
        before = exact
    assert corrected == 24 - 2


def test_a_correction_is_of_second_order():
    rng, n, columns = np.random.default_rng(6), 40, 8
    V = np.linalg.qr(rng.standard_normal((n, n)))[0]
    values, E = np.sort(rng.random(n))[::-1] + np.arange(n)[::-1], symmetric(rng, n)
    K = V[:, :columns]
    earlier = Frame(basis=V, values=values)
    off = []
    for size in (1e-2, 1e-3, 1e-4):
        X = (V * values) @ V.T + size * E
        top = np.linalg.eigh(X)[1][:, ::-1][:, :columns]
        near = np.linalg.qr(_corrected(X @ K, K, earlier))[0]
        off.append(np.linalg.norm(near - top @ (top.T @ near)) / size)
        assert np.linalg.norm(K - top @ (top.T @ K)) > 0.1 * size
    assert off[1] < off[0] / 5
    assert off[2] < off[1] / 5


def test_nothing_to_correct_where_all_eigenvalues_are_the_same():
    K = np.eye(9)[:, :4]
    earlier = Frame(basis=np.eye(9), values=np.ones(9))
    np.testing.assert_array_equal(_corrected(K.copy(), K, earlier), K)
