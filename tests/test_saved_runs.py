"""`condgrad plot` of anything: a picture, or a sentence that says why not."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from condgrad import InputError, Trace, plot
from condgrad.applications import kmeans, sparsest_cut
from condgrad.cli.plot import drawable
from condgrad.html import page
from condgrad.record import COLUMNS, Record
from files import put

RING = np.roll(np.eye(6), 1, axis=0) + np.roll(np.eye(6), -1, axis=0)
files = settings(
    max_examples=120,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@cache
def saved():
    """The arrays of two saved runs, a cut and a clustering."""
    points = np.random.default_rng(0).normal(size=(6, 2))
    C = np.square(points[:, None] - points).sum(axis=2)
    records = [
        Record.of(sparsest_cut(RING).run(max_iter=9), adjacency=RING, names=list("abcdef")),
        Record.of(kmeans(C, 2).run(max_iter=9), points=points),
    ]
    return [
        {
            **{f"trace.{name}": r.trace[name] for name in r.trace},
            **r.arrays,
            "W": r.W,
            "facts": np.array(json.dumps(dict(r.facts), default=str)),
        }
        for r in records
    ]


def drawn_or_refused(path):
    """Whether the file was drawn; anything but a sentence about it is an error."""
    try:
        record = Record.load(path)
        with drawable(path):
            assert page(record) if record.facts else plot.sheet(record)
    except InputError as error:
        text = str(error)
        assert text.startswith(str(path))
        assert "\n" not in text
        assert "pickle" not in text
        return False
    return True


ARRAYS = hnp.arrays(
    st.sampled_from([np.float64, np.int64, np.bool_, np.dtype("U3"), np.complex128, np.float32]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)
OTHERS = ("W", "X", "C", "y", "side", "edges", "labels", "points", "names", "facts")
NAMES = st.sampled_from([*sorted(COLUMNS), *(f"trace.{c}" for c in sorted(COLUMNS)), *OTHERS])


@files
@given(st.dictionaries(NAMES, ARRAYS, max_size=12))
def test_arrays_of_any_kind(tmp_path, arrays):
    np.savez(tmp_path / "a.npz", **arrays)
    drawn_or_refused(tmp_path / "a.npz")


@settings(files, max_examples=15)
@given(st.data())
def test_a_saved_run_with_another_part(tmp_path, data):
    arrays = dict(data.draw(st.sampled_from(saved())))
    name = data.draw(st.sampled_from(sorted(arrays)))
    if data.draw(st.booleans()):
        del arrays[name]
    else:
        arrays[name] = data.draw(ARRAYS)
    np.savez(tmp_path / "b.npz", **arrays)
    drawn_or_refused(tmp_path / "b.npz")


FLOATS = st.floats() | st.integers(-(10**6), 10**6)
JSON = st.recursive(
    st.none() | st.booleans() | FLOATS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=12,
)
TRACES = st.integers(1, 5).flatmap(
    lambda n: st.fixed_dictionaries(
        dict.fromkeys(sorted(COLUMNS), st.lists(FLOATS, min_size=n, max_size=n))
    )
)


@files
@given(JSON)
def test_json_of_any_kind(tmp_path, content):
    path = put(tmp_path, "c.json", json.dumps(content).encode())
    drawn_or_refused(path)


@settings(files, max_examples=20)
@given(TRACES)
def test_traces_of_any_numbers(tmp_path, columns):
    drawn = drawn_or_refused(put(tmp_path, "d.json", json.dumps(columns).encode()))
    assert drawn
    Trace.of(columns).save(tmp_path / "d.csv")
    assert len(Record.load(tmp_path / "d.csv").trace) == len(columns["k"])


@files
@given(st.text(max_size=200) | st.lists(st.lists(st.text(",\n1.5ek", max_size=9))).map(str))
def test_text_of_any_kind(tmp_path, text):
    assume("infeasibility" not in text)
    for name in ("e.csv", "e.npz", "e.txt", "e"):
        assert not drawn_or_refused(put(tmp_path, name, text.encode()))


@pytest.mark.parametrize(
    ("name", "save", "word"),
    [
        ("points.npz", lambda p: np.savez(p, X=np.ones((5, 2)), y=np.ones(5)), "but X, y"),
        ("points.npz", lambda p: np.savez(p, np.ones((5, 2))), "but arr_0"),
        ("objects.npz", lambda p: np.savez(p, k=np.array([None])), "Python objects"),
        ("run.json", lambda p: p.write_text('{"application": "sdp"}'), "application is no column"),
        ("points.csv", lambda p: p.write_text("x,y\n1,2\n3,4\n"), "no column epochs"),
        ("here", lambda p: p.mkdir(), "directory"),
        ("none.npz", lambda p: None, "there is no such file"),
    ],
)
def test_the_program_says_what_is_there(run, tmp_path, name, save, word):
    path, out = tmp_path / name, tmp_path / "picture.png"
    save(path)
    code, shown, err = run("plot", path, "--out", out)
    assert (code, shown, err.count("\n")) == (2, "", 1)
    assert word in err
    assert not out.exists()


def test_saved_runs_are_drawn(tmp_path):
    for arrays in saved():
        np.savez(tmp_path / "f.npz", **arrays)
        assert drawn_or_refused(tmp_path / "f.npz")


def test_a_record_without_a_point_can_be_saved(tmp_path):
    record = Record({}, Trace.of({name: [1.0] for name in COLUMNS}))
    record.save(tmp_path / "g.npz")
    assert Record.load(tmp_path / "g.npz").W is None
