"""Compact convex sets with a linear minimisation oracle."""

from condgrad.domains._base import Domain
from condgrad.domains.product import Product
from condgrad.domains.spectral import BlockSpectrahedron, NuclearBall, Spectrahedron
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
    "Product",
    "Simplex",
    "Spectrahedron",
]
