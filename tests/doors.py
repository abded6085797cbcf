"""Every public door that takes an array, with a plain one that it takes: (door, array)."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

import condgrad as cg
from condgrad import Problem, Term, applications, domains, functions, maps, quadratic
from condgrad.io import Sdpa
from condgrad.io.sdpa import _checked
from condgrad.record import Record
from condgrad.sdp import SDP

RNG = np.random.default_rng(17)
N = 6
SIDE = np.round(RNG.random((N, N)), 2)
GRAPH = np.triu(SIDE, 1) + np.triu(SIDE, 1).T
POINTS = np.round(RNG.standard_normal((N, 2)), 2)
SQUARES = np.square(POINTS[:, None] - POINTS).sum(axis=2)
COST = np.round(RNG.standard_normal((N, N)), 2)
COST = COST + COST.T
ROWS = np.round(RNG.standard_normal((4, N)), 2)
VECTOR = np.round(RNG.random(4) + 0.1, 2)
WIDE = np.round(RNG.random(N) + 0.1, 2)
SIGNS = np.array([1.0, -1.0, 1.0, 1.0])
INDEX = np.array([0.0, 1.0, 2.0, 3.0])
FIT = Term(maps.DataMatrix(ROWS), functions.Squared(VECTOR), 1.0, "fit")
PLAIN = Problem(domains.Simplex(N), [FIT])
ONES = np.ones((4, 4))
FEW = {"max_iter": 15}


def image(map, shape=(N, N)):
    """What a map reads and writes, as numbers, in a problem over points of a shape."""
    domain = domains.Spectrahedron(shape[0]) if len(shape) == 2 else domains.L2Ball(shape)
    problem = Problem(domain, [Term(map, functions.Linear(), 1.0, "term")])
    W = np.cos(np.arange(np.prod(shape))).reshape(shape)
    W = W + W.T
    return [map.rows(W), problem.terms[0].gradient(W, 1.0)]


def function(make):
    """Values and slopes of a function on four rows, in a problem."""

    def door(given):
        terms = [Term(maps.DataMatrix(ROWS), make(given), 1.0, "term")]
        problem, W = Problem(domains.Simplex(N), terms), np.full(N, 1 / N)
        return [problem.smoothed(W, 0.5), problem.terms[0].gradient(W, 0.5)]

    return door


def on_rows(make):
    """A run over the simplex with a function of the rows, as a constraint or as a loss."""

    def door(given):
        terms = [Term(maps.DataMatrix(ROWS), make(given), 1.0, "term")]
        found = cg.solve(Problem(domains.Simplex(N), terms), cg.spdhg(), max_iter=5)
        return [found.W]

    return door


def solved(problem, **options):
    found = cg.solve(problem, cg.spdhg(), **{**FEW, **options})
    return [found.W, found.objective]


def over(domain, shape):
    Problem(domain, [Term(maps.AllEntries(shape), functions.Linear(), 1.0, "term")])
    c = np.cos(np.arange(float(np.prod(shape)))).reshape(shape)
    return [np.asarray(domain.minimum(c).value), np.asarray(domain.center())]


def integers(given):
    """Whole numbers where they are, so that positions can be what they must be."""
    if isinstance(given, np.ndarray) and given.dtype.kind == "f" and given.size:
        with np.errstate(all="ignore"):
            return given.astype(given.dtype if np.isnan(given).any() else np.int64)
    return given


def sdp(C=None, A=None, b=1.0):
    made = SDP(COST if C is None else C)
    unit = np.eye(made.blocks[0]) if made.blocks[0] > 0 else np.ones(-made.blocks[0])
    return made.subject_to(unit if A is None else A, "==", b)


def flat(program):
    return [program.cost, program.A.toarray(), program.b]


def sdpa(**changes):
    good = {"c": VECTOR[:2], "blocks": (3,), "matrix": np.array([0, 1]), "block": np.zeros(2, int)}
    more = {"row": np.array([0, 1]), "col": np.array([1, 1]), "value": VECTOR[:2], "comment": ""}
    c, _, table = _checked(Sdpa(**{**good, **more, **changes}))
    return [c, table]


def cost(application):
    return [application.problem.terms[0].map.rows(np.eye(N) + 1)]


QUICK = {
    "DataMatrix": (lambda X: image(maps.DataMatrix(X), (N,)), ROWS),
    "Inner": (lambda C: image(maps.Inner(C)), COST),
    "SparseStack": (lambda A: image(maps.SparseStack([A])), COST),
    "SparseStack of rows": (lambda A: image(maps.SparseStack(A, n=2), (2, 2)), ONES),
    "Left": (lambda A: image(maps.Left(A, N)), ROWS),
    "Right": (lambda B: image(maps.Right(B, 4), (4, 4)), ROWS),
    "Sandwich": (lambda A: image(maps.Sandwich(A, COST)), ROWS),
    "LowRankStack": (lambda U: image(maps.LowRankStack(U, [1, 1])), POINTS),
    "LowRankStack's values": (lambda s: image(maps.LowRankStack(POINTS, [1, 1], s)), VECTOR[:2]),
    "LowRankStack's counts": (lambda c: image(maps.LowRankStack(POINTS, integers(c))), SIGNS[2:]),
    "Entries' rows": (lambda i: image(maps.Entries(integers(i), [0, 1, 2, 3], N)), INDEX),
    "Entries' columns": (lambda j: image(maps.Entries([0, 1, 2, 3], integers(j), N)), INDEX),
    "Scaled": (lambda f: image(maps.Scaled(maps.DataMatrix(ROWS), f), (N,)), VECTOR),
    "Linear": (function(functions.Linear), VECTOR),
    "Squared": (function(functions.Squared), VECTOR),
    "Logistic": (function(functions.Logistic), SIGNS),
    "Huber": (function(functions.Huber), VECTOR),
    "Absolute": (function(functions.Absolute), VECTOR),
    "Hinge": (function(functions.Hinge), SIGNS),
    "Interval's lower": (function(lambda b: functions.Interval(b, 3.0)), VECTOR),
    "Interval's upper": (function(lambda b: functions.Interval(-3.0, b)), VECTOR),
    "Equal": (function(functions.Equal), VECTOR),
    "AtMost": (function(functions.AtMost), VECTOR),
    "AtLeast": (function(functions.AtLeast), VECTOR),
    "L2Ball's center": (function(lambda c: functions.L2Ball(1.0, c)), VECTOR),
    "L2Norm's center": (function(lambda c: functions.L2Norm(1.0, c)), VECTOR),
    "Box's lower": (lambda b: over(domains.Box(b, 3.0), (N,)), WIDE),
    "Box's upper": (lambda b: over(domains.Box(-3.0, b), (N,)), WIDE),
    "PinnedSpectrahedron": (lambda v: over(domains.PinnedSpectrahedron(v, 3.0), (N, N)), WIDE),
    "SDP's cost": (lambda C: flat(sdp(C)), COST),
    "SDP's row": (lambda A: flat(sdp(A=A)), COST),
    "SDP's right-hand side": (lambda b: flat(sdp(b=b)), VECTOR[:1]),
    "SDP's rows": (lambda A: flat(SDP(COST[:2, :2]).subject_to_rows(A, "==", 1.0)), ONES),
    "SDP's block": (lambda v: flat(SDP([COST, v])), WIDE),
    "Sdpa's costs": (lambda c: sdpa(c=c), VECTOR[:2]),
    "Sdpa's values": (lambda v: sdpa(value=v), VECTOR[:2]),
    "Sdpa's matrices": (lambda m: sdpa(matrix=integers(m)), INDEX[:2]),
    "objective": (lambda W: [np.nan_to_num(PLAIN.objective(W))], WIDE / WIDE.sum()),
    "graph": (lambda A: cost(applications.sparsest_cut(A)), GRAPH),
    "signed graph": (lambda A: cost(applications.max_cut(A)), GRAPH),
    "distances": (lambda C: cost(applications.kmeans(C, 2)), SQUARES),
    "qubo_graph": (lambda Q: [quadratic.qubo_graph(Q).adjacency.toarray()], COST),
    "qubo_value's Q": (lambda Q: [quadratic.qubo_value(Q, np.ones(N))], COST),
    "qubo_value's x": (lambda x: [quadratic.qubo_value(COST[:4, :4], x)], INDEX),
    "cut_of": (lambda x: [quadratic.cut_of(x)], INDEX),
    "variables_of": (lambda side: [quadratic.variables_of(side)], INDEX),
    "weights of vertices": (
        lambda w: [applications.sparsest_cut(GRAPH, vertex_weights=w).start],
        WIDE,
    ),
    "recorded graph": (lambda A: [Record.of(RUN.cut, adjacency=A).arrays.get("edges", 0)], GRAPH),
    "recorded points": (lambda X: [Record.of(RUN.cut, points=X).arrays.get("points", 0)], POINTS),
}
"""Doors that make things and solve nothing."""
RUN = SimpleNamespace(cut=None)


def completion(values=VECTOR, rows=INDEX, **more):
    where = integers(rows), np.arange(4)
    made = applications.matrix_completion(*where, values, shape=(N, N), radius=9.0, **more)
    return [made.run(**FEW).result.W]


def cut(graph, **options):
    found = cg.sparsest_cut(graph, max_seconds=None, **options)
    return [found.value, found.bound]


def largest(graph):
    found = cg.max_cut(graph, max_seconds=None, gap=0.05)
    return [found.value, found.bound]


def clusters(X):
    from condgrad.sklearn import SDPKMeans

    found = SDPKMeans(2, max_iter=30).fit(X)
    return [found.inertia_, found.lower_bound_]


def proof(X=POINTS, labels=None):
    from condgrad.sklearn import certify

    found = certify(X, np.arange(N) % 2 if labels is None else labels, max_iter=30)
    return [found.inertia, found.lower_bound]


def predicted(X):
    from condgrad.sklearn import SDPKMeans

    model = SDPKMeans(2, max_iter=30).fit(POINTS)
    return [model.predict(X), model.transform(X)]


def completed(X):
    from condgrad.sklearn import MatrixCompletion

    return [MatrixCompletion(max_iter=20, radius=1.0, layout="matrix").fit(X).completed_]


def rated(y):
    from condgrad.sklearn import MatrixCompletion

    pairs = [["ann", 1], ["ann", 2], ["bob", 1], ["bob", 3]]
    model = MatrixCompletion(max_iter=20, radius=1.0, layout="pairs").fit(pairs, y)
    return [model.predict(["ann"], [3])]


def triples(X):
    from condgrad.sklearn import MatrixCompletion

    return [MatrixCompletion(max_iter=20, radius=1.0, layout="triples").fit(X).completed_]


def guessed(X):
    from condgrad.sklearn import MatrixCompletion

    return [MatrixCompletion(max_iter=20, radius=1.0).fit(X).completed_]


SLOW = {
    "solve, data": (on_rows(functions.Squared), VECTOR),
    "solve, bounds": (on_rows(functions.AtMost), VECTOR + 3),
    "solve, start": (lambda W: solved(PLAIN, start=W), WIDE / WIDE.sum()),
    "sparsest_cut": (cut, GRAPH),
    "sparsest_cut, whole": (lambda A: cut(A, presolve=False), GRAPH),
    "sparsest_cut, vertex_weight": (lambda w: cut(GRAPH, vertex_weight=w), WIDE),
    "max_cut": (largest, GRAPH),
    "qubo": (lambda Q: [(found := cg.qubo(Q, gap=0.05)).value, found.bound], COST),
    "kmeans": (lambda C: [applications.kmeans(C, 2).run(**FEW).result.W], SQUARES),
    "completion, values": (completion, VECTOR),
    "completion, rows": (lambda i: completion(rows=i), INDEX),
    "completion, l1": (lambda v: completion(v, l1=0.1), VECTOR),
    "SDP, rows": (lambda A: [sdp(A=A, b=0.5).solve(trace_bound=9.0, max_iter=50).value], COST),
    "SDP, right-hand side": (lambda b: [sdp(b=b).solve(max_iter=50).value], VECTOR[:1]),
    "SDP": (lambda C: [sdp(C).solve(max_iter=50).value], COST),
    "SDPKMeans": (clusters, POINTS),
    "SDPKMeans.predict": (predicted, POINTS),
    "certify": (proof, POINTS),
    "certify, labels": (lambda y: proof(labels=y), np.array([0.0, 1.0, 0.0, 1.0, 0.0, 1.0])),
    "MatrixCompletion": (completed, SIDE + 1),
    "MatrixCompletion, guessed": (guessed, SIDE + 1),
    "MatrixCompletion, y": (rated, VECTOR),
    "MatrixCompletion, triples": (triples, np.column_stack([INDEX, INDEX % 2, VECTOR])),
}
"""Doors that solve something."""
DOORS = {**QUICK, **SLOW}

NAMES = frozenset(
    {
        *("complex", "object with huge integers", "text that is none", "datetime64"),
        *("timedelta64", "records", "void", "DataFrame of dates", "uint64 max"),
    }
)
MAY = {
    "certify, labels": NAMES,  # whatever can be told apart
    "MatrixCompletion": frozenset({"masked"}),  # as missing
    "MatrixCompletion, guessed": frozenset({"masked"}),
    "MatrixCompletion, triples": frozenset({"object with huge integers", "uint64 max"}),  # as ids
}
"""Kinds that a door may answer though others must not."""
