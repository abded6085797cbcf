"""CVXPY problems with semidefinite variables, read before CVXPY compiles them; extra ``cvxpy``.

``solve(problem)`` finds blocks, rows and losses in the problem as it was written: for problems in
semidefinite variables. It is also ``problem.solve(method="CONDGRAD")`` once this package is
imported. With ``problem.solve(solver=CONDGRAD)`` instead CVXPY compiles the problem, and the dual
of its cone program is solved: for free variables under matrix inequalities, and small problems.
"""

try:
    import cvxpy as cp
except ImportError:
    text = "condgrad.cvxpy needs CVXPY: install condgrad[cvxpy]"
    raise ImportError(text) from None

from condgrad.cvxpy._conic import CONDGRAD, ConeSolver
from condgrad.cvxpy._solve import solve
from condgrad.cvxpy._write import NAME, Certificate

cp.Problem.register_solve(NAME, solve)

__all__ = ["CONDGRAD", "Certificate", "ConeSolver", "solve"]
