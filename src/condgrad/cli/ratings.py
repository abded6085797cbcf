"""`condgrad solve matrix-completion`: a recommender, or the problem of the paper."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.console import Console

from condgrad import _progress as progress
from condgrad import _signals
from condgrad._files import replaced
from condgrad._round import counted
from condgrad.cli.options import Preset, RunOptions, grouped
from condgrad.cli.outputs import Output, Outputs
from condgrad.errors import ProblemError

if TYPE_CHECKING:
    from condgrad.applications import Outcome
    from condgrad.applications.recommender import Recommender
    from condgrad.io.ratings import Ratings

PLAIN_ONLY = ("method", "beta0", "batch", "epochs", "feasibility")
"""Options of a run that the recommender does not have."""
MODEL = ("mean", "user_biases", "item_biases", "user_factors", "item_factors")
"""Arrays of a model in a saved run, besides the names of users and items."""


@grouped(
    gap="Stop at this relative gap to the proven bound; default: 1e-2, with --plain 1e-3.",
    iterations="Stop after so many iterations; default: 200, with --plain 5000.",
)
def solve_matrix_completion(
    ratings: Annotated[
        Path, typer.Argument(help="user, item, rating by tab, comma, semicolon or ::")
    ],
    *,
    test: Annotated[Path | None, typer.Option(help="Ratings to predict.")] = None,
    holdout: Annotated[
        float | None, typer.Option(help="… or the share of every user's ratings to predict.")
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="The paper's problem: no biases, a box on all entries.")
    ] = False,
    radius: Annotated[
        float | None,
        typer.Option(
            help="Nuclear-norm bound; default: found. Without --plain in units of the residuals' "
            "root mean square times √(users · items)."
        ),
    ] = None,
    bounds: Annotated[
        tuple[float, float] | None,
        typer.Option(help="LO HI of ratings; default: those of the file."),
    ] = None,
    l1: Annotated[float | None, typer.Option(help="Weight λ of an l1 term, with --plain.")] = None,
    predictions: Annotated[
        Path | None,
        typer.Option(help="Write user, item, rating and prediction of --test or --holdout (.csv)."),
    ] = None,
    options: RunOptions,
    outputs: Outputs,
) -> None:
    """Ratings filled in: mean, biases and factors, or with --plain the problem of the paper.

    --method, --beta0, --batch, --epochs, --feasibility, --preset, --l1: with --plain alone.
    """
    from condgrad.io import read_ratings

    options.check(outputs, [ratings, test], {"--predictions": predictions})
    if test is not None and holdout is not None:
        raise ProblemError("--test and --holdout are given: choose one of them")
    if predictions is not None and (plain or (test is None and holdout is None)):
        raise ProblemError(
            "--predictions: give ratings to predict by --test or --holdout, without --plain"
        )
    if not plain:
        refuse_plain(options, l1)
    train = read_ratings(ratings, repeats="refuse" if plain else "mean")
    held = None if test is None else read_ratings(test, repeats="refuse" if plain else "mean")
    if holdout is not None:
        train, held = split(train, holdout, options.seed)
    if plain:
        how: Any = {"radius": radius, "bounds": bounds, "l1": l1}
        solve_plain(train, held, options, outputs, str(ratings), **how)
    else:
        how = {"radius": radius, "bounds": bounds, "predictions": predictions}
        recommend(train, held, options, outputs, str(ratings), **how)


def refuse_plain(options: RunOptions, l1: float | None) -> None:
    """Refuse what only the problem of the paper has."""
    given = [f"--{name}" for name in PLAIN_ONLY if getattr(options, name) is not None]
    given += ["--l1"] if l1 is not None else []
    given += ["--preset"] if options.preset is not Preset.auto else []
    given += ["--cluster"] if options.cluster is not None else []
    given += ["--device"] if options.device.value == "cuda" else []
    if given:
        raise ProblemError(
            f"{', '.join(given)}: the recommender has no such option; add --plain for the problem "
            "of the paper, or leave it out"
        )


def split(ratings: Ratings, share: float, seed: int) -> tuple[Ratings, Ratings]:
    """Ratings to fit and ratings to predict."""
    from condgrad.applications.ratings import Observed, held_out
    from condgrad.io.ids import Ids
    from condgrad.io.ratings import Ratings

    if not 0 < share < 1:
        raise ProblemError(f"--holdout is {share:g}: it must be between 0 and 1")
    users, items = Ids("user", ratings.users), Ids("item", ratings.items)
    places = users.positions(ratings.users), items.positions(ratings.items)
    observed = Observed(*places, ratings.values, (len(users.names), len(items.names)))
    chosen, size = held_out(observed, share, np.random.default_rng(seed))
    if not size:
        raise ProblemError("--holdout leaves nothing to predict: there are too few ratings")
    parts = [
        Ratings(ratings.users[at], ratings.items[at], ratings.values[at])
        for at in (~chosen, chosen)
    ]
    return parts[0], parts[1]


def solve_plain(
    train: Ratings,
    held: Ratings | None,
    options: RunOptions,
    outputs: Outputs,
    file: str,
    *,
    radius: float | None,
    bounds: tuple[float, float] | None,
    l1: float | None,
) -> None:
    """The problem of the paper."""
    from condgrad.applications import matrix_completion
    from condgrad.io import index_ratings

    data = index_ratings(train, held)
    some = data.test_values is not None and data.test_values.size > 0
    test = (data.test_rows, data.test_cols, data.test_values) if some else None
    application = matrix_completion(
        *(data.rows, data.cols, data.values, data.shape),
        radius=radius,
        bounds=bounds,
        l1=l1,
        test=test,
        preset=options.preset.value,
    )
    if not outputs.quiet and data.dropped:
        note = f"{data.dropped} test ratings dropped: their user or item has no training rating"
        Console(stderr=True).print(note)
    limits = options.limits(max_iter=5000)
    run = options.run(application, "h-sag-v1", limits, outputs.quiet)
    _signals.writing()
    if test is not None:
        low, high = bounds or (data.values.min(), data.values.max())
        W: Any = run.result.W
        own = W.entries(*test[:2]) if hasattr(W, "entries") else W[test[0], test[1]]
        found = np.clip(own, low, high)
        error = float(np.sqrt(np.mean(np.square(found - test[2]))))
        run = with_metrics(run, {"test_rmse_clipped": error})
    more = {"input": file, "model": "plain", "test_dropped": data.dropped}
    outputs.finish(run, None, more, limits=limits)


def with_metrics(run: Outcome, metrics: Mapping[str, float]) -> Outcome:
    """Return the run with further numbers."""
    result = replace(run.result, metrics={**run.result.metrics, **metrics})
    return replace(run, result=result)


def recommend(
    train: Ratings,
    held: Ratings | None,
    options: RunOptions,
    outputs: Outputs,
    file: str,
    *,
    radius: float | None,
    bounds: tuple[float, float] | None,
    predictions: Path | None,
) -> None:
    """Mean, biases and factors."""
    from condgrad.applications import Outcome
    from condgrad.applications.choosing import Settings
    from condgrad.applications.ratings import merged, rmse
    from condgrad.applications.recommender import fit_recommender
    from condgrad.io.ids import Ids
    from condgrad.points.factored import shown

    began = time.perf_counter()
    users, items = Ids("user", train.users), Ids("item", train.items)
    shape = len(users.names), len(items.names)
    places = users.positions(train.users), items.positions(train.items)
    observed = merged(*places, train.values, shape)
    settings = Settings(
        radius="auto" if radius is None else radius,
        max_iter=200 if options.iterations is None else options.iterations,
        tol=1e-2 if options.gap is None else options.gap,
        n_jobs=options.jobs,
        max_seconds=options.seconds,
        convex={"bounds": "auto" if bounds is None else bounds},
    )
    with progress.shown(not outputs.quiet, max_seconds=options.seconds):
        model = fit_recommender(observed, settings, drawn_seed(options.seed))
        _signals.writing()
    seconds = time.perf_counter() - began
    metrics = {"train_rmse": rmse(model.rate(observed.rows, observed.cols), observed.values)}
    unknown = 0
    if held is not None:
        at = users.positions(held.users), items.positions(held.items)
        unknown = int(np.count_nonzero((at[0] < 0) | (at[1] < 0)))
        metrics["test_rmse"] = rmse(model.rate(*at, clipped=False), held.values)
        metrics["test_rmse_clipped"] = rmse(model.rate(*at), held.values)
    found = {"W": shown(model.result.W), "metrics": metrics, "seed": options.seed}
    result = replace(model.result, **found)
    facts = facts_of(model) | {"fit_seconds": seconds, "test_unknown": unknown}
    facts |= {"ratings": observed.values.size, "users": shape[0], "items": shape[1]}
    run = Outcome(
        application="matrix-completion",
        preset="auto",
        slug="recommender",
        beta0=None,
        batch=None,
        result=result,
        settings={"radius": model.radius, "bounds": model.bounds and list(model.bounds)},
    )
    more = {"input": file, "model": "recommender", **facts}
    arrays = {name: getattr(model, name) for name in MODEL}
    arrays |= {"users": users.array, "items": items.array}
    own: list[Output] = []
    if held is not None:
        own = [(predictions, lambda path: write_predictions(path, held, model.rate(*at)))]
    answer = partial(print_model, facts, metrics)
    choice = {"path": facts["path"], "held_out": facts["held_out"]}
    tried = model.choice.chosen
    choice |= {"biases": float(model.choice.biases), "chosen": tried and float(tried.radius)}
    outputs.finish(run, answer, more, own, model=arrays, choice=choice)


def write_predictions(path: Path, held: Ratings, predicted: Any) -> None:
    """Write a table with a row for each rating that was to be predicted."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["user", "item", "rating", "prediction"])
    columns = (held.users, held.items, held.values, predicted)
    writer.writerows(zip(*(column.tolist() for column in columns), strict=True))
    with replaced(path) as file:
        file.write(text.getvalue().encode("utf-8", "surrogateescape"))


def drawn_seed(seed: int) -> int:
    """The seed that `MatrixCompletion(random_state=seed)` draws: the same ratings are held out."""
    return int(np.random.RandomState(seed % 2**32).randint(2**31 - 1))


def facts_of(model: Recommender) -> dict[str, Any]:
    """Settings that were chosen, and their result."""
    from condgrad.run.result import Status

    choice, tried = model.choice, model.choice.chosen
    if model.result.status is Status.INTERRUPTED:
        tried = None  # no fit was tried that is this model
    return {
        "rank": model.user_factors.shape[1],
        "sweeps": model.sweeps,
        "held_out": choice.held_out,
        "validation_rmse": None if tried is None else tried.errors[model.sweeps],
        "validation_rmse_biases": None if tried is None else choice.biases,
        "path": choice.table().tolist(),
    }


def print_model(facts: Mapping[str, Any], metrics: Mapping[str, float], console: Console) -> None:
    """The model in sentences."""
    console = Console(file=console.file, highlight=False, soft_wrap=True)
    console.print(
        f"{counted(facts['ratings'], 'rating')} of {counted(facts['items'], 'item')} by "
        f"{counted(facts['users'], 'user')}: mean, biases and {counted(facts['rank'], 'factor')}, "
        f"in {facts['fit_seconds']:.3g} s. Objective, "
        "bound and gap are those of the convex fit that the factors start from."
    )
    if facts["validation_rmse"] is not None:
        console.print(
            f"Chosen on {counted(facts['held_out'], 'rating')} held out: RMSE "
            f"{facts['validation_rmse']:.4f}; biases alone {facts['validation_rmse_biases']:.4f}."
        )
    if "test_rmse" in metrics:
        console.print(
            f"Test RMSE {metrics['test_rmse_clipped']:.4f} clipped to the range of ratings, "
            f"{metrics['test_rmse']:.4f} without clipping"
            + (
                f"; {facts['test_unknown']} of an unknown user or item."
                if facts["test_unknown"]
                else "."
            )
        )
