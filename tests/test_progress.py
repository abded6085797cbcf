"""What a call shows of itself while it runs."""

import inspect
import io
import re
import sys
import types
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from rich.console import Console

import condgrad as cg
from condgrad import _progress, applications, partitions
from condgrad._progress import Display, Lines, Seen, Terminal, numbers, plain, shown
from condgrad.applications import large_max_cut
from condgrad.errors import ProblemError
from condgrad.sdp import SDP

RING = np.roll(np.eye(7), 1, axis=0) + np.roll(np.eye(7), -1, axis=0)
TWO = np.zeros((9, 9))
TWO[:5, :5] = TWO[4:, 4:] = 1
"""Two cliques that share a vertex."""
QUBO = np.triu(np.random.default_rng(3).integers(-9, 10, (12, 12)))
POINTS = np.random.default_rng(0).normal(size=(12, 2))


def simplex(**options):
    price = cg.Term(cg.maps.Inner(np.array([3.0, 1.0, 2.0])), cg.functions.Linear(), name="price")
    most = cg.Term(cg.maps.AllEntries((3,)), cg.functions.AtMost(0.5), name="most")
    problem = cg.Problem(cg.domains.Simplex(3), [price, most])
    return cg.solve(problem, **{"gap": 1e-2, "max_iter": 300, **options})


def program(**options):
    program = SDP(np.array([[2.0, 1.0, 0.0], [1.0, -1.0, 1.0], [0.0, 1.0, 4.0]]), "max")
    for row in np.eye(3):
        program.subject_to(np.diag(row), "==", 1.0)
    return program.solve(gap=1e-3, max_iter=300, **options)


def clustering(**options):
    learn = pytest.importorskip("condgrad.sklearn")
    return learn.SDPKMeans(3, max_iter=100, random_state=0, **options).fit(POINTS).certificate_


def certified(**options):
    learn = pytest.importorskip("condgrad.sklearn")
    return learn.certify(POINTS, np.arange(12) // 4, max_iter=100, **options)


def completed(**options):
    learn = pytest.importorskip("condgrad.sklearn")
    i, j = np.nonzero(np.ones((12, 9)))
    ratings = (i % 3) + (j % 2) + 0.1 * ((i * j) % 5)
    model = learn.MatrixCompletion(max_iter=20, **options)
    return model.fit(np.column_stack([i, j]), ratings).result_


def model(**options):
    cp = pytest.importorskip("cvxpy")
    door = pytest.importorskip("condgrad.cvxpy")
    W = cp.Variable((3, 3), PSD=True)
    problem = cp.Problem(cp.Minimize(W[0, 1] + W[1, 2] + W[0, 2]), [cp.diag(W) == 1])
    door.solve(problem, backend="condgrad", **options)
    return problem.solver_stats.extra_stats.solution


DOORS = {
    "solve": (simplex, "objective"),
    "sparsest cut": (lambda **how: cg.sparsest_cut(RING, presolve=False, **how), "cut"),
    "blocks": (lambda **how: cg.sparsest_cut(TWO, **how), "block 1 of 2  .*cut"),
    "max-cut": (lambda **how: cg.max_cut(RING, gap=1e-9, **how), ""),
    "application": (lambda **how: applications.max_cut(RING).run(gap=1e-3, **how), "cut"),
    "sdp": (program, "value"),
    "k-means": (clustering, "inertia"),
    "certify": (certified, "inertia"),
    "completion": (completed, "objective"),
    "cvxpy": (model, ""),
    "theta": (lambda **how: cg.theta(RING, **how), "theta"),
    "qubo": (lambda **how: cg.qubo(QUBO, gap=1e-9, **how), "value"),
    "bisection": (lambda **how: cg.bisection(RING + TWO[:7, :7], **how), "partition"),
    "k-section": (
        lambda **how: cg.k_section(np.kron(RING, np.ones((2, 2))), 7, **how),
        "partition",
    ),
    "correlation": (lambda **how: cg.correlation_clustering(1 - 2 * RING, **how), "clustering"),
}
"""Calls that can take long, and what they show the value of."""


@pytest.fixture
def talkative(monkeypatch):
    """Plain lines at every occasion."""
    monkeypatch.setattr(Lines, "wait", lambda self, spent: 0.0)


@pytest.mark.parametrize("name", DOORS)
def test_doors_say_what_they_do(name, talkative, capfd):
    door, what = DOORS[name]
    quiet = door()
    assert capfd.readouterr().err == ""
    shown = door(verbose=2)
    err = capfd.readouterr().err
    assert all(re.match(r" *\d+\.\d s  \S", line) for line in err.splitlines())
    assert len(err.splitlines()) >= 1
    if what:
        assert re.search(rf"{what} -?\d", err)
        assert "bound" in err
    for number in ("objective", "bound", "gap"):  # who watches changes nothing
        assert getattr(shown, number) == getattr(quiet, number)


def test_the_numbers_are_those_of_the_answer(talkative, capfd):
    """Of the cut in its own units, not of the iterate in those of the relaxation."""
    cut = cg.sparsest_cut(RING, presolve=False, gap=1e-6, verbose=2)
    lines = [line for line in capfd.readouterr().err.splitlines() if "cut" in line]
    for line in lines:
        value, bound = (float(re.search(rf"{name} (\S+)", line)[1]) for name in ("cut", "bound"))
        assert value >= cut.value * (1 - 1e-5)
        assert bound <= cut.value
    assert f"cut {cut.value:.6g}" in lines[-1]


def values_of(what, err):
    """The values shown, in their order."""
    return [float(found) for found in re.findall(rf" {what} (\S+)", err)]


def test_a_better_cut_is_shown_once_it_is_found(talkative, capfd):
    graph = nx.to_numpy_array(nx.connected_watts_strogatz_graph(26, 4, 0.3, seed=8))
    cut = cg.sparsest_cut(graph, gap=1e-2, verbose=2)
    values = values_of("cut", capfd.readouterr().err)
    assert values[0] > values[-1] == pytest.approx(cut.value, rel=1e-5)


def test_a_second_run_does_not_show_what_is_worse(talkative, capfd, monkeypatch):
    """The run with triangle inequalities rounds worse here; the partition of the first stays."""
    build, built = partitions.section_of, []

    def worse(A, sizes, triangles):
        app = build(A, sizes, triangles)
        built.append(triangles)
        rounding = app.rounding
        if triangles:
            app = replace(app, rounding=lambda W: rounding(W)._replace(value=50.0))
        return app

    monkeypatch.setattr(partitions, "section_of", worse)
    graph = nx.to_numpy_array(nx.gnp_random_graph(22, 0.25, seed=1))
    found = cg.bisection(graph, verbose=2, max_seconds=30)
    assert (built, found.value) == ([False, True], 19)
    assert set(values_of("partition", capfd.readouterr().err)) == {19.0}


def test_values_are_shown_as_those_of_the_answer(talkative, capfd):
    """Of a program in zeros and ones, not of the cut; of a maximum, not of its negative."""
    cp = pytest.importorskip("cvxpy")
    door = pytest.importorskip("condgrad.cvxpy")
    W = cp.Variable((3, 3), PSD=True)
    problem = cp.Problem(cp.Maximize(5 - W[0, 1] - W[1, 2] - W[0, 2]), [cp.diag(W) == 1])
    for what, call in (
        ("value", lambda: cg.qubo(QUBO, sense="max", offset=0.5, gap=1e-9, verbose=2).value),
        ("theta", lambda: cg.theta(RING, verbose=2).value),
        ("value", lambda: door.solve(problem, backend="condgrad", verbose=2)),
    ):
        value, err = call(), capfd.readouterr().err
        bounds = [float(text) for text in re.findall(r"bound (-?\d\S*)", err)]
        values = [float(text) for text in re.findall(rf"{what} (-?\d\S*)", err)]
        assert min(bounds) >= value * (1 - 1e-5)
        assert values[-1] == pytest.approx(value, rel=1e-2)


def test_a_large_graph(talkative, capfd, monkeypatch):
    monkeypatch.setattr(large_max_cut, "FACTORED", 5)
    cut = cg.max_cut(RING, gap=1e-9, max_seconds=None, verbose=2, presolve=False)
    err = capfd.readouterr().err
    assert cut.value == 6
    assert "simulated annealing" in err or "mixing method" in err


@pytest.mark.parametrize("verbose", [True, 1])
def test_nothing_is_drawn_into_a_pipe(verbose, capfd):
    assert simplex(verbose=verbose).status is cg.Status.CONVERGED
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("verbose", ["yes", 1.5, None])
def test_what_is_no_verbosity(verbose):
    with pytest.raises(ProblemError, match="verbose is"):
        simplex(verbose=verbose)


def test_a_bar_in_a_terminal(monkeypatch):
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=120)
    monkeypatch.setattr(Terminal, "wait", lambda self, spent: 0.0)
    with shown(True, console=console, max_iter=300):
        simplex()
        simplex(verbose=True)  # on the same line
    text = file.getvalue()
    assert "objective 1.5" in text
    assert "%" in text
    assert _progress._current.get() is None


def test_a_line_in_a_notebook(monkeypatch):
    seen = []
    handle = types.SimpleNamespace(update=lambda data, raw: seen.append(data["text/plain"]))

    def display(data, raw, display_id):
        seen.append(data["text/plain"])
        return handle

    page = types.ModuleType("IPython.display")
    page.display = display
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", page)
    monkeypatch.setattr(_progress, "PAGE", 0.0)
    console = Console(file=io.StringIO(), force_jupyter=True)
    with shown(True, console=console, max_iter=300):
        simplex()
    assert seen[0] == "starting"
    assert any("objective 1.5" in line and "░" in line for line in seen)
    assert re.fullmatch(r"done in \d+ s", seen[-1])


def test_how_often(capfd):
    """A new thing at once, a detail of it and numbers no more often than a line is due."""
    now = [0.0]
    display = Display(Lines(), (None, None, 100.0), lambda: now[0])
    run = types.SimpleNamespace(counts=(3, 1.0, 0), trace=types.SimpleNamespace(last=None))
    display.doing("mixing method, 1 sweep", True)
    display.doing("mixing method, 2 sweeps", True)
    display.doing("compiling", False)  # maybe for a moment
    display.look(run)
    now[0] = 1.0
    display.measure = lambda last: Seen("cut", 3.0, 4.0, 0.25, "max")
    display.look(run)
    now[0] = 1.9
    display.look(run)
    now[0] = 60.0
    display.look(run)  # which says nothing new
    display.doing("rounding", True)
    now[0] = 63.0
    display.doing("rounding, again", True)  # a tenth of a minute must pass
    lines = [line.strip() for line in capfd.readouterr().err.splitlines()]
    assert lines == [
        "0.0 s  mixing method, 1 sweep",
        "1.0 s  k 3  cut 3  bound 4  gap 25 %",
        "60.0 s  rounding  cut 3  bound 4  gap 25 %",
    ]


def test_words():
    assert numbers(Seen("inertia", 1.0, -np.inf, np.inf)) == "inertia 1"
    assert numbers(Seen("cut", 2 / 3, 1 / 3, 0.5)) == "cut 0.666667  bound 0.333333  gap 50 %"
    assert numbers(Seen("cut", 1 / 3, 2 / 3, 0.5, "max")).startswith("cut 0.333333  bound 0.666667")


def test_progress_is_the_same_display(capfd):
    with cg.Progress(max_iter=300) as progress:
        simplex(callbacks=[progress])
    assert capfd.readouterr() == ("", "")


def test_every_door_has_it():
    learn = pytest.importorskip("condgrad.sklearn")
    doors = (cg.solve, cg.sparsest_cut, cg.max_cut, learn.certify)
    for door in (*doors, learn.SDPKMeans, learn.MatrixCompletion):
        assert not inspect.signature(door).parameters["verbose"].default


def test_no_bound_is_not_shown():
    row = {"objective": 2.0, "infeasibility": 7.0, "lower_bound": 1.0, "gap": 0.5}
    assert plain(row) == "objective 2  bound 1  gap 0.5"
    family = {"l2": 7.0, "max": 5.0, "relative": 0.1, "scaled": 0.2, "row": 0.3}
    row |= {f"rows.{name}": number for name, number in family.items()}
    assert plain(row) == "objective 2  infeasibility 0.2  bound 1  gap 0.5"
    missing = {**row, "lower_bound": -np.inf, "gap": np.inf}
    assert plain(missing) == "objective 2  infeasibility 0.2"
