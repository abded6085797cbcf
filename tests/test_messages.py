"""Messages name options that exist."""

import ast
import inspect
import re
from functools import cache
from pathlib import Path

import pytest
import typer

import condgrad as cg
from condgrad import functions, maps, methods
from condgrad.cli.program import app

SOURCE = Path(cg.__file__).parent


@cache
def messages():
    """(file, line, text) of every string in a `raise`, and of those that say how to take less."""
    return list(found())


def found():
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            named = isinstance(node, ast.Assign) and "remedy" in ast.unparse(node.targets[0])
            if isinstance(node, ast.Raise) or named:
                parts = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
                yield file.relative_to(SOURCE), node.lineno, " ".join(map(str, parts))


def options_of(command):
    """All options of a command and of those under it."""
    found = {option for p in command.params for option in (*p.opts, *p.secondary_opts)}
    for inner in getattr(command, "commands", {}).values():
        found |= options_of(inner)
    return found


def test_options_of_the_program():
    known = options_of(typer.main.get_command(app)) | {"--help"}
    assert sum("--" in text for _, _, text in messages()) > 20
    for file, line, text in messages():
        for option in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", text):
            assert option in known, f"{file}:{line} names {option}"


def test_arguments():
    """`name=value` in a message is an argument of something that users call."""
    learn, cvx = pytest.importorskip("condgrad.sklearn"), pytest.importorskip("condgrad.cvxpy")
    from condgrad.sdp import SDP

    modules = (
        cg,
        cg.io,
        cg.applications,
        cg.cluster,
        cg.domains,
        functions,
        maps,
        methods,
        learn,
        cvx,
    )
    known = {"hermitian", "nonneg", "symmetric", "PSD", "solver", "axis", "x"}  # of others
    calls = [getattr(m, name) for m in modules for name in getattr(m, "__all__", dir(m))]
    for call in (*calls, SDP, SDP.solve, cg.Run.advance, *cg.METHODS.values()):
        if callable(call):
            try:
                known |= set(inspect.signature(call).parameters)
            except (TypeError, ValueError):
                continue
    for file, line, text in messages():
        for name in re.findall(r"(?<![\w.\]}])([a-z_]\w*)=(?=['\"\dA-Z\[])", text):
            assert name in known, f"{file}:{line} names {name}="


@pytest.mark.parametrize("door", [cg.sparsest_cut, cg.max_cut])
def test_cuts_have_what_is_recommended(door):
    """Where memory is short a method is, which they take."""
    assert {"method", "weight", "device", "resume", "max_seconds"} <= set(
        inspect.signature(door).parameters
    )
    ring = [[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]]
    options = {"presolve": False} if door is cg.sparsest_cut else {}
    method = cg.h_sag_v2("auto", table_dtype="float32")
    cut = door(ring, method=method, max_seconds=None, **options)
    assert cut.result.method == method.name
    assert cut.gap <= 1e-3
