"""Saved runs that are damaged: a picture, or a sentence about the file, and nothing else."""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from collections import Counter

import numpy as np

from condgrad import InputError, ProblemError, plot
from condgrad.applications import kmeans, sparsest_cut
from condgrad.cli.plot import drawable
from condgrad.html import page
from condgrad.record import Record

RING = np.roll(np.eye(6), 1, axis=0) + np.roll(np.eye(6), -1, axis=0)
JUNK = (
    *(
        None,
        True,
        -1,
        0,
        10**400,
        1e308,
        float("nan"),
        float("inf"),
        "",
        "x",
        "\udcff",
        "$\\frac{$",
    ),
    *([], [[]], {}, {"a": 1}, [1, [2]], "\0", -0.5, 2**63),
)


def runs(folder):
    """Files of saved runs and traces."""
    points = np.random.default_rng(0).normal(size=(6, 2))
    C = np.square(points[:, None] - points).sum(axis=2)
    cut = Record.of(sparsest_cut(RING).run(max_iter=9), adjacency=RING, names=list("abcdef"))
    clusters = Record.of(kmeans(C, 2).run(max_iter=9), points=points)
    cut.save(folder / "cut.npz")
    clusters.save(folder / "clusters.npz")
    for kind in ("csv", "json", "npz"):
        cut.trace.save(folder / f"trace.{kind}")
    return sorted(folder.iterdir())


def leaves(tree, path=()):
    """The places in a tree of dicts and lists."""
    yield path
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from leaves(value, (*path, key))
    elif isinstance(tree, list):
        for i, value in enumerate(tree):
            yield from leaves(value, (*path, i))


def spoiled(rng, tree):
    """The tree with junk in one place, or without it."""
    places = [p for p in leaves(tree) if p]
    path = places[rng.integers(len(places))]
    at = tree
    for key in path[:-1]:
        at = at[key]
    if rng.random() < 0.3:
        del at[path[-1]]
    else:
        at[path[-1]] = JUNK[rng.integers(len(JUNK))]
    return tree


def other_array(rng, a):
    """An array of another shape, type or content."""
    kind = rng.integers(7)
    if kind == 0:
        return a.reshape(-1)[: rng.integers(a.size + 1)]
    if kind == 1:
        return a.astype(["f2", "f8", "i8", "u1", "c16", "U5", "?", ">f4", "S3"][rng.integers(9)])
    if kind == 2:
        return np.zeros([int(x) for x in rng.integers(0, 4, rng.integers(5))], a.dtype)
    if kind == 3:
        return np.full(a.shape, (0.0, -1.0, 1e308, np.nan, np.inf)[rng.integers(5)], float)
    if kind == 4 and a.dtype.kind in "if" and a.size:
        a = a.copy()
        value = [np.nan, -1, 2**62, 1e300, 0][rng.integers(5)]
        a.reshape(-1)[rng.integers(a.size)] = value if a.dtype.kind == "f" else np.nan_to_num(value)
        return a
    if kind == 5:
        return a[None]
    return a[::-1]


def mutated(rng, path):
    """The bytes of a damaged file."""
    content = bytearray(path.read_bytes())
    kind = rng.integers(4)
    if kind == 0:
        return bytes(content[: rng.integers(len(content))])
    if kind == 1:
        for _ in range(rng.integers(1, 6)):
            content[rng.integers(len(content))] = rng.integers(256)
        return bytes(content)
    if path.suffix == ".json":
        return json.dumps(spoiled(rng, json.loads(content))).encode()
    if path.suffix == ".csv":
        lines = content.decode().split("\n")
        lines[rng.integers(len(lines))] = str(JUNK[rng.integers(len(JUNK))])
        return "\n".join(lines).encode("utf-8", "surrogatepass")
    with np.load(path) as data:
        arrays = {name: data[name] for name in data.files}
    if kind == 2 and "facts" in arrays:
        arrays["facts"] = np.array(json.dumps(spoiled(rng, json.loads(str(arrays["facts"])))))
    else:
        name = list(arrays)[rng.integers(len(arrays))]
        if rng.random() < 0.2:
            del arrays[name]
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    arrays[name] = other_array(rng, arrays[name])
                except (ValueError, TypeError, IndexError, OverflowError):
                    arrays[name] = np.array("?")
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def test_damaged_runs(tmp_path, rng, many, capsys):
    (tmp_path / "good").mkdir()
    files, outcomes, faults = runs(tmp_path / "good"), Counter(), []
    for number in range(many(1500)):
        source = files[number % len(files)]
        path = tmp_path / f"damaged{source.suffix}"
        path.write_bytes(mutated(rng, source))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                record = Record.load(path)
                with drawable(path):
                    if record.facts:
                        page(record) if number % 5 == 0 else plot.pictures(record)
                    if number % 7 == 0:
                        plot.sheet(record)
            outcomes["drawn"] += 1
        except (InputError, ProblemError) as error:
            outcomes["refused" if "\n" not in str(error) else "BAD"] += 1
        except Exception as error:
            outcomes["BAD"] += 1
            faults.append((number, source.name, repr(error)[:300]))
            if len(faults) < 4:
                (tmp_path / f"bad{number}{source.suffix}").write_bytes(path.read_bytes())
    with capsys.disabled():
        print(dict(outcomes))
        for fault in faults[:40]:
            print(fault)
    assert not outcomes["BAD"], faults


def test_a_whole_run_is_drawn(tmp_path):
    for path in runs(tmp_path):
        assert plot.sheet(Record.load(path))
    assert zipfile.is_zipfile(tmp_path / "cut.npz")
