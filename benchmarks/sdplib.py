"""SDPLIB instances, condgrad beside CSDP: the table of docs/sdplib.md.

    python benchmarks/sdplib.py [NAME …] [--seconds 60] [--alone]

Needs the folder `sdplib` in the folder named by CONDGRAD_DATA, with the files and `sdplib.csv`.
Every run has a process of its own and one thread; the seconds are those of the wall, from the start
of the process to its end. CSDP is the program `csdp`, where it is installed, with its own
tolerances and the same limit.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from proved import up

ONE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
COLUMNS = (
    *("instance", "side", "rows", "published", "value", "bound", "gap", "DIMACS 1", "status"),
    *("seconds", "CSDP s"),
)


def ours(path: Path, seconds: float) -> tuple[dict, float]:
    """The JSON of `condgrad solve sdp`, and seconds."""
    command = [sys.executable, "-m", "condgrad", "solve", "sdp", str(path), "--quiet"]
    began = time.perf_counter()
    out = subprocess.run(
        [*command, "--seconds", str(seconds), "--json", "-"],
        env={**os.environ, **ONE},
        capture_output=True,
        check=True,
    )
    return json.loads(out.stdout), time.perf_counter() - began


def csdp(path: Path, seconds: float) -> str:
    """Seconds of CSDP, or what happened."""
    if shutil.which("csdp") is None:
        return "not installed"
    data = path.read_bytes()
    if path.suffix == ".gz":
        import gzip

        data = gzip.decompress(data)
    plain = Path("csdp-input.dat-s")
    plain.write_bytes(data)
    began = time.perf_counter()
    try:
        found = subprocess.run(
            ["csdp", str(plain)],
            env={**os.environ, **ONE},
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"> {seconds:.0f}"
    finally:
        plain.unlink()
    took = f"{time.perf_counter() - began:.2f}"
    return took if found.returncode == 0 else f"{took} (code {found.returncode})"


def number(value: float | None, write: Callable[[float], str]) -> str:
    """A number of the JSON, which has null for infinite ones."""
    return "–" if value is None else write(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--alone", action="store_true", help="without CSDP")
    args = parser.parse_args()
    folder = Path(os.environ["CONDGRAD_DATA"]) / "sdplib"
    with (folder / "sdplib.csv").open(newline="", encoding="utf-8") as file:
        rows = [r for r in csv.DictReader(file) if not args.names or r["name"] in args.names]
    print("| " + " | ".join(COLUMNS) + " |")
    print("|" + "---|" * len(COLUMNS), flush=True)
    for r in rows:
        run, took = ours(folder / r["file"], args.seconds)
        cells = [r["name"], r["n"], r["m"], r["published_optimal_value"] or r["published_status"]]
        cells += [
            number(run["value"], "{:.6g}".format),
            number(run["bound"], partial(up, digits=6)),
        ]
        cells += [number(run.get("gap"), partial(up, digits=2))]
        cells += [number(run["dimacs"]["primal"], "{:.1e}".format)]
        cells += [run["status"], f"{took:.1f}"]
        cells.append("not run" if args.alone else csdp(folder / r["file"], 4 * args.seconds))
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
