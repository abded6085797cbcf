"""Bad input is refused at the door by a ProblemError that names the argument and a remedy."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import condgrad
from condgrad import (
    METHODS,
    Problem,
    ProblemError,
    Term,
    domains,
    functions,
    maps,
    quadratic,
    sklearn,
    solve,
)
from condgrad.io import write_sdpa
from condgrad.methods import SAG, Augmented, Full
from condgrad.sdp import SDP

X, B = np.arange(12.0).reshape(4, 3), np.ones(4)
ASYMMETRIC = np.array([[0.0, 1.0], [0.0, 0.0]])
NAN = np.array([[1.0, np.nan], [0.0, 1.0]])


def on_psd(map):
    return Problem(domains.Spectrahedron(2), [Term(map, functions.Linear())])


def sdp(C):
    return on_psd(maps.Inner(C))


def term(name="fit", function=None, **options):
    return Term(maps.DataMatrix(X), function or functions.Squared(B), name=name, **options)


def cut(name="cut"):
    return term(name, functions.AtMost(B))


def problem(*terms, **options):
    return Problem(domains.Simplex(3), list(terms) or [term(), cut()], **options)


def run(method=None, p=None, **options):
    return solve(
        p or problem(),
        condgrad.hcgm(1.0) if method is None else method,
        **{"max_iter": 2, **options},
    )


@pytest.mark.parametrize("data", [SDP(np.eye(2)), X])
def test_write_sdpa_wants_sdpa(tmp_path, data):
    what = "SDP: pass sdp.to_sdpa()" if data is not X else "ndarray: pass an Sdpa"
    with pytest.raises(ProblemError) as error:
        write_sdpa(tmp_path / "a.dat-s", data)
    assert str(error.value) == f"data is a {what}"


def test_the_good_case_runs():
    assert run().iterations == 2
    assert issubclass(ProblemError, ValueError)


SHAPES = [
    (lambda: Problem(domains.Simplex(4), [term()]), "term 'fit' reads W of shape (3,)", "agree"),
    (lambda: Problem(domains.Spectrahedron(3), [term()]), "domain have shape (3, 3)", "agree"),
    (lambda: term(function=functions.Squared(np.ones(5))), "data for 5 rows", "one entry per row"),
    (lambda: functions.Squared(np.ones((2, 2))), "target has shape", "one entry per row"),
    (lambda: functions.Interval(np.zeros(2), np.ones(3)), "different lengths", "per row"),
    (lambda: run(start=np.ones(4) / 4), "start has shape (4,)", "reshape"),
    (lambda: run(start=np.ones((1, 3)) / 3), "start has shape (1, 3)", "reshape"),
    (lambda: maps.DataMatrix(np.ones(3)), "X has shape (3,)", "non-empty matrix"),
    (lambda: maps.DataMatrix(np.ones((0, 3))), "X has shape (0, 3)", "non-empty"),
    (lambda: maps.SparseStack([np.eye(2), np.eye(3)]), "matrices[1] has shape (3, 3)", "agree"),
    (lambda: maps.SparseStack([]), "matrices is empty", "at least one"),
    (lambda: maps.Stack([]), "maps is empty", "at least one"),
    (lambda: maps.Stack([maps.Trace(2), maps.Trace(3)]), "different shapes", "agree"),
    (lambda: maps.Entries([0, 0], [1, 1], (2, 2)), "name an entry twice", "merge"),
    (lambda: maps.Entries([0], [2], (2, 2)), "rows or cols leave the matrix", "counted from 0"),
    (lambda: maps.Entries([], [], (2, 2)), "rows is empty", "at least one"),
]
NUMBERS = [
    (lambda: maps.DataMatrix(NAN), "X contains NaN or infinity", "replace"),
    (lambda: maps.DataMatrix(sp.csr_array(NAN)), "X contains NaN or infinity", "replace"),
    (lambda: maps.DataMatrix(X * 1j), "X has dtype complex128", "real numbers"),
    (lambda: maps.Inner(NAN), "C contains NaN or infinity", "replace"),
    (lambda: maps.Inner([[np.inf]]), "C contains NaN or infinity", "replace"),
    (lambda: maps.SparseStack([NAN]), "matrices[0] contains NaN", "replace"),
    (lambda: functions.Squared([1.0, np.nan]), "target contains NaN or infinity", "replace"),
    (lambda: functions.Equal(np.inf), "value contains NaN or infinity", "replace"),
    (lambda: functions.Interval(np.nan, 1.0), "lower contains NaN", "replace"),
    (lambda: functions.Interval(2.0, 1.0), "lower exceeds upper", "swap"),
    (lambda: functions.Logistic([0, 1]), "labels must be -1 or 1", "recode"),
    (lambda: functions.L1(-1.0), "scale is -1.0", "must be a positive number"),
    (lambda: functions.L2Ball(0.0), "radius is 0.0", "must be a positive number"),
    (lambda: functions.Squared("b"), "target is not numeric", "pass a number"),
    (lambda: domains.Spectrahedron(2, trace=-1), "trace is -1", "must be a positive"),
    (lambda: domains.NuclearBall((2, 2), -1), "radius is -1", "must be a positive"),
    (lambda: sdp(ASYMMETRIC), "C is not symmetric", "(C + C.T)/2"),
    (lambda: sdp(sp.csr_array(ASYMMETRIC)), "C is not symmetric", "(C + C.T)/2"),
    (
        lambda: on_psd(maps.SparseStack([np.eye(2), ASYMMETRIC])),
        "matrices[1] is not",
        "(A + A.T)/2",
    ),
    (
        lambda: on_psd(maps.SparseStack(sp.csr_array(ASYMMETRIC.reshape(1, 4)), n=2)),
        "matrices[0] is not symmetric",
        "(A + A.T)/2",
    ),
]
PROBLEMS = [
    (lambda: Problem(domains.Simplex(3), []), "terms is empty", "at least one Term"),
    (lambda: Problem(domains.Simplex(3), [3]), "terms[0] is a int", "must be a Term"),
    (lambda: Problem(domains.Simplex(3), 3), "terms[0] is a int", "must be a Term"),
    (lambda: Problem("simplex", [term()]), "domain is a str", "condgrad.domains"),
    (lambda: problem(term("a"), cut("a")), "two terms are named 'a'", "its own name"),
    (lambda: problem(dtype=int), "dtype is int64", "float64 or float32"),
    (lambda: problem(dtype="nonsense"), "dtype is 'nonsense'", "float64 or float32"),
    (lambda: problem(dtype=complex), "dtype is complex128", "float64 or float32"),
    (lambda: problem(infeasibility_weights={"x": 1.0}), "infeasibility_weights names", "['cut']"),
    (lambda: problem(infeasibility_weights={"fit": 1.0}), "infeasibility_weights", "['cut']"),
    (lambda: problem(infeasibility_weights={"cut": -1}), "weights['cut'] is -1", "at least 0"),
    (lambda: Term(X, functions.Squared(B)), "map is a ndarray", "condgrad.maps"),
    (lambda: Term(maps.DataMatrix(X), "squared"), "function is a str", "condgrad.functions"),
    (lambda: term(3), "name is 3", "string"),
    *(
        (lambda w=w: term(weight=w), f"weight is {w!r}", "must be")
        for w in (0, -1.0, np.nan, np.inf, "2", None, True)
    ),
]
METHOD = [
    (lambda: run("hcgm"), "method is 'hcgm'", "condgrad.hcgm()"),
    (lambda: condgrad.sag_fw(beta0=1.0), "sag-fw takes other options", "batch"),
    (lambda: condgrad.h_sag_v2(bacth=1), "h-sag-v2 takes other options", "batch"),
    (lambda: condgrad.hcgm().override(["rows"]), "estimators is a list", "pass a dict"),
    (lambda: run("H_SAG-v2"), "method is 'H_SAG-v2'", "condgrad.h_sag_v2()"),
    (lambda: run("nonsense"), "method is 'nonsense'", "pass a condgrad.Method"),
    (lambda: run(condgrad.hcgm), "method is 'hcgm'", "condgrad.hcgm()"),
    (lambda: run(3), "method is a int", "pass a condgrad.Method"),
    (lambda: run(X), "method is a ndarray", "pass a condgrad.Method"),
    (lambda: run(p=[term()]), "problem is a list", "pass a condgrad.Problem"),
    (lambda: run(condgrad.sag_fw()), "term 'cut' is composite", "h_sag_v1 or h_sag_v2"),
    (lambda: run(condgrad.hcgm(1.0).override({"x": Full()})), "estimators names ['x']", "'cut'"),
    (lambda: condgrad.hcgm(1.0).override({"cut": "full"}), "estimators['cut'] is 'full'", "Full()"),
    (lambda: condgrad.hcgm(1.0).override({"cut": Full}), "estimators['cut'] is", "Full()"),
    (lambda: run(condgrad.hcgm(1.0).override({"fit": Augmented(1.0)})), "'fit'", "use Full()"),
    (lambda: condgrad.cgal(1.0, bound=np.nan), "bound is nan", "at least 0"),
    (lambda: condgrad.cgal(1.0, bound=-1.0), "bound is -1.0", "at least 0"),
    *(
        (lambda bad=bad: condgrad.hcgm(1.0).with_effort(bad), f"effort is {bad!r}", "positive")
        for bad in (0, -1.0, np.nan, np.inf, "2", True)
    ),
    (lambda: SAG(table_dtype=int), "table_dtype is int64", "float64 or float32"),
    (lambda: condgrad.h_sag_v2(1.0, table_dtype=np.int32), "table_dtype is int32", "float64"),
]
OPTIONS = [
    (lambda: run(start=np.array([1, 0, 0])), "start has dtype int64", "astype(float)"),
    (lambda: run(start=np.array([1.0, 1.0, 1.0])), "start lies outside the Simplex", "project"),
    (lambda: run(start=np.array([1.0, np.nan, 0.0])), "start contains NaN", "replace"),
    (lambda: run(start="center"), "start has dtype", "astype(float)"),
    *(
        (lambda name=name, bad=bad: run(**{name: bad}), f"{name} is {bad!r}", "at least 0")
        for name in ("max_iter", "max_epochs", "max_seconds", "max_lmo")
        for bad in (-1, np.nan, "10", True, [3], 1j)
    ),
    *(
        (lambda bad=bad: run(record=bad), f"record is {bad!r}", "integer of at least 1")
        for bad in (0, -3, 2.5, "10", True)
    ),
    *(
        (lambda bad=bad: run(seed=bad), f"seed is {bad!r}", "non-negative integer")
        for bad in (-1, 1.5, "seed")
    ),
    (lambda: run(callbacks=lambda info: None), "callbacks must be a sequence", "[callback]"),
    (lambda: run(callbacks=[3]), "callbacks must be a sequence", "[callback]"),
    (lambda: run(callbacks=3), "callbacks must be a sequence", "[callback]"),
    (lambda: run(metrics={"m": 3}), "metrics['m'] is not callable", "function of W"),
    (lambda: run(metrics={"objective": np.sum}), "metrics names ['objective']", "rename"),
]


@pytest.mark.parametrize(
    ("call", "what", "remedy"), [*SHAPES, *NUMBERS, *PROBLEMS, *METHOD, *OPTIONS]
)
def test_refused(call, what, remedy):
    with pytest.raises(ProblemError) as caught:
        call()
    message = str(caught.value)
    assert what in message
    assert remedy in message
    assert "\n" not in message


SMOOTHED = [s for s in METHODS if METHODS[s].smoothed]


@pytest.mark.parametrize("slug", SMOOTHED)
@pytest.mark.parametrize("bad", [0, -1.0, np.nan, np.inf, "1.0", "x", None, True, [1.0, 2.0]])
def test_bad_beta0(slug, bad):
    with pytest.raises(ProblemError, match=r"^beta0 is .*: it must be"):
        METHODS[slug](beta0=bad)


@pytest.mark.parametrize("slug", SMOOTHED)
def test_automatic_beta0(slug):
    if slug == "cgal":
        with pytest.raises(ProblemError, match=r"^beta0 is 'auto': .* sag_cgal\(batch=1\.0\)"):
            METHODS[slug](beta0="auto")
    else:
        assert run(METHODS[slug](beta0="auto")).iterations == 2


BATCHED = [s for s in METHODS if METHODS[s].batched]


@pytest.mark.parametrize("slug", BATCHED)
@pytest.mark.parametrize("bad", [0, -1, 1.5, 0.0, -0.5, np.nan, True, "all", None])
def test_bad_batch(slug, bad):
    with pytest.raises(ProblemError, match=r"^batch is .*: it must be a count"):
        METHODS[slug](batch=bad)


@pytest.mark.parametrize("slug", BATCHED)
def test_batch_larger_than_the_term(slug):
    p = problem(term()) if slug == "sag-fw" else problem()
    name = "cut" if slug in ("sag-cgal", "spdhg") else "fit"  # which takes f in full
    with pytest.raises(ProblemError, match=f"batch is 5, but term '{name}' has only 4 rows: use"):
        run(METHODS[slug](batch=5), p)


BLOCKS = [functions.L2Ball(9.0), functions.SecondOrder(), functions.Simplex(9.0)]


@pytest.mark.parametrize("slug", ["h-1sfw", "h-spider-fw", "most-fw-plus", "h-sag-v2"])
@pytest.mark.parametrize("function", BLOCKS, ids=lambda f: type(f).__name__)
def test_sampling_a_block_is_refused(slug, function):
    p = problem(term(), term("cone", function))
    name = type(function).__name__
    with pytest.raises(ProblemError, match=f"samples the rows of term 'cone', but {name} is not"):
        run(METHODS[slug](), p)
    assert run(METHODS[slug]().override({"cone": Full()}), p).iterations == 2


@pytest.mark.parametrize("slug", ["hcgm", "cgal", "shcgm", "most-fw", "h-sag-v1"])
@pytest.mark.parametrize("function", BLOCKS, ids=lambda f: type(f).__name__)
def test_block_in_full_is_accepted(slug, function):
    assert run(METHODS[slug](), problem(term(), term("cone", function))).iterations == 2


ODD = 2**53 + 1
"""The first integer that float64 does not have."""
EDGE = np.array([[0, ODD], [ODD, 0]])


def network(weight):
    graph = nx.path_graph(3)
    graph.add_edge(0, 1, weight=weight)
    graph.add_edge(1, 2, weight=0.5)
    return graph


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda: condgrad.max_cut(EDGE), "graph"),
        (lambda: condgrad.max_cut(-EDGE), "graph"),
        (lambda: condgrad.max_cut(EDGE.tolist()), "graph"),
        (lambda: condgrad.max_cut(EDGE.astype(np.uint64)), "graph"),
        (lambda: condgrad.max_cut(sp.csr_array(EDGE)), "graph"),
        (lambda: condgrad.max_cut(sp.lil_array(EDGE)), "graph"),
        (lambda: condgrad.max_cut(pd.DataFrame(EDGE)), "graph"),
        (lambda: condgrad.max_cut(network(ODD)), "edge 0 - 1"),
        (lambda: condgrad.sparsest_cut(network(np.int64(ODD))), "edge 0 - 1"),
        (lambda: condgrad.bisection(network(10**400)), "edge 0 - 1"),
        (lambda: condgrad.sparsest_cut(nx.path_graph(2), vertex_weight=[ODD, 1]), "vertex_weight"),
        (
            lambda: condgrad.max_cut(pd.DataFrame({"u": [0], "v": [1], "weight": [ODD]})),
            "edge 0 - 1",
        ),
        (lambda: condgrad.theta(EDGE), "graph"),
        (lambda: condgrad.qubo(EDGE), "Q"),
        (lambda: condgrad.qubo([[1]], offset=ODD), "offset"),
        (lambda: quadratic.qubo_value([[1]], [1], ODD), "offset"),
        (lambda: maps.DataMatrix(EDGE), "X"),
        (lambda: maps.Inner(EDGE), "C"),
        (lambda: functions.Equal(ODD), "value"),
        (lambda: functions.Squared(np.array([ODD, 1.5], object)), "target"),
        (lambda: domains.Box([0, 0], [1, ODD]), "upper"),
        (lambda: SDP(EDGE), "C"),
        (lambda: SDP(np.eye(2)).subject_to(np.eye(2), "==", ODD), "b of row 0"),
        (lambda: sklearn.SDPKMeans(2).fit(EDGE), "X"),
        (lambda: sklearn.SDPKMeans(2).fit(pd.DataFrame(EDGE)), "X"),
        (lambda: sklearn.certify(EDGE, [0, 1]), "X"),
    ],
)
def test_integers_that_would_be_rounded_are_refused(call, what):
    with pytest.raises(ProblemError, match=rf"{what}\b.*integer that float64 would round"):
        call()


@pytest.mark.parametrize("fine", [2**53, 2**60, -(2**63), -(2**53)])
def test_large_integers_that_float64_has_are_not(fine):
    cut = condgrad.max_cut(np.array([[0, fine], [fine, 0]]))
    assert cut.value == cut.bound == max(fine, 0)
    assert condgrad.max_cut(nx.Graph([(0, 1, {"weight": fine})])).value == max(fine, 0)
    ids = pd.DataFrame({"user": [ODD, ODD + 1], "item": [1, 2], "rating": [3, 4]})
    assert sklearn.MatrixCompletion().fit(ids).user_ids_.tolist() == [ODD, ODD + 1]


def test_repeated_entries_are_summed_as_floats():
    """300 ones in 8 bits are 300, not 44."""
    entries = (np.ones(300, np.uint8), (np.zeros(300, int), np.ones(300, int)))
    Q = sp.coo_array(entries, shape=(2, 2))
    assert condgrad.qubo(Q, sense="max").value == 300
