"""Which rows a shard has, and what it does with them; no cluster is needed."""

import numpy as np
import pytest

from condgrad import Term, functions, maps
from condgrad.backends import _reference_fused, tiles
from condgrad.certificate import lower_bound
from condgrad.cluster.shard import Shard, Table, cut
from condgrad.maps import dealt
from condgrad.maps.dealt import Dealt
from condgrad.passes import Fused, Plain
from stand_in import alike


@pytest.mark.parametrize(
    ("n", "shards", "least"), [(12, 3, 1), (12, 3, 1024), (30, 4, 1), (9, 2, 7)]
)
@pytest.mark.parametrize("kind", [maps.Triangles, maps.Perimeters])
def test_shards_have_all_rows_once(n, shards, least, kind, monkeypatch):
    monkeypatch.setattr(dealt, "LEAST", least)
    rng, whole = np.random.default_rng(0), kind(n)
    W, y = rng.standard_normal((n, n)), rng.standard_normal(whole.size)
    W, G, H = W + W.T, np.zeros(n * n), np.zeros(n * n)
    deals = [Dealt(whole, shards, i) for i in range(shards)]
    ids = np.concatenate([own.ids() for own in deals])
    assert np.array_equal(np.sort(ids), np.arange(whole.size))
    whole.scatter(G, slice(0, whole.size), y)
    for at in (slice(0, whole.size), slice(3, whole.size // 2), slice(5, 6)):
        mine = [own.ids()[own.before(at.start) : own.before(at.stop)] for own in deals]
        assert np.array_equal(np.sort(np.concatenate(mine)), np.arange(at.start, at.stop))
    for own in deals:
        np.testing.assert_allclose(own.rows(W), whole.rows(W)[own.ids()])
        some = np.array([2, 0])
        np.testing.assert_allclose(own.rows(W, some), whole.rows(W)[own.ids(some)])
        own.scatter(H, slice(0, own.size), y[own.ids()])
    np.testing.assert_allclose(H, G, atol=1e-10)


@pytest.mark.parametrize("kind", [maps.Triangles, maps.Perimeters])
def test_compiled_passes_of_a_shard_are_the_plain_ones(kind, monkeypatch):
    monkeypatch.setattr(dealt, "LEAST", 1)
    n, whole, h = 14, kind(14), functions.AtMost(0.1)
    rng = np.random.default_rng(1)
    W = rng.standard_normal((n, n))
    W, own = W + W.T, Dealt(whole, 3, 1)
    fused, plain = Term(own, h).passes, Plain(own, h)
    assert type(fused) is Fused
    y, a, b = rng.standard_normal(own.size), own.size // 3, own.size - 2
    found = []
    twin = _reference_fused.fused(*whole.kernels)
    for passes, drivers in ((plain, None), (fused, None), (fused, twin)):
        with monkeypatch.context() as patch:
            if drivers is not None:
                patch.setattr(type(fused), "_drivers", lambda self, array: twin)
            ys, slopes, G = y.copy(), 0.5 * y, np.zeros(n * n)
            passes.renew(W, G, [slice(0, a), slice(b, own.size)], ys, slopes, 0.4, 0.3)
            numbers = [passes.ascend(W, G, [slice(a, b)], ys, 0.2)]
            numbers += [passes.squares(W, [slice(a, b)], slopes), *passes.miss(W, slice(a, b), 0.1)]
            numbers += [passes.merit(W, slice(a, b), ys, 0.3)]
            numbers += passes.pair(W, G, slice(a, b), ys, 1.0)
            found.append(np.concatenate([ys, slopes, G, numbers]))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-9, atol=1e-11)


def test_data_of_rows_are_cut_with_them():
    map = Dealt(maps.DataMatrix(np.eye(64)), 3, 1)  # units of three rows
    own = cut(functions.Interval(np.arange(64.0) - 1, np.arange(64.0)), map)
    assert own.size == map.size == 21
    np.testing.assert_array_equal(own.interval[1], np.arange(1.0, 64.0, 3))
    assert cut(functions.AtMost(0.5), map).size is None


# On GPUs tiles are dealt: tried on a stand-in for CuPy, without a cluster.


@pytest.mark.parametrize("kind", [maps.Triangles, maps.Perimeters])
@pytest.mark.parametrize("what", ["ascend", "renew"])
def test_shards_on_gpus_are_all_rows_together(kind, what, monkeypatch):
    n, rng = 70, np.random.default_rng(2)  # three tiles
    whole = kind(n)
    h = functions.AtMost(0.1) if kind is maps.Triangles else functions.AtLeast(-0.5)
    term, W = Term(whole, h, 0.5, name="rows"), rng.standard_normal((n, n))
    W = W + W.T
    step = whole.stretch
    drawn = [slice(4 * step, 9 * step), slice(20 * step, 40 * step)]
    if kind is maps.Perimeters:  # there apexes count whose first rows are drawn
        drawn = [slice(0, 10 * 9 * 8 // 6), slice(20 * 19 * 18 // 6, 60 * 59 * 58 // 6)]
    dtype = np.dtype(np.float32)
    y, slopes, G = np.zeros(whole.size, dtype), np.zeros(whole.size, dtype), whole.zeros()
    tables = [Table("rows", whole.size, dtype, 0) for _ in range(2)]
    if what == "ascend":
        moved, given = term.passes.ascend(W, G, drawn, y, 0.7), (tables[0], 0.7)
    else:
        moved, given = 0, (*tables, 0.7, 0.3)
        term.passes.renew(W, G, drawn, y, slopes, 0.7, 0.3)
    own, misses = lower_bound.part_of(term, None, y), term.misses(W, 0.3)
    with alike(monkeypatch):
        shards = [Shard(i, 2, 1, True) for i in range(2)]

        def ask(question, *args):
            return [shard.answer("rows", question, *args) for shard in shards]

        for shard in shards:
            shard.hold(term)
        found = ask("sweep", what, np.ones_like(G), W, drawn, *given)
        size = np.abs(G).max()
        np.testing.assert_allclose(sum(g for g, _ in found) - 1, G, atol=1e-5 * size)
        assert sum(said for _, said in found) == pytest.approx(moved, rel=1e-5)
        y0, y1 = ask(lower_bound.point_of, None, tables[0])
        np.testing.assert_allclose(y0 + y1, y, atol=1e-5 * np.abs(y).max())
        parts = ask(lower_bound.part_of, None, tables[0])
        assert all(type(part) is lower_bound.Part for part in parts)
        np.testing.assert_allclose(sum(part.v for part in parts), own.v, atol=1e-5 * size)
        assert sum(part.conjugate for part in parts) == pytest.approx(own.conjugate, rel=1e-4)
        assert sum(part.sizes.spread for part in parts) == pytest.approx(own.sizes.spread, rel=1e-4)
        squares = sum(m.squares for some in ask(Term.misses, W, 0.3) for m in some)
        assert squares == pytest.approx(sum(m.squares for m in misses))
        held = [table.size for table in ask("fetch", tables[0])]
        assert held == [tiles.entries(n, tiles.dealt(n, 2, i)) for i in range(2)]
        assert sum(held) == tiles.entries(n)
