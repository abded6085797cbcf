"""Runs go on from a checkpoint as if they had never stopped."""

import copy

import numpy as np
import pytest

import condgrad as cg
from saving import CASES, alike, box, case, cut, plain, same_result, vectors


@pytest.mark.parametrize("name", CASES)
def test_a_saved_run_goes_on_bit_for_bit(name, tmp_path):
    problem, method = case(name)
    options = {"seed": 3, "gap": 1e-9, "duals": True}
    whole = cg.start(problem, method, **options).advance(iterations=60)
    run = cg.start(copy.deepcopy(problem), method, **options).advance(iterations=17)
    path = tmp_path / "run"
    run.save(path)
    again = cg.resume(path, copy.deepcopy(problem))
    assert repr(again) == repr(run)
    alike(again.advance(iterations=43), whole)
