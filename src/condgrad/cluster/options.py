"""Options of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from condgrad.errors import ProblemError

WIRES = ("auto", "float32")


@dataclass(frozen=True)
class Ray:
    """A Ray cluster to which the rows of large terms are dealt (docs/cluster.md).

    Parameters
    ----------
    shards : int, optional
        Actors that the rows are dealt to. Default: as many as the cluster has GPUs or CPUs free for
        them.
    address : str, optional
        ``"local"``: this machine; ``"host:port"`` or ``"ray://host:port"``: a cluster that runs
        there. Default: the one that this process is connected to, or that ``RAY_ADDRESS`` names,
        else this machine.
    gpus_per_shard : float, default 0
        GPUs of an actor; with any, tables and passes are on the GPU.
    cpus_per_shard : int, default 1
        CPUs of an actor, and its threads.
    checkpoint : path, optional
        A folder that all nodes see, for the tables: every actor writes its own there, and one that
        dies is restarted with what it wrote last. Without it it begins with empty multipliers, and
        checkpoints of the run collect all tables in their file.
    every : float, default 60
        Seconds between two times that they are written.
    wire : {"auto", "float32"}
        Precision in which W and cotangents travel at every iteration: that of the tables and of W,
        or single. Bounds are summed in float64 and travel so, whatever this is.
    staleness : int, default 0
        Passes that an actor may be behind before the others wait for it, where rows are drawn; what
        it has contributed stays as it was until it answers. Passes over all rows always wait. With
        0 all do, and the same seed and number of shards give the same bits; otherwise that depends
        on who is fast.

    Examples
    --------
    >>> Ray(shards=8, gpus_per_shard=1).address is None
    True
    """

    shards: int | None = None
    address: str | None = None
    gpus_per_shard: float = 0
    cpus_per_shard: int = 1
    checkpoint: str | PathLike[str] | None = None
    every: float = 60.0
    wire: str = "auto"
    staleness: int = 0

    def __post_init__(self) -> None:
        for name, least in (("shards", 1), ("cpus_per_shard", 1), ("staleness", 0)):
            value = getattr(self, name)
            whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
            if not (whole and value >= least) and not (name == "shards" and value is None):
                raise ProblemError(
                    f"{name} is {value!r}: it must be a whole number of at least {least}"
                )
        for name in ("gpus_per_shard", "every"):
            value = getattr(self, name)
            number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
            if not (number and 0 <= value < np.inf):
                raise ProblemError(f"{name} is {value!r}: it must be a number of at least 0")
        if self.wire not in WIRES:
            raise ProblemError(f"wire is {self.wire!r}: use 'auto' or 'float32'")
        if self.address is not None and not isinstance(self.address, str):
            raise ProblemError(f"address is {self.address!r}: use 'local', or 'host:port'")
        if self.checkpoint is not None and not isinstance(self.checkpoint, (str, PathLike)):
            raise ProblemError(f"checkpoint is {self.checkpoint!r}: it must be a folder's path")


def cluster_of(value: Any) -> Ray | None:
    """Options for ``"ray"``, ``"local"``, an address, a `Ray` or None.

    Examples
    --------
    >>> cluster_of("ray") == Ray(), cluster_of("local").address
    (True, 'local')
    """
    if value is None or isinstance(value, Ray):
        return value
    if value == "ray":
        return Ray()
    if isinstance(value, str) and (value in ("local", "auto") or ":" in value):
        return Ray(address=None if value == "auto" else value)
    raise ProblemError(
        f"cluster is {value!r}: use 'ray', 'local', an address 'ray://host:port', or "
        "condgrad.cluster.Ray(shards=…)"
    )
