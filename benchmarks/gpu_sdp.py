"""Semidefinite programs with sparse and low-rank rows on a GPU beside the CPU.

    python benchmarks/gpu_sdp.py sides            programs of growing side
    python benchmarks/gpu_sdp.py files A.dat-s …  programs from SDPA files
    python benchmarks/gpu_sdp.py tall             one of side 3000, and one with 10⁶ rows
    python benchmarks/gpu_sdp.py profile          where the time goes at side 1000

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


def solved(name: str, sdp: SDP, device: str, limit: float) -> None:
    """Solve a program and print what came of it."""
    began = time.perf_counter()
    found = sdp.solve(max_seconds=limit, device=device)
    spent = time.perf_counter() - began
    steps = 0 if found.result is None else found.result.iterations
    print(
        f"{name:<22} {sdp.layout.side:>6} {sdp.size:>8} {device:<5} {spent:8.2f} s {steps:>6} "
        f"gap {found.gap:.1e} bound {found.bound:.10g} {found.status.name.lower()}",
        flush=True,
    )


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["sides", "files", "tall", "profile"])
    parser.add_argument("more", nargs="*")
    parser.add_argument("--limit", type=float, default=40.0, help="seconds for each run")
    parser.add_argument("--devices", nargs="+", default=["cuda", "cpu"])
    given = parser.parse_args()
    solved("first", max_cut(graph(300, 0.1, 0)), "cuda", given.limit)
    solved("first, low rank", factors(20, 0), "cuda", given.limit)

    def each(name: str, sdp: SDP) -> None:
        for device in given.devices:
            solved(name, sdp, device, given.limit)

    if given.what == "sides":
        for n in [int(side) for side in given.more] or [125, 250, 500, 1000]:
            each("max-cut", max_cut(graph(n, 10 / n, 0)))
            each("equations", equations(n // 2, 0))
            each("factors", factors(n // 2, 0))
    elif given.what == "files":
        for path in given.more:
            each(Path(path).name, SDP.from_sdpa(read_sdpa(path)))
    elif given.what == "tall":
        solved("max-cut", max_cut(graph(3000, 5 / 3000, 0)), "cuda", given.limit)
        solved("theta plus", theta(graph(1500, 0.1, 0), plus=True), "cuda", given.limit)
    else:
        sdp = max_cut(graph(int(given.more[0]) if given.more else 1000, 0.01, 0))
        profile = cProfile.Profile()
        profile.runcall(solved, "max-cut", sdp, "cuda", given.limit)
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
