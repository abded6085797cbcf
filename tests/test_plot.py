from __future__ import annotations

import builtins
import dataclasses
import json
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from condgrad import cli, plot
from condgrad.applications import kmeans, max_cut, sparsest_cut
from condgrad.errors import InputError, ProblemError
from condgrad.io import read_graph
from condgrad.plot.partitions import fitting, layout
from condgrad.record import Record
from files import put


@pytest.fixture(scope="module")
def karate():
    adjacency = read_graph("karate_club")
    return adjacency, sparsest_cut(adjacency).run(max_epochs=60, gap=1e-3, seed=0)


@pytest.fixture(scope="module")
def clustered():
    rng = np.random.default_rng(0)
    points = np.concatenate([c + rng.normal(size=(9, 4)) for c in 6 * rng.normal(size=(3, 4))])
    distances = ((points[:, None] - points) ** 2).sum(axis=-1)
    return points, kmeans(distances, 3).run(max_epochs=200, gap=1e-2, seed=0)


def drawn(figure):
    """Render a figure; warnings are errors."""
    figure.canvas.draw()
    return figure


@pytest.fixture
def program(monkeypatch, capsys):
    """Run the program in this process; return exit code, standard output and standard error."""

    def call(*args):
        monkeypatch.setattr(sys, "argv", ["condgrad", *map(str, args)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code or 0, *capsys.readouterr()

    return call


def test_pictures_leave_no_global_state(karate, tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot")
    before = plt.get_fignums()
    for kind in ("png", "svg", "pdf"):
        plot.convergence(karate[1].result, tmp_path / f"c.{kind}")
    assert plt.get_fignums() == before
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    assert "<text" in (tmp_path / "c.svg").read_text()
    assert (tmp_path / "c.pdf").read_bytes().startswith(b"%PDF")


def test_profile_has_a_bar_for_each_part(karate):
    _, run = karate
    parts = [name for name, s in run.result.profile.items() if s > 0]
    (ax,) = drawn(plot.profile(run.result)).axes
    assert [text.get_text() for text in ax.get_yticklabels()] == parts
    widths = [bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(widths, [run.result.profile[name] for name in parts])
    (empty,) = drawn(plot.profile({"oracle": 0.0})).axes
    assert not empty.patches


def test_heat_map_is_sorted_with_lines_between_labels():
    labels = np.array([1, 0, 1, 0, 2])
    W = (labels[:, None] == labels).astype(float)
    ax = drawn(plot.heat_map(W, labels)).axes[0]
    expected = np.zeros((5, 5))
    expected[:2, :2] = expected[2:4, 2:4] = expected[4, 4] = 1
    np.testing.assert_array_equal(ax.images[0].get_array(), expected)
    assert sorted(line.get_ydata()[0] for line in ax.lines[::2]) == [1.5, 3.5]


def test_heat_map_colours():
    plain = drawn(plot.heat_map(np.eye(3))).axes[0].images[0]
    signed = drawn(plot.heat_map([[1.0, -2.0], [np.nan, np.inf]])).axes[0].images[0]
    assert plain.get_clim() == (0.0, 1.0)
    assert signed.get_clim() == (-2.0, 2.0)
    assert drawn(plot.heat_map(np.zeros((2, 3)))).axes[0].images[0].get_clim() == (0.0, 1.0)


def test_a_large_heat_map_shows_some_rows():
    labels = np.arange(1200) % 2
    ax = drawn(plot.heat_map(np.ones((1200, 1200)), labels)).axes[0]
    assert ax.images[0].get_array().shape == (1000, 1000)
    assert ax.get_xlabel().endswith("1000 of 1200 rows")
    assert len(ax.lines) == 2


def test_principal_plane_is_that_of_the_covariance():
    X = np.random.default_rng(1).normal(size=(40, 5)) * [5, 1, 3, 0.1, 0.2]
    plane = plot.principal_plane(X)
    values = np.sort(np.linalg.eigvalsh(np.cov(X.T)))[::-1][:2]
    np.testing.assert_allclose(plane.var(axis=0, ddof=1), values)
    np.testing.assert_allclose(plot.principal_plane(plane), plane, atol=1e-9)
    assert plot.principal_plane(np.ones((3, 1))).tolist() == [[0, 0]] * 3


@pytest.mark.parametrize("count", [1, 3, 12, 25])
def test_clusters(count):
    X, labels = np.random.default_rng(0).normal(size=(50, 3)), np.arange(50) % count
    (ax,) = drawn(plot.clusters(X, labels)).axes
    assert [len(c.get_offsets()) for c in ax.collections] == np.bincount(labels).tolist()
    assert (ax.get_legend() is None) == (count > 20)


def edges_across(ax):
    found = [c for c in ax.collections if str(c.get_label()).startswith("edges across")]
    return sum(len(lines.get_segments()) for lines in found)


def test_cut_on_the_graph(karate):
    adjacency, run = karate
    side = run.rounded.answer.side
    (ax,) = drawn(plot.cut(adjacency, side)).axes
    A = sp.csr_array(adjacency).toarray()
    assert edges_across(ax) == np.count_nonzero(A[side][:, ~side])
    assert {text.get_text() for text in ax.texts} == {str(i) for i in range(34)}
    names = ["a $ sign", "<b>", "\\frac", *(f"{i} is a name of many letters" for i in range(31))]
    (ax,) = drawn(plot.cut(adjacency, side, names=names)).axes
    shown = {text.get_text() for text in ax.texts}
    assert {"a $ sign", "2 is a name of ma…"} <= shown  # 5, on the smaller side, comes first
    assert 5 < len(shown) < 34  # those that fit
    path = np.diag(np.ones(69), 1)
    for less, shown in ((30, 30), (31, 0)):  # of a larger graph the smaller side is named
        (ax,) = drawn(plot.cut(path + path.T, np.arange(70) < less)).axes
        assert len(ax.texts) == shown


def test_names_that_lie_on_each_other_are_left_out():
    at = np.array([[0.0, 0.0], [0.001, 0.0], [1.0, 0.0], [0.5, 1.0]])
    assert fitting(["ab", "cd", "ef", ""], at, np.array([1, 0, 3, 2])) == [1, 2]
    assert fitting(["ab"], np.zeros((1, 2)), np.array([0])) == [0]


def test_one_vertex_is_one_vertex():
    ax = drawn(plot.cut(1 - np.eye(4), [True, False, False, False])).axes[0]
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["edges across (3)", "3 vertices", "1 vertex"]


def test_cut_of_an_edgeless_or_tiny_graph():
    assert edges_across(drawn(plot.cut(np.zeros((4, 4)), [1, 0, 0, 0])).axes[0]) == 0
    assert edges_across(drawn(plot.cut([[0, -1], [-1, 0]], [True, False])).axes[0]) == 1


def test_a_large_cut_is_a_sorted_matrix():
    rng = np.random.default_rng(0)
    n, side = 600, np.arange(600) % 3 == 0
    A = sp.random_array((n, n), density=0.01, rng=rng, format="csr")
    A = sp.triu(A, k=1) + sp.triu(A, k=1).T
    ax = drawn(plot.cut(A, side)).axes[0]
    counts = np.asarray(ax.images[0].get_array())
    across = np.count_nonzero(A.toarray()[side][:, ~side])
    assert counts.sum() == A.nnz
    assert counts[:200, 200:].sum() == across
    assert "400 and 200" in ax.get_xlabel()


def test_layout_without_networkx(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("networkx"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    path = np.diag(np.ones(5), 1)
    path += path.T
    springs = layout(path)
    monkeypatch.setattr(builtins, "__import__", without)
    at = layout(path)
    assert (at.shape, springs.shape) == ((6, 2), (6, 2))
    assert (np.diff(at[:, 0]) > 0).all() or (np.diff(at[:, 0]) < 0).all()
    assert layout(np.zeros((2, 2))).shape == (2, 2)


def test_matplotlib_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ProblemError, match=r"install condgrad\[plot\]"):
        plot.profile({"oracle": 1.0})


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: plot.profile({"a": 1.0}, "no/such/folder/a.png"), "path is"),
        (lambda: plot.profile({"a": 1.0}, "a.doc"), "path is 'a.doc'"),
        (lambda: plot.heat_map(np.ones(3)), "W has shape"),
        (lambda: plot.heat_map(np.ones((2, 3)), [0, 1]), "must be square"),
        (lambda: plot.heat_map(np.ones((2, 2)), [0, 1, 1]), "labels has shape"),
        (lambda: plot.clusters(np.full((2, 2), np.nan), [0, 1]), "X contains NaN"),
        (lambda: plot.clusters(np.ones((2, 2)), [0]), "labels has shape"),
        (lambda: plot.cut(np.ones((2, 3)), [0, 1]), "adjacency has shape"),
        (lambda: plot.cut(np.ones((2, 2)), [0]), "side has shape"),
        (lambda: plot.cut(np.ones((2, 2)), [0, 1], names=["a"]), "names has 1"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(ProblemError, match=words):
        call()


def test_a_saved_run_is_the_run(karate, tmp_path):
    adjacency, run = karate
    names = [f"v{i}" for i in range(34)]
    record = Record.of(run, adjacency=adjacency, names=names, command=["condgrad", "/a/b/g.mtx"])
    record.save(tmp_path / "run.npz")
    again = Record.load(tmp_path / "run.npz")
    assert again.facts == json.loads(json.dumps(record.facts))
    assert again.facts["command"] == "condgrad g.mtx"
    assert again.trace.columns == record.trace.columns
    for name in record.trace:
        np.testing.assert_array_equal(again.trace[name], record.trace[name])
    np.testing.assert_array_equal(again.W, run.result.W)
    assert set(again.arrays) == {"edges", "names", "side"}
    assert abs(again.adjacency - sp.csr_array(adjacency)).sum() == 0
    np.testing.assert_array_equal(again.arrays["side"], run.rounded.answer.side)
    assert again.arrays["names"].tolist() == names


def test_earlier_files_and_traces_are_drawn(karate, tmp_path):
    trace = karate[1].result.trace
    columns = {f"trace.{name}": trace[name] for name in trace}
    np.savez_compressed(tmp_path / "old.npz", W=np.eye(3), **columns)
    for name in ("t.csv", "t.json", "t.npz"):
        trace.save(tmp_path / name)
    for name in ("old.npz", "t.csv", "t.json", "t.npz"):
        record = Record.load(tmp_path / name)
        np.testing.assert_array_equal(record.trace["objective"], trace["objective"])
        assert [picture.name for picture in plot.pictures(record)] == ["convergence"]
        assert len(drawn(plot.sheet(record)).subfigs) == 1


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.npz", b"nonsense"),
        ("b.npz", b""),
        ("c.csv", b"x,y\n1,2\n"),
        ("d.json", b"{"),
        ("e.json", b"[1]"),
        ("f.txt", b"text"),
        ("g.csv", b"k,epochs,seconds,objective,infeasibility\n"),
        ("h.csv", b""),
        ("i.csv", b"k,epochs\n1,x\n"),
        ("j.csv", b"\xff\xfe"),
    ],
)
def test_what_is_no_saved_run_is_refused(tmp_path, name, content):
    with pytest.raises(InputError, match="this is no saved run") as error:
        Record.load(put(tmp_path, name, content))
    assert "pickle" not in str(error.value)


def test_pictures_of_clusters(clustered):
    points, run = clustered
    record = Record.of(run, points=points)
    names = [picture.name for picture in plot.pictures(record)]
    assert names == ["clusters", "convergence", "heat-map", "profile"]
    assert len(drawn(plot.sheet(record)).subfigs) == 4
    assert len(drawn(plot.sheet(record, only=("clusters", "cut", "convergence"))).subfigs) == 2
    assert record.facts["answer"][0].startswith("Clusters found: sizes")
    with pytest.raises(
        ProblemError, match="picture is 'cut': this run has clusters, convergence, "
    ):
        plot.sheet(record, only="cut")


def test_a_run_without_a_history_shows_its_answer():
    """No picture of the way from a warm start and back."""
    ring = np.roll(np.eye(7), 1, axis=0) + np.roll(np.eye(7), -1, axis=0)
    run = max_cut(ring, warm=1e-3).run(gap=1e-3, max_iter=5)
    record = Record.of(run, adjacency=ring)
    cut, answer, *_ = plot.pictures(record)
    assert (cut.name, answer.name) == ("cut", "answer")
    assert "cut 6, relaxation 6.6" in answer.words
    assert "upper bound 6 (rounded to a whole number)" in answer.words
    assert len(drawn(plot.sheet(record, only="answer")).axes) == 1
    assert len(drawn(plot.sheet(record, only="convergence")).axes) > 1  # who asks gets it


def test_a_bound_that_is_only_a_guess_is_not_drawn(karate):
    record = Record.of(karate[1])
    assert len(drawn(plot.sheet(record, only="convergence")).axes) == 3
    guess = dataclasses.replace(record, facts={**record.facts, "lower_bound": -np.inf})
    objective, _ = drawn(plot.sheet(guess, only="convergence")).axes
    assert "lower bound" not in [text.get_text() for text in objective.get_legend().get_texts()]


def test_plot_command(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    solve = ("solve", "sparsest-cut", "petersen", "--iterations", 30, "--quiet")
    assert program(*solve, "--save", "run.npz")[0] == 0
    assert program("plot", "run.npz")[:2] == (0, "Picture: run-pictures.png\n")
    code, _, err = program("plot", "run.npz")
    assert (code, "run-pictures.png is there already" in err) == (2, True)
    for out, more in {
        "a.png": ("--x", "seconds"),
        "b.svg": ("--picture", "cut"),
        "c.pdf": ("--picture", "heat-map", "--x", "iterations"),
    }.items():
        assert program("plot", "run.npz", "--out", out, *more)[0] == 0
    assert (tmp_path / "run-pictures.png").stat().st_size > (tmp_path / "a.png").stat().st_size / 2
    assert "edges across" in (tmp_path / "b.svg").read_text()
    assert (tmp_path / "c.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["missing.npz"], "missing.npz: there is no such file"),
        (["missing.npz", "--out", "a.doc"], "--out is 'a.doc': end it in"),
        (["missing.npz", "--out", "no/folder/a.png"], "--out is"),
        (["missing.npz", "--report", "a.txt"], "--report is 'a.txt': end it in .html"),
    ],
)
def test_plot_command_refuses(program, tmp_path, monkeypatch, args, words):
    monkeypatch.chdir(tmp_path)
    code, out, err = program("plot", *args)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err
