"""The kernels that a backend has, and what each does."""

from collections.abc import Callable
from typing import NamedTuple

CONTRACT = {
    "fresh": "keep the ids not seen yet, mark them, say how many are kept",
    "forget": "clear the marks of given ids",
    "fresh_rows": "both for many draws in one call",
    "take": "x[index]",
    "add_at": "x[index] += y, repeats counted each time",
    "dot_at": "⟨x[index], y⟩",
    "axpy": "out += weight·y, without a temporary",
    "axpy_at": "out[index] += weight·y, without a temporary",
    "interval_slope": "slopes of a box, written where they belong, in one pass",
    "absolute_slope": "slopes of a distance, likewise",
    "masked_squares": "Σ z² over the rows with a slope",
    "signed_sums": "Σ max(y, 0) and Σ max(−y, 0)",
    "interval_dual": "slopes at z + βy and the multipliers' step towards them",
    "interval_ascend": "the multipliers' step to those slopes, its sum in G and its square",
    "table_swap": "overwrite table rows one after the other, return what changed",
    "triangle_gather": "triangle rows at given ids",
    "triangle_scatter": "their adjoint",
    "triangle_sweep": "a contiguous range of triangle rows",
    "triangle_add": "its adjoint",
    "perimeter_gather": "perimeter rows at given ids",
    "perimeter_scatter": "their adjoint",
    "perimeter_sweep": "a contiguous range of perimeter rows",
    "perimeter_add": "its adjoint",
    "fused": "the passes over the rows of a family, from its sweep and add (`Drivers`)",
    "csr_gather": "drawn rows of a CSR matrix against a vector",
    "csr_scatter": "their adjoint",
    "dense_gather": "drawn rows of a dense matrix against a vector",
    "dense_scatter": "their adjoint",
    "row_gather": "sums of drawn rows",
    "rank_one_step": "W ← keep·W + c·u vᵀ in place",
    "gram_product": "VᵀV x, V read once",
    "symmetric_part": "(V + Vᵀ)/2, written to another array",
    "descended": "W − step (V + Vᵀ)/2 − offset, written to another array",
    "tridiagonal_lowest": "lowest eigenpair of a symmetric tridiagonal matrix",
    "hidden": "how much of a start of Lanczos an eigenvector not found can hold",
    "lanczos": "lowest Ritz pair of V, or of −VᵀV",
    "sparse_times": "rows of V K, V sparse",
    "sparse_dots": "entries of A Bᵀ on the pattern of a sparse matrix",
    "pair_dots": "entries of A Bᵀ at given places",
    "mixing_sweep": "a sweep of the mixing method over the rows of V",
    "flip_sweep": "vertices that change sides where a cut gains enough",
    "eliminate": "vertices taken out of a graph so that its maximum cut stays known",
    "lift_signs": "their sides in a cut of what is left",
    "list_triangles": "the edges of all triangles of a graph",
    "triangle_multipliers": "a step of the multipliers of their inequalities",
    "ridge_rows": "Bayesian ridge regressions of the rows of a factor",
    "vector_sag": "iterations of SAG Frank-Wolfe on a data matrix, many in one call",
}
"""Kernels by name."""


class Drivers(NamedTuple):
    """The passes over the rows of a family, made by `fused`; bounds are the same for all rows.

    Ranges are start and stop, or `ends` with a row of both for each; W and G are shaped as W where
    the cotangent is. A table holds the rows from 0 on, unless `ends` have a third column with the
    place of each range in it, or a last argument says how many rows come before the table's.
    """

    ascend: Callable[..., float]
    """y⁺ = x − clip(x, lower/β, upper/β) with x = y + z/β of ranges, in place, with
    G += A*(y⁺ − y); Σ (y⁺ − y)²."""
    dual: Callable[..., None]
    """`interval_dual` of ranges, with G += A*(γ − γ_old)."""
    miss: Callable[..., tuple[float, float, float]]
    """Σ r², Σ z² and max |r| with r = z − clip(z, lower, upper)."""
    merit: Callable[..., tuple[float, float]]
    """Σ r² and Σ y², r = x − clip(x, lower, upper) with x = z + βy."""
    squares: Callable[..., float]
    """Σ z² at D over the rows with a slope other than 0."""
    pair: Callable[..., tuple[float, float, float]]
    """G += A*v for v = clip(y, low, high); Σ max(v, 0), Σ max(−v, 0) and, where `images` are
    wanted, ⟨v, A W⟩, otherwise 0."""
