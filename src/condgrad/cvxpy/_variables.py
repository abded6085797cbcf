"""CVXPY variables as blocks: x = offset + T u with u semidefinite or non-negative."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from condgrad._types import Array
from condgrad.cvxpy._affine import Affine, NotTaken, dense
from condgrad.errors import ProblemError

REFUSED = ("complex", "imag", "hermitian", "diag", "sparsity")
REMEDY = {
    "diag": "use a vector variable and cp.diag of it",
    "sparsity": "use a vector variable for the entries that are not zero",
}
WHOLE = {
    "boolean": "relax it to bounds=[0, 1], or use a mixed-integer solver",
    "integer": "relax it, or use a mixed-integer solver",
}


@dataclass(frozen=True, eq=False)
class Part:
    """How one variable, its columns one below the other, is made of one block u."""

    block: int
    """n for a semidefinite block of side n, −n for a non-negative one of length n."""
    T: Any
    """Sparse, a row per entry of the variable."""
    offset: Array
    limits: Affine
    """What the block cannot say of the variable, as A x + b ≤ 0."""


def check_real(variable: Any) -> None:
    """Refuse variables that have to be whole numbers."""
    for name, remedy in WHOLE.items():
        value = variable.attributes.get(name)
        if value is not None and value is not False:
            raise ProblemError(
                f"variable {variable.name()} is {name}, which condgrad cannot take: {remedy}"
            )


def check_variable(variable: Any) -> None:
    """Refuse what no block can stand for."""
    for name in REFUSED:
        value = variable.attributes.get(name)
        if value is not None and value is not False:
            remedy = REMEDY.get(name, "write it with real variables")
            raise NotTaken(
                f"variable {variable.name()} is {name}, which condgrad cannot take: {remedy}"
            )
    if variable.ndim > 2 and variable.is_symmetric():
        raise NotTaken(
            f"variable {variable.name()} has shape {variable.shape}: use one matrix variable for "
            "each semidefinite block"
        )


def part_of(variable: Any, cone: Affine | None, semidefinite: bool, split: bool) -> Part:
    """The block of one variable.

    Parameters
    ----------
    variable : cvxpy.Variable
        The variable.
    cone : Affine, optional
        A constraint of the problem that says ±x + b lies in the cone, whose block then is
        u = ±x + b; its rows are those of x alone.
    semidefinite : bool
        Whether that cone is the semidefinite one.
    split : bool
        Whether a variable without a sign may be a difference of two non-negative ones. These are
        unbounded, so that only a trace bound of the user's makes the problem compact.
    """
    low, high = _interval(variable)
    size = variable.size
    unit = sparse.eye_array(size, format="csr")
    side = variable.shape[0] if variable.ndim == 2 else 1
    if variable.is_psd() or variable.is_nsd():
        sign = 1.0 if variable.is_psd() else -1.0
        return Part(side, sign * unit, np.zeros(size), _rows(low, high))
    if cone is not None:
        sign = float(cone.A.data[0])
        b = symmetric(cone.b, side) if semidefinite else cone.b
        return Part(side if semidefinite else -size, sign * unit, -sign * b, _rows(low, high))
    spread = _triangle(side) if variable.is_symmetric() and side > 1 else unit
    count = spread.shape[1]
    nothing = np.full(size, np.inf)
    if np.isfinite(low).all():
        return Part(-count, spread, low, _rows(-nothing, high))
    if np.isfinite(high).all():
        return Part(-count, -spread, high, _rows(low, nothing))
    if not split:
        raise NotTaken(
            f"variable {variable.name()} has no sign and no bounds: give it bounds=[low, high], as "
            f"in cp.Variable({variable.shape}, bounds=[-10, 10]), or nonneg=True, or pass "
            "trace_bound, which no sum of |its entries| and of traces exceeds"
        )
    both = sparse.csr_array(sparse.hstack([spread, -spread]))
    return Part(-2 * count, both, np.zeros(size), _rows(low, high))


def symmetric(entries: Array, side: int) -> Array:
    """The symmetric part of a square matrix, flat."""
    matrix = entries.reshape(side, side)
    return ((matrix + matrix.T) / 2).ravel()


def _interval(variable: Any) -> tuple[Array, Array]:
    """Lower and upper bound of every entry, from the attributes of the variable."""
    low, high = np.full(variable.shape, -np.inf), np.full(variable.shape, np.inf)
    attributes = variable.attributes
    if attributes.get("bounds") is not None:
        ends = [dense(e) if hasattr(e, "value") else np.asarray(e) for e in attributes["bounds"]]
        low, high = (np.broadcast_to(e, variable.shape).astype(np.float64) for e in ends)
    if attributes["nonneg"] or attributes["pos"]:
        low = np.maximum(low, 0.0)
    if attributes["nonpos"] or attributes["neg"]:
        high = np.minimum(high, 0.0)
    if variable.is_symmetric() and variable.ndim == 2:
        low, high = np.maximum(low, low.T), np.minimum(high, high.T)
    return low.ravel(order="F"), high.ravel(order="F")


def _rows(low: Array, high: Array) -> Affine:
    """low ≤ x ≤ high as A x + b ≤ 0, without the infinite ones."""
    unit = sparse.eye_array(low.size, format="csr")
    below, above = np.isfinite(low), np.isfinite(high)
    A = sparse.csr_array(sparse.vstack([-unit[below], unit[above]]))
    return Affine(A, np.concatenate([low[below], -high[above]]))


def _triangle(side: int) -> Any:
    """From the upper triangle of a symmetric matrix to all of its entries."""
    i, j = np.triu_indices(side)
    position = np.zeros((side, side), dtype=int)
    position[i, j] = position[j, i] = np.arange(i.size)
    return sparse.csr_array(
        (np.ones(side * side), (np.arange(side * side), position.ravel())),
        shape=(side * side, i.size),
    )
