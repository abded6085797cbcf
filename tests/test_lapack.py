"""Routines of LAPACK that are called by their addresses: SciPy's answers bit for bit."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
import scipy.linalg
from scipy.linalg.lapack import dpotrf

from condgrad.backends import lapack

SIDES = (lapack.SMALL - 3, lapack.SMALL + 3)


def same(found, expected):
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", SIDES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_the_bits_are_those_of_scipy(n, dtype, order):
    X = np.random.default_rng(n).normal(size=(n, n + 5)).astype(dtype)
    V = np.array(X[:, :n] + X[:, :n].T, order=order)
    kept, how = V.copy(), {"check_finite": False}
    same(lapack.eigh(V), scipy.linalg.eigh(V, **how))
    for subset in ((0, 0), (n - 3, n - 1)):
        expected = scipy.linalg.eigh(V, subset_by_index=subset, **how)
        same(lapack.eigh(V, subset=subset), expected)
    same(lapack.eigh(V, driver="evd"), scipy.linalg.eigh(V, driver="evd", **how))
    same([lapack.eigvalsh(V)], [scipy.linalg.eigvalsh(V, **how)])
    for Y in (np.array(X, order=order), np.array(X.T, order=order)):
        same(lapack.svd(Y), scipy.linalg.svd(Y, full_matrices=False, **how))
    same([V], [kept])


@pytest.mark.parametrize("n", SIDES)
@pytest.mark.parametrize("shift", [0.0, 100.0])
def test_cholesky_says_the_same(n, shift):
    X = np.random.default_rng(n).normal(size=(n, n))
    B = X + X.T + shift * np.eye(n)
    A = B.copy()
    assert lapack.factorises(B) == (dpotrf(A.T, clean=False, overwrite_a=True)[1] == 0)
    same([B], [A])


@pytest.mark.parametrize("name", ["dsyevr", "dsyevd", "dgesdd", "ssyevr", "dpotrf"])
def test_the_lock_is_let_go(name):
    """Functions of this kind are called without it, those with the flag 4 with it."""
    call = lapack.routine(name)
    assert isinstance(call, ctypes._CFuncPtr)
    assert not call._flags_ & 4


def test_a_matrix_without_numbers_is_an_error():
    V = np.full((lapack.SMALL + 1, lapack.SMALL + 1), np.nan)
    with pytest.raises((np.linalg.LinAlgError, ValueError)):
        lapack.svd(V)


def test_another_interface_is_left_to_scipy(monkeypatch):
    monkeypatch.setattr(lapack, "routine", lambda name: None)
    V = np.diag(np.arange(1.0 + lapack.SMALL))
    assert lapack.eigvalsh(V)[-1] == lapack.SMALL
    assert lapack.eigh(V)[0][0] == 0
    assert lapack.svd(V)[1][-1] == pytest.approx(0, abs=1e-9)
    assert lapack.factorises(V + np.eye(V.shape[0]))
