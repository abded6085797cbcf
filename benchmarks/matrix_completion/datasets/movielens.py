"""MovieLens-100k, split b, from the folder named by CONDGRAD_DATA."""

from __future__ import annotations

from benchopt import BaseDataset

from condgrad.datasets import load


class Dataset(BaseDataset):
    name = "movielens-100k"
    parameters = {"radius": [4500.0]}  # noqa: RUF012
    parameter_template = "radius {radius:g}"

    def get_data(self):
        found = load("movielens-100k")
        train = {"rows": found.rows, "cols": found.cols, "values": found.values}
        return {**train, "shape": found.shape, "radius": self.radius}
