"""Proofs about a run: lower bounds, that nothing is feasible, that parts contradict."""

from condgrad.certificate.bound import (
    Bound,
    Certificate,
    Report,
    margin,
    relative_gap,
)

__all__ = ["Bound", "Certificate", "Report", "margin", "relative_gap"]
