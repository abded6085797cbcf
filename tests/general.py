"""Methods for every kind of domain, and problems that one refuses; others: `test_projected`."""

import re

import pytest

import condgrad as cg
from condgrad import METHODS

GENERAL = [slug for slug in METHODS if slug not in ("pdhg", "rpdhg", "apg", "pfw")]


def refused(problem, method):
    """Whether a method does not suit a problem, which then has to be refused."""
    objection = method.suits(problem)
    if objection is None:
        return False
    with pytest.raises(cg.ProblemError, match=re.escape(objection)):
        cg.start(problem, method)
    return True
