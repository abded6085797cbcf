"""Matrix completion of generated ratings with W kept as factors, at sizes where W is no array.

Ratings are a matrix of low rank at random places, popular users and items more often, plus noise. A
part of them is held out. One line a recorded iteration; the last ones say what it took: seconds of
the clock and of the processor, the peak of resident memory, the proven gap and the error on what
was held out, beside that of the mean and of the noise alone.

    python benchmarks/large_completion.py --users 70000 --items 10000 --ratings 1e7 --jobs 2

With `--box 1 5` ratings lie between these numbers, their middle is added before they are clipped,
and so must all entries of W.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from condgrad import Problem, Term, functions, maps, start
from condgrad.applications.matrix_completion import constant
from condgrad.backends import threads
from condgrad.domains import NuclearBall
from condgrad.methods import FactoredApg
from condgrad.points import Factored


def positions(rng, users, items, ratings):
    """Distinct places, sorted: users and items are drawn by popularity, which is skewed."""
    shares = [rng.lognormal(0.0, 1.0, side) for side in (users, items)]
    cdf = [np.cumsum(share) / share.sum() for share in shares]
    found = np.zeros(0, np.int64)
    while found.size < ratings:
        count = int(1.1 * (ratings - found.size)) + 100
        i, j = (np.searchsorted(c, rng.random(count)).astype(np.int64) for c in cdf)
        found = np.sort(np.concatenate([found, i * items + j]))
        found = found[np.append(True, found[1:] > found[:-1])]
    keep = np.sort(rng.permutation(found.size)[:ratings])
    return np.divmod(found[keep], items)


def generated(options):
    """Places, ratings and which are held out, and the nuclear norm of what is behind them."""
    rng = np.random.default_rng(options.seed)
    i, j = positions(rng, options.users, options.items, int(options.ratings))
    U = rng.standard_normal((options.users, options.rank))
    V = rng.standard_normal((options.items, options.rank)) / np.sqrt(options.rank)
    if options.box:  # a column more
        U = np.hstack([U, np.ones((options.users, 1))])
        V = np.hstack([V, np.full((options.items, 1), np.mean(options.box))])
    truth = Factored(U, np.ones(U.shape[1]), V)
    values = truth.entries(i, j) + options.noise * rng.standard_normal(i.size)
    if options.box:
        values = np.clip(values, *options.box)
    return i, j, values, rng.random(i.size) < 0.02, float(truth.decomposed().s.sum())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=7000)
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--ratings", type=float, default=3e5)
    parser.add_argument("--rank", type=int, default=10)
    parser.add_argument("--noise", type=float, default=0.5)
    parser.add_argument("--share", type=float, default=0.5, help="radius by the true nuclear norm")
    parser.add_argument("--box", type=float, nargs=2, help="least and greatest entry")
    parser.add_argument("--gap", type=float, default=1e-2)
    parser.add_argument("--seconds", type=float, default=900.0)
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    with threads.using(options.jobs):
        i, j, values, out, norm = generated(options)
    shape, began = (options.users, options.items), time.perf_counter()
    test = i[out], j[out], values[out]
    entries = maps.Entries(i[~out], j[~out], shape)
    term = Term(entries, functions.Squared(values[~out]), weight=2.0, name="fit")
    terms = [term]
    if options.box:
        terms.append(Term(maps.AllEntries(shape), functions.Interval(*options.box), name="box"))
    problem = Problem(NuclearBall(shape, options.share * norm), terms, dtype=options.dtype)
    spread = float(np.sqrt(np.mean((test[2] - values[~out].mean()) ** 2)))
    del i, j, values, out
    print(f"generated: {peak():.2f} GiB at most; radius {problem.domain.radius:.6g}", flush=True)

    def progress(info):
        row = info.trace.last
        if row["k"] == info.k:
            print(
                f"k {info.k:4d}  {info.seconds:7.1f} s  objective {row['objective']:.6g}  "
                f"gap {row['gap']:.2g}  rank {info.point.rank}  RMSE {error(info.point):.4f}"
                + (f"  box missed by {row['box.max']:.2g}" if options.box else ""),
                flush=True,
            )

    def error(W):
        return float(np.sqrt(np.mean((W.entries(*test[:2]) - test[2]) ** 2)))

    spent = time.process_time()
    mean, radius = float(term.function.target.mean()), problem.domain.radius
    run = start(
        problem,
        FactoredApg(),
        start=constant(mean, shape, radius, options.box) if options.box else None,
        gap=options.gap,
        callbacks=[progress],
        n_jobs=options.jobs,
    )
    result = run.advance(seconds=options.seconds).result(factors=True)
    spent = time.process_time() - spent
    print(result)
    print(f"threads {options.jobs}, BLAS 1 in the run, {options.dtype}")
    print(f"with the problem's own making {time.perf_counter() - began:.1f} s")
    size = sum(x.nbytes for x in (result.W.U, result.W.s, result.W.V)) / 2**20
    print(f"processor {spent:.1f} s, peak {peak():.2f} GiB, factors {size:.1f} MiB")
    print(f"infeasibility {result.families}")
    print(f"gap {result.gap:.3g} ({result.bound_kind}, may fail by {result.bound_failure:.1g})")
    print(f"RMSE {error(result.W):.4f}; of the mean {spread:.4f}, of the noise {options.noise:.4f}")
    parts = {name: round(s, 1) for name, s in result.profile.items() if s >= 0.05}
    print(f"profile {parts}")


def peak():
    """The most resident memory so far, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    main()
