from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import processes
from condgrad import METHODS
from files import put
from general import GENERAL

FIELDS = {
    "application",
    "method",
    "preset",
    "beta0",
    "batch",
    "seed",
    "status",
    "iterations",
    "epochs",
    "seconds",
    "lmo_calls",
    "matvecs",
    "rows",
    "objective",
    "infeasibility",
}


@pytest.fixture
def ratings(tmp_path):
    rng = np.random.default_rng(0)
    full = np.clip(np.rint(3 + np.outer(rng.normal(size=12), rng.normal(size=9))), 1, 5)
    rows = [(u + 1, i + 1, full[u, i]) for u in range(12) for i in range(9)]
    chosen = rng.permutation(len(rows))
    lines = ["\t".join(f"{v:g}" for v in (*rows[c], 0)) for c in chosen]
    return (
        put(tmp_path, "train.tsv", "\n".join(lines[:80])),
        put(tmp_path, "test.tsv", "\n".join([*lines[80:], "99\t1\t3\t0"])),
    )


def test_methods_lists_every_method(run):
    code, out, _ = run("methods")
    assert code == 0
    for slug in METHODS:
        assert slug in out


def test_demo_without_matplotlib(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.chdir(tmp_path)
    code, out, err = run("demo", "--epochs", 100)
    assert (code, err) == (0, "")
    assert "install condgrad[plot]" in out
    assert not list(tmp_path.iterdir())


def test_demo(run, tmp_path):
    picture = tmp_path / "demo.png"
    code, out, _ = run("demo", "--epochs", 300, "--plot", picture)
    assert code == 0
    assert "Cut found: 5 of 34 vertices" in out  # the best cut of the weighted karate club
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("slug", [s for s in GENERAL if s != "sag-fw"])
def test_every_method_on_every_application(run, tmp_path, ratings, slug):
    points = put(tmp_path, "p.csv", "\n".join(f"{i % 3},{i * 0.01}" for i in range(12)))
    jobs = {
        "sparsest-cut": ["petersen"],
        "kmeans": [points, "-k", 3],
        "matrix-completion": [ratings[0], "--plain", "--batch", 0.2],
    }
    for name, args in jobs.items():
        out = tmp_path / f"{name}.json"
        options = ["--method", slug, "--iterations", 5, "--quiet", "--json", out]
        options += ["--preset", "paper"]
        code, printed, err = run("solve", name, *args, *options)
        if (slug, name) == ("spdhg", "matrix-completion"):
            assert code == 2
            assert "spectrahedron" in err
            continue
        assert (code, printed, err) == (0, "", "")
        data = json.loads(out.read_text())
        assert data.keys() >= FIELDS
        assert (data["application"], data["method"], data["iterations"]) == (name, slug, 5)
        assert data["status"] == "max_iter"
        assert set(data["infeasibility"]) == {"total", "families"}
        for family in data["infeasibility"]["families"].values():
            assert set(family) == {"l2", "max", "relative", "scaled", "row"}
        assert data["lower_bound"] is None or data["lower_bound"] <= 1e6
        assert (data["rounded"] is None) == (name == "matrix-completion")


def test_certified_cut(run):
    code, out, _ = run(
        "solve", "sparsest-cut", "karate_club", "--gap", 1e-3, "--json", "-", "--quiet"
    )
    data = json.loads(out)
    assert (code, data["status"], data["preset"], data["method"]) == (
        *(0, "converged"),
        *("auto", "spdhg"),
    )
    best = 43.848275862 * 2 / 34**2
    assert data["rounded"]["value"] == pytest.approx(best)
    assert best * (1 - 1e-3) <= data["lower_bound"] <= best + 1e-9
    expected = (best - data["lower_bound"]) / best
    assert data["rounded"]["gap"] == pytest.approx(expected, abs=1e-9)
    assert data["gap"] <= 1e-3
    assert data["bound_kind"] == "exact-eigenvalue"
    for family in data["infeasibility"]["families"].values():
        assert family["relative"] <= 1e-3


def test_certified_clusters(run, tmp_path):
    rng = np.random.default_rng(0)
    centres = np.array([[0, 0], [9, 0], [0, 9]])
    points = np.concatenate([c + rng.standard_normal((8, 2)) for c in centres])
    file = put(tmp_path, "p.csv", "\n".join(f"{x},{y}" for x, y in points))
    code, out, _ = run("solve", "kmeans", file, "-k", 3, "--gap", 1e-2)
    assert code == 0
    assert "Clusters found: sizes 8, 8, 8" in out
    assert re.search(
        r"Proved: (this clustering is the best|no clustering is lower by more than [01]\S* %)", out
    )


def test_bad_tolerances(run):
    for option in ("--gap", "--feasibility"):
        code, _, err = run("solve", "sparsest-cut", "petersen", option, 0)
        assert code == 2
        assert f"{option} is 0: it must be positive" in err


def test_json_is_what_was_asked_for(run, tmp_path):
    code, out, _ = run(
        *("solve", "sparsest-cut", "petersen", "--preset", "published", "--beta0", 3.5),
        *("--batch", 0.25, "--epochs", 10, "--seed", 7, "--json", "-", "--quiet"),
    )
    data = json.loads(out)
    assert code == 0
    assert (data["beta0"], data["batch"], data["seed"]) == (3.5, 0.25, 7)
    assert (data["preset"], data["status"]) == ("published", "max_epochs")
    assert data["epochs"] == pytest.approx(10, rel=0.05)
    families = data["infeasibility"]["families"]
    total = families["spread"]["l2"] + np.sqrt(2) * families["triangles"]["l2"]
    assert data["infeasibility"]["total"] == pytest.approx(total)


def test_kmeans_total_infeasibility(run, tmp_path):
    points = put(tmp_path, "p.csv", "\n".join(f"{i % 3},{i * 0.01}" for i in range(12)))
    _, out, _ = run(
        *("solve", "kmeans", points, "-k", 3, "--iterations", 50, "--json", "-", "--quiet"),
        *("--preset", "paper"),
    )
    data = json.loads(out)
    families = data["infeasibility"]["families"]
    total = families["row sums"]["l2"] / np.sqrt(12) + families["non-negativity"]["l2"]
    assert data["infeasibility"]["total"] == pytest.approx(total)


def test_matrix_completion_reports_errors_and_dropped_ratings(run, ratings, tmp_path):
    train, test = ratings
    out = tmp_path / "run.json"
    args = ("solve", "matrix-completion", train, "--test", test, "--plain", "--iterations", 300)
    code, _, err = run(*args, "--batch", 20, "--radius", 60, "--bounds", 1, 5, "--json", out)
    assert code == 0
    assert "1 test ratings dropped" in err
    data = json.loads(out.read_text())
    assert 0 < data["train_rmse"] < 1.2
    assert 0 < data["test_rmse_clipped"] <= data["test_rmse"] < 2
    assert data["model"] == "plain"
    assert data["infeasibility"]["total"] == data["infeasibility"]["families"]["box"]["l2"]
    code, *_ = run(*args, "--l1", 0.1, "--json", out, "--quiet")
    data = json.loads(out.read_text())
    assert data["infeasibility"] == {"total": 0.0, "families": {}}


def test_the_recommender_is_the_default_of_matrix_completion(run, tmp_path):
    rng = np.random.default_rng(0)
    truth = 3 + rng.normal(size=(40, 1)) / 2 + np.outer(rng.normal(size=40), rng.normal(size=30))
    i, j = np.nonzero(rng.random(truth.shape) < 0.5)
    lines = [f"u{a};film {b};{truth[a, b]:.2f}" for a, b in zip(i, j, strict=True)]
    train = put(tmp_path, "r.csv", "\n".join(["User-ID;Title;Rating", *lines]))
    test = put(tmp_path, "t.csv", "\n".join([lines[0], "stranger;film 1;3"]))
    page, out = tmp_path / "run.html", tmp_path / "run.json"
    args = ("solve", "matrix-completion", train, "--json", out)
    code, printed, _ = run(*args, "--holdout", 0.2, "--report", page)
    assert code == 0
    data = json.loads(out.read_text())
    assert data["model"] == "recommender"
    assert data["test_rmse"] < 0.7 * data["validation_rmse_biases"]
    assert f"Test RMSE {data['test_rmse_clipped']:.4f} clipped" in printed
    assert f"Test RMSE {data['test_rmse_clipped']:.4f} clipped" in page.read_text()
    assert 'figure id="radius"' in page.read_text()
    assert data["gap"] <= 1e-2
    code, printed, _ = run(*args, "--test", test)
    assert "; 1 of an unknown user or item." in printed
    assert json.loads(out.read_text())["test_unknown"] == 1


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--batch", 20, "--l1", 1], "--batch, --l1: the recommender has no such option"),
        (["--preset", "paper"], "add --plain"),
        (["--holdout", 2], "--holdout is 2"),
        (["--holdout", 0.1, "--test", "x"], "choose one"),
    ],
)
def test_options_of_matrix_completion_that_do_not_go_together(run, ratings, args, words):
    code, _, err = run("solve", "matrix-completion", ratings[0], *args)
    assert code == 2
    assert words in err


def test_same_seed_same_run(run, tmp_path):
    def once(seed):
        args = ("solve", "sparsest-cut", "petersen", "--iterations", 40, "--seed", seed)
        args += ("--preset", "paper")
        data = json.loads(run(*args, "--json", "-", "--quiet")[1])
        return {key: value for key, value in data.items() if key not in ("seconds", "profile")}

    assert once(1) == once(1)
    assert once(1)["relaxation"] != once(2)["relaxation"]


def test_profile(run):
    options = ("--iterations", 30, "--profile", "--jobs", 1)
    code, out, _ = run("solve", "sparsest-cut", "petersen", *options)
    assert code == 0
    for part in ("method", "certificate", "metrics"):
        assert re.search(rf"{part} .*\d %", out), part
    data = json.loads(run("solve", "sparsest-cut", "petersen", "--json", "-", *options)[1])
    counted = [data["profile"][part] for part in ("method", "certificate")]
    assert sum(counted) == pytest.approx(data["seconds"], rel=1e-6)
    assert list(data["profile"])[-1] == "other"
    assert re.search(r"total .*100.0 %", out)
    code, _, error = run("solve", "sparsest-cut", "petersen", "--jobs", 0)
    assert (code, "n_jobs is 0" in error) == (2, True)


def test_the_seconds_of_the_table_are_all_that_passed(run, tmp_path):
    file, page = tmp_path / "run.json", tmp_path / "run.html"
    outputs = ("--json", file, "--report", page)
    code, out, _ = run("solve", "sparsest-cut", "petersen", "--iterations", 30, *outputs)
    assert code == 0
    seconds = f"{sum(json.loads(file.read_text())['profile'].values()):.3g}"
    assert re.search(rf"seconds\s+│ {re.escape(seconds)} ", out)
    assert f'<th scope="row">seconds</th><td>{seconds}</td>' in page.read_text()


def test_saved_run_and_cut(run, tmp_path):
    saved, out = tmp_path / "w.npz", tmp_path / "run.json"
    options = ("--epochs", 100, "--beta0", 1, "--quiet", "--save", saved, "--json", out)
    options += ("--preset", "paper")
    assert run("solve", "sparsest-cut", "karate_club", *options)[0] == 0
    data = json.loads(out.read_text())
    with np.load(saved) as arrays:
        assert arrays["W"].shape == (34, 34)
        relaxed = data["relaxation"]["objective"]
        assert arrays["trace.objective"][-1] == pytest.approx(relaxed, rel=0.05)
    assert data["cut"]["vertices"] == [5, 6, 7, 11, 17]
    assert data["cut"]["value"] == pytest.approx(43.8483 * 2 / 34**2, abs=1e-6)
    assert (data["input"], data["settings"]) == ("karate_club", {"vertices": 34})


def test_hints_notes_and_version(run, tmp_path):
    points = put(tmp_path, "p.csv", "\n".join(f"{100 * (i % 3)},{i}" for i in range(12)))
    args = ("solve", "kmeans", points, "-k", 3, "--iterations", 60, "--preset", "paper")
    assert "lower --beta0 (now 7)" in run(*args)[1]
    code, _, err = run(*args, "--method", "hcgm", "--batch", 5)
    assert code == 0
    assert "--batch is ignored" in err
    assert run(*args, "--method", "h_sag_v2", "--quiet")[0] == 0
    assert run("--version")[1].startswith("condgrad 0.")


def test_time_limit_says_so(run):
    code, out, _ = run("solve", "sparsest-cut", "petersen", "--seconds", 0.05, "--preset", "paper")
    assert code == 0
    assert "limit on time" in out


def test_plot_of_a_solve(run, tmp_path):
    picture = tmp_path / "c.svg"
    args = ("solve", "sparsest-cut", "petersen", "--iterations", 30, "--plot", picture)
    assert run(*args, "--quiet")[0] == 0
    assert "<svg" in picture.read_text()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["sparsest-cut", "no_such_graph"], ["no_such_graph", "neither a file"]),
        (["sparsest-cut", "petersen", "--method", "magic"], ["method", "magic", "h-sag-v2"]),
        (["sparsest-cut", "petersen", "--method", "sag-fw"], ["g = 0"]),
        (["sparsest-cut", "petersen", "--beta0", "-1"], ["beta0", "positive"]),
        (["sparsest-cut", "petersen", "--beta0", "nan"], ["beta0"]),
        (["sparsest-cut", "petersen", "--batch", "1000000"], ["batch", "rows"]),
        (["sparsest-cut", "petersen", "--batch", "many"], ["batch", "count or a fraction"]),
        (["sparsest-cut", "petersen", "--batch", "0"], ["batch"]),
        (["sparsest-cut", "petersen", "--seed", "-1"], ["seed"]),
        (["sparsest-cut", "petersen", "--seconds", "-1"], ["--seconds", "at least 0"]),
        (["sparsest-cut", "petersen", "--save", "w.txt"], ["--save", ".npz"]),
        (["sparsest-cut", "petersen", "--json", "no/such/folder/x.json"], ["--json"]),
        (["sparsest-cut", "petersen", "--plot", "x.doc"], ["--plot", ".png"]),
    ],
)
def test_bad_input_is_one_line_and_code_2(run, args, words):
    code, out, err = run("solve", *args)
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1
    for word in words:
        assert word in err


def test_bad_files_name_file_line_and_reason(run, tmp_path):
    graph = put(tmp_path, "g.edges", "3 2\n1 2 1\n1 x 1\n")
    points = put(tmp_path, "p.csv", "1,2\n3\n")
    stars = put(tmp_path, "r.tsv", "1\t1\t5\n1\t2\tbad\n")
    for args, path, line in (
        (["sparsest-cut", graph], graph, 3),
        (["kmeans", points, "-k", 2], points, 2),
        (["matrix-completion", stars], stars, 2),
    ):
        code, out, err = run("solve", *args)
        assert (code, out) == (2, "")
        assert f"{path}:{line}: " in err
        assert err.count("\n") == 1


@pytest.mark.parametrize(("k", "word"), [(0, "k is 0"), (99, "k is 99")])
def test_bad_number_of_clusters(run, tmp_path, k, word):
    points = put(tmp_path, "p.csv", "1,2\n3,4\n5,6\n")
    code, _, err = run("solve", "kmeans", points, "-k", k)
    assert code == 2
    assert word in err


def test_impossible_radius(run, ratings):
    args = ("--plain", "--radius", 2, "--bounds", 1, 5)
    code, _, err = run("solve", "matrix-completion", ratings[0], *args)
    assert code == 2
    assert "radius" in err
    assert "raise the radius" in err


def test_interrupt_keeps_the_result(run, monkeypatch, tmp_path):
    from condgrad.methods import SAG

    follow, calls = SAG.follow, []

    def interrupted(self, *args):
        calls.append(1)
        if len(calls) > 60:
            raise KeyboardInterrupt
        return follow(self, *args)

    monkeypatch.setattr(SAG, "follow", interrupted)
    out = tmp_path / "run.json"
    args = ("solve", "sparsest-cut", "petersen", "--preset", "paper", "--json", out, "--quiet")
    code, *_ = run(*args)
    data = json.loads(out.read_text())
    assert code == 130
    assert data["status"] == "interrupted"
    assert np.isfinite(data["objective"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_full_disk_is_one_line(run):
    code, _, err = run("solve", "max-cut", "petersen", "--quiet", "--json", "/dev/full")
    assert code == 1
    assert err.startswith("condgrad: ")
    assert err.count("\n") == 1
    assert "No space left" in err


def test_module_runs_as_a_program():
    words = ("solve", "sparsest-cut", "nothing_here")
    done = processes.run(sys.executable, "-m", "condgrad", *words)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_method_that_is_named_solves_the_whole_graph(run):
    """Karate's largest block has 28 vertices of 34."""
    how = ("--method", "h-sag-v2", "--beta0", 100, "--iterations", 40, "--quiet", "--json", "-")
    for graph, vertices in (("karate_club", 34), ("les_miserables", 77)):
        code, out, err = run("solve", "sparsest-cut", graph, *how)
        assert (code, err) == (0, "")
        found = json.loads(out)
        assert (found["method"], found["beta0"]) == ("h-sag-v2", 100)
        assert found["settings"] == {"vertices": vertices}
        assert found["lower_bound"] > 0


def test_a_beta0_of_no_method_is_refused(run):
    for command in ("sparsest-cut", "max-cut"):
        code, out, err = run("solve", command, "petersen", "--beta0", 100, "--iterations", 5)
        assert (code, out) == (2, "")
        assert "--beta0" in err
        assert "--method" in err
    paper = ("--preset", "paper", "--beta0", 100, "--iterations", 5, "--quiet", "--json", "-")
    code, out, _ = run("solve", "sparsest-cut", "petersen", *paper)
    assert (code, json.loads(out)["beta0"]) == (0, 100)
