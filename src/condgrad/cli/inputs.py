"""Options that say how a file is to be read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from condgrad.errors import ProblemError

if TYPE_CHECKING:
    from condgrad.io import NamedGraph


class Repeats(StrEnum):
    """Meaning of an edge that stands again."""

    auto = "auto"
    refuse = "refuse"
    sum = "sum"
    once = "once"


GraphFile = Annotated[
    str,
    typer.Argument(
        help="A list of edges, GML, GraphML, Pajek, METIS, DIMACS, rudy, JSON, MatrixMarket, NumPy "
        "or Parquet file, packed or not; or the name of a networkx graph, as karate_club."
    ),
]


@dataclass(frozen=True)
class GraphInput:
    """How to read a graph."""

    format: Annotated[
        str | None,
        typer.Option(
            help="edges (a list without a line of sizes), rudy (with one), mtx, graphml, gml, "
            "json, pajek, metis, dimacs, numpy or parquet; default: as name and content tell."
        ),
    ] = None
    weight: Annotated[
        str | None,
        typer.Option(help="Attribute or column that has the weights; default: weight."),
    ] = None
    unweighted: Annotated[
        bool, typer.Option("--unweighted", help="Count every edge as 1, whatever it weighs.")
    ] = False
    delimiter: Annotated[
        str | None, typer.Option(help="What separates the fields of a list; default: as it looks.")
    ] = None
    repeats: Annotated[
        Repeats, typer.Option(help="An edge that stands again: refuse it, sum, or count it once.")
    ] = Repeats.auto
    undirected: Annotated[
        bool, typer.Option("--undirected", help="Drop the directions of arcs.")
    ] = False
    drop_loops: Annotated[
        bool, typer.Option("--drop-loops", help="Leave out edges from a vertex to itself.")
    ] = False

    def read(self, graph: str, *, signed: bool = False) -> NamedGraph:
        """The graph of a file or a name."""
        from condgrad import io

        if self.unweighted and self.weight is not None:
            raise ProblemError("--weight and --unweighted are given: choose one of them")
        return io.read_named_graph(
            graph,
            signed=signed,
            format=self.format,
            weight=None if self.unweighted else self.weight or "weight",
            delimiter=self.delimiter and self.delimiter.replace("\\t", "\t"),
            repeats=self.repeats.value,
            undirected=self.undirected,
            loops="drop" if self.drop_loops else "refuse",
        )
