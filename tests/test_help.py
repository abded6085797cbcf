"""What the program says of itself: help texts, and options that pages and messages name."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import pydoc
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy as sp
import typer

import condgrad
from condgrad import cli

ROOT = Path(__file__).parents[1]
SOURCE = Path(condgrad.__file__).parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
OPTION = re.compile(r"(?<![\w(-])--[a-z][a-z0-9]*(?:-[a-z0-9]+)*")


def commands(command=None, words=()):
    """Every command of the program by its words."""
    command = command or typer.main.get_command(cli.app)
    found = {words: command}
    for name, own in getattr(command, "commands", {}).items():
        found |= commands(own, (*words, name))
    return found


def options(command):
    names = [name for p in command.params for name in (*p.opts, *p.secondary_opts)]
    return {name for name in names if name.startswith("--")} | {"--help"}


ALL = set().union(*(options(command) for command in commands().values()))


def sentences(path):
    """The texts of a module that users may read, if it names an option at all."""
    source = path.read_text(encoding="utf-8")
    nodes = ast.walk(ast.parse(source)) if OPTION.search(source) else ()
    texts = [str(n.value) for n in nodes if isinstance(n, ast.Constant) and type(n.value) is str]
    return [text for text in texts if "color-scheme" not in text]  # a style sheet has its own names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_that_a_page_names_exist(page):
    own = [
        line
        for line in page.read_text(encoding="utf-8").splitlines()
        if not re.search(r"benchmarks/|\bpip\b|pytest|\bgit\b", line)
    ]
    assert set(OPTION.findall("\n".join(own))) <= ALL


def test_options_that_messages_name_exist():
    named = {
        (path.name, option)
        for path in SOURCE.rglob("*.py")
        for text in sentences(path)
        for option in OPTION.findall(text)
        if option not in ALL
    }
    assert named == set()


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_help(words, monkeypatch, capsys):
    """Every command has one, with every option explained, and what the exit code means."""
    command = commands()[words]
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "argv", ["condgrad", *words, "--help"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert not end.value.code
    text = " ".join(capsys.readouterr().out.split())
    for option in options(command):
        assert option in text, option
    assert all(p.help for p in command.params if hasattr(p, "help")), "an option says nothing"
    if not words or words[0] == "solve":
        assert "Exit codes: 0" in text


def test_the_help_leads_to_the_first_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["condgrad"])
    with pytest.raises(SystemExit):
        cli.main()
    text = " ".join("".join(capsys.readouterr()).split())
    assert "Begin with `condgrad demo`" in text
    listed = text.partition("Commands")[2]
    places = [listed.index(f" {name} ") for name in ("demo", "solve", "plot", "methods")]
    assert places == sorted(places)


def test_options_of_the_plain_problem_are_named_in_the_help():
    """The recommender refuses them, so the help of the command says so."""
    from condgrad.cli.ratings import PLAIN_ONLY

    text = commands()["solve", "matrix-completion"].help
    for name in (*PLAIN_ONLY, "preset", "l1"):
        assert f"--{name}" in text


def test_defaults_of_matrix_completion_are_its_own():
    """Those of the other commands are not shown beside them."""
    found = commands()
    helps = {
        words[-1]: {p.name: p.help for p in found[words].params}
        for words in (("solve", "matrix-completion"), ("solve", "max-cut"))
    }
    assert "default: 1e-2, with --plain 1e-3" in helps["matrix-completion"]["gap"]
    assert helps["max-cut"]["gap"].endswith("default: 1e-3.")
    assert "1e-2" not in (found["solve", "matrix-completion"].help or "")


def public():
    """Every public class and function by its name."""
    found = {}
    for info in pkgutil.walk_packages(condgrad.__path__, "condgrad."):
        if not any(part.startswith("_") for part in info.name.split(".")):
            module = importlib.import_module(info.name)
            for name in getattr(module, "__all__", ()):
                found[f"{info.name}.{name}"] = getattr(module, name)
    return found


def test_help_shows_no_manual_of_another_package():
    manuals = [inspect.getdoc(thing).strip()[:30] for thing in (np.ndarray, np, sp)]
    texts = {
        name: pydoc.render_doc(thing, renderer=pydoc.plaintext) for name, thing in public().items()
    }
    assert {"condgrad.functions.Squared", "condgrad.domains.Domain"} < set(texts)
    assert not [name for name, text in texts.items() if any(m in text for m in manuals)]
