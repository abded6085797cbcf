"""Sparse and low-rank rows, and with them semidefinite programs, on the stand-in for a GPU."""

import json

import numpy as np
import pytest

import condgrad as cg
from condgrad import Problem, Term, domains, functions, maps
from condgrad._types import ALL
from condgrad.backends.segments import Products, Segments
from condgrad.sdp import SDP
from device_programs import PROGRAMS, graph, max_cut, row_maps, symmetric
from files import put
from stand_in import alike, installed, ndarray

SEED = pytest.mark.parametrize("seed", range(3))
GAP = 1e-4
MAPS = row_maps(12, 30, 9, 0.5)


@pytest.fixture
def cupy(monkeypatch):
    """With the oracle and the search of the CPU, so that runs can be compared."""
    with alike(monkeypatch) as module:
        yield module


@SEED
def test_sums_of_segments_of_any_length(cupy, seed, monkeypatch):
    rng = np.random.default_rng(seed)
    monkeypatch.setattr("condgrad.backends.segments.EACH", 2)
    counts = rng.integers(0, 4, 30) * rng.choice([1, 1, 60], 30)
    starts = np.append(0, np.cumsum(counts))
    segments = Segments(starts, cupy.empty(0))
    data, x = rng.standard_normal(starts[-1]), rng.standard_normal(7)
    indices = rng.integers(0, 7, starts[-1])
    for first, last in [(0, 30), (3, 19), (8, 8), (29, 30)]:
        some = slice(starts[first], starts[last])
        cuts = [slice(a, b) for a, b in zip(starts[first:last], starts[first + 1 :], strict=False)]
        found = segments.sums(ndarray(data[some]), first, last)
        np.testing.assert_allclose(found.get(), [data[c].sum() for c in cuts], atol=1e-12)
        products = Products(ndarray(indices.astype(np.int32)), ndarray(x[2:5]), 2, 5)
        found = segments.sums(ndarray(data), first, last, products)
        inside = np.where((indices >= 2) & (indices < 5), data * x[indices], 0.0)
        np.testing.assert_allclose(found.get(), [inside[c].sum() for c in cuts], atol=1e-12)


@SEED
@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_are_those_of_the_cpu(cupy, name, seed, dtype):
    rng = np.random.default_rng(seed)
    A = MAPS[name](rng)
    B = A.on(cupy.empty(0))
    W = rng.standard_normal(A.shape)
    W = (W + W.T).astype(dtype)
    close = {"rtol": 1e-5, "atol": 1e-4} if dtype == np.float32 else {"rtol": 1e-12, "atol": 1e-11}
    ids = rng.choice(A.size, 7, replace=name != "stack")  # a diagonal is drawn without repeats
    for here, there in [
        (ALL, ALL),
        (slice(2, A.size - 1), slice(2, A.size - 1)),
        (slice(5, 5), slice(5, 5)),
        (ids, ndarray(ids)),
    ]:
        z, other = A.rows(W, here), B.rows(ndarray(W), there)
        assert other.dtype == dtype
        np.testing.assert_allclose(other.get(), z, **close)
        y = rng.standard_normal(z.size).astype(dtype)
        G, H = A.zeros(dtype), B.zeros(dtype)
        G[:] = 1.0
        H[:] = 1.0
        A.scatter(G, here, y)
        B.scatter(H, there, ndarray(y))
        np.testing.assert_allclose(H.get(), G, **close)
        lengths = B.lengths(there)
        lengths = lengths.get() if isinstance(lengths, ndarray) else lengths
        np.testing.assert_allclose(lengths, A.lengths(here))
    y = rng.standard_normal(A.size)
    np.testing.assert_allclose(B.adjoint(ndarray(y)).get(), A.adjoint(y), atol=1e-11)
    assert B.spread(ndarray(y)) == pytest.approx(A.spread(y))
    assert B.norm(True) == pytest.approx(A.norm(True), rel=1e-8)
    assert B.depth == A.depth


@pytest.mark.parametrize("equality", [False, True])
def test_blocks_can_be_on_a_gpu(cupy, equality):
    rng = np.random.default_rng(0)
    for blocks in ([3, 45, 1, 1, 1], [4, 4], [1, 1], [50]):
        here = domains.BlockSpectrahedron(blocks, 2.0, equality)
        there = here.on(cupy.empty(0))
        n = sum(blocks)
        for shift in (0.0, 20.0, -20.0):
            v = rng.standard_normal((n, n)) + shift * np.eye(n)
            v[-1, -1] -= 30.0 * (shift < 0)
            s, t = here.lmo(v, effort=None), there.lmo(ndarray(v), effort=None)
            np.testing.assert_allclose(t.dense().get(), s.dense(), atol=1e-7)
            low, other = here.minimum(v), there.minimum(ndarray(v))
            assert other.value == pytest.approx(low.value, rel=1e-9)
            assert other.kind == low.kind == "exact-eigenvalue"
        W = here.center()
        np.testing.assert_array_equal(there.center().get(), W)
        assert there.contains(ndarray(W))
        W[0, -1] = 1.0
        assert there.contains(ndarray(W)) is here.contains(W) is False


FUNCTIONS = {
    "equal": lambda z: functions.Equal(z),
    "at most": lambda z: functions.AtMost(z),
    "at least": lambda z: functions.AtLeast(z - 0.1),
    "interval": lambda z: functions.Interval(z - 0.1, z + 0.1),
    "mixed": lambda z: functions.Interval(np.where(np.arange(z.size) % 2, z, -np.inf), z),
    "one number": lambda z: functions.AtMost(float(z.max())),
}


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("name", ["sparse", "low rank", "stack"])
@pytest.mark.parametrize("method", [cg.spdhg, cg.sag_cgal])
@pytest.mark.parametrize("batch", ["auto", 0.3])
def test_runs_with_such_rows(cupy, function, name, method, batch):
    rng = np.random.default_rng(5)
    A, C = MAPS[name](rng), symmetric(rng, 12, 0.5)
    U = rng.standard_normal((12, 3))
    inside = U @ U.T / np.trace(U @ U.T)
    terms = [
        Term(maps.Inner(C), functions.Linear()),
        Term(A, FUNCTIONS[function](A.rows(inside)), name="rows"),
    ]
    for domain in (domains.Spectrahedron(12, 1.0), domains.BlockSpectrahedron([12], 1.0, True)):
        problem = Problem(domain, terms)
        how = {"max_iter": 6, "gap": 1e-6, "duals": True}
        here, there = (
            cg.solve(problem, method(batch=batch), device=d, **how) for d in ("cpu", "cuda")
        )
        assert (here.device, there.device) == ("cpu", "cuda (stand-in)")
        np.testing.assert_allclose(there.W, here.W, atol=1e-7)
        np.testing.assert_allclose(there.duals["rows"], here.duals["rows"], rtol=1e-6, atol=1e-7)
        assert there.lower_bound == pytest.approx(here.lower_bound, rel=1e-6, abs=1e-7)
        assert there.duals["rows"].dtype == np.float64


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_solved_on_both(cupy, name):
    here, there = (PROGRAMS[name](1).solve(gap=GAP, device=d) for d in ("cpu", "cuda"))
    assert (here.device, there.device) == ("cpu", "cuda (stand-in)")
    assert here.status is there.status is cg.Status.CONVERGED
    assert "on cuda (stand-in)" in there.summary()
    assert there.bound == pytest.approx(here.bound, rel=2 * GAP)
    assert type(there.W) in (np.ndarray, list)
    again = PROGRAMS[name](1).solve(gap=GAP, device="cuda")
    assert again.bound == there.bound
    assert np.array_equal(again.y, there.y)


def test_no_solution_and_no_end_are_proved_there(cupy):
    impossible = max_cut(graph(6, 0.5, 0)).subject_to(np.eye(6), "<=", 5.0)
    assert impossible.solve(device="cuda").status is cg.Status.INFEASIBLE
    endless = SDP(-np.eye(3)).subject_to(np.diag([1.0, -1.0, 0.0]), "==", 0.0)
    assert endless.solve(device="cuda").status is cg.Status.UNBOUNDED


def test_a_loss_that_needs_the_cpu_is_named(cupy):
    sdp = max_cut(graph(5, 0.5, 0))
    loss = SDP(np.eye(5)).loss(sdp.A, functions.Huber(0.5))
    with pytest.raises(cg.ProblemError, match="loss 1 has a Huber, which cannot be on a GPU"):
        loss.solve(device="cuda", trace_bound=5.0)
    with pytest.raises(cg.ProblemError, match="device is 'gpu': choose one of cpu, cuda, auto"):
        sdp.solve(device="gpu")


def test_auto_takes_a_gpu_where_the_program_is_large(cupy, monkeypatch):
    assert max_cut(graph(6, 0.5, 0)).solve(device="auto").device == "cpu"
    monkeypatch.setattr("condgrad.backends.devices.WIDE", 3)
    assert max_cut(graph(6, 0.5, 0)).solve(device="auto").device == "cuda (stand-in)"
    loss = SDP(np.eye(6)).loss(max_cut(graph(6, 0.5, 0)).A, functions.Huber(0.5))
    assert loss.solve(device="auto", trace_bound=5.0, max_iter=20).device == "cpu"


@pytest.mark.parametrize("method", [cg.cgal, cg.h_sag_v2, cg.shcgm])
def test_methods_that_need_the_cpu_say_so(cupy, method):
    sdp = max_cut(graph(12, 0.5, 0))
    with pytest.raises(cg.ProblemError, match=f"{method(1.0).name} cannot run on a GPU"):
        sdp.solve(method=method(1.0), device="cuda", max_iter=5)
    assert sdp.solve(method=cg.hcgm(1.0), device="cuda", max_iter=5).device[:4] == "cuda"


def test_the_program_and_cvxpy_have_a_device(cupy, run, tmp_path):
    path = put(tmp_path, "small.dat-s", "1\n1\n2\n1.0\n0 1 1 2 1.0\n1 1 1 1 1.0\n1 1 2 2 1.0\n")
    code, out, _ = run("solve", "sdp", path, "--device", "cuda", "--quiet", "--json", "-")
    assert code == 0
    assert json.loads(out)["device"] == "cuda (stand-in)"
    cp, door = pytest.importorskip("cvxpy"), pytest.importorskip("condgrad.cvxpy")
    X = cp.Variable((3, 3), PSD=True)
    problem = cp.Problem(cp.Maximize(cp.trace(np.diag([1.0, 3.0, 2.0]) @ X)), [cp.trace(X) == 1])
    assert door.solve(problem, device="cuda") == pytest.approx(3.0, rel=1e-3)


def test_too_little_memory_for_rows_is_said():
    rng = np.random.default_rng(0)
    A = maps.SparseStack([symmetric(rng, 30, 0.5) for _ in range(400)])
    B = maps.LowRankStack(rng.standard_normal((30, 300)), [3] * 100)
    rows = maps.Stack([maps.Scaled(A, 2.0), B])
    cost = Term(maps.Inner(np.eye(30)), functions.Linear())
    problem = Problem(
        domains.Spectrahedron(30), [cost, Term(rows, functions.AtMost(1.0), name="g")]
    )
    with installed(memory=3e6), pytest.raises(cg.ProblemError, match="of a GPU's memory"):
        cg.solve(problem, device="cuda")


class Own(maps.SparseStack):
    """Derived from a map that can be on a GPU."""


def test_a_part_of_a_stack_is_named(cupy):
    rows = maps.Stack([maps.Diagonal(3), Own([np.eye(3)])])
    cost = Term(maps.Inner(np.eye(3)), functions.Linear())
    problem = Problem(domains.Spectrahedron(3), [cost, Term(rows, functions.AtMost(1.0))])
    with pytest.raises(cg.ProblemError, match="term 'g' has an Own, which cannot be on a GPU"):
        cg.solve(problem, device="cuda")
