"""Run pytest as on another processor: one with AVX2 but without AVX-512.

    python .ci/elsewhere.py [--all] [arguments of pytest]

NumPy, OpenBLAS and Numba choose their code by the processor, and sums come out differently in the
last digits. Without --all these are the fast tests of the files where that matters (`CLOSE`). On a
processor that is no x86-64 this is a plain run.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys

CLOSE = (
    "conformance",
    *("test_certificate_attacks.py", "test_certificate_exact.py", "test_equivalences.py"),
    *("test_factored.py", "test_fused.py"),
    *("test_infeasible.py", "test_magnitudes.py", "test_primal_dual.py"),
    *("test_projections.py", "test_rounding.py", "test_sdp_attacks.py", "test_steps.py"),
    *("test_stretches.py", "test_units.py", "test_vector_sag.py"),
)
"""Where the last digits matter: kernels and their twins, oracles, projections, bounds and proofs
against exact arithmetic, runs that must agree to rounding."""


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
    options = ["-m", "not slow", *(f"tests/{name}" for name in CLOSE)] if fast else []
    rest = [argument for argument in arguments if argument != "--all"]
    found = switches()
    print(" ".join(f"{name}='{value}'" for name, value in found.items()), flush=True)
    command = [sys.executable, "-m", "pytest", *options, *rest]
    return subprocess.run(command, env={**os.environ, **found}, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
