"""Faults of a cluster, in words."""

from __future__ import annotations

from typing import Any

from condgrad.errors import MemoryLimit, ProblemError


def short(error: BaseException) -> str:
    """Fault that Ray reports, in few words."""
    text = " ".join(str(error).split())
    name = type(error).__name__
    if "OutOfMemory" in name or "low on memory" in text or "OOM" in text.split("Some common")[0]:
        return "its node was out of memory"
    if "node has died" in text or "NodeDied" in name:
        return "its node was lost"
    if "died" in text or "Died" in name:
        return "its process died"
    return f"{name}: {text[:120]}" if text else name


def within(error: Any, who: str) -> BaseException:
    """Fault within an actor, as it would have been raised here."""
    cause: BaseException = error.cause
    if isinstance(cause, MemoryError):
        return MemoryError(f"{who} of the cluster had no memory left ({short(cause)})")
    if isinstance(cause, MemoryLimit):
        remedy = str(cause).removeprefix(f"{cause.figures}: ")
        return MemoryLimit(f"{who} of the cluster: {cause.figures}", f"{remedy}, or add nodes")
    if isinstance(cause, ProblemError):
        return ProblemError(f"{who} of the cluster: {cause}")
    return cause
