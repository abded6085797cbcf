"""A subclass of `Domain` as docs/own_problem.md suggests; the page itself runs in test_docs.py."""

from __future__ import annotations

import numpy as np
import pytest

import condgrad as cg
from condgrad import ProblemError, domains, functions, maps, points

N = 6
COST = np.array([3.0, -1.0, 2.0, -2.0, 5.0, 0.5])


class Chosen(domains.Domain):
    """0 ≤ w ≤ 1, Σ w = 2, as on the page, and what `lmo` returns by `answer`."""

    proof = "exact"
    answer = staticmethod(np.asarray)

    def __init__(self):
        self.shape, self.diameter = (N,), 2.0

    def lmo(self, v):
        s = np.zeros(self.shape)
        s[np.argsort(v)[:2]] = 1.0
        return self.answer(s)

    def contains(self, W, tol=1e-8):
        return W.min() >= -tol and W.max() <= 1 + tol and abs(W.sum() - 2) <= tol

    def center(self):
        return np.full(self.shape, 2 / N)


def answering(answer):
    return type("Other", (Chosen,), {"answer": staticmethod(answer)})()


def problem(domain, dtype=np.float64):
    """The cheapest two, each at most 0.75: then 0.5 of the next."""
    terms = [
        cg.Term(maps.Inner(COST), functions.Linear(), name="cost"),
        cg.Term(maps.AllEntries((N,)), functions.AtMost(0.75), name="most"),
    ]
    return cg.Problem(domain, terms, dtype=dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "answer", [np.asarray, np.ndarray.tolist, points.Full, lambda s: s.astype(int)]
)
@pytest.mark.parametrize("method", [cg.sag_cgal(), cg.h_sag_v2(beta0=0.1), cg.cgal()])
def test_it_solves(answer, method, dtype):
    optimum = 0.75 * -2 + 0.75 * -1 + 0.5 * 0.5
    result = cg.solve(problem(answering(answer), dtype), method, max_iter=3000)
    assert result.lower_bound <= optimum
    assert result.lower_bound == pytest.approx(optimum, rel=0.2)
    assert result.objective == pytest.approx(optimum, rel=0.05)
    assert result.bound_kind == "exact"


@pytest.mark.parametrize(
    "body",
    [
        lambda self, v: np.eye(N)[np.argmin(v)],
        lambda self, v, **_: np.eye(N)[np.argmin(v)],
        lambda self, v, effort=None: np.eye(N)[np.argmin(v)],
        lambda self, v, *, effort=None, hint=None, rng=None: np.eye(N)[np.argmin(v)],
        lambda self, v, **_: points.Coordinate(int(np.argmin(v)), 1.0, (N,)),
    ],
)
def test_keywords_may_be_left_out(body):
    own = type("Own", (Chosen,), {"lmo": body, "contains": lambda *_: True})()
    atom = own.lmo(COST, effort=2.0, hint=np.zeros(N), rng=np.random.default_rng(0))
    np.testing.assert_array_equal(atom.dense(), np.eye(N)[3])
    assert own.support(COST) == 5
    value = own.minimum(COST)
    assert value.kind == "exact"
    assert -2 - 1e-12 <= value.value <= -2
    product = domains.Product([own, own])
    assert product.lmo(np.r_[COST, COST], effort=1.0).dense().sum() == 2


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda s: s[:-1], r"lmo returned shape \(5,\)"),
        (lambda s: None, "lmo returned"),
        (lambda s: "nothing", "no array of numbers"),
        (lambda s: [[1], [2, 3]], "no array of numbers"),
    ],
)
def test_what_is_no_point_is_refused(answer, words):
    with pytest.raises(ProblemError, match=words):
        cg.solve(problem(answering(answer)), max_iter=3)


def test_a_domain_without_an_oracle_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        type("Nothing", (domains.Domain,), {})()


@pytest.mark.parametrize("name", ["shape", "diameter"])
def test_what_a_domain_must_say_is_asked_for(name):
    class Silent(Chosen):
        def __init__(self):
            super().__init__()
            delattr(self, name)

    with pytest.raises(ProblemError, match=f"has no {name}: set self.shape"):
        problem(Silent())


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_answers_that_are_no_numbers_are_refused_before_the_run(bad):
    with pytest.raises(ProblemError, match=r"lmo\(v\) number 1 of Other .* no finite numbers"):
        cg.solve(problem(answering(lambda s: np.where(s > 0, bad, s))), max_iter=3)
