"""Whether a semidefinite program is bounded: what its costs are along directions without end.

    min ⟨C, D⟩ over D ⪰ 0, Tr D = 1, ⟨A_l, D⟩ = 0 (≤ 0 for rows with ≤)

is the largest λ with C − A*y ⪰ λ I for some multipliers y. Where it is positive, multipliers of it
make Z ≻ 0, and with their help every bound holds for all W, however large. Where it is negative
and some W is feasible, W + tD goes on for ever with a falling value. Where it is 0 nothing
follows. At the end are proofs that no W ⪰ 0 meets the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, lsqr

from condgrad._floats import EPS
from condgrad._types import Array
from condgrad.functions import Absolute, Equal, Interval, Linear
from condgrad.maps import Inner, SparseStack
from condgrad.methods import Method
from condgrad.problem import Problem, Term
from condgrad.run.callbacks import Info
from condgrad.run.result import Result, Status
from condgrad.run.solve import solve
from condgrad.sdp import exact
from condgrad.sdp._dual import Point, Repair, slack, worth
from condgrad.sdp._families import images, stacked, terms
from condgrad.sdp._model import Loss
from condgrad.sdp._reduce import Reduced
from condgrad.sdp._trace import TraceRows
from condgrad.sdp._watch import SLIGHTLY

ITERATIONS = 1000
"""The most that the search takes."""
SHARE = 0.25
"""The part of the least cost along a direction that the bound must reach."""
CLEARLY = 1e-6
"""How negative the cost of a direction must be, relative to ‖C‖ ‖D‖."""
FIRM = 1e-12
"""Error of its rows that is allowed, relative to that and to the terms Σ|A_l,ij D_ij| of each: then
multipliers of norm below 1/FIRM, for rows of length 1 and ‖C‖ = 1, prove no bound at all."""
NOISE = 1e-14
"""Entries of a direction with trace 1 that are 0."""
SMALL = 10**6
"""Up to so many numbers rows are written out to correct a direction."""


class Recession(NamedTuple):
    """Knowledge about the directions of a program."""

    repair: Repair | None = None
    """A dual point with Z ≻ 0."""
    direction: Array | None = None
    """D in flat form, Tr D = 1, along which the value falls."""


def ray(
    reduced: Reduced, seconds: float | None, options: Mapping[str, Any]
) -> tuple[TraceRows | None, Array | None]:
    """Rows that bound the trace, from the same problem without cost: M = Σ c_l A_l ≻ 0.

    Where there are none the second is a direction in which the rows hold, if one was found.
    """
    rows = [t for t in _terms(reduced, np.zeros(reduced.sdp.layout.size)) if t.name == "rows"]
    if not rows:
        return None, None
    problem = Problem(reduced.problem(1.0, equality=True).domain, rows)
    result = _solved(problem, seconds, options, {"gap": 1e-3, "feasibility": 1e-9})
    inner = result.W if result.status is Status.CONVERGED else None
    return from_multipliers(reduced, -reduced.multipliers(result.duals)), inner


def from_multipliers(reduced: Reduced, c: Array) -> TraceRows | None:
    """The bound on the trace that multipliers prove; None where M ≻ 0 is not certain."""
    lowest = slack(reduced, Point(-c), cost=False).lowest
    if not lowest > 0:
        return None
    b = reduced.sdp.b
    total = float(b @ c) + (b.size + 64) * EPS * float(np.abs(b) @ np.abs(c))
    return TraceRows(c, total, lowest, False)


def _solved(
    problem: Problem,
    seconds: float | None,
    options: Mapping[str, Any],
    tolerances: Mapping[str, Any],
) -> Result:
    """Run the default method for a short while; Ctrl-C is for the caller."""
    own: dict[str, Any] = {n: options[n] for n in ("seed", "n_jobs", "device") if n in options}
    most = ITERATIONS if options.get("max_iter") is None else options["max_iter"]
    own |= {"max_iter": min(ITERATIONS, most), "max_seconds": seconds, **tolerances}
    result = solve(problem, callbacks=[_settled], duals=True, **own)
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return result


def recession(
    reduced: Reduced,
    seconds: float | None,
    options: Mapping[str, Any],
    inner: Array | None = None,
) -> Recession:
    """Look for a dual point with Z ≻ 0, or for a direction along which the value falls.

    `inner` is a direction in which the rows hold, whatever its cost.
    """
    flat = _cost(reduced)
    parts = _terms(reduced, flat)
    if not parts:
        return Recession()
    problem = Problem(reduced.problem(1.0, equality=True).domain, parts)
    tolerances = {"gap": 0.05, "feasibility": 1e-5}
    result = _solved(problem, seconds, options, tolerances)
    found = _interior(reduced, result)
    if found is not None:
        return Recession(found)
    if np.vdot(reduced.square(flat), result.W) < 0 and not reduced.sdp.losses:
        return Recession(None, _direction(reduced, result.W, inner))
    return Recession()


def _settled(info: Info) -> bool:
    """Whether the bound says enough: it is positive, and not far from what can be had."""
    row = info.trace.last
    return bool(row["lower_bound"] > 0 and row["lower_bound"] >= SHARE * row["objective"])


_settled.final = True  # type: ignore[attr-defined]


def _ends(one: Loss) -> tuple[Array, float]:
    """dom h* of a loss: the middle and half of the length, ∞ where every slope will do."""
    far = np.full(one.A.shape[0], np.inf)
    low, high = one.function.into_dual(-far), one.function.into_dual(far)
    half = float(np.min((high - low) / 2, initial=np.inf))
    free = not np.isfinite([*low, *high]).all()
    return (np.zeros(low.size), np.inf) if free else ((low + high) / 2, half)


def _cost(reduced: Reduced) -> Array:
    """Linear cost along D: C, and the middle slopes of the losses."""
    flat = reduced.cost.copy()
    for one in reduced.sdp.losses:
        flat += one.weight * (one.A.T @ _ends(one)[0])
    return flat


def _terms(reduced: Reduced, flat: Array) -> list[Term]:
    """Cost, losses and rows along D.

    A loss counts by its recession function, the support function of dom h*: |⟨A_l, D⟩| where slopes
    have two ends, ⟨A_l, D⟩ = 0 where they have none.
    """
    N = reduced.sdp.layout.side
    parts: list[Term] = []
    if flat.any():
        C = sp.csr_array(reduced.square(flat) / reduced.money)
        parts.append(Term(Inner(C), Linear(), name="cost"))
    for i, one in enumerate(reduced.sdp.losses):
        half = _ends(one)[1]
        if one.A.nnz and half > 0:
            stack = SparseStack(reduced.moved(one.A), N)
            function = Equal(0.0) if half == np.inf else Absolute(0.0, half)
            weight = 1.0 if half == np.inf else one.weight / reduced.money
            parts.append(Term(stack, function, weight, name=f"loss {i + 1}"))
    if reduced.families:
        upper = np.zeros(sum(f.map.size for f in reduced.families))
        ends = [np.full(f.map.size, 0.0 if f.equality else -np.inf) for f in reduced.families]
        parts.append(Term(reduced.stack(), Interval(np.concatenate(ends), upper), name="rows"))
    return parts


def _interior(reduced: Reduced, result: Result) -> Repair | None:
    """The dual point behind the bound, where its Z is certainly ≻ 0."""
    u = []
    for i, one in enumerate(reduced.sdp.losses):
        middle, half = _ends(one)
        own = result.duals.get(f"loss {i + 1}", np.zeros(middle.size))
        own = reduced.money / one.weight * own if half == np.inf else own
        u.append(one.function.into_dual(middle + own))
    point = Point(reduced.money * reduced.multipliers(result.duals), tuple(u))
    found = slack(reduced, point)
    certain = found.lowest > 0 and np.isfinite(worth(reduced, point))
    return Repair(point, False, found.lowest) if certain else None


def _direction(reduced: Reduced, D: Array, inner: Array | None) -> Array | None:
    """A direction near D with its rows met up to rounding, in flat form, or None.

    D is drawn towards `inner`, a direction that is no end of the cone, and corrected on the face
    of its larger eigenvalues, or everywhere.
    """
    for share in (0.0, 0.05, 0.3) if inner is not None else (0.0,):
        start = D if inner is None else (1 - share) * D + share * inner
        for face in _faces(reduced, start):
            corrected = _corrected(reduced, start, face)
            if corrected is not None:
                return corrected
    return None


def _faces(reduced: Reduced, D: Array) -> Iterator[list[Array]]:
    """Spans, block by block, on which D may be corrected.

    Of the eigenvectors of larger eigenvalues, of such with short numbers near them (directions of
    programs of integers often have those), of the indices that D uses, of everything.
    """
    parts, Q = _parts(reduced), reduced.pins
    pairs = [np.linalg.eigh(D[p, p]) for p in parts]
    top = max(float(values[-1]) for values, _ in pairs)
    faces = []
    for least in (0.1, 1e-2, 1e-4):
        large = [U[:, values > least * top] for values, U in pairs]
        faces += [large, [_short(U) for U in large]]
    for least in (1e-2, 1e-4):
        used = np.diagonal(D) > least * top
        faces.append([np.eye(p.stop - p.start)[:, used[p]] for p in parts])
    for face in [*faces, [U for _, U in pairs]]:
        yield [_off(U, Q) for U in face] if Q.shape[1] else face


def _off(U: Array, Q: Array) -> Array:
    """An orthonormal basis of what U spans off the pinned vectors Q."""
    vectors, sizes, _ = np.linalg.svd(U - Q @ (Q.T @ U), full_matrices=False)
    return np.asarray(vectors[:, sizes > 1e-6])


def _short(U: Array) -> Array:
    """An orthonormal basis of vectors near U's whose entries are twelfths of the largest."""
    if U.shape[1] == 0:
        return U
    largest = U[np.argmax(np.abs(U), axis=0), np.arange(U.shape[1])]
    return np.linalg.qr(np.round(12 * U / largest) / 12)[0]


def _corrected(reduced: Reduced, D: Array, V: Sequence[Array]) -> Array | None:
    """D on the face that V spans, moved there so that the rows hold.

    Rows with ≤ that are far from 0 are left alone.
    """
    families = reduced.families
    if not families:
        return _checked(reduced, D)

    def on_face(X: Array) -> Array:
        """The part of X on the face."""
        out = np.zeros_like(X)
        for p, U in zip(_parts(reduced), V, strict=True):
            out[p, p] = U @ (U.T @ ((X[p, p] + X[p, p].T) / 2) @ U) @ U.T
        return out

    whole, D = stacked(families), on_face(D)
    z = whole @ D.reshape(-1)
    equal = np.concatenate([np.full(f.map.size, f.equality) for f in families])
    active = equal | (z > -1e-3 * float(np.trace(D)))
    for _ in range(2):
        D = D - on_face(_least(whole, active, on_face, D))
    return _checked(reduced, D)


def _least(
    whole: LinearOperator, active: Array, on_face: Callable[[Array], Array], D: Array
) -> Array:
    """The least change of D on the face that brings its active rows to 0."""
    z = active * (whole @ D.reshape(-1))
    ids = np.flatnonzero(active)
    if ids.size * D.size <= SMALL:
        rows = (whole.T @ e for e in np.eye(active.size)[ids])
        E = np.array([on_face(r.reshape(D.shape)).reshape(-1) for r in rows]).reshape(-1, D.size)
        return np.linalg.lstsq(E, z[ids], rcond=1e-10)[0].reshape(D.shape)
    operator = LinearOperator(
        whole.shape,
        matvec=lambda x: active * (whole @ on_face(np.reshape(x, D.shape)).reshape(-1)),
        rmatvec=lambda y: on_face((whole.T @ (active * y)).reshape(D.shape)).reshape(-1),
        dtype=np.float64,
    )
    found = lsqr(operator, z, atol=1e-15, btol=1e-15, iter_lim=300)[0]
    return np.asarray(found).reshape(D.shape)


def _parts(reduced: Reduced) -> list[slice]:
    ends = np.cumsum(reduced.blocks)
    return [slice(int(e) - b, int(e)) for e, b in zip(ends, reduced.blocks, strict=True)]


def _checked(reduced: Reduced, D: Array) -> Array | None:
    """D in flat form where D ⪰ 0, its rows hold firmly and its cost is clearly negative.

    What D misses of ⪰ 0 is added to its diagonal, where it has any entries.
    """
    D = (D + D.T) / 2
    size = float(np.trace(D))
    if not size > 0:
        return None
    D = np.where(np.abs(D) > NOISE * size, D / size, 0.0)
    shift = np.zeros(len(D))
    for p in _parts(reduced):
        used = np.flatnonzero(D[p].any(axis=1)) + p.start
        if used.size:
            shift[used] = max(0.0, -float(np.linalg.eigvalsh(D[np.ix_(used, used)])[0]))
    flat, kinds = reduced.flat(D), reduced.sdp.kinds
    length = float(np.linalg.norm(flat))
    gain = -float(reduced.cost @ flat) / (float(np.linalg.norm(reduced.cost)) * length)
    z, more = images(reduced.sdp, flat), terms(reduced.sdp, reduced.flat(np.diag(shift)))
    miss = np.where(kinds == 0, np.abs(z), -kinds * z) + more
    firm = (miss <= FIRM * gain * terms(reduced.sdp, flat)) | (miss <= 0)
    return flat if gain > CLEARLY and firm.all() and shift.max() < 1e-13 else None


def refuted(
    reduced: Reduced,
    trace: float,
    seconds: float | None,
    method: Method | None,
    options: Mapping[str, Any],
) -> Result:
    """Try to prove that no W ⪰ 0 with Tr W ≤ trace meets the rows: with cost 0 a bound above 0."""

    def proved(info: Info) -> bool:
        return bool(info.trace.last["lower_bound"] > 0)

    proved.final = True  # type: ignore[attr-defined]
    rows = reduced.problem(SLIGHTLY * trace, equality=False, cost=False)
    callbacks = [*options.get("callbacks", ()), proved]
    more = {"callbacks": callbacks, "max_seconds": seconds, "gap": None, "floor": None}
    return solve(rows, method, **{**options, **more, "duals": True})


def impossible(reduced: Reduced, y: Array, ray: Repair | None) -> bool:
    """Whether multipliers y, or some near them along a ray, prove that no W ⪰ 0 meets the rows."""
    b, kinds = reduced.sdp.b, reduced.sdp.kinds
    if not y.any():
        return False
    y = np.where(kinds == 0, y, kinds * np.maximum(kinds * y, 0.0))
    if ray is not None and ray.ray:
        lowest = slack(reduced, Point(y), cost=False).lowest
        moved = y - min(0.0, 2 * lowest) / ray.lowest * ray.point.y
        size = float(np.abs(b) @ np.abs(moved))
        above = float(b @ moved) > (b.size + 64) * EPS * size
        if above and slack(reduced, Point(moved), cost=False).lowest >= 0:
            return True
    found = exact.proved(reduced, y, cost=False)
    return found is not None and found[0] > 0
