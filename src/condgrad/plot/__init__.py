"""Pictures of runs: answers, convergence, profile, clusters, heat maps and cuts.

Every function returns a matplotlib ``Figure`` that belongs to no window and no global list;
notebooks show it where it is the last value of a cell. It is written to a file where
`path` is given, and drawn on the `figure` (or subfigure) given, if any.
"""

from condgrad.applications.planes import principal_plane
from condgrad.plot._base import check_path, new_figure, save, write
from condgrad.plot.curves import LABELS, Found, answer, convergence, profile, radius
from condgrad.plot.partitions import clusters, cut, heat_map
from condgrad.plot.pictures import Picture, pictures, sheet

__all__ = [
    "LABELS",
    "Found",
    "Picture",
    "answer",
    "check_path",
    "clusters",
    "convergence",
    "cut",
    "heat_map",
    "new_figure",
    "pictures",
    "principal_plane",
    "profile",
    "radius",
    "save",
    "sheet",
    "write",
]
