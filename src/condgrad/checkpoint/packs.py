"""Values that are ready to be written to a file, and those that were read from one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from condgrad._types import Array
from condgrad.backends.arrays import HOST
from condgrad.checkpoint.arrays import Arrays, Memory
from condgrad.checkpoint.files import Reader
from condgrad.checkpoint.graph import Given, Maker, Writer
from condgrad.errors import InputError

NOTHING = Given({}, {})
FAULTS = (
    *(KeyError, TypeError, ValueError, IndexError, AttributeError),
    *(RecursionError, OverflowError, AssertionError, NotImplementedError),
)
"""Errors that a damaged description raises."""


@dataclass
class Pack:
    """A value as it will be written."""

    text: Any
    lines: list[Any]
    """Lines that describe the arrays."""
    blocks: list[Memory]
    facts: dict[str, Any]
    """Facts that are written beside the value."""

    @property
    def nbytes(self) -> int:
        """Bytes of all its blocks."""
        return sum(block.nbytes for block in self.blocks)

    def copy(self) -> Pack:
        """Return a copy that no longer changes with the value."""
        return Pack(self.text, self.lines, [b.copy() for b in self.blocks], self.facts)

    def entry(self, blocks: list[Memory]) -> dict[str, Any]:
        """Entry of the value in a description of a file; its memory is added to the blocks."""
        first = len(blocks)
        blocks.extend(self.blocks)
        lines = [[b + first if b >= 0 else b, *rest] for b, *rest in self.lines]
        return {"value": self.text, "arrays": lines, **self.facts}


def packed(value: Any, where: str, given: Given = NOTHING, **facts: Any) -> Pack:
    """A value, called `where` for people, made ready.

    Raises
    ------
    ProblemError
        Where it has something that a checkpoint cannot hold.
    """
    writer = Writer(given)
    text = writer.value(value, where)
    return Pack(text, *writer.blocks(), facts)


def unpacked(entry: Any, reader: Reader, given: Given = NOTHING, like: Array = HOST) -> Any:
    """The value of an entry of a file; `like` says where arrays go that were on a GPU."""
    try:
        arrays = Arrays(entry["arrays"], reader.block, reader.damaged, like)
        return Maker(given, arrays).value(entry["value"])
    except InputError:
        raise
    except FAULTS as error:
        raise reader.damaged(f"it does not fit together ({error})") from None
