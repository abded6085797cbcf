"""Figures without a screen."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from condgrad._files import replaced
from condgrad.errors import ProblemError

TEXT = {"svg.fonttype": "none"}
"""In SVG files text stays text: they are small."""
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#000000")
"""Colours that everybody can tell apart: M. Okabe and K. Ito, Color Universal Design, 2008."""


def new_figure(width: float, height: float) -> Any:
    """An empty figure of that size in inches, unknown to pyplot; notebooks show it all the same."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise ProblemError("plots need matplotlib: install condgrad[plot]") from None
    from condgrad.plot._figure import Shown

    return Shown(figsize=(width, height), layout="constrained")


def check_path(name: str, path: str | Path) -> None:
    """Refuse a file whose ending no picture can have."""
    known = new_figure(1, 1).canvas.get_supported_filetypes()
    if Path(path).suffix.lstrip(".").lower() not in known:
        raise ProblemError(f"{name} is {str(path)!r}: end it in .png, .svg or .pdf")


def save(figure: Any, path: str | Path | None, title: str = "") -> Any:
    """Give a figure its title, write it to a file, if there is one, and return it."""
    if title:
        figure.suptitle(plain(title))
    if path is not None:
        try:
            kind = Path(path).suffix.lstrip(".").lower()
            file = io.BytesIO()
            write(figure, file, TEXT, dpi=120, format=kind or None)
            with replaced(path if kind else f"{path}.png") as target:
                target.write(file.getbuffer())
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise ProblemError(f"path is {str(path)!r}: {why}") from None
    return figure


def write(figure: Any, target: Any, settings: dict[str, Any], **options: Any) -> None:
    """`Figure.savefig` under settings; a letter that the font lacks is a box, not a warning."""
    import matplotlib as mpl

    calm = np.errstate(all="ignore")  # a trace may hold any number
    with mpl.rc_context(settings), warnings.catch_warnings(), calm:
        warnings.filterwarnings("ignore", "Glyph")
        figure.savefig(target, **options)


def plain(text: str) -> str:
    """The text as it is: a dollar sign starts no formula."""
    whole = text.encode("utf-8", "backslashreplace").decode()  # file names may have no letters
    return whole.replace("$", r"\$")
