"""Small files for the tests of the readers."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from condgrad.errors import InputError

DATA = os.environ.get("CONDGRAD_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason="CONDGRAD_DATA is not set")
MM = "%%MatrixMarket matrix "
PATH3 = np.array([[0, 2, 0], [2, 0, 1], [0, 1, 0]], dtype=float)  # 1 -2- 2 -1- 3


def put(folder: Path, name: str, content: str | bytes) -> Path:
    data = content.encode() if isinstance(content, str) else content
    path = folder / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def check_refused(read: Callable[[Path], object], path: Path, line: int | None, word: str) -> None:
    with pytest.raises(InputError) as caught:
        read(path)
    error = caught.value
    assert error.line == line
    assert word in error.reason
    assert str(error).startswith(f"{path}:{line}: " if line else f"{path}: ")
    assert "\n" not in str(error)


def npz(**arrays: object) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def npy(array: object, pickled: bool = False) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(array), allow_pickle=pickled)
    return buffer.getvalue()


def graphml(edges: str, kind: str = "undirected", weight: str = "double") -> str:
    nodes = "".join(f'<node id="n{k}"/>' for k in (1, 2, 3))
    return (
        '<?xml version="1.0"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
        f'<key id="w" for="edge" attr.name="weight" attr.type="{weight}"/>\n'
        f'<graph edgedefault="{kind}">{nodes}\n{edges}</graph></graphml>\n'
    )


def edge(u: int, v: int, w: object = None) -> str:
    data = "" if w is None else f'<data key="w">{w}</data>'
    return f'<edge source="n{u}" target="n{v}">{data}</edge>\n'


POINTS = np.array([[0.0, 0.0], [3.0, 4.0], [1.0, 0.0]])
SQUARED = np.array([[0.0, 25.0, 1.0], [25.0, 0.0, 20.0], [1.0, 20.0, 0.0]])
