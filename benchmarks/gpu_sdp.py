"""Semidefinite programs with sparse and low-rank rows on a GPU beside the CPU.

    python benchmarks/gpu_sdp.py sides           max-cut relaxations of growing side, both devices
    python benchmarks/gpu_sdp.py files A.dat-s …  programs from SDPA files, both devices
    python benchmarks/gpu_sdp.py tall            one large max-cut relaxation and one with 10⁶ rows
    python benchmarks/gpu_sdp.py profile         where the time goes at side 1000

Seconds are those of `SDP.solve`, from the program in memory to the answer, after a small program
that compiles the kernels.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import sys
import time
from pathlib import Path

from condgrad.io import read_sdpa
from condgrad.sdp import SDP

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from device_programs import equations, factors, graph, max_cut, theta  # after the path

LIMIT = 40.0
"""Seconds for each run."""


def solved(name: str, sdp: SDP, device: str, gap: float = 1e-3) -> None:
    """Solve a program and print what came of it."""
    began = time.perf_counter()
    found = sdp.solve(gap=gap, max_seconds=LIMIT, device=device)
    spent = time.perf_counter() - began
    steps = 0 if found.result is None else found.result.iterations
    print(
        f"{name:<22} {sdp.layout.side:>6} {sdp.size:>8} {device:<5} {spent:8.2f} s {steps:>6} "
        f"gap {found.gap:.1e} bound {found.bound:.10g} {found.status.name.lower()}",
        flush=True,
    )


def both(name: str, sdp: SDP, gap: float = 1e-3) -> None:
    """Solve a program on both devices."""
    for device in ("cuda", "cpu"):
        solved(name, sdp, device, gap)


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["sides", "files", "tall", "profile"])
    parser.add_argument("more", nargs="*")
    given = parser.parse_args()
    solved("first", max_cut(graph(300, 0.1, 0)), "cuda")
    solved("first, low rank", factors(20, 0), "cuda")
    if given.what == "sides":
        for n in [int(side) for side in given.more] or [125, 250, 500, 1000]:
            both("max-cut", max_cut(graph(n, 10 / n, 0)))
            both("equations", equations(n // 2, 0))
            both("factors", factors(n // 2, 0))
    elif given.what == "files":
        for path in given.more:
            both(Path(path).name, SDP.from_sdpa(read_sdpa(path)))
    elif given.what == "tall":
        solved("max-cut", max_cut(graph(3000, 5 / 3000, 0)), "cuda")
        solved("theta plus", theta(graph(1500, 0.1, 0), plus=True), "cuda")
    else:
        sdp = max_cut(graph(int(given.more[0]) if given.more else 1000, 0.01, 0))
        profile = cProfile.Profile()
        profile.runcall(solved, "max-cut", sdp, "cuda")
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
