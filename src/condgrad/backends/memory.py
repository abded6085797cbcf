"""Memory that a run will take, known before any of it is taken."""

from __future__ import annotations

import os
from pathlib import Path

from condgrad.errors import MemoryLimit

GIB = float(1 << 30)
OTHER = 64 << 20
"""Buffers of fixed size and the allocator's own."""


def require_room(
    needed: int, remedy: str, what: str = "", free: float | None = None, where: str = "memory"
) -> None:
    """Refuse a run whose arrays will not fit into the free memory.

    Parameters
    ----------
    needed : int
        Bytes of its arrays; `OTHER` is added.
    remedy : str
        The way to take less.
    what : str
        The largest of the arrays.
    free : float, optional
        Bytes that are free; default: as many as for the process.
    where : str
        The memory that these are of.

    Raises
    ------
    MemoryLimit
        With both figures and the remedy.
    """
    free = free_memory() if free is None else free
    if needed + OTHER > free:
        arrays = f" for {what}" if what else ""
        raise MemoryLimit(
            f"this run needs {size(needed + OTHER)} of {where}{arrays}, but {size(free)} are free",
            remedy,
        )


def shortage(error: MemoryError) -> str:
    """Sentence for a shortage of memory in the middle of a run, with a remedy."""
    what = " ".join(str(error).split()) or "an array could not be made"
    return (
        f"{what}, with {size(free_memory())} free: close other programs, raise the limit on the "
        "memory of this one, or solve a smaller problem"
    )


def size(number: float) -> str:
    """Bytes for people.

    Examples
    --------
    >>> size(3.2e9), size(5e6), size(2.75e12)
    ('2.98 GiB', '4.77 MiB', '2,561 GiB')
    """
    if number >= 1000 * GIB:
        return f"{number / GIB:,.0f} GiB"
    return f"{number / GIB:.3g} GiB" if number >= GIB else f"{number / (1 << 20):.3g} MiB"


def free_memory() -> float:
    """Bytes that this process can still have, infinite where the system does not tell.

    The least of what the machine has free, what its control group allows and what a limit on the
    address space (``ulimit -v``) leaves.
    """
    return min(_machine(), _group(), _limit())


def _machine() -> float:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(1024.0 * int(l.split()[1]) for l in lines if l.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration):
        pass
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return float("inf")


def _group() -> float:
    try:
        top = Path("/sys/fs/cgroup")
        own = Path("/proc/self/cgroup").read_text(encoding="ascii").strip().split(":")[-1]
        folder = top / own.lstrip("/")
        folder = folder if (folder / "memory.max").exists() else top
        most = (folder / "memory.max").read_text(encoding="ascii").strip()
        used = (folder / "memory.current").read_text(encoding="ascii")
        return float("inf") if most == "max" else max(0.0, float(int(most) - int(used)))
    except (OSError, ValueError):
        return float("inf")


def _limit() -> float:
    try:
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        used = pages * os.sysconf("SC_PAGE_SIZE")
        return float("inf") if most == resource.RLIM_INFINITY else max(0.0, float(most - used))
    except (AttributeError, ImportError, OSError, ValueError):
        return float("inf")
