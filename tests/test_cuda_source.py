"""What is handed to the CUDA kernels is what their source asks for, seen without a GPU."""

import re
import sys
from functools import reduce

import numpy as np
import pytest

from condgrad.backends import _cupy_source, tiles
from stand_in import installed, ndarray

KERNEL = r'extern "C" __global__ void\s+(?:__launch_bounds__\([^)]*\)\s+)?([\w#]+)\(([^)]*)\)'
TYPES = {"int": np.int32, "double": np.float64, "unsigned": np.uint32, "long long": np.int64}
N = 70
SIZE = N * (N - 1) * (N - 2) // 2
WHOLE = np.array([[0, SIZE]])


def signatures():
    """The parameters of every kernel."""
    source = _cupy_source.SOURCE.replace("\\\n", " ")
    found = {m[1]: [p.strip() for p in m[2].split(",")] for m in re.finditer(KERNEL, source)}
    parameters = found.pop("sums##KIND")
    return found | {
        f"sums{kind}": parameters for kind in re.findall(r"^SUMS\((\d)\)", source, re.M)
    }


def fits(parameter, argument, real):
    """Whether an argument is of the type of a parameter."""
    if "*" in parameter:
        return isinstance(argument, ndarray)
    return type(argument) is {**TYPES, "REAL": real}[parameter.rpartition(" ")[0]]


@pytest.mark.parametrize("others", [False, True], ids=["triangles", "perimeters"])
@pytest.mark.parametrize("table", [np.float32, np.float64, np.uint16])
def test_arguments_are_those_of_the_kernels(table, others, monkeypatch):
    known, seen = signatures(), set()
    whole = WHOLE // 3 if others else WHOLE
    real = np.float32 if table == np.uint16 else table

    def launch(dtype, name, grid, *arguments, perimeters=False):
        assert dtype == table or name == "sums0"
        assert perimeters == others or name == "square"
        assert all(side > 0 for side in grid)
        assert len(arguments) == len(known[name]), name
        own = np.float32 if name == "sums0" else real
        assert all(fits(*pair, own) for pair in zip(known[name], arguments, strict=True)), name
        seen.add(name)

    with installed(), np.errstate(all="ignore"):  # sums of what no kernel has written
        from condgrad.backends import _cupy

        kind = "perimeter" if others else "triangle"
        assert _cupy.fused(f"{kind}_sweep", f"{kind}_add")
        module = sys.modules["condgrad.backends._cupy_triangles"]
        nothing = dict.fromkeys(("padded", "axpy"), lambda *_: lambda *_: None)
        patches = {**nothing, "launch": launch, "processors": lambda: 132}
        for name, patch in patches.items():
            monkeypatch.setattr(module, name, patch)
        y, slopes = (ndarray(np.zeros(tiles.entries(N), table)) for _ in range(2))
        W, G = (ndarray(np.zeros((N, N))) for _ in range(2))
        for kind in (np.float64, np.float32):
            G32 = ndarray(np.zeros((N, N), kind))
            module.ascend(W, G32, y, whole, -np.inf, 0.0, 0.7, others)
        module.dual(W, G, y, slopes, whole, -np.inf, 0.0, 0.7, 0.5, others)
        module.Pass(W, whole, y.dtype, module.WIDE, others).collect(
            "pair_one", G, (np.int32(0),), (y, real(0), real(np.inf)), 3
        )
        for kind in module.Sums:
            some = None if kind == 0 else y
            module.summed(kind, W, some, whole, -np.inf, 0.0, 0.7, perimeters=others)
        module.triangle_square(y)
    both = {"fold_wide", "add_pairs_wide"}
    others = {f"{name}{end}" for name in ("fold", "add_pairs") for end in ("", "_single")}
    wide = both if real == np.float64 else both | others
    assert seen == wide | {"ascend", "dual", "pair_one", "square", *(f"sums{k}" for k in range(4))}
    assert set(known) == both | others | seen | {"pair"}


@pytest.mark.parametrize("blocks", [1, 3, 136, 528, 3160])
@pytest.mark.parametrize("count", [1, 7, 128, 1000, 5000])
def test_every_apex_is_in_one_part(blocks, count):
    with installed():
        from condgrad.backends.tiles import LONGEST, split

        parts, per = split(blocks, count, 264)
    ends = [(i * per, min(count, i * per + per)) for i in range(parts)]
    assert all(start < stop for start, stop in ends)
    assert per <= LONGEST
    assert reduce(lambda total, end: total + end[1] - end[0], ends, 0) == count


def test_a_salt_differs_from_pass_to_pass():
    with installed():
        from condgrad.backends.tiles import salt

        half, betas = tiles.HALF, (0.7, 0.7 + 1e-15)
        found = {salt(beta, WHOLE + i, half) for beta in betas for i in range(3)}
        assert len(found) == 6
        assert salt(0.7, WHOLE, half) == salt(0.7, WHOLE, half)
        assert salt(0.7, WHOLE, np.dtype(np.float32)) == 0


def test_every_apex_of_perimeters_is_in_one_range():
    with installed():
        from condgrad.backends.tiles import apexes_of

        for n in (3, 5, 8, 30):
            size, stretch = n * (n - 1) * (n - 2) // 6, (n - 1) * (n - 2) // 2
            starts = np.arange(0, size, stretch)
            ends = np.stack([starts, np.minimum(starts + stretch, size)], axis=1)
            assert sorted(apexes_of(n, ends, True).tolist()) == list(range(2, n))
            assert apexes_of(n, np.array([[0, size]]), True).tolist() == list(range(2, n))
