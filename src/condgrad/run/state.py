"""All that an iteration reads or writes."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from condgrad._types import Array, Params
from condgrad.backends.arrays import foreign
from condgrad.methods.control import BalanceState
from condgrad.methods.primal_dual import WeightState
from condgrad.methods.projected import RatioState
from condgrad.points.dense import Dense
from condgrad.rows import Keeper
from condgrad.run import vector_loop


@dataclass
class RunState:
    """All that an iteration reads or writes."""

    W: Dense
    v: Array
    """The direction, written anew at every iteration."""
    terms: list[Keeper]
    """Keepers of the rows of every term, with tables of them."""
    step: Any
    """State of the step."""
    control: BalanceState | WeightState | RatioState | None
    """State of control, if the method has one."""
    rng: np.random.Generator
    vector: vector_loop.Scaled | None = None
    """W as the compiled loop keeps it, if that runs."""
    k: int = 0
    """Number of iterations done."""
    params: Params | None = None
    """Scalars of the latest iteration."""
    lmo_calls: int = 0
    """Number of oracle calls."""
    matvecs: int = 0
    """Number of products with a direction that the oracle calls took."""

    def listed(self) -> dict[str, Any]:
        """Every array and number by its place, such as ``terms[0].G``; the rng by its own state."""
        found: dict[str, Any] = {}
        for f in fields(self):
            found.update(_listed(f.name, getattr(self, f.name)))
        return found


def _listed(name: str, value: Any) -> dict[str, Any]:
    """The arrays and numbers of a part."""
    if isinstance(value, np.random.Generator):
        return {name: value.bit_generator.state}
    plain = (bool, int, float, str, np.ndarray, np.number, slice)
    if value is None or isinstance(value, plain) or foreign(value):
        return {name: value}
    if isinstance(value, (list, tuple)):
        parts = {f"{name}[{i}]": part for i, part in enumerate(value)}
    elif isinstance(value, Keeper):
        parts = {f"{name}.{key}": part for key, part in value.arrays().items()}
    elif is_dataclass(value):
        parts = {f"{name}.{f.name}": getattr(value, f.name) for f in fields(value)}
    else:
        transient = getattr(type(value), "_transient", ())
        own = {key: part for key, part in vars(value).items() if key not in transient}
        parts = {f"{name}.{key}": part for key, part in own.items()}
    found: dict[str, Any] = {}
    for place, part in parts.items():
        found.update(_listed(place, part) if not isinstance(part, type) else {})
    return found
