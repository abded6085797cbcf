"""One number is the version of everything."""

import re
import tomllib
from pathlib import Path

import pytest

import condgrad

ROOT = Path(__file__).parent.parent
SAYS = {
    "CITATION.cff": r"^version: (\S+)$",
    "CHANGELOG.md": r"^## (\S+)",
}
"""Where else the version is, the first match; documentation and program read the package."""


@pytest.mark.parametrize("name", SAYS)
def test_one_version(name):
    found = re.search(SAYS[name], (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None
    assert found[1] == condgrad.__version__


def test_the_package_says_its_version_once():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["project"]["dynamic"] == ["version"]
    source = (ROOT / settings["tool"]["hatch"]["version"]["path"]).read_text(encoding="utf-8")
    assert re.findall(r'__version__ = "(.*)"', source) == [condgrad.__version__]
