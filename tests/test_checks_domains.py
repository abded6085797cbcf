"""Domains of a user's own: those that belong together are let through, slips are named."""

import numpy as np
import pytest

from condgrad import Problem, ProblemError, Term, domains, functions, maps, solve
from condgrad.points import Full
from condgrad.testing import check_parts

D = 6


class Set(domains.Domain):
    """The simplex with a slip."""

    proof = "exact"

    def __init__(self, slip=None):
        self.shape, self.slip = (D,), slip
        self.diameter = 0.5 if slip == "diameter" else np.sqrt(2)

    def lmo(self, v, *, effort=None, hint=None, rng=None):
        s = np.zeros(D)
        s[{"max": np.argmax, "first": lambda v: 0}.get(self.slip, np.argmin)(v)] = 1.0
        return Full(2 * s if self.slip == "outside" else s)

    def contains(self, W, tol=1e-8):
        return bool(W.min() >= -tol and abs(W.sum() - 1) <= tol)

    def center(self):
        return np.full(D, (2.0 if self.slip == "center" else 1.0) / D)

    def minimum(self, v):
        low = super().minimum(v)
        return low._replace(value=low.value + 0.5) if self.slip == "minimum" else low


@pytest.mark.parametrize(
    ("slip", "match"),
    [
        ("max", r"^lmo of Set does not minimise: ⟨v, s⟩ is .* at its answer and .* at "),
        ("first", "^lmo of Set does not minimise"),
        ("outside", r"^lmo\(v\) number 1 of Set lies outside of it by its own `contains`"),
        ("center", r"^center\(\) of Set lies outside"),
        ("diameter", r"^diameter of Set is 0.5, but two of its points are 1.4\d* apart: it must"),
        ("minimum", r"^minimum of Set is .* for some v, but ⟨v, s⟩ is .* at lmo\(v\) number 1"),
    ],
)
def test_a_slip_in_a_domain(slip, match):
    term = Term(maps.Inner(np.arange(D) * 1.0), functions.Linear(), name="cost")
    check_parts(Problem(Set(), [term]))
    assert solve(Problem(Set(), [term]), gap=1e-3).lower_bound == pytest.approx(0.0, abs=1e-9)
    with pytest.raises(ProblemError, match=match):
        solve(Problem(Set(slip), [term]), gap=1e-3)
    check_parts(Problem(Set(slip), [term]), proofs=False)


def test_an_oracle_of_a_user():
    term = Term(maps.Inner(np.arange(D) * 1.0), functions.Linear(), name="cost")

    def right(v):
        return 1.0 * (np.arange(D) == np.argmin(v))

    check_parts(Problem(domains.Oracle(right, D, 1.5), [term]))
    with pytest.raises(ProblemError, match=r"^diameter of Oracle is 1, but two of its points"):
        check_parts(Problem(domains.Oracle(right, D, 1.0), [term]))
    wrong = domains.Oracle(lambda v: right(-v), D, 1.5)
    with pytest.raises(ProblemError, match=r"^lmo of Oracle does not minimise"):
        check_parts(Problem(wrong, [term]))
