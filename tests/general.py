"""Methods for problems with f and g, and problems that one refuses; others: `test_projected`.

A method that is not named here is found by the tests over `METHODS`.
"""

import re

import pytest

import condgrad as cg

GENERAL = [
    *("hcgm", "cgal", "shcgm", "most-fw", "h-sag-v1", "h-1sfw", "h-spider-fw", "most-fw-plus"),
    *("h-sag-v2", "sag-fw", "sag-cgal", "spdhg"),
]
OTHERS = ["pdhg", "rpdhg", "apg", "pfw"]


def refused(problem, method):
    """Whether a method does not suit a problem, which then has to be refused."""
    objection = method.suits(problem)
    if objection is None:
        return False
    with pytest.raises(cg.ProblemError, match=re.escape(objection)):
        cg.start(problem, method)
    return True
