"""What is proved of a run: lower bounds, that nothing is feasible, that parts contradict."""

from condgrad.certificate.bound import (
    Bound,
    Certificate,
    Part,
    Report,
    margin,
    part_of,
    relative_gap,
)

__all__ = ["Bound", "Certificate", "Part", "Report", "margin", "part_of", "relative_gap"]
