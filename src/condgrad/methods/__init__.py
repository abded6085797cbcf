"""The methods of the paper's Table 1 and two more: what each consists of, and how it runs.

A method (`Method`) is an estimator for the smooth terms, one for the composite terms, the scalar
sequences, a step (`steps`) and a control (`control`). Those of `declarations` are the functions
here.
"""

from condgrad.methods.declarations import (
    apg,
    cgal,
    h_1sfw,
    h_sag_v1,
    h_sag_v2,
    h_spider_fw,
    hcgm,
    homotopy,
    most_fw,
    most_fw_plus,
    pdhg,
    rpdhg,
    sag_cgal,
    sag_fw,
    shcgm,
    spdhg,
    suited,
)
from condgrad.methods.registry import METHODS, Entry, Method, check, declare

__all__ = [
    "METHODS",
    "Entry",
    "Method",
    "apg",
    "cgal",
    "check",
    "declare",
    "h_1sfw",
    "h_sag_v1",
    "h_sag_v2",
    "h_spider_fw",
    "hcgm",
    "homotopy",
    "most_fw",
    "most_fw_plus",
    "pdhg",
    "rpdhg",
    "sag_cgal",
    "sag_fw",
    "shcgm",
    "spdhg",
    "suited",
]
