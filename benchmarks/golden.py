"""Compare runs of two revisions bit for bit, and their answers and times side by side.

    python benchmarks/golden.py compare REVISION [--only planted] [--part states,traces,answers]
    python benchmarks/golden.py record FILE [--only …] [--part …]
    python benchmarks/golden.py differ THEN NOW

`compare` checks REVISION out below `build/golden`, in an environment of its own, lets both record
themselves on this machine, one thread each, and prints every difference. It ends with 1 if any bit
of a state or a trace differs, or an answer is worse. Hashes are never kept: processors differ.
`differ` does the same for two files that `record` wrote.

* states: every method on eight problems, one of them float32, one with a `move`; after each
  iteration W, the random generator, and every array that the state has;
* traces: objective, infeasibility and bound of runs with a goal, to the last digit;
* answers: value, bound and CPU seconds of the doors, of networks and of SDPLIB. The last two are
  read from the folder that CONDGRAD_DATA names.

`benchmarks/cvxpy_problems.py` does the same for the problems of CVXPY's tests.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

import condgrad as cg
from condgrad import Problem, Term, domains, functions, maps
from condgrad.applications.kmeans import kmeans
from condgrad.applications.matrix_completion import matrix_completion
from condgrad.applications.max_cut import max_cut
from condgrad.applications.sparsest_cut import sparsest_cut
from condgrad.io import read_graph, read_sdpa
from condgrad.sdp import SDP

PARTS = ("states", "traces", "answers")
ITERATIONS = 40
"""Iterations of a recorded run."""
SEED = 7
SDPLIB = ("gpp100", "mcp100", "mcp124-1", "theta1", "theta2", "truss1")
"""Instances that take seconds."""
SIZES = {"batch": 10}
SCRATCH = ("_seen", "step.last", "_descended", ".drift")
"""Places of arrays that an iteration writes before it reads them."""


# problems


def adjacency(graph: nx.Graph) -> Any:
    return nx.to_scipy_sparse_array(graph, weight="weight", dtype=float)


def planted(n: int) -> Any:
    return adjacency(nx.planted_partition_graph(2, n // 2, 0.4, 0.08, seed=1))


def points(n: int) -> np.ndarray:
    rng = np.random.default_rng(4)
    return rng.standard_normal((n, 3)) + 4 * rng.integers(0, 3, (n, 1))


def distances(n: int) -> np.ndarray:
    P = points(n)
    return np.square(P[:, None] - P[None]).sum(axis=2)


def rows_over_a_simplex() -> Problem:
    """A logistic loss and inequalities, few enough for every method of Table 1."""
    rng = np.random.default_rng(3)
    X, A = rng.standard_normal((200, 30)), rng.standard_normal((40, 30))
    labels = np.sign(rng.standard_normal(200))
    loss = Term(maps.DataMatrix(X), functions.Logistic(labels), weight=1 / 200, name="loss")
    rows = Term(maps.DataMatrix(A), functions.AtMost(0.05), weight=1 / 40, name="rows")
    return Problem(domains.Simplex(30), [loss, rows])


def squares_over_a_ball() -> Problem:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 50))
    target = X[:, :4].sum(axis=1) / 4 + 0.1 * rng.standard_normal(300)
    loss = Term(maps.DataMatrix(X), functions.Squared(target), weight=1 / 300, name="loss")
    return Problem(domains.L1Ball(50, 1.0), [loss])


def triangles_over(trace: float) -> Problem:
    """A cost, a diagonal and triangle inequalities over a spectrahedron that can grow."""
    rng, n = np.random.default_rng(5), 24
    C = rng.standard_normal((n, n))
    at = np.arange(n)
    terms = [
        Term(maps.Inner(C + C.T), functions.Linear(), name="cost"),
        Term(maps.Entries(at, at, (n, n)), functions.Equal(1.0), name="diagonal"),
        Term(maps.Triangles(n), functions.AtMost(1.5), name="triangles"),
    ]
    return Problem(domains.Spectrahedron(n, trace=trace), terms)


def completion() -> Any:
    rng = np.random.default_rng(2)
    M = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 20))
    i, j = np.nonzero(rng.random(M.shape) < 0.4)
    return matrix_completion(i, j, M[i, j], M.shape, radius=60.0, bounds=(-4.0, 4.0))


def problems() -> Iterator[tuple[str, Problem, Any, tuple[float, ...]]]:
    """Name, problem, start and the traces of domains to move to."""
    for name, problem in (("simplex", rows_over_a_simplex()), ("ball", squares_over_a_ball())):
        yield name, problem, problem.domain.center(), ()
    small = sparsest_cut(adjacency(nx.gnp_random_graph(12, 0.5, seed=2)), preset="published")
    yield "published cut", small.problem, small.start, ()
    cut = sparsest_cut(planted(60))
    yield "planted cut", cut.problem, cut.start, ()
    yield "planted cut, float32", cut.problem.astype("float32"), cut.start, ()
    moving = triangles_over(26.0)
    yield "moved", moving, moving.domain.center(), (31.0, 45.0)
    own = completion()
    yield "completion", own.problem, own.start, ()
    own = kmeans(distances(30), 3)
    yield "k-means", own.problem, own.start, ()


def methods(slug: str) -> Iterator[tuple[str, Any]]:
    """A method as declared, with a batch of ten, and with an automatic β0 if it has one."""
    options = SIZES if cg.METHODS[slug].batched else {}
    yield slug, cg.METHODS[slug](**options)
    try:
        yield f"{slug}, β auto", cg.METHODS[slug](beta0="auto", **options)
    except (TypeError, cg.ProblemError):
        return


# what is recorded


def digest(value: Any) -> str:
    """A short hash of an array with its type, or of anything that JSON can hold."""
    if isinstance(value, np.ndarray):
        head = f"{value.dtype}{value.shape}".encode()
        return hashlib.sha256(head + np.ascontiguousarray(value).tobytes()).hexdigest()[:16]
    return hashlib.sha256(json.dumps(value, default=str).encode()).hexdigest()[:16]


def listed(name: str, value: Any, found: dict[str, Any]) -> dict[str, Any]:
    """Arrays and generators of a state by their places."""
    if isinstance(value, np.ndarray):
        found[name] = value
    elif isinstance(value, np.random.Generator):
        found[name] = value.bit_generator.state
    elif isinstance(value, int):
        found[name] = value
    elif isinstance(value, (list, tuple)):
        for i, part in enumerate(value):
            listed(f"{name}[{i}]", part, found)
    elif is_dataclass(value) and not isinstance(value, type):
        for f in fields(value):
            listed(f"{name}.{f.name}", getattr(value, f.name), found)
    return found


def seen(state: Any) -> dict[str, str]:
    """Hashes of arrays, generators and lists of numbers of a state, by place."""
    parts = state.listed() if hasattr(state, "listed") else listed("state", state, {})
    v = getattr(state, "v", None)  # up to 0.1 a direction was kept, and its memory lent
    if v is not None:
        parts = {n: a for n, a in parts.items() if not np.may_share_memory(a, v)}
    orders: dict[str, list[int]] = {}
    found = {}
    for name, value in parts.items():
        if isinstance(value, (np.ndarray, dict)) and len(value) > 1:
            found[name] = digest(value)
        elif isinstance(value, int) and name.endswith("]"):
            orders.setdefault(name.rpartition("[")[0], []).append(value)
    found |= {name: digest(order) for name, order in orders.items() if len(order) > 2}
    return {n: v for n, v in found.items() if not any(s in n for s in SCRATCH)}


def iterate(state: Any) -> np.ndarray:
    return getattr(state.W, "array", state.W)


def state_record(problem: Problem, method: Any, start: Any, moves: tuple[float, ...]) -> Any:
    """W and all hashes after every iteration, or the refusal."""
    try:
        run = cg.start(problem, method, start=start, seed=SEED, certify=False)
    except cg.ProblemError as refusal:
        return {"refused": str(refusal)}
    found = []
    for k in range(ITERATIONS):
        if moves and k in (13, 26):
            trace = moves[k // 13 - 1]
            run.move(domains.Spectrahedron(problem.domain.shape[0], trace=trace))
        run.advance(iterations=1)
        found.append({"W": digest(iterate(run.state)), "parts": seen(run.state)})
    return {"states": found}


def states(only: str) -> Iterator[tuple[str, Any]]:
    for name, problem, start, moves in problems():
        for slug in cg.METHODS:
            for title, method in methods(slug):
                if only in (case := f"{title} on {name}"):
                    yield case, state_record(problem, method, start, moves)


def traces(only: str) -> Iterator[tuple[str, Any]]:
    """Runs with a goal: every line of the trace but seconds, and how they end."""
    for name, problem, start, _ in problems():
        for slug in ("hcgm", "h-sag-v2", "most-fw-plus", "sag-cgal", "spdhg", "pdhg", "rpdhg"):
            case = f"{slug} on {name}"
            options = (
                SIZES if cg.METHODS[slug].batched and slug not in ("sag-cgal", "spdhg") else {}
            )
            if only not in case:
                continue
            try:
                goal = {"gap": 1e-4, "feasibility": 1e-4, "max_iter": 400}
                method = cg.METHODS[slug](**options)
                result = cg.solve(problem, method, start=start, seed=SEED, **goal)
            except cg.ProblemError as refusal:
                yield case, {"refused": str(refusal)}
                continue
            columns = ("k", "objective", "infeasibility", "lower_bound", "gap")
            lines = [[repr(float(v)) for v in result.trace[c]] for c in columns]
            end = [
                result.status.name,
                repr(float(result.lower_bound)),
                digest(np.asarray(result.W)),
            ]
            yield case, {"trace": lines, "end": end}


def doors() -> Iterator[tuple[str, Any]]:
    """Names and calls with a value, a bound and a status."""
    graphs = {
        "karate club": nx.karate_club_graph(),
        "Les Misérables": nx.les_miserables_graph(),
        "planted 150": nx.planted_partition_graph(2, 75, 0.4, 0.08, seed=1),
        "geometric 150": nx.random_geometric_graph(150, 0.2, seed=3),
        "Barabási–Albert 100": nx.barabasi_albert_graph(100, 3, seed=0),
    }
    limit = {"max_seconds": 120}
    for name, graph in graphs.items():
        yield f"sparsest cut, {name}", lambda g=graph: cg.sparsest_cut(g, weight=None, **limit)
    for n in (40, 80, 120):
        graph = nx.gnp_random_graph(n, 0.5, seed=n)
        yield f"max-cut, {n}", lambda g=graph: cg.max_cut(g, **limit)
        yield f"max-cut, triangles, {n}", lambda g=graph: cg.max_cut(g, triangles=True, **limit)
    for name, graph in list(graphs.items())[:2]:
        yield f"theta, {name}", lambda g=graph: cg.theta(g, **limit)
        yield f"bisection, {name}", lambda g=graph: cg.bisection(nx.Graph(g.edges), **limit)
    Q = np.random.default_rng(0).integers(-9, 10, (30, 30))
    yield "qubo", lambda: cg.qubo(Q + Q.T, **limit)
    for n, k in ((60, 3), (120, 4)):
        own = kmeans(distances(n), k)
        goal = {"gap": 1e-3, "feasibility": 1e-3, **limit}
        yield f"k-means, {n}", lambda a=own, o=goal: cg.solve(a.problem, start=a.start, **o)
    own = completion()
    yield "completion", lambda: cg.solve(own.problem, start=own.start, gap=1e-3, **limit)
    relaxed = max_cut(planted(200))
    yield "diagonal 200", lambda: cg.solve(relaxed.problem, start=relaxed.start, gap=1e-3, **limit)
    data = Path(os.environ.get("CONDGRAD_DATA", "nowhere"))
    for path in sorted((data / "networks").glob("*.edges*")):
        yield f"network {path.stem}", lambda p=path: cg.sparsest_cut(read_graph(p), **limit)
    for name in SDPLIB:
        for path in sorted((data / "sdplib").glob(f"{name}.dat-s*")):
            sdp = SDP.from_sdpa(read_sdpa(path))
            yield f"SDPLIB {name}", lambda s=sdp: s.solve(gap=1e-3, **limit)


def answers(only: str) -> Iterator[tuple[str, Any]]:
    for case, call in doors():
        if only not in case:
            continue
        call()  # compiles
        began = time.process_time()
        found = call()
        spent = time.process_time() - began
        value = getattr(found, "value", getattr(found, "objective", np.nan))
        bound = getattr(found, "bound", getattr(found, "lower_bound", np.nan))
        yield (
            case,
            {
                "value": float(value),
                "bound": float(bound),
                "gap": float(found.gap),
                "status": found.status.name,
                "cpu": spent,
            },
        )


def record(target: Path, only: str, parts: list[str]) -> None:
    """Write one line of JSON for every case."""
    warnings.simplefilter("ignore")
    makers = {"states": states, "traces": traces, "answers": answers}
    with target.open("w") as file:
        for part in parts:
            for case, found in makers[part](only):
                file.write(json.dumps({"part": part, "case": case, "found": found}) + "\n")
                file.flush()


# two revisions


def environment(revision: str) -> tuple[Path, Path]:
    """A checkout of a revision and its Python."""
    top = Path(__file__).resolve().parents[1]
    name = subprocess.check_output(["git", "rev-parse", revision], cwd=top, text=True).strip()
    folder = top / "build" / "golden" / name[:12]
    python = folder / ".venv" / "bin" / "python"
    if not folder.exists():
        subprocess.check_call(["git", "worktree", "add", "--detach", str(folder), name], cwd=top)
    if not python.exists():
        subprocess.check_call([sys.executable, "-m", "venv", str(folder / ".venv")])
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.check_call([str(python), *install, "-e", f"{folder}[all]"])
    return folder, python


def compare(revision: str, only: str, parts: list[str]) -> int:
    """Record both, print what differs and how much; 1 if anything is worse."""
    folder, python = environment(revision)
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    files = []
    for side, program, top in (("then", python, folder), ("now", Path(sys.executable), None)):
        files.append(file := folder.parent / f"{side}.jsonl")
        source = {"PYTHONPATH": str((top or Path(__file__).resolve().parents[1]) / "src")}
        command = [str(program), __file__, "record", str(file), "--only", only]
        subprocess.check_call(
            [*command, "--part", ",".join(parts)], env={**os.environ, **one, **source}
        )
    return differ(*files)


def differ(*files: Path) -> int:
    """Print what differs between two records; 1 if anything is worse."""
    lines = [[json.loads(line) for line in file.read_text().splitlines()] for file in files]
    then, now = ({(one["part"], one["case"]): one["found"] for one in side} for side in lines)
    worse = 0
    for key, before in then.items():
        part, case = key
        told = difference(part, before, now.get(key))
        worse += bool(told) and not told.startswith("same")
        if told:
            print(f"{part:8s} {case}: {told}", flush=True)
    print(f"{len(then)} cases, {worse} differ")
    return int(worse > 0)


def difference(part: str, before: Any, after: Any) -> str:
    """How the record of a case differs; empty if it does not."""
    if after is None:
        return "missing"
    if part == "answers":
        ratio = after["cpu"] / max(before["cpu"], 1e-9)
        told = f"gap {after['gap']:.2g}, CPU {before['cpu']:.2f} s × {ratio:.2f}"
        parts = ("value", "bound", "status")
        moved = [f"{p} {before[p]!r} → {after[p]!r}" for p in parts if before[p] != after[p]]
        return ", ".join([*(moved or ["same"]), told])
    refused = [x.get("refused", "") for x in (before, after)]
    if any(refused):
        return "" if all(refused) else f"refused {'then' if refused[0] else 'now'}: {max(refused)}"
    if part == "traces":
        if before == after:
            return ""
        lengths = [len(x["trace"][0]) for x in (before, after)]
        return f"{lengths[0]} → {lengths[1]} rows, {before['end']} → {after['end']}"
    pairs = zip(before["states"], after["states"], strict=True)
    for k, (a, b) in enumerate(pairs, 1):
        if a["W"] != b["W"]:
            return f"W differs at k = {k}"
        left = set(b["parts"].values())
        lost = [name for name, value in a["parts"].items() if value not in left]
        if lost:
            return f"at k = {k} nothing equals {', '.join(lost)}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name, what in (("record", "file"), ("compare", "revision")):
        own = commands.add_parser(name)
        own.add_argument(what, type=Path if what == "file" else str)
        own.add_argument("--only", default="", help="cases whose name has this in it")
        own.add_argument("--part", default=",".join(PARTS), help="states, traces or answers")
    own = commands.add_parser("differ")
    own.add_argument("files", type=Path, nargs=2)
    args = parser.parse_args()
    if args.command == "differ":
        return differ(*args.files)
    parts = args.part.split(",")
    if args.command == "record":
        record(args.file, args.only, parts)
        return 0
    return compare(args.revision, args.only, parts)


if __name__ == "__main__":
    sys.exit(main())
