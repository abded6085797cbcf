from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from condgrad import METHODS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_readme_example_is_the_example_and_runs(capsys):
    block = re.search(r"```python\n(.*?)```", README, re.DOTALL).group(1)
    example = (ROOT / "examples" / "template.py").read_text()
    assert block in example
    runpy.run_path(str(ROOT / "examples" / "template.py"))
    printed = capsys.readouterr().out
    assert printed.startswith("H-SAG-CGM/v2: objective 0.00")
    assert "limit on epochs" in printed


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


def test_plot_example(tmp_path, monkeypatch):
    picture = tmp_path / "methods.png"
    monkeypatch.setattr("sys.argv", ["plot_methods.py", str(picture), "20"])
    runpy.run_path(str(ROOT / "examples" / "plot_methods.py"))
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "CITATION.cff"])
def test_house_files_are_there(name):
    assert (ROOT / name).read_text().strip()
