"""Rows dealt to the workers of a Ray cluster.

The rows of a large term are dealt to actors, which keep the tables of their own; W goes out, and
cotangents come back summed. Ray is an extra, imported if a cluster is asked for.
"""

from condgrad.cluster.connect import Ray, cluster_of
from condgrad.cluster.engine import Engine, Late, Lost
from condgrad.cluster.shard import Table
from condgrad.cluster.terms import dealt, large, require_large

__all__ = [
    "Engine",
    "Late",
    "Lost",
    "Ray",
    "Table",
    "cluster_of",
    "dealt",
    "large",
    "require_large",
]
