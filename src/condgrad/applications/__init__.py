"""The paper's applications: each builds a `Problem` from data and knows its settings."""

from condgrad.applications._base import PRESETS, Application, Run
from condgrad.applications.kmeans import kmeans
from condgrad.applications.matrix_completion import matrix_completion
from condgrad.applications.rounding import Cut, cut_value, sweep_cut
from condgrad.applications.sparsest_cut import sparsest_cut

__all__ = [
    "PRESETS",
    "Application",
    "Cut",
    "Run",
    "cut_value",
    "kmeans",
    "matrix_completion",
    "sparsest_cut",
    "sweep_cut",
]
