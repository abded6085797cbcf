"""What answers say of themselves: units, whose fault a gap is, where a run went on."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

import condgrad as cg
from condgrad import applications
from condgrad.errors import InputError, ProblemError
from condgrad.io import index_ratings, read_features, read_named_graph, read_ratings
from condgrad.record import Record
from condgrad.sdp import SDP

RING = np.roll(np.eye(7), 1, axis=0) + np.roll(np.eye(7), -1, axis=0)
POINTS = np.random.default_rng(3).normal(size=(12, 2)) + 6 * (np.arange(12) // 4)[:, None]
CUT = {"sparsest cut": applications.sparsest_cut, "maximum cut": applications.max_cut}


@pytest.mark.parametrize("name", CUT)
def test_one_unit_for_cuts(name):
    """Python, outcome, JSON, table and trace have the value of the cut; the run has its own."""
    door = cg.sparsest_cut if name == "sparsest cut" else cg.max_cut
    cut, run = door(RING, gap=1e-3), CUT[name](RING).run(gap=1e-3)
    weight = RING[cut.side][:, ~cut.side].sum()
    share = cut.side.sum() * (~cut.side).sum() if name == "sparsest cut" else 1
    assert cut.value == pytest.approx(weight / share)
    scale = 7**2 / 2 if name == "sparsest cut" else -1
    data = json.loads(json.dumps(run.to_json()))
    assert run.value == data["rounded"]["value"] == pytest.approx(cut.value)
    side = "lower_bound" if name == "sparsest cut" else "upper_bound"
    assert (data["objective"], data[side], data["gap"]) == (
        *(run.value, run.value_bound),
        run.rounded_gap,
    )
    assert data["run"]["objective"] == run.result.objective
    assert run.result.objective == pytest.approx(scale * data["relaxation"]["objective"])
    assert run.result.lower_bound == pytest.approx(scale * data["relaxation"][side])
    assert "w(S, S̄)" in data["unit"]
    record = Record.of(run)
    assert abs(record.trace.last["objective"]) == pytest.approx(
        abs(run.result.trace.last["objective"] / scale)
    )
    assert dict(record.facts["summary"])["unit"] == data["unit"]


def test_one_unit_for_clusterings():
    C = np.square(POINTS[:, None] - POINTS).sum(axis=2)
    run = applications.kmeans(C, 3).run(gap=1e-2)
    labels = run.rounded.answer.labels
    inertia = sum(
        np.square(POINTS[labels == j] - POINTS[labels == j].mean(axis=0)).sum() for j in range(3)
    )
    assert run.value == pytest.approx(inertia)
    assert run.result.lower_bound == 2 * run.bound
    data = run.to_json()
    assert data["lower_bound"] <= data["objective"] == run.value
    assert data["gap"] == run.rounded_gap
    assert data["relaxation"]["gap"] == run.gap


def test_what_is_asked_and_what_is_read_has_a_short_repr(tmp_path):
    cost = cg.Term(cg.maps.Inner(np.ones(3)), cg.functions.Linear(), 2.0, "cost")
    problem = cg.Problem(cg.domains.Simplex(3), [cost])
    assert repr(problem) == (
        "<Problem: Simplex 3; <Term 'cost': Linear of 1 row by Inner, weight 2>>"
    )
    sdp = SDP([np.eye(2), np.ones(4)], "max").subject_to([np.eye(2), np.ones(4)], "==", 1.0)
    assert repr(sdp) == "<SDP: max, blocks 2, -4; 1 row>"
    (tmp_path / "a.csv").write_text("user,item,rating\na,x,1\na,y,2\nb,y,3\n")
    ratings = read_ratings(tmp_path / "a.csv")
    assert repr(ratings) == "<Ratings: 3 of 2 items by 2 users>"
    assert repr(index_ratings(ratings)).startswith("<IndexedRatings: 3 ratings and 0 held out")
    (tmp_path / "b.csv").write_text("name,x,y\na,1,2\nb,3,4\n")
    assert repr(read_features(tmp_path / "b.csv")) == "<Features: 2 points, 2 coordinates, names>"
    (tmp_path / "c.csv").write_text("a b\nb c\n")
    graph = read_named_graph(tmp_path / "c.csv")
    assert repr(graph) == "<NamedGraph: 3 vertices with names, 2 edges>"


def test_the_labels_are_to_blame():
    certify = pytest.importorskip("condgrad.sklearn").certify
    proof = certify(POINTS, np.arange(12) % 3, max_iter=300)
    assert proof.better_inertia < proof.inertia
    again = certify(POINTS, proof.better, max_iter=300)
    assert again.inertia == pytest.approx(proof.better_inertia)
    assert "the labels are not the best" in str(proof)
    assert ("the labels are to blame" in str(proof)) == (again.gap <= 0.01)
    assert f"{proof.better_inertia:.6g}" in str(proof)
    assert again.better is None
    assert "labels" not in str(again)


def test_the_relaxation_is_to_blame():
    """A hexagon into two clusters: the best are halves, and the relaxation is below them."""
    certify = pytest.importorskip("condgrad.sklearn").certify
    angles = np.arange(6) * np.pi / 3
    hexagon = np.column_stack([np.cos(angles), np.sin(angles)])
    proof = certify(hexagon, np.arange(6) // 3, max_iter=500)
    assert proof.gap > 0.01
    assert proof.better is None
    assert "no better clustering was found" in str(proof)


def test_a_resumed_run_says_so(tmp_path):
    price = cg.Term(cg.maps.Inner(np.array([3.0, 1.0, 2.0])), cg.functions.Linear(), name="price")
    most = cg.Term(cg.maps.AllEntries((3,)), cg.functions.AtMost(0.5), name="most")
    problem, path = cg.Problem(cg.domains.Simplex(3), [price, most]), tmp_path / "kept"
    first = cg.solve(problem, max_iter=10, checkpoint=path)
    assert first.resumed is None
    assert "checkpoint" not in str(first)
    again = cg.solve(problem, max_iter=15, resume=path)
    assert again.resumed == 10
    assert "after 15 iterations" in str(again)
    assert "10 of them from the checkpoint" in str(again)


def test_a_refusal_names_the_gap_that_was_given(tmp_path):
    path = tmp_path / "kept"
    cut = cg.sparsest_cut(RING, gap=1e-2, presolve=False, checkpoint=path)
    with pytest.raises(InputError, match=re.escape("gap is 0.05 here and was 0.01")):
        cg.sparsest_cut(RING, gap=5e-2, presolve=False, resume=path)
    again = cg.sparsest_cut(RING, gap=1e-2, presolve=False, resume=path)
    assert again.value == cut.value
    assert "of the iterations from the checkpoint" in str(again)


def test_one_infeasibility_is_said():
    """That of the family or, where it is what decides, of the worst row."""
    run = applications.sparsest_cut(RING).run(max_iter=3)
    assert str(run.result).count("infeasibility") == 1
    assert f"relative infeasibility {run.result._missed()} after" in str(run.result)


def test_short_words():
    application = applications.sparsest_cut(RING)
    run = application.run(max_iter=3)
    assert repr(application) == "<Application: sparsest-cut, preset auto; vertices 7>"
    assert repr(Record.of(run)).startswith("<Record: sparsest-cut, ")
    assert len(repr(run)) < 160
    page = run._repr_html_()
    assert f'<td style="text-align:left">{run.value:.6g}</td>' in page


def test_partitions_say_value_and_sizes():
    path = np.diag(np.ones(3), 1)
    found = cg.bisection(path + path.T)
    assert str(found).startswith("Partition of 4 vertices into 2 parts (2, 2): value 1, ")
    assert repr(found) == "<Partition: vertices 2 + 2, value 1, lower bound 1, gap 0 %; converged>"
    alone = cg.correlation_clustering(path + path.T)
    assert str(alone).startswith("Partition of 4 vertices into 1 part (4): value 0, ")
    assert "value 1, " in repr(cg.qubo([[1.0]], sense="max"))


def test_text_among_the_points():
    certify = pytest.importorskip("condgrad.sklearn").certify
    points = np.array([["ann", 1.0], ["bob", 2.0]], dtype=object)
    with pytest.raises(ProblemError, match=r"X: could not convert .*'ann'; leave columns of text"):
        certify(points, [0, 1])


def test_rounding_does_not_look_like_a_gap():
    """A bound is printed on the safe side, with as many digits as the gap is small."""
    found = SDP(np.eye(2)).subject_to(np.eye(2), "==", 4.0).solve()
    close = replace(found, value=4.0, bound=4.0 - 3e-14)
    assert "value 4, lower bound 3.99999999999996, gap" in repr(close)
    assert "value 4, proven lower bound 3.99999999999996; gap" in str(close)
    far = replace(found, value=4.0, bound=3.75)
    assert "value 4, lower bound 3.75, gap" in repr(far)


def test_what_a_gap_is_relative_to():
    found = SDP(np.diag([1e6, 1e-6])).subject_to(np.diag([1.0, 1e6]), ">=", 1.0).solve()
    assert max(found.value, found.bound) < found.unit
    words = f" of {found.unit:.2g}, a millionth of the objective's terms"
    assert words in str(found)
    assert words in repr(found)
    assert "millionth" not in str(replace(found, unit=0.0))


def test_what_would_help_at_a_limit():
    sdp = SDP(np.diag([1.0, 2.0, 3.0])).subject_to(np.ones((3, 3)), "==", 1.0)
    sdp.subject_to(np.diag([1.0, -1.0, 0.0]), "==", 0.5)
    found = replace(sdp.solve(max_iter=2), trace_from="guess", status=cg.Status.MAX_ITER)
    assert "pass a trace_bound" in str(found)
    for other in ({"trace_from": "rows"}, {"status": cg.Status.CONVERGED}):
        assert "trace_bound" not in str(replace(found, **other))
