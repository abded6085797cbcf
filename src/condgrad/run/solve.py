"""`start` and `solve`: a run is made, advanced, and its result returned."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any

from condgrad import _progress as progress
from condgrad._deadline import limited
from condgrad._types import Array
from condgrad.cluster import Ray, cluster_of, require_large
from condgrad.errors import ProblemError
from condgrad.methods.choice import choose
from condgrad.methods.protocol import Method
from condgrad.methods.register import check
from condgrad.points.factored import Factored
from condgrad.problem import Problem
from condgrad.run.callbacks import Callback
from condgrad.run.journal import EVERY, KEPT, checkpoints, fresh_seed, solved
from condgrad.run.limits import Goal, Limits
from condgrad.run.loop import TOWARDS, Asked, Run
from condgrad.run.result import Result

OF_THE_CALL = ("max_iter", "max_epochs", "max_seconds", "max_lmo", "verbose", *KEPT)
"""Options of `solve` that are not those of its run."""


def start(
    problem: Problem,
    method: Method | None = None,
    *,
    start: Array | Factored | None = None,
    gap: float | None = None,
    feasibility: float | None = None,
    row_feasibility: float | None = None,
    certify: bool = True,
    record: int | None = None,
    metrics: Mapping[str, Callable[[Array], float]] | None = None,
    callbacks: Sequence[Callback] = (),
    propose: Callable[[Array], Array | None] | None = None,
    floor: float | None = None,
    errors: bool = False,
    duals: bool = False,
    seed: int | None = 0,
    n_jobs: int | None = None,
    device: str = "cpu",
    cluster: str | Ray | None = None,
) -> Run:
    """A run that has not begun; `condgrad.solve` has the parameters.

    Returns
    -------
    Run
        ``run.advance(seconds=60)`` advances it, ``run.result()`` is its result at any time, and
        ``for info in run:`` goes one iteration at a time. Memory is asked for here.
    """
    return Run(asked(**locals()))


def asked(
    problem: Problem,
    method: Method | None = None,
    *,
    gap: float | None = None,
    feasibility: float | None = None,
    row_feasibility: float | None = None,
    **options: Any,
) -> Asked:
    """Run that the options of `start` ask for, checked."""
    if options["seed"] is None:
        options["seed"] = fresh_seed()
    options["metrics"] = options["metrics"] or {}
    wish = options["cluster"] = cluster_of(options["cluster"])
    if wish is not None and options["device"] == "auto":
        raise ProblemError(
            "device is 'auto' and cluster is given: leave device out, or use 'cuda' for what stays "
            "here; with Ray(gpus_per_shard=1) the shards are on GPUs"
        )
    if method is None and isinstance(problem, Problem):
        dense = options["device"] == "cuda" or options["propose"] is not None or options["errors"]
        dense = dense or (options["duals"] and problem.composite)
        method = choose(problem, factors=not dense)
    check(problem, method)
    assert method is not None
    if wish is not None:
        if method.factors:
            raise ProblemError(
                "cluster is given, but W is kept as factors here, whose rows are not dealt: leave "
                "cluster out, or name a method"
            )
        require_large(problem)
    return Asked(problem, method, Goal(gap, feasibility, row_feasibility), **options)


@limited
def solve(
    problem: Problem,
    method: Method | None = None,
    *,
    start: Array | Factored | None = None,
    max_iter: int | None = None,
    max_epochs: float | None = None,
    max_seconds: float | None = None,
    max_lmo: int | None = None,
    gap: float | None = None,
    feasibility: float | None = None,
    row_feasibility: float | None = None,
    certify: bool = True,
    record: int | None = None,
    metrics: Mapping[str, Callable[[Array], float]] | None = None,
    callbacks: Sequence[Callback] = (),
    propose: Callable[[Array], Array | None] | None = None,
    floor: float | None = None,
    errors: bool = False,
    duals: bool = False,
    seed: int | None = 0,
    n_jobs: int | None = None,
    device: str = "cpu",
    cluster: str | Ray | None = None,
    checkpoint: str | PathLike[str] | None = None,
    every: float = EVERY,
    resume: str | PathLike[str] | bool | None = None,
    verbose: bool | int = False,
) -> Result:
    """Run a method on a problem until it has converged, or a limit or the keyboard ends it.

    Parameters
    ----------
    problem : Problem
        The sum of terms to minimise, and its domain.
    method : Method, optional
        The algorithm, for example ``condgrad.h_sag_v2(beta0=1.0, batch=0.05)``. The default
        (`condgrad.methods.choose`) finds its own β0: `condgrad.spdhg` for many inequalities over a
        spectrahedron; `condgrad.apg`, `condgrad.rpdhg` or `condgrad.pdhg` over sets with a
        projection; `condgrad.pfw` for a smooth f alone over a set with an oracle only;
        `condgrad.sag_cgal` else. `Result.method` has its name.
        Over a `NuclearBall` with smooth terms on `Entries` alone, scaled or not, W is kept as
        factors (docs/large.md). Accelerated projected gradients move them, and no array has the
        shape of W. Above four million entries an interval on all entries is possible as well, and
        so are separable constraints and regularisers on given ones. A GPU, `propose`, `errors`,
        `duals` of such terms, or another term that reads all entries make W an array.
    start : array or Factored, optional
        The first point W_1 of the domain; default: the domain's centre. Factors are possible only
        if W is kept as factors.
    max_iter, max_epochs, max_seconds, max_lmo : number, optional
        Limits on iterations, on epochs (passes over the composite rows), on time and on oracle
        calls. The first one reached ends the run. Without any, the limit is 1000 iterations, or
        100,000 if a gap is asked for. `max_seconds` counts everything, compiling and the last
        certificate included. Iterations end at the limit. What makes an answer of them may take a
        fifth of it and half a second more; nothing that has begun is broken off. If a certificate
        would take longer the last good bound stands.
    gap, feasibility : float, optional
        Tolerances for the status ``CONVERGED``; if one is given the other is 1e-3. The gap
        |objective − bound| / max(|objective|, |bound|), the bound being proved, is at most `gap`.
        Every constraint family has ‖z − proj z‖₂ / (1 + max(‖z‖₂, ‖b‖₂)) at most `feasibility`,
        with the 1 and without it (`Violation.scaled`). The objective plus Σ ω |y_l| |r_l| is within
        `gap` of the bound as well: this sum is the price of the violation r by the multipliers y.
    row_feasibility : float, optional
        Tolerance for single rows: the violation of a row is at most this share of its limit |b_l|.
        If that is 0 or small, the share is of what a row of its length reads (`Violation.row`).
        Default: ten times `feasibility`. The norm of a family of many rows would hide one of them.
    certify : bool, default True
        Prove a lower bound on the optimum, ten times per decade of iterations and at the end. Its
        time does not count, unless a gap is asked for or the method measures the same to find β.
        The iterates do not depend on it.
    record : int, optional
        Rows of the trace per decade of iterations; the first and the last are always recorded.
        Default: 30, or the iterations with a bound if a gap is asked for.
    metrics : mapping of str to callable, optional
        More numbers to record, each a function of W.
    callbacks : sequence of callables, optional
        Functions called with an `Info` after every iteration; a `Status` or True stops the run.
    propose : callable, optional
        A function that gives a point of the domain for an iterate W, such as a rounded solution,
        or None. It is called after each bound if a gap is asked for. The best point may be one of
        those.
    floor : float, optional
        A lower bound on the optimum that is known beforehand, such as 0 for a sum of distances.
    errors : bool, default False
        Record ``NAME.error``, the error of each estimate of slopes that is kept row by row (SAG,
        Full). It costs a pass over their rows at each recorded iteration, off the clock, and a copy
        of W. The run itself stays the same.
    duals : bool, default False
        Keep the multipliers behind the bound in ``Result.duals``; they take as many numbers as
        there are rows.
    seed : int or None, default 0
        The same seed on the same machine with the same number of threads gives the same run bit
        for bit; None draws a new one.
    n_jobs : int, optional
        Threads for the kernels that can use several; −1: all cores. Default: all cores, or
        OMP_NUM_THREADS of them if that is set. BLAS gets one thread.
    device : {"cpu", "cuda", "auto"}
        Where W and tables are kept, and rows are read. ``"cuda"`` requires a GPU, with CuPy, and
        maps, functions and domains that can be there (docs/gpu.md). ``"auto"`` uses a GPU if there
        is one, the problem can be on it and is large: at least five million rows, or a matrix or
        block of side 500. Arrays given to and returned from the run are NumPy's. The same seed
        gives the same bits on one GPU, but not those of the CPU.
    cluster : str or condgrad.cluster.Ray, optional
        Deal the rows of terms that have more of them than W has entries to the actors of a Ray
        cluster (docs/cluster.md): ``"ray"`` or ``"local"`` for this machine, an address, or
        ``Ray(shards=…, gpus_per_shard=…)``. One shard gives the bits of a run without, several
        those of the same sums in another order.
    checkpoint : path, optional
        Write all of the run's state to this file about every `every` seconds and at its end, from
        which `resume` goes on (docs/checkpoints.md).
    every : float, default 60
        Seconds between two checkpoints.
    resume : path or bool, optional
        Go on from this checkpoint of the same problem, method and options, as if the run had never
        stopped; True: from `checkpoint` if that file is there. Limits on iterations, epochs and
        oracle calls count from the run's beginning, `max_seconds` from now. Checkpoints go on to be
        written to the file, or to `checkpoint`.
    verbose : bool or int, default False
        True: show the work with objective, bound and gap, by a bar in a terminal or a notebook, and
        nothing elsewhere. 2: plain lines on standard error instead. The run is the same.

    Returns
    -------
    Result
        The best point, an honest status and the trace, whatever ended the run. The point is an
        array, or a `condgrad.points.Factored` if W was kept as factors and has more than four
        million entries; ``np.asarray`` makes an array of it. Callbacks and metrics see the same.

    Raises
    ------
    ProblemError
        If the input cannot work, the run will not fit into the free memory, or parts of your own
        do not belong together (they are tried at random arguments). Its sentence has a remedy.
    """
    options = {name: value for name, value in locals().items() if name not in OF_THE_CALL}
    wanted = any(t is not None for t in (gap, feasibility, row_feasibility))
    if wanted and max_iter is max_epochs is max_seconds is max_lmo is None:
        max_iter = TOWARDS
    limits = Limits(max_iter, max_epochs, max_seconds, max_lmo)
    bar = {"max_iter": max_iter, "max_epochs": max_epochs, "max_seconds": max_seconds}
    with progress.shown(verbose, **bar), checkpoints(checkpoint, every, resume):
        progress.doing("preparing the run")
        return solved(asked(**options), limits)
