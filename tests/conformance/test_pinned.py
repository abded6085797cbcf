"""`PinnedSpectrahedron`: the eigenpairs hold at every point, and bad ones are refused."""

import numpy as np
import pytest

import condgrad
from condgrad import Problem, ProblemError, Term, domains, functions, maps
from condgrad.domains import PinnedSpectrahedron
from condgrad.points import Moved, RankOne
from conformance.test_domains import DOMAINS, PINNED, complement, mixture, sym

EVERY = pytest.mark.parametrize("name", [n for n in DOMAINS if n.startswith("pinned")])


def off(W, Q, values):
    """By how much W q = μ q is missed."""
    return np.abs(W @ Q - Q * values).max() / np.abs(Q).max()


@EVERY
def test_eigenpairs_hold_at_every_point(name):
    domain, rng = DOMAINS[name], np.random.default_rng(0)
    Q, values = PINNED[id(domain)]
    tol = 1e-12 * domain.trace
    assert off(domain.center(), Q, values) <= tol
    for effort in (None, 1.0, 3.0):
        v = 100 * rng.standard_normal(domain.shape)
        s = domain.lmo(v, effort=effort, hint=mixture(domain, rng), rng=rng).dense()
        assert off(s, Q, values) <= tol
        assert np.linalg.eigvalsh(sym(s))[0] >= -tol
        trace = np.trace(s)
        assert trace <= domain.trace + tol
        assert trace >= (domain.trace if domain.equality else np.sum(values)) - tol
        assert off(mixture(domain, rng), Q, values) <= tol
    W = domain.center()
    for k in range(1, 200):  # drift over many steps
        domain.lmo(rng.standard_normal(domain.shape), effort=1.0, hint=W).blend(W, 2 / (k + 1))
    assert off(W, Q, values) <= 10 * tol
    assert domain.contains(W, 1e-10)


@EVERY
def test_oracle_is_optimal_on_an_explicit_basis(name):
    domain, rng = DOMAINS[name], np.random.default_rng(1)
    Q, values = PINNED[id(domain)]
    U, rest = complement(Q), domain.trace - np.sum(values)
    for _ in range(5):
        v = rng.standard_normal(domain.shape) - rng.integers(-1, 2) * 5 * np.eye(domain.shape[0])
        low, vectors = np.linalg.eigh(U.T @ sym(v) @ U)
        u = U @ vectors[:, 0]
        best = (Q * values) @ np.linalg.pinv(Q)
        if domain.equality or low[0] < 0:
            best = best + rest * np.outer(u, u)
        s = domain.lmo(v).dense()
        scale = domain.trace * np.linalg.norm(v)
        assert np.vdot(v, s) == pytest.approx(np.vdot(v, best), abs=1e-9 * scale)
        minimum = domain.minimum(v)
        true = min(np.vdot(v, best), np.vdot(v, s))
        assert minimum.value <= true <= minimum.value + 1e-9 * scale
        assert (minimum.kind, minimum.failure) == ("exact-eigenvalue", 0.0)


@pytest.mark.parametrize("n", [3, 5, 20, 60])
@pytest.mark.parametrize("equality", [True, False])
def test_a_multiple_of_the_identity(n, equality):
    """Every vector of the complement is optimal, and none of the pinned ones is."""
    for i in range(n):
        q = np.eye(n)[i]
        domain = PinnedSpectrahedron(q, 2.0, equality=equality)
        for c in (1.0, -3.0):
            for effort in (None, 1.0):
                s = domain.lmo(c * np.eye(n), effort=effort, hint=domain.center()).dense()
                assert np.isfinite(s).all()
                assert off(s, q[:, None], 0.0) <= 1e-12
                assert np.trace(s) == pytest.approx(2.0 if equality or c < 0 else 0.0)


def test_directions_along_the_pinned_vectors_do_not_count():
    n, rng = 50, np.random.default_rng(2)
    Q = rng.standard_normal((n, 2))
    domain = PinnedSpectrahedron(Q, 3.0, equality=True)
    v = sym(rng.standard_normal((n, n)))
    moved = v - 1e6 * (Q @ Q.T) + 1e6 * (np.outer(Q[:, 0], Q[:, 0]))
    a, b = domain.lmo(v).dense(), domain.lmo(moved).dense()
    assert np.vdot(v, b) == pytest.approx(np.vdot(v, a), rel=1e-5)


@pytest.mark.parametrize(("r", "equality"), [(5, True), (5, False), (4, True)])
def test_diameter_of_a_small_complement(r, equality):
    domain = PinnedSpectrahedron(np.eye(6)[:, :r], 2.0, 0.1, equality)
    expected = (2.0 - 0.1 * r) * (np.sqrt(2) if r == 4 else float(not equality))
    assert domain.diameter == pytest.approx(expected)


def test_atoms_are_moved_rank_ones():
    domain = DOMAINS["pinned="]
    atom = domain.lmo(np.diag(np.arange(7.0)))
    assert isinstance(atom, Moved)
    assert isinstance(atom.atom, RankOne)
    assert isinstance(DOMAINS["pinned<="].lmo(-np.diag(np.arange(7.0))), RankOne)
    atom = DOMAINS["pinned lanczos"].lmo(-np.diag(np.arange(60.0)), effort=1.0)
    assert atom.products == atom.atom.products > 0


@EVERY
def test_what_misses_an_eigenpair_is_outside(name):
    domain = DOMAINS[name]
    Q, _ = PINNED[id(domain)]
    W, U = domain.center(), complement(Q)
    q, u = Q[:, 0] / np.linalg.norm(Q[:, 0]), U[:, 0]
    assert not domain.contains(W + 1e-3 * domain.trace * (np.outer(q, u) + np.outer(u, q)))
    assert not domain.contains(W + 1e-3 * domain.trace * np.outer(q, q))
    assert not domain.contains(W - domain.trace * np.outer(u, u))
    assert not domain.contains(W + 2 * domain.trace * np.outer(u, u))


def test_a_run_stays_on_the_eigenpairs():
    """Row sums of 1 come for free: k-means without its row-sum constraint."""
    rng, n = np.random.default_rng(3), 12
    C = np.square(rng.standard_normal((n, 1)) - rng.standard_normal((1, n)))
    C = C + C.T
    terms = [
        Term(maps.Inner(C), functions.Linear(), name="cost"),
        Term(maps.AllEntries(n), functions.AtLeast(0.0), name="positive"),
    ]
    domain = PinnedSpectrahedron(np.ones(n), trace=3.0, values=1.0, equality=True)
    for dtype, tol in ((np.float64, 1e-12), (np.float32, 1e-5)):
        result = condgrad.solve(Problem(domain, terms, dtype=dtype), max_iter=300)
        np.testing.assert_allclose(result.W.sum(axis=1), 1.0, atol=tol)
        assert np.trace(result.W) == pytest.approx(3.0, abs=10 * tol)
        assert result.lower_bound <= result.objective + 1.0
    rows = Term(maps.RowSums(n), functions.Equal(1.0), name="rows")
    plain = Problem(domains.Spectrahedron(n, 3.0, equality=True), [*terms, rows])
    other = condgrad.solve(plain, max_iter=3000)
    assert result.lower_bound <= other.objective + 0.05 * abs(other.objective)


@pytest.mark.parametrize(
    ("vectors", "trace", "values", "words"),
    [
        (np.ones((3, 2)), 2.0, 0.0, r"^vectors are linearly dependent"),
        (np.zeros(3), 2.0, 0.0, r"^vectors are linearly dependent"),
        (np.eye(3), 2.0, 0.0, r"^vectors has shape \(3, 3\)"),
        (np.ones(1), 2.0, 0.0, r"^vectors has shape \(1,\)"),
        (np.empty((3, 0)), 2.0, 0.0, r"^vectors has shape \(3, 0\)"),
        (np.ones((2, 2, 2)), 2.0, 0.0, r"^vectors has shape \(2, 2, 2\)"),
        (3.0, 2.0, 0.0, r"^vectors has shape \(\)"),
        ([[1, 2], [3]], 2.0, 0.0, "^vectors has rows of different lengths"),
        ([1.0, np.nan], 2.0, 0.0, "^vectors contains NaN"),
        ([1.0, 1j], 2.0, 0.0, "^vectors has dtype"),
        ("abc", 2.0, 0.0, "^vectors has dtype"),
        (np.ones(3), 2.0, -1.0, "^values must be .* none negative"),
        (np.ones(3), 2.0, [-0.1], "^values must be .* none negative"),
        (np.ones(3), 2.0, [0.1, 0.2], "^values must be one number or 1 of them"),
        (np.ones(3), 2.0, [[0.1]], "^values must be"),
        (np.ones(3), 2.0, np.nan, "^values contains NaN"),
        (np.ones(3), 2.0, "a", "^values has dtype"),
        (np.ones(3), 2.0, None, "^values has dtype"),
        (np.eye(3)[:, :2], 2.0, [[0.1], [0.1, 0.2]], "^values has rows of different lengths"),
        (np.ones(3), 1.0, 1.0, "^trace is 1, but the values sum to 1"),
        (np.eye(4)[:, :2], 0.5, [0.3, 0.4], r"^trace is 0\.5, but the values sum to 0\.7"),
        (np.ones(3), 0.0, 0.0, "^trace is 0"),
        (np.ones(3), np.inf, 0.0, "^trace is inf"),
        (np.ones(3), "2", 0.0, "^trace is '2'"),
        (np.eye(3)[:, :2] + 0.1, 9.0, [1.0, 2.0], "^vectors .* not orthogonal"),
    ],
)
def test_bad_input_is_refused(vectors, trace, values, words):
    with pytest.raises(ProblemError, match=words):
        PinnedSpectrahedron(vectors, trace, values)


def test_scale_and_data_of_the_vectors_do_not_matter():
    Q = np.random.default_rng(4).standard_normal((6, 2))
    v = sym(np.random.default_rng(5).standard_normal((6, 6)))
    kept = Q.copy()
    a = PinnedSpectrahedron(Q, 2.0, 0.3)
    b = PinnedSpectrahedron(Q * [1e-8, 1e8], 2.0, 0.3)
    assert np.array_equal(Q, kept)
    np.testing.assert_allclose(a.lmo(v).dense(), b.lmo(v).dense(), atol=1e-9)
    Q[:] = 0
    assert a.contains(a.lmo(v).dense())
    assert a.contains(b.center(), 1e-9)
