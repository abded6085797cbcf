"""Estimators of a term's gradient: the parts that methods are composed of.

Every term is differentiable after smoothing, with slopes y_l = h'_l(z_l) or y_l = h'_{β,l}(z_l),
and its gradient is ω A*y. An estimator keeps an estimate of A*y in the map's cotangent storage. It
does not care whether the term is a loss or a constraint.
"""

from condgrad.estimators._base import Estimator, Full, Sampled, State
from condgrad.estimators.anchored import Anchored, AnchoredState
from condgrad.estimators.multipliers import Augmented, AugmentedState, SagAugmented, TableState
from condgrad.estimators.primal_dual import Ascent, DualState
from condgrad.estimators.recursive import Momentum, Recursive, Spider, Storm
from condgrad.estimators.relaxed import Relaxed, RelaxedState
from condgrad.estimators.sag import SAG, SagState

__all__ = [
    "SAG",
    "Anchored",
    "AnchoredState",
    "Ascent",
    "Augmented",
    "AugmentedState",
    "DualState",
    "Estimator",
    "Full",
    "Momentum",
    "Recursive",
    "Relaxed",
    "RelaxedState",
    "SagAugmented",
    "SagState",
    "Sampled",
    "Spider",
    "State",
    "Storm",
    "TableState",
]
