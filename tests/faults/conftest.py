"""One seed and one size for every test of faults; see the README beside."""

import os

import numpy as np
import pytest

SEED = 17
"""The seed that all fuzzing, moments and choices start from."""


def scale() -> float:
    """How much to try, as a share of the whole: `CONDGRAD_FAULTS`, 1 where it is not set."""
    return float(os.environ.get("CONDGRAD_FAULTS") or 1.0)


@pytest.fixture
def many():
    """`many(5000)` cases of the whole suite, fewer or more by `CONDGRAD_FAULTS`, at least one."""
    return lambda cases: max(1, round(cases * scale()))


@pytest.fixture
def seed():
    """The seed, for a process of its own."""
    return SEED


@pytest.fixture
def rng(request):
    """A generator that depends on the test's name and the seed alone."""
    name = request.node.name.encode()
    return np.random.default_rng([SEED, *name])
