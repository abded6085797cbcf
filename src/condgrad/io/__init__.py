"""Readers of graphs, ratings, features and semidefinite programs; a bad file is an `InputError`."""

from condgrad.io.edges import NamedGraph
from condgrad.io.features import Features, read_features
from condgrad.io.graphs import (
    graph_from_edges,
    graph_from_networkx,
    read_graph,
    read_named_graph,
)
from condgrad.io.ratings import IndexedRatings, Ratings, index_ratings, read_ratings
from condgrad.io.sdpa import Sdpa, read_sdpa, write_sdpa

__all__ = [
    "Features",
    "IndexedRatings",
    "NamedGraph",
    "Ratings",
    "Sdpa",
    "graph_from_edges",
    "graph_from_networkx",
    "index_ratings",
    "read_features",
    "read_graph",
    "read_named_graph",
    "read_ratings",
    "read_sdpa",
    "write_sdpa",
]
