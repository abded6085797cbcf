from __future__ import annotations

import csv
import signal
import sys
import time

import numpy as np
import pytest

import processes
from condgrad import ProblemError, cli
from condgrad.experiments import FIGURES, plan, reproduce
from condgrad.experiments.figures import NINE
from condgrad.experiments.runner import instance_of, run_job, stored
from condgrad.experiments.summary import column, groups, rows

CUT = "fig3-sparsest-cut"


@pytest.fixture
def run(monkeypatch, capsys):
    def call(*args):
        monkeypatch.setattr(sys, "argv", ["condgrad", "reproduce", *map(str, args)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        out, err = capsys.readouterr()
        return end.value.code or 0, out, err

    return call


def small(seeds=2, methods=("h-sag-v2", "cgal")):
    return plan([CUT], presets=["paper"], seeds=seeds, quick=True, embedded=True, methods=methods)


def test_plan_has_every_setting_once():
    jobs = plan(list(FIGURES), seeds=2)
    assert len({job.key for job in jobs}) == len(jobs)
    cuts = [j for j in jobs if j.figure == CUT]
    assert len(cuts) == 3 * 2 * 9 * 2  # graphs, presets, methods, seeds
    assert {j.method for j in cuts} == set(NINE)
    assert {j.length for j in cuts} == {1000}
    grid = [j for j in jobs if j.figure == "fig1-grid"]
    by_method = {m: {j.beta0 for j in grid if j.method == m} for m in ("h-sag-v1", "shcgm")}
    assert by_method["h-sag-v1"] == by_method["shcgm"] == {0.01, 0.1, 1, 10, 100, 1000}
    assert all(instance_of(j)[1].name == j.instance for j in jobs)


def test_the_summary_says_which_data_are_missing(run, tmp_path, monkeypatch):
    (tmp_path / "movielens-100k").mkdir()
    for name in ("ub.base", "ub.test"):  # there, so that nothing is fetched
        (tmp_path / "movielens-100k" / name).write_text("no ratings")
    monkeypatch.setenv("CONDGRAD_DATA", str(tmp_path))
    code, out, err = run("fig2", "--quick", "--jobs", 1, "--out", tmp_path / "out")
    assert code == 1
    assert "2 of 2 runs failed: InputError: " in out
    assert "ub.base" in out
    assert "`--embedded` runs" in out
    assert (tmp_path / "out" / "summary.md").read_text(encoding="utf-8") in out
    assert err.count("failed: ") == 2


@pytest.mark.parametrize("name", FIGURES)
def test_every_embedded_instance_builds_and_runs(name):
    for job in plan([name], seeds=1, embedded=True, quick=True):
        if job.method == FIGURES[name].methods[0]:
            application = instance_of(job)[1].build(job.preset)
            run = application.run(job.method, job.beta0, max_iter=2)
            for wanted in FIGURES[name].columns:
                assert column(run.result.trace, wanted, None).size == len(run.result.trace)


def test_runs_are_kept_and_not_run_again(tmp_path):
    jobs = small(seeds=1)
    assert [fault for _, fault in reproduce(jobs, tmp_path, 1)] == ["", ""]
    files = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.npz")}
    assert len(files) == 2
    assert [fault for _, fault in reproduce(jobs, tmp_path, 1)] == ["", ""]
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.npz")} == files


def test_stored_run_is_the_run(tmp_path):
    job = small(seeds=1, methods=["h-sag-v2"])[0]
    run_job(job, tmp_path)
    about, trace = stored(job, tmp_path)
    again = instance_of(job)[1].build(job.preset).run(job.method, max_epochs=job.length, seed=0)
    np.testing.assert_array_equal(trace["objective"], again.result.trace["objective"])
    assert about["run"]["run"]["objective"] == again.result.objective
    assert about["job"]["seed"] == 0
    assert not list(tmp_path.rglob("*.part"))


def test_rows_are_mean_and_deviation(tmp_path):
    jobs = small(seeds=3, methods=["h-sag-v2"])
    for job in jobs:
        run_job(job, tmp_path)
    (row,) = rows(groups(jobs, tmp_path))
    last = np.array([stored(job, tmp_path)[1]["objective"][-1] for job in jobs])
    assert row["seeds"] == 3
    assert row["objective"] == pytest.approx(last.mean())
    assert row["objective.std"] == pytest.approx(last.std(ddof=1))


def test_a_failing_run_is_reported_and_the_others_kept(tmp_path, monkeypatch, run):
    code, _, err = run(
        *(CUT, "--embedded", "--quick", "--preset", "paper", "--jobs", 1),
        *("--methods", "h-sag-v2,sag-fw", "--out", tmp_path, "--quiet"),
    )
    assert code == 1  # sag-fw is for g = 0
    assert "sag-fw" in err
    assert len(list(tmp_path.rglob("*.npz"))) == 1


def test_command_writes_tables_and_pictures_and_redraws(tmp_path, run):
    options = (CUT, "--embedded", "--quick", "--preset", "paper", "--methods", "h-sag-v2,shcgm")
    code, out, _ = run(*options, "--out", tmp_path, "--jobs", 1)
    assert code == 0
    assert "H-SAG-CGM/v2" in out
    for kind in ("png", "svg"):
        assert (tmp_path / f"{CUT}-karate-paper.{kind}").stat().st_size > 1000
    with (tmp_path / "summary.csv").open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert {row["method"] for row in table} == {"h-sag-v2", "shcgm"}
    assert "condgrad reproduce fig3-sparsest-cut --embedded" in (tmp_path / "summary.md").read_text(
        encoding="utf-8"
    )
    picture = tmp_path / f"{CUT}-karate-paper.png"
    picture.unlink()
    runs = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.npz")}
    assert run(*options, "--out", tmp_path, "--redraw", "--quiet")[0] == 0
    table = (tmp_path / "summary.csv").read_text(encoding="utf-8")
    code, _, error = run("fig1", "--out", tmp_path, "--redraw")
    assert code == 2
    assert "--redraw found no run" in error
    assert (tmp_path / "summary.csv").read_text(encoding="utf-8") == table
    assert picture.exists()
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.npz")} == runs


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_killed_in_the_middle_loses_nothing(tmp_path):
    options = [CUT, "--embedded", "--quick", "--preset", "paper", "--seeds", "2", "--jobs", "1"]
    options += ["--methods", "h-sag-v2,cgal", "--quiet"]

    def start(folder):
        line = (sys.executable, "-m", "condgrad", "reproduce", *options, "--out", str(folder))
        return processes.started(*line)

    killed, whole = tmp_path / "killed", tmp_path / "whole"
    with start(killed) as process:  # which is killed at the end, unless it was faster
        while len(list(killed.rglob("*.npz"))) < 2 and process.poll() is None:
            time.sleep(0.02)
    kept = {p.relative_to(killed): p.stat().st_mtime_ns for p in killed.rglob("*.npz")}
    assert len(kept) >= 2
    with start(killed) as process:
        assert process.wait() == 0
    assert all((killed / p).stat().st_mtime_ns == then for p, then in kept.items())
    with start(whole) as process:
        assert process.wait() == 0
    names = [sorted(p.relative_to(f) for p in f.rglob("*") if p.is_file()) for f in (killed, whole)]
    assert names[0] == names[1]
    for path in killed.rglob("*.npz"):
        with np.load(path) as a, np.load(whole / path.relative_to(killed)) as b:
            np.testing.assert_array_equal(a["objective"], b["objective"])


ORPHANS = """
import sys
from dataclasses import replace
from pathlib import Path
from condgrad.experiments import plan, reproduce
short = plan(["fig1"], seeds=1, quick=True, embedded=True)
long = [replace(job, length=10**8) for job in short]
for job, fault in reproduce([*short, *long], Path(sys.argv[1]), 2):
    print(job.key, flush=True)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_workers_end_soon_after_their_parent_is_killed(tmp_path):
    line = (sys.executable, "-c", ORPHANS, str(tmp_path))
    with processes.started(*line, stdout=processes.PIPE) as process:
        assert process.stdout.readline()
        assert process.stdout.readline()  # both workers are in their long runs now
        process.kill()
        process.communicate()  # the pipe closes when the last worker has gone
    assert len(list(tmp_path.rglob("*.npz"))) == 2


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["fig9"], "figure is 'fig9'"),
        ([CUT, "--methods", "magic"], "method is 'magic'"),
        ([CUT, "--seeds", "0"], "--seeds"),
        ([CUT, "--embedded", "--jobs", "0"], "--jobs"),
    ],
)
def test_bad_options(run, tmp_path, args, word):
    code, _, err = run(*args, "--out", tmp_path)
    assert code == 2
    assert word in err
    with pytest.raises(ProblemError):
        plan(["nothing"])
