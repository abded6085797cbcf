"""Planted partitions and geometric graphs."""

from __future__ import annotations

from benchmark_utils.graphs import named
from benchopt import BaseDataset


class Dataset(BaseDataset):
    name = "generated"
    parameters = {"graph": ["rand100", "rand300", "geo300", "rand800"]}  # noqa: RUF012
    parameter_template = "{graph}"
    test_parameters = {"graph": ["rand30"]}  # noqa: RUF012

    def get_data(self):
        return {"adjacency": named(self.graph)}
