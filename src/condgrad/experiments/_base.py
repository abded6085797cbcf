"""Parts of an experiment: instances, figures, jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from condgrad.applications import Application


@dataclass(frozen=True)
class Instance:
    """A problem of a figure: how to build it, and what is known about it."""

    name: str
    build: Callable[[str], Application]
    """preset ↦ application."""
    optimum: float | None = None
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Published end values by method and column of the trace."""
    curves: str | None = None
    """Published curves: file in the folder `paper-curves` of the data."""
    at: float | None = None
    """Position of the instance on a path of instances, such as its radius."""


@dataclass(frozen=True)
class Figure:
    """A figure of the paper, or one beyond it."""

    name: str
    title: str
    instances: tuple[Instance, ...]
    embedded: tuple[Instance, ...]
    """Instances that need no data file."""
    methods: tuple[str, ...]
    """Methods of the paper's figure."""
    columns: tuple[str, ...]
    """Columns of the trace that are drawn."""
    unit: str
    """Limit that ends a run, ``"max_epochs"`` or ``"max_iter"``."""
    length: float
    quick: float
    presets: tuple[str, ...] = ("paper", "published")
    beta0s: tuple[float, ...] = ()
    """A grid of β0 that every method gets; empty: the preset's value."""
    along: str = ""
    """Meaning of `Instance.at`, if the instances form a path."""


@dataclass(frozen=True)
class Job:
    """One run: everything that decides it, and nothing else."""

    figure: str
    instance: str
    embedded: bool
    preset: str
    method: str
    beta0: float | None
    seed: int
    unit: str
    length: float
    dtype: str = "float64"

    @property
    def key(self) -> str:
        """Path of the stored run, without ending."""
        beta0 = "" if self.beta0 is None else f"-beta0_{self.beta0:g}"
        dtype = "" if self.dtype == "float64" else f"-{self.dtype}"
        return (
            f"{self.figure}/{self.instance}/{self.preset}/{self.method}{beta0}{dtype}"
            f"-{self.unit}_{self.length:g}-seed_{self.seed}"
        )
