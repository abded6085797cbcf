"""Checkpoints that were changed: the package's own error, or a run, and never anything else."""

import collections
import json

import pytest

import condgrad as cg
from saving import case, text_in, with_text

NAMES = ["spdhg on triangles", "float32 tables", "compiled loop", "factors"]
OTHERS = [None, -1, 0, 1, 2**70, 1e308, "", "x", "object", [], ["object"], {}, True, "<f4", "|O"]


def places(value, way=()):
    """The way to every part of a description."""
    yield way
    if isinstance(value, (dict, list)):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(part, (*way, key))


def outcome(path, problem, method):
    try:
        cg.resume(path, problem, method)
    except (cg.InputError, cg.ProblemError) as error:
        return type(error).__name__
    return "a run"


def saved(name, path):
    problem, method = case(name)
    cg.start(problem, method).advance(iterations=3).save(path)
    return problem, method


@pytest.mark.parametrize("name", NAMES)
def test_bytes(name, tmp_path, rng, many):
    path = tmp_path / "run"
    given = saved(name, path)
    whole, seen = path.read_bytes(), collections.Counter()
    for _ in range(many(500)):
        raw = bytearray(whole)
        at, length = rng.integers(len(raw)), rng.integers(1, 30)
        match rng.integers(4):
            case 0:
                raw[at] ^= 1 << int(rng.integers(8))
            case 1:
                del raw[at : at + length]
            case 2:
                raw[at:at] = rng.bytes(length)
            case _:
                raw = raw[:at]
        path.write_bytes(raw)
        seen[outcome(path, *given)] += 1
    print(name, dict(seen))
    assert not seen["a run"]


@pytest.mark.parametrize("name", NAMES)
def test_descriptions(name, tmp_path, rng, many):
    """… with the checksums made right again."""
    path = tmp_path / "run"
    given, seen = saved(name, path), collections.Counter()
    raw = path.read_bytes()
    text = json.dumps(text_in(raw))
    ways = [way for way in places(json.loads(text)) if way]
    for _ in range(many(500)):
        changed = json.loads(text)
        part, way = changed, ways[rng.integers(len(ways))]
        for key in way[:-1]:
            part = part[key]
        part[way[-1]] = OTHERS[rng.integers(len(OTHERS))]
        path.write_bytes(with_text(raw, changed))
        seen[outcome(path, *given)] += 1
    print(name, dict(seen))
    assert seen["InputError"] + seen["ProblemError"] > 0
