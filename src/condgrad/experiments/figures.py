"""The figures: one declaration each, and the parts that they are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from condgrad import datasets
from condgrad.applications import Application, kmeans, matrix_completion, sparsest_cut
from condgrad.io import IndexedRatings


@dataclass(frozen=True)
class Instance:
    """A problem of a figure: how to build it, and what is known about it."""

    name: str
    build: Callable[[str], Application]
    """preset ↦ application."""
    optimum: float | None = None
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Published end values by method and column of the trace."""
    curves: str | None = None
    """Published curves: file in the folder `paper-curves` of the data."""
    at: float | None = None
    """Position of the instance on a path of instances, such as its radius."""


@dataclass(frozen=True)
class Figure:
    """A figure of the paper, or one beyond it."""

    name: str
    title: str
    instances: tuple[Instance, ...]
    embedded: tuple[Instance, ...]
    """Instances that need no data file."""
    methods: tuple[str, ...]
    """Methods of the paper's figure."""
    columns: tuple[str, ...]
    """Columns of the trace that are drawn."""
    unit: str
    """Limit that ends a run, ``"max_epochs"`` or ``"max_iter"``."""
    length: float
    quick: float
    presets: tuple[str, ...] = ("paper", "published")
    beta0s: tuple[float, ...] = ()
    """A grid of β0 that every method gets; empty: the preset's value."""
    along: str = ""
    """Meaning of `Instance.at`, if the instances form a path."""


@dataclass(frozen=True)
class Job:
    """One run: everything that decides it, and nothing else."""

    figure: str
    instance: str
    embedded: bool
    preset: str
    method: str
    beta0: float | None
    seed: int
    unit: str
    length: float
    dtype: str = "float64"

    @property
    def key(self) -> str:
        """Path of the stored run, without ending."""
        beta0 = "" if self.beta0 is None else f"-beta0_{self.beta0:g}"
        dtype = "" if self.dtype == "float64" else f"-{self.dtype}"
        return (
            f"{self.figure}/{self.instance}/{self.preset}/{self.method}{beta0}{dtype}"
            f"-{self.unit}_{self.length:g}-seed_{self.seed}"
        )


NINE = (
    *("h-sag-v2", "shcgm", "h-1sfw", "h-spider-fw"),
    *("h-sag-v1", "hcgm", "cgal", "most-fw", "most-fw-plus"),
)
"""The rows of Table 1, those of the paper's SDP figures first."""


def cut(name: str, preset: str) -> Application:
    """Sparsest cut of a data set."""
    return sparsest_cut(datasets.load(name), preset)


def clusters(name: str, preset: str) -> Application:
    """k-means of a data set into ten clusters."""
    return kmeans(datasets.load(name).distances, 10, preset)


def completion(
    name: str, preset: str, *, l1: float | None = None, radius: float | None = None
) -> Application:
    """Matrix completion of a data set, with the box or with l1."""
    data: IndexedRatings = datasets.load(name)
    assert data.test_rows is not None
    assert data.test_cols is not None
    assert data.test_values is not None
    return matrix_completion(
        *(data.rows, data.cols, data.values, data.shape),
        l1=l1,
        radius=radius,
        test=(data.test_rows, data.test_cols, data.test_values),
        preset=preset,
    )


def graph(n: int, name: str, published: Mapping[str, tuple[float, float]]) -> Instance:
    """One of the paper's graphs with the end points its authors published."""
    ends = {m: {"objective": o, "infeasibility": i} for m, (o, i) in published.items()}
    return Instance(
        f"n{n}",
        partial(cut, f"graph/{name}"),
        datasets.optimum(f"graph/{name}"),
        ends,
        f"sparsest-cut_{name}.npz",
    )


FIG3_CUT = Figure(
    name="fig3-sparsest-cut",
    title="Uniform sparsest cut",
    instances=(
        graph(
            25,
            "mammalia-primate-association-13",
            {
                "h-sag-v2": (105.0263, 14.37),
                "h-spider-fw": (110.5839, 0.295),
                "h-1sfw": (135.1780, 0.08419),
                "shcgm": (164.2568, 4.034),
            },
        ),
        graph(
            55,
            "insecta-ant-colony1-day37",
            {
                "h-sag-v2": (308.3351, 9.002),
                "h-spider-fw": (328.1106, 0.2884),
                "h-1sfw": (356.1468, 0.2306),
                "shcgm": (1011.2875, 11.05),
            },
        ),
        graph(
            102,
            "insecta-ant-colony4-day10",
            {
                "h-sag-v2": (669.9970, 7.108),
                "h-spider-fw": (747.0917, 0.3914),
                "h-1sfw": (759.0488, 0.3267),
                "shcgm": (3389.6158, 30.13),
            },
        ),
    ),
    embedded=(Instance("karate", partial(cut, "embedded/karate")),),
    methods=NINE,
    columns=("suboptimality", "infeasibility"),
    unit="max_epochs",
    length=1000,
    quick=60,
)

FIG3_KMEANS = Figure(
    name="fig3-kmeans",
    title="k-means clustering",
    instances=(
        Instance(
            "n250", partial(clusters, "kmeans/mnist-250"), datasets.optimum("kmeans/mnist-250")
        ),
        Instance(
            "n1000", partial(clusters, "kmeans/mnist-1000"), datasets.optimum("kmeans/mnist-1000")
        ),
    ),
    embedded=(Instance("digits100", partial(clusters, "embedded/digits-100")),),
    methods=NINE[:4],
    columns=("suboptimality", "infeasibility"),
    unit="max_epochs",
    length=1000,
    quick=10,
)

MOVIELENS = {
    "h-sag-v1": {"train_rmse": 0.2711, "test_rmse": 1.0454, "infeasibility": 4.17},
    "shcgm": {"train_rmse": 0.5316, "test_rmse": 1.1388, "infeasibility": 3.90},
}
RMSE = ("train_rmse", "test_rmse")

FIG1 = Figure(
    name="fig1",
    title="Matrix completion with box constraints",
    instances=(
        Instance(
            "movielens",
            partial(completion, "movielens-100k"),
            published=MOVIELENS,
            curves="matrix-completion_movielens-100k.npz",
        ),
    ),
    embedded=(Instance("ratings", partial(completion, "embedded/ratings")),),
    methods=("h-sag-v1", "shcgm"),
    columns=(*RMSE, "infeasibility"),
    unit="max_iter",
    length=10_000,
    quick=300,
    presets=("paper",),
)

FIG1_GRID = replace(
    FIG1,
    name="fig1-grid",
    title="Matrix completion with box constraints, one grid of β0 for every method",
    quick=100,
    beta0s=(0.01, 0.1, 1.0, 10.0, 100.0, 1000.0),
)

FIG1_RADIUS = replace(
    FIG1,
    name="fig1-radius",
    title="Matrix completion with box constraints along a path of radii",
    instances=tuple(
        Instance(f"radius{r}", partial(completion, "movielens-100k", radius=r), at=r)
        for r in (4500, 4700, 5000, 5500, 6000, 7000, 8000, 10000)
    ),
    embedded=tuple(
        Instance(f"radius{r}", partial(completion, "embedded/ratings", radius=r), at=r)
        for r in (320, 360, 400, 480)
    ),
    methods=("h-sag-v1",),
    quick=100,
    beta0s=(100.0,),
    along="radius of the nuclear-norm ball",
)

FIG2 = replace(
    FIG1,
    name="fig2",
    title="Matrix completion with an l1 term",
    instances=(Instance("movielens", partial(completion, "movielens-100k", l1=0.1)),),
    embedded=(Instance("ratings", partial(completion, "embedded/ratings", l1=0.1)),),
    columns=RMSE,
    length=100_000,
)

FIGURES: dict[str, Figure] = {
    figure.name: figure for figure in (FIG1, FIG1_GRID, FIG1_RADIUS, FIG2, FIG3_KMEANS, FIG3_CUT)
}
"""Every figure by its name on the command line."""
