"""Passes over triangle rows on a GPU.

    python benchmarks/kernels/gpu.py passes   milliseconds and bandwidth of each pass
    python benchmarks/kernels/gpu.py share    time of a run outside of passes and certificates

Bytes are those of the tables that a pass must read and write; its time is that of the whole call,
with everything around the kernel and the copy of its sums to the CPU. Copy bandwidth is that of a
copy of 4 GiB on the same GPU in the same process.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import cupy as cp
import numpy as np

import condgrad as cg
from condgrad.backends import _cupy, devices, tiles
from condgrad.methods import Method
from condgrad.passes import fused

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from on_gpu import planted  # after the path

REPEATS = 7


def seconds(call, repeats: int = REPEATS) -> float:
    """The median time of a call, after one that is not timed."""
    call()
    spent = []
    for _ in range(repeats):
        cp.cuda.Device().synchronize()
        began = time.perf_counter()
        call()
        cp.cuda.Device().synchronize()
        spent.append(time.perf_counter() - began)
    return statistics.median(spent)


def copy_bandwidth() -> float:
    """Bytes read and written a second."""
    a = cp.random.default_rng(0).standard_normal(1 << 29)
    b = cp.empty_like(a)
    return 2 * a.nbytes / seconds(lambda: cp.copyto(b, a))


def passes(n: int, real: type) -> tuple[int, dict[str, tuple[float, Callable[[], object]]]]:
    """The bytes of a table; how often each pass goes through it, and the pass."""
    own, pairs = _cupy.fused("triangle_sweep", "triangle_add"), (n - 1) * (n - 2) // 2
    x = np.random.default_rng(0).standard_normal((n, 5))
    W, G, size = cp.asarray(x @ x.T), cp.zeros((n, n)), n * pairs
    y, slopes = (cp.zeros(tiles.entries(n), real) for _ in range(2))
    fifth, whole, ends = [[0, n // 5 * pairs]], [[0, size]], (-np.inf, 0.0)
    return y.nbytes, {
        "ascend": (2.0, lambda: own.ascend(W, G, y, whole, *ends, 10.0)),
        "ascend, a fifth": (0.4, lambda: own.ascend(W, G, y, fifth, *ends, 10.0)),
        "dual": (4.0, lambda: own.dual(W, G, y, slopes, whole, *ends, 10.0, 0.5)),
        "dual, a fifth": (0.8, lambda: own.dual(W, G, y, slopes, fifth, *ends, 10.0, 0.5)),
        "pair": (1.0, lambda: own.pair(W, False, G, y, 0, size, 0.0, np.inf)),
        "pair with images": (1.0, lambda: own.pair(W, True, G, y, 0, size, 0.0, np.inf)),
        "miss": (0.0, lambda: own.miss(W, 0, size, *ends)),
        "merit": (1.0, lambda: own.merit(W, y, 0, size, *ends, 10.0)),
        "squares": (1.0, lambda: own.squares(W, slopes, whole)),
        "square": (1.0, lambda: _cupy.triangle_square(y)),
    }


def kernels(sides: list[int], real: type) -> None:
    """A table of the passes."""
    copy = copy_bandwidth()
    print(f"copy {copy / 1e12:.2f} TB/s")
    print(f"{'n':>5} {'pass':<22} {'ms':>8} {'TB/s':>6} {'of copy':>8}")
    for n in sides:
        table, calls = passes(n, real)
        for name, (times, call) in calls.items():
            spent = seconds(call)
            rate = times * table / spent
            share = f"{100 * rate / copy:.0f} %" if times else ""
            print(f"{n:>5} {name:<22} {1e3 * spent:8.3f} {rate / 1e12:6.2f} {share:>8}", flush=True)
        del calls, call
        cp.get_default_memory_pool().free_all_blocks()


class Shares:
    """The time of passes, by events on the GPU, and of certificates, by the clock.

    There is a wait before and after a certificate, and none around a pass: what the CPU does while
    a pass runs is not counted twice.
    """

    def __init__(self) -> None:
        self.events: list[tuple[cp.cuda.Event, cp.cuda.Event]] = []
        self.certificates, self._inside = 0.0, False
        for owner in (fused.Fused, fused.Tiled):
            for name in ("renew", "ascend", "squares", "miss", "merit", "pair", "collect", "price"):
                if name in vars(owner):
                    setattr(owner, name, self._wrapped(getattr(owner, name), self._passed))
        for name in ("measure", "ray"):
            setattr(Method, name, self._wrapped(getattr(Method, name), self._proved))

    def _wrapped(self, function: Callable, timed: Callable) -> Callable:
        def call(*given, **options):
            if self._inside:
                return function(*given, **options)
            self._inside = True
            try:
                return timed(lambda: function(*given, **options))
            finally:
                self._inside = False

        return call

    def _passed(self, call: Callable) -> object:
        self.events.append((cp.cuda.Event(), cp.cuda.Event()))
        self.events[-1][0].record()
        found = call()
        self.events[-1][1].record()
        return found

    def _proved(self, call: Callable) -> object:
        cp.cuda.Device().synchronize()
        began = time.perf_counter()
        found = call()
        cp.cuda.Device().synchronize()
        self.certificates += time.perf_counter() - began
        return found

    def shown(self, name: str, call: Callable) -> None:
        """Run something and say what its time went into."""
        self.certificates = 0.0
        self.events.clear()
        cp.cuda.Device().synchronize()
        began = time.perf_counter()
        call()
        cp.cuda.Device().synchronize()
        total = time.perf_counter() - began
        passes = sum(cp.cuda.get_elapsed_time(*pair) for pair in self.events) / 1e3
        outside = total - passes - self.certificates
        print(
            f"{name:<16} {total:7.3f} s  passes {passes:.3f}, certificates "
            f"{self.certificates:.3f}, outside {outside:.3f} = {100 * outside / total:.1f} %",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=["passes", "share"])
    parser.add_argument("--sides", type=int, nargs="*", default=[500, 1000, 2000, 3000])
    parser.add_argument("--float64", action="store_true", help="tables in double precision")
    parser.add_argument("--half", action="store_true", help="tables in bfloat16")
    given = parser.parse_args()
    driver = cp.cuda.runtime.driverGetVersion()
    print(f"{devices.gpu_name()}, CUDA driver {driver}, CuPy {cp.__version__}")
    if given.what == "passes":
        half = tiles.HALF if given.half else np.float32
        kernels(given.sides, np.float64 if given.float64 else half)
        return
    how = {"gap": 1e-3, "max_seconds": 60.0, "device": "cuda"}
    cg.sparsest_cut(planted(900, 1), **how)
    shares, A = Shares(), planted(1000, 1000)
    for _ in range(5):
        shares.shown("planted 1000", lambda: cg.sparsest_cut(A, **how))


if __name__ == "__main__":
    main()
