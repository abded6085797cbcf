"""Scalar and group functions on images: losses, constraints, regularisers."""

from condgrad.functions._base import Function, Indicator, Proximable, Smooth
from condgrad.functions.group import L2Ball, L2Norm, SecondOrder, Simplex
from condgrad.functions.proximable import L1, Absolute, AtLeast, AtMost, Equal, Hinge, Interval
from condgrad.functions.smooth import Huber, Linear, Logistic, Squared

__all__ = [
    "L1",
    "Absolute",
    "AtLeast",
    "AtMost",
    "Equal",
    "Function",
    "Hinge",
    "Huber",
    "Indicator",
    "Interval",
    "L2Ball",
    "L2Norm",
    "Linear",
    "Logistic",
    "Proximable",
    "SecondOrder",
    "Simplex",
    "Smooth",
    "Squared",
]
