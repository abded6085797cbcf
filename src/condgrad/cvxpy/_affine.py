"""The coefficients of affine CVXPY expressions, node by node.

CVXPY's own compilation brings a whole problem to one cone program with a slack for every row. Here
only the expressions at hand are read, so that a semidefinite variable stays one block.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.add_expr import AddExpression
from cvxpy.atoms.affine.binary_operators import DivExpression, MulExpression, multiply
from cvxpy.atoms.affine.diag import diag_mat
from cvxpy.atoms.affine.index import index, special_index
from cvxpy.atoms.affine.promote import Promote
from cvxpy.atoms.affine.sum import Sum
from cvxpy.atoms.affine.transpose import transpose
from cvxpy.atoms.affine.unary_operators import NegExpression
from cvxpy.atoms.affine.upper_tri import upper_tri
from scipy import sparse

from condgrad._types import Array

SELECTIONS = (index, special_index, transpose, cp.reshape, diag_mat, upper_tri, Promote)
"""Atoms whose entries are entries of their argument."""


class Affine(NamedTuple):
    """vec E = A x + b, columns of a matrix one below the other, x all variables."""

    A: Any
    """Sparse, a row per entry of E."""
    b: Array


class Coefficients:
    """Reads affine expressions of the variables given, which are laid out one after the other."""

    def __init__(self, variables: Sequence[Any]) -> None:
        ends = np.cumsum([v.size for v in variables], dtype=int)
        self.starts = {v.id: int(e) - v.size for v, e in zip(variables, ends, strict=True)}
        self.total = int(ends[-1]) if len(ends) else 0
        self._units: dict[int, Any] = {}

    def __call__(self, expr: Any) -> Affine:
        """A and b of one expression.

        Sums, products with constants and selected entries are done here, because they are many;
        whatever else is affine has its Jacobian asked for.
        """
        if expr.is_constant():
            return Affine(sparse.csr_array((expr.size, self.total)), dense(expr).ravel(order="F"))
        if isinstance(expr, cp.Variable):
            return Affine(self._unit(expr), np.zeros(expr.size))
        args = expr.args
        if isinstance(expr, SELECTIONS):
            inner = self(args[0])
            chosen = np.ravel(expr.numeric([_ids(args[0].shape)]), order="F").astype(int)
            return Affine(inner.A[chosen], inner.b[chosen])
        if isinstance(expr, NegExpression):
            return _map(-1.0, self(args[0]))
        if isinstance(expr, AddExpression) and all(a.shape == expr.shape for a in args):
            parts = [self(a) for a in args]
            return Affine(sum(p.A for p in parts), sum((p.b for p in parts), np.zeros(expr.size)))
        if isinstance(expr, Sum) and expr.size == 1:
            return _map(np.ones((1, args[0].size)), self(args[0]))
        if isinstance(expr, DivExpression) and args[1].size == 1:
            return _map(1.0 / float(args[1].value), self(args[0]))
        if isinstance(expr, multiply) and args[0].shape == args[1].shape:
            factor, inner = args if args[0].is_constant() else args[::-1]
            diagonal = sparse.diags_array(dense(factor).ravel(order="F"))
            return _map(diagonal, self(inner))
        if isinstance(expr, MulExpression) and max(a.ndim for a in args) <= 2:
            return self._product(*args)
        return self._node(expr)

    def _unit(self, variable: Any) -> Any:
        """Rows of the identity."""
        if variable.id not in self._units:
            rows = np.arange(variable.size)
            self._units[variable.id] = sparse.csr_array(
                (np.ones(variable.size), (rows, rows + self.starts[variable.id])),
                shape=(variable.size, self.total),
            )
        return self._units[variable.id]

    def _product(self, left: Any, right: Any) -> Affine:
        """vec(C E) = (I ⊗ C) vec E, vec(E C) = (Cᵀ ⊗ I) vec E."""
        if left.is_constant():
            C = sparse.csr_array(np.atleast_2d(dense(left)))
            columns = right.shape[1] if right.ndim == 2 else 1
            return _map(sparse.kron(sparse.eye_array(columns), C, "csr"), self(right))
        C = dense(right)
        rows = left.shape[0] if left.ndim == 2 else 1
        transposed = sparse.csr_array(np.atleast_2d(C.T))
        return _map(sparse.kron(transposed, sparse.eye_array(rows), "csr"), self(left))

    def _node(self, expr: Any) -> Affine:
        """Any other affine atom, through its own Jacobian (transposed, as CVXPY has it)."""
        parts = [self(a) for a in expr.args]
        values = [p.b.reshape(a.shape, order="F") for p, a in zip(parts, expr.args, strict=True)]
        A = sparse.csr_array((expr.size, self.total))
        for arg, part, slope in zip(expr.args, parts, expr._grad(values), strict=True):
            if not arg.is_constant():
                J = slope if sparse.issparse(slope) else np.reshape(slope, (arg.size, expr.size))
                A = A + sparse.csr_array(J).T @ part.A
        return Affine(sparse.csr_array(A), np.ravel(expr.numeric(values), order="F"))


def dense(expr: Any) -> Array:
    """The value of a constant expression as an array."""
    value = expr.value
    return np.asarray(value.toarray() if sparse.issparse(value) else value, dtype=np.float64)


@lru_cache(maxsize=8)
def _ids(shape: tuple[int, ...]) -> Array:
    """The entries of an array, numbered as `vec` takes them."""
    return np.arange(int(np.prod(shape))).reshape(shape, order="F")


def _map(factor: Any, inner: Affine) -> Affine:
    """The image under a matrix, or a multiple."""
    if isinstance(factor, float):
        return Affine(factor * inner.A, factor * inner.b)
    return Affine(sparse.csr_array(factor @ inner.A), np.asarray(factor @ inner.b))
