"""Options of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from condgrad._check import dimension, positive
from condgrad.errors import ProblemError


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

    Examples
    --------
    >>> Ray(shards=8, gpus_per_shard=1).address is None
    True
    """

    shards: int | None = None
    address: str | None = None
    gpus_per_shard: float = 0
    cpus_per_shard: int = 1

    def __post_init__(self) -> None:
        if self.shards is not None:
            dimension("shards", self.shards)
        dimension("cpus_per_shard", self.cpus_per_shard)
        if self.gpus_per_shard != 0:
            positive("gpus_per_shard", self.gpus_per_shard)
        if self.address is not None and not isinstance(self.address, str):
            raise ProblemError(f"address is {self.address!r}: use 'local', or 'host:port'")


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
