"""The methods of the paper's Table 1 and three more, each a short declaration.

A method is a choice of estimator for the smooth terms, one for the composite terms, and the scalar
sequences. To add one, write a function here under `@declare`; nothing else needs to know of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condgrad.errors import ProblemError
from condgrad.estimators import (
    SAG,
    Ascent,
    Augmented,
    Full,
    Momentum,
    SagAugmented,
    Spider,
    Storm,
)
from condgrad.estimators.sampling import Batch
from condgrad.methods.control import BALANCE
from condgrad.methods.lead import Lead
from condgrad.methods.primal_dual import PRIMAL_DUAL, PRIMAL_WEIGHT
from condgrad.methods.registry import Method, declare
from condgrad.methods.spectral import SPECTRAL
from condgrad.methods.steps import ATOMS
from condgrad.schedules import ZERO, Beta0, Constant, Power, Schedule, Sequence, smoothing


def homotopy(beta0: Beta0, rho: Sequence = ZERO) -> Schedule:
    """η_k = 2/(k + 1), β_k = β0/√(k + 1)."""
    return Schedule(Power(2, 1, 1), smoothing(beta0, 1, 1 / 2), rho)


DETERMINISTIC_G = "f smooth; g with a prox, Lipschitz or an indicator"
SAMPLED_F = "f a smooth finite sum; g with a prox, Lipschitz or an indicator"
SAMPLED_G = "f a smooth finite sum; g a separable finite sum, Lipschitz or an indicator"


@declare(
    "hcgm",
    "HCGM",
    estimates="full, full",
    needs=DETERMINISTIC_G,
    iterations="ε⁻²",
    cost="ε⁻² d max(n, m)",
    exponent=1 / 2,
    reference="Yurtsever, Fercoq, Locatello, Cevher, ICML 2018",
)
def hcgm(beta0: Beta0 = 1.0) -> Method:
    """Homotopy conditional gradient method: full gradients of f + g_β, β_k = β0/√(k + 1)."""
    return Method(Full(), Full(), homotopy(beta0))


@declare(
    "cgal",
    "CGAL",
    estimates="full, full with multipliers",
    needs=DETERMINISTIC_G,
    iterations="ε⁻²",
    cost="ε⁻² d max(n, m)",
    exponent=1 / 2,
    reference="Yurtsever, Fercoq, Cevher, ICML 2019",
)
def cgal(beta0: float = 1.0, bound: float = float("inf")) -> Method:
    """Conditional gradient augmented Lagrangian: HCGM with multipliers, σ ≤ 1/β0, ‖y‖ ≤ bound.

    Parameters
    ----------
    bound : float, default inf
        Bound on the norm of the multipliers.
    """
    if isinstance(beta0, str):
        raise ProblemError(
            f"beta0 is {beta0!r}: it must be a number; CGAL's automatic form is sag_cgal(batch=1.0)"
        )
    schedule = homotopy(beta0)
    return Method(Full(), Augmented(1 / beta0, bound), schedule)


@declare(
    "shcgm",
    "SHCGM",
    estimates="momentum, full",
    needs=SAMPLED_F,
    iterations="ε⁻³",
    cost="ε⁻³ d m",
    exponent=1 / 3,
    reference="Locatello, Yurtsever, Fercoq, Cevher, NeurIPS 2019",
)
def shcgm(beta0: Beta0 = 1.0, batch: Batch = 1, **sampling: Any) -> Method:
    """Stochastic HCGM: η_k = 9/(k + 8), β_k = β0/√(k + 8), ρ_k = 4/(k + 7)^(2/3)."""
    schedule = Schedule(Power(9, 8, 1), smoothing(beta0, 8, 1 / 2), Power(4, 7, 2 / 3))
    return Method(Momentum(batch, **sampling), Full(), schedule)


@declare(
    "most-fw",
    "MOST-FW",
    estimates="STORM, full",
    needs=SAMPLED_F,
    iterations="ε⁻²",
    cost="ε⁻² d m",
    exponent=1 / 2,
    reference="Akhtar, Rajawat, arXiv 2107.06534, 2021",
)
def most_fw(beta0: Beta0 = 1.0, batch: Batch = 1, **sampling: Any) -> Method:
    """Momentum-based stochastic Frank-Wolfe: STORM on f, ρ_k = η_k = 2/(k + 1), β_k = β0/√(k + 1).

    The constants are chosen to give the stated rate (the error of the estimate falls as k^(−1/2));
    they are not quoted from the source.
    """
    return Method(Storm(batch, **sampling), Full(), homotopy(beta0, rho=Power(2, 1, 1)))


@declare(
    "h-sag-v1",
    "H-SAG-CGM/v1",
    estimates="SAG, full",
    needs=SAMPLED_F,
    iterations="ε⁻²",
    cost="ε⁻² d m",
    exponent=1 / 2,
    reference="Dresdner, Vladarean, Rätsch, Locatello, Cevher, Yurtsever, AISTATS 2022",
)
def h_sag_v1(beta0: Beta0 = 1.0, batch: Batch = 1, **sag: Any) -> Method:
    """H-SAG-CGM, variant 1: SAG on f, the full gradient of g_β. Options of `SAG` can be given."""
    return Method(SAG(batch, **sag), Full(), homotopy(beta0))


@declare(
    "h-1sfw",
    "H-1SFW",
    estimates="momentum, momentum",
    needs=SAMPLED_G,
    iterations="ε⁻⁶",
    cost="ε⁻⁶ d",
    exponent=1 / 6,
    reference="Vladarean, Alacaoglu, Hsieh, Cevher, ICML 2020",
)
def h_1sfw(beta0: Beta0 = 1.0, batch: Batch = 1, **sampling: Any) -> Method:
    """One-sample homotopy Frank-Wolfe: β_k = β0/(k + 1)^(1/6), ρ_k = 3/(k + 5)^(2/3)."""
    schedule = Schedule(Power(2, 1, 1), smoothing(beta0, 1, 1 / 6), Power(3, 5, 2 / 3))
    return Method(Momentum(batch, **sampling), Momentum(batch, **sampling), schedule)


@declare(
    "h-spider-fw",
    "H-SPIDER-FW",
    estimates="SPIDER, SPIDER",
    needs=SAMPLED_G,
    iterations="ε⁻²",
    cost="ε⁻² d m",
    exponent=1 / 2,
    reference="Vladarean, Alacaoglu, Hsieh, Cevher, ICML 2020",
)
def h_spider_fw(beta0: Beta0 = 1.0, **sampling: Any) -> Method:
    """Homotopy SPIDER Frank-Wolfe: epochs of length 1, 2, 4, …, each begun by a full gradient.

    With the global counter k the sequences are HCGM's, restarts fall where k is a power of two, and
    the batch is the length of the epoch: it grows until it holds every row.
    """
    return Method(Spider(**sampling), Spider(**sampling), homotopy(beta0))


@declare(
    "most-fw-plus",
    "MOST-FW⁺",
    estimates="STORM, STORM",
    needs=SAMPLED_G,
    iterations="ε⁻⁴",
    cost="ε⁻⁴ d",
    exponent=1 / 4,
    reference="Akhtar, Rajawat, arXiv 2107.06534, 2021",
)
def most_fw_plus(beta0: Beta0 = 1.0, batch: Batch = 1, **sampling: Any) -> Method:
    """STORM on f and g: ρ_k = η_k = 2/(k + 1), β_k = β0/(k + 1)^(1/4).

    The variance of the smoothed g grows as 1/β², which β ~ k^(−1/4) balances to ε⁻⁴. The constants
    are chosen to give that rate; they are not quoted from the source.
    """
    schedule = Schedule(Power(2, 1, 1), smoothing(beta0, 1, 1 / 4), Power(2, 1, 1))
    return Method(Storm(batch, **sampling), Storm(batch, **sampling), schedule)


@declare(
    "h-sag-v2",
    "H-SAG-CGM/v2",
    estimates="SAG, SAG",
    needs=SAMPLED_G,
    iterations="ε⁻²",
    cost="ε⁻² d",
    exponent=1 / 2,
    reference="Dresdner, Vladarean, Rätsch, Locatello, Cevher, Yurtsever, AISTATS 2022",
)
def h_sag_v2(beta0: Beta0 = 1.0, batch: Batch = 1, **sag: Any) -> Method:
    """H-SAG-CGM, variant 2: SAG on f and on g_β. Options of `SAG` can be given."""
    return Method(SAG(batch, **sag), SAG(batch, **sag), homotopy(beta0))


@declare(
    "sag-fw",
    "SAG Frank-Wolfe",
    estimates="SAG, –",
    needs="f a smooth finite sum; g = 0",
    iterations="ε⁻¹",
    cost="ε⁻¹ d",
    exponent=1.0,
    reference="Négiar, Dresdner, Tsai, El Ghaoui, Locatello, Freund, Pedregosa, ICML 2020",
)
def sag_fw(batch: Batch = 1, **sag: Any) -> Method:
    """Stochastic Frank-Wolfe with a SAG estimate, for problems without composite terms."""
    return Method(SAG(batch, **sag), Full(), homotopy(1.0), smooth_only=True)


@declare(
    "sag-cgal",
    "SAG-CGAL",
    estimates="full, SAG with multipliers",
    needs=SAMPLED_G,
    iterations="not proved",
    cost="not proved",
    exponent=float("nan"),
    reference="condgrad, 2026: the tables of H-SAG-CGM/v2 with the multipliers of CGAL",
)
def sag_cgal(
    beta0: Beta0 = "auto", batch: Batch | str = "auto", spectral: bool = True, **options: Any
) -> Method:
    """SAG on the augmented Lagrangian: v2's table of slopes and CGAL's multipliers, row by row.

    η_k = 2/(k + 1), β_k = β0 (k + 1)^(−1/3), multipliers y += (k + 1)^(−1/3) (slope − y); with
    spectral steps (the default, where they apply) η_k = 10/(k + 10), or 1 where every row is drawn
    at every iteration, β_k = β0, y += (slope − y)/2, and the option ``rate`` and the effort of
    the oracle play no part.

    Proved: every slope and multiplier is a point of the dual problem, so the lower bound of a
    result holds whatever the method does. With a full batch it is CGAL with the dual step taken
    after the direction, without CGAL's cap on the step and bound on the multipliers. Not proved: a
    rate of convergence. What was observed is in docs/certificates.md.

    Parameters
    ----------
    beta0 : float or "auto"
        β0 > 0, or found per term and adapted, see `condgrad.methods.control.Balance`.
    batch : int, float or "auto"
        Rows drawn per iteration and composite term, see `condgrad.estimators.SagAugmented`.
    spectral : bool, default True
        With β0 found, f linear and W in a spectrahedron, move W to a low-rank point instead of an
        atom (`condgrad.methods.steps.Spectral`): fewer passes, some more work in the oracle.
    **options
        Further options of `condgrad.estimators.SagAugmented`: ``rate``, ``table_dtype``.
    """
    schedule = Schedule(Power(2, 1, 1), smoothing(beta0, 1, 1 / 3))
    step = SPECTRAL if spectral and beta0 == "auto" else ATOMS
    return Method(Full(), SagAugmented(batch, **options), schedule, step=step, control=BALANCE)


@declare(
    "spdhg",
    "SPDHG",
    estimates="full, multipliers on drawn rows",
    needs="f smooth; g a separable finite sum; W in a spectrahedron",
    iterations="not proved",
    cost="not proved",
    exponent=float("nan"),
    reference="Chambolle, Ehrhardt, Richtárik, Schönlieb, SIAM J. Optim. 28(4), 2018; "
    "Applegate et al., NeurIPS 2021, for the step rule",
)
def spdhg(batch: Batch | str = "auto", first: float = 10.0, table_dtype: Any = "auto") -> Method:
    """Stochastic primal-dual passes over a spectrahedron.

    Drawn rows move their multipliers, the change enters the direction 1/p times more, and W goes to
    a projection (`condgrad.methods.primal_dual.PrimalDualStep`). One number is kept per row. What
    is proved, and what is not, is said there. The first passes are those of `sag_cgal`, as long as
    it gains (`condgrad.methods.lead.Lead`): on easy problems they are all that is needed. There are
    none where all rows are taken at every iteration.

    Parameters
    ----------
    batch : int, float or "auto"
        Rows drawn per iteration and composite term, see `condgrad.estimators.Ascent`.
    first : float, default 10
        Passes of `sag_cgal` at the start: fewer where it gains little, more where it gains a lot,
        if that can be judged by feasible points that are proposed; 0 for none.
    table_dtype : float64, float32, "bfloat16" or "auto"
        Precision of the multipliers; ``"bfloat16"`` is for a GPU, where ``"auto"`` takes it if
        float32 does not fit into the memory.
    """
    number = isinstance(first, (int, float, np.number)) and not isinstance(first, bool)
    if not (number and 0 <= first < np.inf):
        raise ProblemError(f"first is {first!r}: it must be a number of passes, at least 0")
    schedule = Schedule(Constant(1.0), smoothing("auto", 0, 0))
    start = sag_cgal(batch=batch, table_dtype=table_dtype)
    return Method(
        Full(),
        Ascent(batch, table_dtype=table_dtype),
        schedule,
        step=PRIMAL_DUAL,
        control=PRIMAL_WEIGHT,
        first=Lead(start, first) if first else None,
    )
