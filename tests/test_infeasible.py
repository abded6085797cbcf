"""INFEASIBLE is a proof: said where nothing is feasible, never where something is."""

import numpy as np
import pytest

from condgrad import METHODS, Problem, Status, Term, domains, functions, maps, solve
from condgrad.certificate.infeasible import Looks, proof
from condgrad.certificate.lower_bound import part_of
from condgrad.domains import eigen
from general import GENERAL, refused

KINDS = ("simplex", "l1", "box", "spectrahedron", "spectrahedron-equal", "product")


def symmetric(rng, shape):
    X = rng.standard_normal(shape)
    return X + np.swapaxes(X, -1, -2) if len(shape) > 1 and shape[-1] == shape[-2] else X


def random_domain(rng, kind):
    d, size = int(rng.integers(3, 20)), float(rng.uniform(0.5, 5))
    n = int(rng.integers(2, 7))
    return {
        "simplex": lambda: domains.Simplex(d, size),
        "l1": lambda: domains.L1Ball(d, size),
        "box": lambda: domains.Box(-rng.random(d), size * rng.random(d) + 0.1),
        "spectrahedron": lambda: domains.Spectrahedron(n, size),
        "spectrahedron-equal": lambda: domains.Spectrahedron(n, size, equality=True),
        "product": lambda: domains.Product([domains.Simplex(d, size), domains.L1Ball(3, size)]),
    }[kind]()


def random_map(rng, domain, rows):
    if domain.symmetric:
        return maps.SparseStack(list(symmetric(rng, (rows, *domain.shape))))
    return maps.DataMatrix(rng.standard_normal((rows, *domain.shape)))


def lowest(domain, v):
    """min ⟨v, s⟩ by its formula."""
    match domain:
        case domains.Product():
            parts = enumerate(domain.domains)
            return sum(lowest(part, domain.block(v, i)) for i, part in parts)
        case domains.Simplex():
            return domain.total * v.min()
        case domains.L1Ball():
            return -domain.radius * np.abs(v).max()
        case domains.Box():
            return np.minimum(v * domain.lower, v * domain.upper).sum()
        case _:
            value = np.linalg.eigvalsh((v + v.T) / 2)[0]
            return domain.trace * (value if domain.equality else min(0.0, value))


def point_of(rng, domain, atoms):
    some = [domain.lmo(symmetric(rng, domain.shape)).dense() for _ in range(atoms)]
    return np.tensordot(rng.dirichlet(np.ones(atoms)), np.array(some), 1)


def with_cost(rng, domain, families, dtype=np.float64):
    f = [Term(maps.Inner(symmetric(rng, domain.shape)), functions.Linear(), name="cost")]
    if rng.random() < 0.3:
        f.append(Term(maps.AllEntries(domain.shape), functions.Squared(0.3), 0.5, name="fit"))
    if rng.random() < 0.3:
        f.append(Term(maps.AllEntries(domain.shape), functions.L1(0.2), name="l1"))
    return Problem(domain, [*f, *families], dtype=dtype)


def infeasible(kind, seed):
    """Σ y_l z_l ≥ low on the domain, but the limits of those rows sum to less; other rows hold."""
    rng = np.random.default_rng([seed, *kind.encode()])
    domain, rows = random_domain(rng, kind), int(rng.integers(2, 30))
    A, W = random_map(rng, domain, rows), None
    y = rng.uniform(0.1, 1, rows) * (rng.random(rows) < 0.5)
    y[0] = 1.0
    low, W = lowest(domain, A.adjoint(y)), point_of(rng, domain, 4)
    z = A.rows(W)
    depth = float(rng.choice([1.0, 0.1, 0.02])) * (np.abs(z).max() + abs(low) / y.sum())
    b = np.where(y > 0, z - (y @ z - low) / y.sum() - depth, z + rng.random(rows))
    assert y @ b < low - 1e-3 * depth * y.sum()
    wide = rng.choice([0.1, 10.0, np.inf])
    limits = functions.Interval(b - wide, b) if np.isfinite(wide) else functions.AtMost(b)
    families = [Term(A, limits, float(rng.choice([0.1, 1, 30])), name="rows")]
    if rng.random() < 0.5:
        cap = functions.AtMost(2 * float(np.abs(W).max()))
        families.append(Term(maps.AllEntries(domain.shape), cap, name="cap"))
    return with_cost(rng, domain, families)


def feasible(kind, seed, dtype=np.float64):
    """Constraints that hold at a point of the domain: with room, on a face, or nowhere else."""
    rng = np.random.default_rng([1, seed, *kind.encode()])
    domain, rows = random_domain(rng, kind), int(rng.integers(2, 30))
    A = random_map(rng, domain, rows)
    y = rng.uniform(0.1, 1, rows)
    room = float(rng.choice([0.0, 0.0, 1e-9, 1e-3, 1.0]))
    alone = rng.random() < 0.5  # W minimises Σ y_l z_l: no point has all rows below their limits
    W = (
        domain.lmo(A.adjoint(y)).dense()
        if alone
        else point_of(rng, domain, int(rng.integers(1, 4)))
    )
    z, scale = A.rows(W), float(rng.choice([1.0, 1e-6, 1e6]))
    sides = {
        "upper": functions.AtMost(scale * (z + room)),
        "equal": functions.Equal(scale * z),
        "both": functions.Interval(scale * (z - rng.random(rows)), scale * (z + room)),
        "ball": functions.L2Ball(scale * max(room, 1e-9), scale * z),
    }
    limits = sides[str(rng.choice(list(sides)))] if not alone else sides["upper"]
    families = [Term(maps.Scaled(A, scale), limits, float(rng.choice([0.1, 1, 30])), name="rows")]
    if rng.random() < 0.5:
        cap = functions.AtMost(float(W.max()))
        families.append(Term(maps.AllEntries(domain.shape), cap, name="cap"))
    return with_cost(rng, domain, families, dtype)


def check_ray(problem, ray):
    """The proof, from rows as vectors and the formula of the minimum."""
    v, limit = np.zeros(problem.domain.shape), 0.0
    constraints = [t for t in problem.terms if t.function.indicator]
    assert set(ray) == {t.name for t in constraints}
    for t in constraints:
        y, low, high = ray[t.name], t.function.lower, t.function.upper
        v += t.weight * np.tensordot(y, [t.map.adjoint(e) for e in np.eye(y.size)], 1)
        high, low = np.broadcast_to(high, y.shape), np.broadcast_to(low, y.shape)
        limit += t.weight * (high[y > 0] @ y[y > 0] + low[y < 0] @ y[y < 0])
    assert lowest(problem.domain, v) > limit


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_infeasible_is_said_to_be(kind):
    for seed in range(20):
        problem = infeasible(kind, seed)
        for options in ({"gap": 1e-2, "max_iter": 1000}, {"max_iter": 1000}):
            result = solve(problem, **options)
            assert result.status is Status.INFEASIBLE, (seed, options)
            assert result.lower_bound == np.inf
            assert result.gap == np.inf
            assert result.bound_kind.startswith("exact")
            assert result.bound_failure == 0.0
            check_ray(problem, result.ray)
            assert problem.domain.contains(result.W, 1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_feasible_is_not_said_to_be_infeasible(kind, monkeypatch):
    """Asked at every certificate, whether or not the violation falls."""
    monkeypatch.setattr(Looks, "due", lambda self, k, far: k > 0)
    for seed in range(20):
        options = {"gap": 1e-2, "feasibility": 1e-6} if seed % 2 else {}
        dtype = np.float32 if seed % 5 == 0 else np.float64
        result = solve(feasible(kind, seed, dtype), max_iter=30 + 2 * seed, **options)
        assert result.status is not Status.INFEASIBLE, seed
        assert np.isfinite(result.lower_bound) or result.lower_bound < 0
        assert result.ray == {}


@pytest.mark.parametrize("slug", [s for s in GENERAL if s not in ("sag-fw", "sag-cgal")])
def test_every_method_tells_them_apart(slug, monkeypatch):
    for kind in ("simplex", "spectrahedron"):
        for seed in range(3):
            method = METHODS[slug](1.0)
            if refused(feasible(kind, seed), method):
                continue
            result = solve(infeasible(kind, seed), method, max_iter=3000)
            assert result.status is Status.INFEASIBLE, (kind, seed)
            monkeypatch.setattr(Looks, "due", lambda self, k, far: k > 0)
            result = solve(feasible(kind, seed), method, max_iter=50)
            assert result.status is Status.MAX_ITER
            monkeypatch.undo()


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("excess", [1e-2, 1e-6, 1e-10])
def test_how_little_is_enough(unit, excess):
    """c·w ≤ min c − excess on the simplex: its multiplier is the ray, whatever the unit."""
    c = unit * np.array([1.0, 2.0, 4.0])
    row = Term(maps.DataMatrix(c[None]), functions.AtMost(unit * (1 - excess)), name="row")
    problem = Problem(domains.Simplex(3), [row])
    low = proof(problem, [part_of(row, None, np.ones(1))])
    assert 0 < low.value <= unit * excess * (1 + 1e-5)
    for met in (unit, unit * (1 + 1e-12)):  # w = (1, 0, 0)
        row = Term(maps.DataMatrix(c[None]), functions.AtMost(met), name="row")
        assert proof(problem, [part_of(row, None, np.ones(1))]).value < 0


def test_a_ray_of_no_length_or_too_long_a_one_proves_nothing():
    row = Term(maps.DataMatrix(np.ones((1, 3))), functions.AtMost(0.5), name="row")
    problem = Problem(domains.Simplex(3), [row])
    for size in (0.0, 1e-310, np.inf, np.nan):
        with np.errstate(all="ignore"):
            assert not proof(problem, [part_of(row, None, np.full(1, size))]).value > 0
    for size in (1e-200, 1e-100, 1.0, 1e100, 1e200):
        assert proof(problem, [part_of(row, None, np.full(1, size))]).value > 0


def test_one_row_of_a_million_that_cannot_hold():
    """The norm of the family would not notice: the worst row does."""
    rng = np.random.default_rng(0)
    X = rng.random((50_000, 4))
    limit = np.full(50_000, 2.0)
    X[777], limit[777] = 1.0, 0.97
    terms = [
        Term(maps.Inner(rng.random(4)), functions.Linear(), name="cost"),
        Term(maps.DataMatrix(X), functions.AtMost(limit), name="rows"),
    ]
    result = solve(Problem(domains.Simplex(4), terms), gap=1e-2, max_iter=2000)
    assert result.status is Status.INFEASIBLE
    assert np.argmax(result.ray["rows"]) == 777


def test_many_multipliers_are_handed_out_on_request_only(monkeypatch):
    monkeypatch.setattr("condgrad.certificate.infeasible.KEPT", 5)
    problem = infeasible("simplex", 3)
    plain, asked = solve(problem, gap=1e-2), solve(problem, gap=1e-2, duals=True)
    assert plain.status is asked.status is Status.INFEASIBLE
    assert plain.ray == plain.duals == {}
    check_ray(problem, asked.ray)
    assert asked.duals is asked.ray


def test_probability_is_added_up(monkeypatch):
    monkeypatch.setattr(eigen, "LARGE", 3)
    row = Term(maps.Inner(np.diag(np.linspace(2.0, 3.0, 40))), functions.AtMost(0.5), name="row")
    cost = Term(maps.Inner(np.ones((40, 40))), functions.Linear(), name="cost")
    problem = Problem(domains.Spectrahedron(40, 1.0, equality=True), [cost, row])
    result = solve(problem, gap=1e-2, max_iter=1000)
    assert result.status is Status.INFEASIBLE
    assert result.bound_kind == "probabilistic"
    assert 0 < result.bound_failure < 1e-4


def test_no_proof_without_a_certificate():
    problem = infeasible("simplex", 1)
    result = solve(problem, certify=False, max_iter=50)
    assert (result.status, result.lower_bound) == (Status.MAX_ITER, -np.inf)


def test_other_statuses_stay():
    problem = infeasible("simplex", 1)
    stop = solve(problem, max_iter=50, callbacks=[lambda info: info.k == 2])
    assert stop.status is Status.STOPPED
    few = solve(problem, max_iter=3)
    assert few.status in (Status.MAX_ITER, Status.INFEASIBLE)


def test_the_violation_is_watched():
    looks = Looks()
    for k, far, due in ((0, 9.0, 0), (5, 9.0, 1), (7, 9.0, 0), (12, 5.0, 0), (24, 4.0, 1)):
        assert looks.due(k, far) is bool(due)
    assert not any(looks.due(k, 0.9) for k in (50, 100))
    free = Problem(domains.Simplex(2), [Term(maps.Inner(np.ones(2)), functions.Linear())])
    assert solve(free, max_iter=20).status is Status.MAX_ITER
