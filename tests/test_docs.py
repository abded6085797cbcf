"""The examples of README and docs run: every page in one namespace, from top to bottom."""

from __future__ import annotations

import ast
import doctest
import re
import runpy
import shlex
import sys
import tomllib
from pathlib import Path

import pytest
import typer.main

from condgrad import METHODS, Status, cli

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text()
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(p for p in DOCS.rglob("*.md") if "_build" not in p.parts),
]
FENCE = re.compile(r"^```(python|console|sh)\n(.*?)^```", re.DOTALL | re.MULTILINE)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL


def fences(page):
    """The kind, the text and the line of every code block of a page that is tested."""
    text = page.read_text()
    return [(m[1], m[2], text.count("\n", 0, m.start()) + 1) for m in FENCE.finditer(text)]


def name_of(page):
    return str(page.relative_to(ROOT))


def run_examples(code, names, page, line):
    """Run a block with prompts; what it prints is compared."""
    test = doctest.DocTestParser().get_doctest(code, names, name_of(page), str(page), line)
    test.globs, complaints = names, []
    doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=complaints.append, clear_globs=False)
    return "".join(complaints)


def run_program(code, monkeypatch, capsys):
    """Run `$ condgrad …` in this process; the lines below a command are what it prints."""
    complaints = []
    for command, _, wanted in (
        part.partition("\n") for part in re.split(r"^\$ ", code, flags=re.M)
    ):
        if not command:
            continue
        monkeypatch.setattr(sys, "argv", shlex.split(command))
        capsys.readouterr()
        with pytest.raises(SystemExit):
            cli.main()
        got = "".join(capsys.readouterr())
        if not doctest.OutputChecker().check_output(wanted, got, OPTIONS):
            complaints.append(f"{command}\nexpected:\n{wanted}\ngot:\n{got}")
    return "\n".join(complaints)


def unknown(line):
    """What a shell line asks for that does not exist: an option, a target, an extra."""
    words = shlex.split(line, comments=True)
    if words[0].endswith("condgrad"):
        command, words = typer.main.get_command(cli.app), words[1:]
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        command.make_context(command.name, words)
        return set()
    if words[0] == "make":
        return {w for w in words[1:] if f"\n{w}:" not in (ROOT / "Makefile").read_text()}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    return {extra for list_ in re.findall(r"\[(.*?)\]", line) for extra in list_.split(",")} - {
        *extras
    }


@pytest.mark.parametrize("page", [p for p in PAGES if fences(p)], ids=name_of)
def test_page_runs(page, tmp_path, monkeypatch, capsys, clock):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    clock.tick = 1e-3  # seconds that examples allow are as long everywhere
    names = {"__name__": "__main__"}
    for kind, code, line in fences(page):
        if kind == "console":
            wrong = run_program(code, monkeypatch, capsys)
        elif kind == "sh":
            wrong = set().union(*(unknown(text) for text in code.splitlines() if text.strip()))
        elif code.startswith(">>> "):
            wrong = run_examples(code, names, page, line)
        else:
            exec(compile("\n" * line + code, str(page), "exec"), names)
            wrong = ""
        assert not wrong, f"{name_of(page)}:{line}: {wrong}"
    assert fences(page)


def test_template_runs(capsys):
    names = runpy.run_path(str(ROOT / "examples" / "template.py"))
    assert capsys.readouterr().out.startswith("PDHG: objective 0.004")
    assert names["result"].status is Status.CONVERGED


def test_every_page_is_in_the_table_of_contents():
    listed = set()
    for index in (DOCS / "index.md", DOCS / "api" / "index.md"):
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", index.read_text(), re.DOTALL):
            entries = [line for line in tree.splitlines() if line and not line.startswith(":")]
            listed |= {(index.parent / f"{entry}.md").resolve() for entry in entries}
    assert listed == {p for p in PAGES if DOCS in p.parents} - {DOCS / "index.md"}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_name_files_that_exist(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text)]
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing
    assert "[](" not in text, "a link without text is not seen where Markdown is shown as it is"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_brackets_of_prose_are_in_pairs(page):
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    prose = re.sub(r"(`+).+?\1|\$+.+?\$+", "", text, flags=re.DOTALL)
    assert [p for p in prose.split("\n\n") if p.count("[") != p.count("]")] == []


def test_docstrings_stand_alone():
    """Those of attributes too: on a page of the API each is without the one before it."""
    wrong = [
        f"{path.name}:{node.lineno}"
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(text := node.value.value, str)
        and re.search(r"\A\s*(…|\.\.\.)|(…|\.\.\.)\s*\Z", text)
    ]
    assert wrong == []


@pytest.fixture(scope="module")
def markup():
    return runpy.run_path(str(DOCS / "markup.py"))


def test_method_table_is_the_registry(markup):
    head, rule, *rows = markup["method_table"]().splitlines()
    assert [row.split(" | ")[0] for row in rows] == [f"| `{slug}`" for slug in METHODS]
    assert all(row.count("|") == head.count("|") == rule.count("|") for row in rows)
    assert markup["method_table"]() in (DOCS / "methods.md").read_text()


@pytest.mark.parametrize(
    ("docstring", "wanted"),
    [
        ("|a − b| and A*y, *best* of `h*`", r"\|a − b\| and A\*y, *best* of `h*`"),
        ("labels_ : array\n    the labels_.", "labels_ : array\n    the labels\\_."),
        (".. math:: a|b\n          h*\n\nh*", ".. math:: a|b\n          h*\n\nh\\*"),
        (">>> 2 * 3\n6*\n\nh*", ">>> 2 * 3\n6*\n\nh\\*"),
        ("as in [1]_.\n\n.. [1] A\n   book", "as in [1].\n\n1. A\n   book"),
        ("**options\n    More.", "**options\n    More."),
    ],
)
def test_docstrings_are_mended(markup, docstring, wanted):
    assert markup["mended"](docstring) == wanted


@pytest.mark.parametrize(("name", "length"), [("plot_methods", "20"), ("plot_lemmas", "200")])
def test_plot_examples(tmp_path, monkeypatch, name, length):
    picture = tmp_path / "picture.png"
    monkeypatch.setattr("sys.argv", [name, str(picture), length])
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"))
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "CITATION.cff"])
def test_house_files_are_there(name):
    assert (ROOT / name).read_text().strip()


NUMBER = re.compile(r"\d+\.?\d*(?:e-?\d+)?")


def test_readme_shows_the_output_of_its_example(capsys):
    code, shown = re.search(r"```python\n(.*?)```\s+```text\n(.*?)```", README, re.DOTALL).groups()
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", shown).split()
    (value, bound, _, *counts), (*said, percent, of, n) = (
        [float(x) for x in NUMBER.findall(text)] for text in (printed, shown)
    )
    assert [value, bound] == pytest.approx(said, rel=1e-3)  # the gap that is asked for
    assert bound <= value * (1 + 1e-6)
    assert percent <= 0.1
    assert counts == [of, n]


def test_readme_names_the_two_commands():
    assert "make demo" in README
    assert "make test" in README
