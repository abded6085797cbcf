"""Methods that run as themselves on every kind of domain; the others are in `test_projected`."""

from condgrad import METHODS

GENERAL = [slug for slug in METHODS if slug not in ("pdhg", "rpdhg", "apg", "pfw")]
