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
"""What columns are called, without the ends s and id."""


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
