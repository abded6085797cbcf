"""The paper's experiments, run, kept, summarised and drawn."""

from condgrad.experiments.figures import FIGURES, Figure, Instance, Job
from condgrad.experiments.runner import plan, reproduce

__all__ = ["FIGURES", "Figure", "Instance", "Job", "plan", "reproduce"]
