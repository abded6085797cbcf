"""Axes that show what is interesting: logarithmic or not, and from where to where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from condgrad._types import Array

SQUEEZED = 0.15
"""Share of an axis that the second half of a run takes at least; else early values are cut off."""
START = 1e-3
"""How far below the second half of a run an axis goes for its start."""


def scale_across(ax: Any, x: Array) -> None:
    """A logarithmic axis where what comes after the start spans a factor of ten."""
    later = x[x > 0]
    if later.size and later.max() >= 10 * later.min():
        ax.set_xscale("log")
    else:
        ax.xaxis.get_major_locator().set_params(nbins=6)


def scale_values(ax: Any, curves: Sequence[Array], ends: Array) -> None:
    """Limits around curves and what they should end at; logarithmic over a factor of ten.

    Parameters
    ----------
    ax : Axes
        Where they are drawn.
    curves : sequence of array
        Values in the order of their recording.
    ends : array
        Numbers that must be in sight.
    """
    values = np.concatenate([*curves, ends])
    late = np.concatenate([*(y[y.size // 2 :] for y in curves), ends])
    if not values.size:
        return
    shown = values
    if _spans(values) and _spans(late):
        squeezed = np.ptp(np.log10(late)) < SQUEEZED * np.ptp(np.log10(values))
    else:
        squeezed = _size(late) < SQUEEZED * _size(values)
    if squeezed and (size := _size(late)) > 0:
        reach = np.array([late.min() - size, late.max() + size])
        shown = np.clip(reach, values.min(), values.max())
    low, high = float(shown.min()), float(shown.max())
    if low > 0 and high / 10 >= low:
        pad = 0.05 * (np.log10(high) - np.log10(low))
        scale_log(ax, *10.0 ** np.clip([np.log10(low) - pad, np.log10(high) + pad], -307, 307))
    else:
        pad = 0.1 * (high / 2 - low / 2) or 0.05 * abs(high) or 1.0
        ax.set_ylim(low - pad, high + pad)
        ax.ticklabel_format(axis="y", useOffset=False)


def scale_positive(ax: Any, curves: Sequence[Array], least: float = 0.0) -> None:
    """A logarithmic axis for numbers that should fall; those of a feasible start are cut off.

    Parameters
    ----------
    ax : Axes
        Where they are drawn.
    curves : sequence of array
        Numbers of at least 0, in the order of their recording.
    least : float, default 0
        Where the axis ends if some are below.
    """
    values = np.concatenate([y[y > 0] for y in curves])
    if values.size:
        late = np.concatenate([y[y.size // 2 :] for y in curves])
        low = max(values.min(), START * late[late > 0].min(initial=values.max()))
        scale_log(ax, 0.8 * max(low, min(least, values.max())), 1.25 * values.max())


def scale_log(ax: Any, low: float, high: float) -> None:
    """A logarithmic axis from `low` to `high`, or somewhat beyond, so that there are labels."""
    middle = np.sqrt(low) * np.sqrt(high)
    low, high = min(low, middle / 2), max(high, 2 * middle)
    ax.set_yscale("log")
    ax.set_ylim(low, high)


def _spans(values: Array) -> bool:
    """Whether all are positive."""
    return bool(values.size and values.min() > 0)


def _size(values: Array) -> float:
    """Half of the largest less half of the smallest, which cannot overflow."""
    return float(values.max() / 2 - values.min() / 2) * 2 if values.size else 0.0
