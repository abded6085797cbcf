"""Data that a map cannot have is refused by the name of the argument."""

import numpy as np
import pytest
import scipy.sparse as sp

from condgrad import domains
from condgrad.errors import ProblemError
from condgrad.maps import (
    AllEntries,
    DataMatrix,
    Diagonal,
    Entries,
    Inner,
    Left,
    LowRankStack,
    Perimeters,
    Restricted,
    Right,
    RowSums,
    Sandwich,
    Scaled,
    SparseStack,
    Stack,
    Trace,
    Triangles,
)

X = np.arange(18.0).reshape(6, 3)
PRODUCT = domains.Product([domains.Simplex(3), domains.Spectrahedron(4), domains.Simplex(3)])
EYE, SKEW, NAN = np.eye(3), np.triu(np.ones((3, 3))), np.full((3, 3), np.nan)
INF = np.diag([1.0, np.inf, 1.0])
REFUSED = [
    *(("shape", make, bad) for make in (AllEntries, RowSums, lambda s: Entries([0], [0], s))
      for bad in (0, -1, 2.5, True, None, "ab", (2, 3, 4), (2, 0), (2, 1.5), (0,), ("a",))),
    ("shape", RowSums, (2,)),
    *(("n", make, bad) for make in (Diagonal, Trace, Triangles)
      for bad in (0, -3, 2.0, True, "3", None, (3, 3))),
    ("n", Triangles, 2),
    ("n", Perimeters, 2),
    *(("rows", lambda ij: Entries(*ij, (3, 3)), bad) for bad in
      (([], []), ([0, 1], [0]), ([[0]], [[0]]), ([0.0], [1]), ([3], [0]), ([-1], [0]), ([0], [3]),
       ([0, 0], [1, 1]), (["a"], [0]), (np.array([], int), np.array([], int)), ([1j], [0]))),
    *(("pattern", Entries.of, bad) for bad in (EYE, [[1, 2]], None)),
    *(("C", Inner, bad) for bad in (NAN, INF, EYE * 1j, sp.csr_array(NAN), np.empty((0, 3)), 3.0,
      sp.csr_array(1j * EYE), ["a", "b"], sp.csr_array((0, 3)), [[1, 2], [3]], None)),
    *(("C", lambda C: Inner(C).require_symmetric(), bad) for bad in
      (SKEW, SKEW.tolist(), sp.csr_array(SKEW), np.ones((2, 3)), np.ones(3), [1.0])),
    *(("matrices", SparseStack, bad) for bad in
      ([], [NAN], [sp.csr_array(NAN)], [INF],
       [sp.csr_array(INF)], [EYE, np.eye(2)], [EYE * 1j],
       [sp.csr_array(EYE * 1j)], [np.ones(3)], [["a"]], 5, [[[1, 2], [3]]])),
    *(("matrices", lambda M: SparseStack(M).require_symmetric(), bad) for bad in
      ([SKEW], [EYE, SKEW], [sp.csr_array(SKEW)], [np.ones((2, 3))], [sp.csr_array((2, 3))])),
    *(("matrices", lambda M: SparseStack(M, n=3).require_symmetric(), sp.csr_array(bad)) for bad in
      (np.ones((2, 8)), SKEW.reshape(1, 9), NAN.reshape(1, 9), INF.reshape(1, 9),
       np.empty((0, 9)))),
    ("n", SparseStack, sp.csr_array(EYE.reshape(1, 9))),
    ("n", lambda M: SparseStack(M, n=1.5), sp.csr_array(EYE.reshape(1, 9))),
    *(("factors", lambda U: LowRankStack(U, [1, 2]), bad) for bad in
      (NAN, INF, EYE * 1j, [1.0, 2], None)),
    *(("counts", lambda c: LowRankStack(EYE, c), bad) for bad in
      ([], [1, 1], [1, 3], [0, 3], [-1, 4], 3, [1.0, 2.0], [[3]], ["a"], None)),
    *(("values", lambda s: LowRankStack(EYE, [1, 2], s), bad) for bad in
      ([1.0, 2.0], [1, np.nan, 0], 1.0, ["a", "b", "c"])),
    *(("X", DataMatrix, bad) for bad in (NAN, INF, sp.csr_array(NAN), EYE * 1j, np.ones(3), 1.0,
      sp.csr_array(EYE * 1j), np.empty((0, 3)), sp.csr_array((3, 0)), [["a"]], [[1, 2], [3]])),
    *(("X", lambda X: DataMatrix(X).require_symmetric(), bad) for bad in
      ([SKEW], np.ones((2, 2, 3)), np.empty((2, 0, 3)), np.full((1, 2, 2), np.nan))),
    ("X", lambda X: DataMatrix(X, shape=3).require_symmetric(), sp.csr_array(SKEW.reshape(1, 9))),
    *(("shape", lambda s: DataMatrix(np.ones((2, 6)), shape=s), bad) for bad in
      ((2, 2), 2, (6,), "ab", (2, 0), (1, 2, 3), (2.0, 3))),
    *((name, make, bad) for name, make in
      (("A", lambda A: Left(A, 2)), ("B", lambda B: Right(B, 2)), ("A", lambda A: Sandwich(A, EYE)),
       ("B", lambda B: Sandwich(EYE, B))) for bad in
      (NAN, INF, sp.csr_array(NAN), EYE * 1j, np.ones(3), 1.0, np.empty((0, 3)), [["a"]],
       [[1, 2], [3]], None, sp.csr_array((3, 0)), np.ones((1, 2, 3)))),
    *(("columns", lambda m: Left(EYE, m), bad) for bad in (0, -1, 2.0, True, None, (2, 3))),
    *(("rows", lambda n: Right(EYE, n), bad) for bad in (0, 1.5, "a", None)),
    *(("maps", Stack, bad) for bad in ([], [Trace(3), Trace(4)], [Trace(3), 5], Trace(3))),
    *(("factor", lambda c: Scaled(Diagonal(3), c), bad) for bad in
      (np.nan, [1, 2], [1, np.inf, 1], "x", 1j, np.ones((3, 1)), None)),
    ("map", lambda m: Scaled(m, 1.0), EYE),
    *(("block", lambda b: Restricted(DataMatrix(X), PRODUCT, b), bad)
      for bad in (-1, 3, 1, 0.0, "a")),
    ("map", lambda m: Restricted(m, PRODUCT, 0), EYE),
    ("C", lambda C: Restricted(Stack([Scaled(Inner(C), 2.0)]), PRODUCT, 1),
     sp.csr_array(np.triu(np.ones((4, 4))))),
    ("product", lambda p: Restricted(Trace(3), p, 0), domains.Spectrahedron(3)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "make", "bad"), REFUSED)
def test_bad_data_is_refused_by_name(name, make, bad):
    with pytest.raises(ProblemError, match=rf"\b{name}\b"):
        make(bad)
