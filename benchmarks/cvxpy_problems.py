"""CVXPY's own test problems through both doors of `condgrad.cvxpy`, beside Clarabel.

    python benchmarks/cvxpy_problems.py capture problems.pkl
    python benchmarks/cvxpy_problems.py run problems.pkl --iterations 2000 --seconds 3

`capture` runs the test files that CVXPY installs, while a wrapper around `cvxpy.Problem.solve`
keeps every problem with at most 400 variables, each once. `run` solves each by Clarabel, then by
`condgrad.cvxpy.solve` and by ``solver=CONDGRAD``, and counts how often a door is right, refuses
with a sentence, reaches a limit, is wrong, or crashes. A pickle is code: open your own only.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import os
import pathlib
import pickle
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import cvxpy as cp
import cvxpy.tests
import numpy as np
from cvxpy.lin_ops import lin_utils

import condgrad.cvxpy as door
from condgrad import ProblemError

SIZE = 400
"""The most variables a problem may have."""
OUTCOMES = ("right", "refused", "limit", "no reference", "WRONG", "CRASH")
DOORS = ("solve", "solver=CONDGRAD")
VERDICTS = {
    "infeasible": ("infeasible",),
    "unbounded": ("unbounded",),
    "infeasible_inaccurate": ("infeasible",),
    "unbounded_inaccurate": ("unbounded",),
    "infeasible_or_unbounded": ("infeasible", "unbounded"),
}
"""Which of Clarabel's verdicts bear out which of ours."""
NEAR = 1e-2
"""How far a value may be from Clarabel's, relative to 1 + its magnitude."""
FOLDER = pathlib.Path(cp.__file__).parent
"""CVXPY's: a ValueError that is raised there is a sentence of its own, not ours …"""
REFUSALS = (ProblemError, cp.error.SolverError, cp.error.DCPError, cp.error.ParameterError)
"""… and so are these, wherever they come from."""


class Recorder:
    """A pytest plugin that keeps what `Problem.solve` is called on."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[str, bytes]] = {}
        self.left_out: collections.Counter[str] = collections.Counter()
        self._test, self._inside = "", False

    def pytest_runtest_setup(self, item: Any) -> None:
        self._test = item.nodeid.split("/")[-1]

    def pytest_sessionstart(self) -> None:
        original = cp.Problem.solve

        def solve(problem: Any, *args: Any, **options: Any) -> Any:
            if self._inside:  # CVXPY's own bisections solve problems too
                return original(problem, *args, **options)
            self._keep(problem)
            self._inside = True
            try:
                return original(problem, *args, **options)
            finally:
                self._inside = False

        cp.Problem.solve = solve

    def _keep(self, problem: Any) -> None:
        if sum(v.size for v in problem.variables()) > SIZE:
            self.left_out[f"more than {SIZE} variables"] += 1
            return
        try:
            plain = cp.Problem(problem.objective, problem.constraints)  # without its caches
            key = hashlib.sha256(repr(list(marks(plain))).encode()).hexdigest()
            if key not in self.kept:
                self.kept[key] = (self._test, pickle.dumps(plain))
        except Exception as error:  # what cannot be pickled is counted and left out
            self.left_out[f"{type(error).__name__}: {error}"[:90]] += 1


def marks(problem: Any) -> Iterator[Any]:
    """What tells a problem from others: operations, numbers and the order of its variables."""
    names = {leaf.id: i for i, leaf in enumerate([*problem.variables(), *problem.parameters()])}
    todo = [problem.objective, *problem.constraints]
    while todo:
        node = todo.pop()
        if isinstance(node, list):
            todo.extend(node)
            continue
        yield type(node).__name__, getattr(node, "shape", None), len(node.args)
        if getattr(node, "id", None) in names:
            attributes = {k: v for k, v in node.attributes.items() if v is not None}
            yield names[node.id], str(attributes)
        if isinstance(node, cp.Constant | cp.Parameter):
            value = node.value
            value = value.toarray() if hasattr(value, "toarray") else np.asarray(value)
            yield hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        elif not isinstance(node, cp.Variable | cp.constraints.Constraint):
            yield str(node.get_data())
        todo.extend(node.args)


def capture(target: pathlib.Path) -> None:
    """Run CVXPY's tests and write the problems that they solve."""
    import pytest

    recorder = Recorder()
    folder = pathlib.Path(cvxpy.tests.__file__).parent
    options = ["-q", "--no-header", "--tb=no", "--continue-on-collection-errors"]
    options += ["-p", "no:cacheprovider", "-W", "ignore", "-c", os.devnull]
    pytest.main([*options, str(folder), "--rootdir", str(folder)], plugins=[recorder])
    ids = lin_utils.ID_COUNTER.count
    target.write_bytes(pickle.dumps((cp.__version__, ids, list(recorder.kept.values()))))
    print(f"{len(recorder.kept)} problems of CVXPY {cp.__version__}; left out:")
    for reason, count in recorder.left_out.most_common():
        print(f"  {count:5d} {reason}")


class Answer(NamedTuple):
    """What a solver said."""

    status: str
    """CVXPY's word, or the name of an exception."""
    value: float = float("nan")
    bound: float = float("nan")
    text: str | None = None
    """Of an exception."""


def asked(problem: Any, solve: Callable[[Any], Any]) -> Answer:
    """The answer of one solver, exceptions included."""
    try:
        solve(problem)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic of Clarabel's is no Exception
        frame = traceback.extract_tb(error.__traceback__)[-1]
        own = isinstance(error, ValueError) and FOLDER in pathlib.Path(frame.filename).parents
        refusal = "refused" if own or isinstance(error, REFUSALS) else type(error).__name__
        return Answer(refusal, text=" ".join(str(error).split()))
    value = float("nan") if problem.value is None else float(problem.value)
    bound = getattr(problem.solver_stats.extra_stats, "bound", float("nan"))
    return Answer(problem.status, value, bound)


def outcome(answer: Answer, truth: Answer, maximise: bool) -> str:
    """One of `OUTCOMES`."""
    if answer.text is not None:
        return "refused" if answer.status == "refused" or answer.text == truth.text else "CRASH"
    if truth.status not in ("optimal", *VERDICTS):
        return "no reference"
    if answer.status == "user_limit":
        right = True
    elif answer.status in VERDICTS or truth.status in VERDICTS:
        right = truth.status in VERDICTS.get(answer.status, ())
    else:
        right = abs(answer.value - truth.value) <= NEAR * (1 + abs(truth.value))
    sign = -1.0 if maximise else 1.0
    if np.isfinite(answer.bound):
        right &= sign * answer.bound <= sign * truth.value + 1e-6 * (1 + abs(truth.value))
    if right and answer.status == "user_limit":
        return "limit"
    return "right" if right else "WRONG"


def run(args: argparse.Namespace) -> None:
    """Both doors on every problem."""
    version, ids, problems = pickle.loads(args.file.read_bytes())
    lin_utils.ID_COUNTER.count = max(lin_utils.ID_COUNTER.count, ids)
    limits = {"max_iter": args.iterations, "max_seconds": args.seconds}
    doors = {
        DOORS[0]: lambda p: door.solve(p, **limits),
        DOORS[1]: lambda p: p.solve(solver=door.CONDGRAD, **limits),
    }
    doors = {name: solve for name, solve in doors.items() if args.door in ("", name)}
    table: dict[str, collections.Counter[str]] = {name: collections.Counter() for name in doors}
    part, parts = (int(n) for n in args.part.split("/"))
    chosen = [(n, c) for n, c in enumerate(problems) if args.only in c[0]]
    for n, (test, pickled) in chosen[part - 1 :: parts]:
        problem = pickle.loads(pickled)
        maximise = isinstance(problem.objective, cp.Maximize)
        truth = asked(pickle.loads(pickled), lambda p: p.solve(solver=cp.CLARABEL))
        for name, solve in doors.items():
            began = time.perf_counter()
            answer = asked(pickle.loads(pickled), solve)
            verdict = outcome(answer, truth, maximise)
            if verdict == "WRONG":  # a second opinion
                other = asked(
                    pickle.loads(pickled), lambda p: p.solve(solver=cp.SCS, use_quad_obj=False)
                )
                agreed = outcome(answer, other, maximise) in ("right", "limit")
                verdict = "no reference" if agreed else verdict
            table[name][verdict] += 1
            if args.log:
                spent = time.perf_counter() - began
                row = (n, test, name, verdict, f"{spent:.2f}", *answer, *truth)
                with args.log.open("a") as file:
                    file.write("\t".join(str(c) for c in row) + "\n")
    print(f"{len(chosen)} problems of CVXPY {version}, limits {limits}\n")
    print(f"| door | {' | '.join(OUTCOMES)} |\n|---|{'---:|' * len(OUTCOMES)}")
    for name, counts in table.items():
        print(f"| `{name}` | {' | '.join(str(counts[o]) for o in OUTCOMES)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(required=True)
    first = commands.add_parser("capture", help="run CVXPY's tests and keep their problems")
    first.add_argument("file", type=pathlib.Path)
    first.set_defaults(call=lambda args: capture(args.file))
    second = commands.add_parser("run", help="solve the problems kept and print the table")
    second.add_argument("file", type=pathlib.Path)
    second.add_argument("--iterations", type=int, default=2000, help="limit of a solve")
    second.add_argument("--seconds", type=float, default=3.0, help="limit of a solve")
    second.add_argument("--only", default="", help="problems of tests whose name has this in it")
    second.add_argument("--door", default="", help="one of the doors only")
    second.add_argument("--part", default="1/1", help="2/4: the second quarter of the problems")
    second.add_argument("--log", type=pathlib.Path, help="a file for a line per answer")
    second.set_defaults(call=run)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    args.call(args)


if __name__ == "__main__":
    main()
