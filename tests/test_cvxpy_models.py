"""Ten typical models through `condgrad.cvxpy.solve`, against Clarabel, and the roads they take."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

cp = pytest.importorskip("cvxpy")
door = pytest.importorskip("condgrad.cvxpy")

from condgrad import ProblemError  # noqa: E402
from condgrad.cvxpy import _cone_proof as proof  # noqa: E402
from condgrad.cvxpy import _dual_bound as dual_bound  # noqa: E402
from condgrad.cvxpy import _interior as interior  # noqa: E402
from condgrad.cvxpy import _solve as road  # noqa: E402
from condgrad.cvxpy import _solvers as solvers  # noqa: E402
from condgrad.cvxpy._cone_factors import Matrix, Numbers, SecondOrder  # noqa: E402
from condgrad.cvxpy._solve import is_small  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore:The problem has an expression", "ignore:condgrad.cvxpy. optimal_inaccurate"
)
SCRIPT = Path(__file__).parents[1] / "benchmarks" / "cvxpy_models.py"
SPEC = importlib.util.spec_from_file_location("cvxpy_models", SCRIPT)
BENCH = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(BENCH)


def checked(problem, truth, rel=1e-3):
    """An optimum with a proven bound on its side."""
    found = problem.solver_stats.extra_stats
    side = -1.0 if isinstance(problem.objective, cp.Maximize) else 1.0
    assert problem.status == "optimal"
    assert problem.value == pytest.approx(truth, rel=rel, abs=1e-6)
    assert side * found.bound <= side * truth + 1e-7 * (1 + abs(truth))
    assert found.gap <= 1e-3
    assert found.proven
    return found


@pytest.mark.parametrize("name", BENCH.MODELS)
def test_ten_models(name):
    problem = BENCH.MODELS[name](6, np.random.default_rng(1))
    truth = problem.solve(solver=cp.CLARABEL)
    door.solve(problem)
    assert checked(problem, truth).solved_by == "Clarabel"
    assert problem.solver_stats.num_iters < 100
    assert max(np.max(c.violation()) for c in problem.constraints or [cp.Constant(0) == 0]) <= 1e-6


# what is small


@pytest.mark.parametrize(("n", "small"), [(45, True), (46, False)])
def test_small_is_a_side_of_45(n, small):
    X, x = cp.Variable((n, n), PSD=True), cp.Variable((n, n), symmetric=True)
    assert is_small(cp.Problem(cp.Minimize(cp.trace(X)))) is small
    assert is_small(cp.Problem(cp.Minimize(cp.trace(x)), [x >> 0])) is small
    assert is_small(cp.Problem(cp.Minimize(cp.sum(cp.Variable(10**6)))))
    many = cp.Variable((200, 30, 30))
    assert not is_small(cp.Problem(cp.Minimize(cp.sum(many)), [many >> 0]))


def cut(n=5):
    X = cp.Variable((n, n), PSD=True)
    return cp.Problem(cp.Maximize(X[0, 1] - X[1, 2]), [cp.diag(X) == 1])


def test_options_of_our_own_methods_insist_on_them():
    for options in ({"backend": "condgrad"}, {"trace_bound": 6.0}):
        problem = cut()
        door.solve(problem, gap=0.1, max_iter=2000, **options)
        assert problem.solver_stats.extra_stats.solved_by == "condgrad"


def test_insisting_on_the_other_road(monkeypatch):
    monkeypatch.setattr(road, "WORK", 0.0)
    problem = cut()
    door.solve(problem)
    assert problem.solver_stats.extra_stats.solved_by == "condgrad"
    assert door.solve(problem, backend="interior-point") == pytest.approx(2, rel=1e-3)
    assert problem.solver_stats.extra_stats.solved_by == "Clarabel"


def test_without_clarabel_everything_is_ours(monkeypatch):
    monkeypatch.setattr(solvers, "installed", lambda: False)
    problem = cut()
    assert door.solve(problem) == pytest.approx(2, rel=1e-2)
    assert problem.solver_stats.extra_stats.solved_by == "condgrad"
    with pytest.raises(ProblemError, match="Clarabel is not installed"):
        door.solve(problem, backend="interior-point")


def test_limits_and_the_line_at_the_end(capsys):
    problem = cut()
    door.solve(problem, max_iter=2, verbose=True)
    assert problem.status == "user_limit"
    assert problem.solver_stats.num_iters == 2
    assert "user_limit, Clarabel on the cone program" in capsys.readouterr().out
    door.solve(problem, gap=1e-7, max_seconds=60)
    assert problem.solver_stats.extra_stats.gap <= 1e-7


def test_without_time_for_a_proof_there_is_no_bound(monkeypatch):
    monkeypatch.setattr(proof, "_in_time", lambda *_: False)
    monkeypatch.setattr(dual_bound, "proved", lambda *_: -np.inf)
    problem = BENCH.MODELS["nearest-psd"](3, np.random.default_rng(0))
    door.solve(problem)
    found = problem.solver_stats.extra_stats
    assert problem.status == "optimal_inaccurate"
    assert found.bound == -np.inf
    assert not found.proven
    assert "not proved here" in str(problem.solver_stats)


# parameters and arrays of matrices


def test_parameters_are_read_anew_without_compiling():
    X, level = cp.Variable((3, 3), PSD=True), cp.Parameter(value=1.0, nonneg=True)
    problem = cp.Problem(cp.Maximize(X[0, 1]), [cp.diag(X) == level])
    assert door.solve(problem) == pytest.approx(1.0, rel=1e-3)
    compiled = problem._cache.param_prog
    level.value = 3.0
    assert door.solve(problem) == pytest.approx(3.0, rel=1e-3)
    assert problem._cache.param_prog is compiled is not None


@pytest.mark.parametrize("backend", [None, "condgrad"])
def test_arrays_of_matrices(backend):
    rng = np.random.default_rng(0)
    C = rng.normal(size=(2, 3, 3))
    X = cp.Variable((2, 3, 3))
    rows = [X >> 0, *(cp.trace(X[i]) == 1 for i in range(2)), *(X[i] == X[i].T for i in range(2))]
    problem = cp.Problem(cp.Minimize(cp.sum(cp.multiply(C, X))), rows)
    truth = sum(np.linalg.eigvalsh((c + c.T) / 2)[0] for c in C)
    door.solve(problem, backend=backend)
    checked(problem, truth)


def atoms():
    rng = np.random.default_rng(0)
    x, A, M = cp.Variable(3), rng.normal(size=(4, 3)), rng.normal(size=(3, 3))
    yield cp.norm(A @ x - 1, "fro") + cp.norm1(x), []
    yield cp.sum_squares(A @ x - 1) + cp.quad_form(x, M @ M.T), []
    yield cp.sum(cp.abs(x)) + cp.max(A @ x - 1), [cp.sum(x) == 2]
    yield cp.lambda_max(cp.diag(x) + M + M.T), [cp.sum(x) == 0]
    yield cp.normNuc(cp.reshape(A @ x, (2, 2), order="F") - np.eye(2)), [x <= 1]
    yield cp.norm_inf(x) + cp.norm(x[:2] - 3), [x[0] == x[1]]
    yield cp.pnorm(x - 2, 3) + cp.geo_mean(cp.hstack([2.0, 3.0])), [cp.norm(x) <= 1]


@pytest.mark.parametrize(("goal", "rows"), list(atoms()), ids=str)
def test_atoms(goal, rows):
    problem = cp.Problem(cp.Minimize(goal), rows)
    truth = problem.solve(solver=cp.CLARABEL)
    door.solve(problem)
    checked(problem, truth)


# verdicts


def test_verdicts_are_proved_or_said_to_be_the_solvers(monkeypatch):
    x = cp.Variable(2)
    gone = cp.Problem(cp.Minimize(cp.norm(x)), [x >= 1, cp.sum(x) <= 1])
    falls = cp.Problem(cp.Maximize(cp.sum(x)), [cp.norm(x - 1) <= 2 * x[0] + 3])
    for problem, word, value in ((gone, "infeasible", np.inf), (falls, "unbounded", np.inf)):
        assert door.solve(problem) == value
        assert problem.status == word
        assert problem.solver_stats.extra_stats.proven
    monkeypatch.setattr(interior, "refuted", lambda *_: None)
    monkeypatch.setattr(interior, "descends", lambda *_: None)
    for problem, word in ((gone, "infeasible_inaccurate"), (falls, "unbounded_inaccurate")):
        door.solve(problem)
        assert problem.status == word
        found = problem.solver_stats.extra_stats
        assert "as Clarabel says; it is not proved here" in found.proviso
        assert not found.proven
        assert np.isinf(found.bound)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("solver", "n"), [("clarabel", 4), ("scs", 16)])
def test_no_lie_of_the_solver_is_believed(monkeypatch, solver, n, seed):
    """Nonsense that is called solved: what is said of the problem stays true."""
    ask, rng = getattr(interior, solver), np.random.default_rng(seed)
    much = 10.0 ** (-2 * rng.integers(0, 3))

    def lies(*given):
        raw = ask(*given)
        blocks = [b + much * rng.normal(size=b.shape) for b in raw.blocks]
        x = raw.x + (seed % 2) * rng.normal(size=raw.x.size)
        return raw._replace(word="Solved", blocks=blocks, nu=0 * raw.nu, x=x)

    monkeypatch.setattr(interior, solver, lies)
    problem = BENCH.MODELS["nearest-correlation"](n, np.random.default_rng(seed))
    truth = problem.solve(solver=cp.CLARABEL)
    door.solve(problem)
    assert problem.solver_stats.extra_stats.bound <= truth + 1e-6
    if problem.status == "optimal":
        assert problem.value == pytest.approx(truth, rel=1e-2)


def test_squares_that_are_too_large_for_cones():
    """Squares of 10⁶ are a variable in the cone program, where Clarabel gives up."""
    rng = np.random.default_rng(0)
    A, b, x = rng.normal(size=(6, 3)), 1e6 * rng.normal(size=6), cp.Variable(3)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(A @ x - b) + 1e-3 * cp.norm1(x)))
    truth = problem.solve(solver=cp.CLARABEL)
    assert door.solve(problem) == pytest.approx(truth, rel=1e-6)
    found = problem.solver_stats.extra_stats
    assert problem.status in ("optimal", "optimal_inaccurate")
    assert found.bound <= truth * (1 + 1e-7)
    assert found.proven is (problem.status == "optimal")


@pytest.mark.parametrize("known", [True, False])
def test_an_objective_that_is_off_is_looked_at_again(monkeypatch, known):
    """With a bound that is known the answer is proved all the same."""
    off = [known]
    monkeypatch.setattr(road, "_off", lambda *_: off.pop() if off else False)
    if not known:
        monkeypatch.setattr(interior.Interior, "_read", lambda *_: None)
    problem = BENCH.MODELS["nearest-correlation"](4, np.random.default_rng(0))
    truth = problem.solve(solver=cp.CLARABEL)
    assert door.solve(problem) == pytest.approx(truth, rel=1e-6)
    assert problem.status == ("optimal" if known else "optimal_inaccurate")
    assert problem.solver_stats.extra_stats.proven is known


# the factors that multipliers are made of


@pytest.mark.parametrize("kind", [Numbers, SecondOrder, Matrix])
def test_factors(kind):
    """y, what M does to it, and its root, beside their definitions."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        shape = (3, 3) if kind is Matrix else (4,)
        F = kind(np.abs(rng.normal(size=4)) if kind is Numbers else rng.normal(size=shape))
        y, A = F.flat(), rng.normal(size=(F.flat().size, 2))
        assert [float(v) for v in F.fractions()] == pytest.approx(y)
        assert np.all(F.sizes() >= np.abs(y) * (1 - 1e-12))
        own = rng.normal(size=F.count)
        own *= 0.5 / np.linalg.norm(own)
        own = (own.reshape(3, 3) + own.reshape(3, 3).T).ravel() / 2 if kind is Matrix else own
        B, _ = F.image(sparse.csr_array(A))
        np.testing.assert_allclose(B @ own, A.T @ (F.moved(own).flat() - y), atol=1e-12)
        b = rng.normal(size=y.size)
        block = (b.reshape(3, 3) + b.reshape(3, 3).T) / 2 if kind is Matrix else b
        far = abs(np.ravel(block) @ (F.moved(own).flat() - y))
        assert far <= F.reach(block)[0] * np.linalg.norm(own) * (1 + 1e-12)
    w = SecondOrder.root(np.array([2.0, 1.0, 1.0]))
    np.testing.assert_allclose(w.flat(), [2.0, 1.0, 1.0], atol=1e-12)


# optima of 0, and multipliers that have to be 0


def zeros():
    rng = np.random.default_rng(0)
    x, A, R = cp.Variable(6), rng.normal(size=(2, 6)), rng.normal(size=(3, 3))
    X, Z = cp.Variable((3, 3), PSD=True), cp.Variable((3, 3), PSD=True)
    yield cp.norm(A @ x - 1), []
    yield cp.sum_squares(A @ x - 1) + cp.norm1(A[0] @ x - 1), [cp.norm(x) <= 9]
    yield cp.norm(X - R @ R.T, "fro"), []
    yield cp.trace(Z), [Z[0, 1] + Z[1, 2] >= -1]


@pytest.mark.parametrize(("goal", "rows"), list(zeros()), ids=str)
def test_optima_of_zero(goal, rows):
    problem = cp.Problem(cp.Minimize(goal), rows)
    assert door.solve(problem) == pytest.approx(0, abs=1e-6)
    found = problem.solver_stats.extra_stats
    assert problem.status == "optimal"
    assert found.bound <= 1e-12


def test_an_entry_that_nothing_speaks_of():
    Z = cp.Variable((3, 3), PSD=True)
    problem = cp.Problem(cp.Minimize(Z[0, 0] + Z[1, 1] - 2 * Z[0, 1]), [Z[0, 0] + 3 * Z[1, 1] == 4])
    assert door.solve(problem) == pytest.approx(0, abs=1e-6)
    assert problem.status == "optimal"
    problem = cp.Problem(cp.Minimize(Z[0, 1]), [Z[0, 0] <= 1, Z[1, 1] <= 1])
    assert door.solve(problem) == pytest.approx(-1, abs=1e-6)
    assert problem.solver_stats.extra_stats.proven
