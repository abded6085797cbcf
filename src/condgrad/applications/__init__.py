"""The applications: each builds a `Problem` from data and knows its settings."""

from condgrad.applications._base import (
    PRESETS,
    Application,
    require_room,
)
from condgrad.applications._outcome import (
    PLAIN,
    Constructed,
    Outcome,
    Rounded,
    Sense,
    Unit,
    closeness,
    gap_of,
)
from condgrad.applications._rounder import Rounder
from condgrad.applications.clustering import (
    Clustering,
    clustering_matrix,
    clustering_value,
    round_clusters,
)
from condgrad.applications.kmeans import kmeans
from condgrad.applications.matrix_completion import matrix_completion
from condgrad.applications.max_cut import max_cut
from condgrad.applications.rounding import Cut, cut_matrix, cut_value, round_cut, sweep_cut
from condgrad.applications.rounding_max_cut import (
    max_cut_value,
    round_max_cut,
    unit_diagonal,
)
from condgrad.applications.sparsest_cut import sparsest_cut

__all__ = [
    "PLAIN",
    "PRESETS",
    "Application",
    "Clustering",
    "Constructed",
    "Cut",
    "Outcome",
    "Rounded",
    "Rounder",
    "Sense",
    "Unit",
    "closeness",
    "clustering_matrix",
    "clustering_value",
    "cut_matrix",
    "cut_value",
    "gap_of",
    "kmeans",
    "matrix_completion",
    "max_cut",
    "max_cut_value",
    "require_room",
    "round_clusters",
    "round_cut",
    "round_max_cut",
    "sparsest_cut",
    "sweep_cut",
    "unit_diagonal",
]
