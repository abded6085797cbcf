"""Max-cut with all triangle inequalities, and quadratic programs in zeros and ones."""

import itertools
import json

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

import condgrad as cg
from condgrad import ProblemError, Status, applications, quadratic
from condgrad.applications.annealing import annealed
from condgrad.applications.max_cut import triangle_terms
from condgrad.applications.rounding_max_cut import max_cut_value
from condgrad.backends import memory
from condgrad.cli import app

pytestmark = pytest.mark.usefixtures("clock")  # limits on time are as long everywhere


def signs(n):
    """All cuts, a row each."""
    return np.array([(1, *s) for s in itertools.product((1, -1), repeat=n - 1)])


def largest(A):
    """The maximum over all cuts."""
    x = signs(len(A))
    return float((A.sum() - np.einsum("ki,ij,kj->k", x, A, x)).max() / 4)


def weights(n, seed, whole=False):
    rng = np.random.default_rng(seed)
    A = np.triu(rng.normal(size=(n, n)), 1)
    A = np.rint(4 * A) if whole else A
    return A + A.T


def violations(W):
    """The most that W violates an inequality by, one after the other."""
    worst = -np.inf
    for i, j, k in itertools.combinations(range(len(W)), 3):
        a, b, c = W[i, j], W[i, k], W[j, k]
        worst = max(worst, -1 - a - b - c, a + b - c - 1, a - b + c - 1, -a + b + c - 1)
    return worst


@pytest.mark.parametrize("n", [3, 4, 7])
def test_the_rows_are_all_triangle_inequalities(n):
    terms = triangle_terms(n)
    assert sum(t.map.size for t in terms) == 4 * n * (n - 1) * (n - 2) // 6
    for seed in range(3):
        X = np.random.default_rng(seed).standard_normal((n, n))
        W = applications.unit_diagonal(X @ X.T)
        W = 1.5 * W - 0.5 * np.eye(n)
        missed = [t.violation(W, 1.0).max for t in terms]
        assert max(missed) == pytest.approx(max(violations(W), 0.0), abs=1e-12)
    for x in signs(n):
        assert all(t.violation(np.outer(x, x).astype(float), 1.0).max == 0 for t in terms)


@pytest.mark.parametrize(("n", "seed", "whole"), [(3, 0, False), (7, 1, True), (10, 2, False)])
def test_bound_and_cut_by_brute_force(n, seed, whole):
    A = weights(n, seed, whole)
    best = largest(A)
    cut = cg.max_cut(A, triangles=True)
    assert cut.value == pytest.approx(best, rel=1e-12)
    assert cut.bound >= best * (1 - 1e-12)
    assert cut.value == pytest.approx(max_cut_value(A, cut.side))
    assert cut.bound <= cg.max_cut(A).bound * (1 + 1e-3)


@pytest.mark.parametrize(
    "graph", [nx.cycle_graph(5), nx.octahedral_graph(), nx.wheel_graph(8), nx.grid_2d_graph(3, 3)]
)
def test_planar_graphs_are_solved(graph):
    rng = np.random.default_rng(1)
    A = nx.to_numpy_array(graph) * 1.0
    noise = np.triu(rng.normal(size=A.shape), 1) * A
    A = noise + noise.T
    cut = cg.max_cut(A, triangles=True, gap=1e-4)
    assert cut.status is Status.CONVERGED
    assert cut.gap <= 1e-4
    assert cut.value == pytest.approx(largest(A))


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # the program is degenerate
def test_the_optimum_is_that_of_an_interior_point_method():
    cvxpy = pytest.importorskip("cvxpy")
    n = 8
    A = weights(n, 3)
    W = cvxpy.Variable((n, n), PSD=True)
    rows = [cvxpy.diag(W) == 1]
    for i, j, k in itertools.combinations(range(n), 3):
        a, b, c = W[i, j], W[i, k], W[j, k]
        rows += [a + b + c >= -1, a - b - c >= -1, b - a - c >= -1, c - a - b >= -1]
    L = np.diag(A.sum(axis=1)) - A
    known = cvxpy.Problem(cvxpy.Maximize(cvxpy.sum(cvxpy.multiply(L, W)) / 4), rows)
    known.solve(solver="CLARABEL")
    problem = applications.max_cut(A, triangles=True).problem
    found = cg.solve(problem, gap=1e-5, max_iter=5000)
    assert -found.lower_bound >= known.value * (1 - 1e-5)
    assert -found.lower_bound <= known.value * (1 + 1e-4)


def test_the_gap_of_a_complete_graph_remains():
    # of five vertices four inequalities a triple allow 6.25, the best cut has 6
    run = applications.max_cut(np.ones((5, 5)) - np.eye(5), triangles=True).run(gap=1e-4)
    assert run.rounded.value == -6
    assert 6.25 - 1e-9 <= run.bound <= 6.26
    assert run.settings["triangles"] == 40
    assert run.status is Status.CONVERGED  # the bound is rounded down
    assert run.formula == "diagonal + triangles + perimeters"


def test_too_many_inequalities_are_refused_at_the_door(monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda: 1e8)
    with pytest.raises(ProblemError, match=r"multipliers of all triangle.*leave triangles out"):
        cg.max_cut(sp.csr_array(nx.to_scipy_sparse_array(nx.cycle_graph(400))), triangles=True)


def test_annealing_makes_no_cut_worse():
    A = sp.csr_array(weights(12, 5))
    first = applications.round_max_cut(A, np.eye(12), passes=False)
    found = annealed(A, first, [0, 1])
    assert found.value >= first.value
    assert found.value == pytest.approx(largest(A.toarray()))
    assert annealed(A, first, [0, 1]).side.tolist() == found.side.tolist()


def test_the_command(tmp_path):
    file, out = tmp_path / "k5.txt", tmp_path / "cut.json"
    edges = [f"{i + 1} {j + 1} 1" for i, j in itertools.combinations(range(5), 2)]
    file.write_text("\n".join(["5 10", *edges]), encoding="utf-8")
    arguments = ["solve", "max-cut", str(file), "--triangles", "--quiet", "--json", str(out)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    found = json.loads(out.read_text(encoding="utf-8"))
    assert found["rounded"]["value"] == found["rounded"]["bound"] == 6
    assert set(found["infeasibility"]["families"]) == {"diagonal", "triangles", "perimeters"}


# Quadratic programs.


def values(Q):
    x = np.array(list(itertools.product((0, 1), repeat=len(Q))))
    return x, np.einsum("ki,ij,kj->k", x, Q, x)


@pytest.mark.parametrize("sense", ["min", "max"])
@pytest.mark.parametrize("whole", [True, False])
def test_every_x_is_a_cut_of_its_value(sense, whole):
    rng = np.random.default_rng(whole)
    Q = rng.integers(-5, 6, (5, 5)).astype(float) if whole else rng.normal(size=(5, 5))
    graph = quadratic.qubo_graph(Q, sense)
    assert graph.whole == whole
    assert (graph.rounding == 0) == whole
    sign = 1 if sense == "max" else -1
    for x, value in zip(*values(Q), strict=True):
        side = quadratic.cut_of(x)
        assert quadratic.variables_of(side).tolist() == x.tolist()
        assert quadratic.variables_of(~side).tolist() == x.tolist()
        twice = max_cut_value(graph.adjacency, side)
        assert abs(twice - 2 * sign * value) <= (0 if whole else 1e-12)
        assert quadratic.qubo_value(Q, x, 0.5) == pytest.approx(value + 0.5)


@pytest.mark.parametrize("sense", ["min", "max"])
@pytest.mark.parametrize("make", [np.asarray, np.triu, sp.csr_array])
def test_the_best_x(sense, make):
    Q = make(np.random.default_rng(4).integers(-9, 10, (7, 7)))
    all_values = values(Q.toarray() if sp.issparse(Q) else Q)[1]
    best = all_values.min() if sense == "min" else all_values.max()
    found = cg.qubo(Q, sense=sense, offset=0.25)
    assert found.value == best + 0.25 == quadratic.qubo_value(Q, found.x, 0.25)
    assert (found.bound - found.value) * (1 if sense == "max" else -1) >= 0
    assert found.status is Status.CONVERGED
    assert found.bound == found.value  # integers: what is proved is exact
    assert found.gap == 0
    assert found.x.dtype.kind == "i"
    assert "value" in str(found)
    assert found.lower_bound <= found.upper_bound
    assert found.infeasibility == 0
    assert found.bound_failure == 0
    assert len(found.trace) == len(found.cut.trace)


def test_bounds_are_rounded_outwards():
    # sums of these are not numbers of float64
    Q = np.array([[0.1, 0.7], [0.0, -0.3]])
    for sense, sign in (("min", -1), ("max", 1)):
        found = cg.qubo(Q, sense=sense, offset=1 / 3)
        assert sign * (found.bound - found.value) >= 0
        best = max(sign * v for v in values(Q)[1]) * sign
        assert found.value == pytest.approx(best + 1 / 3)


def test_one_variable_and_none_to_choose():
    assert cg.qubo([[3.0]]).x.tolist() == [0]
    assert cg.qubo([[3.0]], sense="max").value == 3
    empty = cg.qubo(np.zeros((3, 3)), offset=-2)
    assert (empty.value, empty.bound, empty.gap) == (-2, -2, 0)


@pytest.mark.parametrize(
    ("Q", "more", "what"),
    [
        (np.ones((2, 3)), {}, "Q has shape"),
        ([1.0, 2.0], {}, "Q has shape"),
        ([[np.nan]], {}, "Q contains NaN"),
        ([["a"]], {}, "Q has dtype"),
        (np.array([[1 + 2j]]), {}, "Q has dtype complex"),
        (np.array([["1"]]), {}, "Q has dtype"),
        ([[1e308, 1e308], [1e308, 1e308]], {}, "Q has entries whose sum"),
        ([[1.0]], {"sense": "most"}, "sense is 'most'"),
        ([[1.0]], {"offset": np.inf}, "offset contains NaN or inf"),
        ([[1.0]], {"offset": "2"}, "offset is '2'"),
    ],
)
def test_what_is_refused(Q, more, what):
    with pytest.raises(ProblemError, match=what):
        cg.qubo(Q, **more)
    with pytest.raises(ProblemError, match="x has shape"):
        quadratic.qubo_value([[1.0]], [1, 0])
