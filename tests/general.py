"""Methods for every kind of domain, and problems that one refuses; others: `test_projected`."""

import pytest

import condgrad as cg
from condgrad import METHODS

GENERAL = [slug for slug in METHODS if slug not in ("pdhg", "rpdhg", "apg", "pfw")]


def refused(problem, method):
    """Whether a method does not suit a problem, which then has to be refused."""
    if method.suits(problem) is None:
        return False
    with pytest.raises(cg.ProblemError, match=f"method is {method.name}, which needs"):
        cg.start(problem, method)
    return True
