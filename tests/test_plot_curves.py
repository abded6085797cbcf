"""Objective, gap and infeasibility of runs, and answers, as pictures."""

from __future__ import annotations

import numpy as np
import pytest

import condgrad as cg
from condgrad import datasets, plot, report
from condgrad.errors import ProblemError
from condgrad.record import Record


def drawn(figure):
    """Render a figure; warnings are errors."""
    figure.canvas.draw()
    return figure


def trace_of(objective, infeasibility=None, bound=None):
    trace = cg.Trace()
    for k, value in enumerate(objective):
        trace.append(
            {
                **{"k": k, "epochs": 0.5 * k, "seconds": 0.01 + 0.1 * k, "objective": value},
                "infeasibility": 0.0 if infeasibility is None else infeasibility[k],
                "lower_bound": -np.inf if bound is None else bound[k],
            }
        )
    return trace


K = np.arange(50.0)
AWKWARD = {
    "nothing happened": trace_of([3.0], [0.0]),
    "one iteration": trace_of([3.0, 2.0], [1.0, 0.0], [-np.inf, 1.0]),
    "never feasible": trace_of([3.0, 2.0], [np.nan, np.inf]),
    "all NaN": trace_of([np.nan] * 4, [np.nan] * 4),
    "no bound": trace_of(1 / (K + 1), 1 / (K + 1)),
    "zero infeasibility at times": trace_of(1 / (K + 1), np.where(K % 3, 1 / (K + 1), 0)),
    "both signs": trace_of(np.cos(K), 1 / (K + 1), -1 - 0 * K),
    "negative": trace_of(-5 + 1 / (K + 1), 0 * K, -5 - 1 / (K + 1)),
    "zero": trace_of(0 * K, 0 * K, 0 * K),
    "infinite": trace_of([np.inf, 1.0, 2.0], [np.inf, 1.0, 0.0]),
    "huge and tiny": trace_of([1e300, 1e-300, 1.0], [1e300, 1e-300, 1.0]),
    "huge, both signs": trace_of([1e308, -1e308, 1.0]),
    "bound far off": trace_of(40 + 1e-6 * K, None, 40 - 1e9 / (K + 1)),
}


@pytest.mark.parametrize("sense", ["min", "max"])
@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_traces_are_drawn(name, sense):
    missed = AWKWARD[name]["infeasibility"]
    constrained = bool(np.any(missed[np.isfinite(missed)] > 0))  # else there is nothing to draw
    figure = drawn(plot.convergence(AWKWARD[name], x=("epochs", "seconds"), sense=sense))
    assert len(figure.axes) == (4 if constrained else 2)


def test_convergence_shows_what_the_trace_has():
    trace = trace_of(2 + 1 / (K + 1), np.where(K % 2, 1 / (K + 1), 0), 2 - 1 / (K + 1))
    objective, infeasibility = drawn(plot.convergence(trace, x="iterations")).axes
    curve, bound = objective.lines
    np.testing.assert_allclose(curve.get_xydata(), np.c_[K, trace["objective"]][1:])
    np.testing.assert_allclose(bound.get_ydata(), trace["lower_bound"][1:])
    assert [text.get_text() for text in objective.get_legend().get_texts()] == [
        "objective",
        "lower bound",
    ]
    positive, zero = infeasibility.lines
    assert infeasibility.get_yscale() == objective.get_xscale() == "log"
    assert len(positive.get_xdata()) == 25
    np.testing.assert_allclose(zero.get_xdata(), K[2::2])
    assert infeasibility.get_xlabel() == "iterations"


def test_a_maximum_is_turned_round():
    trace = trace_of(-3 + 1 / (K + 1), None, -3 - 1 / (K + 1))
    curve, bound = drawn(plot.convergence(trace, x="k", sense="max")).axes[0].lines
    np.testing.assert_allclose(curve.get_ydata(), 3 - 1 / (K[1:] + 1))
    assert (bound.get_ydata() >= curve.get_ydata()).all()
    assert bound.get_label() == "upper bound"


def test_an_early_bound_does_not_hide_the_objective():
    trace = trace_of(42 - 1 / (K + 1), None, 40 - 1e9 * (K < 9))
    (ax,) = drawn(plot.convergence(trace, x="k")).axes
    assert ax.get_ylim() == pytest.approx((40, 42), abs=0.2)
    assert len({text.get_text() for text in ax.get_yticklabels()}) == len(ax.get_yticklabels())


def test_early_values_are_cut_off():
    for first in (1e6, -1e6):
        trace = trace_of(np.where(K < 9, first, 42 + 1 / (K + 1)), None, 41 + 0 * K)
        low, high = drawn(plot.convergence(trace, x="k")).axes[0].get_ylim()
        assert 38 < low < 41 < 42.1 < high < 45
    smooth = drawn(plot.convergence(trace_of(1e3 * 0.7**K), x="k")).axes[0]
    assert smooth.get_yscale() == "log"
    assert smooth.get_ylim()[1] > 700


@pytest.mark.parametrize(
    ("sense", "bounds", "gaps"),
    [
        ("min", [5.0, 8.0, 9.5], [5 / 10, 2 / 10, 0]),
        ("max", [-15.0, -12.0, -10.5], [1 / 3, 1 / 6, 0]),
    ],
)
def test_the_gap_of_what_was_found_stands_beside_that_of_the_relaxation(sense, bounds, gaps):
    sign, trace = -1 if sense == "max" else 1, cg.Trace()
    for k, bound in enumerate([-np.inf, *bounds]):
        row = {"k": k, "epochs": k, "seconds": 0.1 * k, "infeasibility": 0.0, "gap": 0.5**k}
        trace.append({**row, "objective": 9.8 * sign, "lower_bound": bound})
    found = plot.Found("cut", 10.0, whole=True)
    objective, gap = drawn(plot.convergence(trace, sense=sense, found=found)).axes
    assert objective.get_legend().get_texts()[-1].get_text() == "cut found"
    assert [text.get_text() for text in gap.get_legend().get_texts()] == ["relaxation", "cut"]
    np.testing.assert_allclose(found.gaps(sign * trace["lower_bound"], sense), [np.inf, *gaps])


def test_answer_on_a_line():
    (ax,) = drawn(plot.answer({"cut": 179.0, "relaxation": 183.6}, {"upper bound": 183.0})).axes
    labels = [text.get_text() for text in ax.get_yticklabels()]
    assert labels == ["cut", "relaxation", "upper bound"]
    assert [text.get_text() for text in ax.texts] == ["179", "183.6", "183"]
    same = drawn(plot.answer({"cut": 2.0}, {"lower bound": np.nextafter(2.0, 0)})).axes[0]
    assert len({text.get_text() for text in same.get_xticklabels()}) > 2  # digits to be read
    (alone,) = drawn(plot.answer({"objective": 0.0}, {"lower bound": -np.inf})).axes
    assert len(alone.texts) == 1
    assert (
        drawn(plot.answer({"objective": np.nan}, {})).axes[0].texts[0].get_text().startswith("no")
    )


def test_several_runs_and_dollars_in_labels():
    runs = {"a $x": trace_of(1 + 1 / (K + 1)), "$\\frac$": trace_of(-K)}
    figure = drawn(plot.convergence(runs, title="$ $", optimum=None))
    texts = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert texts == ["a \\$x", "\\$\\frac\\$"]
    assert figure.axes[0].get_yscale() == "linear"  # one run has no logarithm
    relative = drawn(plot.convergence(runs, optimum=1.0)).axes[0]
    assert relative.get_ylabel() == "relative suboptimality"


@pytest.mark.parametrize(
    ("traces", "how", "words"),
    [
        ({}, {}, "traces is empty"),
        (trace_of([1.0]), {"x": "hours"}, "'hours'"),
        (trace_of([1.0]), {"x": ()}, "x is empty"),
        (trace_of([1.0]), {"sense": "up"}, "sense is 'up'"),
    ],
)
def test_bad_input(traces, how, words):
    with pytest.raises(ProblemError, match=words):
        plot.convergence(traces, **how)


def test_the_radius_that_was_chosen():
    table = [[2.0, 0.9, 0.8, 3], [1.0, 1.0, 0.7, 5], [4.0, 1.1, 0.9, 0]]
    (ax,) = drawn(plot.radius(table, 1.2, 1.0)).axes
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["convex fit", "factors fitted again", "mean and biases alone", "chosen"]
    convex, _, _, chosen = ax.lines
    np.testing.assert_array_equal(convex.get_xdata(), [1, 2, 4])
    assert (chosen.get_xdata()[0], chosen.get_ydata()[0]) == (1, 0.7)
    assert len(drawn(plot.radius(table)).axes[0].lines) == 2  # neither is known
    with pytest.raises(ProblemError, match="path_of_radii has shape"):
        plot.radius([])


def test_the_point_returned_is_a_dot_and_has_the_numbers_of_the_table():
    run = cg.applications.sparsest_cut(datasets.load("embedded/karate")).run(gap=1e-3)
    assert run.result.proposed  # the curve ends at another point, which is infeasible
    assert run.trace.missed[-1] > run.infeasibility == 0
    record = Record.of(run)
    for figure in (plot.convergence(run, x="k"), plot.sheet(record, only="convergence", x="k")):
        objective, gap, infeasibility = drawn(figure).axes
        (dot,) = (line for line in objective.lines if line.get_label() == "returned")
        assert dot.get_xydata()[0] == pytest.approx([run.result.best_iteration, run.objective])
        assert any(line.get_ydata()[0] == pytest.approx(run.gap) for line in gap.lines)
        assert infeasibility.lines[-1].get_xydata().tolist() == [[run.result.best_iteration, 0]]
        assert infeasibility.lines[-1].get_marker() == "o"  # at the edge
        name = infeasibility.get_ylabel().replace("\n", " ")
    assert name == "relative infeasibility of the worst family"
    assert dict(report.summary(run))["infeasibility"].startswith("0 of the worst family, 0 of the")


def test_a_curve_of_several_runs_ends_at_the_point_returned():
    cut = cg.sparsest_cut(datasets.load("embedded/karate"))
    (dot,) = (
        line for line in plot.convergence(cut).axes[0].lines if line.get_label() == "returned"
    )
    assert dot.get_ydata() == pytest.approx([cut.value])


def test_the_infeasibility_drawn_is_the_one_that_is_tested():
    trace = cg.Trace()
    for k in range(1, 12):
        row = {"k": k, "seconds": 0.1 * k, "epochs": k, "objective": 1 + 1 / k, "gap": 0.5**k}
        row |= {"infeasibility": 70 / k, "lower_bound": 1 - 1 / k}
        trace.append(row | {"a.relative": 0.1 / k, "a.scaled": 0.2 / k, "b.relative": 0.15 / k})
    np.testing.assert_array_equal(trace.missed, trace["a.scaled"])
    axes = drawn(plot.convergence(trace)).axes
    assert axes[-1].get_ylabel() == "relative infeasibility\nof the worst family"
    np.testing.assert_array_equal(axes[-1].lines[0].get_ydata(), trace["a.scaled"])
