"""Commands for partitions and theta functions of graphs, by the calls of Python."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console

from condgrad.cli.inputs import GraphFile, GraphInput
from condgrad.cli.options import RunOptions, grouped
from condgrad.cli.outputs import Outputs
from condgrad.errors import ProblemError

OTHERS = (
    "method",
    "beta0",
    "batch",
    "epochs",
    "iterations",
    "feasibility",
    "preset",
    "cluster",
    "shards",
)
"""Options that these calls do not have."""
Triangles = Annotated[
    bool | None,
    typer.Option(
        "--triangles/--no-triangles",
        help="Add all triangle inequalities: a better bound, slower; default: where it is needed.",
    ),
]


@grouped(*OTHERS)
def solve_bisection(
    graph: GraphFile,
    *,
    sizes: Annotated[
        str | None, typer.Option(help="Sizes of both parts, as 10,24; default: half of each.")
    ] = None,
    triangles: Triangles = None,
    given: GraphInput,
    options: RunOptions,
    outputs: Outputs,
) -> None:
    """Two parts of equal size, or of given sizes, with the least weight between them."""
    from condgrad.partitions import bisection

    pair = None if sizes is None else _sizes("--sizes", sizes)
    _solve(partial(bisection, sizes=pair, triangles=triangles), graph, given, options, outputs)


@grouped(*OTHERS)
def solve_k_section(
    graph: GraphFile,
    *,
    parts: Annotated[
        str, typer.Option("--parts", "-k", help="How many parts, or their sizes, as 10,12,12.")
    ],
    triangles: Triangles = None,
    given: GraphInput,
    options: RunOptions,
    outputs: Outputs,
) -> None:
    """Parts of equal size, or of given sizes, with the least weight between them."""
    from condgrad.partitions import k_section

    sizes = _sizes("--parts", parts)
    count = sizes[0] if len(sizes) == 1 else sizes
    _solve(partial(k_section, parts=count, triangles=triangles), graph, given, options, outputs)


@grouped(*OTHERS)
def solve_correlation_clustering(
    graph: GraphFile,
    *,
    triangles: Triangles = None,
    given: GraphInput,
    options: RunOptions,
    outputs: Outputs,
) -> None:
    """Clusters of a graph with weights of both signs that contradict the least weight."""
    from condgrad.partitions import correlation_clustering

    _solve(partial(correlation_clustering, triangles=triangles), graph, given, options, outputs)


@grouped(*OTHERS)
def solve_theta(
    graph: GraphFile,
    *,
    plus: Annotated[bool, typer.Option("--plus", help="θ⁺, a tighter bound.")] = False,
    given: GraphInput,
    options: RunOptions,
    outputs: Outputs,
) -> None:
    """The theta function of Lovász: no independent set is larger."""
    from condgrad.lovasz import theta

    _solve(partial(theta, plus=plus), graph, given, options, outputs)


def _sizes(option: str, text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ProblemError(f"{option} is {text!r}: give whole numbers, as 10,24") from None


def _solve(
    door: Callable[..., Any],
    graph: str,
    given: GraphInput,
    options: RunOptions,
    outputs: Outputs,
) -> None:
    """Read a graph, call `door`, print and write what it returns."""
    from condgrad.applications.answers import outcome_of

    outputs.check([graph], options.written)
    read = given.read(graph, signed=True)
    limits: dict[str, Any] = {"max_seconds": options.seconds}
    limits |= {} if options.gap is None else {"gap": options.gap}
    how = {"seed": options.seed, "n_jobs": options.jobs, "device": options.device.value}
    named = read._replace(names=read.names or tuple(range(1, read.adjacency.shape[0] + 1)))
    found = door(named, **limits, **how, verbose=not outputs.quiet)

    def answer(console: Console) -> None:
        console.print(str(found), soft_wrap=True, highlight=False, markup=False)

    names = read.names or [str(i + 1) for i in range(read.adjacency.shape[0])]
    more: dict[str, Any] = {"input": graph}
    data: dict[str, Any] = {"adjacency": read.adjacency, "limits": limits}
    if (own := getattr(found, "labels", None)) is not None:
        members = [(int(label), name) for label, name in zip(own, names, strict=True)]
        count = max(label for label, _ in members) + 1
        more["parts"] = [[name for at, name in members if at == j] for j in range(count)]
        data["names"] = names
    if (own := getattr(found, "independent_set", None)) is not None:
        more["independent_set"] = list(own)
    outputs.finish(outcome_of(found), answer, more, **data)
