"""Numba's cache read-only, full, cut short, of other versions: compile time and one warning."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import sys

import pytest

import processes

pytest.importorskip("numba")
resource = pytest.importorskip("resource")

SCRIPT = """
import warnings
import numpy as np
import condgrad as cg
from condgrad import backends

with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    A = np.roll(np.eye(9), 1, axis=0)
    cut = cg.sparsest_cut(A + A.T, presolve=False)
print(cut.value.hex(), cut.bound.hex(), float(np.sum(cut.result.W)).hex())
print(len(found))
for warning in found:
    print(warning.message)
print(f"{backends.compile_seconds():.1f} s to compile", flush=True)
"""


def solve(folder, limit=None, **env):
    def prepare():
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    env = {**os.environ, "NUMBA_CACHE_DIR": str(folder), **env}
    done = processes.run(sys.executable, "-c", SCRIPT, env=env, preexec_fn=prepare)
    assert done.returncode == 0, done.stderr
    answer, warned, *more = done.stdout.splitlines()
    print(" ".join(more))
    return answer, int(warned), done.stderr


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    """A folder with compiled kernels, and the answer."""
    folder = tmp_path_factory.mktemp("warm")
    answer, warned, _ = solve(folder)
    assert not warned
    assert any(folder.rglob("*.nbc"))
    return folder, answer


def files(folder, ends):
    found = sorted(path for path in folder.rglob("*") if path.name.endswith(ends))
    assert found
    return found


def cut_short(folder, rng):
    for path in files(folder, (".nbi", ".nbc")):
        data = path.read_bytes()
        path.write_bytes(data[: int(rng.integers(len(data)))])


def flipped(folder, rng):
    for path in files(folder, (".nbi", ".nbc")):
        data = bytearray(path.read_bytes())
        data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(data))


def emptied(folder, rng):
    for path in files(folder, (".nbi", ".nbc")):
        path.write_bytes(b"")


def noise(folder, rng):
    for path in files(folder, (".nbi", ".nbc")):
        path.write_bytes(rng.bytes(4096))


def foreign(folder, rng):
    for path in files(folder, (".nbi", ".nbc")):
        path.write_bytes(pickle.dumps("another version"))


def folders(folder, rng):
    for path in files(folder, (".nbi", ".nbc")):
        path.unlink()
        path.mkdir()


def lost(folder, rng):
    for path in files(folder, ".nbc"):
        path.unlink()


def swapped(folder, rng):
    """As two processes leave it that number their files at the same time."""
    found = files(folder, ".nbc")
    held = [path.read_bytes() for path in found]
    for path, data in zip(found, held[1:] + held[:1], strict=True):
        path.write_bytes(data)


@pytest.mark.parametrize(
    "damage", [cut_short, flipped, emptied, noise, foreign, folders, lost, swapped]
)
def test_damaged(damage, warm, tmp_path, rng):
    folder, answer = shutil.copytree(warm[0], tmp_path / "cache"), warm[1]
    damage(folder, rng)
    found, warned, err = solve(folder)
    assert found == answer
    assert warned <= 1
    assert "Traceback" not in err
    if damage is not folders:  # what stood there has been replaced
        assert solve(folder)[:2] == (answer, 0)


@pytest.mark.parametrize("limit", [0, 100, 20_000])
def test_a_full_disk(limit, warm, tmp_path):
    found, warned, err = solve(tmp_path / "cache", limit)
    assert found == warm[1]
    assert warned <= 1
    assert "Traceback" not in err
    assert solve(tmp_path / "cache")[:2] == (warm[1], 0)


@pytest.mark.parametrize("folder", ["/proc/no-such-folder", __file__, "/dev/null/cache"])
def test_a_folder_that_cannot_be_written(folder, warm):
    for env in ({}, {"NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator"}):
        found, warned, err = solve(folder, **env)
        assert found == warm[1]
        assert warned <= 1
        assert "Traceback" not in err


def test_many_processes_at_a_cold_cache(warm, tmp_path):
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    how = {"env": env, "stdout": processes.PIPE, "text": True}
    with contextlib.ExitStack() as stack:
        call = (sys.executable, "-c", SCRIPT)
        for process in [stack.enter_context(processes.started(*call, **how)) for _ in range(3)]:
            out, _ = process.communicate()
            assert process.returncode == 0
            assert out.splitlines()[:2] == [warm[1], "0"]
    assert solve(tmp_path / "cache")[:2] == (warm[1], 0)


def test_the_package_folder_is_read_where_it_cannot_be_written(tmp_path):
    """As in an image: kernels compiled by one user, run by another who may not write there."""
    source = os.path.dirname(__import__("condgrad").__file__)
    copy = shutil.copytree(source, tmp_path / "lib" / "condgrad", ignore=lambda *_: ["__pycache__"])
    env = {"PYTHONPATH": str(copy.parent), "NUMBA_CACHE_DIR": ""}
    answer, warned, _ = solve("", **env)
    assert not warned
    shipped = len(files(copy, ".nbc"))
    elsewhere = tmp_path / "elsewhere"
    found = solve(elsewhere, **{**env, "NUMBA_CACHE_DIR": str(elsewhere)})
    assert found[:2] == (answer, 0)
    assert shipped == len(files(copy, ".nbc"))
    assert not list(elsewhere.rglob("*.nbc"))
