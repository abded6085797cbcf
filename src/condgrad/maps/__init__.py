"""Linear maps W ↦ z = A W, never materialised."""

from condgrad.maps._base import Covering as Covering
from condgrad.maps._base import LinearMap
from condgrad.maps._base import RowStorage as RowStorage
from condgrad.maps.calculus import Restricted, Scaled, Stack
from condgrad.maps.entries import AllEntries, Diagonal, Entries
from condgrad.maps.inner import Inner, RowSums, Trace
from condgrad.maps.low_rank import LowRankStack
from condgrad.maps.products import Left, Right, Sandwich
from condgrad.maps.sparse import DataMatrix, SparseStack
from condgrad.maps.triangles import Perimeters, Triangles

__all__ = [
    "AllEntries",
    "DataMatrix",
    "Diagonal",
    "Entries",
    "Inner",
    "Left",
    "LinearMap",
    "LowRankStack",
    "Perimeters",
    "Restricted",
    "Right",
    "RowSums",
    "Sandwich",
    "Scaled",
    "SparseStack",
    "Stack",
    "Trace",
    "Triangles",
]
