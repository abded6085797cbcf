"""The library straight from its folder, where only NumPy and SciPy are installed."""

import sys
import textwrap
from pathlib import Path

import pytest

import condgrad
import processes

SOURCE = Path(condgrad.__file__).parents[1]
ABSENT = ("numba", "rich", "typer", "threadpoolctl", "matplotlib", "pandas", "sklearn", "cupy")


def bare(program):
    """What a program prints where nothing but NumPy, SciPy and networkx can be imported."""
    first = f"import sys\nsys.path.insert(0, {str(SOURCE)!r})\n"
    first += "".join(f"sys.modules[{name!r}] = None\n" for name in ABSENT)
    done = processes.run(sys.executable, "-c", first + textwrap.dedent(program))
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_karate_club_is_cut():
    pytest.importorskip("networkx")
    found = bare(
        """
        import networkx as nx

        import condgrad as cg
        from condgrad.backends import backend

        cut = cg.sparsest_cut(nx.karate_club_graph(), weight=None)
        print(backend(), len(cut.partition[0]), cut.gap <= 1e-3, round(cut.value, 6))
        """
    )
    assert found.split() == ["reference", "5", "True", "0.027586"]


def test_problems_are_solved():
    found = bare(
        """
        import numpy as np

        import condgrad as cg

        C = np.diag([3.0, 1.0, 2.0, 4.0])
        terms = [
            cg.Term(cg.maps.Inner(C), cg.functions.Linear(), name="cost"),
            cg.Term(cg.maps.Diagonal(4), cg.functions.AtMost(0.5), name="diagonal"),
        ]
        problem = cg.Problem(cg.domains.Spectrahedron(4, 1.0, equality=True), terms)
        result = cg.solve(problem, gap=1e-4)
        print(result.status.name, round(result.lower_bound, 2))
        """
    )
    assert found.split() == ["CONVERGED", "1.5"]


def test_what_few_calls_need_is_not_loaded_with_the_package():
    loaded = set(bare("import condgrad\nprint(*sys.modules)").split())
    assert "condgrad.methods.factored_apg" in loaded
    assert loaded.isdisjoint({"scipy.stats", "scipy.optimize"})
