"""What is done with matrices that are large for a GPU, tried with small ones on a stand-in."""

import importlib

import numpy as np
import pytest

import condgrad as cg
from condgrad import applications, domains
from condgrad.applications import lloyd
from condgrad.applications.clustering import denoised
from condgrad.applications.lloyd import Denoised, hartigan
from condgrad.backends import devices
from condgrad.backends.arrays import foreign
from condgrad.domains.bottom import bottom, projected
from condgrad.domains.eigen import lowest_bound, lowest_eigpair
from condgrad.maps import Inner
from condgrad.methods.frames import Frame, project, ritz
from condgrad.sdp._run import Search
from device_programs import graph, max_cut
from stand_in import alike, installed, ndarray

HOW = {"gap": 1e-3, "feasibility": 1e-3, "device": "auto"}
SEED = pytest.mark.parametrize("seed", range(3))


@pytest.fixture
def cupy(monkeypatch):
    """Where a matrix of side 10 is large: worked on in slabs, and by blocks of vectors."""
    for place, value in (
        ("backends.arrays.SLAB", 8 * 500),
        ("backends.arrays.MANY", 700),
        ("maps._base.MANY", 700),
        ("domains.bottom.LEAN", 0),
        ("domains.eigen.WHOLE_GPU", 10),
        ("methods.frames.BLOCKS", 10),
        ("applications.kmeans.NEARBY", 0),
    ):
        module, _, name = place.rpartition(".")
        monkeypatch.setattr(importlib.import_module(f"condgrad.{module}"), name, value)
    with alike(monkeypatch) as module:
        yield module


def clusters(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) + 2.5 * rng.integers(0, 3, (n, 1))
    return np.square(X[:, None] - X[None]).sum(axis=-1)


@pytest.mark.parametrize("seed", range(2))
def test_kmeans_in_slabs(cupy, seed, monkeypatch):
    C = clusters(130, seed)
    there = applications.kmeans(C, 3).run(gap=1e-3, device="cuda", max_iter=400)
    here = applications.kmeans(C, 3).run(gap=1e-5, max_iter=2000)
    assert there.status in (cg.Status.CONVERGED, cg.Status.RELAXED)
    assert there.result.device == "cuda (stand-in)"
    assert there.result.lower_bound <= here.result.objective * (1 + 1e-5)
    assert there.result.lower_bound >= here.result.lower_bound * (1 - 3e-3)
    assert there.rounded.value == pytest.approx(here.rounded.value, rel=1e-2)


@pytest.mark.parametrize("most", [5, 60])
def test_the_first_step_by_a_block(cupy, most, monkeypatch):
    """Where the projection has more vectors than the block, all of them are found."""
    rng = np.random.default_rng(most)
    values = np.concatenate([1 + rng.random(most), -1 - rng.random(120 - most)])
    U = np.linalg.qr(rng.standard_normal((120, 120)))[0]
    X = (U * values) @ U.T
    problem = applications.max_cut(np.ones((120, 120)) - np.eye(120)).problem
    face = problem.domain.on(cupy.empty(0)).face._replace(trace=1e9, equality=False)
    found = ndarray(np.empty((120, 120)))
    project(face, ndarray(0.5 * (X + X.T)), [Frame()], found, 100)
    wanted = (U * np.maximum(values, 0)) @ U.T
    np.testing.assert_allclose(found.get(), wanted, atol=1e-6)


@SEED
@pytest.mark.parametrize("spent", [True, False])
def test_the_bound_on_an_eigenvalue_in_slabs(cupy, seed, spent):
    rng = np.random.default_rng(seed)
    V = rng.standard_normal((90, 90))
    V = (V + V.T) * 10.0 ** rng.integers(-9, 9)
    true = np.linalg.eigvalsh(V)[0]
    given = ndarray(V.copy())
    low, failure = lowest_bound(given, None, spent)
    assert failure == 0
    assert true - 1e-5 * abs(true) <= low <= true
    if not spent:
        assert np.array_equal(given.get(), V)


@SEED
def test_a_matrix_that_is_not_symmetric_to_the_last_bit(cupy, seed):
    V = np.random.default_rng(seed).standard_normal((40, 40))
    V = V + V.T + 1e-9 * V
    low, _ = lowest_bound(ndarray(V))
    assert low <= np.linalg.eigvalsh(0.5 * (V + V.T))[0]


@SEED
@pytest.mark.parametrize("wrong", [np.eye(60), np.triu(np.ones((60, 60))), np.full((60, 60), 3.0)])
def test_a_factor_that_is_none_proves_nothing(cupy, seed, wrong):
    V = np.random.default_rng(seed).standard_normal((60, 60))
    V = V + V.T
    cupy.linalg.cholesky = lambda B: ndarray(wrong.copy())
    assert lowest_bound(ndarray(V))[0] <= np.linalg.eigvalsh(V)[0]


@SEED
@pytest.mark.parametrize("pins", [0, 1, 2])
def test_the_minimum_is_that_of_the_cpu(cupy, seed, pins):
    rng = np.random.default_rng(seed)
    v = rng.standard_normal((75, 75))
    if pins:
        Q = np.linalg.qr(rng.standard_normal((75, pins)))[0]
        domain = domains.PinnedSpectrahedron(Q, 4.0, values=1.0, equality=True)
    else:
        domain = domains.Spectrahedron(75, 3.0)
    there, wanted = domain.on(cupy.empty(0)), domain.minimum(v).value
    for spent in (False, True):
        given = ndarray(v.copy())
        found = there.minimum(given, spent=spent).value
        assert found == pytest.approx(wanted, rel=1e-5)
        assert found <= wanted + 1e-9 * abs(wanted)
        assert spent or np.array_equal(given.get(), v)


@SEED
def test_the_lower_end_of_a_spectrum_without_another_matrix(cupy, seed):
    V = np.random.default_rng(seed).standard_normal((120, 120))
    V = V + V.T
    found = bottom(ndarray(V))
    assert found.values[0] == pytest.approx(np.linalg.eigvalsh(V)[0], rel=1e-4)


@SEED
@pytest.mark.parametrize("pins", [0, 2])
def test_the_oracle_by_a_block(cupy, seed, pins, monkeypatch):
    monkeypatch.setattr("condgrad.domains.eigen.SMALL_GPU", 200)
    rng = np.random.default_rng(seed)
    V = rng.standard_normal((90, 90))
    V = V + V.T
    Q = np.linalg.qr(rng.standard_normal((90, 2)))[0][:, :pins]
    off = np.eye(90) - Q @ Q.T
    wanted = np.linalg.eigvalsh(off @ V @ off)[0]
    found = lowest_eigpair(ndarray(V), effort=4.0, fixed=ndarray(Q))
    x = found.vector.get()
    assert found.value == pytest.approx(wanted, rel=1e-4)
    assert np.abs(Q.T @ x).max(initial=0.0) <= 1e-12
    assert x @ V @ x == pytest.approx(wanted, rel=1e-4)
    assert np.linalg.norm(x) == pytest.approx(1.0)


@SEED
def test_rows_of_denoised_distances(cupy, seed):
    C = clusters(40, seed)
    W = np.random.default_rng(seed).standard_normal((40, 40))
    W[3] = -1.0
    rows = Denoised(ndarray(C), ndarray(W.copy())).rows(np.array([7, 3, 7]))
    np.testing.assert_allclose(rows, denoised(C, W)[[7, 3, 7]], atol=1e-10)


def test_room_for_data_is_enough_beside_a_gpu(monkeypatch):
    """What is too large for the memory of the process may be solved on a GPU."""
    C, free = clusters(60), float(64 << 20) + 12 * 8 * 60 * 60
    monkeypatch.setattr("condgrad.backends.memory.free_memory", lambda: free)
    with pytest.raises(cg.ProblemError, match="dense matrices of 60 × 60"):
        applications.kmeans(C, 3)
    with installed():
        assert devices.any_gpu()
        assert applications.kmeans(C, 3).run(max_iter=3, device="cuda").result.iterations == 3
        with pytest.raises(cg.ProblemError, match="this run needs"):
            applications.kmeans(C, 3).run(max_iter=3, device="cpu")


def test_what_cannot_be_on_a_gpu_is_said_before_what_is_missing():
    domain = domains.NuclearBall((5, 5), 1.0)
    term = cg.Term(Inner(np.eye(5)), cg.functions.Linear(), name="cost")
    with pytest.raises(cg.ProblemError, match="NuclearBall, which cannot be on a GPU"):
        cg.solve(cg.Problem(domain, [term]), device="cuda")


def test_too_little_memory_of_a_gpu_is_said_with_the_remedy():
    with installed(memory=1e6), pytest.raises(cg.ProblemError, match=r"needs .* of a GPU") as error:
        applications.kmeans(clusters(50), 3).run(max_iter=3, device="cuda")
    assert "device='cpu'" in str(error.value)


@pytest.mark.parametrize("memory", [1e6, 1e9])
def test_a_program_that_stays_on_the_cpu_asks_no_gpu(monkeypatch, memory):
    """Whether its eigenvalues are bounded on a GPU follows where its run is."""
    monkeypatch.setattr("condgrad.backends.devices.WIDE", 5)
    with installed(memory=memory):
        search = Search(max_cut(graph(12, 0.4, 0)), None, None, None, HOW)
        assert foreign(search.reduced.like)
        solution = search.run()
        assert (solution.device == "cpu") == (memory < 1e8)
        assert foreign(search.reduced.like) == (memory > 1e8)


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")
@SEED
def test_a_filter_whose_columns_are_too_long_for_squares(cupy, seed):
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.standard_normal((80, 80)))[0]
    values = np.concatenate([[-1.0], 1 + 1e-15 * rng.random(79)])
    found = bottom(ndarray((U * values) @ U.T))
    assert found.values[0] == pytest.approx(-1.0)
    long = ndarray(1e200 * rng.standard_normal((80, 5)))
    assert np.isfinite(projected(ndarray(U + U.T), long).values).all()


def test_points_are_moved_where_their_distances_lie(monkeypatch):
    rng = np.random.default_rng(0)
    with installed():
        for k in (1, 2, 5):
            X = rng.standard_normal((40, 3))
            C = np.square(X[:, None] - X[None]).sum(axis=-1)
            labels = rng.permutation(np.arange(40) % k)
            here = hartigan(C, labels, k)
            with monkeypatch.context() as patch:
                patch.setattr(lloyd, "MANY", 0)
                assert np.array_equal(hartigan(ndarray(C), labels, k), here)


@pytest.mark.parametrize("pinned", [0, 1])
def test_projections_from_the_vectors_of_the_step_before(pinned):
    rng, n, k = np.random.default_rng(0), 90, 12
    Q = np.full((n, pinned), n**-0.5)
    V = rng.standard_normal((n, n)) + np.diag(np.linspace(0, 99, n))
    X, off = V + V.T, np.eye(n) - Q @ Q.T
    K = np.linalg.qr(np.hstack([Q, rng.standard_normal((n, k))]))[0][:, pinned:]
    with installed():
        there, pins = ndarray(K), ndarray(Q)
        for _ in range(40):
            values, vectors, products = ritz(ndarray(X), there, pins)
            there = vectors[:, :k] - pins @ (pins.T @ vectors[:, :k])
        K = there.get()
    assert products == 2 * k
    wanted = np.linalg.eigvalsh(off @ X @ off)[::-1]
    np.testing.assert_allclose(values[:4], wanted[:4], rtol=1e-9)
    np.testing.assert_allclose(K.T @ K, np.eye(k), atol=1e-12)
    np.testing.assert_allclose(Q.T @ K, 0, atol=1e-13)
