"""Recommenders on the same ratings: test RMSE and seconds, the table of docs/recommenders.md.

    python benchmarks/recommenders.py [ua ub synthetic …] [--surprise PYTHON] [--seed 0]

`ua` and `ub` are the splits of MovieLens-100k in the folder named by CONDGRAD_DATA; `synthetic`
has 5000 users, 1000 items and 200,000 training ratings: biases, rank 8 and noise of 0.5. `large`
(20,000 users, 5000 items, a million ratings) and `larger` (70,000, 10,000, ten million) are
generated too, in half stars, with popular items and others; ask for condgrad only there (`--only
condgrad`), and read the peak of the memory below the table. Every model chooses its settings on the
training part only, those that hold ratings out on the same ones:

* biases: mean and damped biases, the damping chosen out of seven;
* ALS: alternating least squares with biases, rank, ridge and sweeps chosen out of 12 pairs and 25;
* Surprise: SVD of scikit-surprise, as it comes and with the best of six settings, by the Python
  given, which must have it;
* condgrad: `MatrixCompletion` as it comes.

Predictions are clipped to the range of the ratings. Seconds are those of the processor, choices
included, on one core, after one fit that compiles.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402

RANKS, RIDGES, SWEEPS = (8, 16), (1.0, 2.0, 4.0, 7.0, 10.0, 15.0), 25
LARGE = {"large": (20_000, 5_000, 1_000_000), "larger": (70_000, 10_000, 10_000_000)}
DAMPINGS = (1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0)


def load(name: str, seed: int) -> tuple[list, tuple[int, int]]:
    """(users, items, ratings) to fit and to predict, and the shape."""
    if name == "synthetic":
        return synthetic(seed)
    if name in LARGE:
        return popular(*LARGE[name], seed)
    folder = Path(os.environ["CONDGRAD_DATA"]) / "movielens-100k"
    parts = []
    for part in ("base", "test"):
        table = np.loadtxt(folder / f"{name}.{part}", dtype=int)
        parts.append((table[:, 0] - 1, table[:, 1] - 1, table[:, 2].astype(float)))
    return parts, (943, 1682)


def synthetic(seed: int) -> tuple[list, tuple[int, int]]:
    """Ratings with biases, low rank and noise."""
    rng = np.random.default_rng(seed)
    users, items, size, rank = 5000, 1000, 250_000, 8
    P, Q = rng.normal(size=(users, rank)), rng.normal(size=(items, rank))
    b, c = 0.4 * rng.normal(size=users), 0.4 * rng.normal(size=items)
    i, j = np.divmod(rng.choice(users * items, size, replace=False), items)
    y = 3.5 + b[i] + c[j] + 0.25 * np.sum(P[i] * Q[j], axis=1) + 0.5 * rng.normal(size=size)
    cut = size * 4 // 5
    return [(i[:cut], j[:cut], y[:cut]), (i[cut:], j[cut:], y[cut:])], (users, items)


def popular(users: int, items: int, size: int, seed: int) -> tuple[list, tuple[int, int]]:
    """Half stars with biases, rank 10 and noise of 0.6; some items have most of the ratings."""
    rng = np.random.default_rng(seed)
    shares = 1 / (10 + np.arange(items)) ** 0.8
    more = int(1.1 * size)
    drawn = rng.integers(0, users, more), rng.choice(items, more, p=shares / shares.sum())
    flat = np.unique(drawn[0] * items + drawn[1])
    i, j = np.divmod(flat[np.sort(rng.permutation(flat.size)[:size])], items)
    P, Q = (rng.normal(size=(side, 10)).astype(np.float32) for side in (users, items))
    y = 3.5 + 0.4 * rng.normal(size=users)[i] + 0.4 * rng.normal(size=items)[j]
    y += 0.2 * np.einsum("ij,ij->i", P[i], Q[j]) + 0.6 * rng.normal(size=i.size)
    y, test = np.clip(np.round(2 * y) / 2, 0.5, 5), rng.random(i.size) < 0.1
    return [(i[at], j[at], y[at]) for at in (~test, test)], (users, items)


class Biases:
    """Mean and damped biases."""

    def __init__(self, part, shape, damping, sweeps=30):
        (i, j, y), (users, items) = part, shape
        self.mean, self.b, self.c = y.mean(), np.zeros(users), np.zeros(items)
        for _ in range(sweeps):
            rest = y - self.mean - self.b[i]
            self.c = np.bincount(j, rest, items) / (np.bincount(j, minlength=items) + damping)
            rest = y - self.mean - self.c[j]
            self.b = np.bincount(i, rest, users) / (np.bincount(i, minlength=users) + damping)

    def __call__(self, i, j):
        return self.mean + self.b[i] + self.c[j]


class ALS:
    """Alternating least squares: factors and biases of users, then of items, by ridges."""

    def __init__(self, part, shape, rank, ridge):
        (self.i, self.j, y), rng = part, np.random.default_rng(0)
        self.mean, self.ridge = y.mean(), ridge
        self.y = y - self.mean
        start = Biases(part, shape, 5.0)
        self.P = np.column_stack([0.1 * rng.normal(size=(shape[0], rank)), start.b])
        self.Q = np.column_stack([0.1 * rng.normal(size=(shape[1], rank)), start.c])
        self.mine = [np.argsort(at, kind="stable") for at in (self.i, self.j)]
        self.ends = [
            np.concatenate([[0], np.cumsum(np.bincount(at, minlength=side))])
            for at, side in zip((self.i, self.j), shape, strict=True)
        ]

    def sweep(self):
        self._half(0, self.P, self.Q, self.j)
        self._half(1, self.Q, self.P, self.i)

    def _half(self, side, own, other, partner):
        order, ends = self.mine[side], self.ends[side]
        at, y = partner[order], self.y[order]
        ridge = self.ridge * np.eye(own.shape[1])
        for row in range(own.shape[0]):
            one = slice(ends[row], ends[row + 1])
            if ends[row] == ends[row + 1]:
                continue
            A = other[at[one]]
            target = y[one] - A[:, -1]
            A[:, -1] = 1.0
            own[row] = np.linalg.solve(A.T @ A + ridge, A.T @ target)

    def __call__(self, i, j):
        p, q = self.P[i], self.Q[j]
        return self.mean + p[:, -1] + q[:, -1] + np.sum(p[:, :-1] * q[:, :-1], axis=1)


def rmse(model, part, bounds):
    return float(np.sqrt(np.mean((np.clip(model(*part[:2]), *bounds) - part[2]) ** 2)))


def halves(train, shape, seed):
    """The training part without, and the ratings held out, as `MatrixCompletion` draws them."""
    from sklearn.utils import check_random_state

    from condgrad.applications.ratings import Observed, held_out

    rng = np.random.default_rng(int(check_random_state(seed).randint(2**31 - 1)))
    order = np.lexsort((train[1], train[0]))  # the order of its ratings
    train = tuple(x[order] for x in train)
    chosen, _ = held_out(Observed(*train, shape), 0.1, rng)
    return tuple(x[~chosen] for x in train), tuple(x[chosen] for x in train)


def fit_biases(train, shape, bounds, seed):
    part, valid = halves(train, shape, seed)
    best = min(DAMPINGS, key=lambda d: rmse(Biases(part, shape, d), valid, bounds))
    return Biases(train, shape, best), f"damping {best:g}"


def fit_als(train, shape, bounds, seed):
    part, valid = halves(train, shape, seed)
    best = (np.inf,)
    for rank in RANKS:
        for ridge in RIDGES:
            model = ALS(part, shape, rank, ridge)
            for sweeps in range(1, SWEEPS + 1):
                model.sweep()
                best = min(best, (rmse(model, valid, bounds), rank, ridge, sweeps))
    _, rank, ridge, sweeps = best
    began, model = time.process_time(), ALS(train, shape, rank, ridge)
    for _ in range(sweeps):
        model.sweep()
    last = time.process_time() - began
    return model, f"rank {rank}, ridge {ridge:g}, {sweeps} sweeps; {last:.1f} s without choosing"


def fit_condgrad(train, shape, bounds, seed):
    from condgrad.sklearn import MatrixCompletion

    model = MatrixCompletion(random_state=seed, n_jobs=1)
    model.fit(np.column_stack(train[:2]), train[2])
    chosen = f"rank {model.user_factors_.shape[1]}, {model.n_sweeps_} sweeps, gap {model.gap_:.1e}"
    return lambda i, j: model.predict(np.column_stack([i, j])), chosen


SURPRISE = """
import sys, time, json, numpy as np, pandas as pd
from surprise import SVD, Dataset, Reader
data = np.load(sys.argv[1])
part, valid, train, test = (data[k] for k in ("part", "valid", "train", "test"))
low, high = train[:, 2].min(), train[:, 2].max()
def fit(rows, **how):
    u, i = rows[:, :2].astype(int).T
    frame = pd.DataFrame({"u": u, "i": i, "r": rows[:, 2]})
    full = Dataset.load_from_df(frame, Reader(rating_scale=(low, high))).build_full_trainset()
    return SVD(random_state=0, **how).fit(full)
def rmse(model, rows):
    found = [model.predict(int(u), int(i)).est for u, i, _ in rows]
    return float(np.sqrt(np.mean((np.array(found) - rows[:, 2]) ** 2)))
out = {}
began = time.process_time()
out["as it comes"] = [rmse(fit(train), test), time.process_time() - began, "100 factors"]
began = time.process_time()
grid = [dict(n_factors=k, reg_all=r, n_epochs=e)
        for k in (20, 100) for r, e in ((0.05, 40), (0.1, 60), (0.15, 80))]
best = min(grid, key=lambda how: rmse(fit(part, **how), valid))
out["chosen"] = [rmse(fit(train, **best), test), time.process_time() - began, str(best)]
print(json.dumps(out))
"""


def surprise(python, train, test, shape, seed):
    part, valid = halves(train, shape, seed)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ratings.npz"
        tables = {"part": part, "valid": valid, "train": train, "test": test}
        np.savez(file, **{name: np.column_stack(x) for name, x in tables.items()})
        done = subprocess.run(
            [python, "-c", SURPRISE, str(file)], capture_output=True, text=True, check=False
        )
    if done.returncode:
        return {"not run": [np.nan, np.nan, done.stderr.strip().split("\n")[-1]]}
    return json.loads(done.stdout)


def main() -> None:
    """Print a line of Markdown for every model."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", default=["ua", "ub", "synthetic"])
    parser.add_argument("--surprise", help="a Python that has scikit-surprise")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="models by comma")
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    small = tuple(rng.integers(0, 40, (2, 900)))
    fit_condgrad((*small, rng.normal(size=900)), (40, 40), None, 0)  # compiles
    models = {"biases": fit_biases, "ALS": fit_als, "condgrad": fit_condgrad}
    print("| ratings | model | test RMSE | CPU s | chosen |\n|---|---|---:|---:|---|")
    for name in args.names:
        (train, test), shape = load(name, args.seed)
        bounds = train[2].min(), train[2].max()
        for label, fit in models.items():
            if args.only and label not in args.only.split(","):
                continue
            began = time.process_time()
            model, chosen = fit(train, shape, bounds, args.seed)
            seconds = time.process_time() - began
            error = rmse(model, test, bounds)
            print(f"| {name} | {label} | {error:.4f} | {seconds:.1f} | {chosen} |", flush=True)
        if args.surprise:
            for label, row in surprise(args.surprise, train, test, shape, args.seed).items():
                error, seconds, chosen = row
                print(f"| {name} | SVD, {label} | {error:.4f} | {seconds:.1f} | {chosen} |")
                sys.stdout.flush()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\nPeak of the memory {peak:.2f} GiB.")


if __name__ == "__main__":
    main()
