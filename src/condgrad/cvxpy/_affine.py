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
from cvxpy.atoms.affine.affine_atom import AffAtom
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
from condgrad.errors import ProblemError

SELECTIONS = (index, special_index, transpose, cp.reshape, diag_mat, upper_tri, Promote)
"""Atoms whose entries are entries of their argument."""


class NotTaken(ProblemError):
    """A sentence without its end, which `condgrad.cvxpy.solve` adds: who else takes the problem."""


class Affine(NamedTuple):
    """vec E = A x + b, columns of a matrix one below the other, x all variables."""

    A: Any
    """Sparse, a row per entry of E."""
    b: Array
    terms: Array | None = None
    """The sum of the magnitudes of which each b is a sum; |b| itself where there is None."""

    @property
    def size(self) -> Array:
        """At least |b|: what b is beside it may be rounding."""
        return np.abs(self.b) if self.terms is None else self.terms


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
        if expr.is_complex():
            raise _complex(expr)
        if expr.is_constant():
            return Affine(sparse.csr_array((expr.size, self.total)), dense(expr).ravel(order="F"))
        if isinstance(expr, cp.Variable):
            return Affine(self.unit(expr), np.zeros(expr.size))
        args = expr.args
        if isinstance(expr, SELECTIONS):
            inner = self(args[0])
            chosen = np.ravel(expr.numeric([_ids(args[0].shape)]), order="F").astype(int)
            return Affine(inner.A[chosen], inner.b[chosen], inner.size[chosen])
        if isinstance(expr, NegExpression):
            return _map(-1.0, self(args[0]))
        if isinstance(expr, AddExpression) and all(a.shape == expr.shape for a in args):
            parts = [self(a) for a in args]
            b = sum((p.b for p in parts), np.zeros(expr.size))
            size = sum((p.size for p in parts), np.zeros(expr.size))
            return Affine(sum(p.A for p in parts), b, size)
        if isinstance(expr, Sum) and expr.size == 1:
            return _map(np.ones((1, args[0].size)), self(args[0]))
        if isinstance(expr, DivExpression) and args[1].size == 1:
            return _map(1.0 / float(dense(args[1]).reshape(())), self(args[0]))
        if isinstance(expr, multiply) and args[0].shape == args[1].shape:
            factor, inner = args if args[0].is_constant() else args[::-1]
            diagonal = sparse.diags_array(dense(factor).ravel(order="F"))
            return _map(diagonal, self(inner))
        if isinstance(expr, MulExpression) and max(a.ndim for a in args) <= 2:
            return self._product(*args)
        if isinstance(expr, AffAtom):
            return self._node(expr)
        return self._special(expr)

    def unit(self, variable: Any) -> Any:
        """Rows of the identity: one variable made of all."""
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
        """Any other affine atom, through its own Jacobian."""
        parts = [self(a) for a in expr.args]
        values = [p.b.reshape(a.shape, order="F") for p, a in zip(parts, expr.args, strict=True)]
        b = np.ravel(expr.numeric(values), order="F")
        A, size = sparse.csr_array((expr.size, self.total)), np.abs(b)
        for i, (arg, part) in enumerate(zip(expr.args, parts, strict=True)):
            if not arg.is_constant():
                J = _jacobian(expr, values, i)
                A, size = A + J @ part.A, size + abs(J) @ part.size
        return Affine(sparse.csr_array(A), b, size)

    def _special(self, expr: Any) -> Affine:
        """Atoms that are affine for some arguments only, and say nothing else there."""
        name = name_of(expr)
        if name == "quadform" and not dense(expr.args[1]).any():
            return Affine(sparse.csr_array((1, self.total)), np.zeros(1))
        if name == "power" and expr.p.value is not None and float(expr.p.value) == 1:
            return self(expr.args[0])
        raise NotTaken(
            f"expression {expr} is a {name} that happens to be affine, which condgrad cannot read: "
            "write what it stands for"
        )


def _jacobian(expr: Any, values: Sequence[Array], i: int) -> Any:
    """∂ expr/∂ its argument i for an affine atom: CVXPY's where it is right, else by differences.

    CVXPY has it transposed.
    """
    rows, columns = expr.size, int(np.size(values[i]))
    at_zero = [np.zeros_like(v) if k == i else v for k, v in enumerate(values)]
    origin = np.ravel(expr.numeric(at_zero), order="F")

    def image(v: Array) -> Array:
        at_zero[i] = v.reshape(np.shape(values[i]), order="F")
        return np.asarray(np.ravel(expr.numeric(at_zero), order="F") - origin, dtype=np.float64)

    probe = np.random.default_rng(0).normal(size=columns)
    try:
        slope = expr._grad(values)[i]
        dense_slope = slope if sparse.issparse(slope) else np.reshape(slope, (columns, rows))
        J = sparse.csr_array(dense_slope, dtype=np.float64).T
        seen, rounding = image(probe), 1e-13 * np.abs(origin).max(initial=0.0)
        size = abs(J) @ np.abs(probe) + np.abs(seen)
        if np.all(np.abs(J @ probe - seen) <= 1e-9 * size + rounding):
            return J
    except (NotImplementedError, ValueError, TypeError, IndexError):
        pass
    return sparse.csr_array(np.array([image(e) for e in np.eye(columns)]).reshape(columns, rows).T)


def dense(expr: Any) -> Array:
    """The value of a constant expression as an array."""
    value = expr.value
    if value is None:
        raise ProblemError(f"expression {expr} has no value: write the number that it stands for")
    value = np.asarray(value.toarray() if sparse.issparse(value) else value)
    if np.iscomplexobj(value):
        raise _complex(expr)
    return value.astype(np.float64)


def name_of(atom: Any) -> str:
    """What an atom is called, whether or not CVXPY approximates it by cones."""
    return type(atom).__name__.removesuffix("Approx").lower()


def _complex(expr: Any) -> NotTaken:
    return NotTaken(
        f"expression {expr} has complex values, which condgrad cannot take: write it with real "
        "numbers"
    )


@lru_cache(maxsize=8)
def _ids(shape: tuple[int, ...]) -> Array:
    """The entries of an array, numbered as `vec` takes them."""
    return np.arange(int(np.prod(shape))).reshape(shape, order="F")


def _map(factor: Any, inner: Affine) -> Affine:
    """The image under a matrix, or a multiple."""
    if isinstance(factor, float):
        return Affine(factor * inner.A, factor * inner.b, abs(factor) * inner.size)
    A, b = sparse.csr_array(factor @ inner.A), np.asarray(factor @ inner.b)
    return Affine(A, b, np.asarray(abs(factor) @ inner.size))
