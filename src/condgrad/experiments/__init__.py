"""The paper's experiments, run, kept, summarised and drawn."""

from condgrad.experiments._base import Figure, Instance, Job
from condgrad.experiments.figures import FIGURES
from condgrad.experiments.runner import plan, reproduce

__all__ = ["FIGURES", "Figure", "Instance", "Job", "plan", "reproduce"]
