from __future__ import annotations

import numpy as np
import pytest

from condgrad.functions import L1, Absolute, AtMost, Hinge, Huber, L2Norm, Linear, Logistic, Squared

SIGNS = np.where(np.arange(50) % 2, 1.0, -1.0)
FUNCTIONS = [
    L1(0.1),
    Absolute(np.linspace(-1, 1, 50), 0.7),
    Hinge(SIGNS),
    L2Norm(0.3, 0.2),
    AtMost(0.5),
    Linear(np.linspace(0.1, 3.3, 50)),
    Logistic(SIGNS),
    Huber(0.1, 0.7),
    Squared(1.0),
]


@pytest.mark.parametrize("beta", [1.0, 1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("h", FUNCTIONS, ids=lambda h: type(h).__name__)
def test_slopes_are_dual_feasible_in_any_precision(h, dtype, beta):
    for size in (1e-3, 5.0, 1e6):
        z = (size * np.random.default_rng(0).standard_normal(50)).astype(dtype)
        y = h.slope(z, beta)
        assert y.dtype == dtype
        point = h.into_dual(y)
        assert np.isfinite(h.conjugate(point))
        np.testing.assert_allclose(point, y, rtol=200 * np.finfo(dtype).eps, atol=1e-300)


@pytest.mark.parametrize("h", [L1(0.1), Hinge(SIGNS), L2Norm(0.3)], ids=lambda h: type(h).__name__)
def test_lipschitz_slopes_do_not_cancel(h):
    z = 5 * np.random.default_rng(1).standard_normal(50)
    exact = h.slope(z, 1e-6)
    np.testing.assert_allclose(h.slope(z.astype(np.float32), 1e-6), exact, rtol=1e-5, atol=1e-6)
