"""Proofs about a run: lower bounds on the optimum, and that nothing is feasible."""

from condgrad.certificate.lower_bound import Bound, Report, margin, relative_gap

__all__ = ["Bound", "Report", "margin", "relative_gap"]
