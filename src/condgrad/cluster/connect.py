"""Ray itself: imported if it is asked for, connected to once, its faults as sentences."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import warnings
from types import ModuleType
from typing import Any

from condgrad.backends import threads
from condgrad.cluster.options import Ray
from condgrad.errors import MemoryLimit, ProblemError

REACH = 5.0
"""Seconds in which an address must answer."""
DIRECT = 1_200_000
"""Bytes up to which an answer comes with the reply to a call. Ray passes on all above 100 kB by its
store, which takes a millisecond more and is worth that for large answers only."""
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
"""Variables that silence Ray."""


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
        plain = given != "local" and not given.startswith("ray://")
        if plain and given.rpartition(":")[2] != here.rpartition(":")[2]:
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
        how["_system_config"] = {"max_direct_call_object_size": DIRECT}
    else:
        _require_answer(address)
    try:
        with warnings.catch_warnings(), _own_signals(), _loopback(address == "local"):
            warnings.simplefilter("ignore")
            ray.init(address=address, ignore_reinit_error=True, **how)
    except (Exception, SystemExit) as error:
        raise ProblemError(
            f"the Ray cluster at {address!r} could not be reached ({short(error)}): see that it "
            "runs (ray status) with this version of Ray and Python"
        ) from None
    return ray


@contextlib.contextmanager
def _loopback(alone: bool) -> Any:
    """With the loopback address as that of this machine if it is `alone`.

    Ray listens on all interfaces unless its node has that address, and gives it to a node if it
    takes clusters of several machines to be out of the question; `_node_ip_address` it overrides.
    """
    from ray._private import ray_constants

    kept = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = kept and not alone
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = kept


@contextlib.contextmanager
def _own_signals() -> Any:
    """With the handlers of this process for signals that Ray would take for itself."""
    main = threading.current_thread() is threading.main_thread()
    kept = {s: signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT) if main}
    try:
        yield
    finally:
        for number, handler in kept.items():
            if handler is not None:  # None: set by other than Python
                signal.signal(number, handler)


def _require_answer(address: str) -> None:
    """Refuse an address at which nobody listens; Ray would try for minutes."""
    plain = address.removeprefix("ray://").split("/")[0]
    if plain == "auto":
        return
    name, _, port = plain.rpartition(":")
    try:
        socket.create_connection((name.strip("[]"), int(port)), REACH).close()
    except ValueError:
        raise ProblemError(
            f"address is {address!r}: use 'local', 'host:port' or 'ray://host:port'"
        ) from None
    except (OSError, OverflowError) as error:
        raise ProblemError(
            f"nothing answers at the address {address!r} ({error}): start Ray there, or use 'local'"
        ) from None


def short(error: BaseException) -> str:
    """The first line of a fault that Ray reports."""
    line = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {line[:200]}"


def within(error: Any) -> BaseException:
    """A fault within an actor, as it would have been raised here."""
    cause: BaseException = error.cause
    if isinstance(cause, MemoryLimit):
        return MemoryLimit("a shard of the cluster", f"{cause}, or add nodes")
    for kind in (MemoryError, ProblemError):
        if isinstance(cause, kind):
            return kind(f"a shard of the cluster: {cause}")
    return cause
