"""Samples per second of one-sample SAG Frank-Wolfe on sparse data, beside others on the same data.

    make bench-kernels

prints thousands of samples per second of `condgrad.sag_fw` (a whole `solve`) and, from the same
interleaved rounds, of its twin in NumPy, of `copt.minimize_sfw` where copt is installed (``pip
install --no-deps copt tqdm``; its steps alone, since it compiles anew at every call) and of
scikit-learn's SAGA, which has no oracle to call: a penalty stands in for the ball. Medians, one
thread.
"""

from __future__ import annotations

import time
import warnings

import numba
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression, Ridge

import condgrad as cg
from condgrad import domains, functions, maps
from condgrad.backends import _reference

N, NONZEROS, EPOCHS, ROUNDS, RADIUS = 20_000, 75, 10, 7, 30.0


def data(d):
    """Rows of unit length, about 75 non-zeros each, columns as popular as the words of a text."""
    rng = np.random.default_rng(0)
    popular = np.cumsum((np.arange(d) + 10.0) ** -0.9)
    columns = np.searchsorted(popular / popular[-1], rng.random((N, NONZEROS)))
    columns = rng.permutation(d)[columns].ravel()
    values = rng.random(N * NONZEROS) + 0.1
    X = sp.csr_matrix((values, (np.repeat(np.arange(N), NONZEROS), columns)), shape=(N, d))
    X = sp.csr_matrix(sp.diags_array(1 / np.sqrt(X.multiply(X).sum(axis=1).A1)) @ X)
    truth = np.where(rng.random(d) < 0.05, rng.standard_normal(d), 0.0)
    return X, np.where(X @ truth + 0.01 * rng.standard_normal(N) > 0, 1.0, -1.0)


def ours(X, t, loss):
    function = functions.Logistic(t) if loss == "logistic" else functions.Squared(t)
    term = cg.Term(maps.DataMatrix(X), function, 1 / N)
    problem = cg.Problem(domains.L1Ball(X.shape[1], RADIUS), [term])

    def run():
        start = time.perf_counter()
        result = cg.solve(problem, cg.sag_fw(), max_epochs=EPOCHS, certify=False, record=1)
        return EPOCHS * N / (time.perf_counter() - start), problem.objective(result.W)

    return run


def twin(X, t, loss):
    arrays, K = maps.DataMatrix(X).arrays, 500
    d, code = X.shape[1], 2 if loss == "logistic" else 1

    def run():
        ids = np.random.default_rng(0).integers(0, N, (K, 1))
        point = (np.zeros(d), np.ones(1), np.zeros(d))
        state = (*point, np.zeros(d), np.zeros(N), ids, 2 / (np.arange(K) + 2))
        rest = (code, t, 0.0, True, RADIUS, 1 / N, 1e308, np.zeros(1, np.int64))
        start = time.perf_counter()
        _reference.vector_sag(*arrays, *state, *rest)
        return K / (time.perf_counter() - start), None

    return run


def theirs(X, t, loss):
    """Its loss for labels takes 0 and 1; its squared loss has no half."""
    import copt

    b = (t + 1) / 2 if loss == "logistic" else t
    function = (copt.loss.LogLoss if loss == "logistic" else copt.loss.SquareLoss)(X, b)
    ball, factor = copt.constraint.L1Ball(RADIUS), 1.0 if loss == "logistic" else 0.5

    def run():
        seen = []
        x = copt.minimize_sfw(
            function.partial_deriv,
            *(X, b, np.zeros(X.shape[1]), ball.lmo),
            batch_size=1,
            max_iter=1,
            tol=-1,
            variant="SAG",
            callback=lambda _: seen.append(time.perf_counter()),
        ).x
        value = np.mean(np.logaddexp(0, -t * (X @ x)) if factor == 1 else (X @ x - t) ** 2 / 2)
        return (len(seen) - 101) / (seen[-1] - seen[100]), value

    return run


def saga(X, t, loss):
    options = {"solver": "saga", "max_iter": EPOCHS, "tol": 0.0, "fit_intercept": False}
    model = LogisticRegression(**options) if loss == "logistic" else Ridge(**options)

    def run():
        start = time.perf_counter()
        model.fit(X, t)
        return EPOCHS * N / (time.perf_counter() - start), None

    return run


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("d", [47_000, 2_000])
@pytest.mark.parametrize("rival", ["copt", "NumPy twin", "SAGA (sklearn)"])
def test_samples_per_second(benchmark, d, loss, rival):
    X, t = data(d)
    benchmark.group = f"{loss}, l1 ball, d = {d}: thousand samples/s"
    if rival == "copt":
        pytest.importorskip("copt", reason="copt is not installed")
    build = {"copt": theirs, "NumPy twin": twin, "SAGA (sklearn)": saga}[rival]
    threads = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pair = ours(X, t, loss), build(X, t, loss)
            pair[0](), pair[1]()
            rounds = [[run() for run in pair] for _ in range(ROUNDS)]
            benchmark.pedantic(pair[0], rounds=1)
    finally:
        numba.set_num_threads(threads)
    mine, other = np.median([[speed for speed, _ in pair] for pair in rounds], axis=0) / 1e3
    info = benchmark.extra_info
    info[f"beside {rival}"], info[rival], info[f"over {rival}"] = mine, other, mine / other
    if rival == "copt":  # the same problem; ours has made more passes
        assert rounds[0][0][1] <= rounds[0][1][1]
