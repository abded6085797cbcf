"""Linear matrix inequalities, and three solvers for them.

    min q'x   over   G x ≤ h,   mat(M x + m) ⪰ 0

`mat` undoes the scaled lower triangle, column by column, off-diagonal entries times √2. With the
entries of W as x this is a semidefinite program with W = mat(M x + m); with multipliers as x it is
the dual of one, and W is the matrix Z that belongs to the semidefinite constraint.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse as sp


class Lmi(NamedTuple):
    """The data; `side` is that of the matrix."""

    q: np.ndarray
    G: sp.csc_array
    h: np.ndarray
    M: sp.csc_array
    m: np.ndarray
    side: int


class Answer(NamedTuple):
    """x, the multipliers of G x ≤ h, and the matrix that belongs to the semidefinite constraint."""

    x: np.ndarray
    y: np.ndarray
    Z: np.ndarray


class TimeUp(Exception):
    """The limit was reached without an answer."""


class Triangle:
    """Rows of the scaled lower triangle: `row` ≥ `col`, `scale`, and where entry (i, j) is."""

    def __init__(self, n: int) -> None:
        self.col, self.row = np.triu_indices(n)
        self.size = self.row.size
        self.scale = np.where(self.row == self.col, 1.0, np.sqrt(2))
        self.at = np.empty((n, n), dtype=np.int64)
        self.at[self.row, self.col] = self.at[self.col, self.row] = np.arange(self.size)

    def vec(self, W):
        return W[self.row, self.col] * self.scale

    def mat(self, x):
        W = np.empty(self.at.shape)
        W[self.row, self.col] = W[self.col, self.row] = x / self.scale
        return W


def scs(lmi: Lmi, tolerance: float, seconds: float) -> Answer:
    """SCS with its direct linear solver."""
    import scs

    A = sp.csc_matrix(sp.vstack([lmi.G, -lmi.M]))
    data = {"A": A, "b": np.concatenate([lmi.h, lmi.m]), "c": lmi.q}
    cone = {"l": lmi.h.size, "s": [lmi.side]}
    options = {"eps_abs": tolerance, "eps_rel": tolerance, "max_iters": 10**6}
    found = scs.SCS(data, cone, verbose=False, time_limit_secs=max(seconds, 1), **options).solve()
    y = found["y"]
    return Answer(found["x"], y[: lmi.h.size], Triangle(lmi.side).mat(y[lmi.h.size :]))


def clarabel(lmi: Lmi, tolerance: float, seconds: float) -> Answer:
    """Clarabel with its own tolerances; it wants the upper triangle column by column."""
    import clarabel

    triangle = Triangle(lmi.side)
    order = np.lexsort((triangle.col, triangle.row))  # (col, row) by row, then by col
    A = sp.csc_matrix(sp.vstack([lmi.G, -sp.csr_array(lmi.M)[order]]))
    b = np.concatenate([lmi.h, lmi.m[order]])
    cones = [clarabel.PSDTriangleConeT(lmi.side)]
    if lmi.h.size:
        cones.insert(0, clarabel.NonnegativeConeT(lmi.h.size))
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.time_limit, settings.max_threads = False, max(seconds, 1.0), 1
    empty = sp.csc_matrix((lmi.q.size, lmi.q.size))
    found = clarabel.DefaultSolver(empty, lmi.q, A, b, cones, settings).solve()
    z = np.array(found.z)
    back = np.empty(triangle.size)
    back[order] = z[lmi.h.size :]
    return Answer(np.array(found.x), z[: lmi.h.size], triangle.mat(back))


def csdp(lmi: Lmi, tolerance: float, seconds: float) -> Answer:
    """CSDP, a program of its own: an SDPA file in, a solution file out."""
    triangle, slack = Triangle(lmi.side), lmi.h.size
    M, G = sp.coo_array(lmi.M), sp.coo_array(lmi.G)
    i, j = triangle.col + 1, triangle.row + 1  # the upper triangle, counted from 1
    psd = np.flatnonzero(lmi.m)
    low = np.flatnonzero(lmi.h)
    parts = [
        (0 * psd, 1, i[psd], j[psd], -lmi.m[psd] / triangle.scale[psd]),
        (0 * low, 2, low + 1, low + 1, -lmi.h[low]),
        (M.coords[1] + 1, 1, i[M.coords[0]], j[M.coords[0]], M.data / triangle.scale[M.coords[0]]),
        (G.coords[1] + 1, 2, G.coords[0] + 1, G.coords[0] + 1, -G.data),
    ]
    names = ["matrix", "block", "i", "j", "value"]
    table = pd.concat([pd.DataFrame(dict(zip(names, p, strict=True))) for p in parts])
    with tempfile.TemporaryDirectory() as folder:
        problem, solution = Path(folder) / "problem.dat-s", Path(folder) / "solution"
        with problem.open("w", encoding="utf-8") as file:
            sizes = f"{lmi.side} -{slack}" if slack else f"{lmi.side}"
            file.write(f"{lmi.q.size}\n{1 + bool(slack)}\n{sizes}\n")
            file.write(" ".join(f"{x:.17g}" for x in lmi.q) + "\n")
            table.sort_values("matrix", kind="stable").to_csv(
                file, sep=" ", header=False, index=False, float_format="%.17g"
            )
        command = [shutil.which("csdp"), problem.name, solution.name]
        try:
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "check": False}
            subprocess.run(command, cwd=folder, timeout=max(seconds, 1), **quiet)
        except subprocess.TimeoutExpired:
            raise TimeUp from None
        with solution.open(encoding="utf-8") as file:
            x = np.array(file.readline().split(), dtype=float)
            found = pd.read_csv(file, sep=r"\s+", header=None, names=names)
    found = found[found["matrix"] == 2]
    dense, diagonal = found[found["block"] == 1], found[found["block"] == 2]
    Z, y = np.zeros((lmi.side, lmi.side)), np.zeros(slack)
    at = dense["i"].to_numpy() - 1, dense["j"].to_numpy() - 1
    Z[at] = Z[at[::-1]] = dense["value"].to_numpy()
    y[diagonal["i"].to_numpy() - 1] = diagonal["value"].to_numpy()
    return Answer(x, y, Z)


SOLVERS = {"scs": scs, "clarabel": clarabel, "csdp": csdp}
