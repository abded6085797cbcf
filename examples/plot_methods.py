"""Four methods on one problem: the sparsest cut relaxation of the karate club, β0 = 10 for each."""

import sys

from condgrad import METHODS
from condgrad.applications import sparsest_cut
from condgrad.io import read_graph
from condgrad.plot import convergence

path = sys.argv[1] if len(sys.argv) > 1 else "methods.svg"
epochs = float(sys.argv[2]) if len(sys.argv) > 2 else 300.0
application = sparsest_cut(read_graph("karate_club"), "paper")
traces = {
    METHODS[slug].name: application.run(slug, beta0=10.0, max_epochs=epochs).result.trace
    for slug in ("h-sag-v2", "h-spider-fw", "h-1sfw", "shcgm")
}
title = "sparsest cut of the karate club (17,952 triangles), β0 = 10"
convergence(traces, path, x="epochs", title=title)
