"""What travels between a driver and its actors, without a cluster."""

import numpy as np
import pytest

from condgrad.backends.arrays import HOST
from condgrad.cluster.wire import Follower, Point, Reply, sendable
from condgrad.points.dense import Dense
from condgrad.points.low_rank import LowRank

SIDE = 30


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def low_rank(rng, at=0, rank=2):
    """U Uᵀ behind the first `at` entries of the diagonal, which stand alone."""
    U = rng.standard_normal((SIDE - at, rank))
    return LowRank([slice(at, SIDE)], [U], np.arange(at), rng.random(at), None)


def moved(W, rng, eta, at=0):
    W.towards(low_rank(rng, at), np.empty(W.array.shape), eta)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("at", [0, 3])
def test_actors_make_the_steps_of_the_driver(rng, dtype, at):
    W, own, held, steps = Dense(np.eye(SIDE, dtype=dtype)), Follower(HOST), None, 0
    for eta in (None, 0.3, 1.0, 0.2, None, 1.0, 1.0, 0.7):
        if eta is None:
            W.shift(rng.standard_normal(W.array.shape).astype(dtype))
        else:
            moved(W, rng, eta, at)
        sent = sendable(W, dtype, held)
        found = own.reach(sent)
        assert found.array.dtype == dtype
        assert np.array_equal(found.array, W.array)
        assert (own.D is not None) == (sent.since is not None)
        if sent.since is not None:
            assert np.array_equal(own.D, W.taken.D)
            assert sent.nbytes < W.array.nbytes / 2
            steps += 1
        assert np.array_equal(own.reach(sent).array, W.array)  # asked again
        held = sent.number
        if held is not None:
            assert sendable(W, dtype, held).nbytes == 0
            assert np.array_equal(own.reach(sendable(W, dtype, held)).array, W.array)
    assert steps == 4


def test_a_new_actor_is_sent_all_that_it_needs(rng):
    W = Dense(np.eye(SIDE))
    moved(W, rng, 0.5)
    assert sendable(W, W.array.dtype, None).array is not None
    assert sendable(W, W.array.dtype, 10**9).array is not None
    moved(W, rng, 1.0)
    sent = sendable(W, np.float32, None)
    assert sent.array is None
    found = Follower(HOST).reach(sent)
    assert np.array_equal(found.array, W.array.astype(np.float32))
    W.towards(low_rank(rng, rank=SIDE), np.empty(W.array.shape))  # no smaller than W
    assert sendable(W, W.array.dtype, W.taken.since).array is not None


def test_what_cannot_be_reached_is_no_other_point(rng):
    W, own = Dense(np.eye(SIDE)), Follower(HOST)
    empty = Point(W.array.shape, W.array.dtype, W.array.dtype, number=5)
    with pytest.raises(RuntimeError, match="cannot be made"):
        own.reach(empty)
    moved(W, rng, 0.5)
    own.reach(sendable(W, W.array.dtype, None))
    moved(W, rng, 0.5)
    moved(W, rng, 0.5)
    sent = sendable(W, W.array.dtype, W.taken.since)  # a step was missed
    with pytest.raises(RuntimeError, match=f"W after step {W.taken.number} cannot be made"):
        own.reach(sent)
    with pytest.raises(RuntimeError):  # nor is it taken for what is there
        own.reach(sent)


def test_an_actor_looks_at_single_precision_and_keeps_double(rng):
    W, own = Dense(np.eye(SIDE)), Follower(HOST)
    for _ in range(3):
        moved(W, rng, 1.0)
        found = own.reach(sendable(W, np.float32, W.taken.since))
        assert np.array_equal(found.array, W.array.astype(np.float32))
    same = own.reach(sendable(W, np.float64, W.taken.number))
    assert np.array_equal(same.array, W.array)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("wire", [None, np.dtype(np.float32)])
def test_half_of_a_cotangent_is_enough(rng, dtype, wire):
    n = 9
    G, other = rng.standard_normal((2, n * n)).astype(dtype)
    whole, half = Reply(wire, False, False), Reply(wire, True, False)
    found = []
    for reply in (whole, half):
        out = np.full(n * n, np.nan, dtype)
        total = reply.packed(G, (n, n)) + reply.packed(other, (n, n))
        assert total.dtype == (wire or dtype)
        reply.unpacked(total, out, (n, n))
        found.append(out.reshape(n, n))
    assert half.packed(G, (n, n)).size == n * (n + 1) // 2
    assert (np.tril(found[1], -1) == 0).all()
    single = np.float32 in (dtype, getattr(wire, "type", None))
    D = rng.standard_normal((n, n))
    sums = [np.vdot(f, D + D.T) for f in found]
    assert sums[1] == pytest.approx(sums[0], rel=1e-4 if single else 1e-12)


def test_single_precision_is_no_point_to_step_from(rng):
    W = Dense(np.eye(SIDE))
    moved(W, rng, 0.5)
    assert sendable(W, np.float64, None).number == W.taken.number
    assert sendable(W, np.float32, None).number is None
    W.shift(np.ones(W.array.shape))
    assert sendable(W, np.float64, 0).number is None
