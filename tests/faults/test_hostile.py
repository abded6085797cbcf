"""Hostile arrays at every door that solves something: the package's own error or the answer."""

from collections import Counter

import pytest

import doors
from hostile import KINDS, verdict

TOTAL: Counter[str] = Counter()


@pytest.fixture(scope="module", autouse=True)
def print_total():
    yield
    print(f"\n{sum(TOTAL.values())} arrays at {len(doors.SLOW)} doors: {dict(TOTAL)}")


@pytest.mark.parametrize("door", doors.SLOW)
def test_refused_or_right(door):
    call, plain = doors.SLOW[door]
    may = doors.MAY.get(door, frozenset())
    found = {kind: verdict(call, plain, kind, may) for kind in KINDS}
    TOTAL.update(text[:8] for text in found.values())
    assert "same" in (found["plain"], found["csr"])
    assert not {kind: text for kind, text in found.items() if text.startswith("BAD")}
