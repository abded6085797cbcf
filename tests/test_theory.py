"""Constants and guarantees: formulas by hand, diameters by brute force, lemmas by simulation."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

import condgrad as cg
from condgrad import domains, functions, maps
from condgrad.methods import (
    METHODS,
    SAG,
    ConditionalGradient,
    Full,
    Method,
    Momentum,
    Spider,
    Storm,
)
from condgrad.problem import Problem, Term
from condgrad.schedules import Power, Schedule, smoothing
from condgrad.theory import constants, diameters, guarantee, guarantees, rate
from general import GENERAL

RNG = np.random.default_rng(5)
BETA0 = 0.7


def vertices(domain: domains.Domain) -> np.ndarray:
    d = domain.shape[0]
    if isinstance(domain, domains.Simplex):
        return domain.total * np.eye(d)
    if isinstance(domain, domains.L1Ball):
        return domain.radius * np.concatenate([np.eye(d), -np.eye(d)])
    assert isinstance(domain, domains.Box)
    return np.array(list(itertools.product(*zip(domain.lower, domain.upper, strict=True))))


POLYTOPES = [
    domains.Simplex(4, total=2.0),
    domains.L1Ball(3, radius=1.5),
    domains.Box(np.array([0.0, -1.0, 2.0]), np.array([1.0, 3.0, 2.5])),
]


# Diameters


def brute(X: np.ndarray, domain: domains.Domain) -> tuple[float, float, float]:
    images = vertices(domain) @ X.T
    gaps = (images[:, None] - images[None]).reshape(-1, X.shape[0])
    return tuple(float(np.linalg.norm(gaps, p, axis=1).max()) for p in (1, np.inf, 2))  # type: ignore[return-value]


@pytest.mark.parametrize("domain", POLYTOPES, ids=lambda d: type(d).__name__)
@pytest.mark.parametrize("m", [1, 5])
@pytest.mark.parametrize("most", [2000, 0], ids=["widths", "norms"])
def test_diameters(domain, m, most, monkeypatch):
    monkeypatch.setattr(guarantees, "ROWS", most)
    X = np.random.default_rng(m).standard_normal((m, domain.shape[0]))
    D, (l1, linf, l2) = diameters(maps.DataMatrix(X), domain), brute(X, domain)
    assert D.norm == pytest.approx(np.linalg.norm(X, 2), rel=1e-6)
    assert D.l1 >= l1 - 1e-9
    assert D.l2 >= l2 - 1e-9
    assert D.linf >= linf - 1e-9
    if most:
        assert D.linf == pytest.approx(linf)
        if m == 1:
            assert (D.l1, D.l2) == pytest.approx((l1, l2))


def test_diameters_of_matrices():
    # z_i = W_ii between 0 and the trace; ‖W‖ along a direction by its eigenvalues.
    D = diameters(maps.Diagonal(3), domains.Spectrahedron(3, trace=2.0))
    assert D.linf == pytest.approx(2.0)
    assert D.l1 == pytest.approx(min(6.0, np.sqrt(3) * 2 * np.sqrt(2)))
    C = RNG.standard_normal((3, 4))
    top = np.linalg.norm(C, 2)
    assert diameters(maps.Inner(C), domains.NuclearBall((3, 4), 5.0)).l1 == pytest.approx(10 * top)


# Constants


def data(n: int = 6, m: int = 4, d: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    return rng.standard_normal((n, d)), rng.standard_normal(n), rng.standard_normal((m, d))


def paper_problem(composite: functions.Proximable, scale: float = 1.0) -> Problem:
    X, b, A = data()
    return Problem(
        domains.Simplex(3),
        [
            Term(maps.DataMatrix(X), functions.Squared(b), 1 / 6, "f"),
            Term(maps.DataMatrix(A), composite, scale, "g"),
        ],
    )


@pytest.mark.parametrize("as_printed", [False, True])
def test_constants_of_the_paper(as_printed):
    # ω = 1/n, 1/m and batch 1: the theorem, with squared norms.
    problem, (X, b, A) = paper_problem(functions.AtMost(0.1), 1 / 4), data()
    W = np.array([0.2, 0.3, 0.5])
    n, m, D = 6, 4, np.sqrt(2)
    DX, DA = (
        diameters(maps.DataMatrix(X), problem.domain),
        diameters(maps.DataMatrix(A), problem.domain),
    )
    X2, A2 = np.linalg.norm(X, 2) ** 2, np.linalg.norm(A, 2) ** 2
    e_f = np.abs(X @ W - b).sum() / n
    e_g = np.maximum(A @ W - 0.1, 0).sum() / (m * BETA0)
    C2 = 8 * DX.l1 * DX.linf + 2 / n * X2 * D**2
    C3 = 2 * n**2 * DX.linf * (e_f + 32 * DX.l1)

    v2 = constants(problem, cg.h_sag_v2(BETA0), W, as_printed=as_printed)
    C1 = (2 * D**2 * A2 + 10 * DA.l1) if as_printed else 2 * D**2 * A2 / m + 20 * DA.l1 * DA.linf
    expected = C1 / BETA0, C2, C3 + 2 * m**2 * DA.linf * e_g
    assert pytest.approx(expected, rel=1e-6) == (v2.C1, v2.C2, v2.C3)

    whole = paper_problem(functions.AtMost(0.1))  # v1: g itself, weight 1
    v1 = constants(whole, cg.h_sag_v1(BETA0), W, as_printed=as_printed)
    assert pytest.approx((2 * D**2 * A2 / BETA0, C2, C3), rel=1e-6) == (v1.C1, v1.C2, v1.C3)
    full = constants(whole, cg.hcgm(BETA0), W, as_printed=as_printed)
    assert pytest.approx((v1.C1, 2 / n * X2 * D**2, 0.0), rel=1e-6) == (full.C1, full.C2, full.C3)


def test_constants_of_batches_weights_and_warm_starts():
    one = constants(paper_problem(functions.Equal(0.0), 1.0), cg.h_sag_v2(BETA0))
    ten = constants(paper_problem(functions.Equal(0.0), 10.0), cg.h_sag_v2(BETA0))
    assert pytest.approx(10 * one.C1) == ten.C1
    assert pytest.approx(one.C2) == ten.C2
    batch = constants(paper_problem(functions.Equal(0.0)), cg.h_sag_v2(BETA0, batch=2))
    again = constants(
        paper_problem(functions.Equal(0.0)), cg.h_sag_v2(BETA0, batch=2, replace=True)
    )
    warm = constants(paper_problem(functions.Equal(0.0)), cg.h_sag_v2(BETA0, warm_start=True))
    assert batch.C1 < again.C1 < one.C1  # two draws with replacement may be one row
    assert warm.C3 < one.C3
    alone = Problem(domains.Simplex(3), paper_problem(functions.Equal(0.0)).terms[:1])
    assert constants(alone, cg.sag_fw()).C1 == 0
    printed = constants(
        paper_problem(functions.Equal(0.0)), cg.h_sag_v2(BETA0, batch=2), as_printed=True
    )
    assert pytest.approx(one.C2) == printed.C2  # the paper's form counts rows


FUNCTIONS = [
    functions.AtMost(0.1),
    functions.Equal(0.05),
    functions.Absolute(0.3, 2.0),
    functions.Hinge(np.array([1.0, -1.0, 1.0, 1.0])),
]


@pytest.mark.parametrize("h", FUNCTIONS, ids=lambda h: type(h).__name__)
def test_change_of_slope_with_beta(h):
    # |h'_β − h'_β'| ≤ (1 − β/β') |h'_β|, which takes the place of the paper's scaling argument.
    for _ in range(200):
        z, (small, large) = RNG.standard_normal(4) * 3, np.sort(RNG.uniform(0.01, 3, 2))
        y = h.slope(z, small)
        assert np.all(np.abs(y - h.slope(z, large)) <= (1 - small / large) * np.abs(y) + 1e-12)


def test_scaling_of_the_prox_needs_homogeneity():
    # ∇g_β(z) = ∇g_β'(β' z/β) (appendix, Lipschitz case) holds for |z| and fails for |z − b|.
    z = np.array([0.35])
    for h, same in [(functions.L1(), True), (functions.Absolute(0.3), False)]:
        assert np.allclose(h.slope(z, 0.5), h.slope(z * 4, 2.0)) is same


@pytest.mark.parametrize("h", FUNCTIONS, ids=lambda h: type(h).__name__)
@pytest.mark.parametrize("beta0", [0.05, 1.0, 20.0])
@pytest.mark.parametrize("build", [cg.hcgm, cg.h_sag_v1, cg.h_sag_v2], ids=lambda b: b.__name__)
def test_unrolled_recursion_is_below_the_constants(h, beta0, build):
    problem, ks = paper_problem(h, 0.25), np.array([1, 2, 3, 10, 100, 1000])
    curve = guarantee(problem, build(beta0), ks)
    assert np.all(curve <= constants(problem, build(beta0)).gap(ks) * (1 + 1e-9))
    assert np.all(curve > 0)


# The estimators


def follow(problem: Problem, method: Method, ks: list[int], seed: int) -> np.ndarray:
    """ℓ1 and ℓ2 error of the estimate of the only term; its map is the identity, so G = y."""
    rng, term = np.random.default_rng(seed), problem.terms[0]
    e = method.estimator(term)
    s, W, out = e.begin(term, problem), problem.domain.center(), []
    before = W.copy()
    for k in range(1, ks[-1] + 1):
        p = method.schedule(k)
        e.follow(s, term, SimpleNamespace(W=W, before=before, rng=rng), p)
        if k in ks:
            r = term.function.slope(W, p.beta) - s.G
            out.append([np.abs(r).sum(), np.sum(r**2)])
        noise = rng.standard_normal(W.size)  # any s_k of the domain will do
        before[...] = W
        problem.domain.lmo(s.G + noise).blend(W, p.eta)
    return np.array(out)


ESTIMATORS = [
    SAG(1),
    SAG(3),
    SAG(3, replace=True),
    SAG(2, warm_start=True),
    Momentum(1),
    Momentum(4, replace=True),
    Storm(1),
    Storm(4),
    Spider(),
]


@pytest.mark.parametrize("e", ESTIMATORS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize(
    "h",
    [functions.Squared(0.4), functions.AtMost(0.2), functions.Absolute(0.15, 2.0)],
    ids=["smooth", "indicator", "lipschitz"],
)
def test_estimates_stay_within_their_error_bounds(e, h):
    d, seeds, ks = 8, 40, [1, 2, 3, 5, 9, 17, 40, 120, 300]
    problem = Problem(domains.Simplex(d, total=1.5), [Term(maps.DataMatrix(np.eye(d)), h)])
    rho = Power(3, 5, 2 / 3) if isinstance(e, Momentum) else Power(2, 1.5, 1)
    schedule = Schedule(Power(2, 1, 1), smoothing(BETA0, 1, 0.5), rho)
    method = ConditionalGradient(e, e, schedule)
    runs = np.array([follow(problem, method, ks, seed) for seed in range(seeds)])
    _, (t,), _ = guarantees._facts(problem, method, None)
    u, bounds = guarantees._initial(t, schedule(1).beta), []
    for k in range(1, ks[-1] + 1):
        u, error = guarantees._follow(t, schedule(k), u)
        bounds.append(error)
    if isinstance(e, SAG):
        error, spread, unit = runs[..., 0].mean(0), runs[..., 0].std(0), t.D.linf
    else:
        error, spread, unit = np.sqrt(runs[..., 1].mean(0)), runs[..., 1].std(0) ** 0.5, t.diameter
    bound = np.array([bounds[k - 1] for k in ks]) / unit
    slack = 4 * spread / np.sqrt(seeds) if isinstance(e, SAG) else 1.5 * spread / seeds**0.25
    assert np.all(error <= bound + slack + 1e-9)
    if isinstance(e, SAG):  # the closed forms of Lemmas 4.2 and 4.3
        k, keep = np.array(ks), 1 - 1 / t.turnover
        start = keep**k * t.first(BETA0 if not h.smooth else 1.0)
        if h.smooth:
            tail = 2 * t.D.l1 * (keep ** (k / 2) * np.log(k) + 2 * (t.turnover - 1) / k)
        else:
            reach = t.D.l1 if h.indicator else t.D.l1 / 2 + BETA0 * d * h.lipschitz / 10
            tail = 10 * t.turnover * reach / (BETA0 * np.sqrt(k))
        assert np.all(bound <= start + tail + 1e-9)


# Guarantees and corollaries on a problem solved by hand: min w_2 + 2 w_3 over the simplex with
# w_1 ≤ 1/2: w* = (1/2, 1/2, 0), F* = 1/2, y* = 1.


def by_hand(weight: float = 1.0) -> Problem:
    return Problem(
        domains.Simplex(3),
        [
            Term(maps.DataMatrix(np.eye(3)), functions.Linear([0.0, 1.0, 2.0]), name="cost"),
            Term(
                maps.DataMatrix(np.eye(3)),
                functions.AtMost([0.5, 10.0, 10.0]),
                weight,
                name="bound",
            ),
        ],
    )


KS = np.array([1, 2, 4, 8, 16, 32, 64, 128, 256, 512])


def measure(problem: Problem, method: Method, seeds: int = 5, start=None) -> dict[str, np.ndarray]:
    rows: list[list[float]] = []
    for seed in range(seeds):

        def look(info: cg.Info) -> None:
            if info.k in KS:
                value = problem.smoothed(info.W, info.params.beta)
                rows.append([value, info.objective, info.infeasibility])

        cg.solve(
            problem,
            method,
            start=start,
            max_iter=int(KS[-1]),
            callbacks=[look],
            seed=seed,
            record=1,
        )
    mean = np.array(rows).reshape(seeds, KS.size, 3).mean(0)
    return dict(zip(("smoothed", "objective", "infeasibility"), mean.T, strict=True))


@pytest.mark.parametrize("weight", [0.25, 1.0, 4.0])
@pytest.mark.parametrize("slug", ["hcgm", "h-sag-v1", "h-sag-v2"])
def test_corollary_for_constraints(slug, weight):
    problem, method = by_hand(weight), METHODS[slug](beta0=0.5)
    got, C = measure(problem, method), constants(problem, method)
    assert np.all(got["smoothed"] - 0.5 <= guarantee(problem, method, KS))
    assert np.all(got["objective"] - 0.5 <= C.objective(KS))
    assert np.all(got["infeasibility"] <= C.infeasibility(KS, 1.0))
    assert np.all(got["objective"] - 0.5 >= -got["infeasibility"] - 1e-12)
    # As small as the proof says: dist → (β/ω) y*, and the bound is 2 (β/ω) y* + …
    beta = C.beta0 / np.sqrt(KS + 1) / weight
    assert C.infeasibility(KS, 1.0) == pytest.approx(2 * beta + np.sqrt(2 * beta * C.gap(KS)))


def test_corollary_for_lipschitz_terms():
    # min |w_1 − 0.3| + w_2 over the simplex: F* = 0 at (0.3, 0, 0.7).
    problem = Problem(
        domains.Simplex(3),
        [
            Term(maps.DataMatrix(np.eye(3)), functions.Linear([0.0, 1.0, 0.0])),
            Term(maps.DataMatrix(np.eye(3)[:1]), functions.Absolute(0.3)),
        ],
    )
    method = cg.h_sag_v2(beta0=0.4)
    got, C = measure(problem, method), constants(problem, method)
    assert C.slack == 1
    assert np.all(got["objective"] <= C.lipschitz(KS))
    assert C.lipschitz(9) == pytest.approx(C.gap(9) + 0.4 / (2 * 3))


OTHERS = {
    "warm": cg.h_sag_v2(beta0=0.5, warm_start=True),
    "mixed": cg.most_fw(beta0=0.5).override({"bound": Storm(2), "cost": SAG(1)}),
    "short first step": ConditionalGradient(
        Full(), Full(), Schedule(Power(2, 2, 1), smoothing(0.5, 1, 0.5))
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_guarantee_of_other_compositions(name):
    start = np.array([0.0, 0.1, 0.9])
    got = measure(by_hand(), OTHERS[name], start=start)
    curve = guarantee(by_hand(), OTHERS[name], KS, start)
    assert np.all(got["smoothed"] - 0.5 <= curve)
    assert curve[-1] < curve[0]


@pytest.mark.parametrize("slug", sorted(set(GENERAL) - {"cgal", "sag-cgal", "sag-fw", "spdhg"}))
def test_guarantee_falls_at_the_stated_rate(slug):
    ks = np.array([4_000, 40_000])
    curve = guarantee(by_hand(), METHODS[slug](beta0=0.5), ks)
    slope = np.log10(curve[1] / curve[0])
    assert slope <= -rate(slug) + 0.03


# Refusals


def test_rate():
    assert rate(cg.shcgm()) == pytest.approx(1 / 3)
    assert rate("sag-fw") == 1
    with pytest.raises(cg.ProblemError, match="no rate is known for 'custom'"):
        rate(ConditionalGradient(Full(), Full(), cg.hcgm().schedule))


@pytest.mark.parametrize(
    "slug", ["shcgm", "most-fw", "h-1sfw", "h-spider-fw", "most-fw-plus", "cgal"]
)
def test_methods_without_constants(slug):
    with pytest.raises(cg.ProblemError, match=r"Theorem 4\.1"):
        constants(by_hand(), METHODS[slug]())


def test_refusals():
    problem = by_hand()
    with pytest.raises(cg.ProblemError, match="term 'bound' by Augmented"):
        guarantee(problem, cg.cgal(), [10])
    fast = ConditionalGradient(Full(), Full(), Schedule(Power(2, 1, 1), smoothing(1.0, 0, 3.0)))
    with pytest.raises(cg.ProblemError, match="fall more slowly"):
        guarantee(problem, fast, [10])
    growing = ConditionalGradient(Full(), Full(), Schedule(Power(2, 1, 1), smoothing(1.0, 1, -0.5)))
    with pytest.raises(cg.ProblemError, match="let β grow"):
        guarantee(problem, growing, [10])
    for ks in ([], [0], [1.5]):
        with pytest.raises(cg.ProblemError, match="ks must hold"):
            guarantee(problem, cg.hcgm(), ks)
    with pytest.raises(cg.ProblemError, match="W1 has shape"):
        guarantee(problem, cg.hcgm(), [1], np.zeros(2))
    C = constants(problem, cg.hcgm())
    with pytest.raises(cg.ProblemError, match="has constraints"):
        C.lipschitz(3)
    smooth = Problem(problem.domain, problem.terms[:1])
    with pytest.raises(cg.ProblemError, match="no constraints"):
        constants(smooth, cg.hcgm()).infeasibility(3, 1.0)
