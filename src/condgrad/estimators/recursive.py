"""Momentum, STORM and SPIDER: one recursion with three rows of coefficients."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from condgrad._types import Params
from condgrad.estimators._base import Estimator, Sampled, State, chunks, full_pass
from condgrad.estimators.sampling import Batch, batch_size, check_batch
from condgrad.points.dense import Dense
from condgrad.problem import Term
from condgrad.schedules import epoch_length, power_of_two


class Recursive(Estimator):
    r"""G ← keep·G + now·ĝ_k(W_k) − before·ĝ_k(W_{k−1}), one batch for both points.

    ĝ_k is the unbiased batch estimate, the drawn rows scaled by size/batch. Momentum, STORM and
    SPIDER are three rows of coefficients.
    """

    samples: ClassVar[bool] = True

    @abstractmethod
    def coefficients(self, p: Params) -> tuple[float, float, float]:
        """(keep, now, before)."""

    @abstractmethod
    def rows_now(self, p: Params, term: Term) -> int:
        """Rows to draw at this iteration."""

    def restarts(self, p: Params) -> bool:
        """Whether this iteration takes the full gradient instead."""
        return False

    def update(self, s: State, term: Term, W: Dense, p: Params, rng: np.random.Generator) -> None:
        if self.restarts(p):
            full_pass(s, term, W, p.beta)
            return
        assert isinstance(s, Sampled)
        keep, now, before = self.coefficients(p)
        batch = self.rows_now(p, term)
        scale = term.map.size / batch
        s.G *= keep
        for at in chunks(s.sampler.draw(batch, rng), term):
            y = (now * scale) * term.function.slope(W.rows(term.map, at), p.beta, at)
            s.evaluated += y.size
            if before and p.k > 1 and W.previous is not None:
                z = W.previous.rows(term.map, at)
                y -= (before * scale) * term.function.slope(z, p.beta_before, at)
                s.evaluated += y.size
            term.map.scatter(s.G, at, y.astype(s.G.dtype, copy=False))


@dataclass(frozen=True)
class Batched(Recursive):
    """A recursion with ρ and a batch that stays the same."""

    needs_rho: ClassVar[bool] = True
    batch: Batch = 1
    replace: bool = False

    def __post_init__(self) -> None:
        check_batch(self.batch)

    def rows_now(self, p: Params, term: Term) -> int:
        return batch_size(self.batch, term.map.size)


@dataclass(frozen=True)
class Momentum(Batched):
    r"""d_k = (1 − ρ_k) d_{k−1} + ρ_k ĝ_k(W_k), d_0 = 0.

    Parameters
    ----------
    batch : int or float, default 1
        Rows per iteration, a count or a fraction.
    replace : bool, default False
        Draw with replacement.

    References
    ----------
    .. [1] A. Mokhtari, H. Hassani, A. Karbasi, "Stochastic conditional gradient methods",
       JMLR 21, 2020.
    """

    def coefficients(self, p: Params) -> tuple[float, float, float]:
        return 1 - p.rho, p.rho, 0.0


@dataclass(frozen=True)
class Storm(Batched):
    r"""d_k = ĝ_k(W_k) + (1 − ρ_k)(d_{k−1} − ĝ_k(W_{k−1})), the same rows at both points.

    The earlier point is evaluated with its own β_{k−1}.

    Parameters
    ----------
    batch : int or float, default 1
        Rows per iteration, a count or a fraction.
    replace : bool, default False
        Draw with replacement.

    References
    ----------
    .. [1] A. Cutkosky, F. Orabona, "Momentum-based variance reduction in non-convex SGD",
       NeurIPS 2019.
    """

    needs_previous: ClassVar[bool] = True

    def coefficients(self, p: Params) -> tuple[float, float, float]:
        return 1 - p.rho, 1.0, 1 - p.rho


@dataclass(frozen=True)
class Spider(Recursive):
    r"""v_k = v_{k−1} + ĝ_k(W_k) − ĝ_k(W_{k−1}), with a full gradient at every restart.

    With the defaults restarts fall where k is a power of two and the epoch that starts at 2^t
    draws min(2^t, size) rows at each of its iterations.

    Parameters
    ----------
    restart : callable
        k ↦ whether iteration k takes the full gradient.
    batch_at : callable
        k ↦ rows to draw at iteration k.
    replace : bool, default False
        Draw with replacement.

    References
    ----------
    .. [1] C. Fang et al., "SPIDER: near-optimal non-convex optimization via stochastic
       path-integrated differential estimator", NeurIPS 2018.
    """

    needs_previous: ClassVar[bool] = True
    restart: Callable[[int], bool] = power_of_two
    batch_at: Callable[[int], int] = epoch_length
    replace: bool = False

    def coefficients(self, p: Params) -> tuple[float, float, float]:
        return 1.0, 1.0, 1.0

    def rows_now(self, p: Params, term: Term) -> int:
        return min(self.batch_at(p.k), term.map.size)

    def restarts(self, p: Params) -> bool:
        return self.restart(p.k)
