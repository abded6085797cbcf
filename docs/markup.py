"""Docstrings and the registry as the site shows them.

Docstrings are written to be read as text: ``A*y``, ``|objective|`` and ``labels_`` mean themselves
there, while reStructuredText takes them for emphasis, substitutions and links.
"""

from __future__ import annotations

import re

from condgrad import METHODS

COLUMNS = ("`--method`", "name", "follows ∇f, ∇g", "iterations", "total cost", "reference")
OPENING = re.compile(r"( *)(\.\. \w+::.*|.*::|>>> .*)")
"""Opens a formula, a literal block or an example, which are left as they are."""
KEPT = re.compile(
    r"``.+?``|`[^`]+`"  # code
    r"|^ *\*{0,2}\w+(?:, \*{0,2}\w+)*(?= : |$)"  # names of parameters
    r"|(?<![^\s(])\*\w[^*\n]*(?<=\w)\*(?![\w*])",  # emphasis
    re.MULTILINE,
)
SPECIAL = re.compile(r"[*|]|(?<=\w)_(?!\w)")


def mended(docstring: str) -> str:
    """The docstring as reStructuredText that means what it says."""
    docstring = re.sub(r"^\.\. \[(\d+)\] ", r"\1. ", docstring, flags=re.MULTILINE)
    docstring = re.sub(r"\[(\d+)\]_", r"[\1]", docstring)
    return "\n".join(text if literal else escaped(text) for text, literal in pieces(docstring))


def pieces(docstring: str) -> list[tuple[str, bool]]:
    """Runs of lines, each with whether it is a block to leave alone."""
    found: list[tuple[list[str], bool]] = []
    indent, example = -1, False
    for line in docstring.split("\n"):
        blank, depth = not line.strip(), len(line) - len(line.lstrip())
        if (blank and example) or (not blank and not example and depth <= indent):
            indent, example = -1, False
        if indent < 0 and (opening := OPENING.fullmatch(line)):
            indent, example = len(opening[1]), opening[2].startswith(">>>")
        if not found or found[-1][1] != (indent >= 0):
            found.append(([], indent >= 0))
        found[-1][0].append(line)
    return [("\n".join(lines), literal) for lines, literal in found]


def escaped(text: str) -> str:
    """Text with backslashes before what is no markup."""
    parts, end = [], 0
    for kept in KEPT.finditer(text):
        parts += [SPECIAL.sub(r"\\\g<0>", text[end : kept.start()]), kept[0]]
        end = kept.end()
    return "".join([*parts, SPECIAL.sub(r"\\\g<0>", text[end:])])


def method_table() -> str:
    """The registry of methods as a Markdown table."""
    rows = [
        (f"`{e.slug}`", e.name, e.estimates, e.iterations, e.cost, e.reference)
        for e in METHODS.values()
    ]
    lines = [COLUMNS, ("---",) * len(COLUMNS), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
