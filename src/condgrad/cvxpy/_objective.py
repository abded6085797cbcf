"""The objective: an affine part and losses of affine images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.affine_atom import AffAtom

from condgrad._types import ALL, Array, Rows, pick
from condgrad.cvxpy._affine import NotTaken, dense, name_of
from condgrad.functions import Huber, Logistic, Smooth, Squared


class ShiftedLogistic(Smooth):
    """h_l(z) = log(1 + exp(z + c_l)), the function `cvxpy.logistic` of an affine image."""

    smoothness = Logistic.smoothness

    def __init__(self, shift: Array) -> None:
        self.shift, self.size = shift, shift.size
        self._plain = Logistic(-1.0)

    def value(self, z: Array, at: Rows = ALL) -> float:
        return self._plain.value(z + pick(self.shift, at))

    def derivative(self, z: Array, at: Rows = ALL) -> Array:
        return self._plain.derivative(z + pick(self.shift, at)).astype(z.dtype, copy=False)

    def prox(self, z: Array, beta: float, at: Rows = ALL) -> Array:
        c = pick(self.shift, at)
        return (self._plain.prox(z + c, beta) - c).astype(z.dtype, copy=False)

    def into_dual(self, y: Array, at: Rows = ALL) -> Array:
        return self._plain.into_dual(y)

    def conjugate(self, y: Array, at: Rows = ALL) -> float:
        return self._plain.conjugate(y) - float(np.sum(pick(self.shift, at) * y))

    def conjugate_size(self, y: Array, at: Rows = ALL) -> float:
        return self._plain.conjugate_size(y) + float(np.sum(np.abs(pick(self.shift, at) * y)))


class Loss(NamedTuple):
    """weight · Σ_l h_l(E_l) over the entries E_l of an affine expression."""

    expr: Any
    weight: float
    """A multiple that every entry shares."""
    function: Callable[[Array], Smooth]
    """From the constants c of E = A x + c to the function of A x."""
    quadratic: bool
    """Whether √s of both A and c stands for a weight s."""


def head(expr: Any, found: list[tuple[Any, Any]]) -> Any:
    """The affine head of an expression: every atom that is not affine becomes a new variable.

    The pairs of a new variable and its atom are added to `found`.
    """
    if expr.is_affine():
        return expr
    if isinstance(expr, AffAtom):
        return expr.copy([head(a, found) for a in expr.args])
    found.append((cp.Variable(expr.shape), expr))
    return found[-1][0]


def loss_of(atom: Any) -> Loss:
    """The loss that an atom of the objective is, or a sentence why it is none."""
    name, arg = name_of(atom), atom.args[0]
    if name == "power" and float(atom.p.value) == 2:
        inner = arg.args[0] if name_of(arg) == "pnorm" and arg.p == 2 and arg.axis is None else arg
        loss = Loss(inner, 2.0, lambda c: Squared(-c), True)
    elif name == "quad_over_lin" and atom.args[1].is_constant() and atom.size == 1:
        scale = 2.0 / float(dense(atom.args[1]))
        loss = Loss(arg, scale, lambda c: Squared(-c), True)
    elif name == "huber":
        delta = float(atom.M.value)
        loss = Loss(arg, 2.0, lambda c: Huber(-c, delta), False)
    elif name == "logistic":
        loss = Loss(arg, 1.0, ShiftedLogistic, False)
    else:
        raise NotTaken(
            f"the objective contains {name}, which condgrad cannot take: use affine parts, "
            "sum_squares, square, huber and logistic of affine expressions"
        )
    if not loss.expr.is_affine():
        raise NotTaken(
            f"the objective contains {name} of an expression that is not affine: introduce "
            "a variable for it"
        )
    return loss
