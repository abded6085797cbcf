"""From a CVXPY problem to blocks, rows and losses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
from cvxpy.reductions.eval_params import EvalParams
from scipy import sparse

from condgrad._types import Array
from condgrad.backends import memory
from condgrad.cvxpy._affine import Affine, Coefficients, NotTaken
from condgrad.cvxpy._objective import head, loss_of
from condgrad.cvxpy._rows import Family, Named, Space
from condgrad.cvxpy._variables import Part, check_real, check_variable, part_of
from condgrad.errors import ProblemError
from condgrad.functions import Smooth

NUMBER = 240
"""Bytes for each number of the variables: while the problem is read, and in a run."""
REMEDY = (
    "write a smaller problem; for a maximum cut use condgrad.max_cut, for ratings "
    "condgrad.sklearn.MatrixCompletion, which keep W as factors"
)


class Relation(NamedTuple):
    """One constraint: its expression is 0 ("=="), at most 0 ("<=") or semidefinite (">>")."""

    id: int
    shape: tuple[int, ...]
    kind: str
    affine: Affine

    @property
    def cone(self) -> Affine:
        """What has to lie in the cone: the expression where it is semidefinite, else minus it."""
        if self.kind == ">>":
            return self.affine
        return Affine(-self.affine.A, -self.affine.b, self.affine.size)


@dataclass(frozen=True, eq=False)
class Form:
    """min ⟨C, u⟩ + constant + losses over blocks u, subject to rows."""

    space: Space
    parts: dict[int, Part]
    """By variable id, in the order of the blocks; the blocks after them are slacks."""
    sign: float
    """−1 where the problem maximises: the form minimises."""
    cost: Array
    constant: float
    equal: Family
    at_most: Family
    losses: list[tuple[Any, Smooth, float]]
    owners: dict[int, int]
    """The block of each constraint that says no more than that the block lies in its cone."""
    shapes: dict[int, tuple[int, ...]]
    """Of the constraints, by id."""


def recognise(problem: Any, split: bool = False) -> Form:
    """Read a problem, or refuse it with a sentence; `split` as for `part_of`."""
    check(problem)
    for variable in problem.variables():
        check_variable(variable)
    require_room(problem, NUMBER)
    if problem.parameters():
        problem = EvalParams().apply(problem)[0]
    read = Coefficients(problem.variables())
    variables = [v for v in problem.variables() if v.size]
    constraints = {c.id: c for c in problem.constraints}  # one may be listed twice
    relations = [_relation(c, read) for c in constraints.values() if c.size]
    owned = _owners(variables, relations, read)
    cones = {v.id: _cone(owned.get(v.id), read.starts[v.id], v) for v in variables}
    parts = {v.id: part_of(v, *cones[v.id], split) for v in variables}
    owners = {r.id: i for i, v in enumerate(variables) for r in [owned.get(v.id)] if r is not None}
    left = [r for r in relations if r.id not in owners]
    slacks = [r for r in left if r.kind == ">>"]
    owners |= {r.id: len(parts) + i for i, r in enumerate(slacks)}
    blocks = [p.block for p in parts.values()] + [r.shape[0] for r in slacks]
    space = Space(blocks, list(parts.values()))
    equal: list[Named] = [(r.id, space.rows(r.affine)) for r in left if r.kind == "=="]
    equal += [(None, space.slack_rows(r.affine, owners[r.id])) for r in slacks]
    at_most: list[Named] = [(r.id, space.rows(r.affine)) for r in left if r.kind == "<="]
    for v in variables:
        limits = parts[v.id].limits
        at_most.append((None, space.rows(limits._replace(A=limits.A @ read.unit(v)))))
    sign = -1.0 if isinstance(problem.objective, cp.Maximize) else 1.0
    goal = sign * problem.objective.expr
    cost, constant, losses = _objective(goal, problem.variables(), space)
    shapes = {c.id: c.shape for c in constraints.values()}
    families = Family(space, equal), Family(space, at_most)
    return Form(space, parts, sign, cost, constant, *families, losses, owners, shapes)


def require_room(problem: Any, each: int) -> None:
    """Refuse a problem whose variables, at so many bytes a number, are more than the free memory.

    A matrix has all of its entries here, whatever the problem asks of them.
    """
    numbers = sum(v.size for v in problem.variables())
    largest = max((v.shape for v in problem.variables()), key=np.prod, default=())
    what = f"{numbers} numbers of variables, the largest of shape {largest}"
    memory.require_room(each * numbers, REMEDY, what)


def check(problem: Any) -> None:
    """Refuse what no road takes."""
    if not isinstance(problem, cp.Problem):
        raise ProblemError(f"problem is a {type(problem).__name__}: pass a cvxpy.Problem")
    if not any(v.size for v in problem.variables()):
        raise ProblemError("problem has no variables: there is nothing to solve")
    ids = [v.id for v in problem.variables()]
    for variable in problem.variables():
        check_real(variable)
        if ids.count(variable.id) > 1:
            raise ProblemError(
                f"variable {variable.name()} is there twice, as two objects with one id: use one"
            )
    missing = [p.name() for p in problem.parameters() if p.value is None]
    if missing:
        raise ProblemError(f"parameter {missing[0]} has no value: set its .value before solving")
    if not problem.is_dcp():
        raise ProblemError(
            "problem does not follow CVXPY's rules of disciplined convex programming (DCP): see "
            "which part fails with problem.objective.is_dcp() and constraint.is_dcp()"
        )


def _relation(constraint: Any, read: Coefficients) -> Relation:
    """One constraint in normal form."""
    name = type(constraint).__name__
    kinds = {"Equality": "==", "Zero": "==", "Inequality": "<=", "NonPos": "<=", "NonNeg": "<="}
    kind = kinds.get(name, ">>" if name == "PSD" else None)
    if kind is None:
        raise NotTaken(
            f"constraint {constraint} is a {name}, which condgrad cannot take: use ==, <=, >= and "
            ">> of affine expressions"
        )
    expr = constraint.args[0] if name in ("PSD", "Zero", "NonPos", "NonNeg") else constraint.expr
    if not expr.is_affine() or expr.is_complex():
        raise NotTaken(
            f"constraint {constraint} is not affine in real numbers, which condgrad cannot take: "
            "rewrite it with affine expressions (a matrix inequality, say)"
        )
    if kind == ">>" and expr.ndim != 2:
        raise NotTaken(
            f"constraint {constraint} has shape {expr.shape}: use one constraint for each matrix"
        )
    affine = read(-expr if name == "NonNeg" else expr)
    fine = ~np.isnan(affine.b) if kind == "<=" else np.isfinite(affine.b)  # x ≤ ∞ is no news
    if not (fine.all() and np.isfinite(affine.A.data).all()):
        raise ProblemError(f"constraint {constraint} contains NaN or infinity: replace it")
    return Relation(constraint.id, expr.shape, kind, affine)


def _owners(
    variables: Sequence[Any], relations: Sequence[Relation], read: Coefficients
) -> dict[int, Relation]:
    """For each variable the constraint, if any, that only says in which cone it lies."""
    owned: dict[int, Relation] = {}
    for kind in (">>", "<="):
        for v in variables:
            for r in relations:
                if r.kind == kind and v.id not in owned and _is_whole(r, read.starts[v.id], v):
                    if _fits(v, r):
                        owned[v.id] = r
                    elif kind == ">>" and not v.is_symmetric():
                        raise ProblemError(
                            f"variable {v.name()} has to be semidefinite, but is not declared "
                            "symmetric: use cp.Variable((n, n), PSD=True)"
                        )
    return owned


def _is_whole(relation: Relation, start: int, variable: Any) -> bool:
    """Whether a constraint has the form ±x + b for the whole variable."""
    A = relation.affine.A
    if A.shape[0] != variable.size or A.nnz != variable.size:
        return False
    A = A.tocoo()
    return bool(
        np.array_equal(A.col - start, A.row) and np.ptp(A.data) == 0 and abs(A.data[0]) == 1
    )


def _fits(variable: Any, relation: Relation) -> bool:
    """Whether the block of a variable can be that of the constraint."""
    cone = relation.cone
    if variable.is_psd() or variable.is_nsd():
        sign = 1.0 if variable.is_psd() else -1.0
        return relation.kind == ">>" and cone.A.data[0] == sign and not cone.b.any()
    free = not any(variable.attributes[a] for a in ("nonneg", "nonpos", "pos", "neg", "bounds"))
    if relation.kind == ">>":
        return bool(variable.is_symmetric())
    return bool(
        free and (variable.size == 1 or not variable.is_symmetric()) and np.isfinite(cone.b).all()
    )


def _cone(relation: Relation | None, start: int, variable: Any) -> tuple[Affine | None, bool]:
    """The constraint of a variable's block, over its own entries, and whether it is >>."""
    if relation is None:
        return None, False
    cone = relation.cone
    own = cone.A[:, start : start + variable.size]
    return cone._replace(A=own), relation.kind == ">>"


def _objective(
    expr: Any, variables: Sequence[Any], space: Space
) -> tuple[Array, float, list[tuple[Any, Smooth, float]]]:
    """Cost, constant and losses of what is minimised."""
    found: list[tuple[Any, Any]] = []
    affine_head = head(expr, found)
    read = Coefficients([*variables, *(v for v, _ in found)])
    A, b, _ = read(affine_head)
    linear = space.rows(Affine(A[:, : space.entries], b))
    weights = A.toarray().ravel()
    losses: list[tuple[Any, Smooth, float]] = []
    for stand_in, atom in found:
        start = read.starts[stand_in.id]
        own = weights[start : start + stand_in.size]
        losses += _losses(atom, own, Coefficients(variables), space)
    return linear.A.toarray().ravel(), float(linear.b[0]), losses


def _losses(
    atom: Any, weights: Array, read: Coefficients, space: Space
) -> list[tuple[Any, Smooth, float]]:
    """The losses of one atom, its entries weighted: one for each weight where it must be."""
    loss = loss_of(atom)
    A, c, _ = space.rows(read(loss.expr))
    if not (np.isfinite(c).all() and np.isfinite(A.data).all()):
        raise ProblemError(f"the objective contains NaN or infinity in {atom}: replace it")
    each = np.broadcast_to(weights, c.shape)
    if loss.quadratic and np.ptp(each) > 0:
        root = np.sqrt(np.maximum(each, 0.0))
        A, c, each = sparse.csr_array(sparse.diags_array(root) @ A), root * c, (root > 0) * 1.0
    return [
        (A[each == w], loss.function(c[each == w]), loss.weight * float(w))
        for w in np.unique(each[each > 0])
    ]
