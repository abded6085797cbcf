"""A method is one file: a state, a dataclass with four functions, and `declare`."""

from dataclasses import dataclass

import numpy as np
import pytest

import condgrad as cg
from condgrad import METHODS, Problem, Status, Term, applications, cli, domains, functions, maps
from condgrad.certificate.lower_bound import Slopes
from condgrad.methods import Method, State, declare
from condgrad.methods.protocol import direction, gradient


@dataclass(kw_only=True)
class PlainState(State):
    """The iterate, and a cotangent for every term."""

    gradients: list


@dataclass(frozen=True)
class Plain(Method):
    """Frank-Wolfe on f + g_β for a fixed β."""

    beta0: float = 0.1
    slug: str = ""
    name: str = ""

    def suits(self, problem):
        return None if problem.smooth else f"{self.name} needs an f: add one to the problem"

    def init(self, problem, W, rng, known, multipliers=None):
        gradients = [t.map.zeros(problem.dtype) for t in problem.terms]
        rows, betas = [0 for _ in gradients], [self.beta0 for _ in gradients]
        how = {"W": W.copy(), "rng": rng, "known": known, "rows": rows, "betas": betas}
        return PlainState(**how, gradients=gradients)

    def step(self, problem, state, at_most=1):
        s, k = state, state.k + 1
        for i, t in enumerate(problem.terms):
            s.rows[i] += gradient(t, s.W, s.gradients[i], self.beta0)
        v = direction(problem, s.gradients)
        atom = problem.domain.lmo(v, rng=s.rng)
        s.eta, s.beta = 2 / (k + 1), self.beta0
        atom.blend(s.W, s.eta)
        s.k, s.calls, s.products = k, s.calls + 1, s.products + atom.products
        return s

    def duals(self, problem, state):
        return {"slopes": [Slopes(beta) for beta in state.betas]}


@pytest.fixture
def plain():
    about = {"estimates": "full, full", "needs": "an f", "iterations": "ε⁻²", "cost": "ε⁻² d"}

    @declare("plain-fw", "Plain FW", **about, exponent=0.5, reference="a test, 2026")
    def plain_fw(beta0: float = 0.1) -> Plain:
        """Frank-Wolfe on f + g_β for a fixed β."""
        return Plain(beta0)

    yield plain_fw
    del METHODS["plain-fw"]


def problem():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 6))
    fit = Term(maps.DataMatrix(X), functions.Squared(X @ np.full(6, 1 / 6)), 1 / 30, "fit")
    cap = Term(maps.AllEntries((6,)), functions.AtMost(0.5), name="cap")
    return Problem(domains.Simplex(6), [fit, cap])


def test_it_solves(plain):
    result = cg.solve(problem(), plain(), gap=1e-2, max_iter=3000, start=np.eye(6)[0])
    assert result.method == "Plain FW"
    assert result.status in (Status.CONVERGED, Status.MAX_ITER)
    assert result.lower_bound <= 1e-9
    assert result.objective < 1e-3
    assert result.rows == {"fit": 30 * result.iterations, "cap": 6 * result.iterations}


def test_it_has_its_name_everywhere(plain, monkeypatch, capsys):
    assert cg.plain_fw is plain
    assert cg.plain_fw(beta0=2.0) == Plain(2.0, "plain-fw", "Plain FW")
    with pytest.raises(cg.ProblemError, match="plain-fw takes other options, beta0"):
        cg.plain_fw(gamma=1.0)
    with pytest.raises(cg.ProblemError, match=r"pass a condgrad.Method, as in condgrad.plain_fw"):
        cg.solve(problem(), "plain-fw")
    ring = np.roll(np.eye(5), 1, 0) + np.roll(np.eye(5), -1, 0)
    outcome = applications.max_cut(ring).run("plain-fw", beta0=1.0, max_iter=20)
    assert outcome.result.method == "Plain FW"
    for words in (
        ["methods"],
        ["solve", "max-cut", "petersen", "--method", "plain-fw", "--beta0", "1"],
    ):
        monkeypatch.setattr(
            "sys.argv", ["condgrad", *words, *["--iterations", "9"] * (words[0] == "solve")]
        )
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert end.value.code in (0, 1, None)
        assert "Plain FW" in capsys.readouterr().out


def test_what_it_cannot_solve_is_refused(plain):
    caps = Problem(domains.Simplex(6), problem().composite)
    with pytest.raises(cg.ProblemError, match="Plain FW needs an f: add one to the problem"):
        cg.solve(caps, plain())


def test_it_goes_on_from_a_callback_and_stays_the_same(plain):
    one, other = (cg.start(problem(), plain(), certify=c) for c in (True, False))
    one.advance(iterations=30)
    for _ in range(3):
        other.advance(iterations=10)
    assert np.array_equal(one.state.W, other.state.W)
