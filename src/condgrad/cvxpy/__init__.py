"""CVXPY problems, solved with a proven bound; extra ``cvxpy``.

``solve(problem)`` takes the faster of two roads. Small programs, and all that compile to linear,
second-order and semidefinite cones and are not read as they are, go to Clarabel or SCS, whose
answer is checked and proved in the cone program. Large problems in semidefinite variables
are read before CVXPY compiles them: blocks, rows and losses. It is also
``problem.solve(method="CONDGRAD")`` once this package is imported. With
``problem.solve(solver=CONDGRAD)`` CVXPY compiles the problem, and condgrad solves the dual of its
cone program.
"""

try:
    import cvxpy as cp
except ImportError:
    text = "condgrad.cvxpy needs CVXPY: install condgrad[cvxpy]"
    raise ImportError(text) from None

from cvxpy.reductions.solvers.defines import SOLVER_MAP_CONIC

from condgrad.cvxpy._conic import CONDGRAD, ConeSolver
from condgrad.cvxpy._solve import solve
from condgrad.cvxpy._write import NAME, Certificate

cp.Problem.register_solve(NAME, solve)
SOLVER_MAP_CONIC[NAME] = CONDGRAD  # solver="CONDGRAD"; nobody gets it who does not ask for it

__all__ = ["CONDGRAD", "Certificate", "ConeSolver", "solve"]
