"""Files, streams and headers that would not end: stopped at a stated size, in a sentence."""

from __future__ import annotations

import gzip
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from condgrad.backends import memory
from condgrad.errors import InputError, ProblemError
from condgrad.io import read_features, read_graph, read_ratings, read_sdpa

READERS = (read_graph, read_ratings, read_features, read_sdpa)
LAUGHS = """<?xml version="1.0"?>
<!DOCTYPE g [<!ENTITY a "aaaaaaaaaa"> <!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>
<graphml><graph edgedefault="undirected"><node id="&b;"/></graph></graphml>
"""


@pytest.fixture
def small(monkeypatch):
    """Readers that stop at a mebibyte."""
    monkeypatch.setenv("CONDGRAD_READ_GIB", str(2**-10))


def refused(read, path, *words, line=None):
    with pytest.raises(InputError) as found:
        read(path)
    for word in words:
        assert word in found.value.reason
    assert found.value.line == line


@pytest.mark.parametrize("read", READERS)
@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no /dev/zero")
def test_a_device_without_end(read, small):
    refused(read, "/dev/zero", "beyond 1 MiB", "CONDGRAD_READ_GIB")


@pytest.mark.parametrize("read", READERS)
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_without_end(read, small, tmp_path):
    path = tmp_path / "pipe.edges"
    os.mkfifo(path)

    def write():
        with path.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"1 2 3\n" * 1000)
            except BrokenPipeError:
                pass

    writer = threading.Thread(target=write)
    writer.start()
    refused(read, path, "beyond 1 MiB")
    writer.join()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_with_an_end_is_read(tmp_path):
    path = tmp_path / "pipe.edges"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=("3 2\n1 2\n2 3\n",))
    writer.start()
    assert read_graph(path).nnz == 4
    writer.join()


@pytest.mark.parametrize("read", READERS)
def test_a_gzip_bomb(read, small, tmp_path):
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(2 << 20)))
    refused(read, path, "the unpacked file goes on beyond 1 MiB")


def test_an_npz_bomb(small, tmp_path):
    np.savez_compressed(tmp_path / "bomb.npz", X=np.zeros((2, 1 << 17)))
    refused(read_features, tmp_path / "bomb.npz", "the unpacked file takes more than 1 MiB")
    np.save(tmp_path / "wide.npy", np.zeros((2, 1 << 17), bool))
    refused(read_features, tmp_path / "wide.npy", "the array as float64 takes more than 1 MiB")


@pytest.mark.parametrize("n", [10**8, 10**12, 10**400])
def test_a_header_that_claims_too_many(n, tmp_path):
    (tmp_path / "g.edges").write_text(f"{n} 1\n1 2\n")
    words = ("vertices takes more than 2 GiB", "CONDGRAD_READ_GIB")
    refused(read_graph, tmp_path / "g.edges", *words, line=1)
    if n < 10**18:
        head = "%%MatrixMarket matrix coordinate real symmetric\n"
        (tmp_path / "g.mtx").write_text(f"{head}{n} {n} 1\n2 1 1\n")
        refused(read_graph, tmp_path / "g.mtx", *words, line=2)


def test_what_is_claimed_can_be_allowed(monkeypatch, tmp_path, small):
    (tmp_path / "g.edges").write_text("100000 1\n1 2\n")
    refused(read_graph, tmp_path / "g.edges", "more than 1 MiB", line=1)
    monkeypatch.setenv("CONDGRAD_READ_GIB", "0.5")
    assert read_graph(tmp_path / "g.edges").shape == (100_000, 100_000)


def test_entities(tmp_path):
    (tmp_path / "g.graphml").write_text(LAUGHS)
    refused(read_graph, tmp_path / "g.graphml", "it declares entities", line=2)


@pytest.mark.parametrize("text", ["much", "-1", "0", "nan", "inf"])
def test_a_limit_that_is_none(text, monkeypatch, tmp_path):
    monkeypatch.setenv("CONDGRAD_READ_GIB", text)
    (tmp_path / "g.edges").write_text("3 1\n1 2\n")
    with pytest.raises(ProblemError, match="CONDGRAD_READ_GIB is"):
        read_graph(tmp_path / "g.edges")


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (read_graph, "3 1\n1 2\n"),
        (read_ratings, "1,2,3\n"),
        (read_features, "1 2\n3 4\n"),
        (read_sdpa, "1\n1\n2\n1\n1 1 1 1 1\n"),
        (read_graph, "<graphml></graphml>"),
    ],
)
def test_memory_is_asked_for_before_it_is_taken(read, text, monkeypatch, tmp_path):
    (tmp_path / "file").write_text(text)
    monkeypatch.setattr(memory, "free_memory", lambda: 100.0)
    refused(read, tmp_path / "file", "needs about", "are free: read a part of it")
