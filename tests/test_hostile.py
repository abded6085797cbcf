"""Hostile arrays at every door that makes something; those that solve are in tests/faults."""

import pytest

import doors
from condgrad import applications
from hostile import KINDS, verdict


@pytest.fixture(scope="module", autouse=True)
def run_to_record():
    doors.RUN.cut = applications.sparsest_cut(doors.GRAPH).run(max_iter=3)


@pytest.mark.parametrize("door", doors.QUICK)
def test_refused_or_right(door):
    call, plain = doors.QUICK[door]
    may = doors.MAY.get(door, frozenset())
    found = {kind: verdict(call, plain, kind, may) for kind in KINDS}
    assert "same" in (found["plain"], found["csr"])
    assert not {kind: text for kind, text in found.items() if text.startswith("BAD")}
