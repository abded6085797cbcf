"""What SCS, Clarabel and scikit-learn do in some of these cases: `python tests/faults/others.py`.

Prints the rows of the tables in docs/reliability.md. Every case runs in a process of its own, so
that a crash is a result; nothing is asserted.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp

sys.path.insert(0, str(Path(__file__).parents[1]))
import hostile

RNG = np.random.default_rng(17)
ARRAYS = ("float16", "big-endian", "longdouble", "object", "masked", "complex", "datetime64",
          "nan", "inf", "1e308 in one place", "1e160", "1e-160")  # fmt: skip


def triangle(n, upper):
    """Positions of a triangle, column by column, and the factor √2 off the diagonal."""
    pairs = [(i, j) for j in range(n) for i in (range(j + 1) if upper else range(j, n))]
    i, j = np.array(pairs).T
    return i, j, np.where(i == j, 1.0, np.sqrt(2.0))


def max_cut(n, upper):
    """Cost C and the rows: diag W = 1 and W in the cone."""
    C = np.round(RNG.standard_normal((n, n)), 2)
    C = C + C.T
    i, j, factor = triangle(n, upper)
    at = np.flatnonzero(i == j)
    ones = sp.csc_matrix((np.ones(n), (np.arange(n), at)), shape=(n, i.size))
    A = sp.vstack([ones, -sp.eye(i.size)], format="csc")
    return C[i, j] * factor, A, np.concatenate([np.ones(n), np.zeros(i.size)])


def scs_solve(given=None, n=6, **options):
    import scs

    c, A, b = max_cut(n, upper=False)
    c = c if given is None else hostile.KINDS[given](c)
    solver = scs.SCS({"A": A, "b": b, "c": c}, {"z": n, "s": [n]}, verbose=False, **options)
    found = solver.solve()
    return found["info"]["status"], found["info"]["pobj"], found["info"]["iter"]


def clarabel_solve(given=None, n=6, **options):
    import clarabel

    c, A, b = max_cut(n, upper=True)
    c = c if given is None else hostile.KINDS[given](c)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    for name, value in options.items():
        setattr(settings, name, value)
    cones = [clarabel.ZeroConeT(n), clarabel.PSDTriangleConeT(n)]
    P = sp.csc_matrix((c.size, c.size))
    found = clarabel.DefaultSolver(P, c, A, b, cones, settings).solve()
    return str(found.status), found.obj_val, found.iterations


def sklearn_solve(given=None, n=60, k=3, n_init=1, **options):
    from sklearn.cluster import KMeans

    X = np.round(np.random.default_rng(17).standard_normal((n, 2 if n < 1000 else 50)), 2)
    X = X if given is None else hostile.KINDS[given](X)
    found = KMeans(k, random_state=0, n_init=n_init, **options).fit(X)
    return "fitted", found.inertia_, found.n_iter_


def condgrad_solve(given=None, n=6, **options):
    from condgrad.sdp import SDP

    C = np.round(np.random.default_rng(17).standard_normal((n, n)), 2)
    C = C + C.T
    C = C if given is None else hostile.KINDS[given](C)
    rows = sp.csr_array((np.ones(n), (np.arange(n), np.arange(n) * (n + 1))), shape=(n, n * n))
    found = SDP(C).subject_to_rows(rows, "==", 1.0).solve(**options)
    return found.status.name, found.value, found.bound


SOLVERS = {
    "condgrad": condgrad_solve,
    "SCS": scs_solve,
    "Clarabel": clarabel_solve,
    "scikit-learn": sklearn_solve,
}


def said(call):
    """What a call answers or raises, with its warnings, in a line."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        try:
            status, value, _ = call()
            text = f"{status}, value {value:.6g}"
        except BaseException as error:
            text = f"{type(error).__name__}: {' '.join(str(error).split())[:90]}"
    return text + "".join(f" [{w.category.__name__}]" for w in found[:2])


def child(who, what, *more):
    """One case, in this process."""
    if what in hostile.KINDS:
        print(said(lambda: SOLVERS[who](what)))
    elif what == "plain":
        print(said(lambda: SOLVERS[who]()))
    elif what == "clock":
        limits = {
            "condgrad": {"n": 300, "gap": 1e-12, "max_seconds": 5.0},
            "SCS": {"n": 300, "eps_abs": 1e-14, "eps_rel": 1e-14, "max_iters": 10**8,
                    "time_limit_secs": 5.0},
            "Clarabel": {"n": 100, "time_limit": 5.0, "tol_gap_abs": 1e-16, "tol_gap_rel": 1e-16,
                         "tol_feas": 1e-16},
        }  # fmt: skip
        SOLVERS[who]()
        begin = time.perf_counter()
        text = said(lambda: SOLVERS[who](**limits[who]))
        print(f"{time.perf_counter() - begin:.1f} s, {text}")
    elif what == "signal":
        long = {
            "condgrad": {"n": 300, "gap": 1e-12, "max_seconds": 300.0},
            "SCS": {"n": 300, "eps_abs": 1e-14, "eps_rel": 1e-14, "max_iters": 10**8},
            "Clarabel": {"n": 150},
            "scikit-learn": {"n": 200_000, "k": 300, "n_init": 20, "tol": 0.0},
        }
        SOLVERS[who]()
        print("go", flush=True)
        print(said(lambda: SOLVERS[who](**long[who])), flush=True)
    elif what == "memory":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (int(more[0]) << 20,) * 2)
        limit = {"max_seconds": 20.0} if who == "condgrad" else {}
        print(said(lambda: SOLVERS[who](n=int(more[1]), **limit)))
    elif what == "pickle":
        import pickle

        pickle.loads(pickle.dumps(scs_solver() if who == "SCS" else clarabel_found()))
        print("copied")


def scs_solver():
    import scs

    c, A, b = max_cut(4, upper=False)
    return scs.SCS({"A": A, "b": b, "c": c}, {"z": 4, "s": [4]}, verbose=False)


def clarabel_found():
    import clarabel

    c, A, b = max_cut(4, upper=True)
    cones = [clarabel.ZeroConeT(4), clarabel.PSDTriangleConeT(4)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    P = sp.csc_matrix((c.size, c.size))
    return clarabel.DefaultSolver(P, c, A, b, cones, settings).solve()


def warm_start():
    """Whether 100 iterations of SCS and 100 more from there are 200 iterations."""
    import scs

    c, A, b = max_cut(30, upper=False)
    data, cone = {"A": A, "b": b, "c": c}, {"z": 30, "s": [30]}
    options = {"verbose": False, "eps_abs": 1e-14, "eps_rel": 1e-14}
    whole = scs.SCS(data, cone, max_iters=200, **options).solve()
    half = scs.SCS(data, cone, max_iters=100, **options).solve()
    again = scs.SCS(data, cone, max_iters=100, **options)
    rest = again.solve(warm_start=True, x=half["x"], y=half["y"], s=half["s"])
    return float(np.abs(rest["x"] - whole["x"]).max())


def ask(who, what, *more, timeout=180):
    command = [sys.executable, __file__, who, what, *map(str, more)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return f"no answer in {timeout} s"
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [""])[-1][:100]
        return f"exit code {done.returncode}: {last}"
    return done.stdout.strip()


def interrupted(who, number):
    """Seconds from a signal to the end of the process, its exit code and its words."""
    command = [sys.executable, __file__, who, "signal"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdout.readline()
        time.sleep(3)
        if process.poll() is not None:
            return "it had ended by itself: " + process.stdout.read().strip()
        begin = time.perf_counter()
        process.send_signal(number)
        try:
            out, _ = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            return "no end in 60 s"
        seconds = time.perf_counter() - begin
        return f"{seconds:.1f} s, exit code {process.returncode}, {out.strip() or 'no word'}"


def main():
    for what in ("plain", *ARRAYS):
        for who in SOLVERS:
            print(f"{what} | {who} | {ask(who, what)}", flush=True)
    for who in ("condgrad", "SCS", "Clarabel"):
        print(f"limit of 5 s | {who} | {ask(who, 'clock')}", flush=True)
        print(f"side 2500 in 3 GiB | {who} | {ask(who, 'memory', 3072, 2500)}", flush=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        for who in SOLVERS:
            print(f"{number.name} | {who} | {interrupted(who, number)}", flush=True)
    for who in ("SCS", "Clarabel"):
        print(f"pickle | {who} | {ask(who, 'pickle')}", flush=True)
    print(f"warm start | SCS | differs from the unbroken run by {warm_start():.1e}")


if __name__ == "__main__":
    child(*sys.argv[1:]) if len(sys.argv) > 1 else main()
