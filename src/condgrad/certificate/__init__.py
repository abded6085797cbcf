"""Proofs about a run: lower bounds on the optimum, and that nothing is feasible."""

from condgrad.certificate.lower_bound import Bound, Report, bound, margin, part_of, relative_gap

__all__ = ["Bound", "Report", "bound", "margin", "part_of", "relative_gap"]
