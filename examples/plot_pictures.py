"""The pictures of docs/pictures.md: a cut, how its run converged, and an answer without a run."""

import sys
from pathlib import Path

from condgrad.applications import max_cut, sparsest_cut
from condgrad.io import read_graph
from condgrad.plot import sheet
from condgrad.record import Record

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
graph = read_graph("karate_club")
sparsest = Record.of(sparsest_cut(graph).run(gap=1e-3), adjacency=graph)
sheet(sparsest, folder / "karate-cut.svg", only="cut")
sheet(sparsest, folder / "karate-convergence.svg", only="convergence")
largest = Record.of(max_cut(graph, warm=1e-3).run(gap=1e-3), adjacency=graph)
sheet(largest, folder / "karate-answer.svg", only="answer")
