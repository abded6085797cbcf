"""The options of a cluster, and Ray itself: imported if it is asked for, connected to once."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from condgrad._check import dimension, positive
from condgrad.backends import threads
from condgrad.errors import ProblemError

REACH = 5.0
"""Seconds in which an address must answer."""
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
"""Variables that silence Ray."""


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
    if isinstance(value, str) and (value == "local" or ":" in value):
        return Ray(address=value)
    raise ProblemError(
        f"cluster is {value!r}: use 'ray', 'local', an address 'ray://host:port', or "
        "condgrad.cluster.Ray(shards=…)"
    )


def connected(wish: Ray) -> ModuleType:
    """Ray, connected to the cluster that is asked for.

    Raises
    ------
    ProblemError
        If it is not installed, or nothing answers at the address.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError:
        raise ProblemError(
            "cluster needs Ray, which is not installed: pip install 'condgrad[ray]', or leave "
            "cluster out"
        ) from None
    if ray.is_initialized():
        here, given = ray.get_runtime_context().gcs_address, wish.address or "local"
        named = given != "local" and "//" not in given
        if named and given.rpartition(":")[2] != here.rpartition(":")[2]:
            raise ProblemError(
                f"address is {given!r}, but this process is connected to the cluster at {here}: "
                "leave it out, or call ray.shutdown()"
            )
        return ray
    address = wish.address or os.environ.get("RAY_ADDRESS") or "local"
    how: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address == "local":
        cpus = (wish.shards or 1) * wish.cpus_per_shard
        how |= {"num_cpus": max(threads.available(), cpus), "include_dashboard": False}
    elif address != "auto":
        _require_answer(address)
    try:
        with _as_it_was(address == "local"):
            ray.init(address=address, **how)
    except (Exception, SystemExit) as error:
        raise ProblemError(
            f"the Ray cluster at {address!r} could not be reached ({short(error)}): see that it "
            "runs (ray status) with this version of Ray and Python"
        ) from None
    return ray


@contextlib.contextmanager
def _as_it_was(alone: bool) -> Iterator[None]:
    """With the handler of SIGTERM afterwards that Ray takes for itself.

    If this machine is `alone`, Ray has its loopback address. It listens on all interfaces unless
    its node has that, and gives it to a node if clusters of several machines are out of the
    question for it; `_node_ip_address` it overrides.
    """
    from ray._private import ray_constants

    several, handler = ray_constants.ENABLE_RAY_CLUSTER, signal.getsignal(signal.SIGTERM)
    ray_constants.ENABLE_RAY_CLUSTER = several and not alone
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = several
        main = threading.current_thread() is threading.main_thread()
        if main and handler is not None:  # None: set by other than Python
            signal.signal(signal.SIGTERM, handler)


def _require_answer(address: str) -> None:
    """Refuse an address that does not answer; Ray would try for minutes."""
    try:
        place = urlsplit(address if "://" in address else f"ray://{address}")
        socket.create_connection((place.hostname, place.port), REACH).close()
    except (OSError, ValueError) as error:
        raise ProblemError(
            f"nothing answers at the address {address!r} ({error}): start Ray there, or use "
            "'local', 'host:port' or 'ray://host:port'"
        ) from None


def short(error: BaseException) -> str:
    """The first line of a fault that Ray reports."""
    line = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {line[:200]}"
