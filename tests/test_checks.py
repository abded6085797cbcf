"""Parts of a user's own: those that belong together are let through, slips are named."""

import re
import sys

import numpy as np
import pytest

import condgrad
from condgrad import METHODS, Problem, ProblemError, Term, domains, functions, maps, solve
from condgrad._ours import ours
from condgrad.domains.projections import Formula
from condgrad.passes import Plain
from condgrad.passes.fused import Fused
from condgrad.testing import check_domain, check_function, check_map, check_parts
from general import GENERAL
from random_problems import DOMAINS, random_problem
from test_methods import least_squares, max_cut

D = 6


def disown(part):
    """The same part, in a class of the user's."""
    kind = type(part)
    part.__class__ = type(f"My{kind.__name__}", (kind,), {"__module__": "mine"})
    return part


# What is right is let through.


@pytest.mark.parametrize("kind", DOMAINS)
def test_right_parts_pass(kind):
    """Every map, function and domain of condgrad as if it were a user's, in both precisions."""
    for seed in range(24):
        problem = random_problem(kind, seed, built=False).problem
        disown(problem.domain)
        for t in problem.terms:
            disown(t.map)
            disown(t.function)
        assert not any(ours(p) for t in problem.terms for p in (t.map, t.function))
        check_parts(problem)
        check_parts(problem.astype(np.float32))


@pytest.mark.parametrize("unit", [1e-12, 1e-3, 1.0, 1e3, 1e12])
def test_units_do_not_matter(unit):
    rng = np.random.default_rng(3)
    A = disown(maps.DataMatrix(unit * rng.standard_normal((2000, D))))
    for h in (functions.AtMost(unit), functions.Squared(unit), functions.L1(unit)):
        problem = Problem(disown(domains.L1Ball(D, unit)), [Term(A, disown(h))])
        check_parts(problem)
        if 1e-4 < unit < 1e4:
            check_parts(problem.astype(np.float32))


def test_what_is_ours():
    A = maps.DataMatrix(np.eye(3))
    assert ours(A)
    assert ours(maps.Stack([A, maps.Scaled(A, 2.0)]))
    mine = disown(maps.DataMatrix(np.eye(3)))
    assert not ours(mine)
    assert not ours(maps.Stack([A, maps.Scaled(mine, 2.0)]))
    simplex, oracle = domains.Simplex(3), domains.Oracle(lambda v: -np.sign(v), 3, 4.0)
    assert ours(domains.Product([simplex, simplex]))
    assert not ours(oracle)
    assert not ours(domains.Product([simplex, oracle]))
    assert not ours(disown(functions.Squared()))


def test_our_own_parts_are_not_tried(monkeypatch):
    for make in (least_squares, max_cut):
        problem, _ = make()

        def refuse(*_, **__):
            raise AssertionError("tried")

        for t in problem.terms:
            for method in ("rows", "scatter", "add_to"):
                monkeypatch.setattr(t.map, method, refuse, raising=False)
        check_parts(problem)


def test_the_run_stays_the_same(monkeypatch):
    """The checks have random numbers of their own."""
    problem, _ = least_squares()
    for t in problem.terms:
        disown(t.map)
    one = solve(problem, condgrad.h_sag_v2(1.0, batch=2), max_iter=30)
    monkeypatch.setattr(sys.modules["condgrad.run.loop"], "check_parts", lambda *_: None)
    two = solve(problem, condgrad.h_sag_v2(1.0, batch=2), max_iter=30)
    np.testing.assert_array_equal(one.W, two.W)


def test_parts_are_tried_once(monkeypatch):
    problem, seen = own_problem(np.random.default_rng(0), None, np.float64), []
    rows = Own.rows
    monkeypatch.setattr(Own, "rows", lambda *given: seen.append(1) or rows(*given))
    check_parts(problem)
    first = len(seen)
    check_parts(problem)
    assert len(seen) == first > 0


def test_a_part_that_was_refused_is_refused_again():
    problem = own_problem(np.random.default_rng(0), "sign", np.float64)
    for _ in range(3):
        with pytest.raises(ProblemError, match="does not belong to its adjoint"):
            check_parts(problem)


def test_parts_are_told_apart_by_identity():
    class Equal(functions.Squared):
        __hash__ = object.__hash__

        def __eq__(self, other):
            return np.array([True, True])

    for _ in range(2):
        check_parts(
            Problem(domains.Simplex(D), [Term(maps.AllEntries((D,)), Equal(1.0), name="own")])
        )


def test_public_checks_of_single_parts():
    simplex, at = domains.Simplex(D), maps.AllEntries((D,))
    check_domain(simplex)
    check_map(at, simplex)
    check_map(at, simplex, dtype=np.float32)
    for function in (functions.Squared(1.0), functions.AtMost(0.2), functions.L1(2.0)):
        check_function(function, at, simplex)
    with pytest.raises(ProblemError, match=r"map \(Own\)"):
        check_map(Own(np.eye(D), "sign"), simplex)
    wrong = Within()
    wrong.lipschitz = 1.0
    with pytest.raises(ProblemError, match=r"function \(Within\) .*functions\.Indicator"):
        check_function(wrong, at, simplex)
    with pytest.raises(ProblemError, match="lmo of Oracle does not minimise"):
        check_domain(domains.Oracle(lambda v: np.sign(v), D, 2 * D**0.5))


# Maps.


class Own(maps.LinearMap):
    """A dense map with a slip."""

    def __init__(self, X, slip=None, rng=None):
        self.X, self.slip = X, slip
        self.shape, self.size = X.shape[1:], X.shape[0]
        self.storage = X[0].size
        self.row_norm = float(np.linalg.norm(X.reshape(self.size, -1), axis=1).max())
        self.other = X.copy()
        match slip:
            case "factor":
                self.other *= 1 + 10.0 ** rng.uniform(-4, 1)
            case "sign":
                self.other = -X
            case "entry":
                self.other[:, rng.integers(X.shape[1])] += 0.01 * self.row_norm
            case "one row":
                self.other[rng.integers(self.size)] *= 0.5
            case "order":
                self.other = X[::-1]
            case "short":
                self.row_norm *= 0.1

    def rows(self, W, at=slice(None)):
        z = self.X.reshape(self.size, -1).astype(W.dtype) @ W.reshape(-1)
        z = z + 0.1 * self.row_norm if self.slip == "affine" else z
        return z if self.slip == "at" else z[at]

    def scatter(self, G, at, y):
        part = np.tensordot(y, self.other[at], 1).reshape(-1)
        if self.slip == "set":
            G[:] = part
        else:
            G += part

    def add_to(self, G, weight, out):
        part = G.reshape(self.shape) * (1.0 if self.slip == "weight" else weight)
        if self.slip == "overwrite":
            out[...] = part
        else:
            out += part


SLIPS = {
    **dict.fromkeys(
        ("factor", "sign", "entry", "one row", "order", "affine", "set", "weight", "overwrite"),
        "does not belong to its adjoint: ⟨A W, y⟩ is .* by rows, but ⟨W, A\\*y⟩ is .* by scatter",
    ),
    "short": "says that its rows have a length of at most .*, but row .* has .*: row_norm must be",
    "at": r"returned an array of shape \(\d+,\) for \d+ rows|does not belong to its adjoint",
}


def own_problem(rng, slip, dtype=np.float64):
    m = int(rng.integers(2, 40))
    if rng.random() < 0.5:
        d = int(rng.integers(2, 20))
        domain, X = domains.Simplex(d, float(rng.uniform(0.1, 9))), rng.standard_normal((m, d))
    else:
        n = int(rng.integers(2, 6))
        domain, X = domains.Spectrahedron(n, 2.0), rng.standard_normal((m, n, n))
        X = X + X.transpose(0, 2, 1)
    term = Term(Own(X, slip, rng), functions.AtMost(1.0), name="rows")
    if rng.random() < 0.3:
        term = Term(maps.Scaled(term.map, 2.0), term.function, name="rows")
    return Problem(domain, [term], dtype=dtype)


@pytest.mark.parametrize("slip", [None, *SLIPS])
def test_a_slip_in_a_map(slip):
    rng = np.random.default_rng(len(str(slip)))
    for i in range(25):
        problem = own_problem(rng, slip, np.float32 if i % 5 == 0 else np.float64)
        if slip is None:
            check_parts(problem)
        else:
            with pytest.raises(ProblemError, match=SLIPS[slip]) as error:
                check_parts(problem)
            assert "map of term 'rows' (" in str(error.value)


def test_a_map_that_relies_on_symmetric_points():
    """Over an oracle that returns symmetric matrices, which nobody told us."""

    class Upper(maps.LinearMap):
        size, storage, shape, row_norm = 1, 1, (3, 3), 2.0

        def rows(self, W, at=slice(None)):
            return np.array([2 * W[0, 1]])[at]

        def scatter(self, G, at, y):
            G += y.sum()

        def add_to(self, G, weight, out):
            out[0, 1] += weight * G[0]
            out[1, 0] += weight * G[0]

    def lowest(v):
        u = np.linalg.eigh((v + v.T) / 2)[1][:, 0]
        return np.outer(u, u)

    term = Term(Upper(), functions.AtMost(0.1), name="rows")
    oracle = domains.Oracle(lowest, (3, 3), np.sqrt(2))
    check_parts(Problem(oracle, [term]))
    check_parts(Problem(domains.Spectrahedron(3, 1.0), [term]))
    with pytest.raises(ProblemError, match="does not belong to its adjoint"):
        check_parts(Problem(domains.L2Ball((3, 3), 1.0), [term]))


def test_a_map_derived_from_one_with_kernels_has_plain_passes():
    class Twice(maps.Triangles):
        def rows(self, W, at=slice(None)):
            return 2 * super().rows(W, at)

        def scatter(self, G, at, y):
            super().scatter(G, at, 2 * y)

        row_norm = 4.0

    term = Term(Twice(5), functions.AtMost(0.0), name="triangles")
    check_parts(Problem(domains.Spectrahedron(5, 2.0), [term]))
    assert type(term.passes) is Plain
    assert type(Term(maps.Triangles(5), functions.AtMost(0.0)).passes) is Fused
    W = np.random.default_rng(0).standard_normal((5, 5))
    W = W + W.T
    once = Term(maps.Triangles(5), functions.AtMost(0.0)).passes.miss(W, slice(0, 30))
    assert term.passes.miss(W, slice(0, 30)).squares == pytest.approx(4 * once.squares)


WEIGHTS, SHARES = np.array([3.0, -2.0, 1.0]), np.array([0.2, 0.3, 0.5])


class Weighed(maps.AllEntries):
    """z_i = c_i w_i."""

    row_norm = 3.0

    def rows(self, W, at=slice(None)):
        return WEIGHTS[at] * super().rows(W, at)


class Outside(Weighed):
    def add_to(self, G, weight, out):
        out += weight * WEIGHTS * G


class Inside(Weighed):
    def scatter(self, G, at, y):
        super().scatter(G, at, WEIGHTS[at] * y)


@pytest.mark.parametrize("kind", [Outside, Inside])
@pytest.mark.parametrize("h", [functions.Equal, functions.Squared])
def test_a_map_derived_from_one_whose_cotangent_is_y_or_covers_w(kind, h):
    """Nothing of a base that took other rows for granted serves."""
    map, w = kind((3,)), SHARES
    term = Term(map, h(WEIGHTS * w), name="rows")
    gain = Term(maps.Inner([1.0, 2.0, -1.0]), functions.Linear(), name="gain")
    problem = Problem(domains.Simplex(3), [gain, term])
    check_parts(problem)
    assert map.norm() == pytest.approx(3.0)
    out = np.ones(3)
    G = map.zeros()
    map.scatter(G, slice(0, 3), np.ones(3))
    map.set_to(G, 0.5, out)
    np.testing.assert_allclose(out, 0.5 * WEIGHTS)
    result = solve(problem, gap=1e-4, max_iter=2000)
    assert result.status is condgrad.Status.CONVERGED
    best = 0.3 if h is functions.Equal else -0.5195  # at (0.03, 0, 0.97)
    assert result.lower_bound <= best + 1e-12
    assert result.objective == pytest.approx(best, rel=3e-4)


def test_a_map_that_sets_and_adds_different_arrays_is_refused():
    class Halved(maps.AllEntries):
        def set_to(self, G, weight, out):
            super().set_to(G, weight / 2, out)

    term = Term(Halved((3,)), functions.Squared(0.0), name="rows")
    with pytest.raises(ProblemError, match=r"Halved.*another array in set_to than add_to adds"):
        check_parts(Problem(domains.Simplex(3), [term]))


class Lone(domains.Domain):
    """The simplex, with a method of another meaning."""

    proof = "exact"

    def __init__(self, n):
        self.shape, self.diameter = (n,), np.sqrt(2)

    def lmo(self, v):
        return np.eye(v.size)[np.argmin(v)]

    def contains(self, W, tol=1e-8):
        return W.min() >= -tol and abs(W.sum() - 1) <= tol

    def center(self):
        return np.full(self.shape, 1 / self.shape[0])

    def nearest(self, X):
        return np.maximum(X, 0)


def test_nearest_of_a_user_is_no_projection():
    domain, target = Lone(5), np.array([0.5, 0.4, 0.3, 0.2, 0.1])
    assert domain.projector() is None
    term = Term(maps.AllEntries((5,)), functions.Squared(target), name="fit")
    result = solve(Problem(domain, [term]), gap=1e-3, max_iter=5000)
    assert result.W.sum() == pytest.approx(1)
    assert result.objective == pytest.approx(0.025, rel=2e-3)


@pytest.mark.parametrize("slip", ["returns a point outside", "does not return the nearest"])
def test_a_slip_in_a_projector(slip):
    class Slipped(Lone):
        def projector(self):
            far = slip == "does not return the nearest"
            return Formula(lambda X: np.eye(5)[0] if far else np.maximum(X, 0))

    with pytest.raises(ProblemError, match=slip):
        check_domain(Slipped(5))


def test_a_function_derived_from_an_interval_has_its_own_slopes():
    class Within(functions.AtMost):
        """|z| ≤ b."""

        def prox(self, z, beta, at=slice(None)):
            return np.clip(z, -self.upper, self.upper)

        def into_dual(self, y, at=slice(None)):
            return y

        def conjugate(self, y, at=slice(None)):
            return float(self.upper * np.abs(y).sum())

    term = Term(maps.AllEntries((3,)), Within(0.5), name="rows")
    check_parts(Problem(domains.L1Ball(3), [term]))
    W, G = np.array([-1.0, 0.25, 1.0]), np.empty(3)
    term.passes.gradient(W, G, term.chunks(), 1.0)
    np.testing.assert_allclose(G, [-0.5, 0.0, 0.5])


def test_no_array_of_all_rows():
    """A map of 10⁹ rows is tried on a few."""
    asked = []

    class Many(maps.LinearMap):
        size, storage, shape, row_norm = 10**9, D, (D,), 1.0

        def rows(self, W, at=slice(None)):
            ids = np.arange(at.start, at.stop) if isinstance(at, slice) else at
            asked.append(ids.size)
            return W[ids % D]

        def scatter(self, G, at, y):
            ids = np.arange(at.start, at.stop) if isinstance(at, slice) else at
            asked.append(ids.size)
            np.add.at(G, ids % D, y)

        def add_to(self, G, weight, out):
            out += weight * G

    class Soft(functions.Absolute):
        def value(self, z, at=slice(None)):
            asked.append(z.size)
            return super().value(z, at)

    check_parts(Problem(domains.Simplex(D), [Term(Many(), Soft(0.1), name="many")]))
    assert 0 < len(asked) < 40
    assert max(asked) <= 64


# Functions.


class Shifted(functions.Proximable):
    """λ max(0, z − b) with a slip."""

    slip, lipschitz, bound, price = None, 0.7, 0.3, 0.7

    def value(self, z, at=slice(None)):
        return self.price * float(np.maximum(z - self.bound, 0).sum())

    def prox(self, z, beta, at=slice(None)):
        price = 2 * self.price if self.slip == "prox" else self.price
        return np.where(z > self.bound, np.maximum(z - beta * price, self.bound), z)

    def into_dual(self, y, at=slice(None)):
        return np.clip(y, 0, self.price)

    def conjugate(self, y, at=slice(None)):
        if self.slip == "inf":
            return np.inf
        bound = {"data": 0.0, "below": -self.bound, "above": 9.0}.get(self.slip, self.bound)
        return float(bound * y.sum())


class Halved(functions.Squared):
    slip = None

    def derivative(self, z, at=slice(None)):
        return super().derivative(z, at) * (2 if self.slip == "derivative" else 1)

    def conjugate(self, y, at=slice(None)):
        return super().conjugate(y, at) * (0.5 if self.slip == "half" else 1)


class Ball(functions.L2Ball):
    slip = None

    def prox(self, z, beta, at=slice(None)):
        return 0.9 * z if self.slip == "shrinks" else super().prox(z, beta, at)

    def conjugate(self, y, at=slice(None)):
        return super().conjugate(y, at) * (0.5 if self.slip == "half" else 1)


@pytest.mark.parametrize(
    ("made", "slip", "match"),
    [
        (Shifted, None, None),
        (Shifted, "inf", None),  # a conjugate that is not known makes no bound, and none is wrong
        (Shifted, "prox", "has slopes outside of the domain of its conjugate: into_dual moves"),
        (Shifted, "data", "has a conjugate that is too small"),
        (Shifted, "below", "has a conjugate that is too small"),
        (Shifted, "above", "has a conjugate that does not belong to its prox"),
        (lambda: Halved(1.0), None, None),
        (lambda: Halved(1.0), "derivative", "a conjugate that does not belong to its derivative"),
        (lambda: Halved(1.0), "half", "has a conjugate that (is too small|does not belong)"),
        (lambda: Ball(0.2), None, None),
        (lambda: Ball(0.2), "shrinks", "has a prox that is no projection: what it returns it mov"),
        (lambda: Ball(0.2), "half", "has a conjugate that is too small"),
    ],
)
def test_a_slip_in_a_function(made, slip, match):
    rng = np.random.default_rng(1)
    for _ in range(20):
        h = made()
        h.slip = slip
        A = maps.DataMatrix(rng.standard_normal((int(rng.integers(2, 30)), D)))
        problem = Problem(domains.Simplex(D, 3.0), [Term(A, h, name="own")])
        if match is None:
            check_parts(problem)
            continue
        with pytest.raises(ProblemError, match=match) as error:
            check_parts(problem)
        assert re.match(r"function of term 'own' \(\w+\) has (a )?", str(error.value))
        check_parts(problem, proofs=False)


def test_a_function_that_does_not_look_at_its_rows():
    class Blind(functions.Squared):
        def value(self, z, at=slice(None)):
            return 0.5 * float(np.sum((z - self.target) ** 2))

    A = maps.DataMatrix(np.random.default_rng(0).standard_normal((5000, D)))
    term = Term(A, Blind(np.ones(5000)), name="own")
    with pytest.raises(ProblemError, match=r"failed on \d+ of its 5000 rows .*`at` says which"):
        check_parts(Problem(domains.Simplex(D), [term]))


def test_a_slope_of_another_function():
    class Other(functions.Absolute):
        def prox(self, z, beta, at=slice(None)):
            return z * 0.5

    term = Term(maps.AllEntries((D,)), Other(), name="own")
    with pytest.raises(ProblemError, match="a slope that does not belong to its prox"):
        check_parts(Problem(domains.Simplex(D), [term]))


class Sum(functions._base.Proximable):
    """‖z‖₁ with a slip in its prox; slopes may leave dom h*, where the conjugate is infinite."""

    separable, lipschitz = True, 1.0

    def __init__(self, slip):
        self.slip = slip

    def value(self, z, at=slice(None)):
        return float(np.abs(z).sum())

    def prox(self, z, beta, at=slice(None)):
        if self.slip == "zero":
            return np.zeros_like(z)
        much = 5 * beta if self.slip == "much" else beta
        return np.sign(z) * np.maximum(np.abs(z) - much, 0.0)

    def conjugate(self, y, at=slice(None)):
        return 0.0 if np.abs(y).max() <= 1 + 1e-9 else np.inf


@pytest.mark.parametrize("slip", ["zero", "much"])
def test_a_prox_that_is_no_minimiser(slip):
    A = maps.DataMatrix(np.random.default_rng(0).standard_normal((40, D)))
    check_parts(Problem(domains.Simplex(D), [Term(A, Sum(None), name="own")]))
    with pytest.raises(ProblemError, match=r"own.* has a prox that does not minimise: h\(u\) \+"):
        check_parts(Problem(domains.Simplex(D), [Term(A, Sum(slip), name="own")]))


def test_every_method_checks():
    rng = np.random.default_rng(0)
    for slug in GENERAL:
        problem = own_problem(rng, "sign")
        with pytest.raises(ProblemError, match="does not belong to its adjoint"):
            solve(problem, METHODS[slug](1.0) if slug != "sag-fw" else None, max_iter=3)


def test_a_constraint_of_ones_own_is_an_indicator():
    class AtMost(functions.Indicator):
        def prox(self, z, beta, at=slice(None)):
            return np.minimum(z, 0.4)

        def into_dual(self, y, at=slice(None)):
            return np.maximum(y, 0.0)

        def conjugate(self, y, at=slice(None)):
            return 0.4 * float(y.sum()) if np.all(y >= 0) else np.inf

    cost = Term(maps.Inner(np.arange(6.0)), functions.Linear(), name="cost")
    for dtype in (np.float64, np.float32):
        for most in (AtMost(), functions.AtMost(0.4)):
            terms = [cost, Term(maps.AllEntries((D,)), most, name="most")]
            result = solve(Problem(domains.Simplex(D), terms, dtype=dtype), gap=1e-3)
            assert result.status is condgrad.Status.CONVERGED
            assert result.objective == pytest.approx(0.4 + 0.2 * 2, rel=1e-2)
            assert list(result.families) == ["most"]


class Within(functions.Proximable):
    """A constraint that does not say so."""

    def value(self, z, at=slice(None)):
        return 0.0 if np.abs(z).max() <= 0.4 else np.inf

    def prox(self, z, beta, at=slice(None)):
        return np.clip(z, -0.4, 0.4)

    def conjugate(self, y, at=slice(None)):
        return 0.4 * float(np.abs(y).sum())


@pytest.mark.parametrize("bad", [None, -1.0, np.nan, np.inf, "x", np.ones(3)])
def test_an_infinite_lipschitz_constant_is_refused(bad):
    with pytest.raises(ProblemError, match=r"lipschitz of Within is inf.*functions\.Indicator"):
        Term(maps.AllEntries((D,)), Within(), name="own")
    function = Within()
    function.lipschitz = bad
    with pytest.raises(ProblemError, match="lipschitz of Within is "):
        Term(maps.AllEntries((D,)), function, name="own")


def test_infinite_values_beside_a_lipschitz_constant_are_refused():
    function = Within()
    function.lipschitz = 1.0
    problem = Problem(domains.Simplex(D), [Term(maps.AllEntries((D,)), function, name="own")])
    with pytest.raises(ProblemError, match=r"'own' \(Within\) is infinite .*functions\.Indicator"):
        solve(problem)
