"""What is printed and written: the answer first, files that are whole, each for itself."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import condgrad as cg
import processes
from condgrad.experiments import plan
from condgrad.experiments.runner import reproduce, set_aside, stored
from condgrad.plot import _base
from condgrad.record import COLUMNS, Record

SHORT = ("solve", "sparsest-cut", "petersen", "--iterations", 9)
TRACE = cg.Trace.of({name: [1.0] for name in COLUMNS})


def test_outputs_that_collide_are_refused(run, tmp_path):
    one, link, hard = tmp_path / "r.html", tmp_path / "l.json", tmp_path / "h.npz"
    one.write_text("old")
    link.symlink_to(one)
    os.link(one, hard)
    for args in (
        ("--json", one, "--report", one),
        ("--json", link, "--report", one),
        ("--save", hard, "--report", one),
        ("--checkpoint", one, "--report", one),
        ("--json", tmp_path / "." / "new.svg", "--plot", tmp_path / "new.svg"),
    ):
        code, out, err = run(*SHORT, *args)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "as well" in err
    assert one.read_text() == "old"


def test_an_output_is_no_input(run, tmp_path):
    (tmp_path / "g.txt").write_text("3 3\n1 2 1\n2 3 1\n1 3 1\n")
    (tmp_path / "other").symlink_to(tmp_path / "g.txt")
    before = (tmp_path / "g.txt").read_text()
    for name in ("g.txt", "other"):
        for option in ("--json", "--checkpoint"):
            code, _, err = run("solve", "max-cut", tmp_path / "g.txt", option, tmp_path / name)
            assert code == 2
            assert "a file that is read as well" in err
    TRACE.save(tmp_path / "t.csv")
    code, _, err = run("plot", tmp_path / "t.csv", "--out", tmp_path / "t.csv")
    assert code == 2
    assert (tmp_path / "g.txt").read_text() == before


def test_files_that_cannot_be_written_are_refused(run, tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name in ("none/r.json", ".", "loop", "n" * 300, "g.txt/r.json", "a\0b"):
        (tmp_path / "g.txt").write_text("")
        code, out, err = run(*SHORT, "--json", tmp_path / name)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "cannot be written" in err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["g.txt", "loop"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyError("odd")])
def test_what_goes_wrong_costs_one_output(run, tmp_path, monkeypatch, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(np, "savez_compressed", fail)
    files = {"--json": "r.json", "--save": "r.npz", "--plot": "r.svg"}
    (tmp_path / "r.npz").write_text("good")
    args = [str(x) for option, name in files.items() for x in (option, tmp_path / name)]
    code, out, err = run(*SHORT, *args)
    assert (code, err.count("\n")) == (1, 1)
    assert err.startswith(f"condgrad: {tmp_path / 'r.npz'}: ")
    assert "Cut found" in out
    assert (tmp_path / "r.npz").read_text() == "good"
    assert {p.name for p in tmp_path.iterdir()} == set(files.values())
    assert json.loads((tmp_path / "r.json").read_text())["cut"]["value"] > 0


def test_the_answer_is_printed_before_files_are_written(run, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr("condgrad.cli.outputs.write_json", lambda *_: seen.append("file"))
    monkeypatch.setattr("condgrad.report.print_cut", lambda *_, **__: seen.append("answer"))
    assert run(*SHORT, "--json", tmp_path / "r.json")[0] == 0
    assert seen == ["answer", "file"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_standard_output_costs_no_file(tmp_path):
    source = str(Path(cg.__file__).parents[1])
    with open("/dev/full", "w") as full:
        done = processes.run(
            *(sys.executable, "-m", "condgrad", *map(str, SHORT), "--json", tmp_path / "r.json"),
            env={**os.environ, "PYTHONPATH": source},
            stdout=full,
        )
    assert done.returncode == 1
    assert done.stderr == "condgrad: standard output: No space left on device\n"
    assert json.loads((tmp_path / "r.json").read_text())["application"] == "sparsest-cut"


def test_letters_that_a_terminal_lacks(run, tmp_path, monkeypatch):
    buffer = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(buffer, "ascii"))
    name = os.fsdecode(b"r\xff.json")
    assert run(*SHORT, "--json", tmp_path / name, "--report", tmp_path / f"{name}.html")[0] == 0
    sys.stdout.flush()
    assert b"Cut found" in buffer.getvalue()
    assert json.loads((tmp_path / name).read_text())["application"] == "sparsest-cut"
    assert "Cut found" in (tmp_path / f"{name}.html").read_text(encoding="utf-8")


def test_a_title_may_have_any_letters(tmp_path):
    figure = _base.new_figure(1, 1)
    _base.save(figure, tmp_path / "a.svg", "half a letter: \udcff")
    assert "udcff" in (tmp_path / "a.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["t.csv", "t.json", "t.npz"])
def test_a_trace_that_fails_leaves_the_old_one(tmp_path, monkeypatch, name):
    path = tmp_path / name
    TRACE.save(path)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    for save in (TRACE.save, Record({}, TRACE).save) if name == "t.npz" else (TRACE.save,):
        with pytest.raises(OSError, match="No space"):
            save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [name]


def test_large_runs_are_saved_as_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr("condgrad.record.COMPRESSED", 100)
    Record({}, TRACE, np.zeros((30, 30))).save(tmp_path / "r")
    assert (tmp_path / "r.npz").stat().st_size > 7200
    assert Record.load(tmp_path / "r.npz").W.shape == (30, 30)


def test_reproduce_sets_damaged_runs_aside(tmp_path):
    jobs = plan(["fig1"], seeds=2, quick=True, embedded=True)[:3]
    paths = [tmp_path / f"{job.key}.npz" for job in jobs]
    paths[0].parent.mkdir(parents=True)
    about = json.dumps({"run": {"beta0": 1.0}})
    np.savez(paths[0], about=about, **{name: TRACE[name] for name in TRACE})
    paths[1].write_bytes(paths[0].read_bytes()[:-30])
    np.savez(paths[2], about=about, k=[1.0])
    said = set_aside(jobs, tmp_path)
    assert [path.exists() for path in paths] == [True, False, False]
    assert [str(path) in line for path, line in zip(paths[1:], said, strict=True)] == [True, True]
    assert stored(jobs[0], tmp_path) is not None
    assert stored(jobs[1], tmp_path) is None
    paths[1].write_text("again")
    assert "damaged-2 now" in set_aside(jobs, tmp_path)[0]
    paths[0].write_text("damaged")
    with pytest.warns(UserWarning, match="no stored run"), pytest.raises(ValueError, match="work"):
        next(reproduce(jobs[:1], tmp_path, 0))  # it would be run again


def test_predictions_are_those_of_the_saved_model(run, tmp_path):
    rng = np.random.default_rng(0)
    i, j = np.nonzero(rng.random((20, 15)) < 0.6)
    values = np.rint(3 + rng.normal(size=20)[i] * rng.normal(size=15)[j])
    lines = (f"u{a},m{b},{x}\n" for a, b, x in zip(i, j, values, strict=True))
    (tmp_path / "r.csv").write_text("".join(lines))
    args = ("solve", "matrix-completion", tmp_path / "r.csv", "--predictions", tmp_path / "p.csv")
    assert run(*args)[0] == run(*args, "--holdout", 0.2, "--plain")[0] == 2
    assert run(*args, "--holdout", 0.2, "--save", tmp_path / "m.npz")[0] == 0
    saved = Record.load(tmp_path / "m.npz")
    model = {n.removeprefix("model."): a for n, a in saved.arrays.items()}
    with (tmp_path / "p.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 10
    for row in rows:
        a, b = (model[n].tolist().index(row[n[:-1]]) for n in ("users", "items"))
        rating = model["mean"] + model["user_biases"][a] + model["item_biases"][b]
        rating += model["user_factors"][a] @ model["item_factors"][b]
        expected = np.clip(rating, *saved.facts["settings"]["bounds"])
        assert float(row["prediction"]) == pytest.approx(expected, abs=1e-9)
