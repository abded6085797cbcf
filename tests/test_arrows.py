"""Imports go one way, and nobody reads another package's private modules."""

import ast
from pathlib import Path

import condgrad

ROOT = Path(condgrad.__file__).parent
LAYERS = (
    ("_signals",),
    (
        "_types",
        "_deadline",
        "_shown",
        "_files",
        "errors",
        "_round",
        "evaluation",
    ),
    ("_progress",),
    ("_floats", "_check", "backends"),
    ("maps",),
    ("points", "functions"),
    ("domains",),
    ("passes", "_ours"),
    ("problem", "schedules"),
    ("certificate",),
    ("methods", "testing"),
    ("cluster",),
    ("run", "theory"),
    ("condgrad",),
    ("applications", "io"),
    ("sdp", "_embedded"),
    ("_adjacency",),
    ("graphs", "cvxpy", "datasets"),
    ("lovasz", "partitions"),
    ("sklearn",),
    ("report", "quadratic"),
    ("record",),
    ("plot", "models"),
    ("html", "experiments"),
    ("cli",),
    ("__main__",),
)
"""Who may import whom: those above, and none beside it."""
PLACE = {unit: i for i, layer in enumerate(LAYERS) for unit in layer}


def imported():
    """(module, module it imports) for every import at run time."""
    for file in sorted(ROOT.rglob("*.py")):
        module = ".".join(file.relative_to(ROOT.parent).with_suffix("").parts)
        tree = ast.parse(file.read_text(encoding="utf-8"))
        checking = [n for n in ast.walk(tree) if isinstance(n, ast.If)]
        checking = [n for n in checking if "TYPE_CHECKING" in ast.unparse(n.test)]
        skipped = {id(n) for c in checking for n in ast.walk(c)}
        for node in ast.walk(tree):
            if id(node) in skipped or not isinstance(node, ast.ImportFrom) or not node.module:
                continue
            if node.module.split(".")[0] != "condgrad":
                continue
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                path = ROOT.parent.joinpath(*inner.split("."))
                found = path.is_dir() or path.with_suffix(".py").exists()
                yield module.removesuffix(".__init__"), inner if found else node.module


def unit(module):
    """The package or module at the top that a module belongs to."""
    return module.split(".")[1] if "." in module else "condgrad"


def test_every_module_has_a_place():
    units = {p.stem if p.is_file() else p.name for p in ROOT.iterdir() if p.suffix in ("", ".py")}
    assert units - {"__pycache__", "__init__", "py"} == set(PLACE) - {"condgrad"}


def test_imports_go_one_way():
    wrong = [
        f"{a} imports {b}"
        for a, b in imported()
        if unit(a) != unit(b) and PLACE[unit(b)] >= PLACE[unit(a)]
    ]
    assert wrong == []


def test_private_modules_are_private():
    wrong = [
        f"{a} imports {b}"
        for a, b in imported()
        if unit(a) != unit(b) and any(part.startswith("_") for part in b.split(".")[2:])
    ]
    assert wrong == []
