"""What is too large, in processes that may have 7 GiB: refused in a sentence, or answered.

No MemoryError comes through, and no process is killed.
"""

import sys
import textwrap

import pytest

import processes

LIMIT = 7 << 30

CASES = {
    "k-means, 20,000 points": "SDPKMeans(5, max_seconds=5).fit(rng.random((20_000, 3)))",
    "a clustering of 20,000 points": (
        "certify(rng.random((20_000, 3)), rng.integers(5, size=20_000), max_seconds=5)"
    ),
    "k-means, distances of 9000 points": (
        "applications.kmeans(np.broadcast_to(0.0, (9000, 9000)), 5).run(max_seconds=5, gap=1e-3)"
    ),
    "completion, 100,000 × 50,000 and a box": (
        "applications.matrix_completion(*ratings(), (100_000, 50_000)).run(max_seconds=5)"
    ),
    "completion, an estimator with a box": (
        "MatrixCompletion(constrain=True, max_seconds=5).fit(table())"
    ),
    "completion, as factors": "MatrixCompletion(max_seconds=5).fit(table())",
    "an SDP of side 20,000": "sdp(20_000).solve(max_seconds=5)",
    "an SDP of side 8000": "sdp(8000).solve(max_seconds=5)",
    "an SDP of side 3000": "sdp(3000).solve(max_seconds=5)",
    "a CVXPY problem of side 8000": "condgrad.cvxpy.solve(model(8000), max_seconds=5)",
    "the same, compiled": "model(8000).solve(solver=condgrad.cvxpy.CONDGRAD, max_seconds=5)",
    "side 2000, compiled": "model(2000).solve(solver=condgrad.cvxpy.CONDGRAD, max_seconds=5)",
    "max-cut, 50 million vertices": "cg.max_cut(graph(50_000_000, 2), max_seconds=5)",
    "max-cut, 300,000 vertices": "cg.max_cut(graph(300_000, 1_000_000), max_seconds=5)",
    "max-cut, a dense graph": "cg.max_cut(np.ones((8000, 8000)), max_seconds=5)",
    "a sparsest cut, 3500 vertices": "cg.sparsest_cut(graph(3500, 30_000), max_seconds=5)",
    "a sparsest cut, a dense graph": "cg.sparsest_cut(np.ones((8000, 8000)), max_seconds=5)",
    "a spectrahedron of side 30,000": "cg.solve(spectrahedron(30_000), max_seconds=5)",
}

PREPARED = """
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))

    import numpy as np
    import scipy.sparse as sp
    import condgrad as cg
    from condgrad import applications
    from condgrad.errors import ProblemError
    from condgrad.sdp import SDP
    from condgrad.sklearn import MatrixCompletion, SDPKMeans, certify

    rng = np.random.default_rng(0)

    def ratings(n=100_000, m=50_000):
        at = np.unique(rng.integers(n * m, size=200_000))
        return at // m, at % m, rng.integers(1, 6, at.size).astype(float)

    def table():
        i, j, values = ratings()
        return sp.csr_array((values, (i, j)), shape=(100_000, 50_000))

    def sdp(n):
        return SDP(sp.eye_array(n)).subject_to(sp.eye_array(n), "==", 1.0)

    def model(n):
        import cvxpy as cp
        global condgrad
        import condgrad.cvxpy
        X = cp.Variable((n, n), PSD=True)
        return cp.Problem(cp.Minimize(cp.trace(X)), [cp.diag(X) == 1])

    def graph(n, edges):
        ends = rng.integers(n, size=(2, edges))
        A = sp.csr_array((np.ones(edges), ends), shape=(n, n))
        return A + A.T

    def spectrahedron(n):
        term = cg.Term(cg.maps.Diagonal(n), cg.functions.Equal(1.0))
        return cg.Problem(cg.domains.Spectrahedron(n), [term])

    class Late:
        def __getattr__(self, name):
            import condgrad.cvxpy
            return getattr(condgrad, name)

    condgrad = Late()
    try:
        found = CALL
        text = str(getattr(found, "result_", found))
    except ProblemError as error:
        text = "refused: " + str(error)
    print(" ".join(text.split())[:500])
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a limit on memory that counts")
@pytest.mark.parametrize("name", CASES)
def test_seven_gibibytes(name):
    code = textwrap.dedent(PREPARED).replace("CALL", CASES[name]).replace("LIMIT,", f"{LIMIT},")
    code = code.replace(f"{LIMIT}, LIMIT", f"{LIMIT}, {LIMIT}")
    done = processes.run(sys.executable, "-c", code)
    print(f"\n{name}: {done.stdout.strip()}")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip()
    refused = done.stdout.startswith("refused: ")
    assert not refused or ("iB of memory" in done.stdout and "are free: " in done.stdout)
