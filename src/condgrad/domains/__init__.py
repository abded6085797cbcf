"""Compact convex sets with a linear minimisation oracle."""

from condgrad.domains._base import Domain
from condgrad.domains._base import Face as Face
from condgrad.domains._base import Minimum as Minimum
from condgrad.domains.nuclear import NuclearBall
from condgrad.domains.product import Product
from condgrad.domains.spectral import BlockSpectrahedron, PinnedSpectrahedron, Spectrahedron
from condgrad.domains.vector import Box, L1Ball, L2Ball, LinfBall, Oracle, Simplex

__all__ = [
    "BlockSpectrahedron",
    "Box",
    "Domain",
    "L1Ball",
    "L2Ball",
    "LinfBall",
    "NuclearBall",
    "Oracle",
    "PinnedSpectrahedron",
    "Product",
    "Simplex",
    "Spectrahedron",
]
