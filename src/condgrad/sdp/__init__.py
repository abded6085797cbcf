"""General semidefinite programs: write one down, or read an SDPA file, and get a certified answer.

>>> import numpy as np
>>> from condgrad.sdp import SDP
>>> sdp = SDP(np.array([[0.0, 1.0], [1.0, 0.0]])).subject_to(np.eye(2), "==", 1.0)
>>> round(sdp.solve(gap=1e-6).bound, 4)
-1.0
"""

from condgrad.sdp._model import SDP
from condgrad.sdp._solution import DimacsErrors, Solution
from condgrad.sdp.layout import LowRank

__all__ = ["SDP", "DimacsErrors", "LowRank", "Solution"]
