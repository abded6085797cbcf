"""The command `condgrad solve sdp`."""

import json
import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from files import put

SMALL = """* the largest eigenvalue of [[1, 1], [1, 0]], with a slack variable
2
2
2 -1
1.0 0.9
0 1 1 1 1.0
0 1 1 2 1.0
1 1 1 1 1.0
1 1 2 2 1.0
2 1 1 1 1.0
2 2 1 1 1.0
"""
BEST = (1 + np.sqrt(5)) / 2
NEGATIVE = "1\n1\n2\n-1.0\n0 1 1 1 1.0\n1 1 1 1 1.0\n1 1 2 2 1.0\n"
TWICE = "2\n1\n2\n1.0 2.0\n0 1 1 2 1.0\n1 1 1 1 1.0\n2 1 1 1 1.0\n"
SMALL_TRACE = "2\n1\n2\n1.0 2.0\n0 1 1 2 1.0\n1 1 1 1 1.0\n1 1 2 2 1.0\n2 1 1 1 1.0\n"
FREE = "1\n1\n2\n0.0\n0 1 1 1 1.0\n0 1 1 2 0.5\n1 1 1 1 1.0\n1 1 2 2 -1.0\n"


@pytest.fixture
def run(run):
    """`condgrad solve sdp` in this process."""
    return partial(run, "solve", "sdp")


@pytest.fixture
def small(tmp_path):
    return put(tmp_path, "small.dat-s", SMALL)


def told(run, *args):
    """The JSON of a run that ends with exit code 0."""
    code, out, _ = run(*args, "--quiet", "--json", "-")
    assert code == 0
    return json.loads(out)


def test_what_is_printed(run, small):
    code, out, err = run(small, "--gap", "1e-5")
    assert code == 0
    assert err == ""
    assert "proven upper bound 1.618" in out
    assert "DIMACS errors" in out


def test_json(run, small):
    found = told(run, small, "--gap", "1e-5", "--feasibility", "1e-5")
    assert found["application"] == "sdp"
    assert found["sense"] == "max"
    assert found["status"] == "converged"
    assert found["method"] == "sag-cgal"
    assert found["beta0"] == "auto"
    assert found["input"] == str(small)
    assert found["value"] == pytest.approx(BEST, rel=1e-4)
    assert found["objective"] == pytest.approx(found["value"])
    assert BEST - 1e-9 <= found["bound"] == found["upper_bound"]
    assert found["gap"] <= 1e-5
    assert found["settings"]["trace_from"] == "rows"
    assert found["settings"]["side"] == 3
    assert found["settings"]["rows"] == 2
    measures = {"primal", "primal_cone", "dual", "dual_cone", "gap", "complementarity"}
    assert set(found["dimacs"]) == measures
    assert max(abs(x) for x in found["dimacs"].values()) <= 1e-4


def test_a_trace_bound(run, tmp_path):
    path = put(tmp_path, "one.dat-s", TWICE.replace("2.0\n", "1.0\n"))
    found = told(run, path, "--trace-bound", "5", "--gap", "1e-4")
    assert found["settings"]["trace_bound"] == 5
    assert found["settings"]["trace_from"] == "user"
    assert found["value"] == pytest.approx(4.0, rel=1e-2)  # 2 √(1 · 4)
    code, _, err = run(path, "--trace-bound", "-5")
    assert code == 2
    assert "trace_bound is -5.0" in err


@pytest.mark.parametrize(
    "text", [NEGATIVE, TWICE, SMALL_TRACE], ids=["negative trace", "contradiction", "by a run"]
)
def test_an_infeasible_file_ends_with_that_status(run, tmp_path, text):
    path = put(tmp_path, "bad.dat-s", text)
    found = told(run, path, "--iterations", "300")
    assert found["status"] == "infeasible"
    assert "no point satisfies" in found["message"]
    code, out, _ = run(path, "--iterations", "300")
    assert code == 0
    assert "no point satisfies" in out


def test_one_gap_and_one_infeasibility(run, small):
    """Those that were tested, in the table and in the sentence."""
    _, out, _ = run(small, "--gap", "1e-2", "--feasibility", "1e-2")
    table = dict(line.strip("│ ").split("│", 1) for line in out.splitlines() if "│" in line)
    table = {name.strip(): text.strip() for name, text in table.items()}
    sentence = " ".join(out.split())
    assert f"gap {table['gap']}, relative" in sentence
    missed, _ = table["infeasibility"].split(" of the worst family")
    assert f"relative infeasibility {missed};" in sentence


def test_nothing_to_save_without_a_run(run, tmp_path):
    path = put(tmp_path, "bad.dat-s", NEGATIVE)
    code, out, _ = run(path, "--save", tmp_path / "run.npz", "--json", tmp_path / "run.json")
    assert code == 0
    assert "nothing to save" in out
    assert json.loads((tmp_path / "run.json").read_text())["bound"] is None


def test_an_unbounded_file_ends_with_that_status(run, tmp_path):
    found = told(run, put(tmp_path, "free.dat-s", FREE), "--iterations", "300")
    assert found["status"] == "unbounded"
    assert found["settings"]["trace_from"] == "guess"


@pytest.mark.skipif("CONDGRAD_DATA" not in os.environ, reason="CONDGRAD_DATA is not set")
@pytest.mark.parametrize(("name", "status"), [("infp1", "unbounded"), ("infd1", "infeasible")])
def test_infeasible_files_of_sdplib(run, name, status):
    path = Path(os.environ["CONDGRAD_DATA"]) / "sdplib" / f"{name}.dat-s"
    assert told(run, path, "--iterations", "1000")["status"] == status


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        (SMALL.replace("0 1 1 2 1.0", "0 1 1 2 x"), 7, "x"),
        (SMALL.replace("0 1 1 2 1.0", "0 1 1 9 1.0"), 7, "9"),
        (SMALL.replace("1.0 0.9", "1.0 0.9 3"), 5, "c"),
        (SMALL.replace("2 -1\n", "2 0\n"), 4, "size 0"),
    ],
)
def test_a_malformed_file_is_one_line(run, tmp_path, text, line, word):
    path = put(tmp_path, "bad.dat-s", text)
    code, out, err = run(path)
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1
    assert f"{path}:{line}" in err
    assert word in err


def test_a_missing_file(run, tmp_path):
    code, _, err = run(tmp_path / "none.dat-s")
    assert code == 2
    assert "none.dat-s" in err


def test_saved_points_are_in_the_order_of_the_file(run, tmp_path):
    """The block comes last here, and first inside the solver."""
    text = SMALL.replace("2 -1\n", "-1 2\n")
    swapped = [line.split() for line in text.splitlines()[5:]]
    lines = [" ".join([m, {"1": "2", "2": "1"}[b], *rest]) for m, b, *rest in swapped]
    path = put(tmp_path, "small.dat-s", "\n".join([*text.splitlines()[:5], *lines]))
    out = tmp_path / "run.npz"
    assert run(path, "--gap", "1e-5", "--save", out, "--quiet")[0] == 0
    with np.load(out, allow_pickle=False) as saved:
        W = saved["W"]
    assert W.shape == (3, 3)
    assert W[1, 1] + W[2, 2] == pytest.approx(1.0, abs=1e-3)
    assert W[0, 0] + W[1, 1] == pytest.approx(0.9, abs=1e-3)
    assert W[1, 2] == pytest.approx(np.sqrt(W[1, 1] * W[2, 2]), abs=1e-3)


@pytest.mark.parametrize(
    "options", [("hcgm",), ("h-sag-v2",), ("cgal", "--beta0", "0.5"), ("sag_cgal",)]
)
def test_other_methods(run, small, options):
    found = told(run, small, "--method", *options, "--iterations", "200")
    assert found["method"] == options[0].replace("_", "-")
    assert found["beta0"] == (0.5 if "--beta0" in options else "auto")
    assert found["bound"] >= BEST - 1e-9


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--method", "simplex"), "--method is 'simplex'"),
        (("--method", "cgal"), "--beta0"),
        (("--gap", "-1"), "--gap"),
        (("--iterations", "-1"), "--iterations"),
        (("--save", "run.txt"), ".npz"),
    ],
)
def test_bad_options(run, small, options, word):
    code, out, err = run(small, *options)
    assert code == 2
    assert out == ""
    assert word in err
