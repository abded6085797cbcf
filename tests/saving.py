"""Runs that are saved and taken up again, beside runs that never stop."""

import json
import zlib
from dataclasses import fields, is_dataclass

import numpy as np
import scipy.sparse as sp

import condgrad as cg
from condgrad import METHODS, Problem, Term, applications, domains, functions, maps
from condgrad.run.files import MAGIC
from factored_problems import problem as ratings
from general import GENERAL, OTHERS


def graph(n, seed=0):
    rng = np.random.default_rng(seed)
    A = np.triu(rng.random((n, n)) < 0.3, 1).astype(float)
    A += np.diag(np.ones(n - 1), 1)
    return np.minimum(A, 1) + np.minimum(A, 1).T


def vectors():
    """A problem that the compiled loop serves."""
    rng = np.random.default_rng(0)
    X = sp.random_array((80, 40), density=0.3, rng=rng, data_sampler=rng.standard_normal)
    loss = functions.Squared(rng.standard_normal(80))
    return Problem(domains.L1Ball(40, 3.0), [Term(maps.DataMatrix(X), loss, 1 / 80)])


def squares():
    """Squares over a spectrahedron."""
    M = np.random.default_rng(2).standard_normal(64)
    return Problem(domains.Spectrahedron(8, 3.0), [Term(maps.AllEntries(8), functions.Squared(M))])


def box(l1=False):
    """Completion with bounds on all entries, or with their sum in the objective."""
    rng = np.random.default_rng(1)
    X, shape = rng.standard_normal((12, 3)) @ rng.standard_normal((3, 9)), (12, 9)
    i, j = np.divmod(rng.permutation(108)[:60], 9)
    fit = Term(maps.Entries(i, j, shape), functions.Squared(X[i, j]), 1.0, "fit")
    whole = maps.AllEntries(shape)
    other = functions.L1(0.1) if l1 else functions.Interval(-1.0, 1.0)
    return Problem(domains.NuclearBall(shape, 8.0), [fit, Term(whole, other, name="all")])


def cut(n=14):
    return applications.sparsest_cut(graph(n)).problem


def plain(slug):
    if slug == "cgal":
        return METHODS[slug](1.0)
    return METHODS[slug]("auto") if METHODS[slug].smoothed else METHODS[slug]()


def rows(smooth=False):
    from test_methods import least_squares  # which takes a while to import

    problem = least_squares()[0]
    return Problem(problem.domain, problem.smooth) if smooth else problem


def matrices():
    from test_methods import max_cut

    return max_cut()[0]


def suiting(slug):
    """A problem for a method that has no case of its own."""
    makers = (rows, matrices, vectors, squares, ratings)
    return next(make for make in makers if plain(slug).suits(make()) is None)


CASES = {
    **{slug: (suiting(slug), slug) for slug in METHODS if slug not in GENERAL + OTHERS},
    **{f"{s} on vectors": (rows, s) for s in GENERAL if s not in ("sag-fw", "spdhg")},
    **{f"{s} on matrices": (matrices, s) for s in GENERAL if s != "sag-fw"},
    "pdhg on a box": (box, "pdhg"),
    "pdhg with a norm": (lambda: box(l1=True), "pdhg"),
    "apg": (ratings, "apg"),
    "pfw on vectors": (vectors, "pfw"),
    "apg on vectors": (vectors, "apg"),
    "apg on matrices": (squares, "apg"),
    "pdhg on vectors": (rows, "pdhg"),
    "rpdhg on vectors": (rows, "rpdhg"),
    "spdhg on triangles": (cut, "spdhg"),
    "sag-cgal on triangles": (cut, "sag-cgal"),
    "h-sag-v2 on triangles": (cut, "h-sag-v2"),
    "compiled loop": (vectors, cg.sag_fw(batch=3)),
    "sag-fw": (lambda: rows(smooth=True), cg.sag_fw(batch=2)),
    "float32 tables": (cut, cg.sag_cgal(batch=0.1, table_dtype="float32")),
    "one after the other": (cut, cg.spdhg(batch=0.2, first=6)),
    "single precision": (lambda: cut().astype("float32"), "spdhg"),
    "factors": (ratings, None),
    "factors in float32": (lambda: ratings(dtype=np.float32, loss="huber", scaled=True), None),
}
"""Problem and method, or its name."""


def case(name):
    problem, method = CASES[name]
    return problem(), plain(method) if isinstance(method, str) else method


def alike(one, two):
    """The states, records and results of two runs are equal bit for bit; seconds aside."""
    same(one.state, two.state, "state")
    same(one._monitor.record, two._monitor.record, "record")
    same_result(one.result(), two.result())


def same(a, b, what):
    """Two trees are equal bit for bit, seconds aside."""
    assert type(a) is type(b), what
    if what.endswith(("['clock']", "['seconds']")):
        return
    if is_dataclass(a):
        names = [f.name for f in fields(a)]
        a, b = ({name: getattr(x, name) for name in names} for x in (a, b))
    if isinstance(a, dict):
        assert a.keys() == b.keys(), what
        for key, value in a.items():
            same(value, b[key], f"{what}[{key!r}]")
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), what
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            same(x, y, f"{what}[{i}]")
    elif isinstance(a, np.random.Generator):
        assert a.bit_generator.state == b.bit_generator.state, what
    else:
        equal(a, b, what)


def text_in(raw):
    """The description in the bytes of a file."""
    at = len(MAGIC) + 8
    return json.loads(raw[at : at + int.from_bytes(raw[len(MAGIC) : at], "little")])


def with_text(raw, text):
    """The bytes with another description and the checksum that belongs to them."""
    at = len(MAGIC) + 8
    arrays = raw[at + int.from_bytes(raw[len(MAGIC) : at], "little") : -4]
    new = json.dumps(text).encode()
    body = MAGIC + len(new).to_bytes(8, "little") + new + arrays
    return body + zlib.crc32(body).to_bytes(4, "little")


def same_result(one, two):
    for name in ("status", "iterations", "best_iteration", "epochs", "lmo_calls", "matvecs"):
        assert getattr(one, name) == getattr(two, name), name
    for name in ("objective", "infeasibility", "lower_bound", "gap", "bound_failure"):
        equal(getattr(one, name), getattr(two, name), name)
    assert (one.bound_kind, one.bound_source) == (two.bound_kind, two.bound_source)
    equal(np.asarray(one.W), np.asarray(two.W), "W")
    assert one.trace.columns == two.trace.columns
    for column in one.trace:
        if column != "seconds":
            equal(one.trace[column], two.trace[column], column)
    assert one.duals.keys() == two.duals.keys()
    for name in one.duals:
        equal(one.duals[name], two.duals[name], name)


def equal(a, b, what):
    if not (hasattr(a, "dtype") and a.shape):
        assert a == b or (a != a and b != b), what
        return
    assert a.dtype == b.dtype, what
    assert a.shape == b.shape, what
    assert a.tobytes() == b.tobytes(), what
