"""Compiled kernels, and the one place that decides who runs them.

`contract.CONTRACT` lists every kernel. Each exists in `_reference`, slow and obvious, and in
`_numba`, compiled; tests compare the list with both, and the twins with each other.

`ops` resolves to the compiled module where numba is installed and to the reference otherwise. It is
loaded at the first use of a kernel, so that `import condgrad` stays quick. Set the environment
variable `CONDGRAD_BACKEND` to `numba` or `reference` to choose.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from types import ModuleType
from typing import Any

import numpy as np

from condgrad._signals import held
from condgrad.backends.arrays import home


class _Ops:
    """Loads the kernels at first use."""

    _module: ModuleType | None = None

    def __getattr__(self, name: str) -> Any:
        if self._module is None:
            with held():
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
"""Operations on NumPy arrays."""
OTHERS: dict[str, str] = {"cupy": "condgrad.backends._cupy"}
"""Modules with kernels for other arrays, by the package that these come from."""


def kernels(array: Any) -> Any:
    """The kernels for arrays of a type: it picks them, NumPy's are compiled by Numba."""
    if isinstance(array, np.ndarray):
        return ops
    package = home(array)
    if package not in OTHERS:
        raise TypeError(f"there are no kernels for arrays of {package}: pass NumPy arrays")
    return importlib.import_module(OTHERS[package])


def compile_seconds() -> float:
    """Seconds spent compiling kernels in this process so far; 0 without numba."""
    module = ops._module if isinstance(ops, _Ops) else None
    used = [module, *(sys.modules.get(name) for name in OTHERS.values())]
    return sum(float(getattr(m, "compile_seconds", float)()) for m in used)
