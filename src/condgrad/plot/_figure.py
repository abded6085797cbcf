"""A figure that notebooks show; the module is imported once something is drawn."""

from __future__ import annotations

import io

from matplotlib.figure import Figure

from condgrad.plot._base import write


class Shown(Figure):  # type: ignore[misc, unused-ignore]  # matplotlib may have no types
    """A figure without a window that is its own picture where it ends a cell."""

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        write(self, file, {}, format="png", dpi=100)
        return file.getvalue()
