"""Compiled kernels, and the one place that decides who runs them.

The contract (every name exists in `_reference`, slow and obvious, and in `_numba`, compiled):

===========================  ====================================================================
`fresh`                      keep the ids not seen yet, mark them, say how many are kept
`forget`                     clear the marks of given ids
`fresh_rows`                 both for many draws in one call
`take`, `add_at`             x[index], x[index] += y with repeats counted each time
`dot_at`                     ⟨x[index], y⟩
`axpy`, `axpy_at`            out += weight·y, out[index] += weight·y, without a temporary
`interval_slope`             slopes of a box or a distance, written where they belong,
`absolute_slope`             one pass
`masked_squares`             Σ z² over the rows with a slope
`signed_sums`                Σ max(y, 0) and Σ max(−y, 0)
`interval_dual`              slopes at z + βy and the multipliers' step towards them
`triangle_dual`              the same for a range of triangle rows, G kept up to date
`triangle_miss`              how far a range of triangle rows is from an interval
`triangle_merit`             the sums of the augmented Lagrangian over such a range
`triangle_squares`           length of the images of a step over the rows with a slope
`triangle_pair`              A*y of such a range, with the sums that a lower bound needs
`table_swap`                 overwrite table rows one after the other, return what changed
`hash_swap`, `hash_grow`     the same for a table that holds only touched rows
`triangle_gather/scatter`    rows of the triangle map at given ids
`triangle_sweep/add`         the same for a contiguous range of ids
`csr_gather/scatter`         drawn rows of a CSR matrix against a vector
`dense_gather/scatter`       drawn rows of a dense matrix against a vector
`row_gather`                 sums of drawn rows
`rank_one_step`              W ← keep·W + c·u vᵀ in place
`gram_product`               VᵀV x, V read once
`symmetrise`                 V ← (V + Vᵀ)/2 in place
`vector_sag`                 iterations of SAG Frank-Wolfe on a data matrix, many in one call
`lanczos`                    lowest Ritz pair of V, or of −VᵀV
===========================  ====================================================================

`ops` resolves to the compiled module where numba is installed and to the reference otherwise. It is
loaded at the first use of a kernel, so that `import condgrad` stays quick. Set the environment
variable `CONDGRAD_BACKEND` to `numba` or `reference` to choose.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from types import ModuleType
from typing import Any


class _Ops:
    """Loads the kernels at first use."""

    _module: ModuleType | None = None

    def __getattr__(self, name: str) -> Any:
        if self._module is None:
            self._module = importlib.import_module(f"condgrad.backends._{backend()}")
        kernel = getattr(self._module, name)
        setattr(self, name, kernel)
        return kernel


def backend() -> str:
    """Name of the kernels in use: ``"numba"`` or ``"reference"``."""
    wanted = os.environ.get("CONDGRAD_BACKEND", "")
    if wanted not in ("", "numba", "reference"):
        raise ImportError(f"CONDGRAD_BACKEND is {wanted!r}: set it to 'numba' or 'reference'")
    return wanted or ("numba" if importlib.util.find_spec("numba") else "reference")


ops: Any = _Ops()


def compile_seconds() -> float:
    """Seconds spent compiling kernels in this process so far; 0 without numba."""
    module = ops._module if isinstance(ops, _Ops) else None
    return float(getattr(module, "compile_seconds", float)())
