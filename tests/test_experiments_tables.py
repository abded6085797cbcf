from __future__ import annotations

import csv
import json
import sys
from dataclasses import replace

import numpy as np
import pytest

from condgrad.experiments import draw, plan, summary
from condgrad.experiments.precision import compare
from condgrad.experiments.runner import instance_of
from condgrad.experiments.summary import groups, rows

K = np.array([0.0, 1.0, 2.0, 4.0])


def keep(folder, job, **columns):
    """Store a run with these columns; a number stands for a curve that ends there."""
    path = folder / f"{job.key}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {"run": {"beta0": 10.0 if job.beta0 is None else job.beta0}}
    curves = {n: v + 4 - K if np.isscalar(v) else v for n, v in columns.items()}
    rest = dict.fromkeys(("k", "seconds", "epochs", "objective", "infeasibility"), K)
    np.savez(path, about=json.dumps(about), **{**rest, **curves})


def read(folder):
    return (folder / "summary.md").read_text(encoding="utf-8")


def table(text, after):
    """The first table after a line of a Markdown text, as one dict per row."""
    lines = text[text.index(after) :].splitlines()[1:]
    start = next(i for i, line in enumerate(lines) if line.startswith("|"))
    cells = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        cells.append([cell.strip() for cell in line.strip("|").split("|")])
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]


def path_of_radii(folder):
    jobs = plan(["fig1-radius"], seeds=2)
    test = {
        4500: 1.5,
        4700: 1.25,
        5000: 1.0,
        5500: 1.125,
        6000: 1.25,
        7000: 1.5,
        8000: 1.5,
        10000: 1.75,
    }
    for job in jobs:
        spread = 0.25 if job.seed else -0.25
        value = test[instance_of(job)[1].at] + spread
        keep(folder, job, train_rmse=0.5, test_rmse=value, infeasibility=value + 1)
    return jobs


def test_a_path_has_a_sentence_on_the_smallest_test_error(tmp_path):
    jobs = path_of_radii(tmp_path)
    summary.write(jobs, tmp_path, "", {})
    sentence = "Smallest test RMSE: 1 ± 0.35 at 5000 (chosen by looking at the test ratings)"
    assert sentence in read(tmp_path)
    summary.write(plan(["fig1"]), tmp_path, "", {})
    assert "Smallest" not in read(tmp_path)


def test_several_paths_are_told_apart(tmp_path):
    jobs = path_of_radii(tmp_path)
    others = [replace(job, method="shcgm") for job in jobs]
    for job in others:
        keep(tmp_path, job, test_rmse=abs(instance_of(job)[1].at - 6000))
    summary.write([*jobs, *others], tmp_path, "", {})
    assert "Smallest test RMSE (paper, H-SAG-CGM/v1, β0 = 100): 1 ± 0.35 at 5000" in read(tmp_path)
    assert "Smallest test RMSE (paper, SHCGM, β0 = 100): 0 at 6000" in read(tmp_path)


def test_a_path_is_drawn_with_its_best_point(tmp_path, monkeypatch):
    jobs = path_of_radii(tmp_path)
    drawn = {}
    save = draw._save

    def spy(fig, base, title):
        drawn[base.name] = [[line.get_data() for line in ax.lines] for ax in fig.axes]
        return save(fig, base, title)

    monkeypatch.setattr(draw, "_save", spy)
    paths = draw.draw(jobs, tmp_path)
    assert len(paths) == 2 * (8 + 1)
    assert all(path.stat().st_size > 1000 for path in paths)
    for kind in ("png", "svg"):
        assert tmp_path / f"fig1-radius-path-paper.{kind}" in paths
    train, test, infeasibility = drawn["fig1-radius-path-paper"]
    np.testing.assert_array_equal(test[0][0], [4500, 4700, 5000, 5500, 6000, 7000, 8000, 10000])
    np.testing.assert_array_equal(test[0][1], [1.5, 1.25, 1.0, 1.125, 1.25, 1.5, 1.5, 1.75])
    for panel, value in ((train, 0.5), (test, 1.0), (infeasibility, 2.0)):
        assert [tuple(map(float, v)) for v in panel[1]] == [(5000.0,), (value,)]


def test_a_figure_without_a_path_has_no_picture_of_one(tmp_path):
    jobs = plan(["fig1"], seeds=1)
    for job in jobs:
        keep(tmp_path, job, train_rmse=0.5, test_rmse=1.0, infeasibility=1.0)
    assert {path.stem for path in draw.draw(jobs, tmp_path)} == {"fig1-movielens-paper"}


def test_a_published_curve_is_drawn_for_the_method_that_it_is_of(tmp_path, monkeypatch):
    """The published files have one name for both variants; a graph's curves are of variant 2."""
    (tmp_path / "paper-curves").mkdir()
    curve = {f"hsagcgm_{name}": 9 - K for name in ("objective", "infeasibility", "epoch")}
    path = tmp_path / "paper-curves" / "sparsest-cut_mammalia-primate-association-13.npz"
    np.savez(path, **curve)
    monkeypatch.setenv("CONDGRAD_DATA", str(tmp_path))
    jobs = plan(["fig3-sparsest-cut"], seeds=1, methods=["h-sag-v1", "h-sag-v2"])
    jobs = [job for job in jobs if (job.instance, job.preset) == ("n25", "paper")]
    for job in jobs:
        keep(tmp_path, job, objective=200.0, infeasibility=5.0)
    drawn = []
    monkeypatch.setattr(draw, "_save", lambda fig, base, title: [drawn.append(fig)])
    draw.draw(jobs, tmp_path)
    for ax in drawn[0].axes[:2]:
        dotted = [line.get_color() for line in ax.lines if line.get_linestyle() == ":"]
        assert dotted == ["C1"]


def test_best_of_a_grid_by_the_same_rule_for_every_method(tmp_path):
    jobs = plan(["fig1-grid"], seeds=1)
    best = {"h-sag-v1": 1.0, "shcgm": 100.0}
    for job in jobs:
        far = abs(np.log10(job.beta0 / best[job.method]))
        keep(tmp_path, job, objective=50 + far, infeasibility=job.beta0, test_rmse=9 - far)
    summary.write(jobs, tmp_path, "", {})
    found = table(read(tmp_path), "Best β0 of the grid")
    assert [(row["method"], row["smallest"], row["β0"]) for row in found] == [
        ("H-SAG-CGM/v1", "objective", "1"),
        ("H-SAG-CGM/v1", "infeasibility", "0.01"),
        ("SHCGM", "objective", "100"),
        ("SHCGM", "infeasibility", "0.01"),
    ]
    assert found[2]["objective"] == "50"
    assert found[2]["infeasibility"] == "100"
    assert found[2]["test_rmse"] == "9"
    assert found[3]["test_rmse"] == "5"


def test_a_run_that_ends_in_nan_is_never_the_best(tmp_path):
    jobs = plan(["fig1-grid"], seeds=1, methods=["shcgm"])
    for job in jobs:
        value = np.nan if job.beta0 == 0.01 else job.beta0
        keep(tmp_path, job, objective=value, infeasibility=value)
    summary.write(jobs, tmp_path, "", {})
    assert [row["β0"] for row in table(read(tmp_path), "Best β0 of the grid")] == ["0.1", "0.1"]


def test_one_beta0_is_no_grid(tmp_path):
    summary.write(path_of_radii(tmp_path), tmp_path, "", {})
    assert "Best" not in read(tmp_path)


def test_families_are_shown_where_there_are_several(tmp_path):
    cut, box = plan(["fig3-sparsest-cut"], seeds=1)[0], plan(["fig1"], seeds=1)[0]
    keep(tmp_path, cut, **{"objective": 1.0, "spread.l2": 3.0, "triangles.l2": 4.0})
    keep(tmp_path, box, **{"infeasibility": 5.0, "box.l2": 5.0})
    summary.write([cut, box], tmp_path, "", {})
    (row,) = table(read(tmp_path), "## fig3-sparsest-cut")
    assert (row["spread.l2"], row["triangles.l2"]) == ("3", "4")
    (row,) = table(read(tmp_path), "## fig1")
    assert "box.l2" not in row


def test_published_values_stand_beside_ours(tmp_path):
    job = plan(["fig3-sparsest-cut"], seeds=1, methods=["shcgm"])[0]
    keep(tmp_path, job, objective=200.0, infeasibility=5.0)
    summary.write([job], tmp_path, "", {})
    (row,) = table(read(tmp_path), "## fig3-sparsest-cut")
    optimum = instance_of(job)[1].optimum
    assert row["published objective"] == "164.3"
    assert row["published infeasibility"] == "4.034"
    assert row["published suboptimality"] == f"{abs(164.2568 - optimum) / abs(optimum):.4g}"
    names = list(row)
    for name in ("objective", "suboptimality", "infeasibility"):
        assert names[names.index(name) + 1] == f"published {name}"


def test_precisions_are_not_mixed(tmp_path):
    doubles = plan(["fig1"], seeds=2, methods=["shcgm"])
    singles = plan(["fig1"], seeds=2, methods=["shcgm"], dtype="float32")
    for job in doubles:
        keep(tmp_path, job, objective=1.0)
    for job in singles:
        keep(tmp_path, job, objective=3.0)
    summary.write([*doubles, *singles], tmp_path, "", {})
    with (tmp_path / "summary.csv").open(encoding="utf-8") as file:
        found = {row["dtype"]: float(row["objective"]) for row in csv.DictReader(file)}
    assert found == {"float64": 1.0, "float32": 3.0}
    methods = [row["method"] for row in table(read(tmp_path), "## fig1")]
    assert methods == ["SHCGM", "SHCGM, float32"]


def test_parquet_has_every_record(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    jobs = plan(["fig1", "fig1-radius"], seeds=2, methods=["shcgm"])
    for job in jobs:
        extra = {"box.l2": 2.0} if job.figure == "fig1" else {}
        keep(tmp_path, job, objective=float(job.seed), **extra)
    summary.write(jobs, tmp_path, "", {})
    assert "Parquet" not in read(tmp_path)
    curves = pandas.read_parquet(tmp_path / "curves.parquet")
    assert list(curves.columns[:7]) == [
        *("figure", "instance", "preset", "method", "beta0", "dtype", "seed"),
    ]
    assert len(curves) == len(jobs) * K.size
    one = curves[(curves["figure"] == "fig1") & (curves["seed"] == 1)]
    np.testing.assert_array_equal(one["k"], K)
    np.testing.assert_array_equal(one["objective"], 1 + 4 - K)
    assert set(one["beta0"]) == {10.0}
    assert curves["box.l2"].notna().sum() == 2 * K.size
    ends = pandas.read_parquet(tmp_path / "summary.parquet")
    ours = rows(groups(jobs, tmp_path))
    assert ends["objective"].tolist() == [row["objective"] for row in ours]


@pytest.mark.parametrize("missing", ["pandas", "pyarrow"])
def test_parquet_is_left_out_without_the_extra(tmp_path, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    job = plan(["fig1"], seeds=1)[0]
    keep(tmp_path, job, objective=1.0)
    summary.write([job], tmp_path, "", {})
    assert "Parquet files need condgrad[frame]" in read(tmp_path)
    assert not list(tmp_path.glob("*.parquet"))
    assert (tmp_path / "summary.csv").exists()


def test_nothing_stored_is_an_empty_summary(tmp_path):
    summary.write(plan(["fig1"]), tmp_path, "condgrad reproduce fig1", {})
    assert "##" not in read(tmp_path)


def test_precision_is_compared_with_the_spread_over_seeds(tmp_path):
    jobs = plan(["fig1"], seeds=3, methods=["shcgm"])
    for job in jobs:
        spread = job.seed - 1.0  # standard deviation 1
        keep(tmp_path / "64", job, objective=10 + spread * (K > 0), test_rmse=2.0 + 0 * K)
        moved = np.array([7.0, 0.0, 0.5, 0.25])  # at k = 0 it does not count
        curve = 10 + spread * (K > 0) + moved
        single = replace(job, dtype="float32")
        keep(tmp_path / "32", single, objective=curve, test_rmse=2.0 + 0 * K)
    keep(tmp_path / "64", replace(jobs[0], seed=3), objective=99.0)  # has no float32 run
    objective, test, _ = compare(
        tmp_path / "32", tmp_path / "64", [*jobs, replace(jobs[0], seed=3)]
    )
    assert objective["seeds"] == 3
    assert (objective["method"], objective["column"]) == ("shcgm", "objective")
    assert objective["over_std"] == pytest.approx(0.5)
    assert objective["k"] == 2
    assert objective["relative"] == pytest.approx(0.05)
    assert (test["column"], test["over_std"], test["relative"]) == ("test_rmse", 0, 0)


def test_precision_where_the_seeds_agree_and_where_there_is_one(tmp_path):
    jobs = plan(["fig1"], seeds=2, methods=["shcgm"])
    for job in jobs:
        keep(tmp_path, job, objective=2.0 + 0 * K)
        keep(tmp_path, replace(job, dtype="float32"), objective=2.0 + 1e-6 * K)
    both, _ = compare(tmp_path, tmp_path, jobs)
    assert both["over_std"] == np.inf
    one, _ = compare(tmp_path, tmp_path, jobs[:1])
    assert np.isnan(one["over_std"])
    assert one["relative"] == pytest.approx(2e-6)
    assert compare(tmp_path / "none", tmp_path, jobs) == []
