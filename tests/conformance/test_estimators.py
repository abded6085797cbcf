"""Every estimator against the exact gradient and against plain NumPy transcriptions."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from condgrad import Problem, ProblemError, Term, domains, functions, maps
from condgrad.methods import SAG, Augmented, Full, Momentum, Spider, Storm
from condgrad.schedules import Constant, Power, Schedule

RNG = np.random.default_rng(0)
ROWS, D = 23, 5
X = RNG.standard_normal((ROWS, D))
B = RNG.standard_normal(ROWS)
SCHEDULE = Schedule(Power(2, 1, 1), Power(0.7, 1, 0.5), Power(2, 1, 1))


def loss(dtype=np.float64):
    return make(functions.Squared(B), dtype)


def constraint(dtype=np.float64):
    return make(functions.Interval(B - 0.1, B + 0.1), dtype)


def make(function, dtype=np.float64):
    problem = Problem(
        domains.Simplex(D), [Term(maps.DataMatrix(X), function, 0.5, "t")], dtype=dtype
    )
    return problem, problem.terms[0]


def triangles():
    problem = Problem(
        domains.Spectrahedron(6, 6.0), [Term(maps.Triangles(6), functions.AtMost(-1.0), name="t")]
    )
    return problem, problem.terms[0]


def product():
    """A W B over a nuclear ball."""
    map = maps.Sandwich(RNG.standard_normal((4, 3)), RNG.standard_normal((5, 6)))
    fit = Term(map, functions.Squared(0.5), 0.5, name="t")
    problem = Problem(domains.NuclearBall((3, 5), 2.0), [fit])
    return problem, problem.terms[0]


CASES = {"loss": loss, "constraint": constraint, "triangles": triangles, "product": product}
CASE = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def atoms(problem, count, seed=1):
    rng = np.random.default_rng(seed)
    return [problem.domain.lmo(rng.standard_normal(problem.domain.shape)) for _ in range(count)]


def run(estimator, problem, term, steps, *, schedule=SCHEDULE, seed=0, atom_seed=1):
    """Follow an estimator along a fixed path; yield what it keeps, W and the rows so far."""
    rng, rows = np.random.default_rng(seed), 0
    W = problem.domain.center().astype(problem.dtype)
    kept, before = estimator.begin(term, problem), W.copy()
    for k, atom in enumerate(atoms(problem, steps, atom_seed), 1):
        p = schedule(k)
        rows += estimator.follow(kept, term, SimpleNamespace(W=W, before=before, rng=rng), p)
        yield k, p, kept, W, rows
        before[...] = W
        atom.blend(W, p.eta)


def gradient(kept, term):
    """ω A*y as a dense array."""
    out = np.zeros(term.map.shape)
    term.map.add_to(kept.G.astype(np.float64), term.weight, out)
    return out


def finite_difference(term, W, beta):
    """Gradient of ω h_β(A W), from values only."""
    out, h = np.zeros(W.shape), 1e-6
    for i in np.ndindex(*W.shape):
        up, down = W.copy(), W.copy()
        up[i] += h
        down[i] -= h
        out[i] = (term.smoothed(up, beta) - term.smoothed(down, beta)) / (2 * h)
    return out


@CASE
def test_full_is_the_gradient_of_the_smoothed_term(case):
    problem, term = case()
    for _, p, kept, W, _ in run(Full(), problem, term, 5):
        np.testing.assert_allclose(
            gradient(kept, term), finite_difference(term, W, p.beta), atol=1e-6
        )
        np.testing.assert_allclose(gradient(kept, term), term.gradient(W, p.beta))


WHOLE = {
    "sag": SAG(1.0),
    "storm": Storm(1.0),
    "spider": Spider(batch_at=lambda k: 10**9),
    "spider-restarts": Spider(restart=lambda k: True),
}


@CASE
@pytest.mark.parametrize("estimator", WHOLE.values(), ids=WHOLE.keys())
def test_full_batch_is_the_full_gradient(case, estimator):
    problem, term = case()
    for _, p, kept, W, _ in run(estimator, problem, term, 12):
        full = term.gradient(W, p.beta)
        scale = 1 + np.abs(full).max()
        np.testing.assert_allclose(gradient(kept, term), full, atol=1e-11 * scale)


@CASE
def test_momentum_with_full_batch_is_the_average_of_full_gradients(case):
    problem, term = case()
    d = 0.0
    for _, p, kept, W, _ in run(Momentum(1.0), problem, term, 10):
        d = (1 - p.rho) * d + p.rho * term.gradient(W, p.beta)
        np.testing.assert_allclose(gradient(kept, term), d, atol=1e-11 * (1 + np.abs(d).max()))


@CASE
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("batch", [1, 7, 0.9])
def test_sag_cotangent_is_the_adjoint_of_the_table(case, replace, batch):
    problem, term = case()
    for _, _, kept, _, _ in run(SAG(batch, replace), problem, term, 60):
        y = kept.slopes
        out = np.zeros(term.map.shape)
        term.map.add_to(kept.G, 1.0, out)
        np.testing.assert_allclose(out, term.map.adjoint(y), atol=1e-10 * (1 + np.abs(y).max()))
    assert np.count_nonzero(y) > 1


def test_sag_repeated_ids_count_once():
    problem, term = constraint()
    for _, p, kept, W, _ in run(SAG(ROWS, replace=True), problem, term, 1):
        drawn = np.unique(np.random.default_rng(0).integers(0, ROWS, ROWS))
        assert drawn.size < ROWS
        expected = np.zeros(ROWS)
        expected[drawn] = term.function.slope(X @ W, p.beta)[drawn]
        np.testing.assert_allclose(kept.slopes, expected)
        np.testing.assert_allclose(kept.G, X.T @ expected)


def test_sag_float32_table_to_tolerance():
    problem, term = constraint()
    rough = run(SAG(5, table_dtype=np.float32), problem, term, 400)
    for (_, _, kept, *_), (_, _, exact, *_) in zip(
        rough, run(SAG(5), problem, term, 400), strict=True
    ):
        assert kept.slopes.dtype == np.float32
        np.testing.assert_allclose(kept.G, X.T @ kept.slopes.astype(float), atol=1e-9)
        np.testing.assert_allclose(kept.G, exact.G, atol=1e-4 * (1 + np.abs(exact.G).max()))


def test_sag_keeps_the_beta_at_which_a_row_was_drawn():
    problem, term = constraint()
    table, rng = np.zeros(ROWS), np.random.default_rng(3)
    for _, p, kept, W, _ in run(SAG(4, replace=True), problem, term, 30, seed=3):
        drawn = rng.integers(0, ROWS, 4)
        z = X @ W
        table[drawn] = ((z - np.clip(z, B - 0.1, B + 0.1)) / p.beta)[drawn]
        np.testing.assert_allclose(kept.slopes, table, atol=1e-12)


@pytest.mark.parametrize("replace", [False, True])
def test_sag_warm_start_fills_the_table_once(replace):
    problem, term = constraint()
    for k, p, kept, W, rows in run(SAG(2, replace, warm_start=True), problem, term, 3):
        if k == 1:
            np.testing.assert_allclose(gradient(kept, term), term.gradient(W, p.beta), atol=1e-12)
        assert rows == ROWS + 2 * (k - 1)


@CASE
def test_one_batch_is_unbiased(case):
    problem, term = case()
    plain = Schedule(Power(2, 1, 1), Constant(0.5), Constant(1.0))
    for estimator in (Momentum(3), Momentum(3, replace=True), Storm(2)):
        got = []
        for seed in range(400):
            for k, _, kept, W, _ in run(estimator, problem, term, 2, schedule=plain, seed=seed):
                if k == 2:
                    got.append(gradient(kept, term))
                    full = term.gradient(W, 0.5)
        error = np.std(got, axis=0) / np.sqrt(len(got))
        assert np.all(np.abs(np.mean(got, axis=0) - full) <= 5 * error + 1e-9)


def test_storm_with_rho_one_is_the_plain_batch():
    problem, term = constraint()
    plain = Schedule(Power(2, 1, 1), Power(0.7, 1, 0.5), Constant(1.0))
    pairs = zip(
        run(Storm(4), problem, term, 30, schedule=plain),
        run(Momentum(4), problem, term, 30, schedule=plain),
        strict=True,
    )
    for (_, _, storm, *_), (_, _, momentum, *_) in pairs:
        np.testing.assert_allclose(storm.G, momentum.G, atol=1e-12)


def test_storm_and_spider_step_by_step():
    problem, term = constraint()

    def estimate(w, beta, ids):
        z = X[ids] @ w
        y = (z - np.clip(z, B[ids] - 0.1, B[ids] + 0.1)) / beta
        return ROWS / len(ids) * (X[ids].T @ y)

    for spider in (False, True):
        estimator = Spider(replace=True) if spider else Storm(3, replace=True)
        d, before, rng = np.zeros(D), None, np.random.default_rng(5)
        for k, p, kept, W, _ in run(estimator, problem, term, 40, seed=5):
            w = W.copy()
            if spider and k in (1, 2, 4, 8, 16, 32):
                d = estimate(w, p.beta, np.arange(ROWS))
            else:
                length = next(2**t for t in range(9) if 2**t <= k < 2 ** (t + 1))
                ids = rng.integers(0, ROWS, min(length, ROWS) if spider else 3)
                keep = 1.0 if spider else 1 - p.rho
                old = estimate(before, p.beta_before, ids) if k > 1 else 0.0
                d = estimate(w, p.beta, ids) + keep * (d - old)
            np.testing.assert_allclose(kept.G, d, atol=1e-9 * (1 + np.abs(d).max()))
            before = w


def test_rows_are_counted():
    problem, term = constraint()
    counts = {
        Full(): [23, 46, 69, 92, 115],
        SAG(4): [4, 8, 12, 16, 20],
        SAG(1.0): [23, 46, 69, 92, 115],
        Momentum(4): [4, 8, 12, 16, 20],
        Storm(4): [4, 12, 20, 28, 36],  # rho_1 = 1: nothing to compare at k = 1
        Spider(): [23, 46, 50, 73, 81],  # full, full, 2 twice, full, 4 twice
        Augmented(1.0): [23, 46, 69, 92, 115],
    }
    for estimator, expected in counts.items():
        assert [rows for *_, rows in run(estimator, problem, term, 5)] == expected, estimator


@pytest.mark.parametrize("bound", [np.inf, 40.0, 0.0])
@pytest.mark.parametrize("equal", [True, False])
def test_augmented_follows_the_formulas_of_cgal(bound, equal):
    """z̄, v, r, σ and y of CGAL, transcribed line by line."""
    beta0 = 0.3
    schedule = Schedule(Power(2, 1, 1), Power(beta0, 1, 0.5))
    low, high = (B, B) if equal else (B - 0.1, B + 0.1)
    problem, term = make(functions.Equal(B) if equal else functions.Interval(low, high))
    path = atoms(problem, 40)
    w, y = problem.domain.center(), np.zeros(ROWS)
    lengths, skipped = [], 0
    norm = np.linalg.norm(X, 2)
    for k, _, kept, W, _ in run(Augmented(1 / beta0, bound), problem, term, 40, schedule=schedule):
        np.testing.assert_allclose(W, w, atol=1e-13)
        lam = np.sqrt(k + 1) / beta0
        z = X @ w
        zbar = np.clip(z + y / lam, low, high)
        np.testing.assert_allclose(kept.y, y, atol=1e-8)
        np.testing.assert_allclose(kept.G, X.T @ (y + lam * (z - zbar)), atol=1e-6)
        eta = 2 / (k + 1)
        w = w + eta * (path[k - 1].dense() - w)
        lam_next = np.sqrt(k + 2) / beta0
        r = X @ w - np.clip(X @ w + y / lam_next, low, high)
        diameter = np.sqrt(2)
        limit = 4 * lam_next * eta**2 * diameter**2 * norm**2 / (r @ r)
        sigma = min(1 / beta0, limit)
        lengths.append(sigma == limit)
        if np.linalg.norm(y + sigma * r) <= bound:
            y = y + sigma * r
        else:
            skipped += 1
    assert (np.linalg.norm(y) > 0) == (bound > 0)
    assert (skipped > 0) == np.isfinite(bound)
    assert any(lengths), "the limit on the dual step was never reached"
    assert not all(lengths), "1/beta0 was never reached"


@pytest.mark.parametrize(
    ("estimator", "term", "words"),
    [
        (SAG(1), "block", r"samples the rows of term 't'.*L2Ball is not separable.*override"),
        (Momentum(1), "block", "not separable"),
        (Storm(1), "block", "not separable"),
        (Spider(), "block", "not separable"),
        (SAG(24), "rows", "batch is 24, but term 't' has only 23 rows"),
        (Momentum(24), "rows", "batch is 24"),
        (Storm(24), "rows", "batch is 24"),
        (Augmented(1.0), "loss", "multipliers for term 't', which is smooth"),
    ],
)
def test_objections(estimator, term, words):
    _, block = make(functions.L2Ball(1.0))
    _, rows = constraint()
    _, smooth = loss()
    objection = estimator.objection({"block": block, "rows": rows, "loss": smooth}[term])
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(objection)


def test_no_objection_where_there_is_none():
    _, block = make(functions.L2Ball(1.0))
    _, rows = constraint()
    assert Full().objection(block) is None
    assert Augmented(1.0).objection(block) is None
    for estimator in (SAG(ROWS), SAG(1.0), Momentum(3), Storm(3), Spider(), Full()):
        assert estimator.objection(rows) is None


@pytest.mark.parametrize("bad", [-1.0, np.nan, "1", None, True])
def test_augmented_refuses_bad_numbers(bad):
    with pytest.raises(ProblemError, match=r"^step is .*: it must be"):
        Augmented(bad)
    with pytest.raises(ProblemError, match=r"^bound is .*: it must be"):
        Augmented(1.0, bad)
