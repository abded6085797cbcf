"""Sparsest cuts block by block, and with weights of vertices, against all cuts."""

from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import condgrad as cg
from condgrad import ProblemError, Status
from condgrad.applications import cut_matrix, cut_value, round_cut
from condgrad.applications import sparsest_cut as relaxation
from condgrad.applications.blocks import blocks_of, cut_of_cycle, extended, sparser
from condgrad.applications.presolve import by_blocks
from condgrad.backends import memory
from condgrad.errors import MemoryLimit


def best_of_all(A, mu):
    """The least w(S, S̄)/(μ(S) μ(S̄)) over all cuts."""
    n, found = len(mu), np.inf
    for bits in range(1, 2 ** (n - 1)):
        side = np.array([(bits >> i) & 1 for i in range(n)], bool)
        found = min(found, A[np.ix_(side, ~side)].sum() / (mu[side].sum() * mu[~side].sum()))
    return found


def random_graph(seed, most=11):
    """A connected graph with integer weights, often with several blocks, and vertex weights."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, most))
    tree = nx.random_labeled_tree(n, seed=seed)
    A = nx.to_numpy_array(tree)
    more = np.triu(rng.random((n, n)) < rng.choice([0.05, 0.2, 0.5]), 1)
    A = np.triu(((A > 0) | more | more.T) * rng.integers(1, 5, (n, n)), 1)
    return A + A.T.astype(float), 10.0 ** rng.uniform(0, 1.5, n)


@pytest.mark.parametrize("seed", range(60))
def test_the_best_cut_is_in_a_block(seed):
    A, mu = random_graph(seed)
    blocks = blocks_of(A, mu)
    expected = sorted(map(sorted, nx.biconnected_components(nx.from_numpy_array(A))))
    assert sorted(block.vertices.tolist() for block in blocks) == expected
    found = np.inf
    for vertices, weights in blocks:
        assert weights.sum() == pytest.approx(mu.sum())
        found = min(found, best_of_all(A[np.ix_(vertices, vertices)], weights))
    assert found == pytest.approx(best_of_all(A, mu))


@pytest.mark.parametrize("seed", range(20))
def test_what_hangs_on_a_vertex_is_on_its_side(seed):
    A, mu = random_graph(seed)
    rng = np.random.default_rng(seed)
    for block in blocks_of(A, mu):
        side = rng.random(block.vertices.size) < 0.5
        whole = extended(A, block, side)
        assert np.array_equal(whole[block.vertices], side)
        assert mu[whole].sum() == pytest.approx(block.weights[side].sum())
        across = A[np.ix_(whole, ~whole)].sum()
        inside = A[np.ix_(block.vertices, block.vertices)]
        assert across == inside[np.ix_(side, ~side)].sum()


@pytest.mark.parametrize("presolve", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_cuts_with_weights(seed, presolve):
    A, mu = random_graph(seed, 10)
    best = best_of_all(A, mu)
    cut = cg.sparsest_cut(A, vertex_weight=mu, presolve=presolve, gap=1e-3)
    assert cut.bound <= best <= cut.value * (1 + 1e-12)
    if cut.status is Status.CONVERGED:
        assert cut.gap <= 1e-3
        assert cut.value == pytest.approx(best, rel=1.1e-3)
    across = A[np.ix_(cut.side, ~cut.side)].sum()
    assert cut.value == pytest.approx(across / (mu[cut.side].sum() * mu[~cut.side].sum()))


@pytest.mark.parametrize("seed", range(10))
def test_a_unit_of_weights_changes_nothing_but_the_value(seed):
    A, mu = random_graph(seed, 9)
    one, other = (cg.sparsest_cut(A, vertex_weight=c * mu) for c in (1.0, 1e6))
    assert one.value == pytest.approx(1e12 * other.value)
    assert one.bound == pytest.approx(1e12 * other.bound, rel=2e-3)  # both are within the gap


@pytest.mark.parametrize(
    "graph",
    [
        nx.path_graph(120),
        nx.random_labeled_tree(120, seed=3),
        nx.star_graph(30),
        nx.barbell_graph(40, 10),
        nx.lollipop_graph(8, 30),
        nx.cycle_graph(120),
    ],
    ids=["path", "tree", "star", "barbell", "lollipop", "cycle"],
)
def test_simple_graphs_are_exact(graph):
    cut = cg.sparsest_cut(graph)
    assert cut.status is Status.CONVERGED
    assert cut.gap <= 1e-12
    assert cut.bound <= cut.value
    whole = by_blocks(nx.to_scipy_sparse_array(graph)).run(gap=1e-3)
    assert 2 * whole.rounded.value / len(graph) ** 2 == pytest.approx(cut.value)


def test_the_gap_of_the_cut_counts():
    """The iterate alone was within 1e-4 where the cut was not."""
    cut = cg.sparsest_cut(nx.barbell_graph(8, 2), gap=1e-4, presolve=False)
    assert cut.status is Status.CONVERGED
    assert cut.gap <= 1e-4


def test_a_loose_relaxation_says_so():
    cut = cg.max_cut(nx.petersen_graph(), gap=1e-3)  # 12 edges of 15; the relaxation says 12.5
    assert (cut.value, cut.bound) == (12.0, 12.0)  # rounded down, as weights are integers
    assert cut.status is Status.CONVERGED
    graph = nx.cycle_graph(5)
    nx.set_edge_attributes(graph, 1.1, "weight")
    loose = cg.max_cut(graph, gap=1e-3)
    assert loose.status is Status.RELAXED
    assert loose.gap > 1e-3
    assert "not" in str(loose.status) or "farther" in str(loose.status)


def test_weighted_points_of_cuts_are_feasible():
    A, mu = random_graph(4)
    n = len(mu)
    problem = relaxation(A, vertex_weights=mu).problem
    scaled = mu * n / mu.sum()
    for bits in range(1, 2 ** (n - 1), 7):
        side = np.array([(bits >> i) & 1 for i in range(n)], bool)
        W = cut_matrix(side, scaled)
        assert problem.domain.contains(W, 1e-9)
        assert problem.objective(W) == pytest.approx(cut_value(A, side, mu))
        assert problem.infeasibility(W) <= 1e-9 * n
        assert round_cut(A, W, vertex_weights=scaled).value <= cut_value(A, side, mu) * (1 + 1e-9)


def test_names_of_weights():
    graph = nx.cycle_graph(6)
    nx.set_node_attributes(graph, {v: 1.0 + v for v in graph}, "population")
    cut = cg.sparsest_cut(graph, vertex_weight="population")
    expected = best_of_all(nx.to_numpy_array(graph), np.arange(1.0, 7.0))
    assert cut.value == pytest.approx(expected)
    for wrong, message in (
        ("people", "has no 'people'"),
        ([1.0, 2.0], "6 positive numbers"),
        (np.zeros(6), "6 positive numbers"),
    ):
        with pytest.raises(ProblemError, match=message):
            cg.sparsest_cut(graph, vertex_weight=wrong)
    with pytest.raises(ProblemError, match="pass numbers"):
        cg.sparsest_cut(np.ones((3, 3)), vertex_weight="population")


@pytest.mark.parametrize("seed", range(30))
def test_weights_of_any_size_do_not_cancel(seed):
    """In exact fractions: no bound lies above the best cut."""
    A, _ = random_graph(seed, 8)
    rng = np.random.default_rng(seed)
    mu = 10.0 ** rng.uniform(-9, 9, len(A))
    A = A * np.triu(10.0 ** rng.uniform(-6, 6, A.shape), 1)
    A = A + A.T
    exact = [[Fraction(x) for x in row] for row in A.tolist()]
    sizes, n, best = [Fraction(x) for x in mu.tolist()], len(A), None
    for bits in range(1, 2 ** (n - 1)):
        S = [i for i in range(n) if (bits >> i) & 1]
        T = [i for i in range(n) if not (bits >> i) & 1]
        across = sum(exact[i][j] for i in S for j in T)
        value = across / (sum(sizes[i] for i in S) * sum(sizes[i] for i in T))
        best = value if best is None else min(best, value)
    cut = cg.sparsest_cut(A, vertex_weight=mu, gap=1e-2, max_seconds=1)
    assert Fraction(cut.bound) <= best
    assert cut.value >= float(best) * (1 - 1e-12)
    for vertices, weights in blocks_of(A, mu):
        assert weights.sum() == pytest.approx(mu.sum(), rel=1e-13)
        assert (weights >= mu[vertices]).all()


def test_an_interruption_leaves_the_first_bound_of_other_blocks(monkeypatch):
    """The second of three runs is broken off."""
    A = np.zeros((22, 22))
    for start in (0, 7, 14):  # cycles with chords, joined at a vertex
        part = nx.to_numpy_array(nx.circulant_graph(8, [1, 2]))
        A[start : start + 8, start : start + 8] += part
    real, runs = cg.applications.Application.run, []

    def run(self, *args, **options):
        def stop(info):
            raise KeyboardInterrupt

        runs.append(1)
        if len(runs) == 2:
            options["callbacks"] = [stop]
        return real(self, *args, **{"max_iter": 3, **options})

    monkeypatch.setattr(cg.applications.Application, "run", run)
    application = by_blocks(A)
    out = application.run(gap=1e-9)
    assert len(runs) == 2
    assert out.status is Status.INTERRUPTED
    starts = [application._first(block, None) for block in application.blocks]
    assert out.result.lower_bound == min(start.bound for start in starts) > 0
    assert out.rounded_gap < 0.5
    assert out.rounded.answer.side.size == 22


def test_an_interruption_of_the_only_run_keeps_its_bound():
    def stop(info):
        if info.k == 30:
            raise KeyboardInterrupt

    out = by_blocks(nx.to_scipy_sparse_array(nx.petersen_graph())).run(
        gap=1e-15, feasibility=1e-15, callbacks=[stop]
    )
    assert out.status is Status.INTERRUPTED
    assert 0.5 * out.rounded.value <= out.result.lower_bound <= out.rounded.value


def test_components_and_units():
    A = np.zeros((5, 5))
    A[0, 1] = A[1, 0] = A[2, 3] = A[3, 2] = 1
    for graph in (A, np.zeros((4, 4))):
        out = by_blocks(graph).run(gap=1e-3)
        assert (out.rounded.value, out.rounded_bound, out.status) == (0, 0, Status.CONVERGED)
    for bad in (1e200, 1e-200):
        with pytest.raises(ProblemError, match="choose another unit"):
            cg.sparsest_cut(nx.path_graph(3), vertex_weight=[bad] * 3)
    for options, words in (({"gap": -1}, "gap"), ({"max_seconds": -1}, "max_seconds")):
        with pytest.raises(ProblemError, match=words):
            by_blocks(nx.to_scipy_sparse_array(nx.path_graph(4))).run(**options)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 9])
@pytest.mark.parametrize("seed", range(4))
def test_the_best_cut_of_a_cycle(n, seed):
    """Of all cuts in exact fractions, with weights over nine decades."""
    rng = np.random.default_rng(seed)
    order, A = rng.permutation(n), np.zeros((n, n))
    A[order, np.roll(order, -1)] = 10.0 ** rng.uniform(-9, 9, n)
    A, mu = np.maximum(A, A.T), 10.0 ** rng.uniform(-9, 9, n)
    best, value = np.inf, np.inf
    cut = cut_of_cycle(A, mu)
    for bits in range(1, 2 ** (n - 1)):
        S, T = ([i for i in range(n) if (bits >> i & 1) == one] for one in (1, 0))
        across = sum(Fraction(A[i, j]) for i in S for j in T)
        ratio = across / (sum(map(Fraction, mu[S])) * sum(map(Fraction, mu[T])))
        if set(S) in (set(np.flatnonzero(cut.side)), set(np.flatnonzero(~cut.side))):
            value = ratio
        best = min(best, ratio)
    assert float(value) == pytest.approx(float(best), rel=1e-14)
    assert cut.value == pytest.approx(float(sum(map(Fraction, mu)) ** 2 * best / 2), rel=1e-14)
    assert n < 4 or cut_of_cycle(A + np.eye(n)[::-1] + np.eye(n), mu) is None


def test_what_runs_cost_is_told_where_the_best_cut_was_known_before():
    graph = nx.disjoint_union(nx.complete_graph(9), nx.cycle_graph(40))
    graph.add_edge(0, 9)  # two arcs of the cycle beat whatever the complete graph has
    out = by_blocks(nx.to_scipy_sparse_array(graph)).run(gap=1e-3)
    assert (out.slug, out.settings["runs"], out.bound_kind) == ("presolve", 1, "exact")
    assert out.result.iterations > 0
    assert out.result.seconds > 0
    assert out.rounded_gap < 1e-9


def test_a_block_too_large_for_the_memory_has_the_bound_of_an_eigenvalue(monkeypatch):
    """Triangle inequalities do not fit, W does; smaller blocks are solved as ever."""
    ring = nx.circulant_graph(40, [1, 2, 3])
    graph = nx.disjoint_union(ring, nx.circulant_graph(8, [1, 2]))
    graph.add_edge(0, 40)
    A = nx.to_scipy_sparse_array(graph, dtype=float)
    monkeypatch.setattr(memory, "free_memory", lambda: memory.OTHER + 3e5)
    out = by_blocks(A).run(gap=1e-3)  # the bridge is best, for which the eigenvalue is enough
    assert (out.status, out.slug, out.settings["runs"]) == (Status.CONVERGED, "presolve", 1)
    out = by_blocks(nx.to_scipy_sparse_array(ring, dtype=float)).run(gap=1e-3)
    second = np.sort(nx.laplacian_spectrum(ring))[1]
    assert out.status is Status.OUT_OF_MEMORY
    assert out.result.lower_bound == pytest.approx(second * 20, rel=1e-9)
    assert out.result.lower_bound <= second * 20 * (1 + 1e-14)
    assert "this run needs" in out.result.note
    with pytest.raises(MemoryLimit, match="this run needs"):
        relaxation(nx.to_scipy_sparse_array(ring, dtype=float)).run(gap=1e-3)


def test_units_do_not_underflow():
    """The quotient of an edge of 1e-222 and weights of 1e50 would have no digits left."""
    A = np.zeros((3, 3))
    A[0, 1] = A[1, 0] = 2.3e-222
    A[1, 2] = A[2, 1] = 1.0
    out = by_blocks(A, [1e49, 3e49, 7e49]).run(gap=1e-3)
    m = [Fraction(1e49), Fraction(3e49), Fraction(7e49)]
    exact = Fraction(2.3e-222) * sum(m) ** 2 / (2 * m[0] * (m[1] + m[2]))
    assert Fraction(out.result.lower_bound) <= exact
    assert out.rounded.value == pytest.approx(float(exact), rel=1e-13)


def test_a_refused_block_and_the_limits_of_a_run(monkeypatch):
    """The gap of the best cut of all counts, wherever it is."""
    ring = nx.to_numpy_array(nx.circulant_graph(40, [1, 2, 3]))
    A = np.zeros((43, 43))
    A[:40, :40], four = ring, np.r_[0, 40:43]
    A[np.ix_(four, four)] += 2 * (1 - np.eye(4))
    free = by_blocks(A).run(gap=0.9)
    monkeypatch.setattr(memory, "free_memory", lambda: memory.OTHER + 3e5)
    out = by_blocks(A).run(gap=0.9)
    assert out.status is free.status is Status.CONVERGED
    assert out.rounded_gap <= 0.9
    assert by_blocks(A).run(gap=1e-3, max_iter=0).result.iterations == 0


def test_the_run_is_that_of_the_whole_graph():
    """Its value and its bound are those of the cut; what the blocks cost is added up."""
    A = np.zeros((13, 13))
    for part in (np.r_[:7], np.r_[6:13]):  # two blocks that share a vertex
        own = nx.to_numpy_array(nx.circulant_graph(7, [1, 2]))
        A[np.ix_(part, part)] += own
    application = by_blocks(A)
    starts = [application._first(block, None) for block in application.blocks]
    ends = [
        application._own(block, start).run(gap=1e-3)
        for block, start in zip(application.blocks, starts, strict=True)
    ]
    out = application.run(gap=1e-3)
    r, trace = out.result, out.result.trace
    assert out.settings == {"vertices": 13, "largest block": 7, "blocks": 2, "runs": 2}
    assert r.objective == out.rounded.value == cut_value(A, out.rounded.answer.side)
    assert r.lower_bound <= r.objective * (1 + 1e-12)
    assert r.gap == pytest.approx(out.gap) == pytest.approx(out.rounded_gap)
    assert r.iterations == trace.last["k"] <= sum(end.result.iterations for end in ends)
    for name in ("k", "epochs", "seconds", "rows", "lmo_calls"):
        assert (np.diff(trace[name]) >= 0).all(), name
    proved = trace["lower_bound"]
    assert proved[0] == min(start.bound for start in starts) > 0  # both are bounded before
    assert (proved <= r.lower_bound).all()
    assert proved[-1] == r.lower_bound
    assert (r.families["triangles"].l2, trace.last["infeasibility"]) == (0, 0)
    alone = by_blocks(nx.to_numpy_array(nx.circulant_graph(7, [1, 2]))).run(gap=1e-3)
    assert alone.result.W.shape == (7, 7)  # one block is the graph


@pytest.mark.parametrize("seed", range(40))
def test_blocks_are_those_of_a_sparser_graph(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 25))
    A = np.triu(rng.random((n, n)) < rng.choice([0.1, 0.3, 0.8]), 1)
    A[rng.integers(0, np.arange(1, n)), np.arange(1, n)] = True
    A, weights = sp.csr_array((A | A.T).astype(float)), rng.integers(1, 5, n).astype(float)
    found = []
    for dense in (np.inf, 0):
        monkeypatch.setattr("condgrad.applications.blocks.DENSE", dense)
        blocks = blocks_of(A, weights)
        found.append(sorted((b.vertices.tolist(), b.weights.tolist()) for b in blocks))
    assert found[0] == found[1]
    less = sparser(A)
    assert less.nnz <= 4 * n
    assert not (less.toarray() > A.toarray()).any()
