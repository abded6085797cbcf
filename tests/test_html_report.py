from __future__ import annotations

import dataclasses
import re
import shutil
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

import condgrad as cg
import processes
from condgrad import cli, domains, functions, maps
from condgrad._round import down, up
from condgrad.applications import kmeans, matrix_completion, max_cut, sparsest_cut
from condgrad.errors import ProblemError
from condgrad.html import page, write_report
from condgrad.record import Record
from files import put

VOID = {"meta", "img", "br", "hr", "link", "input"}
RING = np.roll(np.eye(7), 1, axis=0) + np.roll(np.eye(7), -1, axis=0)
EVIL = "<script>alert('x')&\"</script>"
BROWSER = next(
    (p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None
)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome is installed")


class Page(HTMLParser):
    """Checks that tags are balanced and collects what is in them."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.words, self.under = [], [], [], {}
        self.feed(text)
        self.close()
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)
        self.under.setdefault(self.open[-1] if self.open else "", []).append(data.strip())

    def all(self, name):
        return [attrs for tag, attrs in self.tags if tag == name]

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def checked(text):
    """The page, after what every report must be."""
    found = Page(text)
    assert text.startswith("<!DOCTYPE html>")
    assert found.all("html") == [{"lang": "en"}]
    assert len(found.all("title")) == len(found.all("h1")) == len(found.all("main")) == 1
    assert not found.all("script")
    assert not found.all("link")
    assert "://" not in re.sub(r"base64,[A-Za-z0-9+/=]*", "", text)
    assert "url(" not in text
    images = found.all("img")
    assert len(images) == len(found.all("figure")) == len(found.all("figcaption")) > 0
    for image in images:
        assert image["alt"]
        assert re.match(r"data:image/(png|svg\+xml);base64,", image["src"])
        assert int(image["width"]) > 100
    assert len(found.all("caption")) == len(found.all("table")) >= 4
    assert all(cell["scope"] in ("row", "col") for cell in found.all("th"))
    ids = [attrs["id"] for _, attrs in found.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    return found


@pytest.fixture
def program(monkeypatch, capsys):
    def call(*args):
        monkeypatch.setattr(sys, "argv", ["condgrad", *map(str, args)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code or 0, *capsys.readouterr()

    return call


@pytest.fixture(scope="module")
def fit():
    rng = np.random.default_rng(0)
    term = cg.Term(maps.DataMatrix(rng.normal(size=(20, 4))), functions.Squared(0.0), name="fit")
    rows = cg.Term(maps.DataMatrix(rng.normal(size=(5, 4))), functions.AtMost(0.0), name=EVIL)
    return cg.Problem(domains.Simplex(4), [term, rows])


def pictures_of(found):
    return [attrs["id"] for attrs in found.all("figure")]


def test_report_of_a_cut():
    run = sparsest_cut(RING).run(max_epochs=100, gap=1e-3)
    found = checked(page(Record.of(run, adjacency=RING, limits={"max_epochs": 100, "gap": 1e-3})))
    assert pictures_of(found) == ["cut", "convergence", "heat-map", "profile"]
    for words in (
        "Cut found: 3 of 7 vertices",
        f"lower bound {down(run.value_bound, 8)} (exact-eigenvalue)",
        f"objective {run.value:.8g}",
        f"gap {up(run.rounded_gap, 3)}",
        f"of the relaxation {run.objective:.8g}, bound {down(run.bound, 8)}, gap {up(run.gap, 3)}",
        f"The run ended because {run.result.status}.",
        "max epochs 100",
        "application sparsest-cut",
        f"condgrad {cg.__version__}",
        f"numpy {np.__version__}",
        "triangles",
        "certificate",
    ):
        assert words in found.text, words
    last = run.trace.last
    assert f"{last['objective']:.6g}" in found.under["td"]
    assert f"{last['k']:g}" in found.under["th"]
    assert len(found.all("tr")) > 30


def test_report_of_a_maximum():
    run = max_cut(RING).run(max_epochs=50, gap=1e-2)
    found = checked(page(Record.of(run, adjacency=RING)))
    assert f"objective {run.value:.8g}" in found.text
    assert f"of the relaxation {-run.result.objective:.8g}" in found.text
    assert "upper bound" in found.under["th"]
    assert "lower bound" not in found.text
    assert "cut" in pictures_of(found)


def test_report_of_clusters():
    rng = np.random.default_rng(0)
    points = np.concatenate([c + rng.normal(size=(6, 3)) for c in 9 * rng.normal(size=(3, 3))])
    distances = ((points[:, None] - points) ** 2).sum(axis=-1)
    run = kmeans(distances, 3).run(max_epochs=300, gap=1e-2)
    found = checked(page(Record.of(run, points=points)))
    assert pictures_of(found) == ["clusters", "convergence", "heat-map", "profile"]
    assert "Clusters found: sizes 6, 6, 6" in found.text
    assert "clusters 3" in found.text


def test_report_of_matrix_completion():
    i, j = np.divmod(np.arange(20), 5)
    run = matrix_completion(i, j, 1.0 + (i + j) % 3, (4, 5)).run(max_iter=20)
    found = checked(page(Record.of(run)))
    assert pictures_of(found) == ["convergence", "profile"]
    assert "train rmse" in found.text
    assert "shape 4, 5" in found.text


@pytest.mark.parametrize("iterations", [0, 1, 2, 300])
def test_report_of_a_bare_result(fit, tmp_path, iterations):
    result = cg.solve(fit, cg.hcgm(beta0=1.0), max_iter=iterations)
    path = tmp_path / "r.html"
    write_report(path, result, title=EVIL)
    text = path.read_text(encoding="utf-8")
    found = checked(text)
    assert EVIL not in text
    assert EVIL in found.text
    assert found.under["h1"] == [EVIL]
    assert EVIL in found.under["th"]  # the name of a constraint family
    assert "The same problem with method HCGM and seed 0." in found.text


def test_report_of_a_run_that_went_wrong(fit):
    result = cg.solve(fit, cg.hcgm(beta0=1.0), max_iter=3)
    broken = dataclasses.replace(
        result, objective=np.nan, infeasibility=np.inf, lower_bound=-np.inf, gap=np.nan,
        status=cg.Status.NONFINITE, profile={},
    )  # fmt: skip
    found = checked(page(Record.of(broken)))
    assert "Objective nan" in found.text
    assert "The run ended because a number became infinite or NaN" in found.text
    assert "No time was recorded." in found.text
    assert pictures_of(found) == ["answer"]


def test_a_report_is_a_function_of_the_run():
    run = sparsest_cut(RING).run(max_iter=5)
    record = Record.of(run, adjacency=RING)
    assert page(record) == page(record)


def test_many_marks_make_a_png():
    full = np.ones((70, 70)) - np.eye(70)
    run = max_cut(full).run(max_iter=2)
    found = checked(page(Record.of(run, adjacency=full)))
    sources = [image["src"][11:14] for image in found.all("img")]
    kinds = dict(zip(pictures_of(found), sources, strict=True))
    assert kinds == {"cut": "png", "answer": "svg", "heat-map": "png", "profile": "svg"}


def test_report_from_the_command_line_and_from_a_saved_run(program, tmp_path):
    graph = put(tmp_path, "<script>&.edges", "4 4\n1 2 1\n2 3 1\n3 4 1\n4 1 2\n")
    report, saved, again = (tmp_path / name for name in ("run.html", "run.npz", "again.html"))
    code, out, err = program(
        *("solve", "sparsest-cut", graph, "--iterations", 20, "--quiet"),
        *("--report", report, "--save", saved),
    )
    assert (code, out, err) == (0, "", "")
    text = report.read_text(encoding="utf-8")
    found = checked(text)
    assert "<script>" not in text
    assert "input <script>&.edges" in found.text
    assert str(tmp_path) not in text
    command = "condgrad solve sparsest-cut '<script>&.edges' --iterations 20 --quiet"
    assert found.under["code"] == [f"{command} --report run.html --save run.npz"]
    assert program("plot", saved, "--report", again)[:2] == (0, f"Report: {again}\n")
    assert again.read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda r, p: write_report(p / "r.txt", r), r"end it in \.html"),
        (lambda r, p: write_report(p / "r.html", "run"), "run is a str"),
        (lambda r, p: write_report(p / "r.html", Record.of(r), names=["a"]), "leave out names"),
        (lambda r, p: write_report(p / "r.html", Record({}, r.trace)), "no facts"),
    ],
)
def test_bad_input(fit, tmp_path, call, words):
    result = cg.solve(fit, cg.hcgm(beta0=1.0), max_iter=1)
    with pytest.raises(ProblemError, match=words):
        call(result, tmp_path)


def test_bad_report_files_are_refused_before_the_run(program, tmp_path):
    for name, words in {"a.txt": "end it in .html", "no/folder/a.html": "--report is"}.items():
        code, out, err = program("solve", "sparsest-cut", "petersen", "--report", tmp_path / name)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert words in err


PROBE = """<script>
window.addEventListener("load", () => {
  const all = [...document.images], page = document.documentElement;
  const outside = performance.getEntriesByType("resource").filter(e => !e.name.startsWith("data:"));
  page.dataset.loaded = all.filter(i => i.complete && i.naturalWidth > 100).length;
  page.dataset.requests = outside.length;
  page.dataset.overflow = page.scrollWidth - page.clientWidth;
  page.dataset.mode = document.compatMode;
});
</script>"""


@needs_browser
@pytest.mark.parametrize("width", [1100, 500])
def test_report_in_a_browser(tmp_path, width):
    run = sparsest_cut(RING).run(max_epochs=50, gap=1e-3)
    record = Record.of(run, adjacency=RING, input=EVIL, command=["condgrad", EVIL, "x" * 200])
    file = tmp_path / "r.html"
    file.write_text(page(record, EVIL).replace("</body>", PROBE + "</body>"), encoding="utf-8")
    done = processes.run(
        *(BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"),
        *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
        *("--disable-sync", "--enable-logging=stderr", f"--window-size={width},2000"),
        *("--virtual-time-budget=4000", f"--user-data-dir={tmp_path / 'profile'}"),
        *("--dump-dom", file.as_uri()),
    )
    assert done.returncode == 0, done.stderr
    (root,) = re.findall(r"<html[^>]*>", done.stdout)
    state = dict(re.findall(r'data-(\w+)="([^"]*)"', root))
    assert state == {"loaded": "4", "requests": "0", "overflow": "0", "mode": "CSS1Compat"}
    dom = Page(done.stdout)
    assert dom.under["title"] == [f"{EVIL} – condgrad"]
    assert len(dom.all("figure")) == 4
    assert len(dom.all("script")) == 1  # the probe of this test
    assert ":CONSOLE" not in done.stderr


def simplex_problem(domain):
    return cg.Problem(domain, [cg.Term(maps.Inner(np.arange(1.0, 6.0)), functions.Linear())])


def test_a_bound_that_is_believed_is_not_called_proven():
    own = domains.Oracle(lambda v: 1.0 * (np.arange(5) == np.argmin(v)), 5, 1.5)
    cases = (
        (cg.solve(simplex_problem(domains.Simplex(5)), max_iter=3, floor=0.5), "proven"),
        (cg.solve(simplex_problem(domains.Simplex(5)), max_iter=3, floor=1.0), "taken as given"),
        (cg.solve(simplex_problem(own), max_iter=3), "if the oracle of the domain is right"),
    )
    for result, words in cases:
        text = page(Record.of(result))
        assert words in text
        assert ("proven" in text) == (words == "proven")


def test_the_answer_says_the_infeasibility_and_the_chance(monkeypatch):
    monkeypatch.setattr("condgrad.domains.eigen.LARGE", 4)
    ring = np.roll(np.eye(6), 1, axis=0) + np.roll(np.eye(6), -1, axis=0)
    run = sparsest_cut(ring).run(max_iter=3)
    text = page(Record.of(run, adjacency=ring))
    assert f"<td>{run.result.worst:.4g}</td>" in text
    assert f"wrong with probability {up(run.bound_failure, 2)}" in text
    assert run.bound_failure > 0
