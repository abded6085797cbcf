"""What the doors for CVXPY say of points that miss their cones, and of infinite limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from condgrad.sdp import SDP

cp = pytest.importorskip("cvxpy")
door = pytest.importorskip("condgrad.cvxpy")


@pytest.mark.parametrize("scale", [1.0, 1e-12])
def test_conic_door_meets_its_cones(scale):
    """Value and bound agree early here, while the multipliers are far off."""
    x = cp.Variable(2)
    rows = [scale * (x[0] + x[1]) == scale, x >= 0, x <= 5]
    problem = cp.Problem(cp.Minimize(x[0] - x[1]), rows)
    assert problem.solve(solver=door.CONDGRAD) == pytest.approx(-1, abs=1e-2)
    assert problem.status == "optimal"
    assert max(np.max(row.violation()) for row in rows) <= 1e-2


def test_conic_door_says_that_its_point_is_inaccurate(monkeypatch):
    """Multipliers that miss their cone however often the program is solved."""
    solve = SDP.solve

    def off(sdp, **options):
        solution = solve(sdp, **options)
        return replace(solution, errors=solution.errors._replace(dual_cone=0.1))

    monkeypatch.setattr(SDP, "solve", off)
    x = cp.Variable(2)
    problem = cp.Problem(cp.Minimize(x[0] - x[1]), [x[0] + x[1] == 1, x >= 0, x <= 5])
    with pytest.warns(UserWarning, match="inaccurate"):
        problem.solve(solver=door.CONDGRAD)
    assert problem.status == "optimal_inaccurate"


def test_infinite_limits_say_nothing():
    x = cp.Variable(2)
    rows = [x >= np.array([-np.inf, 0]), cp.sum(x) >= 1, x <= 5]
    problem = cp.Problem(cp.Minimize(x @ np.array([1.0, 2.0])), rows)
    assert door.solve(problem) == pytest.approx(1, abs=1e-2)
    assert problem.status == "optimal"
