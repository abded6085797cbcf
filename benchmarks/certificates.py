"""How good are the certificates of the sparsest-cut relaxation, and what do they cost beside SCS.

    python benchmarks/certificates.py [--graphs NAME,…] [--scs-limit SECONDS] [--out FILE]

Every run is a process of its own with one thread for BLAS; its CPU time is user + system of the
process and its children, start of the interpreter included, its memory the peak resident set. The
numbers go to FILE (JSON) and to a table beside it (.md) after each run. Graphs that FILE has stay
unless they are named again; `--graphs ''` only writes the table anew.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from graphs import FILES, NAMES, graph_file, read_edges

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
GAPS = ("1e-2", "1e-3")
SCS_MOST = 150
"""SCS stores the triangle rows and a factor: larger graphs are skipped, the memory estimated."""
KNOWN = {
    **dict(zip(FILES, (108.6956522, 308.1018519, 669.5643564), strict=True)),
    **{"rand80": 243.0379747, "rand150": 830.5369128, "rand200": 1608.0402010},
    **{"rand300": 4444.4444444, "geo80": 40.506, "geo150": 62.4401914, "geo200": 77.0712909},
}


def counted(usage: resource.struct_rusage) -> dict:
    """CPU seconds and peak memory."""
    return {"cpu": usage.ru_utime + usage.ru_stime, "megabytes": usage.ru_maxrss / 1024}


def measure(command: list[str], out: Path) -> dict:
    """Run a command that writes JSON to `out`; add what the operating system counted."""
    out.unlink(missing_ok=True)
    env = {**os.environ, **dict.fromkeys(THREADS, "1")}
    process = subprocess.Popen([sys.executable, *command], env=env, stdout=subprocess.DEVNULL)
    _, code, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(code)
    if process.returncode or not out.exists():
        return {"status": f"exit code {process.returncode}"}
    found = json.loads(out.read_text(encoding="utf-8"))
    return {**counted(usage), **{key: x for key, x in found.items() if key not in ("input", "cut")}}


def command_line(path: Path, out: Path, gap: float, seed: int = 0) -> dict:
    """What a user runs."""
    options = ["--gap", str(gap), "--seed", str(seed), "--json", str(out), "--quiet"]
    return measure(["-m", "condgrad", "solve", "sparsest-cut", str(path), *options], out)


def iterate(path: str, out: str, limit: float) -> None:
    """Without rounded cuts as points: the gap is that of the Frank-Wolfe iterate itself."""
    from condgrad.applications import sparsest_cut
    from condgrad.cli_options import finite
    from condgrad.io import read_graph

    run = sparsest_cut(read_graph(path)).run(gap=1e-2, propose=None, max_seconds=limit)
    Path(out).write_text(json.dumps(finite(run.to_json())), encoding="utf-8")


def scs_run(path: str, out: str, limit: float) -> None:
    """SCS on min ⟨L, W⟩, Tr W = n/2, W1 = 0, triangles, W ⪰ 0: the form that condgrad solves."""
    import scs
    from scipy import sparse as sp

    adjacency = read_edges(Path(path))
    n = len(adjacency)
    L = np.diag(adjacency.sum(1)) - adjacency
    col, row = np.triu_indices(n)  # the lower triangle, column by column
    entry = np.empty((n, n), dtype=np.int64)
    entry[row, col] = entry[col, row] = np.arange(row.size)
    scale = np.where(row == col, 1.0, np.sqrt(2))
    pairs = np.array(np.triu_indices(n, 1))
    p, r = np.concatenate([pairs[:, (pairs != q).all(0)] for q in range(n)], axis=1)
    q = np.repeat(np.arange(n), (n - 1) * (n - 2) // 2)
    half, rows = np.full(p.size, np.sqrt(0.5)), np.tile(np.arange(p.size), 4)
    values = np.concatenate([half, half, -half, -np.ones(p.size)])
    at = np.concatenate([entry[p, q], entry[q, r], entry[p, r], entry[q, q]])
    triangles = sp.csc_array((values, (rows, at)), shape=(p.size, row.size))
    sums = np.zeros((n, row.size))
    sums[row, np.arange(row.size)] = sums[col, np.arange(row.size)] = 1 / scale
    equalities = np.vstack([1.0 * (row == col), sums])
    A = sp.csc_matrix(sp.vstack([sp.csc_array(equalities), triangles, -sp.eye_array(row.size)]))
    b = np.zeros(A.shape[0])
    b[0] = n / 2
    data, cone = {"A": A, "b": b, "c": L[row, col] * scale}, {"z": n + 1, "l": p.size, "s": [n]}
    options = {"eps_abs": 1e-4, "eps_rel": 1e-4, "time_limit_secs": limit, "verbose": False}
    answer = scs.SCS(data, cone, **options).solve()  # auto: a direct factor, by MKL if it is there
    usage = resource.getrusage(resource.RUSAGE_SELF)
    W = np.empty((n, n))
    W[row, col] = W[col, row] = answer["x"] / scale
    y = np.zeros((n, n, n))
    y[p, q, r] = answer["y"][n + 1 : n + 1 + p.size]
    info = {"version": scs.__version__, "linear_solver": answer["info"]["lin_sys_solver"]}
    info |= {"status": answer["info"]["status"], "iterations": answer["info"]["iter"]}
    Path(out).write_text(json.dumps({**counted(usage), **info, **judge(L, W, y)}), encoding="utf-8")


def judge(L: np.ndarray, W: np.ndarray, y: np.ndarray) -> dict:
    """What W and the multipliers y[p, q, r] of the triangles are worth, by our own rules.

    The bound is (n/2) · λ_min of L + A*y on the complement of 1, y ≥ 0: W1 = 0 and Tr W = n/2.
    """
    from condgrad.maps import Triangles

    n = len(L)
    triangles = Triangles(n)
    p, q, r = triangles.triples(np.arange(triangles.size))
    pull = triangles.adjoint(np.maximum(y[p, q, r], 0.0))
    basis = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0][:, 1:]
    v = basis.T @ (L + 0.5 * (pull + pull.T)) @ basis
    bound = n / 2 * np.linalg.eigvalsh(v)[0]
    z, objective = triangles.rows(W), np.vdot(L, W)
    over, spread = np.maximum(z, 0.0), (n * np.trace(W) - W.sum()) / (n * n / 2)
    found = {"objective": objective, "lower_bound": bound, "triangles_max": over.max()}
    found["gap"] = abs(objective - bound) / max(abs(objective), abs(bound))
    found["triangles"] = np.linalg.norm(over) / (1 + np.linalg.norm(z))
    found |= {"equality": abs(spread - 1), "least_eigenvalue": np.linalg.eigvalsh(W)[0]}
    return {key: float(x) for key, x in found.items()}


def table(head: str, rows: list[list[object]]) -> str:
    """A markdown table; numbers with the digits that matter."""

    def show(x: object) -> str:
        return f"{x:.8g}" if isinstance(x, float) else "–" if x is None else str(x)

    names = [name.strip() for name in head.split("|")]
    lines = [names, ["---"] * len(names), *([show(x) for x in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def small(x: float | None) -> str | None:
    """Two digits, for gaps and residuals."""
    return None if x is None else f"{x:.1e}" if x else "0"


def ours(run: dict) -> list[object]:
    """The columns of one run of condgrad."""
    if "rounded" not in run:
        return [run["status"]] + [None] * 11
    relative = max(f["relative"] for f in run["infeasibility"]["families"].values())
    proved = [run["objective"], run["lower_bound"], small(run["gap"]), small(relative)]
    rounded = [run["rounded"]["value"], small(run["rounded"]["gap"])]
    cost = [f"{run['cpu']:.1f}", f"{run['seconds']:.2f}", round(run["megabytes"])]
    return [run["status"], *proved, *rounded, round(run["epochs"]), run["iterations"], *cost]


def versus(s: dict, c: dict) -> list[object]:
    """The columns of SCS, and what condgrad needed."""
    if "objective" not in s or "cpu" not in c:
        return [s["status"]] + [None] * 14
    keys = ("gap", "triangles", "triangles_max", "equality", "least_eigenvalue")
    found = [s["status"], s["iterations"], s["objective"], s["lower_bound"]]
    found += [*(small(s[k]) for k in keys), small(c["gap"])]
    cost = [f"{x['cpu']:.1f}" for x in (s, c)] + [round(x["megabytes"]) for x in (s, c)]
    return [*found, *cost, f"{s['cpu'] / c['cpu']:.1f}"]


def markdown(results: dict) -> str:
    """All tables."""
    done = sorted(results.items(), key=lambda r: NAMES.index(r[0]) if r[0] in NAMES else len(NAMES))
    columns = "status | objective | lower bound | gap | infeasibility | cut | cut's gap | epochs"
    columns += " | iterations | CPU s | method s | MB"
    asked = [(name, r, gap) for name, r in done for gap in GAPS if f"condgrad {gap}" in r]
    runs = [[m, r["n"], KNOWN.get(m), g, *ours(r[f"condgrad {g}"])] for m, r, g in asked]
    parts = [table(f"graph | n | known optimum | gap asked | {columns}", runs)]
    runs = [[name, r["n"], *ours(r["iterate"])] for name, r in done if "iterate" in r]
    parts += ["Without rounded cuts, gap 1e-2:", table(f"graph | n | {columns}", runs)]
    both = [(m, r["n"], r["scs"], r["condgrad 1e-3"]) for m, r in done if "scs" in r]
    runs = [[m, n, *versus(s, c)] for m, n, s, c in both if s["status"] != "skipped"]
    head = "graph | n | SCS | iterations | objective | certified bound | certified gap | triangles"
    head += " | largest | equality | λ_min(W) | condgrad's gap | SCS CPU s | condgrad CPU s"
    head += " | SCS MB | condgrad MB | CPU ratio"
    parts += ["SCS at its default 1e-4 and condgrad at gap 1e-3:", table(head, runs)]
    worse = ", ".join(m for m, _, s, _ in both if s.get("gap", 0) > 1e-3)
    parts += [f"SCS's certified gap is worse than 1e-3 on {worse}."] if worse else []
    measured = max(((n, s["megabytes"]) for _, n, s, _ in both if "megabytes" in s), default=(1, 0))
    for m, n in [(m, n) for m, n, s, _ in both if s["status"] == "skipped"]:
        guess = measured[1] * (n / measured[0]) ** 3 / 1024
        reason = f"about {guess:.0f} GB, estimated from n = {measured[0]}, not measured"
        parts.append(f"SCS skipped on {m}: memory grows as n^3: {reason}.")
    seeds = [(name, *run) for name, r in done for run in r.get("seeds", {}).items()]
    runs = [[m, seed, *ours(run)] for m, seed, run in seeds]
    parts += ["Seeds, gap 1e-3:", table(f"graph | seed | {columns}", runs)]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--graphs", default=",".join(NAMES), help="names by comma")
    parser.add_argument("--scs-limit", type=float, default=400, help="SCS per graph, wall clock")
    parser.add_argument(
        "--limit", type=float, default=300, help="a run without cuts, method seconds"
    )
    parser.add_argument("--out", type=Path, default=Path("certificates.json"))
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        kind, path, out = args.worker
        scs_run(path, out, args.scs_limit) if kind == "scs" else iterate(path, out, args.limit)
        return
    results = json.loads(args.out.read_text(encoding="utf-8")) if args.out.exists() else {}

    def write() -> None:
        args.out.write_text(json.dumps(results, indent=1), encoding="utf-8")
        args.out.with_suffix(".md").write_text(markdown(results), encoding="utf-8")

    def keep(where: dict, key: str, run: dict) -> None:
        where[key] = run
        print(f"{time.strftime('%H:%M:%S')} {name} {key}: {run['status']}", flush=True)
        write()

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run.json"

        def worker(kind: str) -> dict:
            limits = ["--scs-limit", str(args.scs_limit), "--limit", str(args.limit)]
            return measure([__file__, *limits, "--worker", kind, str(path), str(out)], out)

        if args.graphs:  # kernels compiled and cached before the first measurement
            command_line(graph_file("karate_club", Path(folder)), out, 1e-3)
        for name in filter(None, args.graphs.split(",")):
            path = graph_file(name, Path(folder))
            n = int(path.read_text(encoding="utf-8").split(maxsplit=1)[0])
            results[name] = one = {"n": n}
            for gap in GAPS:
                keep(one, f"condgrad {gap}", command_line(path, out, float(gap)))
            keep(one, "scs", worker("scs") if n <= SCS_MOST else {"status": "skipped"})
            keep(one, "iterate", worker("iterate"))
            if name in FILES:
                one["seeds"] = {}
                for seed in range(5):
                    keep(one["seeds"], str(seed), command_line(path, out, 1e-3, seed))
    write()


if __name__ == "__main__":
    main()
