"""Parts of `theory`: the constants of Theorem 4.1 as a class, and what its functions check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from condgrad._types import Array
from condgrad.errors import ProblemError
from condgrad.methods.table1 import ConditionalGradient
from condgrad.schedules import Power


@dataclass(frozen=True)
class Constants:
    """Constants of Theorem 4.1, and the bounds that follow from them; k may be an array."""

    C1: float
    C2: float
    C3: float
    beta0: float
    slack: float
    """Σ ω L_g² rows over the Lipschitz terms: F ≤ F_β + β slack/2."""
    weight: float
    """The smallest weight of a constraint family, infinite where there is none."""

    def gap(self, k: Any) -> Any:
        """C1/√k + C2/k + C3/k², which bounds E[F_{β_k}(W_{k+1})] − F* (Theorem 4.1)."""
        k = np.asarray(k, dtype=np.float64)
        return self.C1 / np.sqrt(k) + self.C2 / k + self.C3 / k**2

    def objective(self, k: Any) -> Any:
        """Bound on E[objective(W_{k+1})] − F*: the gap, and β0 slack/(2√k) for Lipschitz terms.

        It may be passed from below by at most ‖y*‖ times the infeasibility. The β0/√k that
        Corollary 4.2 prints beside C1 for an indicator is not needed by its proof.
        """
        return self.gap(k) + self.beta0 * self.slack / (2 * np.sqrt(np.asarray(k, np.float64)))

    def lipschitz(self, k: Any) -> Any:
        """Bound on E F(W_{k+1}) − F* where no term is a constraint (Corollary 4.1)."""
        if np.isfinite(self.weight):
            raise ProblemError(
                "the problem has constraints, so F may be infinite: use objective(k) and "
                "infeasibility(k, y_norm)"
            )
        return self.objective(k)

    def infeasibility(self, k: Any, y_norm: float) -> Any:
        r"""Bound on E √(Σ_t dist_t²) at W_{k+1} (Corollary 4.2).

        With ω the smallest weight of a constraint family and S_k = `objective(k)`

        .. math:: 2 (β_k/ω) ‖y^*‖ + \sqrt{2 (β_k/ω) S_k}.

        A weight acts on the squared distance, ω dist²/(2β), and so as a smoothing of β/ω; the
        multipliers y* are those of the constraints A_t W ∈ K_t, which do not feel the weight. In
        place of this the paper prints 3/2 ‖y*‖ β0 for 2 ‖y*‖ β0 and leaves √β0 out of the root.

        Parameters
        ----------
        k : int or array
            Iteration.
        y_norm : float
            ‖y*‖, over all constraint families, or a bound on it.
        """
        if not np.isfinite(self.weight):
            raise ProblemError("the problem has no constraints: there is no infeasibility to bound")
        beta = self.beta0 / np.sqrt(np.asarray(k, dtype=np.float64) + 1) / self.weight
        return 2 * beta * y_norm + np.sqrt(2 * beta * self.objective(k))


def first_beta(method: ConditionalGradient, use: str) -> float:
    """β0 of a method with the sequences of the theorem."""
    eta, beta = method.schedule.eta, method.schedule.beta
    if eta != Power(2, 1, 1) or not isinstance(beta, Power) or beta != Power(beta.c, 1, 0.5):
        raise ProblemError(
            f"{method.name} does not use η = 2/(k + 1) and β = β0/√(k + 1), which {use}"
        )
    return beta.c


def iterations(ks: Sequence[int] | Array) -> Array:
    """Check the iterations asked for."""
    k = np.asarray(ks)
    if k.dtype.kind not in "iuf" or not k.size or np.any((k < 1) | (k % 1 > 0)):
        raise ProblemError("ks must hold iterations, whole numbers of at least 1")
    return k.astype(np.int64)
