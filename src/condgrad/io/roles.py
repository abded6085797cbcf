"""Which columns of a table are the user, the item and the rating."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

ROLES = {
    "user": (
        *("user", "reviewer", "customer", "member", "rater", "reader", "viewer", "person"),
        *("uid", "username", "visitor", "critic", "listener"),
    ),
    "item": (
        *("item", "movie", "film", "product", "book", "song", "track", "artist", "article"),
        *("isbn", "asin", "iid", "anime", "joke", "business", "restaurant", "game", "recipe"),
    ),
    "rating": (
        *("rating", "score", "star", "overall", "value", "count", "playcount", "plays", "weight"),
    ),
}
"""Names of columns, without the ends s and id."""
WHOLE = re.compile("[+-]?[0-9]{1,4000}")


def role_of(name: Any) -> str | None:
    """The role that a column's name tells, or None.

    Examples
    --------
    >>> [role_of(name) for name in ("userId", "MOVIE_ID", "Book-Rating", "timestamp", "item 3")]
    ['user', 'item', 'rating', None, None]
    """
    if not isinstance(name, str):
        return None
    bare = re.sub("[^a-z0-9]", "", name.lower())
    shapes = {bare, bare.removesuffix("s"), bare.removesuffix("id"), bare.removesuffix("ids")}
    for role, words in ROLES.items():
        if shapes & set(words):
            return role
    return "rating" if bare.endswith(("rating", "ratings")) else None


def roles_of(names: Sequence[Any]) -> dict[str, list[int]]:
    """The places of each role that the names tell.

    Examples
    --------
    >>> roles_of(["rating", "user_id", "item_id", "timestamp"])
    {'rating': [0], 'user': [1], 'item': [2]}
    """
    found: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        role = role_of(name)
        if role is not None:
            found.setdefault(role, []).append(place)
    return found


def places_of(names: Sequence[Any]) -> tuple[int, int, int] | None:
    """Columns of user, item and rating: by name, those that no name tells in the order of the rest.

    None where that is not clear: in a table of more than three columns with names for some of them
    only, or whose first has none, and where the column that is left has times.

    Examples
    --------
    >>> places_of(["score", "uid", "sku"]), places_of(["a", "b", "c", "d"])
    ((1, 2, 0), (0, 1, 2))
    >>> places_of(["user", "a", "b", "c"]), places_of(["item", "rating", "timestamp"])
    (None, None)
    """
    told = {role: at[0] for role, at in roles_of(names).items() if len(at) == 1}
    if len(names) > 3 and (0 < len(told) < 3 or (not told and not str(names[0]).strip())):
        return None
    rest = [k for k, name in enumerate(names) if k not in told.values()]
    rest = [k for k in rest if not re.search("time|date", str(names[k]).lower())]
    if len(rest) < 3 - len(told):
        return None
    found = [told[role] if role in told else rest.pop(0) for role in ROLES]
    return found[0], found[1], found[2]


def in_order(names: Sequence[str]) -> list[int]:
    """Places of ids in their order: that of numbers where all are whole ones, else of letters.

    Examples
    --------
    >>> in_order(["10", "9"]), in_order(["10", "9", "x"])
    ([1, 0], [0, 1, 2])
    """
    if all(WHOLE.fullmatch(name) for name in names):
        return sorted(range(len(names)), key=lambda k: (int(names[k]), names[k]))
    return sorted(range(len(names)), key=names.__getitem__)
