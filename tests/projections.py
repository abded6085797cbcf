"""Projections onto spectrahedra: domains to try, and an exact twin."""

import numpy as np
import scipy.linalg
from scipy.optimize import brentq

from condgrad import domains
from condgrad.methods.frames import frames_of, project

KINDS = ["whole", "pinned", "value", "two", "blocks"]


def domain_of(kind, n, equality=True):
    if kind == "whole":
        return domains.Spectrahedron(n, 2.0, equality)
    if kind == "blocks":
        return domains.BlockSpectrahedron([1, n - 2, 1], 2.0, equality)
    vectors = np.random.default_rng(n).standard_normal((n, 2)) if kind == "two" else np.ones(n)
    values = 0.0 if kind == "pinned" else 1.0
    return domains.PinnedSpectrahedron(vectors, 4.0, values, equality)


class Projected:
    """Projections onto a domain, each begun where the one before has ended."""

    def __init__(self, domain):
        self.face, self.frames = domain.face, frames_of(domain.face)

    def __call__(self, X):
        offset = 0.0 if self.face.offset is None else self.face.offset
        S = np.empty(X.shape)
        project(self.face, X - offset, self.frames, S, 100)
        return S


def nearest(domain, X):
    """The point of the domain nearest to X, offset included in both."""
    face = domain.face
    offset = 0.0 if face.offset is None else face.offset
    E = scipy.linalg.null_space(face.basis.T) if face.basis.size else np.eye(len(X))
    inside = scipy.linalg.block_diag(
        *(np.ones((b, b)) for b in getattr(domain, "blocks", [len(X)]))
    )
    values, V = np.linalg.eigh(E.T @ ((X - offset) * inside) @ E)

    def excess(t):
        return np.maximum(values - t, 0).sum() - face.trace

    t = 0.0
    if face.equality or excess(0.0) > 0:
        t = brentq(excess, values[0] - face.trace - 1, values[-1], xtol=1e-14)
    EV = E @ V
    return offset + (EV * np.maximum(values - t, 0)) @ EV.T


def symmetric(rng, n, size=1.0):
    X = rng.standard_normal((n, n))
    return size * (X + X.T)


def leading(rng, n, rank, size=3.0):
    """A few eigenvalues far above the others, so that the projection has low rank."""
    V = np.linalg.qr(rng.standard_normal((n, rank)))[0]
    return (V * (size * (1 + rng.random(rank)))) @ V.T + symmetric(rng, n, 1e-3 / np.sqrt(n))
