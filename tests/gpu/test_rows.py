"""Sparse and low-rank rows on a GPU, and semidefinite programs with them."""

import numpy as np
import pytest

import condgrad as cg
from condgrad import domains
from condgrad._types import ALL
from condgrad.backends import _reference_segments
from condgrad.backends.segments import Products, Segments
from condgrad.sdp._dual import Point, slack, worth
from condgrad.sdp._reduce import Reduced
from device_programs import PROGRAMS, row_maps
from on_gpu import gpu

cupy = gpu()
LANES = pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16, 32])
SIZE, GAP = 4, 1e-4


def segments(seed, count=1000):
    """Where segments of all lengths, 0 too, begin; numbers and indices in them."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 5, count) * rng.choice([1, 1, 1, 40], count)
    starts = np.append(0, np.cumsum(counts))
    indices = rng.integers(0, 50, starts[-1]).astype(np.int32)
    return starts, rng.standard_normal(starts[-1]), indices, rng.standard_normal(50)


@LANES
def test_segments_equal_their_twin(lanes):
    from condgrad.backends import _cupy

    starts, data, indices, x = segments(lanes)
    there = [cupy.asarray(a) for a in (starts, data, indices, x)]
    for first, count in ((0, 1000), (17, 500), (999, 1)):
        base = int(starts[first])
        found = _cupy.segment_sums(there[0], first, count, lanes, there[1][base:], base)
        wanted = _reference_segments.segment_sums(starts, first, count, lanes, data[base:], base)
        np.testing.assert_allclose(found.get(), wanted, atol=1e-12)
        for low, high in ((0, 50), (10, 31)):
            own = (first, count, lanes)
            found = _cupy.product_sums(
                there[0], *own, there[1], there[2], there[3][low:high], low, high
            )
            wanted = _reference_segments.product_sums(
                starts, *own, data, indices, x[low:high], low, high
            )
            np.testing.assert_allclose(found.get(), wanted, atol=1e-12)


def test_segments_of_any_length():
    rng = np.random.default_rng(0)
    for counts in ([300_000, 0, 3], [1] * 5000, [0, 0], [70_000] * 9, [2] * 100 + [10**6]):
        starts = np.append(0, np.cumsum(counts))
        own = Segments(starts, cupy.empty(0))
        data = rng.standard_normal(starts[-1])
        indices = rng.integers(0, 1000, starts[-1]).astype(np.int32)
        x = rng.standard_normal(1000)
        products = Products(cupy.asarray(indices), cupy.asarray(x), 0, 1000)
        there, size = cupy.asarray(data), len(counts)
        wanted = _reference_segments.segment_sums(starts, 0, size, 1, data, 0)
        np.testing.assert_allclose(own.sums(there, 0, size).get(), wanted, atol=1e-9)
        wanted = _reference_segments.product_sums(starts, 0, size, 1, data, indices, x, 0, 1000)
        found = [own.sums(there, 0, size, products).get() for _ in range(2)]
        np.testing.assert_allclose(found[0], wanted, atol=1e-9)
        assert found[0].tobytes() == found[1].tobytes()


MAPS = row_maps(60, 300, 200, 0.2, np.ones((60, 60)))


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_are_those_of_the_cpu(name, dtype):
    rng = np.random.default_rng(1)
    A = MAPS[name](rng)
    B, W = A.on(cupy.empty(0)), rng.standard_normal(A.shape)
    W = (W + W.T).astype(dtype)
    close = {"atol": 2e-3} if dtype == np.float32 else {"atol": 1e-10}
    for at in (ALL, slice(20, 150), slice(5, 5)):
        z = A.rows(W, at)
        y = rng.standard_normal(z.size).astype(dtype)
        G = A.zeros(dtype)
        A.scatter(G, at, y)
        bits = []
        for _ in range(2):
            other, H = B.rows(cupy.asarray(W), at), B.zeros(dtype)
            B.scatter(H, at, cupy.asarray(y))
            bits.append((other.get().tobytes(), H.get().tobytes()))
        np.testing.assert_allclose(other.get(), z, **close)
        np.testing.assert_allclose(H.get(), G, **close)
        assert bits[0] == bits[1]
    y = rng.standard_normal(A.size)
    assert B.spread(cupy.asarray(y)) == pytest.approx(A.spread(y))


@pytest.mark.parametrize("equality", [False, True])
@pytest.mark.parametrize("blocks", [[3, 45, 1, 1], [160, 170], [1, 1], [200]])
def test_blocks(blocks, equality):
    rng = np.random.default_rng(0)
    here = domains.BlockSpectrahedron(blocks, 2.0, equality)
    there, n = here.on(cupy.empty(0)), sum(blocks)
    v = rng.standard_normal((n, n))
    value = float(np.vdot(there.lmo(cupy.asarray(v)).dense().get(), v))
    low, other = here.minimum(v), there.minimum(cupy.asarray(v))
    assert value == pytest.approx(low.value, rel=1e-9, abs=1e-9)
    assert other.value == pytest.approx(low.value, rel=1e-9, abs=1e-9)
    assert other.kind == "exact-eigenvalue"
    assert there.contains(there.center())


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_solved_on_both(name):
    """To bounds as close as asked for, which the CPU proves as well, with the same bits always."""
    sdp = PROGRAMS[name](SIZE)
    here, there, again = (sdp.solve(gap=GAP, device=d) for d in ("cpu", "cuda", "cuda"))
    assert (here.device, there.device[:4]) == ("cpu", "cuda")
    assert here.status is there.status is cg.Status.CONVERGED
    assert there.bound == pytest.approx(here.bound, rel=2 * GAP)
    assert (again.bound, again.y.tobytes()) == (there.bound, there.y.tobytes())
    assert np.ravel(again.W[0]).tobytes() == np.ravel(there.W[0]).tobytes()
    reduced = Reduced(sdp)
    point = Point(reduced.sign * there.y)
    assert reduced.sign * worth(reduced, point) == pytest.approx(there.bound, rel=1e-9)
    Z = slack(reduced, point)
    assert Z.lowest >= -1e-9 * np.linalg.norm(Z.Z)


@pytest.mark.parametrize("method", [cg.spdhg, cg.sag_cgal])
def test_rows_can_be_drawn(method):
    """A tenth or a fifth of them at a time, with the same bits every time."""
    sdp = PROGRAMS["theta plus"](SIZE)
    problem = Reduced(sdp).problem(1.0, equality=True)
    found = [
        cg.solve(problem, method(batch=0.2), max_iter=60, device=d, duals=True)
        for d in ("cuda", "cuda", "cpu")
    ]
    assert found[0].W.tobytes() == found[1].W.tobytes()
    assert found[0].duals["rows"].tobytes() == found[1].duals["rows"].tobytes()
    assert found[0].lower_bound <= found[2].objective + 0.1 * abs(found[2].objective)
    assert found[2].lower_bound <= found[0].objective + 0.1 * abs(found[0].objective)
