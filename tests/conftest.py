"""One thread, one hypothesis profile, and the data where there is some."""

import os
import signal
import sys
from pathlib import Path

import pytest

try:
    from hypothesis import HealthCheck, settings
except ImportError:  # a Python that is there for its CuPy, see `make test-gpu`
    settings = None

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

if settings is not None:
    settings.register_profile(
        "condgrad",
        deadline=None,
        derandomize=True,
        database=None,
        max_examples=20,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("condgrad")


@pytest.fixture(scope="session", autouse=True)
def signals():
    """Catch signals that are ignored, as in a shell's background or under nohup.

    They would be ignored in processes, too; one that is caught has its usual effect there.
    """
    kept = {signal.SIGINT: signal.default_int_handler}
    for number in (getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGHUP")):
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, kept.get(number, lambda *_: None))


@pytest.fixture(scope="session")
def data():
    """Folder of the data sets, named by the environment variable CONDGRAD_DATA."""
    folder = os.environ.get("CONDGRAD_DATA")
    if not folder:
        pytest.skip("CONDGRAD_DATA is not set: it names the folder of the data sets")
    if not Path(folder).is_dir():
        pytest.skip("CONDGRAD_DATA does not name a folder")
    return Path(folder)


class Clock:
    """Moves on by `tick` seconds whenever it is read, and by what a test adds to `now`."""

    def __init__(self):
        self.now, self.tick = 0.0, 1e-4

    def __call__(self):
        self.now += self.tick
        return self.now


@pytest.fixture
def clock(monkeypatch):
    """The clock that limits on time and profiles read: tests of them take no time."""
    found = Clock()
    monkeypatch.setattr("time.perf_counter", found)
    return found


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the program in this process; return exit code, standard output and standard error."""

    from condgrad.cli import main  # after the threads are set

    def call(*args):
        monkeypatch.setattr(sys, "argv", ["condgrad", *map(str, args)])
        monkeypatch.setenv("COLUMNS", "160")
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capsys.readouterr()
        return end.value.code or 0, out, err

    return call
