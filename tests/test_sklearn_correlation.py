"""`CorrelationClustering` as scikit-learn and its users expect it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.utils.estimator_checks import parametrize_with_checks

from condgrad import ProblemError
from condgrad.sklearn import CorrelationClustering

QUICK = CorrelationClustering(gap=0.5, triangles=False, random_state=0)


@parametrize_with_checks(
    [QUICK],
    expected_failed_checks=lambda _: {"check_clustering": "its points are no similarity matrix"},
)
def test_check_estimator(estimator, check):
    check(estimator)


def test_sparse_and_dense_are_the_same():
    rng = np.random.default_rng(0)
    S = np.triu(rng.integers(-2, 3, (9, 9)), 1)
    S = S + S.T
    dense, sparse = (
        CorrelationClustering(random_state=0).fit(X) for X in (S, sp.csr_array(S.astype(float)))
    )
    assert (dense.labels_ == sparse.labels_).all()
    assert dense.lower_bound_ == sparse.lower_bound_ <= dense.disagreements_
    assert dense.n_clusters_ == len(np.unique(dense.labels_))


@pytest.mark.parametrize(
    ("X", "words"), [(np.ones((3, 2)), "square"), (np.triu(np.ones((4, 4))), "symmetric")]
)
def test_what_is_no_similarity_is_refused(X, words):
    with pytest.raises(ProblemError, match=f"X .*{words}"):
        QUICK.fit(X)
