"""Lemmas 4.2 and 4.3 measured: how far one-sample SAG is off, beside the bound of the theory."""

import sys

import numpy as np

import condgrad as cg
from condgrad import domains, functions, maps, theory
from condgrad.plot import new_figure, save

path = sys.argv[1] if len(sys.argv) > 1 else "lemmas.svg"
iterations = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
n, m, d = 40, 20, 10
rng = np.random.default_rng(0)
X, A, w = rng.standard_normal((n, d)), rng.standard_normal((m, d)), rng.dirichlet(np.ones(d))
target = X @ w + rng.standard_normal(n)
problem = cg.Problem(
    domains.Simplex(d),
    [
        cg.Term(maps.DataMatrix(X), functions.Squared(target), 1 / n, "fit"),
        cg.Term(maps.DataMatrix(A), functions.AtMost(A @ w), 1 / m, "cut"),
    ],
)
method = cg.h_sag_v2(beta0=1.0, batch=1)
traces = [
    cg.solve(problem, method, max_iter=iterations, record=12, seed=seed, errors=True).trace
    for seed in range(8)
]
k = traces[0]["k"][1:]
bounds = theory.estimator_error(problem, method, k)

fig = new_figure(8.8, 3.6)
axes = fig.subplots(1, 2)
panels = [
    ("fit", 1.0, r"Lemma 4.2: $\|\nabla f(Xw_k) - \alpha_k\|_1$", r"slope $-1$"),
    ("cut", 0.5, r"Lemma 4.3: $\|\nabla g_{\beta_k}(Aw_k) - \gamma_k\|_1$", r"slope $-1/2$"),
]
for ax, (name, exponent, title, slope) in zip(axes, panels, strict=True):
    errors = np.array([trace[f"{name}.error"][1:] for trace in traces])
    mean = errors.mean(axis=0)
    late = k >= n
    ax.fill_between(k, errors.min(axis=0), errors.max(axis=0), alpha=0.25, linewidth=0)
    ax.plot(k, mean, label=f"mean and range, {len(traces)} runs")
    ax.plot(k, bounds[name], "--", color="C3", label="bound")
    anchor = 3 * np.max((mean * k**exponent)[late])
    ax.plot(k[late], anchor / k[late] ** exponent, ":", color="0.3", label=slope)
    ax.set(xscale="log", yscale="log", xlabel="iteration $k$", title=title)
    ax.set_ylim(bottom=errors.min() / 30)
    ax.grid(True, alpha=0.25)
    ax.legend(loc="lower left")
save(fig, path)
