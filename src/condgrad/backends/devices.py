"""Devices that keep the arrays of a run: the memory of the process, or a GPU by CuPy."""

from __future__ import annotations

import importlib
from typing import Any

from condgrad._types import Array
from condgrad.backends.arrays import foreign
from condgrad.errors import ProblemError

DEVICES = ("cpu", "cuda", "auto")
"""Devices that a user can name."""
WORTH = 5_000_000
"""Number of rows from which ``"auto"`` takes a GPU."""
WIDE = 500
"""Side of a matrix, or of its largest block, from which ``"auto"`` takes a GPU."""
HOW = "install cupy-cuda12x or cupy-cuda13x, whichever suits the driver, or use device='cpu'"


def check_device(device: Any) -> None:
    """Refuse a device that is none."""
    if device not in DEVICES:
        raise ProblemError(f"device is {device!r}: choose one of {', '.join(DEVICES)}")


def device_of(array: Array) -> str:
    """Name of the device of an array, for people."""
    return f"cuda ({gpu_name()})" if foreign(array) else "cpu"


def on_gpu() -> Array:
    """An array on the GPU, as others are made ``like=``.

    Raises
    ------
    ProblemError
        Where there is no CuPy or no GPU: the sentence says what to change.
    """
    try:
        cupy = importlib.import_module("cupy")
    except ImportError as error:
        raise ProblemError(
            f"device is 'cuda', but CuPy cannot be imported ({error}): {HOW}"
        ) from None
    try:
        count = int(cupy.cuda.runtime.getDeviceCount())
    except Exception as error:  # the driver's own types
        raise ProblemError(
            f"device is 'cuda', but CuPy finds no GPU ({error}): use device='cpu'"
        ) from None
    if count == 0:
        raise ProblemError("device is 'cuda', but CuPy finds no GPU: use device='cpu'")
    array: Array = cupy.empty(0)
    return array


def any_gpu() -> bool:
    """Whether CuPy finds a GPU."""
    try:
        on_gpu()
    except ProblemError:
        return False
    return True


def gpu_name() -> str:
    """The name of the GPU in use."""
    cupy = importlib.import_module("cupy")
    found = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())["name"]
    return found.decode() if isinstance(found, bytes) else str(found)


def free_memory() -> float:
    """Bytes that a run can still have on the GPU."""
    cupy = importlib.import_module("cupy")
    return float(cupy.cuda.runtime.memGetInfo()[0] + cupy.get_default_memory_pool().free_bytes())
