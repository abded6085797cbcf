"""Try a wheel: it holds every file of the package, and the program runs from it alone.

python .ci/wheel.py dist/condgrad-….whl
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"


def main(wheel: str) -> int:
    """Compare the files, then cut a graph; return an exit code."""
    wanted = {
        path.relative_to(SOURCE).as_posix()
        for path in (SOURCE / "condgrad").rglob("*")
        if path.is_file() and path.suffix not in (".pyc", ".nbi", ".nbc")
    }
    with tempfile.TemporaryDirectory() as made:
        folder = os.path.realpath(made)
        with zipfile.ZipFile(wheel) as archive:
            held = {name for name in archive.namelist() if name.startswith("condgrad/")}
            archive.extractall(folder)
        if held != wanted:
            print(f"{wheel} differs from src in {sorted(held ^ wanted)}")
            return 1
        program = "import condgrad, condgrad.cli as c; print(condgrad.__file__); c.main()"
        found = subprocess.run(
            [sys.executable, "-c", program, "--version"],
            env={**os.environ, "PYTHONPATH": folder},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        print(Path(wheel).name, found.stdout, found.stderr, sep="\n", end="")
        return found.returncode or int(not found.stdout.startswith(folder))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
