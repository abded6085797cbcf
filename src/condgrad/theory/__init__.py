"""Promises of the theory: constants of the convergence theorem and guaranteed curves.

All bounds are on the smoothed gap E[F_{β_k}(W_{k+1})] − F*, F_β = Σ_t ω_t h_{t,β}(A_t W), for an
exact oracle and, where there are constraints, a feasible problem. Every term enters Lemma 4.1 of
[1]_ with its weight: ω h_β(A W) is convex, ω ‖A‖²/β-smooth, and both smoothing inequalities of the
proof scale with ω. The paper's averages are ω = 1/n and ω = 1/m.

References
----------
.. [1] G. Dresdner et al., "Faster one-sample stochastic conditional gradient method for composite
   convex minimization", AISTATS 2022.
"""

from condgrad.theory.guarantees import (
    Constants,
    Diameters,
    constants,
    diameters,
    estimator_error,
    guarantee,
    rate,
)

__all__ = [
    "Constants",
    "Diameters",
    "constants",
    "diameters",
    "estimator_error",
    "guarantee",
    "rate",
]
