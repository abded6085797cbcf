"""The karate club, planted partitions and geometric graphs: always there."""

from __future__ import annotations

from benchmark_utils.graphs import named
from benchopt import BaseDataset


class Dataset(BaseDataset):
    name = "generated"
    parameters = {"graph": ["karate", "rand80", "rand150", "geo150", "rand300"]}  # noqa: RUF012
    parameter_template = "{graph}"
    test_parameters = {"graph": ["karate"]}  # noqa: RUF012

    def get_data(self):
        return {"adjacency": named(self.graph)}
