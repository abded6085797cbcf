from __future__ import annotations

import csv
import dataclasses
import gzip
import os
import re
from pathlib import Path

import numpy as np
import pytest

from condgrad.errors import InputError, ProblemError
from condgrad.io import Sdpa, read_sdpa, write_sdpa
from condgrad.io import sdpa as module
from files import DATA, check_refused, needs_data, put

PLAIN = """2
3
2 3 -2
10.0 20.0
0 1 1 1 1.0
0 1 1 2 -0.5
1 2 1 3 2.5
1 3 2 2 4.0
2 1 2 2 1e-3
"""
HEAD = "2\n3\n2 3 -2\n10.0 20.0\n"
ENTRIES = [
    (0, 0, 0, 0, 1),
    (0, 0, 0, 1, -0.5),
    (1, 1, 0, 2, 2.5),
    (1, 2, 1, 1, 4),
    (2, 0, 1, 1, 1e-3),
]
ARRAYS = ("c", "matrix", "block", "row", "col", "value")


def same(a: Sdpa, b: Sdpa) -> bool:
    arrays = all(getattr(a, f).tobytes() == getattr(b, f).tobytes() for f in ARRAYS)
    return arrays and a.blocks == b.blocks and a.comment == b.comment


def entries(data: Sdpa) -> list[tuple[float, ...]]:
    columns = (data.matrix, data.block, data.row, data.col, data.value)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def dense(data: Sdpa) -> np.ndarray:
    """Return F_0..F_m as one array (m + 1) x n x n."""
    sides = np.abs(data.blocks)
    start = np.cumsum(sides) - sides
    matrices = np.zeros((len(data.c) + 1, sides.sum(), sides.sum()))
    i, j = start[data.block] + data.row, start[data.block] + data.col
    matrices[data.matrix, i, j] = matrices[data.matrix, j, i] = data.value
    return matrices


def test_plain_file(tmp_path):
    data = read_sdpa(put(tmp_path, "a.dat-s", PLAIN))
    assert data.c.tolist() == [10, 20]
    assert data.blocks == (2, 3, -2)
    assert entries(data) == ENTRIES
    assert data.comment == ""
    assert {getattr(data, f).dtype.str[1:] for f in ("matrix", "block", "row", "col")} == {"i8"}
    assert {data.c.dtype.str[1:], data.value.dtype.str[1:]} == {"f8"}
    assert dense(data)[1][[2, 4, 6], [4, 2, 6]].tolist() == [2.5, 2.5, 4.0]


ODD = {
    "remarks": PLAIN.replace("2\n3\n2 3 -2", "2 =mDIM\n3 = nBLOCK\n2 3 -2 = bLOCKsTRUCT", 1),
    "remarks that touch": PLAIN.replace(
        "2\n3\n2 3 -2", "2=mDIM\n3: blocks\n(2,3,-2)=bLOCKsTRUCT", 1
    ),
    "parentheses": PLAIN.replace("2 3 -2", "(2, 3, -2)", 1),
    "braces": PLAIN.replace("2 3 -2", "{2,3,-2}", 1).replace("10.0 20.0", "{+10.0,+20.0}"),
    "floats for sizes": PLAIN.replace("2\n3\n2 3 -2", "+2\n3.0\n2.0 +3 -2.0e0", 1),
    "c over lines": PLAIN.replace("10.0 20.0", "{10.0,\n\n 20.0\n}"),
    "c in Fortran": PLAIN.replace("10.0 20.0", "1.0D+01 .2d2"),
    "value in Fortran": PLAIN.replace("1e-3", "1.0D-03"),
    "tabs, commas, braces": PLAIN.replace("1 2 1 3 2.5", "{\t1, 2,1\t3 ,+2.5e+0}"),
    "indices as floats": PLAIN.replace("1 2 1 3 2.5", "1.0 2. 1.0e0 3 2.5"),
    "below the diagonal": PLAIN.replace("0 1 1 2", "0 1 2 1").replace("1 2 1 3", "1 2 3 1"),
    "zeros": PLAIN + "2 3 1 1 0\n2 2 1 1 -0.0\n",
    "blank lines": "\n \n" + PLAIN.replace("\n", "\n\n\t\n") + "\n\n",
    "no last newline": PLAIN.rstrip("\n"),
    "line ends of Windows": PLAIN.replace("\n", "\r\n"),
    "line ends of old Macs": PLAIN.replace("\n", "\r"),
    "byte order mark": "\ufeff" + PLAIN,
}


@pytest.mark.parametrize("name", ["a.dat-s", "a.dat-s.gz"])
@pytest.mark.parametrize("form", ODD)
def test_odd_forms_mean_the_same(form, name, tmp_path):
    assert ODD[form] != PLAIN
    plain = read_sdpa(put(tmp_path, "plain", PLAIN))
    assert same(read_sdpa(put(tmp_path, name, ODD[form])), plain)


def test_comments(tmp_path):
    text = '"Example 1: mDim = 2"\n* second \u00e9\n\n  "third\n*\n**4*\n' + PLAIN
    data = read_sdpa(put(tmp_path, "a", text))
    assert data.comment == "Example 1: mDim = 2\nsecond \u00e9\nthird\n\n*4*"
    assert entries(data) == ENTRIES


@pytest.mark.parametrize("size", [1, -1])
def test_blocks_of_side_one_stay_as_written(size, tmp_path):
    data = read_sdpa(put(tmp_path, "a", f"1\n1\n{size}\n-0.0\n1 1 1 1 3\n"))
    assert data.blocks == (size,)
    assert str(data.c[0]) == "-0.0"
    assert entries(data) == [(1, 0, 0, 0, 3)]


@pytest.mark.parametrize(("c", "last"), [("1 2 3 4 5 6\n", 1), ("1\n2 3 4 5 6\n", 6)])
def test_c_that_ends_like_an_entry_is_taken_where_there_is_no_doubt(c, last, tmp_path):
    data = read_sdpa(put(tmp_path, "a", f"6\n1\n3\n{c}{last} 1 1 1 1\n"))
    assert data.c.tolist() == [1, 2, 3, 4, 5, 6]


REFUSED = [
    ('"only comments\n', None, "ends before m"),
    ("2\n", None, "ends before the number of blocks"),
    ("2\n3\n", None, "ends before the sizes"),
    ("2\n3\n2 3 -2\n10.0\n", None, "before number 2 of the 2 of c"),
    (HEAD, None, "truncated"),
    (HEAD + "1 1 1 1 0\n", None, "no entry other than zero"),
    ("0\n1\n2\n\n0 1 1 1 1\n", 1, "at least 1 constraint"),
    ("-3\n1\n2\n", 1, "at least 1 constraint"),
    ("2\n0\n\n1 2\n0 1 1 1 1\n", 2, "at least 1 is needed"),
    ("two\n", 1, "'two' is not a whole number"),
    ("2x\n", 1, "not a whole number"),
    ("2.5\n", 1, "not a whole number"),
    ("1e999\n", 1, "not a whole number"),
    ("nan\n", 1, "not a whole number"),
    ("1_0\n", 1, "not a whole number"),
    ("10,000\n", 1, "one more number after m"),
    ("2 3\n", 1, "one more number after m"),
    ("2 = 3\n", 1, "one more number after m"),
    ("100000001\n", 1, "too large"),
    ("1\n999999999999\n", 2, "too large"),
    ("1\n2\n90000000 -90000000\n1\n", 3, "add up to 180000000"),
    ("1\n2\n3\n1\n", 3, "expected the sizes of 2 blocks"),
    ("1\n2\n3 = sizes\n1\n", 3, "expected the sizes of 2 blocks"),
    ("1\n2\n3 4 5\n1\n", 3, "one more number"),
    ("1\n2\n3 0\n1\n", 3, "block 2 has size 0"),
    ("1\n2\n3-4\n1\n", 3, "not a whole number"),
    ("1\n2\n3 4.5\n1\n", 3, "not a whole number"),
    ("2\n1\n3\n1 x\n", 4, "'x' is not a finite number"),
    ("2\n1\n3\n1\nnan\n", 5, "'nan' is not a finite number"),
    ("2\n1\n3\n1 1e999\n", 4, "not a finite number"),
    ("2\n1\n3\n1 2 3\n", 4, "ends with number m = 2"),
    ("2\n1\n3\n1\n0 1 1 1 1\n", 5, "ends with number m = 2"),
    ("2\n1\n3\n1 2 = c\n", 4, "'=' is not a finite number"),
    ("7\n1\n3\n1 2\n0 1 1 1 1\n1 1 1 1 1\n2 1 1 1 1\n", 5, "is m too large?"),
    (HEAD + "0 1 1 1\n", 5, "expected 'matrix block i j value'"),
    (HEAD + "\n0 1 1 1 1 1\n", 6, "expected 'matrix block i j value'"),
    (HEAD + "0 1 1 1 1\n* late\n", 6, "expected 'matrix block i j value'"),
    (HEAD + "0 1 1 1 1\n0 1 1\n2 1\n", 6, "expected 'matrix block i j value'"),
    (HEAD + "0 1 1 1 x\n", 5, "'x' is not a finite number"),
    (HEAD + "0 1 1 1 inf\n", 5, "'inf' is not a finite number"),
    (HEAD + "0 1 1 1 1e400\n", 5, "'1e400' is not a finite number"),
    (HEAD + "0 1 1 1 1-2\n", 5, "'1-2' is not a finite number"),
    (HEAD + "0 1 1 1 0x1\n", 5, "'0x1' is not a finite number"),
    (HEAD + "0 1 1 1 1_0\n", 5, "'1_0' is not a finite number"),
    (HEAD + "0 1 1 1 \u0661\n", 5, "is not a finite number"),
    (HEAD + "0 1 1 1 1\n3 1 1 1 1\n", 6, "matrix 3 is not a whole number in 0..2"),
    (HEAD + "-1 1 1 1 1\n", 5, "matrix -1 is not a whole number in 0..2"),
    (HEAD + "0.5 1 1 1 1\n", 5, "matrix 0.5 is not a whole number"),
    (HEAD + "0 0 1 1 1\n", 5, "block 0 is not a whole number in 1..3"),
    (HEAD + "0 4 1 1 1\n", 5, "block 4 is not a whole number in 1..3"),
    (HEAD + "0 1 0 1 1\n", 5, "row 0 is not a whole number in 1..2, block 1 having size 2"),
    (HEAD + "0 1 1 3 0\n", 5, "column 3 is not a whole number in 1..2"),
    (HEAD + f"0 1 1 {'9' * 30} 1\n", 5, "column 1e+30 is not"),
    (HEAD + "0 3 1 2 1\n", 5, "off the diagonal of block 3 of size -2"),
    (PLAIN + "0 1 1 2 -0.5\n", 10, "entry 1, 2 given twice, first on line 6"),
    (PLAIN + "0 1 2 1 -0.5\n", 10, "entry 2, 1 given twice, first on line 6"),
    (PLAIN + "0 1 1 2 0\n", 10, "given twice"),
    (PLAIN + "0 1 1 2 0\n9 9 9 9 9\n", 10, "given twice"),
]


@pytest.mark.parametrize(("text", "line", "word"), REFUSED)
def test_refused_with_the_line(text, line, word, tmp_path):
    with pytest.raises(InputError, match=re.escape(word)) as caught:
        read_sdpa(put(tmp_path, "a.dat-s", text))
    assert caught.value.line == line


def test_files_that_are_no_text(tmp_path):
    check_refused(read_sdpa, tmp_path / "none", None, "No such file")
    check_refused(read_sdpa, put(tmp_path, "empty", ""), None, "empty")
    check_refused(read_sdpa, put(tmp_path, "nul", b"2\n\0\n"), 2, "NUL")
    check_refused(read_sdpa, put(tmp_path, "latin", b"2\n3\n\xe9\n"), 3, "UTF-8")
    whole = gzip.compress(PLAIN.encode())
    (tmp_path / "cut.gz").write_bytes(whole[:-5])
    check_refused(read_sdpa, tmp_path / "cut.gz", None, "gzip")
    (tmp_path / "unnamed").write_bytes(whole)
    assert entries(read_sdpa(tmp_path / "unnamed")) == ENTRIES


@pytest.mark.parametrize("form", [None, *ODD])
def test_line_by_line_reads_the_same(form, tmp_path, monkeypatch):
    path = put(tmp_path, "a", PLAIN if form is None else ODD[form])
    fast = read_sdpa(path)
    monkeypatch.setattr(module, "_at_once", lambda text: None)
    assert same(read_sdpa(path), fast)


@pytest.mark.parametrize("form", [None, *sorted(set(ODD) - {"indices as floats"})])
def test_usual_files_are_read_at_once(form, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_line_by_line", None)
    assert entries(read_sdpa(put(tmp_path, "a", ODD.get(form, PLAIN)))) == ENTRIES
    alike = read_sdpa(put(tmp_path, "b", HEAD + "1 1 1 2 5\n2 1 1 2 5\n"))
    assert entries(alike) == [(1, 0, 0, 1, 5), (2, 0, 0, 1, 5)]


@pytest.mark.parametrize("name", ["a.dat-s", "a.dat-s.gz"])
def test_what_is_written_reads_back(name, tmp_path):
    data = read_sdpa(put(tmp_path, "plain", PLAIN))
    awkward = np.array([0.1 + 0.2, 5e-324, -1.7976931348623157e308, 1 / 3, 2.0**60])
    data = dataclasses.replace(data, value=awkward, c=np.array([-0.0, 1e22]), comment=" x\n\n* y ")
    write_sdpa(tmp_path / name, data)
    assert same(read_sdpa(tmp_path / name), data)
    assert [file.name for file in sorted(tmp_path.iterdir())] == [name, "plain"]
    assert (tmp_path / name).read_bytes().startswith(b"\x1f\x8b") == name.endswith(".gz")


def test_written_text(tmp_path):
    data = read_sdpa(put(tmp_path, "plain", PLAIN))
    write_sdpa(tmp_path / "b", dataclasses.replace(data, comment="one\r\ntwo"))
    expected = "* one\n* two\n" + PLAIN.replace("1e-3", "0.001")
    assert (tmp_path / "b").read_bytes() == expected.encode()


BAD = [
    ({"c": np.array([])}, "c must be 1 to"),
    ({"c": np.array([1.0, np.nan])}, "finite"),
    ({"c": np.ones((2, 1))}, "shape"),
    ({"c": np.array(["x", "y"])}, "array of numbers"),
    ({"blocks": ()}, "at least 1 block"),
    ({"blocks": (2, 0, -2)}, "block 2 has size 0"),
    ({"blocks": (2, 3.5, -2)}, "whole block sizes"),
    ({"blocks": (2, 3, -(10**9))}, "at most"),
    ({"value": np.ones(4)}, "equally long"),
    ({"value": np.zeros(5)}, "no entry other than zero"),
    ({"value": np.array([1, 1, 1, np.inf, 1])}, "entry 3 of data.* value inf is not finite"),
    ({"matrix": np.array([0, 0, 1, 1, 3])}, "entry 4 of data.* matrix 3 is not .* in 0..2"),
    ({"row": np.array([0, 0, 0, 1, 2])}, "entry 4 of data.* row 3 is not .* in 1..2"),
    ({"col": np.array([0, 1, 2, 0.5, 1])}, "entry 3 of data.* column 1.5 is not a whole"),
    ({"col": np.array([0, 1, 2, 0, 1])}, "off the diagonal"),
    ({"row": np.array([0, 0, 0, 1, -1])}, "row 0 is not"),
    ({"col": np.array([0, 0, 2, 1, 1])}, "given twice, first on entry 0"),
    ({"comment": "a\0b"}, "NUL"),
    ({"comment": "\ud800"}, "UTF-8"),
]


@pytest.mark.parametrize(("change", "word"), BAD)
def test_bad_data_is_not_written(change, word, tmp_path):
    data = read_sdpa(put(tmp_path, "plain", PLAIN))
    with pytest.raises(ProblemError, match=word):
        write_sdpa(tmp_path / "plain", dataclasses.replace(data, **change))
    assert (tmp_path / "plain").read_text() == PLAIN


@pytest.mark.parametrize("stage", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_file(stage, tmp_path, monkeypatch):
    data = read_sdpa(put(tmp_path, "old", PLAIN))
    with pytest.raises(ProblemError, match="cannot be written: there is no such folder"):
        write_sdpa(tmp_path / "nowhere" / "a", data)
    with pytest.raises(ProblemError, match="cannot be written"):
        write_sdpa(tmp_path, data)
    with pytest.raises(ProblemError, match="null"):
        write_sdpa(tmp_path / "a\0b", data)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, stage, full)
    with pytest.raises(ProblemError, match="No space left"):
        write_sdpa(tmp_path / "old", data)
    assert [file.name for file in tmp_path.iterdir()] == ["old"]
    assert (tmp_path / "old").read_text() == PLAIN


def table() -> list[dict[str, str]]:
    if DATA is None:
        return []
    with (Path(DATA) / "sdplib" / "sdplib.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def listed(blocks: str) -> list[int]:
    """Return the sizes that the table gives as 161+174d or 33x4+1x1."""
    sizes: list[int] = []
    for part in blocks.split("+"):
        times, _, size = part.rpartition("x")
        sizes += int(times or 1) * [-int(size[:-1]) if size.endswith("d") else int(size)]
    return sizes


@needs_data
@pytest.mark.parametrize("known", table(), ids=lambda known: known["name"])
def test_sdplib(known, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_line_by_line", None)
    data = read_sdpa(Path(str(DATA)) / "sdplib" / known["file"])
    assert len(data.c) == int(known["m"])
    assert np.abs(data.blocks).sum() == int(known["n"])
    assert list(data.blocks) == listed(known["blocks"])
    assert len(data.value) == int(known["entries"])
    for name in ("copy.dat-s", "copy.dat-s.gz"):
        write_sdpa(tmp_path / name, data)
        assert same(read_sdpa(tmp_path / name), data)
