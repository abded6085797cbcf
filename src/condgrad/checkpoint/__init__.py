"""Checkpoints: the state of a run in a file, from which it goes on as if it had never stopped.

`files` has the format, `arrays` and `graph` turn objects into blocks and a description of them and
back, `prints` tells one problem from another. What is saved, and when, is in `condgrad.run`
(`saved.py`, `journal.py`).
"""

from condgrad.checkpoint.files import Reader, write
from condgrad.checkpoint.graph import Given
from condgrad.checkpoint.packs import Pack, packed, unpacked
from condgrad.checkpoint.prints import Print, difference, print_of

__all__ = [
    "Given",
    "Pack",
    "Print",
    "Reader",
    "difference",
    "packed",
    "print_of",
    "unpacked",
    "write",
]
