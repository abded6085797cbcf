"""Run the jobs of figures in parallel, keep every finished one, go on where it stopped."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from condgrad import _signals
from condgrad._files import replaced, sweep
from condgrad.errors import InputError, ProblemError, cause
from condgrad.experiments.figures import FIGURES, Figure, Instance, Job
from condgrad.methods import METHODS
from condgrad.run.result import Status, Trace

COLUMNS = frozenset({"k", "epochs", "seconds", "objective", "infeasibility"})
"""Columns without which a run cannot be drawn."""
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def plan(
    figures: Sequence[str],
    *,
    presets: Sequence[str] | None = None,
    seeds: int = 3,
    quick: bool = False,
    embedded: bool = False,
    methods: Sequence[str] | None = None,
    dtype: str = "float64",
) -> list[Job]:
    """The jobs of the figures named, the short ones of each figure first.

    Parameters
    ----------
    figures : sequence of str
        Names in `FIGURES`.
    presets : sequence of str, optional
        Default: those of each figure.
    seeds : int, default 3
        Runs per setting, seeds 0, 1, ….
    quick : bool
        Short runs.
    embedded : bool
        Stand-ins that need no data file.
    methods : sequence of str, optional
        Default: those of each figure.
    dtype : str, default "float64"
        Precision of the runs, or ``"float32"``.
    """
    jobs = []
    for name in figures:
        if name not in FIGURES:
            raise ProblemError(f"figure is {name!r}: choose one of {', '.join(FIGURES)} or all")
        figure = FIGURES[name]
        for slug in methods or ():
            if slug not in METHODS:
                raise ProblemError(f"method is {slug!r}: choose one of {', '.join(METHODS)}")
        settings = product(
            [instance.name for instance in (figure.embedded if embedded else figure.instances)],
            [embedded],
            [preset for preset in figure.presets if preset in (presets or figure.presets)],
            methods or figure.methods,
            figure.beta0s or [None],
            range(seeds),
        )
        length = figure.quick if quick else figure.length
        jobs += [Job(name, *setting, figure.unit, length, dtype) for setting in settings]
    return jobs


def instance_of(job: Job) -> tuple[Figure, Instance]:
    """The figure and instance that a job belongs to."""
    figure = FIGURES[job.figure]
    pool = figure.embedded if job.embedded else figure.instances
    return figure, next(i for i in pool if i.name == job.instance)


def run_job(job: Job, folder: Path) -> None:
    """Run one job and store it; a half-written file never bears the final name."""
    _, instance = instance_of(job)
    application = instance.build(job.preset).astype(job.dtype)
    limits = {job.unit: job.length, "seed": job.seed, "certify": False}
    run = application.run(job.method, job.beta0, **limits)
    if run.status is Status.INTERRUPTED:  # a run cut short is not kept
        raise KeyboardInterrupt
    trace = run.result.trace
    own = replace(run, unit=type(run.unit)()).to_json()  # in the units of the paper
    about = {"job": asdict(job), "run": own, "optimum": instance.optimum}
    target = folder / f"{job.key}.npz"
    target.parent.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, Any] = {"about": json.dumps(about), **{c: trace[c] for c in trace}}
    with replaced(target) as file:
        np.savez_compressed(file, **arrays)


def stored(job: Job, folder: Path) -> tuple[dict[str, Any], Trace] | None:
    """Facts and trace that `run_job` stored, or None if it has not run."""
    path = folder / f"{job.key}.npz"
    if not path.exists():
        return None
    try:
        with path.open("rb") as file, np.load(file) as data:
            about = json.loads(str(data["about"]))
            columns = {name: data[name] for name in data.files if name != "about"}
        trace = Trace.of(columns)
        if "beta0" not in about["run"] or not len(trace) or not set(trace) >= COLUMNS:
            raise ValueError("it is not all there")
    except Exception as error:  # zip, zlib, header, text and number errors of many types
        raise InputError(path, f"this is no stored run ({cause(error)})") from None
    return about, trace


def set_aside(jobs: Sequence[Job], folder: Path) -> list[str]:
    """Rename stored runs that are damaged, so that they are made again; a sentence for each."""
    said = []
    for job in jobs:
        try:
            stored(job, folder)
        except InputError as error:
            path = folder / f"{job.key}.npz"
            aside = path.with_name(f"{path.name}.damaged")
            count = itertools.count(2)
            while aside.exists():
                aside = path.with_name(f"{path.name}.damaged-{next(count)}")
            path.rename(aside)
            said.append(f"{error}: it is {aside.name} now, and the run is to be made again")
    return said


def reproduce(jobs: Sequence[Job], folder: Path, workers: int = 2) -> Iterator[tuple[Job, str]]:
    """Run the jobs that are not stored yet; yield each as it ends, with "" or what went wrong.

    Parameters
    ----------
    jobs : sequence of Job
        From `plan`.
    folder : Path
        Where runs are kept.
    workers : int, default 2
        Processes at a time, BLAS on one thread in each.
    """
    for sentence in set_aside(jobs, folder):
        warnings.warn(sentence, stacklevel=2)
    missing = [job for job in jobs if not (folder / f"{job.key}.npz").exists()]
    for job in jobs:
        if job not in missing:
            yield job, ""
    if not missing:
        return
    for place in {(folder / job.key).parent for job in missing}:
        sweep(place)  # of what runs that were killed have left
    for name in THREADS:
        os.environ.setdefault(name, "1")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, end_with, (os.getpid(),)) as pool:
        waiting = {pool.submit(run_job, job, folder): job for job in missing}
        try:
            for done in as_completed(waiting):
                yield waiting[done], _fault(done.exception)
        except (KeyboardInterrupt, GeneratorExit):
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def end_with(parent: int) -> None:
    """Let this process end within about a second of its parent, killed or not, and at a signal."""
    for number in _signals.SIGNALS:
        signal.signal(number, _signals.end)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _fault(exception: Callable[[], BaseException | None]) -> str:
    error = exception()
    return "" if error is None else f"{type(error).__name__}: {error}"
