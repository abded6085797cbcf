# Two commands do everything on a fresh machine with Python 3.11+ and make:
#   make demo   environment, install, the main job on embedded data
#   make test   environment, install with the test tools, every test
# More for those who change something:
#   make test-elsewhere   tests where the last digits matter, as on a processor without AVX-512
#   make test-gpu         the tests that need a GPU, by the Python that has CuPy
#   make test-faults      kills, signals, full disks, damaged files, limits, a soak: many minutes
#   make wheel            the wheel, in dist/, and a run from it
#   make docs             the documentation; a warning fails
#   make bench            other solvers beside ours, in less than an hour
#   make bench-front      the table of the README, in ten minutes
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# One thread for BLAS: a small eigenproblem can take 80 times longer with the default threads.
export OPENBLAS_NUM_THREADS = 1
export OMP_NUM_THREADS = 1
export MKL_NUM_THREADS = 1

.PHONY: demo test test-elsewhere test-gpu test-faults lint types wheel docs bench bench-front bench-kernels clean

demo: .venv/demo.stamp
	$(BIN)/condgrad demo

test: .venv/dev.stamp
	$(BIN)/python -m pytest -n 2 --dist loadgroup

test-elsewhere: .venv/dev.stamp
	$(BIN)/python .ci/elsewhere.py -n 2

# CuPy belongs to a driver and is often there already: that Python, with pytest, and not ours.
test-gpu:
	PYTHONPATH=src $(PYTHON) -m pytest tests/gpu -rs -W default

# One at a time: these tests kill, limit and time processes of their own.
test-faults: .venv/dev.stamp
	$(BIN)/python -m pytest tests/faults -n 0 -rs -s

lint: .venv/dev.stamp
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: .venv/dev.stamp
	$(BIN)/mypy

wheel: .venv/dev.stamp
	rm -rf dist
	$(BIN)/python -m pip wheel . --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist
	$(BIN)/python .ci/wheel.py dist/*.whl

docs: .venv/docs.stamp
	$(BIN)/sphinx-build -W --keep-going -q -j 2 -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

bench: .venv/bench.stamp
	$(BIN)/python benchmarks/run.py

bench-front: .venv/bench.stamp
	$(BIN)/python benchmarks/run.py --front

bench-kernels: .venv/dev.stamp
	$(BIN)/python -m pytest benchmarks/kernels --benchmark-only --benchmark-columns=median -p no:xdist

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "condgrad needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv .venv

.venv/demo.stamp: .venv/bin/python pyproject.toml
	$(PIP) -e '.[all]'
	touch $@

.venv/dev.stamp: .venv/bin/python pyproject.toml
	$(PIP) -e '.[dev]'
	touch $@ .venv/demo.stamp

.venv/docs.stamp: .venv/bin/python pyproject.toml
	$(PIP) -e '.[docs]'
	touch $@ .venv/demo.stamp

.venv/bench.stamp: .venv/bin/python pyproject.toml
	$(PIP) -e '.[bench]'
	touch $@ .venv/demo.stamp

clean:
	rm -rf .venv build dist docs/_build .mypy_cache .pytest_cache .ruff_cache .benchmarks .hypothesis
