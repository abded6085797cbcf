"""Semidefinite programs as they are written down, and their optima beside an interior point's."""

import numpy as np
import pytest
import scipy.sparse as sp

import condgrad as cg
from condgrad import ProblemError, functions
from condgrad.io import read_sdpa, write_sdpa
from condgrad.run.result import Status
from condgrad.sdp import SDP, LowRank
from condgrad.sdp.layout import Layout
from files import put
from random_sdps import clarabel, inner, random_sdp, symmetric

TIGHT = {"gap": 1e-5, "feasibility": 1e-5, "max_iter": 20_000}
KINDS = {
    "equalities": {},
    "inequalities": {"senses": ("<=", ">=", "<=", ">=")},
    "mixed": {"senses": ("<=", ">=", "==", "<=")},
    "blocks": {"blocks": (4, 3, -3), "senses": ("==", "<=", ">=")},
    "numbers": {"blocks": (-6,), "senses": ("==", "<=")},
    "trace": {"trace": "=="},
    "trace at most": {"senses": ("<=", ">="), "trace": "<="},
    "blocks with trace": {"blocks": (3, -2, 2), "senses": ("==", ">="), "trace": "=="},
}


def side(sdp):
    return 1.0 if sdp.sense == "min" else -1.0


def least(Z):
    """The smallest eigenvalue of a matrix, vector or list of them."""
    parts = Z if isinstance(Z, list) else [Z]
    return min(z.min() if z.ndim == 1 else np.linalg.eigvalsh(z)[0] for z in parts)


def flat(X):
    return np.concatenate([x.reshape(-1) for x in (X if isinstance(X, list) else [X])])


@pytest.mark.parametrize("sense", ["min", "max"])
@pytest.mark.parametrize("kind", KINDS)
def test_optimum_bound_and_prices(kind, sense):
    sdp = random_sdp(1, sense=sense, **KINDS[kind])
    best, found, sign = clarabel(sdp), sdp.solve(**TIGHT), side(sdp)
    assert found.status is Status.CONVERGED
    assert found.value == pytest.approx(best.value, rel=1e-4, abs=1e-4)
    assert found.gap <= 1e-5
    assert sign * found.bound <= sign * best.value + 1e-7 * (1 + abs(best.value))
    assert flat(found.W) == pytest.approx(best.W, abs=2e-2)
    assert found.y == pytest.approx(best.y, abs=1e-2)
    assert (sign * found.y[sdp.kinds < 0] <= 0).all()
    assert (sign * found.y[sdp.kinds > 0] >= 0).all()
    adjoint = sdp.sparse_rows().T @ found.y
    assert flat(found.Z) == pytest.approx(sign * (sdp.cost - adjoint), abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["mixed", "trace", "blocks"])
def test_dimacs_errors_are_those_of_the_answer(kind, seed):
    """Recomputed from W, y and Z alone, far from the optimum and near it."""
    sense = ("min", "max")[seed % 2]
    sdp = random_sdp(seed, sense=sense, **KINDS[kind])
    s = sdp.solve(max_iter=(3, 300)[seed // 2], trace_bound=50.0)
    sign, W, A = side(sdp), flat(s.W), sdp.sparse_rows()
    slack = sdp.b - A @ W
    miss = np.where(sdp.kinds == 0, slack, np.where(sdp.kinds * slack > 0, slack, 0.0))
    primal, dual = sign * sdp.cost @ W, sign * sdp.b @ s.y
    size, b = 1 + abs(primal) + abs(dual), 1 + np.abs(sdp.b).max()
    met = np.where(sdp.kinds * slack > 0, 0.0, slack) * (sdp.kinds != 0)
    e = s.errors
    assert e.primal == pytest.approx(np.linalg.norm(miss) / b, abs=1e-12)
    assert e.primal_cone == pytest.approx(max(0.0, -least(s.W)) / b, abs=1e-10)
    assert e.dual == pytest.approx(
        np.linalg.norm(sign * (A.T @ s.y - sdp.cost) + flat(s.Z)), abs=1e-9
    )
    assert e.dual_cone == pytest.approx(
        max(0.0, -least(s.Z)) / (1 + np.abs(sdp.cost).max()), abs=1e-9
    )
    assert e.gap == pytest.approx((primal - dual) / size, abs=1e-9)
    product = W @ flat(s.Z) + np.abs(met * s.y).sum()
    assert e.complementarity == pytest.approx(product / size, abs=1e-9)


def test_gap_and_complementarity_agree_at_feasible_points():
    """⟨C, W⟩ − b'y = ⟨W, Z⟩ + slack · y where W meets the rows."""
    s = random_sdp(3, trace="==").solve(gap=1e-7, feasibility=1e-8, max_iter=20_000)
    assert s.errors.complementarity == pytest.approx(s.errors.gap, abs=1e-6)
    assert abs(s.errors.gap) <= 1e-6


def low_rank(forms):
    """One program with its rows given in several forms."""
    rng = np.random.default_rng(4)
    factors = [rng.standard_normal((5, r)) for r in (1, 2, 1, 3)]
    weights = [rng.standard_normal(U.shape[1]) for U in factors]
    sdp = SDP(symmetric(rng, 5)).subject_to(np.eye(5), "<=", 2.0)
    W = np.eye(5) / 5
    for U, s, form, sense in zip(factors, weights, forms, ("==", "<=", ">=", "<="), strict=True):
        A = (U * s) @ U.T
        A = (A + A.T) / 2
        given = {"dense": A, "sparse": sp.csr_array(A), "coo": sp.coo_array(A)}
        row = LowRank(U, s) if form == "factors" else given[form]
        sdp.subject_to(row, sense, np.vdot(A, W))
    return sdp


def test_forms_of_rows_give_the_same_answer():
    programs = [low_rank([form] * 4) for form in ("dense", "sparse", "coo", "factors")]
    programs.append(low_rank(["factors", "dense", "sparse", "factors"]))
    best = clarabel(programs[0])
    for sdp in programs:
        assert sdp.sparse_rows().toarray() == pytest.approx(programs[0].A.toarray())
        s = sdp.solve(**TIGHT)
        assert s.value == pytest.approx(best.value, rel=1e-4)
        assert s.bound <= best.value + 1e-7
        assert s.y == pytest.approx(best.y, abs=3e-2)


def test_factors_in_one_block_of_several():
    rng = np.random.default_rng(0)
    u, C = rng.standard_normal(3), [symmetric(rng, 2), symmetric(rng, 3), rng.standard_normal(2)]
    eye = [np.eye(2), np.eye(3), np.ones(2)]
    dense, factors = (SDP(C, "max").subject_to(eye, "==", 1.0) for _ in range(2))
    dense.subject_to([None, np.outer(u, u), None], "<=", 0.1)
    factors.subject_to([None, LowRank(u), None], "<=", 0.1)
    best = clarabel(dense)
    for s in (dense.solve(**TIGHT), factors.solve(**TIGHT)):
        assert s.value == pytest.approx(best.value, rel=1e-4)
        assert s.y == pytest.approx(best.y, abs=3e-2)


def test_a_low_rank_cost():
    u = np.array([1.0, -2.0, 2.0])
    s = SDP(LowRank(u, [-1.0])).subject_to(np.eye(3), "==", 1.0).solve(gap=1e-6)
    assert s.bound == pytest.approx(-9.0, rel=1e-5)
    np.testing.assert_allclose(s.W, np.outer(u, u) / 9, atol=1e-3)


def test_many_rows_at_once():
    one, many = random_sdp(2, (3, -2), ("==", "==", "==")), random_sdp(2, (3, -2), ())
    many = SDP(one.layout.split(one.cost)).subject_to_rows(one.A, "==", one.b)
    assert many.A.toarray() == pytest.approx(one.A.toarray())
    assert np.array_equal(many.b, one.b)
    ones = SDP(np.eye(2)).subject_to_rows(sp.csr_array(np.eye(4)[[0, 3]]), "==", 2.0)
    assert ones.solve(gap=1e-6).bound == pytest.approx(4.0)
    assert SDP(np.eye(2)).subject_to_rows([1.0, 0, 0, 1], "==", 1.0).size == 1


def test_the_program_keeps_its_own_numbers():
    C, u = np.eye(2), np.ones(2)
    rows = sp.csr_array(np.eye(4)[[0, 3]])
    sdp = SDP(C).subject_to(LowRank(u), "<=", 1.0).subject_to_rows(rows, "<=", 1.0)
    before = sdp.cost.copy(), sdp.sparse_rows().toarray()
    C[:], u[:], rows.data[:] = 7, 7, 7
    assert np.array_equal(sdp.cost, before[0])
    assert np.array_equal(sdp.sparse_rows().toarray(), before[1])


@pytest.mark.parametrize("seed", range(3))
def test_losses(seed):
    """The loss lies on blocks that are reordered; the data must come through unharmed."""
    rng = np.random.default_rng(seed)
    sdp = SDP([rng.standard_normal(3), symmetric(rng, 3)])
    A = np.array([flat([rng.standard_normal(3), symmetric(rng, 3)]) for _ in range(4)])
    rows, kept = sp.csr_array(A), A.copy()
    sdp.loss(rows, functions.Squared(rng.standard_normal(4)), 2.0)
    sdp.subject_to([np.ones(3), np.eye(3)], ("==", "<=", "==")[seed], 1.0)
    sdp.subject_to([None, symmetric(rng, 3)], "<=", 0.2)
    best = clarabel(sdp)
    s = sdp.solve(gap=1e-5, feasibility=1e-6, max_iter=20_000)
    assert np.array_equal(rows.toarray(), kept)
    assert s.status is Status.CONVERGED
    assert s.value == pytest.approx(best.value, rel=1e-4)
    assert s.bound <= best.value + 1e-7
    assert s.y == pytest.approx(best.y, abs=3e-2)
    assert least(s.Z) >= -1e-6


def test_components_are_split():
    """Two blocks and two single numbers hidden in one matrix; their off-diagonal stays 0."""
    order, rng = np.array([4, 0, 6, 2, 5, 1, 3]), np.random.default_rng(1)
    C, A = np.zeros((7, 7)), np.zeros((7, 7))
    for part in (slice(0, 3), slice(3, 5)):
        for X in (C, A):
            X[part, part] = symmetric(rng, part.stop - part.start)
    C[5, 5], C[6, 6], A[6, 6] = -0.5, 0.3, 1.0
    C, A = C[np.ix_(order, order)], A[np.ix_(order, order)]
    sdp = SDP(C).subject_to(np.eye(7), "==", 2.0).subject_to(A, "==", 0.3)
    best, s = clarabel(sdp), sdp.solve(**TIGHT)
    assert s.value == pytest.approx(best.value, rel=1e-4)
    assert s.bound <= best.value + 1e-7
    assert s.result is not None
    blocks = sorted(b.stop - b.start for b in _parts(sdp))
    assert blocks == [2, 3]
    assert not s.W[(C == 0) & (A == 0) & ~np.eye(7, dtype=bool)].any()


def _parts(sdp):
    from condgrad.sdp._reduce import Reduced

    return Reduced(sdp).problem(1.0, True).domain.face.parts


def test_layout():
    layout = Layout([2, -3, 1])
    assert (layout.size, layout.side) == (8, 6)
    M = np.arange(36.0).reshape(6, 6)
    i, j = layout.positions()
    parts = layout.split(M[i, j])
    assert np.array_equal(parts[0], M[:2, :2])
    assert np.array_equal(parts[1], np.diag(M)[2:5])
    assert np.array_equal(parts[2], M[5:, 5:])
    assert np.array_equal(M[i, j][layout.mirror()], M[j, i])


# SDPA


@pytest.mark.parametrize("sense", ["min", "max"])
@pytest.mark.parametrize("kind", ["mixed", "blocks", "trace"])
def test_sdpa_round_trip(kind, sense, tmp_path):
    sdp = random_sdp(5, sense=sense, **KINDS[kind])
    path = tmp_path / "program.dat-s"
    write_sdpa(path, sdp.to_sdpa("a comment"))
    again = SDP.from_sdpa(read_sdpa(path))
    assert again.sense == "max"
    assert not again.kinds.any()
    opened = np.count_nonzero(sdp.kinds)
    assert again.blocks == (*sdp.blocks, *([-opened] if opened else []))
    sign = 1.0 if sense == "max" else -1.0
    assert again.cost[: sdp.cost.size] == pytest.approx(sign * sdp.cost)
    best = clarabel(again)
    assert sign * best.value == pytest.approx(clarabel(sdp).value, rel=1e-6, abs=1e-6)


def test_sdpa_of_factors():
    sdp = low_rank(["factors", "dense", "factors", "sparse"])
    again = SDP.from_sdpa(sdp.to_sdpa())
    assert again.A.toarray()[:, :25] == pytest.approx(sdp.sparse_rows().toarray())
    assert -clarabel(again).value == pytest.approx(clarabel(sdp).value, rel=1e-6)


SMALL = """* max W11 + 2 W12, W11 + W22 = 1, W22 + x1 = 0.5, x2 - x1 = 0
3
2
2 -2
1.0 0.5 0
0 1 1 1 1.0
0 1 1 2 1.0
1 1 1 1 1.0
1 1 2 2 1.0
2 1 2 2 1.0
2 2 1 1 1.0
3 2 2 2 1.0
3 2 1 1 -1.0
"""


def test_an_sdpa_file(tmp_path):
    sdp = SDP.from_sdpa(read_sdpa(put(tmp_path, "small.dat-s", SMALL)))
    assert sdp.blocks == (2, -2)
    assert np.array_equal(sdp.b, [1.0, 0.5, 0.0])
    assert np.array_equal(sdp.layout.split(sdp.cost)[0], [[1.0, 1.0], [1.0, 0.0]])
    assert np.array_equal(sdp.layout.split(sdp.A[[2]].toarray()[0])[1], [-1.0, 1.0])
    best = 0.5 + np.sqrt(1.25)  # the top eigenvalue, where W22 = 0.28 is below 0.5
    s = sdp.solve(gap=1e-5, feasibility=1e-5)
    assert s.value == pytest.approx(best, rel=1e-4)
    assert s.bound >= best - 1e-9
    assert s.W[1] == pytest.approx(np.full(2, 0.5 - s.W[0][1, 1]), abs=1e-3)


# What is refused


def eye(n=2):
    return SDP(np.eye(n))


@pytest.mark.parametrize("kind", [np.array, sp.csr_array, lambda A: A.tolist()])
def test_rows_and_costs_that_are_not_symmetric(kind):
    """⟨A, W⟩ is taken as it stands: A counts by its symmetric part."""
    rng = np.random.default_rng(0)
    C, A = rng.standard_normal((2, 3, 3))
    even, flat = [(X + X.T) / 2 for X in (C, A)], np.array([A.reshape(-1), np.eye(3).reshape(-1)])
    odd = SDP(kind(C)).subject_to(kind(A), "<=", 1.0).subject_to_rows(kind(flat), "==", 1.0)
    odd.loss(kind(flat[:1]), functions.Squared())
    assert odd.cost == pytest.approx(even[0].reshape(-1), rel=1e-15)
    for row in (odd.A.toarray()[0], odd.A.toarray()[1], odd.losses[0].A.toarray()[0]):
        assert row == pytest.approx(even[1].reshape(-1), rel=1e-15)
    assert np.array_equal(odd.A.toarray()[2], flat[1])


def test_a_row_of_one_entry_is_that_entry():
    one = np.zeros((2, 2))
    one[0, 1] = 2.0
    for row in (one, one.T, sp.coo_array(one)):
        assert SDP(np.eye(2)).subject_to(row, "==", 1.0).A.toarray().tolist() == [[0, 1, 1, 0]]
    rows = SDP([np.eye(2), np.ones(1)]).subject_to_rows([[0, 2.0, 0, 0, 5.0]], "==", 1.0)
    assert rows.A.toarray().tolist() == [[0, 1, 1, 0, 5]]
    s = SDP(np.eye(2)).subject_to(one, "==", 1.0).solve()  # 2 W₀₁ = 1
    assert s.value == pytest.approx(1.0, rel=2e-3)
    assert s.W[0, 1] == pytest.approx(0.5, rel=2e-3)


BAD = {
    "sense of C": (lambda: SDP(np.eye(2), "minimum"), "sense is 'minimum'"),
    "empty": (lambda: SDP([]), "C is empty"),
    "not square": (lambda: SDP(np.ones((2, 3))), "square"),
    "three axes": (lambda: SDP(np.ones((2, 2, 2))), "square"),
    "triangular C": (lambda: SDP(np.triu(np.ones((2, 2)))), "C is triangular"),
    "triangular block": (lambda: SDP([np.eye(2), np.triu(np.ones((2, 2)))]), r"C\[1\]"),
    "NaN in C": (lambda: SDP(np.full((2, 2), np.nan)), "C contains NaN"),
    "words in C": (lambda: SDP(np.array([["a", "b"], ["c", "d"]])), "C has dtype"),
    "a number as factors": (lambda: SDP(LowRank(3.0)), r"C\.U"),
    "sense of a row": (lambda: eye().subject_to(np.eye(2), "=", 1.0), "sense is '='"),
    "shape of a row": (lambda: eye().subject_to(np.eye(3), "==", 1.0), r"row 0 has shape \(3, 3\)"),
    "vector for a matrix": (lambda: eye().subject_to(np.ones(2), "==", 1.0), "row 0"),
    "matrix for a vector": (lambda: SDP(np.ones(2)).subject_to(np.eye(2), "==", 1.0), "row 0"),
    "triangular row": (lambda: eye().subject_to(np.triu(np.ones((2, 2))), "==", 1), "one half of"),
    "triangular sparse row": (
        lambda: eye().subject_to(sp.csr_array([[0.0, 0.0], [1.0, 2.0]]), "==", 1.0),
        "row 0 is triangular",
    ),
    "NaN in a row": (lambda: eye().subject_to(np.diag([1.0, np.nan]), "==", 1.0), "row 0 contains"),
    "NaN in b": (lambda: eye().subject_to(np.eye(2), "==", np.nan), "b of row 0 contains"),
    "infinite b": (lambda: eye().subject_to(np.eye(2), "<=", np.inf), "b of row 0 contains"),
    "two b": (lambda: eye().subject_to(np.eye(2), "==", [1.0, 2.0]), "a row has one number"),
    "blocks of a row": (lambda: eye().subject_to([np.eye(2), None], "==", 1.0), "has 2 blocks"),
    "blocks of factors": (
        lambda: eye().subject_to([LowRank(np.ones(2)), None], "==", 1.0),
        "has 2 blocks",
    ),
    "long factors": (lambda: eye().subject_to(LowRank(np.ones(3)), "==", 1.0), r"2 × r"),
    "weights": (lambda: eye().subject_to(LowRank(np.ones(2), [1, 2]), "==", 1.0), "each column"),
    "NaN in factors": (lambda: eye().subject_to(LowRank([np.nan, 1]), "==", 1.0), "U contains"),
    "factors for a vector": (
        lambda: SDP(np.ones(2)).subject_to(LowRank(np.ones(2)), "==", 1.0),
        "give a vector",
    ),
    "columns": (lambda: eye().subject_to_rows(np.ones((1, 3)), "==", 1.0), "3 columns"),
    "right-hand sides": (lambda: eye().subject_to_rows(np.ones((2, 4)), "==", [1, 2, 3]), "2 rows"),
    "triangular rows": (
        lambda: eye().subject_to_rows([[9e9, 0, 0, 9e9], [0, 1e-3, 0, 1]], "==", 1.0),
        "row 1 of A is triangular",
    ),
    "maximised loss": (
        lambda: SDP(np.eye(2), "max").loss(np.eye(4), functions.Squared()),
        "cannot be maximised",
    ),
    "no loss": (lambda: eye().loss(np.ones((1, 4)), functions.Equal(1.0)), "pass a smooth one"),
    "no rows": (lambda: eye().solve(), "no rows"),
    "trace_bound": (lambda: eye().solve(trace_bound=-1.0), "trace_bound is -1.0"),
    "NaN trace_bound": (lambda: eye().solve(trace_bound=np.nan), "trace_bound"),
    "gap": (lambda: eye().solve(trace_bound=1.0, gap=-1.0), "gap is -1.0"),
    "start": (lambda: eye().solve(trace_bound=1.0, start=np.eye(2)), "start"),
    "callbacks": (lambda: eye().solve(trace_bound=1.0, callbacks=print), "callbacks"),
    "SDPA of losses": (
        lambda: eye().loss(np.ones((1, 4)), functions.Squared(1.0)).to_sdpa(),
        "no SDPA form",
    ),
}


@pytest.mark.parametrize(("make", "match"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_refused(make, match):
    with pytest.raises(ProblemError, match=match):
        make()


def test_a_program_without_rows_over_a_given_trace():
    s = SDP(np.diag([2.0, -1.0, 0.5])).solve(trace_bound=3.0, gap=1e-6)
    assert s.bound == pytest.approx(-3.0)
    assert s.trace_from == "user"
    assert "if Tr W ≤ 3" in str(s)


def test_the_inner_product_of_blocks():
    sdp = SDP([np.eye(2), np.ones(3)]).subject_to([np.eye(2), np.arange(3.0)], "==", 1.0)
    W = [np.array([[1.0, 0.5], [0.5, 2.0]]), np.array([1.0, 2.0, 3.0])]
    assert sdp.A @ flat(W) == pytest.approx([inner([np.eye(2), np.arange(3.0)], W)])


@pytest.mark.parametrize(
    "method",
    [cg.hcgm(beta0="auto"), cg.cgal(beta0=0.1), cg.h_sag_v2(beta0="auto", batch=0.5)],
    ids=lambda m: m.name,
)
def test_any_method_solves(method):
    sdp = random_sdp(0, (4,), ("==", "<="), trace="==")
    best = clarabel(sdp)
    s = sdp.solve(gap=2e-2, feasibility=2e-2, method=method, max_iter=20_000)
    assert s.status is Status.CONVERGED
    assert s.value == pytest.approx(best.value, rel=0.1)
    assert s.bound <= best.value + 1e-7
