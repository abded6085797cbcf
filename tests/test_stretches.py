"""Rows drawn in contiguous stretches: every one once a round, enough of them, reproducibly."""

from itertools import chain

import numpy as np
import pytest

from condgrad.methods.sampling import AT_ONCE, Stretches

SHAPES = [(12, 3, 3), (12, 3, 5), (13, 4, 4), (10, 4, 4), (100, 1, 7), (57, 10, 23), (30, 7, 29)]
SHAPES += [(1000, 3, 301), (997, 1, 100), (5000, 7, 1003), (64, 1, 17)]
SHAPE = pytest.mark.parametrize(("size", "stretch", "batch"), SHAPES)


def rows(slices):
    return np.concatenate([np.arange(s.start, s.stop) for s in slices])


@SHAPE
def test_never_a_row_twice_in_one_draw(size, stretch, batch):
    stretches, rng = Stretches.of(size, stretch, batch), np.random.default_rng(0)
    for _ in range(60):
        drawn = stretches.draw(rng)
        ids = rows(drawn)
        assert np.unique(ids).size == ids.size
        assert ids.min() >= 0
        assert ids.max() < size
        assert all(s.start % stretch == 0 for s in drawn)  # what belongs together stays together
        assert all(s.stop % stretch == 0 or s.stop == size for s in drawn)
        assert [s.start for s in drawn] == sorted(s.start for s in drawn)


@SHAPE
def test_at_least_the_batch_is_drawn(size, stretch, batch):
    """Also where the last stretch, which may be shorter, is among the drawn ones."""
    stretches, rng = Stretches.of(size, stretch, batch), np.random.default_rng(1)
    counts = [rows(stretches.draw(rng)).size for _ in range(200)]
    assert min(counts) >= batch
    assert max(counts) < batch + 2 * stretches.stretch or max(counts) == size


@SHAPE
def test_every_row_once_a_round(size, stretch, batch):
    """No row comes again before every other one came, also where a draw spans two rounds."""
    stretches, rng = Stretches.of(size, stretch, batch), np.random.default_rng(2)
    seen = np.zeros(size, int)
    for _ in range(100):
        seen[rows(stretches.draw(rng))] += 1
        assert seen.max() - seen.min() <= 1
    assert seen.min() >= 1


def test_rounds_that_divide_evenly_are_permutations():
    stretches, rng = Stretches.of(60, 5, 15), np.random.default_rng(3)
    orders = []
    for _ in range(5):
        drawn = list(chain.from_iterable(stretches.draw(rng) for _ in range(4)))
        assert sorted(rows(drawn).tolist()) == list(range(60))
        orders.append(tuple(s.start for s in drawn))
    assert len(set(orders)) == 5


def test_every_block_is_equally_likely_to_come_first():
    first = [Stretches.of(40, 10, 10).draw(np.random.default_rng(s))[0].start for s in range(400)]
    counts = np.bincount(np.array(first) // 10, minlength=4)
    assert counts.min() > 60


@SHAPE
def test_same_seed_same_draws(size, stretch, batch):
    def draws(seed):
        stretches, rng = Stretches.of(size, stretch, batch), np.random.default_rng(seed)
        return [stretches.draw(rng) for _ in range(20)]

    assert draws(4) == draws(4)
    if draws(4)[0] != [slice(0, size)]:
        assert draws(4) != draws(5)


@pytest.mark.parametrize("batch", [11, 12])
def test_a_full_batch_is_everything_and_draws_nothing(batch):
    stretches, rng = Stretches.of(12, 3, batch), np.random.default_rng(0)
    state = rng.bit_generator.state
    for _ in range(3):
        assert stretches.draw(rng) == [slice(0, 12)]
    assert rng.bit_generator.state == state


def test_one_stretch():
    assert Stretches.of(12, 12, 3).draw(np.random.default_rng(0)) == [slice(0, 12)]
    assert Stretches.of(1, 1, 1).draw(np.random.default_rng(0)) == [slice(0, 1)]


@pytest.mark.parametrize(
    ("stretch", "batch", "merged"),
    [(1, 16, 1), (1, 17, 2), (1, 160, 10), (6, 96, 6), (6, 97, 12), (6, 1, 6), (6, 960, 60)],
)
def test_a_large_batch_comes_in_few_slices(stretch, batch, merged):
    stretches, rng = Stretches.of(6000, stretch, batch), np.random.default_rng(0)
    assert stretches.stretch == merged
    for _ in range(20):
        drawn = stretches.draw(rng)
        assert len(drawn) <= AT_ONCE + 1  # one more may make up for a short last stretch
        assert all(s.start % merged == 0 for s in drawn)
