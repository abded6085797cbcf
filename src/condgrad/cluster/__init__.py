"""Rows dealt to the workers of a Ray cluster.

The rows of a large term are dealt to actors, each of which has an ordinary keeper for its own;
W goes out, cotangents come back summed. Ray is an extra, imported where a cluster is asked for.
"""

from condgrad.cluster.engine import Engine, Lost
from condgrad.cluster.keeper import Sharded
from condgrad.cluster.options import Ray, cluster_of
from condgrad.cluster.terms import dealt, large, require_large

__all__ = ["Engine", "Lost", "Ray", "Sharded", "cluster_of", "dealt", "large", "require_large"]
