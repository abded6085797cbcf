"""Runs on a GPU, tried without one: a stand-in takes the place of CuPy."""

import sys
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

import condgrad as cg
from condgrad import Problem, Term, applications, domains, functions, maps
from condgrad.applications.rounding import _best_swap, cut_value, improved, round_cut
from condgrad.applications.rounding_device import DeviceGraph, DeviceRounder
from condgrad.backends import tiles
from condgrad.certificate.section import best_scale, nearby
from condgrad.domains.bottom import bottom
from condgrad.domains.eigen import lowest_bound
from stand_in import Passes, alike, installed, ndarray

SEED = pytest.mark.parametrize("seed", range(3))


@pytest.fixture
def cupy(monkeypatch):
    """With the oracle and the search of the CPU, so that runs can be compared."""
    with alike(monkeypatch) as module:
        yield module


def graph(n, seed=0):
    rng = np.random.default_rng(seed)
    A = np.triu(rng.random((n, n)) < 0.3, 1).astype(float)
    A += np.diag(np.ones(n - 1), 1)
    return np.minimum(A, 1) + np.minimum(A, 1).T


def clusters(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) + 2.5 * rng.integers(0, 2, (n, 1))
    return np.square(X[:, None] - X[None]).sum(axis=-1)


def tables_of(run, name):
    """What the state of a run keeps of a term."""
    pairs = zip(run.problem.terms, run.state.tables, strict=True)
    return next(table for term, table in pairs if term.name == name)


APPLICATIONS = {
    "cut": lambda: applications.sparsest_cut(graph(20)),
    "weighted": lambda: applications.sparsest_cut(graph(20), vertex_weights=1.0 + np.arange(20)),
    "spread": lambda: applications.sparsest_cut(graph(15), preset="paper"),
    "kmeans": lambda: applications.kmeans(clusters(70), 3),
    "kmeans by rows": lambda: applications.kmeans(clusters(50), 3, preset="paper"),
    "max-cut": lambda: applications.max_cut(graph(45)),
    "max-cut with triangles": lambda: applications.max_cut(graph(12), triangles=True),
}


@pytest.mark.parametrize("name", APPLICATIONS)
@pytest.mark.parametrize("method", [cg.spdhg, cg.sag_cgal])
def test_the_run_of_the_cpu_is_that_of_the_gpu(cupy, name, method):
    """Up to rounding, where the tables are of one type: a few steps, before rounding has grown."""
    application = APPLICATIONS[name]()

    def run(device, most):
        how = {"start": application.start, "max_iter": most, "gap": 1e-4, "device": device}
        return cg.solve(application.problem, method(table_dtype="float64"), **how)

    here, there = (run(device, 4) for device in ("cpu", "cuda"))
    assert (here.device, there.device) == ("cpu", "cuda (stand-in)")
    assert type(there.W) is np.ndarray
    assert there.iterations == here.iterations
    if name != "spread":  # its first β is that of rounding: triangles do not see the first step
        np.testing.assert_allclose(there.W, here.W, atol=1e-8 * np.abs(here.W).max())
    assert "on cuda (stand-in)" in there.summary()
    end, far = run("cuda", 60), run("cpu", 4000)
    slack = 2e-3 * (abs(far.objective) + abs(far.lower_bound))
    assert end.lower_bound <= far.objective + slack


def test_an_application_runs_on_a_gpu(cupy):
    found = APPLICATIONS["cut"]().run(gap=1e-3, device="cuda")
    assert found.status is cg.Status.CONVERGED
    assert found.to_json()["device"] == "cuda (stand-in)"


@pytest.mark.parametrize("method", [cg.spdhg, cg.sag_cgal])
def test_tables_in_half_precision(cupy, method):
    """Bounds are those of the tables as they are."""
    application, how = APPLICATIONS["cut"](), {"max_iter": 40, "duals": True, "gap": 1e-2}
    found = cg.solve(application.problem, method(table_dtype="bfloat16"), device="cuda", **how)
    exact = cg.solve(application.problem, max_iter=4000, gap=1e-6)
    assert found.lower_bound <= exact.objective * (1 + 1e-6)
    assert found.lower_bound >= exact.objective * (1 - 2e-2)
    y = found.duals["triangles"].astype(np.float32)
    if "scaled" not in found.bound_source:
        assert np.array_equal(tiles.widened(tiles.narrowed(y)), y)
    with pytest.raises(cg.ProblemError, match=r"'bfloat16', which is for a GPU: use device='cuda'"):
        cg.solve(application.problem, method(table_dtype="bfloat16"))


def test_half_precision_is_chosen_where_nothing_else_fits(cupy):
    problem, n = applications.sparsest_cut(graph(20)).problem, 20
    run = cg.start(problem, device="cuda")
    other = 64 * 2**20 + (13 + 4 + 5 + 2) * 8 * n * n + tiles.buffers(n)
    table = tiles.entries(n)
    for memory, wanted in ((other + 5 * table, "float32"), (other + 3 * table, "uint16")):
        with installed(memory=memory):
            run = cg.start(problem, device="cuda")
            assert tables_of(run, "triangles").y.dtype == wanted
            assert run.advance(iterations=3).result().device == "cuda (stand-in)"
            with pytest.raises(cg.ProblemError, match="of a GPU's memory"):
                cg.start(problem, cg.spdhg(table_dtype="float64"), device="cuda")
    with installed(memory=other + table), pytest.raises(cg.ProblemError, match="GPU's memory"):
        cg.start(problem, device="cuda")


def test_a_form_with_less_memory_is_resumed_as_it_was(cupy, tmp_path):
    problem, n = applications.sparsest_cut(graph(20)).problem, 20
    free = 64 * 2**20 + (13 + 4 + 5 + 2) * 8 * n * n + tiles.buffers(n) + 3 * tiles.entries(n)
    with installed(memory=free):
        run = cg.start(problem, device="cuda").advance(iterations=3)
    run.save(tmp_path / "run")
    again = cg.resume(tmp_path / "run", problem)
    assert tables_of(again, "triangles").y.dtype == "uint16"
    W, V = (r.advance(iterations=5).result().W for r in (run, again))
    assert np.array_equal(W, V)


def test_half_precision_moves_to_another_domain(cupy):
    application = APPLICATIONS["spread"]()
    how = {"device": "cuda", "start": application.start}
    for method in (cg.spdhg(first=0, table_dtype="bfloat16"), cg.sag_cgal(table_dtype="bfloat16")):
        run = cg.start(application.problem, method, **how).advance(iterations=12)
        run.move(domains.Spectrahedron(15, 1.5 * application.problem.domain.trace))
        kept = tables_of(run, "triangles")
        term = next(t for t in run.problem.terms if t.name == "triangles")
        G = ndarray(term.map.zeros().get())
        term.passes.collect(G, kept.followed)
        np.testing.assert_allclose(kept.G.get(), G.get(), atol=1e-6 * np.abs(G.get()).max())
        assert run.advance(iterations=5).result().iterations == 17


@SEED
def test_half_precision_rounds_to_the_nearest(seed):
    x = np.random.default_rng(seed).standard_normal(1000) * 10.0 ** np.arange(-20, 20, 0.04)
    near = tiles.widened(tiles.narrowed(x))
    assert (np.abs(near - x) <= 2.0**-8 * np.abs(x) * (1 + 1e-6)).all()
    assert np.array_equal(tiles.widened(tiles.narrowed(near)), near)


def test_multipliers_come_back_in_the_order_of_the_rows(cupy):
    application = APPLICATIONS["cut"]()
    found = [
        cg.solve(application.problem, cg.spdhg(first=2), max_iter=6, duals=True, device=d)
        for d in ("cpu", "cuda")
    ]
    y, other = (r.duals["triangles"] for r in found)
    assert y.any()
    np.testing.assert_allclose(other, y, atol=1e-5 * y.max())


def test_tables_in_tiles_hold_every_row_once():
    n = 70
    ids = np.arange(n * (n - 1) * (n - 2) // 2)
    at = tiles.places(n, ids)
    assert np.unique(at).size == ids.size
    assert at.max() < tiles.entries(n)
    y = np.random.default_rng(0).standard_normal(ids.size)
    assert np.array_equal(tiles.listed(n, tiles.filled(n, 0, y), ids.size), y)


@SEED
def test_the_bound_on_an_eigenvalue_is_one(cupy, seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 60))
    V = rng.standard_normal((n, n))
    V = (V + V.T) * 10.0 ** rng.integers(-9, 9)
    low, failure = lowest_bound(ndarray(V))
    true = np.linalg.eigvalsh(V)[0]
    assert failure == 0
    assert true - 1e-10 * np.abs(V).max() * n <= low <= true


@SEED
def test_the_bound_from_a_guess_is_one(cupy, seed, monkeypatch):
    monkeypatch.setattr("condgrad.domains.eigen.WHOLE_GPU", 0)
    V = np.random.default_rng(seed).standard_normal((150, 150))
    V = V + V.T
    values, vectors = np.linalg.eigh(V)
    for near in (None, ndarray(vectors[:, 100:]), ndarray(vectors[:, :9])):
        low = lowest_bound(ndarray(V), near)[0]
        assert values[0] - 1e-5 * abs(values[0]) <= low <= values[0]


@SEED
def test_the_lower_end_of_a_spectrum(cupy, seed):
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((200, 200)))[0]
    for values in (rng.standard_normal(200), np.maximum(rng.standard_normal(200), 0), np.ones(200)):
        V = (Q * values) @ Q.T
        found = bottom(ndarray(0.5 * (V + V.T)))
        assert values.min() - 1e-12 <= found.values[0] <= values.min() + 1e-4
        P = found.vectors.get()
        np.testing.assert_allclose(P.T @ P, np.eye(P.shape[1]), atol=1e-11)
        residual = V @ P[:, 0] - found.values[0] * P[:, 0]
        assert found.residual == pytest.approx(np.linalg.norm(residual), abs=2e-7)  # by squares


@pytest.mark.parametrize("equality", [True, False])
@SEED
def test_the_scale_by_sections(cupy, seed, equality, monkeypatch):
    """It is as good as the best of many scales."""
    monkeypatch.setattr("condgrad.domains.eigen.WHOLE_GPU", 30)
    rng = np.random.default_rng(seed)
    v, d = (x + x.T for x in rng.standard_normal((2, 60, 60)))
    domain = domains.PinnedSpectrahedron(np.ones(60), 3.0, values=1.0, equality=equality)
    there = domain.on(cupy.empty(0))

    def value(t, c):
        return domain.minimum(v + t * d).value - t * c

    for c in (-40.0, -20.0, 0.0, 20.0):
        near = nearby(there, there.center())
        t, whole, scaled, low = best_scale(there.face, ndarray(v), ndarray(d), c, near)
        assert low == pytest.approx(domain.minimum(v + d).value, abs=1e-4)
        best = max(value(x, c) for x in np.linspace(0, 1, 101))
        assert value(t, c) >= best - 0.1 * (best - value(1.0, c)) - 1e-9
        for x, near in ((1.0, whole), (t, scaled)):
            low = there.minimum(ndarray(v + x * d), near=near).value
            assert low == pytest.approx(domain.minimum(v + x * d).value, abs=1e-5)


def test_a_certificate_by_blocks_is_that_by_all_eigenvalues(cupy, monkeypatch):
    application, found = applications.sparsest_cut(graph(45)), []
    for side in (600, 30):
        monkeypatch.setattr("condgrad.domains.eigen.WHOLE_GPU", side)
        run = cg.start(application.problem, gap=1e-4, device="cuda").advance(iterations=40)
        found.append(run.result())
    assert found[1].lower_bound == pytest.approx(found[0].lower_bound, rel=1e-3)


def test_a_factor_that_is_none_proves_nothing(cupy):
    """Whatever the factorisation on a GPU returns, the bound holds."""
    V = np.diag([1.0, 2.0, 3.0])
    for wrong in (np.eye(3), np.full((3, 3), np.nan), 10 * np.eye(3)):
        cupy.linalg.cholesky = lambda B, wrong=wrong: ndarray(wrong.copy())
        assert lowest_bound(ndarray(V))[0] <= 1.0


@SEED
def test_the_norm_of_weighted_triangles_without_a_row(cupy, seed):
    mu = np.random.default_rng(seed).uniform(0.2, 3.0, 9)
    A = maps.Triangles(9, mu)
    assert A.on(cupy.empty(0)).norm(symmetric=True) == pytest.approx(A.norm(symmetric=True))


def test_what_is_not_there_is_said(monkeypatch):
    problem = applications.sparsest_cut(graph(9)).problem
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(cg.ProblemError, match=r"CuPy cannot be imported.*device='cpu'"):
        cg.solve(problem, device="cuda")
    assert cg.solve(problem, max_iter=3, device="auto").device == "cpu"
    with installed(gpus=0), pytest.raises(cg.ProblemError, match="finds no GPU"):
        cg.solve(problem, device="cuda")
    with pytest.raises(cg.ProblemError, match="device is 'gpu': choose one of cpu, cuda, auto"):
        cg.solve(problem, device="gpu")


def test_too_little_memory_is_said():
    problem = applications.sparsest_cut(graph(9)).problem
    with installed(memory=1e6):
        with pytest.raises(cg.ProblemError, match="of a GPU's memory"):
            cg.solve(problem, device="cuda")
        assert cg.solve(problem, max_iter=3, device="auto").device == "cpu"


class Own(maps.Diagonal):
    """Derived from a map that can be on a GPU."""


@pytest.mark.parametrize(
    ("map", "function", "domain", "what"),
    [
        (Own(3), functions.AtMost(0.5), domains.Spectrahedron(3), "term 'g' has an Own"),
        (maps.Diagonal(3), functions.L1(), domains.Spectrahedron(3), "term 'g' has a L1"),
        (
            maps.Diagonal(3),
            functions.AtMost(0.5),
            domains.NuclearBall((3, 3), 1.0),
            "domain is a NuclearBall",
        ),
    ],
)
def test_parts_that_need_the_cpu_are_named(cupy, map, function, domain, what):
    cost = Term(maps.Inner(np.eye(3)), functions.Linear())
    with pytest.raises(cg.ProblemError, match=f"{what}, which cannot be on a GPU"):
        cg.solve(Problem(domain, [cost, Term(map, function, name="g")]), device="cuda")


def test_auto_takes_a_gpu_where_there_are_many_rows(cupy, monkeypatch):
    problem = applications.sparsest_cut(graph(9)).problem
    assert cg.solve(problem, max_iter=2, device="auto").device == "cpu"
    monkeypatch.setattr("condgrad.backends.devices.WORTH", 10)
    assert cg.solve(problem, max_iter=2, device="auto").device == "cuda (stand-in)"


def test_watchers_see_arrays_of_numpy(cupy):
    seen = []

    def propose(W):
        seen.append(W)

    def watch(info):
        seen.append(info.W)
        assert info.objective == pytest.approx(info.problem.objective(info.W))

    application = APPLICATIONS["kmeans"]()
    metrics = {"corner": lambda W: W[0, 0]}
    result = cg.solve(
        application.problem,
        gap=1e-3,
        max_iter=40,
        device="cuda",
        metrics=metrics,
        callbacks=[watch],
        propose=propose,
    )
    assert {type(W) for W in seen} == {np.ndarray}
    assert result.metrics["corner"] == pytest.approx(result.W[0, 0])


@pytest.mark.parametrize("equality", [False, True])
def test_a_run_moves_to_another_domain(cupy, equality):
    cost = Term(maps.Inner(np.diag(np.arange(50.0) - 3)), functions.Linear())
    limit = Term(maps.Diagonal(50), functions.AtMost(0.2), name="diagonal")
    ends = []
    for device in ("cpu", "cuda"):
        problem = Problem(domains.Spectrahedron(50, 1.0, equality), [cost, limit])
        run = cg.start(problem, gap=1e-3, device=device).advance(iterations=4)
        run.move(domains.Spectrahedron(50, 2.0, equality)).advance(iterations=4)
        ends.append(run.result())
    np.testing.assert_allclose(ends[1].W, ends[0].W, atol=1e-8)


@pytest.mark.parametrize("weights", [None, 1.0 + np.arange(40) % 3])
@SEED
def test_cuts_are_rounded_where_W_lies(cupy, seed, weights):
    rng = np.random.default_rng(seed)
    A, U = graph(40, seed), rng.standard_normal((40, 3))
    W = U @ U.T
    here = round_cut(A, W, vertex_weights=weights)
    there = DeviceRounder(DeviceGraph(sp.csr_array(A), weights, ndarray(W)))(ndarray(W))
    assert there.value == pytest.approx(cut_value(A, there.side, weights))
    assert there.value <= 1.02 * here.value
    assert set(map(len, np.unique(there.side, return_inverse=True)[:1])) == {2}


@pytest.mark.parametrize("weights", [None, 1.0 + np.arange(30) % 4])
@SEED
def test_cuts_are_improved_by_the_same_steps(cupy, seed, weights):
    rng, A = np.random.default_rng(seed), sp.csr_array(graph(30, seed))
    sizes = np.ones(30) if weights is None else weights
    rounder = DeviceRounder(DeviceGraph(sp.csr_array(A), weights, cupy.empty(0)))
    for side in (rng.random(30) < 0.4, np.arange(30) == seed, np.arange(30) != seed):
        swap = partial(_best_swap, A, sizes)
        wanted = cut_value(A, improved(A, sizes, side, swap), weights)
        assert cut_value(A, rounder._improve(side), weights) == pytest.approx(wanted)


@pytest.mark.parametrize("map", [maps.Triangles(7), maps.Perimeters(7)])
def test_the_price_and_the_square_of_a_table(cupy, map):
    rng, n = np.random.default_rng(0), 7
    there = Term(map.on(cupy.empty(0)), functions.AtMost(0.0)).passes
    here, y = Term(map, functions.AtMost(0.0)).passes, np.abs(rng.standard_normal(map.size))
    W = rng.standard_normal((n, n))
    others = isinstance(map, maps.Perimeters)
    table = ndarray(tiles.filled(n, 0, y, perimeters=others))
    rows = slice(0, map.size)
    price = here.price(W, rows, y, 1.0, W)
    assert there.price(ndarray(W), rows, table, 1.0, ndarray(W)) == pytest.approx(price)
    assert there.square(table) == pytest.approx(here.square(y))
    assert there.lengths(ndarray(W), rows) == pytest.approx(here.lengths(W, rows))
    G, other = map.zeros(), ndarray(map.zeros())
    here.collect(G, y)
    there.collect(other, table)
    np.testing.assert_allclose(other.get(), G)
    assert isinstance(Passes().family, tuple)
