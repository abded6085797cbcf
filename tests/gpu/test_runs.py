"""Runs on a GPU: bounds that the CPU finds too, the same bits every time."""

from functools import reduce

import numpy as np
import pytest

import condgrad as cg
from condgrad import applications
from condgrad.certificate.lower_bound import Slopes, part_of
from condgrad.domains.eigen import lowest_bound
from on_gpu import blobs, gpu, planted

cupy = gpu()
PROBLEMS = {
    **{f"cut {n}": lambda n=n: applications.sparsest_cut(planted(n)) for n in (12, 50, 130)},
    "weighted": lambda: applications.sparsest_cut(planted(60), vertex_weights=1 + np.arange(60.0)),
    "spread": lambda: applications.sparsest_cut(planted(40), preset="paper"),
    **{f"kmeans {n}": lambda n=n: applications.kmeans(blobs(n), 10) for n in (60, 200)},
    "kmeans by rows": lambda: applications.kmeans(blobs(80), 10, preset="paper"),
    **{f"max-cut {n}": lambda n=n: applications.max_cut(planted(n)) for n in (45, 150)},
}


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("method", [cg.spdhg, cg.sag_cgal])
def test_the_cpu_finds_the_same_bound(name, method):
    """At the multipliers that the run hands out."""
    application = PROBLEMS[name]()
    problem, how = application.problem, {"start": application.start, "duals": True}
    result = cg.solve(problem, method(), max_iter=120, device="cuda", **how)
    assert result.device.startswith("cuda")
    parts = []
    for t in problem.terms:
        y = result.duals.get(t.name, Slopes(1.0))
        parts.append(part_of(t, problem.domain.center(), y))
    low = problem.domain.minimum(reduce(np.add, [p.v for p in parts]))
    bound = low.value - sum(p.conjugate for p in parts)
    if "shifted" not in result.bound_source:
        assert result.lower_bound == pytest.approx(bound, rel=1e-6, abs=1e-6 * problem.unit)
    assert result.bound_kind == "exact-eigenvalue"
    here = cg.solve(problem, method(), max_iter=400, start=application.start)
    assert result.lower_bound <= here.objective + 1e-2 * abs(here.objective) + here.infeasibility


@pytest.mark.parametrize("name", ["cut 130", "kmeans 200", "max-cut 150"])
def test_the_same_seed_gives_the_same_bits(name):
    found = []
    for _ in range(2):
        result = PROBLEMS[name]().run(gap=1e-3, max_iter=150, device="cuda").result
        found.append((result.W.tobytes(), result.lower_bound, result.iterations))
    assert found[0] == found[1]


@pytest.mark.parametrize("n", [2, 30, 300, 1000])
def test_eigenvalues_are_bounded(n):
    rng = np.random.default_rng(n)
    V = rng.standard_normal((n, n))
    V = V + V.T
    low, failure = lowest_bound(cupy.asarray(V))
    true = np.linalg.eigvalsh(V)[0]
    assert failure == 0
    lost = 1e-12 * n * n if n <= 600 else 1e-6 * abs(true)  # above, a block guesses it
    assert true - lost <= low <= true + 1e-13 * n


def test_a_cut_in_one_call():
    cut = cg.sparsest_cut(planted(120), device="cuda")
    here = cg.sparsest_cut(planted(120))
    assert cut.value == pytest.approx(here.value)
    assert cut.gap <= 1e-3
    assert cut.result.device.startswith("cuda")


def test_too_little_memory_is_said():
    application = applications.sparsest_cut(planted(12))
    problem = cg.Problem(
        cg.domains.PinnedSpectrahedron(np.ones(9000), trace=1.0, equality=True),
        [
            cg.Term(cg.maps.Diagonal(9000), cg.functions.Linear()),
            cg.Term(cg.maps.Triangles(9000), cg.functions.AtMost(0.0), name="triangles"),
        ],
    )
    assert application.run(max_iter=2, device="auto").result.device == "cpu"
    with pytest.raises(cg.ProblemError, match="of a GPU's memory"):
        cg.solve(problem, device="cuda")
