"""Settings of the documentation; ``make docs`` builds it."""

import sys
from pathlib import Path

from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent))

import markup

import condgrad

project = "condgrad"
author = "The condgrad developers"
copyright = f"2026, {author}"
version = release = condgrad.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build"]
default_role = "py:obj"
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False
autodoc_typehints = "none"
napoleon_google_docstring = False
napoleon_use_param = napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]

html_theme = "furo"
html_title = f"condgrad {version}"
html_show_sphinx = False


def mend(
    app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    """Hand a docstring to Sphinx as reStructuredText."""
    lines[:] = markup.mended("\n".join(lines)).split("\n")
    if what in ("attribute", "data", "property"):
        lines[:0] = ["..", ""]  # else napoleon takes what comes before a colon for a type


def setup(app: Sphinx) -> None:
    """Mend docstrings before napoleon reads them."""
    app.connect("autodoc-process-docstring", mend, priority=400)
