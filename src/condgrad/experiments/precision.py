"""How much float32 changes the curves, against the spread over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from condgrad._types import Array
from condgrad.experiments.figures import Job
from condgrad.experiments.summary import groups
from condgrad.run.result import Trace

COLUMNS = ("objective", "train_rmse", "test_rmse", "infeasibility")


def compare(folder32: Path, folder64: Path, jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """Compare the means over seeds of float32 and float64 runs.

    Parameters
    ----------
    folder32, folder64 : Path
        Where the runs of each precision are kept.
    jobs : sequence of Job
        From `plan`; their own precision does not matter. A seed that lacks one of its two runs is
        left out.

    Returns
    -------
    list of dict
        One row per setting and column with ``over_std``, the largest |mean32 − mean64|/std64 over
        the iterations k ≥ 1 that all runs recorded, ``k``, where that is, and ``relative``, the
        largest |mean32 − mean64|/|mean64|. ``over_std`` is infinite where the float64 runs agree
        and the float32 runs do not, and NaN for a single seed.
    """
    single = groups([replace(job, dtype="float32") for job in jobs], folder32)
    double = groups([replace(job, dtype="float64") for job in jobs], folder64)
    table = []
    for key, runs in double.items():
        by_seed = {job.seed: trace for job, trace in single.get(key._replace(dtype="float32"), [])}
        pairs = [(by_seed[job.seed], trace) for job, trace in runs if job.seed in by_seed]
        if not pairs:
            continue
        about = {**key._asdict(), "seeds": len(pairs)}
        del about["dtype"]
        for name in COLUMNS:
            if name in pairs[0][1].columns:
                table.append({**about, "column": name, **_difference(pairs, name)})
    return table


def _difference(pairs: list[tuple[Trace, Trace]], name: str) -> dict[str, float]:
    k = reduce(np.intersect1d, [trace["k"] for pair in pairs for trace in pair])
    k = k[k > 0]
    values32 = np.array([_at(k, trace, name) for trace, _ in pairs])
    values64 = np.array([_at(k, trace, name) for _, trace in pairs])
    mean = values64.mean(axis=0)
    gap = np.abs(values32.mean(axis=0) - mean)
    std = values64.std(axis=0, ddof=1) if len(pairs) > 1 else np.full(k.size, np.nan)
    over_std, relative = _ratio(gap, std), _ratio(gap, np.abs(mean))
    worst = int(np.argmax(over_std))
    return {
        "over_std": float(over_std[worst]),
        "k": float(k[worst]),
        "relative": float(relative.max()),
    }


def _at(k: Array, trace: Trace, name: str) -> Array:
    return trace[name][np.isin(trace["k"], k)]


def _ratio(gap: Array, scale: Array) -> Array:
    """gap/scale, 0 where both are 0."""
    with np.errstate(divide="ignore"):
        return np.divide(gap, scale, out=np.zeros_like(gap), where=(gap != 0) | (scale != 0))
