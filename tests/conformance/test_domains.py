"""Every domain: atoms are feasible and optimal, sizes are right, bad input is refused."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from condgrad import ProblemError
from condgrad.domains import (
    BlockSpectrahedron,
    Box,
    L1Ball,
    L2Ball,
    LinfBall,
    NuclearBall,
    Oracle,
    PinnedSpectrahedron,
    Product,
    Simplex,
    Spectrahedron,
)
from condgrad.domains.eigen import SMALL, lowest_eigpair

LOWER, UPPER = np.array([-1.0, 0.0, 2.0, -3.0]), np.array([0.5, 0.0, 5.0, -1.0])


def sym(v):
    return 0.5 * (v + v.T)


def spectra(v, blocks):
    """Smallest eigenvalue of every diagonal block of the symmetric part."""
    edges = np.cumsum([0, *blocks])
    return [np.linalg.eigvalsh(sym(v[a:b, a:b]))[0] for a, b in pairwise(edges)]


def least_spectra(domain, v):
    low = domain.trace * min(spectra(v, domain.blocks))
    return low if domain.equality else min(low, 0.0)


def complement(Q):
    """An orthonormal basis of what is orthogonal to the columns of Q."""
    Q = np.reshape(Q, (len(Q), -1))
    return np.linalg.svd(Q)[0][:, Q.shape[1] :]


def least_pinned(domain, v):
    Q, values = PINNED[id(domain)]
    fixed = (Q * values) @ np.linalg.pinv(Q)
    U = complement(Q)
    low = (domain.trace - np.sum(values)) * np.linalg.eigvalsh(U.T @ sym(v) @ U)[0]
    return np.vdot(v, fixed) + (low if domain.equality else min(low, 0.0))


def pinned(vectors, trace, values=0.0, equality=False):
    """A domain whose eigenpairs are remembered here, apart from what it keeps itself."""
    domain = PinnedSpectrahedron(vectors, trace, values, equality)
    Q = np.reshape(vectors, (len(vectors), -1))
    PINNED[id(domain)] = Q, np.broadcast_to(values, Q.shape[1])
    return domain


PINNED = {}


def least_product(domain, v):
    return sum(LEAST[type(d)](d, domain.block(v, i)) for i, d in enumerate(domain.domains))


LEAST = {  # the true minimum of <v, s>, in closed form or from LAPACK
    Spectrahedron: least_spectra,
    BlockSpectrahedron: least_spectra,
    PinnedSpectrahedron: least_pinned,
    NuclearBall: lambda d, v: -d.radius * np.linalg.svd(v, compute_uv=False)[0],
    Simplex: lambda d, v: d.total * v.min(),
    L1Ball: lambda d, v: -d.radius * np.abs(v).max(),
    L2Ball: lambda d, v: -d.radius * np.linalg.norm(v),
    LinfBall: lambda d, v: -d.radius * np.abs(v).sum(),
    Box: lambda d, v: float(np.minimum(d.lower * v, d.upper * v).sum()),
    Oracle: lambda d, v: -2 * np.abs(v).sum(),
    Product: least_product,
}

DOMAINS = {
    "spectrahedron<=": Spectrahedron(7, trace=3.0),
    "spectrahedron=": Spectrahedron(7, trace=3.0, equality=True),
    "spectrahedron<=60": Spectrahedron(60, trace=2.0),
    "spectrahedron=60": Spectrahedron(60, trace=2.0, equality=True),
    "spectrahedron=150": Spectrahedron(150, trace=150.0, equality=True),
    "blocks": BlockSpectrahedron([3, 1, 4, 1], trace=2.0),
    "blocks=": BlockSpectrahedron([1, 1, 5], trace=2.0, equality=True),
    "blocks-lanczos": BlockSpectrahedron([50, 1, 45], trace=2.0, equality=True),
    "ones": BlockSpectrahedron([1, 1, 1], trace=2.0, equality=True),
    "pinned<=": pinned(np.ones(7), trace=3.0),
    "pinned=": pinned(np.ones(7), trace=3.0, values=1.0, equality=True),
    "pinned two": pinned(np.eye(6)[:, 1:3] + 0.5, 4.0, values=0.5),
    "pinned values": pinned(np.eye(6)[:, :3], 4.0, values=[1.5, 0.0, 0.3], equality=True),
    "pinned lanczos": pinned(np.ones(60), 5.0, values=1.0),
    "pinned lanczos=": pinned(np.random.default_rng(1).normal(size=(60, 2)), 60.0, equality=True),
    "nuclear-tall": NuclearBall((9, 4), 5.0),
    "nuclear-wide": NuclearBall((4, 9), 5.0),
    "nuclear-square": NuclearBall((6, 6), 5.0),
    "nuclear-tall-lanczos": NuclearBall((90, 50), 5.0),
    "nuclear-wide-lanczos": NuclearBall((50, 90), 5.0),
    "nuclear-square-lanczos": NuclearBall((60, 60), 5.0),
    "simplex": Simplex(6, total=2.5),
    "l1": L1Ball(6, 3.0),
    "l2": L2Ball(6, 3.0),
    "frobenius": L2Ball((3, 4), 3.0),
    "linf": LinfBall(6, 3.0),
    "box": Box(LOWER, UPPER),
    "box-matrix": Box(-1.0, 2.0, (2, 3)),
    "product": Product([Spectrahedron(4, 2.0), Simplex(3), NuclearBall((3, 5), 2.0)]),
    "oracle": Oracle(lambda v: np.where(v > 0, -2.0, 2.0), 5, 4 * np.sqrt(5)),
}
EVERY = pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS.keys())
SPECTRAL = [n for n in DOMAINS if n.startswith(("spectra", "blocks", "pinned"))]


def mixture(domain, rng):
    """A random point of the set: atoms of random directions, mixed."""
    atoms = [domain.lmo(rng.standard_normal(domain.shape)).dense() for _ in range(4)]
    return sum(w * a for w, a in zip(rng.dirichlet(np.ones(4)), atoms, strict=True))


@EVERY
def test_atom_is_feasible_and_optimal(domain):
    rng = np.random.default_rng(1)
    for _ in range(3):
        v = rng.standard_normal(domain.shape)
        kept = v.copy()
        atom = domain.lmo(v)
        assert np.array_equal(v, kept), "the oracle changed its direction"
        s = atom.dense()
        assert s.shape == domain.shape == atom.shape
        assert domain.contains(s, 1e-7)
        tol = 1e-6 * np.linalg.norm(v)
        assert np.vdot(v, s) == pytest.approx(LEAST[type(domain)](domain, v), abs=tol)
        assert np.vdot(v, s) <= np.vdot(v, mixture(domain, rng)) + tol
        assert domain.support(v) == pytest.approx(-LEAST[type(domain)](domain, -v), abs=tol)


@EVERY
def test_scheduled_oracle_is_feasible_and_close(domain):
    rng = np.random.default_rng(2)
    v, W = rng.standard_normal(domain.shape), mixture(domain, rng)
    s = domain.lmo(v, effort=2 * np.sqrt(10), hint=W, rng=rng).dense()
    least = LEAST[type(domain)](domain, v)
    assert domain.contains(s, 1e-7)
    assert np.vdot(v, s) <= least + 0.1 * abs(least)


@EVERY
def test_mixtures_are_inside_and_outside_is_outside(domain):
    rng = np.random.default_rng(3)
    assert domain.contains(mixture(domain, rng), 1e-7)
    assert domain.center().shape == domain.shape
    assert domain.contains(domain.center(), 1e-9)
    if not isinstance(domain, Oracle):  # knows only its function
        far = domain.center() + 10 * domain.diameter
        assert not domain.contains(far)


@EVERY
def test_diameter_is_reached_and_never_passed(domain):
    rng = np.random.default_rng(4)
    atoms = []
    for _ in range(25):
        v = rng.standard_normal(domain.shape)
        atoms += [domain.lmo(v).dense(), domain.lmo(-v).dense()]
    gaps = [np.linalg.norm(a - b) for a in atoms for b in atoms]
    assert max(gaps) <= domain.diameter * (1 + 1e-9)
    assert max(gaps) >= 0.99 * domain.diameter


@EVERY
def test_zero_direction_gives_a_feasible_atom(domain):
    for effort in (None, 1.0):
        s = domain.lmo(np.zeros(domain.shape), effort=effort, hint=domain.center()).dense()
        assert np.isfinite(s).all()
        assert domain.contains(s, 1e-9)


@EVERY
def test_blend_is_a_convex_combination(domain):
    rng = np.random.default_rng(5)
    W = rng.standard_normal(domain.shape)
    atom = domain.lmo(rng.standard_normal(domain.shape))
    expected = 0.7 * W + 0.3 * atom.dense()
    atom.blend(W, 0.3)
    np.testing.assert_allclose(W, expected, rtol=0, atol=1e-12 * (1 + abs(expected).max()))


@EVERY
def test_float32_direction(domain):
    rng = np.random.default_rng(6)
    v = rng.standard_normal(domain.shape).astype(np.float32)
    atom = domain.lmo(v)
    W = domain.center().astype(np.float32)
    atom.blend(W, 0.5)
    assert W.dtype == np.float32
    s, exact = atom.dense(), v.astype(np.float64)
    assert domain.contains(s, 1e-5)
    gap = np.vdot(exact, s) - LEAST[type(domain)](domain, exact)
    assert abs(gap) <= 1e-4 * np.linalg.norm(exact) * max(1.0, domain.diameter)


@EVERY
def test_integer_direction_is_not_truncated(domain):
    v = np.arange(int(np.prod(domain.shape))).reshape(domain.shape) - 3
    if domain.symmetric or isinstance(domain, (NuclearBall, Product)):
        v = v.astype(np.float64)  # spectral oracles work in the direction's precision
    s = domain.lmo(v).dense()
    least = LEAST[type(domain)](domain, v.astype(np.float64))
    assert np.vdot(v, s) == pytest.approx(least, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("n", [5, 60])
@pytest.mark.parametrize("equality", [True, False])
def test_degenerate_spectra(n, equality):
    domain, rng = Spectrahedron(n, 2.0, equality), np.random.default_rng(7)
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    repeated = (Q * np.r_[-3.0, -3.0, -3.0, np.ones(n - 3)]) @ Q.T
    for v, low in ((np.eye(n), 1.0), (-4.0 * np.eye(n), -4.0), (repeated, -3.0)):
        for effort in (None, 1.0):
            s = domain.lmo(v, effort=effort, hint=domain.center()).dense()
            assert domain.contains(s, 1e-9)
            least = 2 * low if equality else min(0.0, 2 * low)
            assert np.vdot(v, s) == pytest.approx(least, abs=1e-7)


@pytest.mark.parametrize("n", [20, 60, 150])
@pytest.mark.parametrize("c", [1e7, -1e7])
@pytest.mark.parametrize("effort", [None, 2 * np.sqrt(10)])
def test_large_multiple_of_the_centring_matrix(n, c, effort):
    """What n Tr W - 1'W1 = const makes: the wanted eigenvalue can be 1e-8 of the norm."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        small = sym(rng.standard_normal((n, n))) - np.ones((n, n)) / np.sqrt(n)
        v = c * (n * np.eye(n) - np.ones((n, n))) + small
        domain = Spectrahedron(n, trace=float(n))
        hint = mixture(domain, rng)
        s = domain.lmo(v, effort=effort, hint=hint, rng=rng).dense()
        least = n * np.linalg.eigvalsh(v)[0]
        assert least < 0
        assert domain.contains(s)
        assert np.vdot(v, s) <= 0.9 * least


@pytest.mark.parametrize("name", SPECTRAL)
def test_asymmetric_direction_counts_by_its_symmetric_part(name):
    domain, rng = DOMAINS[name], np.random.default_rng(8)
    v = rng.standard_normal(domain.shape)
    value = np.vdot(v, domain.lmo(v).dense())
    assert value == pytest.approx(np.vdot(v, domain.lmo(sym(v)).dense()), abs=1e-7)


@pytest.mark.parametrize("n", [6, 60])
def test_psd_direction_gives_the_origin_only_where_the_trace_is_free(n):
    B = np.random.default_rng(9).standard_normal((n, n))
    v = B @ B.T + np.eye(n)
    assert not Spectrahedron(n, 2.0).lmo(v).dense().any()
    assert np.trace(Spectrahedron(n, 2.0, equality=True).lmo(v).dense()) == pytest.approx(2.0)


def test_block_direction_ignores_what_lies_outside_the_blocks():
    domain, v = BlockSpectrahedron([2, 3], 1.0), np.zeros((5, 5))
    v[:2, 2:] = v[2:, :2] = -100.0
    v[4, 4] = -1.0
    expected = np.zeros((5, 5))
    expected[4, 4] = 1.0
    np.testing.assert_allclose(domain.lmo(v).dense(), expected, atol=1e-12)


def test_product_blocks_are_views_in_their_own_shape():
    domain = DOMAINS["product"]
    W = domain.center()
    domain.block(W, 0)[0, 0] = 7.0
    assert W[0] == 7.0
    assert [domain.block(W, i).shape for i in range(3)] == [(4, 4), (3,), (3, 5)]


def test_oracles_count_products_only_where_they_iterate():
    rng = np.random.default_rng(0)
    for n, iterates in ((SMALL, False), (SMALL + 1, True)):
        v = sym(rng.standard_normal((n, n)))
        assert (Spectrahedron(n).lmo(v, effort=1.0, rng=rng).products > 0) == iterates
        assert (NuclearBall(n, 1.0).lmo(v, effort=1.0, rng=rng).products > 0) == iterates


@pytest.mark.parametrize("bad", [0, -1.0, np.nan, np.inf, "3", None, True])
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda x: Spectrahedron(3, trace=x), "trace"),
        (lambda x: BlockSpectrahedron([2, 1], x), "trace"),
        (lambda x: NuclearBall((2, 3), x), "radius"),
        (lambda x: Simplex(3, total=x), "total"),
        (lambda x: L1Ball(3, x), "radius"),
        (lambda x: L2Ball(3, x), "radius"),
        (lambda x: LinfBall(3, x), "radius"),
        (lambda x: Oracle(lambda v: -v, 3, x), "diameter"),
    ],
)
def test_bad_sizes_are_refused(make, name, bad):
    with pytest.raises(ProblemError, match=f"^{name} is .*: it must be"):
        make(bad)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Spectrahedron(0), "n is 0"),
        (lambda: Spectrahedron(2.5), "n is 2.5"),
        (lambda: BlockSpectrahedron([], 1.0), "blocks is empty"),
        (lambda: BlockSpectrahedron([2, 0], 1.0), "blocks is 0"),
        (lambda: BlockSpectrahedron(2.5, 1.0), "blocks is 2.5"),
        (lambda: NuclearBall((2, 3, 4), 1.0), "shape is"),
        (lambda: NuclearBall((2, -1), 1.0), "shape"),
        (lambda: Simplex(0), "d is 0"),
        (lambda: Simplex(True), "d is True"),
        (lambda: L1Ball(-2), "d is -2"),
        (lambda: L2Ball((2, 0)), "shape is 0"),
        (lambda: L2Ball(2.5), "shape is 2.5"),
        (lambda: L2Ball(()), "shape is empty"),
        (lambda: LinfBall(None), "shape is missing"),
        (lambda: Box(0.0, 1.0), "shape is missing"),
        (lambda: Box([0.0, 2.0], [1.0, 1.0]), "lower exceeds upper"),
        (lambda: Box([0.0, 2.0], [3.0, 3.0, 3.0]), "do not fit"),
        (lambda: Box([0.0, np.nan], 1.0), "lower contains NaN"),
        (lambda: Box(0.0, np.inf, 3), "upper contains NaN or infinity"),
        (lambda: Box("low", 1.0, 3), "lower is not numeric"),
        (lambda: Product([]), "domains is empty"),
        (lambda: Product([Simplex(2), 3]), r"domains\[1\] is a int"),
        (lambda: Product(7), r"domains\[0\] is a int"),
        (lambda: Oracle(3, 3, 1.0), "lmo is not callable"),
        (lambda: Oracle(lambda v: v[:1], 3, 1.0), r"lmo returned shape \(1,\)"),
        (lambda: Oracle(lambda v: v * np.nan, 3, 1.0), "lmo returned NaN"),
        (lambda: Oracle(lambda v: v, 3, 1.0, contains=True), "contains is not callable"),
    ],
)
def test_bad_input_is_refused(make, words):
    with pytest.raises(ProblemError, match=words):
        make()


@pytest.mark.parametrize("big", [1e3, 1e6, 1e10])
def test_full_accuracy_is_relative_to_the_eigenvalue(big):
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((200, 200)))[0]
    spectrum = np.r_[np.linspace(-1, 1, 100), big * np.linspace(1, 2, 100)]
    pair = lowest_eigpair(basis * spectrum @ basis.T, rng=rng)
    assert pair.value == pytest.approx(-1, abs=max(1e-6, 1e-13 * big))
