"""The rows of a term in a run: one keeper owns what is kept of them and answers for them.

`keeper_of` is the one place that decides who keeps them: the first of `KEEPERS` that can.
"""

from condgrad.rows.keeper import KEEPERS, Keeper, keeper_of, together
from condgrad.rows.parts import Part, Sizes, part_of, sizes_of

__all__ = ["KEEPERS", "Keeper", "Part", "Sizes", "keeper_of", "part_of", "sizes_of", "together"]
