"""Write any problem of the template: least squares on the simplex under 20,000 inequalities."""

import numpy as np

import condgrad as cg
from condgrad import domains, functions, maps

rng = np.random.default_rng(0)
X, A, truth = rng.normal(size=(500, 50)), rng.normal(size=(20_000, 50)), rng.dirichlet(np.ones(50))
y, b = X @ truth + 0.1 * rng.normal(size=500), A @ truth + 0.05
problem = cg.Problem(
    domains.Simplex(50),
    [
        cg.Term(maps.DataMatrix(X), functions.Squared(y), weight=1 / 500, name="fit"),
        cg.Term(maps.DataMatrix(A), functions.AtMost(b), weight=1 / 20_000, name="rows"),
    ],
)
result = cg.solve(problem, gap=0.05, feasibility=1e-3, max_seconds=60)
print(result)
