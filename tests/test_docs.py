from __future__ import annotations

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from condgrad import METHODS, Status

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_readme_examples_run(capsys, monkeypatch, tmp_path):
    block, more = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    example = (ROOT / "examples" / "template.py").read_text()
    assert block in example
    names = runpy.run_path(str(ROOT / "examples" / "template.py"))
    printed = capsys.readouterr().out
    assert printed.startswith("SAG-CGAL: objective 0.004")
    assert names["result"].status is Status.CONVERGED
    monkeypatch.chdir(tmp_path)
    exec(more, names)
    assert {path.name for path in tmp_path.iterdir()} == {"run.png", "run.csv"}
    assert names["again"].status is Status.STOPPED
    assert np.all(names["bound"] > 0)
    assert names["bound"][-1] < names["bound"][0]


def test_readme_table_is_the_registry():
    for e in METHODS.values():
        row = (
            f"| `{e.slug}` | {e.name} | {e.estimates} | {e.iterations} | {e.cost} | {e.reference} |"
        )
        assert row in README
    assert len(re.findall(r"^\| `[a-z]", README, re.MULTILINE)) == len(METHODS)


def test_readme_names_files_that_exist():
    for link in re.findall(r"\]\(([^)]+)\)", README):
        assert (ROOT / link).exists(), link
    for command in ("make demo", "make test"):
        assert command in README


@pytest.mark.parametrize(("name", "length"), [("plot_methods", "20"), ("plot_lemmas", "200")])
def test_plot_examples(tmp_path, monkeypatch, name, length):
    picture = tmp_path / "picture.png"
    monkeypatch.setattr("sys.argv", [name, str(picture), length])
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"))
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "CITATION.cff"])
def test_house_files_are_there(name):
    assert (ROOT / name).read_text().strip()
