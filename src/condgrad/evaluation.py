"""Objective and infeasibility of a point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

ROWS = 10.0
"""A single row may be missed by this many times `feasibility`, unless it is said otherwise."""


class Violation(NamedTuple):
    """Violation of one constraint family: r = z − proj z in five measures."""

    l2: float
    """‖r‖₂."""
    max: float
    """‖r‖_∞."""
    relative: float = 0.0
    """‖r‖₂ / (1 + max(‖z‖₂, ‖b‖₂)), b the finite data of the family."""
    scaled: float = 0.0
    """‖r‖₂ / (2 max(‖z‖₂, ‖b‖₂, c)), c a tenth of the largest row norm times the domain's diameter:
    without the 1, so that the unit of the rows does not matter, and never above `relative` where
    ‖z‖₂ or ‖b‖₂ is at least 1."""
    row: float = 0.0
    """max_l |r_l| / s_l, the worst single row, in units of its limit: s_l = max(|b_l|, ‖a_l‖ w),
    w = ‖W‖₂/√(entries of W) the size of an entry. Where b_l = 0 what rows read takes its place,
    s_l = ‖a_l‖ max(w, ‖z‖₂/(√rows · max ‖a‖)). Where all rows make one constraint ‖r‖₂ takes the
    place of |r_l| (`functions.L2Ball`: relative to its radius)."""


def worst(families: Mapping[str, Violation]) -> float:
    """The largest relative infeasibility of a family, with the 1 and without; 0 for no family."""
    return max((max(v.relative, v.scaled) for v in families.values()), default=0.0)


def worst_row(families: Mapping[str, Violation]) -> float:
    """The largest relative infeasibility of a single row; 0 for no family."""
    return max((v.row for v in families.values()), default=0.0)


def missed(families: Mapping[str, Violation]) -> str:
    """The relative infeasibility that decides, as text: that of a family or of a single row."""
    family, row = worst(families), worst_row(families)
    return f"of the worst row {row:.2g}" if row > ROWS * family else f"{family:.2g}"


def families_of(row: Mapping[str, float]) -> dict[str, Violation]:
    """The families of a row of a trace, by the columns ``NAME.l2``, ``NAME.max``, …."""
    names = [name.removesuffix(".relative") for name in row if name.endswith(".relative")]
    measures = Violation._fields
    return {
        name: Violation(*(row[f"{name}.{measure}"] for measure in measures))
        for name in names
        if all(f"{name}.{measure}" in row for measure in measures)
    }


@dataclass(frozen=True)
class Evaluation:
    """Objective and infeasibility of one point."""

    objective: float
    families: dict[str, Violation]
    infeasibility: float

    @property
    def worst(self) -> float:
        """The largest relative infeasibility of a family, with the 1 and without."""
        return worst(self.families)

    @property
    def worst_row(self) -> float:
        """The largest relative infeasibility of a single row."""
        return worst_row(self.families)

    @property
    def finite(self) -> bool:
        """Whether both numbers are."""
        return bool(np.isfinite(self.objective) and np.isfinite(self.infeasibility))
