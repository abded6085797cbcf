"""The first digits of scikit-learn, 8 × 8 pixels in [0, 1], ten clusters."""

from __future__ import annotations

from benchopt import BaseDataset
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits


class Dataset(BaseDataset):
    name = "digits"
    parameters = {"n": [100, 300]}  # noqa: RUF012
    parameter_template = "{n}"
    requirements = ("pip::scikit-learn",)
    test_parameters = {"n": [30]}  # noqa: RUF012

    def get_data(self):
        points = load_digits().data[: self.n] / 16.0
        return {"distances": cdist(points, points, "sqeuclidean"), "k": 10}
