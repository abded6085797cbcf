"""The animal networks of the H-SAG-CGM paper, from the folder named by CONDGRAD_DATA."""

from __future__ import annotations

from benchopt import BaseDataset

from condgrad.datasets import load


class Dataset(BaseDataset):
    name = "animals"
    parameters = {  # noqa: RUF012
        "graph": [
            "mammalia-primate-association-13",
            "insecta-ant-colony1-day37",
            "insecta-ant-colony4-day10",
        ]
    }
    parameter_template = "{graph}"

    def get_data(self):
        return {"adjacency": load(f"graph/{self.graph}").toarray()}
