"""Errors, problems, applications, answers and estimators can be copied and sent to processes."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import re

import numpy as np
import pytest
import scipy.sparse as sp

import condgrad as cg
from condgrad import applications
from condgrad.errors import MemoryLimit
from condgrad.io import read_graph
from condgrad.record import Record
from condgrad.sdp import SDP
from condgrad.sklearn import MatrixCompletion, SDPKMeans, certify

RNG = np.random.default_rng(17)
X = RNG.standard_normal((12, 2))
COPIES = {
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "deep": copy.deepcopy,
    "flat": copy.copy,
}


def ring(n=9):
    A = np.roll(np.eye(n), 1, axis=0)
    return A + A.T


def completion():
    i, j = np.divmod(np.arange(0, 48, 2), 8)
    rated = (i, j, RNG.random(24))
    return applications.matrix_completion(*rated, shape=(6, 8), radius=3.0, test=rated)


def program():
    C = RNG.standard_normal((4, 4))
    rows = sp.csr_array(np.eye(16)[::5])
    return SDP(C + C.T).subject_to_rows(rows, "==", 1.0)


def run_of(application):
    run = cg.start(application.problem, cg.spdhg())
    return run.advance(iterations=2)


def whole():
    ratings = np.where(RNG.random((9, 7)) < 0.6, RNG.random((9, 7)), np.nan)
    squares = np.square(X[:, :1] - X[:, 0])
    return {
        "cut": lambda: applications.sparsest_cut(ring()),
        "cut's answer": lambda: cg.sparsest_cut(ring(), presolve=False),
        "blocks' answer": lambda: cg.sparsest_cut(ring()),
        "max-cut": lambda: applications.max_cut(ring()),
        "max-cut's answer": lambda: cg.max_cut(ring()),
        "k-means": lambda: applications.kmeans(squares, 2),
        "outcome": lambda: applications.kmeans(squares, 2).run(max_iter=3),
        "run": lambda: run_of(applications.kmeans(squares, 2)),
        "completion": completion,
        "completion's outcome": lambda: completion().run(max_iter=3),
        "record": lambda: Record.of(completion().run(max_iter=3)),
        "program": program,
        "solution": lambda: program().solve(max_iter=50),
        "clusters": lambda: SDPKMeans(2, max_iter=9).fit(X),
        "certificate": lambda: certify(X, np.arange(12) % 2, max_iter=9),
        "completed": lambda: MatrixCompletion(max_iter=5).fit(ratings),
    }


WHOLE = whole()


def words(thing):
    return re.sub("0x[0-9a-f]+", "", repr(thing))


@pytest.mark.parametrize("name", WHOLE)
def test_all_can_be_copied(name):
    thing = WHOLE[name]()
    for way in COPIES.values():
        assert words(way(thing)) == words(thing)


def test_a_copied_application_makes_the_same_run():
    application = applications.sparsest_cut(ring())
    first = application.run(max_iter=20)
    again = COPIES["pickle"](application).run(max_iter=20)
    np.testing.assert_array_equal(first.result.W, again.result.W)


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize(
    "error",
    [
        cg.InputError("./a folder/g.edges", "expected\n'u v w'", line=3),
        cg.InputError("g", "empty"),
        cg.ProblemError("gap is 0: it must be positive"),
        MemoryLimit("needs 3 GiB", "take less"),
    ],
)
def test_errors(error, way):
    error.add_note("a note")
    found = COPIES[way](error)
    assert type(found) is type(error)
    assert str(found) == str(error)
    assert found.__dict__ == error.__dict__


def test_a_pool_gives_back_the_error():
    with (
        multiprocessing.get_context("fork").Pool(1) as pool,
        pytest.raises(cg.InputError, match="no-such"),
    ):
        pool.map_async(read_graph, ["no-such/file"]).get(timeout=60)
