"""500 small solves in one process: the memory does not grow, nor do threads and open files."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path

import numpy as np
import pytest

import condgrad as cg
from condgrad import applications
from condgrad.sdp import SDP
from condgrad.sklearn import MatrixCompletion, SDPKMeans

RNG = np.random.default_rng(17)
GRAPH = RNG.random((12, 12)).round(1)
GRAPH = np.triu(GRAPH, 1) + np.triu(GRAPH, 1).T
POINTS = RNG.standard_normal((12, 2))
RATINGS = np.where(RNG.random((12, 9)) < 0.7, RNG.random((12, 9)), np.nan)


def program():
    C = np.round(POINTS @ POINTS.T, 3)
    SDP(C).subject_to(np.eye(12), "==", 1.0).solve(max_iter=20)


def refused():
    with pytest.raises(cg.ProblemError):
        cg.sparsest_cut(GRAPH * np.nan)


SOLVES = (
    lambda: cg.sparsest_cut(GRAPH, presolve=False),
    lambda: cg.max_cut(GRAPH, gap=0.1),
    lambda: applications.kmeans(np.square(POINTS[:, :1] - POINTS[:, 0]), 2).run(max_iter=20),
    lambda: SDPKMeans(2, max_iter=20).fit(POINTS),
    lambda: MatrixCompletion(max_iter=10, radius=1.0).fit(RATINGS),
    program,
    refused,
)


def resident():
    """Bytes of memory that the process has, where the system tells."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        pytest.skip("the system does not tell how much memory a process has")
    return pages * os.sysconf("SC_PAGE_SIZE")


def files():
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0


def test_memory_does_not_grow(many):
    def work(rounds):
        for k in range(rounds):
            SOLVES[k % len(SOLVES)]()
        gc.collect()

    work(10 * len(SOLVES))  # compiled, imported, allocators warm
    before, open_before, threads = resident(), files(), threading.active_count()
    solves = many(500)
    work(solves)
    grown = resident() - before
    print(f"\n{solves} solves: {grown / 1024:+.0f} KiB resident")
    assert grown < 4 << 20
    assert files() <= open_before
    assert threading.active_count() <= threads
