"""The methods of the paper's Table 1 and some more: what each consists of, and how it runs.

A method (`Method`) is an estimator for the smooth terms, one for the composite terms, the scalar
sequences, a step (`steps`) and a control (`control`). Those of `declarations` and `whole`
are the functions here.
"""

from condgrad.methods.choice import suited
from condgrad.methods.declarations import (
    cgal,
    h_1sfw,
    h_sag_v1,
    h_sag_v2,
    h_spider_fw,
    hcgm,
    homotopy,
    most_fw,
    most_fw_plus,
    sag_cgal,
    sag_fw,
    shcgm,
    spdhg,
)
from condgrad.methods.registry import METHODS, Entry, Method, check, declare
from condgrad.methods.whole import apg, pdhg, pfw, rpdhg

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
    "pfw",
    "rpdhg",
    "sag_cgal",
    "sag_fw",
    "shcgm",
    "spdhg",
    "suited",
]
