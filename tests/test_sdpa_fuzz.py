"""Damaged SDPA files: refused, or read as a slow and obvious parser reads them."""

from __future__ import annotations

import contextlib
import gzip
import math
import random
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from condgrad.errors import InputError
from condgrad.io import Sdpa, read_sdpa, write_sdpa
from condgrad.io import sdpa as module
from files import DATA, needs_data

Program = tuple[list[float], list[int], dict[tuple[int, int, int, int], float]]


def real(word: str) -> float:
    """Return a number spelt in ASCII with digits, sign, point and exponent only."""
    if not set(word) <= set("0123456789+-.eEdD"):
        raise ValueError(word)
    value = float(word.lower().replace("d", "e"))
    if not math.isfinite(value):
        raise ValueError(word)
    return value


def whole(word: str, least: float, most: float) -> int:
    value = real(word)
    if value != int(value) or not least <= value <= most:
        raise ValueError(word)
    return int(value)


def leading(line: str, count: int) -> list[int]:
    """Return whole numbers at the start of a line; no number may come right after them."""
    found = []
    for _ in range(count):
        line = line.lstrip(" ")
        end = next((k for k, ch in enumerate(line) if ch not in "0123456789+-.eEdD"), len(line))
        if line[end : end + 1].isalnum() or line[end : end + 1] == "_":
            raise ValueError(line)
        found.append(whole(line[:end], -1e8, 1e8))
        line = line[end:]
    words = [ch for ch in line if ch.isalnum() or ch == "_"]
    if words and words[0].isdecimal():
        raise ValueError(line)
    return found


def obvious(content: bytes) -> Program:
    """Read an SDPA file one line after the other into dictionaries; ValueError if it is bad."""
    text = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n").decode()
    if "\0" in text:
        raise ValueError("NUL")
    originals = text.removeprefix("\ufeff").split("\n")
    lines = [(raw, re.sub("[\t,(){}]", " ", raw)) for raw in originals]
    lines = [(raw, line) for raw, line in lines if line.strip(" ")]
    while lines and lines[0][0].lstrip(" \t")[0] in '*"':
        del lines[0]
    queue = [line for _, line in lines][::-1]
    if len(queue) < 5:
        raise ValueError("too short")
    m = leading(queue.pop(), 1)[0]
    count = leading(queue.pop(), 1)[0]
    if m < 1 or count < 1:
        raise ValueError("no constraint or no block")
    blocks = leading(queue.pop(), count)
    if 0 in blocks or sum(abs(size) for size in blocks) > 10**8:
        raise ValueError("block sizes")
    c: list[float] = []
    while len(c) < m:
        if not queue:
            raise ValueError("c is too short")
        words = [word for word in queue.pop().split(" ") if word]
        c += [real(word) for word in words]
    if len(c) != m:
        raise ValueError("c is too long")
    doubtful = len(words) == 5 and m > 5
    found: dict[tuple[int, int, int, int], float] = {}
    while queue:
        words = [word for word in queue.pop().split(" ") if word]
        if len(words) != 5:
            raise ValueError(words)
        matrix, block = whole(words[0], 0, m), whole(words[1], 1, count)
        size = blocks[block - 1]
        i, j = sorted(whole(word, 1, abs(size)) for word in words[2:4])
        if (size < 0 and i != j) or (matrix, block, i, j) in found:
            raise ValueError(words)
        found[matrix, block, i, j] = real(words[4])
    found = {place: value for place, value in found.items() if value}
    if not found or (doubtful and not any(place[0] == m for place in found)):
        raise ValueError("no entries")
    return c, blocks, found


def as_program(data: Sdpa) -> Program:
    columns = (data.matrix, data.block + 1, data.row + 1, data.col + 1)
    places = zip(*(column.tolist() for column in columns), strict=True)
    found = dict(zip(places, data.value.tolist(), strict=True))
    assert len(found) == len(data.value)
    return data.c.tolist(), list(data.blocks), found


def agrees(content: bytes, path: Path) -> bool:
    """Compare the two readers on `content`; say whether it was read rather than refused."""
    path.write_bytes(content)
    expected = data = None
    reason = ""
    with contextlib.suppress(ValueError, OverflowError):
        expected = obvious(content)
    try:
        data = read_sdpa(path)
    except InputError as error:
        reason = str(error)
    assert (data is None) == (expected is None), reason or "read a bad file"
    if data is None or expected is None:
        assert reason.startswith(str(path))
        assert "\n" not in reason
        return False
    assert as_program(data) == expected
    assert data.c.tobytes() == np.array(expected[0]).tobytes()
    return True


SMALL = b"""\
"A small program, 2 constraints, 3 blocks
* second remark
 2 =mDIM
 3 =nBLOCK
 (2, 3, -12) = bLOCKsTRUCT
{10.0, -2.0D+01}
0 1 1 1 1.0
0 1 1 2 -0.5
0,2,2,3,7.25e-1
{1 2 1 3 +2.5}

1 3 12 12 4.0
1\t3\t2\t2\t-.5d-1
2 1 2 1 1e-3
2 2 3 3 0.0
"""
PIECES = [
    *(b"-", b"+", b".", b"e", b"D", b" ", b"\t", b",", b"{", b")", b"\n", b"\r", b"\n\n", b"="),
    *(b"0", b"1", b"2", b"13", b"99999999999999999999", b"1e9", b"1e999", b"nan", b"inf", b"_"),
    *(b"*", b'"', b"\0", b"\xff", b"\xc3\xa9", b"\xd9\xa1", b"\x0b", b"\x1c", b"\xc2\xa0", b"0x1"),
]


def damage(content: bytes, rng: random.Random) -> bytes:
    """Return `content` with one to three faults."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        lines = content.split(b"\n")
        head = rng.random() < 0.5
        one = rng.randrange(min(len(lines), 8) if head else len(lines))
        two = rng.randrange(len(lines))
        start = sum(len(line) + 1 for line in lines[:one])
        at = rng.randrange(start, start + len(lines[one]) + 1)
        match rng.randrange(9):
            case 0:
                lines[one : one + 1] = []
            case 1:
                lines.insert(two, lines[one])
            case 2:
                lines[one], lines[two] = lines[two], lines[one]
            case 3:
                lines = content[:at].split(b"\n")
            case 4:
                flipped = bytes([(content + b"\n")[at] ^ (1 << rng.randrange(8))])
                lines = (content[:at] + flipped + content[at + 1 :]).split(b"\n")
            case 5:
                lines = (content[:at] + content[at + rng.randrange(1, 4) :]).split(b"\n")
            case 6:
                words = lines[one].split(b" ")
                rng.shuffle(words)
                lines[one] = b" ".join(words)
            case _:
                cut = at + rng.randrange(3)
                lines = (content[:at] + rng.choice(PIECES) + content[cut:]).split(b"\n")
        content = b"\n".join(lines)
    return content


def test_the_obvious_parser_reads_the_small_file(tmp_path):
    c, blocks, found = obvious(SMALL)
    assert (c, blocks, len(found)) == ([10, -20], [2, 3, -12], 7)
    assert (found[1, 3, 2, 2], found[2, 1, 1, 2]) == (-0.05, 1e-3)
    assert agrees(SMALL, tmp_path / "a")


@pytest.mark.parametrize("slow", [False, True])
def test_damaged_small_files(slow, tmp_path, monkeypatch):
    if slow:
        monkeypatch.setattr(module, "_at_once", lambda text: None)
    rng = random.Random(1)
    read = sum(agrees(damage(SMALL, rng), tmp_path / "a") for _ in range(1500))
    assert 150 < read < 1350


@settings(max_examples=200)
@given(st.data())
def test_any_text(data):
    words = st.sampled_from(PIECES[:24]) | st.integers(-3, 9).map(lambda k: b"%d " % k)
    rest = b"".join(data.draw(st.lists(words, max_size=30)))
    start = SMALL[: data.draw(st.integers(0, len(SMALL)))]
    with tempfile.TemporaryDirectory() as folder:
        read = agrees(start + rest, Path(folder) / "a")
    assert isinstance(read, bool)


@needs_data
@pytest.mark.parametrize(
    "name", ["truss1", "truss4", "truss3", "hinf1", "control1", "mcp124-1", "mcp100", "theta1"]
)
def test_damaged_sdplib(name, tmp_path):
    content = (Path(str(DATA)) / "sdplib" / f"{name}.dat-s").read_bytes()
    rng = random.Random(name)
    read = sum(agrees(damage(content, rng), tmp_path / "a") for _ in range(40))
    assert agrees(content, tmp_path / "a")
    assert 0 < read < 40


@st.composite
def programs(draw):
    blocks = tuple(draw(st.lists(st.integers(-4, 4).filter(bool), min_size=1, max_size=4)))
    m = draw(st.integers(1, 5))
    numbers = st.floats(allow_nan=False, allow_infinity=False)
    c = draw(st.lists(numbers, min_size=m, max_size=m))

    def place(k: int) -> st.SearchStrategy[tuple[int, int, int, int]]:
        ends = st.integers(0, abs(blocks[k]) - 1)
        pair = ends.map(lambda i: (i, i)) if blocks[k] < 0 else st.tuples(ends, ends).map(sorted)
        return st.tuples(st.integers(0, m), pair).map(lambda p: (p[0], k, *p[1]))

    places = st.integers(0, len(blocks) - 1).flatmap(place)
    spots = draw(st.lists(places, min_size=1, max_size=12, unique=True))
    values = draw(st.lists(numbers.filter(bool), min_size=len(spots), max_size=len(spots)))
    matrix, block, row, col = np.array(spots, dtype=np.int64).T
    comment = draw(st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=20))
    return Sdpa(np.array(c), blocks, matrix, block, row, col, np.array(values), comment)


@settings(max_examples=80)
@given(programs(), st.sampled_from(["a.dat-s", "a.dat-s.gz"]))
def test_random_programs_read_back_as_written(program, name):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        write_sdpa(path, program)
        back = read_sdpa(path)
        content = path.read_bytes()
    for field in ("c", "matrix", "block", "row", "col", "value"):
        assert getattr(back, field).tobytes() == getattr(program, field).tobytes()
    assert (back.blocks, back.comment) == (program.blocks, program.comment)
    plain = gzip.decompress(content) if name.endswith(".gz") else content
    assert obvious(plain) == as_program(program)


@settings(max_examples=50)
@given(st.integers(0, 2**32))
def test_dense_twin(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.choice([-3, -1, 1, 2, 3], size=rng.integers(1, 4))
    m = int(rng.integers(1, 4))
    dense = []
    lines = [f"{m}", f"{len(sizes)}", ", ".join(map(str, sizes)), " ".join(["1"] * m)]
    for matrix in range(m + 1):
        for block, size in enumerate(sizes, start=1):
            half = np.triu(rng.integers(-2, 3, size=(abs(size), abs(size))))
            half = np.diag(np.diag(half)) if size < 0 else half
            half[0, 0] = 7
            dense.append(half + np.triu(half, 1).T)
            ends = [(i, j) if rng.random() < 0.5 else (j, i) for i, j in np.argwhere(half)]
            lines += [f"{matrix} {block} {i + 1} {j + 1} {dense[-1][i, j]}" for i, j in ends]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a"
        path.write_text("\n".join(lines))
        data = read_sdpa(path)
    assert (data.row <= data.col).all()
    for k, expected in enumerate(dense):
        matrix, block = divmod(k, len(sizes))
        at = (data.matrix == matrix) & (data.block == block)
        built = np.zeros(expected.shape)
        built[data.row[at], data.col[at]] = built[data.col[at], data.row[at]] = data.value[at]
        np.testing.assert_array_equal(built, expected)
