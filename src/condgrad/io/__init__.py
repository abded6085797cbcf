"""Readers of graphs, ratings and feature tables; a bad file is always an `InputError`."""

from condgrad.io.features import Features, read_features
from condgrad.io.graphs import graph_from_networkx, read_graph
from condgrad.io.ratings import IndexedRatings, Ratings, index_ratings, read_ratings

__all__ = [
    "Features",
    "IndexedRatings",
    "Ratings",
    "graph_from_networkx",
    "index_ratings",
    "read_features",
    "read_graph",
    "read_ratings",
]
