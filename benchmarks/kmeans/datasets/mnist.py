"""250 MNIST digits as class probabilities, from the folder named by CONDGRAD_DATA."""

from __future__ import annotations

from benchopt import BaseDataset

from condgrad.datasets import load


class Dataset(BaseDataset):
    name = "mnist"
    parameters = {"n": [250]}  # noqa: RUF012
    parameter_template = "{n}"

    def get_data(self):
        return {"distances": load(f"kmeans/mnist-{self.n}").distances, "k": 10}
