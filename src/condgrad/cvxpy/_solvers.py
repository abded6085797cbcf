"""The solvers that CVXPY has installed, on a cone program."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from condgrad._types import Array
from condgrad.cvxpy._cone_factors import ROOT
from condgrad.cvxpy._cone_program import ConeProgram


class Raw(NamedTuple):
    """What the solver returned, in the units of the program."""

    word: str
    """Its status."""
    x: Array
    nu: Array
    blocks: list[Array]
    steps: int
    seconds: float


def installed() -> bool:
    """Whether there is an interior-point solver."""
    return find_spec("clarabel") is not None


def clarabel(program: ConeProgram, cost: Array, tolerance: float, steps: int, limit: float) -> Raw:
    """Clarabel's answer to min cost'x over the program."""
    import clarabel  # type: ignore[import-untyped]

    rows, right = _triangles(program, upper)
    cones = [clarabel.ZeroConeT(program.h.size)] if program.h.size else []
    cones += [clarabel.NonnegativeConeT(program.numbers)] if program.numbers else []
    for kind, side in zip(program.kinds, program.space.blocks, strict=True):
        if kind == "second-order":
            cones.append(clarabel.SecondOrderConeT(-side))
        elif kind == "matrix":
            cones.append(clarabel.PSDTriangleConeT(side))
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.max_iter = max(1, steps)
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = tolerance
    if np.isfinite(limit):
        options.time_limit = max(1e-3, limit)
    P = sparse.csc_array((cost.size, cost.size))
    found = clarabel.DefaultSolver(P, cost, rows, right, cones, options).solve()
    z, m = np.array(found.z), program.h.size
    blocks = _squares(program, z[m:], upper)
    return Raw(
        *(str(found.status), np.array(found.x), z[:m], blocks),
        *(found.iterations, found.solve_time),
    )


def scs(program: ConeProgram, tolerance: float, steps: int, limit: float) -> Raw | None:
    """The answer of SCS to min c'x over the program; None where it has none, or is not there."""
    if find_spec("scs") is None:
        return None
    import scs  # type: ignore[import-untyped]

    rows, right = _triangles(program, lower)
    unit = _units(program, lower)
    rows, right = sparse.diags_array(1 / unit) @ rows, right * program.x_unit / unit
    sides = {k: [] for k in ("second-order", "matrix")}  # type: dict[str, list[int]]
    for kind, side in zip(program.kinds, program.space.blocks, strict=True):
        if kind in sides:
            sides[kind].append(abs(side))
    cones = {"z": program.h.size, "l": program.numbers}
    cones |= {"q": sides["second-order"], "s": sides["matrix"]}  # type: ignore[dict-item]
    data = {"A": sparse.csc_matrix(rows), "b": right, "c": program.cost_unit * program.c}
    options = {"eps_abs": tolerance, "eps_rel": tolerance, "max_iters": max(1, steps)}
    if np.isfinite(limit):
        options["time_limit_secs"] = max(1e-3, limit)
    found = scs.SCS(data, cones, verbose=False, **options).solve()
    info, z, m = found["info"], np.asarray(found["y"]), program.h.size
    if info["status"] == "interrupted":  # it hears Ctrl-C itself
        raise KeyboardInterrupt
    if info["status"] != "solved":
        return None
    z = z / (unit * program.cost_unit)
    blocks = _squares(program, z[m:], lower)
    seconds = 1e-3 * (info["setup_time"] + info["solve_time"])
    x = np.asarray(found["x"]) / program.x_unit
    return Raw("Solved", x, z[:m], blocks, info["iter"], seconds)


Order = Callable[[int], tuple[Array, Array]]
"""Which entries of a symmetric matrix a solver reads, in its order."""


def upper(side: int) -> tuple[Array, Array]:
    """The upper triangle, column by column."""
    j, i = np.tril_indices(side)
    return i, j


def lower(side: int) -> tuple[Array, Array]:
    """The lower triangle, column by column."""
    j, i = np.triu_indices(side)
    return i, j


def _triangles(program: ConeProgram, order: Order) -> tuple[Any, Array]:
    """Rows with triangles of matrices, what is off the diagonal times √2."""
    n = program.numbers
    at, factor = [np.arange(n)], [np.ones(n)]
    blocks = zip(program.kinds, program.space.blocks, program.space.starts, strict=False)
    for kind, side, start in blocks:
        if kind == "second-order":
            at.append(start + np.arange(-side))
            factor.append(np.ones(-side))
        elif kind == "matrix":
            i, j = order(side)
            at.append(start + i * side + j)
            factor.append(np.where(i != j, ROOT, 1.0))
    chosen, weight = np.concatenate(at), np.concatenate(factor)
    own = sparse.diags_array(weight) @ program.A[chosen]
    rows = sparse.csc_array(sparse.vstack([program.G, own], format="csc"))
    return rows, np.concatenate([program.h, weight * program.b[chosen]])


def _units(program: ConeProgram, order: Order) -> Array:
    """What those rows are multiples of: CVXPY's, which people scale well."""
    own = [program.equation_unit[program.equations], program.row_unit[: program.numbers]]
    blocks = zip(program.kinds, program.space.blocks, program.space.starts, strict=False)
    for kind, side, start in blocks:
        if kind != "numbers":
            count = -side if side < 0 else order(side)[0].size
            own.append(np.full(count, program.row_unit[start]))
    return np.concatenate(own)


def _squares(program: ConeProgram, z: Array, order: Order) -> list[Array]:
    """The blocks of multipliers of those rows."""
    blocks, start = [], 0
    for kind, side in zip(program.kinds, program.space.blocks, strict=True):
        if kind != "matrix":
            blocks.append(z[start : start - side])
            start -= side
            continue
        i, j = order(side)
        own = z[start : start + i.size] / np.where(i != j, ROOT, 1.0)
        Y = np.zeros((side, side))
        Y[i, j] = Y[j, i] = own
        blocks.append(Y)
        start += i.size
    return blocks
