"""Extreme eigenvectors and singular vectors: one entry point each."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.linalg.lapack import dpotrf

from condgrad import _deadline as deadline
from condgrad._floats import EPS, above, below, power_of_two
from condgrad._types import Array
from condgrad.backends import kernels, ops
from condgrad.backends.arrays import eigenpairs, foreign
from condgrad.domains.bottom import bottom
from condgrad.domains.chebyshev import sparse_bound
from condgrad.domains.checked import checked, deflate

SMALL = 40
"""Up to this side LAPACK answers faster than Lanczos."""
SMALL_GPU, LARGE_GPU = 2000, 6000
"""On a GPU cuSOLVER answers as fast as Lanczos up to the first side, and as fast as Lanczos to full
accuracy up to the second."""
WHOLE_GPU = 600
"""Up to this side all eigenvalues are as fast there as the lowest ones alone (`bottom`)."""
CYCLES = 4
"""Restarts a scheduled call may add where the residual check fails."""
LOOSE = 0.1
"""Residual, relative to the eigenvalue, that a scheduled call accepts."""
ENOUGH = 0.01
"""Residual, relative to the eigenvalue, at which a scheduled call for an eigenpair stops early."""
HURRIED, CALM = 0.03, 3.0
"""Residual at such a stop for a singular pair, relative to σ²: CALM/effort², HURRIED at most."""
HIDDEN, BEYOND = 1.0, 100.0
"""A scheduled call for a singular pair looks on while a value larger by the part BEYOND/effort² of
σ², and HIDDEN at most, may have escaped it."""
MISS = 0.1
"""Probability at which a larger singular value counts as possibly missed."""
RANDOM = 0.1
"""Length of the random part of a start, relative to the part that the iterate suggests."""
TIGHT = 1e-9
"""Residual, relative to the eigenvalue, that a call for full accuracy accepts."""


LARGE = 3000
"""Up to this side a bound on an extreme eigenvalue comes from LAPACK, above from Lanczos."""
FAR = 1e100
"""A matrix whose eigenvalues are larger, or all smaller than 1/FAR, is scaled first (float64)."""
PROOF = deadline.VALUES + deadline.CHOLESKY
"""Cost of such a bound by LAPACK, in products."""
NEAR, CLOSE = 8, 1e-12
"""Factorisations that are tried at a vector near the lowest eigenvector, each four times farther
below its value, and how far below the first is, in units of ‖V‖_F."""
FAILURE = 1e-10
"""Probability with which one bound from Lanczos may be wrong."""


class Pair(NamedTuple):
    """An extreme eigenpair and the products it took."""

    value: float
    vector: Array
    products: int


def lowest_eigpair(
    v: Array,
    *,
    effort: float | None = None,
    hint: Array | None = None,
    rng: np.random.Generator | None = None,
    fixed: Array | None = None,
) -> Pair:
    """Smallest eigenvalue of the symmetric part V of a square v with its unit eigenvector.

    Up to side 40 LAPACK answers. Above, Lanczos with ⌈effort · ln n⌉ steps starts from
    W g/‖W g‖ + g/(10‖g‖), W the iterate given as `hint` and g random: the iterate is made of
    earlier answers. It stops early where the residual is a hundredth of the eigenvalue, and while
    it exceeds a tenth it is restarted, up to four times. Without `effort` it goes on until the
    residual is negligible, and LAPACK answers if it never is. On a GPU a block of vectors answers
    where one of Lanczos would take as long (`condgrad.domains.bottom`).

    `fixed` holds orthonormal columns q_i: then the pair is that of V on their complement.
    """
    n = v.shape[0]
    V = room("V", (n, n), v)
    kernels(v).symmetric_part(v, V)
    basis = np.empty((n, 0), V.dtype, like=V)
    if fixed is not None:
        basis = fixed.astype(V.dtype, copy=False)
    small = SMALL if not foreign(V) else LARGE_GPU if effort is None else SMALL_GPU
    if foreign(V) and effort is not None and WHOLE_GPU < n <= small:
        return _by_block(V, basis)
    if n > small:
        rng = rng or np.random.default_rng(0)
        pair = _lanczos(V, False, _start(n, V, rng, hint), effort, basis)
        if pair is not None:
            return pair
    V = deflated(V, basis)
    if foreign(V):
        values, vectors = eigenpairs(V)
    else:
        values, vectors = scipy.linalg.eigh(V, subset_by_index=(0, 0), check_finite=False)
    vector = vectors[:, 0]
    if basis.shape[1]:
        vector = vector - basis @ (basis.T @ vector)
    return Pair(float(values[0]), (vector / np.linalg.norm(vector)).astype(V.dtype, copy=False), 0)


def _by_block(V: Array, basis: Array) -> Pair:
    """The lowest pair off an orthonormal basis, about, of a V on a GPU that is written to."""
    n, r = basis.shape
    if r:  # the pinned get the mean eigenvalue
        along = float(np.vdot(basis, V @ basis))
        deflate(V, basis, (float(np.trace(V)) - along) / (n - r))
    found = bottom(V)
    vector = found.vectors[:, 0]
    if r:
        vector = vector - basis @ (basis.T @ vector)
    return Pair(float(found.values[0]), vector / np.linalg.norm(vector), found.products)


def deflated(V: Array, basis: Array, top: float | None = None) -> Array:
    """A symmetric V with orthonormal columns projected out and given the eigenvalue `top`.

    Default: beyond the top of the spectrum.
    """
    if basis.shape[1] == 0:
        return V
    if foreign(V):
        V = V.copy()
        deflate(V, basis, top)
        return V
    Q = basis.astype(V.dtype, copy=False)
    X = V @ Q
    V = V - X @ Q.T
    V -= Q @ (X.T - (Q.T @ X) @ Q.T)
    if top is None:
        top = 2 * float(np.abs(V).sum(axis=1).max()) or 1.0  # no eigenvalue of V lies above
    V += (V.dtype.type(top) * Q) @ Q.T
    return V


def top_singular_pair(
    V: Array,
    *,
    effort: float | None = None,
    hint: Array | None = None,
    rng: np.random.Generator | None = None,
) -> tuple[float, Array, Array, int]:
    r"""Largest singular value σ of V with unit u, v, V v = σ u, and the products it took.

    Lanczos on VᵀV, which reads V once a step, as in `lowest_eigpair`. It starts from
    WᵀWg/‖WᵀWg‖ + g/(10‖g‖), g random and W the iterate given as `hint`, or with a vector close to v
    as `hint` from that in place of the first part. With an `effort` e it takes ⌈e · ln n⌉ steps, or
    stops as soon as

    - the residual is at most min(0.03, 3/e²) θ, θ the value found for σ², and
    - σ² > (1 + min(1, 100/e²)) θ would mean that at most a squared length c² of the unit start lies
      along v (`_reference.hidden`), where g makes it more with probability 0.9 whatever a vector
      given as `hint` is: the residual of a pair that is not the leading one can be small. (With an
      iterate both parts come from one g, and the probability is that of the second part alone.)

    The steps that the second takes after the first serve to look: the pair is the one that was
    there, unless a larger value than allowed comes to light. More exact atoms are dearer and do not
    make the runs end lower (the table in docs/reproduction.md).

    A step to s with ⟨v, s⟩ ≤ min + δ η_k C_k/2, C_k = Σ_t ω_t L_t ‖A_t‖² D² with L_t = 1/β_k for
    composite terms, does to the proof of a conditional gradient method what C_k (1 + δ) in place of
    C_k does. With η_k = 2/(k + 1) and β_k = β0/√(k + 1) what is allowed so falls as 1/√k, which is
    1/e² for the effort e = k^(1/4) of the methods; the shares above fall so from k = 10⁴ on.
    """
    if min(V.shape) > SMALL:
        V, hint = np.ascontiguousarray(V), None if hint is None else np.ascontiguousarray(hint)
        rng = rng or np.random.default_rng(0)
        start, part = _gram_start(V, rng, hint)
        # g₁/‖g‖ has a density that is highest at 0, and there at most √(n/2π): P(|g₁| ≤ c‖g‖) is at
        # most c√(2n/π), and no larger if a number that does not depend on g is added to g₁/‖g‖.
        seen = np.pi / (2 * start.size) * (MISS * part / float(np.linalg.norm(start))) ** 2
        pair = _lanczos(V, True, start, effort, seen=seen)
        if pair is not None:
            u = V @ pair.vector
            value = float(np.linalg.norm(u))
            if not np.isfinite(value):
                raise np.linalg.LinAlgError("the direction is not finite")
            unit = u / value if value > 0 else np.eye(1, V.shape[0], dtype=V.dtype)[0]
            return value, unit, pair.vector, 2 * pair.products + 1
    if not np.isfinite(V).all():
        raise np.linalg.LinAlgError("the direction is not finite")
    U, s, VT = scipy.linalg.svd(V, full_matrices=False, check_finite=False)
    return float(s[0]), U[:, 0].astype(V.dtype), VT[0].astype(V.dtype), 0


def lowest_bound(
    V: Any,
    near: Array | None = None,
    spent: bool = False,
    steps: int = 400,
    beside: tuple[float, Array] | None = None,
) -> tuple[float, float]:
    r"""A number below the smallest eigenvalue of a symmetric V, and the chance that it is not.

    Up to side 3000, if there is time, there is no chance: LAPACK's smallest eigenvalue is only the
    guess σ, lowered a little, and what proves it is that the Cholesky factorisation of V − σI runs
    to its end (`_proved`). Else k steps of Lanczos from a random start give ξ with

    .. math:: P\big(ξ - λ_{min} > ε (λ_{max} - λ_{min})\big) ≤ 1.648 \sqrt{n}\, e^{-\sqrt{ε}(2k-1)}

    and ε is chosen for a probability of 1e-10; 4nε‖V‖_F more is for rounding, which is not proved.
    `near` may hold columns that are near the eigenvectors, which saves time. On a GPU there is no
    chance, whatever the side is (`condgrad.domains.checked`); there V is written to where it is
    `spent`, then equal to its transpose to the last bit. Of a sparse V only `steps` products are
    taken there (`sparse_bound`, with the same chance, and there rounding is proved). With (t, q)
    `beside` a sparse V the matrix is V + t q qᵀ, each entry rounded thrice if that is made.

    References
    ----------
    .. [1] J. Kuczyński, H. Woźniakowski, "Estimating the largest eigenvalue by the power and
       Lanczos algorithms with a random start", SIAM J. Matrix Anal. Appl. 13(4), 1992.
    """
    n = V.shape[0]
    quick = n <= LARGE and deadline.fits(deadline.cost(n, PROOF))
    if sp.issparse(V):
        if not quick and V.nnz:
            return sparse_bound(V, FAILURE, steps, beside), FAILURE
        V = V.toarray()
        if beside is not None:
            V += beside[0] * (beside[1][:, None] * beside[1])
    unit = power_of_two(V)
    if not V.any():
        return 0.0, 0.0
    if foreign(V):
        if spent:
            V /= unit
        else:
            V = V / unit
            kernels(V).symmetrise(V)
        return below(unit, checked(V, near, WHOLE_GPU)), 0.0
    if n > LARGE and 1 / FAR < unit < FAR:
        unit = 1.0
    else:
        V = V / unit  # products of entries stay in the range of floats
    if quick:
        return below(unit, _proved(V, near)), 0.0
    size, steps = float(np.linalg.norm(V)), min(n, 600)
    bits = int(np.float64(V.sum()).view(np.uint64))  # another start for every V
    start = np.random.default_rng([0, n, steps, bits]).standard_normal(n)
    Q = np.empty((steps, n))
    _, ritz, *_ = ops.lanczos(V, False, start, Q, 0, EPS)
    spread = 2 * min(size, float(np.abs(V).sum(axis=1).max()))
    epsilon = min(1.0, (np.log(1.648 * np.sqrt(n) / FAILURE) / (2 * steps - 1)) ** 2)
    return below(unit, float(ritz) - epsilon * spread - 4 * n * EPS * size), FAILURE


def top_of_gram(gram: Array, rows: int) -> tuple[float, float]:
    """A number above σ_max(V) for VᵀV as computed, V with so many rows; the chance that it is not.

    VᵀV is off by γ_rows ‖V‖_F² = γ_rows Tr VᵀV.
    """
    value, failure = lowest_bound(-0.5 * gram - 0.5 * gram.T)
    rounding = (rows + 10) * EPS * float(np.trace(gram))
    return float(np.sqrt(max(0.0, -value + rounding))), failure


def _proved(V: Array, near: Array | None = None) -> float:
    r"""A number below the smallest eigenvalue of a symmetric V whose largest entry is about 1.

    Let B be V − σI as computed. Where its Cholesky factorisation in floats runs to its end, with
    the factor R, then RᵀR = B + E and |E| ≤ γ_{n+1} |Rᵀ||R|, in whatever order the inner products
    are summed [1]_. Column j of R has ‖r_j‖² = b_jj + e_jj ≤ b_jj/(1 − γ_{n+1}), so that by the
    Cauchy-Schwarz inequality |e_ij| ≤ γ √(b_ii b_jj) with γ = γ_{n+1}/(1 − γ_{n+1}). The matrix on
    the right has the norm γ Tr B, so 0 ⪯ RᵀR ⪯ B + γ (Tr B) I. The diagonal of B is off by u b_ii
    at most, so

    .. math:: λ_{min}(V) ≥ σ - (γ + u) \, \mathrm{Tr} B.

    References
    ----------
    .. [1] N. J. Higham, "Accuracy and stability of numerical algorithms", SIAM, 2nd ed., 2002,
       theorem 10.3; the bound on E is J. Demmel's (LAPACK working note 14, 1989).
    """
    n, size = V.shape[0], float(np.linalg.norm(V))
    for columns in (near, None) if near is not None else (None,):
        lower, tries = EPS * (4 + 2 * size), 20
        if columns is None:
            guess = float(scipy.linalg.eigvalsh(V, check_finite=False)[0])
        else:
            x = columns[:, 0] / float(np.linalg.norm(columns[:, 0]))
            y = V @ x
            guess, tries = float(x @ y), NEAR
            lower = max(lower, min(float(np.linalg.norm(y - guess * x)), CLOSE * size))
        for _ in range(tries):
            B = V.copy()
            diagonal = np.einsum("ii->i", B)
            diagonal -= guess - lower
            total = float(diagonal.sum())
            if factorises(B):
                return guess - lower - EPS * (n / 2 + 4) * total
            lower *= 4
    return -above(size, V.size + 4)  # |λ| ≤ ‖V‖_F


def factorises(B: Array) -> bool:
    """Whether Cholesky's method succeeds on a symmetric B, of float64 and written over.

    It may run to its end on what is not finite, which the diagonal of the factor shows.
    """
    factor, info = dpotrf(B.T, clean=False, overwrite_a=True)
    return bool(info == 0 and np.isfinite(factor.diagonal()).all())


_rooms = threading.local()


def room(name: str, shape: tuple[int, int], like: Array) -> Array:
    """An array to write to, the same at every call with that name and shape, of the type `like`.

    On a GPU it is another one at every call: the pool has it ready, and others may want the memory.
    """
    if foreign(like):
        return np.empty(shape, like.dtype, like=like)
    kept: Array | None = getattr(_rooms, name, None)
    same = kept is not None and kept.shape == shape and kept.dtype == like.dtype
    if kept is None or not same or type(kept) is not type(like):
        kept = np.empty(shape, like.dtype, like=like)
        setattr(_rooms, name, kept)
    return kept


def _start(
    n: int,
    like: Array,
    rng: np.random.Generator,
    hint: Array | None,
) -> Array:
    """A random vector, drawn towards the range of the iterate."""
    g = np.asarray(rng.standard_normal(n).astype(like.dtype), like=like)
    if hint is None:
        return g
    x = hint @ g
    length = float(np.linalg.norm(x))
    if not (length > 0 and np.isfinite(length)):
        return g
    start: Array = x / length + 0.1 * g / np.linalg.norm(g)
    return start


def _gram_start(V: Array, rng: np.random.Generator, hint: Array | None) -> tuple[Array, float]:
    """A vector given, or suggested by the iterate, plus a random one, and the latter's length."""
    g = rng.standard_normal(V.shape[1:]).astype(V.dtype)
    unit = g / np.linalg.norm(g)
    if hint is None:
        return unit, 1.0
    x = hint if hint.ndim == 1 else ops.gram_product(hint, g)
    length = float(np.linalg.norm(x))
    if not (length > 0 and np.isfinite(length)):
        return unit, 1.0
    return x / V.dtype.type(length) + V.dtype.type(RANDOM) * unit, RANDOM


def _lanczos(
    V: Array,
    gram: bool,
    start: Array,
    effort: float | None,
    fixed: Array | None = None,
    seen: float = 0.0,
) -> Pair | None:
    """Restarted Lanczos; None where full accuracy was asked for and not reached.

    `seen`: what part of the start, squared, lies along the wanted vector at least.
    """
    if isinstance(V, np.ndarray) and not V.flags.forc:
        V = np.ascontiguousarray(V)  # a block of a matrix; a product would copy it every time
    n, eps = start.size, float(np.finfo(V.dtype).eps)
    steps = min(n, 120) if effort is None else max(4, int(np.ceil(effort * np.log(n))))
    known = 0 if fixed is None else fixed.shape[1]
    products, Q = 0, room("Q", (known + steps, n), V)
    if fixed is not None and known:
        Q[:known] = fixed.T
    enough, beyond = 0.0, 0.0
    if effort is not None:
        enough = min(HURRIED, CALM / effort**2) if gram else ENOUGH
        beyond = min(HIDDEN, BEYOND / effort**2)
    far = FAR if V.dtype == np.float64 else 1e15
    for _ in range(20 if effort is None else CYCLES):
        found = kernels(V).lanczos(V, gram, start, Q, known, eps, enough, seen, beyond)
        x, value, residual, scale, spent = found
        if not 1 / far < scale < far and np.isfinite(V).all():
            unit = power_of_two(V)
            if not 0.5 <= unit <= 2:
                pair = _lanczos(V / V.dtype.type(unit), gram, start, effort, fixed, seen)
                return pair and pair._replace(value=pair.value * (unit * unit if gram else unit))
        products += spent
        if effort is None:
            done = residual <= max(TIGHT * abs(value), 50 * eps * scale)
        else:
            done = residual <= max(LOOSE * abs(value), 50 * eps * scale)
        if done or deadline.over():
            return Pair(float(value), x, products)
        start, seen = x, 0.0
    dear = effort is None and deadline.fits(deadline.cost(n, deadline.VALUES))
    return None if dear else Pair(float(value), x, products)
