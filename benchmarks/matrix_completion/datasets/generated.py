"""Ratings of a rank-5 matrix with noise, a fifth of them seen."""

from __future__ import annotations

from benchmark_utils.ratings import ratings
from benchopt import BaseDataset


class Dataset(BaseDataset):
    name = "generated"
    parameters = {"rows, cols": [(300, 200)]}  # noqa: RUF012
    parameter_template = "{rows}x{cols}"
    test_parameters = {"rows, cols": [(30, 20)]}  # noqa: RUF012

    def get_data(self):
        size = (self.rows * self.cols) ** 0.5
        return {**ratings((self.rows, self.cols)), "radius": 4.0 * size}
