"""Run pytest as on another processor: one with AVX2 but without AVX-512.

    python .ci/elsewhere.py [--all] [arguments of pytest]

NumPy, OpenBLAS and Numba choose their code by the processor, and sums come out differently in the
last digits. Without --all the slow tests are left out, and those of files and pictures, which do
not compute. On a processor that is no x86-64 this is a plain run.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys

SAME = (
    *("test_datasets.py", "test_datasets_content.py", "test_experiments.py"),
    *("test_experiments_tables.py", "test_html_report.py", "test_io_any.py", "test_io_graphs.py"),
    *("test_interrupt_program.py", "test_io_tables.py", "test_plot.py", "test_round.py"),
    *("test_saved_runs.py", "test_sdpa.py", "test_sdpa_fuzz.py", "test_arrows.py", "test_docs.py"),
    *("test_bad_input.py", "test_cli.py", "test_memory.py", "test_threads.py", "test_clock.py"),
    *("test_sklearn_completion.py", "test_sklearn_clustering.py", "test_errors.py"),
    *("test_bare.py", "test_cuda_source.py", "test_device_rows.py", "test_device.py"),
    *("test_run.py", "test_keepers.py", "test_own_domain.py", "test_checks.py", "test_theory.py"),
    *("test_checks_domains.py", "test_interrupt.py", "test_answers.py", "test_cli_sdp.py"),
    *("test_cvxpy_batched.py", "test_cvxpy_stats.py", "test_signals.py", "test_outputs.py"),
    *("test_files.py", "test_hostile.py", "test_checkpoint_doors.py", "test_deadline.py"),
    *("test_device_large.py", "test_pickles.py", "test_kernel_cache.py", "test_io_limits.py"),
)
"""Tests of readers, texts, records, pictures and limits, of runs that are compared with themselves,
of bounds of the theory, which are far, and of doors to what others try."""


def switches() -> dict[str, str]:
    """The environment that hides AVX-512."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return {}
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    wide = [f for f in __cpu_dispatch__ if f.startswith("AVX512") or f == "X86_V4"]
    return {
        "NPY_DISABLE_CPU_FEATURES": " ".join(f for f in wide if __cpu_features__.get(f)),
        "OPENBLAS_CORETYPE": "Haswell",
        "NUMBA_CPU_NAME": "haswell",
        "NUMBA_CPU_FEATURES": "-avx512f",  # else those of this processor stay on
    }


def main() -> int:
    """Run pytest; return its exit code."""
    arguments = sys.argv[1:]
    fast = "--all" not in arguments
    options = ["-m", "not slow", *(f"--ignore=tests/{name}" for name in SAME)] if fast else []
    rest = [argument for argument in arguments if argument != "--all"]
    found = switches()
    print(" ".join(f"{name}='{value}'" for name, value in found.items()), flush=True)
    command = [sys.executable, "-m", "pytest", *options, *rest]
    return subprocess.run(command, env={**os.environ, **found}, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
