"""The methods: an algorithm is one file of functions over one state.

`protocol` says what a method is, `table1` has those of the paper's Table 1, `sag_cgal`, `spdhg`,
`pdhg`, `rpdhg`, `apg`, `pfw` and `factored_apg` one each, and `choice` picks one for a problem.
"""

# The order of imports is that of `METHODS`
# isort: off
from condgrad.methods.table1 import (
    SAG,
    Augmented,
    ConditionalGradient,
    Estimator,
    Full,
    Momentum,
    Spider,
    Storm,
    cgal,
    h_1sfw,
    h_sag_v1,
    h_sag_v2,
    h_spider_fw,
    hcgm,
    homotopy,
    most_fw,
    most_fw_plus,
    sag_fw,
    shcgm,
)
from condgrad.methods.sag_cgal import sag_cgal
from condgrad.methods.spdhg import spdhg
from condgrad.methods.pdhg import pdhg
from condgrad.methods.rpdhg import rpdhg
from condgrad.methods.apg import apg
from condgrad.methods.pfw import pfw

# isort: on
from condgrad.methods import then as _then  # noqa: F401  # a file may have its class
from condgrad.methods import vector_sag as _vector_sag  # noqa: F401  # likewise
from condgrad.methods.balance import Balance
from condgrad.methods.choice import choose
from condgrad.methods.factored_apg import FactoredApg
from condgrad.methods.protocol import Method, State
from condgrad.methods.register import METHODS, Entry, check, declare

__all__ = [
    "METHODS",
    "SAG",
    "Augmented",
    "Balance",
    "ConditionalGradient",
    "Entry",
    "Estimator",
    "FactoredApg",
    "Full",
    "Method",
    "Momentum",
    "Spider",
    "State",
    "Storm",
    "apg",
    "cgal",
    "check",
    "choose",
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
]
