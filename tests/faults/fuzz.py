"""Mutated files for every reader: `python fuzz.py SEED FIRST LAST FOLDER` prints what came out.

It runs in a process of its own, with little memory and an alarm, so that a crash, a kill or a file
that never ends is seen for what it is.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
import signal
import sys
import traceback
import warnings
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from condgrad import applications
from condgrad.errors import InputError, InputWarning, ProblemError
from condgrad.io import (
    index_ratings,
    read_features,
    read_named_graph,
    read_ratings,
    read_sdpa,
)
from condgrad.record import Record
from condgrad.run.result import Trace

SECONDS = 60
"""No file of some kilobytes may take longer."""
TOKENS = (
    *(b"0", b"-1", b"1e8", b"100000000", b"99999999999", b"1" * 300, b"1e400", b"nan", b"inf"),
    *(b"-0.0", b"0x10", b"1_0", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"", b" ", b"\n", b"\r"),
    *(b'"', b"'", b",", b"::", b"\t", b"%", b"#", b"<", b">", b"&lt;", b"{", b"}", b"()", b"\\"),
    *("\u2028".encode(), "\u0661".encode(), b"1.5D+300", b"1e", b"+", b"%%MatrixMarket"),
    *(b"[", b"]", b"*Vertices", b"*Arcs", b"*Matrix", b"p edge", b"graph [", b"PAR1", b"BZh9"),
    *(b"<!ENTITY a 'b'>", b"PK\x03\x04", b"\x93NUMPY", b"\x1f\x8b", b"null", b"[[[[", b"true"),
)


def ratings(path):
    return index_ratings(read_ratings(path), read_ratings(path, repeats="mean"))


def saved(**arrays):
    data = io.BytesIO()
    np.savez_compressed(data, **arrays)
    return data.getvalue()


def saved_alone(array):
    data = io.BytesIO()
    np.save(data, array)
    return data.getvalue()


def scipy_matrix(A):
    data = io.BytesIO()
    sp.save_npz(data, sp.csr_array(A))
    return data.getvalue()


def parquet(columns):
    data = io.BytesIO()
    pq.write_table(pa.table(columns), data)
    return data.getvalue()


def loose(path):
    """A graph with whatever can be asked of a reader."""
    how = {"undirected": True, "repeats": "sum", "loops": "drop", "signed": True}
    return read_named_graph(path, **how)


def seeds(folder):
    """Names with a whole content of each format and its reader."""
    rng = np.random.default_rng(0)
    X = np.round(rng.random((9, 3)), 3)
    edges = [(i + 1, (i + k) % 9 + 1) for i in range(9) for k in (1, 2)]
    edges = sorted({(min(e), max(e)) for e in edges})
    listed = "\n".join(f"{i} {j} {i / j:.3g}" for i, j in edges)
    mirrored = "\n".join(f"{j} {i} 1.5" for i, j in edges)
    head = "%%MatrixMarket matrix coordinate real symmetric\n% a remark\n"
    ring = np.roll(np.eye(9), 1, axis=0)
    dense = "\n".join(f"{x:g}" for x in (ring + ring.T).T.reshape(-1))
    rated = [(f"u{i % 5}", f"{i % 7}", f"{1 + i % 4}") for i in range(30)]
    nodes = "".join(f'<node id="n{i}"/>\n' for i in range(9))
    arcs = "".join(f'<edge source="n{i - 1}" target="n{j - 1}"/>\n' for i, j in edges)
    graphml = f'<?xml version="1.0"?>\n<graphml><graph edgedefault="undirected">\n{nodes}{arcs}'
    sdpa = '"a program\n2 = m\n2 = blocks\n3, -2\n1.0 2.0\n0 1 1 2 1.5\n1 1 1 1 1\n2 2 1 1 -1e0\n'
    run = applications.sparsest_cut(ring + ring.T).run(max_iter=5)
    record = Record.of(run, adjacency=ring + ring.T)
    clusters = applications.kmeans(np.square(X[:, :1] - X[:, 0]), 2).run(max_iter=5)
    array, files = io.BytesIO(), {}
    near = [[str(b if a == i else a) for a, b in edges if i in (a, b)] for i in range(1, 10)]
    named = [(f"v{i}", f"v{j}", f"{i / j:.3g}") for i, j in edges]
    gml = "".join(f'node [ id {i} label "v{i}" ]\n' for i in range(1, 10))
    gml += "".join(f"edge [ source {i} target {j} weight 1.5 ]\n" for i, j in edges)
    links = [{"source": i, "target": j, "weight": 1.5} for i, j in edges]
    linked = json.dumps(
        {"directed": False, "nodes": [{"id": i} for i in range(1, 10)], "links": links}
    )
    listing = "\n".join(f"{i} {j}" for i, j in edges)
    table = "\n".join(" ".join(f"{x:g}" for x in row) for row in ring + ring.T)
    np.save(array, X)
    for name, made in (("cut", record), ("clusters", Record.of(clusters, points=X))):
        made.save(folder / f"{name}.npz")
        files[f"{name}.npz"] = (folder / f"{name}.npz").read_bytes(), Record.load
    for end in ("csv", "json", "npz"):
        run.trace.save(folder / f"trace.{end}")
        files[f"trace.{end}"] = (folder / f"trace.{end}").read_bytes(), Record.load
        files[f"own.{end}"] = (folder / f"trace.{end}").read_bytes(), Trace.load
    texts = {
        "g.edges": (f"9 {len(edges)}\n{listed}\n", read_named_graph),
        "g.mtx": (f"{head}9 9 {len(edges)}\n{mirrored}\n", read_named_graph),
        "d.mtx": (f"%%MatrixMarket matrix array real general\n9 9\n{dense}\n", read_named_graph),
        "g.graphml": (f"{graphml}</graph></graphml>\n", read_named_graph),
        "n.edges": ("\n".join(" ".join(e) for e in named), read_named_graph),
        "n.csv": ("from,to,weight\n" + "\n".join(",".join(e) for e in named), read_named_graph),
        "n.edgelist": ("\n".join(f"{u} {v} {{'weight': {w}}}" for u, v, w in named), loose),
        "m.csv": (table.replace(" ", ","), read_named_graph),
        "g.gml": (f"graph [\ndirected 0\n{gml}]\n", read_named_graph),
        "g.json": (linked, read_named_graph),
        "g.graph": (f"9 {len(edges)}\n" + "\n".join(map(" ".join, near)), read_named_graph),
        "g.col": (f"p edge 9 {len(edges)}\n" + "e " + listing.replace("\n", "\ne "), loose),
        "g.net": (f'*Vertices 9\n1 "v1"\n*Edges\n{listed}\n*Arcs\n1 5 2\n', loose),
        "m.net": (f"*Vertices 9\n*Matrix\n{table}\n", read_named_graph),
        "i.csv": ("id,x\n" + "\n".join(f"p{k},{x[0]}" for k, x in enumerate(X)), read_features),
        "r.tsv": ("\n".join("\t".join(r) for r in dict.fromkeys(rated)), ratings),
        "r.csv": ("user,item,rating\n" + "\n".join(",".join(r) for r in rated[:20]), ratings),
        "r.dat": ("\n".join("::".join((*r, "97")) for r in rated[:20]), ratings),
        "q.csv": ("\n".join(f'"{u}";"{i}";{v}' for u, i, v in rated[:20]), ratings),
        "f.csv": ("a,b,c\n" + "\n".join(",".join(map(str, x)) for x in X.tolist()), read_features),
        "f.txt": ("\n".join(" ".join(map(str, x)) for x in X.tolist()), read_features),
        "s.dat-s": (sdpa, read_sdpa),
    }
    files |= {name: (text.encode(), read) for name, (text, read) in texts.items()}
    files["f.npy"] = array.getvalue(), read_features
    files["f.npz"] = saved(X=X, other=np.arange(3)), read_features
    files["c.npz"] = saved(C=np.square(X[:, :1] - X[:, 0])), read_features
    files["g.npz"] = scipy_matrix(ring + ring.T), read_named_graph
    files["e.npy"] = saved_alone(np.array([(i, j, 1.5) for i, j in edges])), read_named_graph
    users, items, values = zip(*rated[:20], strict=True)
    tables = {
        "g.parquet": ({"u": [e[0] for e in edges], "v": [e[1] for e in edges]}, loose),
        "f.parquet": ({"x": X[:, 0], "y": X[:, 1]}, read_features),
        "r.parquet": ({"user": users, "item": items, "rating": list(map(int, values))}, ratings),
    }
    for name, (columns, read) in tables.items():
        files[name] = parquet(columns), read
    for name in ("g.edges", "r.tsv", "f.csv", "s.dat-s"):
        data, read = files[name]
        files[f"{name}.gz"] = gzip.compress(data, mtime=0), read
    for name in ("n.csv", "f.csv"):
        data, read = files[name]
        files[f"{name}.bz2"], files[f"{name}.xz"] = (
            (bz2.compress(data), read),
            (lzma.compress(data), read),
        )
    return files


def mutated(data, rng):
    """The content with one change, or a few more."""
    data = bytearray(data)
    for _ in range(min(int(rng.geometric(0.6)), 6)):
        at, other = sorted(int(x) for x in rng.integers(0, len(data) + 1, 2))
        what = int(rng.integers(9))
        token = TOKENS[int(rng.integers(len(TOKENS)))]
        numbers = [m.span() for m in re.finditer(rb"[0-9.]+", bytes(data[:20_000]))]
        if what == 0:
            del data[at:]
        elif what == 1:
            del data[at : min(other, at + 40)]
        elif what == 2:
            data[at:at] = data[at : min(other, at + 200)]
        elif what == 3 and at < len(data):
            data[at] ^= 1 << int(rng.integers(8))
        elif what == 4 and at < len(data):
            data[at : at + 4] = rng.bytes(4)
        elif what == 5:
            data[at:at] = token
        elif what == 6 and numbers:
            first, last = numbers[int(rng.integers(min(len(numbers), 8)))]
            data[first:last] = token
        elif what == 7 and numbers:
            first, last = numbers[int(rng.integers(len(numbers)))]
            data[first:last] = token
        else:
            lines = bytes(data).split(b"\n")
            lines.insert(
                int(rng.integers(len(lines) + 1)), lines.pop(int(rng.integers(len(lines))))
            )
            data = bytearray(b"\n".join(lines))
    return bytes(data)


def inside(data, rng):
    """An archive whose members were mutated and packed again, so that their checksums hold."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        names = old.namelist()
        chosen = names[int(rng.integers(len(names)))]
        for name in names:
            content = old.read(name)
            if name == chosen:
                content = claims(content, rng) if rng.random() < 0.5 else mutated(content, rng)
            if name != chosen or rng.random() > 0.1:
                new.writestr(name, content)
    return out.getvalue()


def claims(content, rng):
    """An array whose header says something else."""
    changes = (
        (rb"\([0-9, ]*\)", b"(100000000, 100000000)"),
        (rb"\([0-9, ]*\)", b"(-1,)"),
        (rb"\([0-9, ]*\)", b"()"),
        (rb"\([0-9, ]*\)", b"(3,)"),
        (rb"'<f8'|'<i8'|'\|b1'", b"'|O'"),
        (rb"'<f8'|'<i8'|'\|b1'", b"'<c16'"),
        (rb"'<f8'|'<i8'|'\|b1'", b"'<M8[s]'"),
        (rb"'<f8'|'<i8'|'\|b1'", b"'|V8'"),
        (rb"'<f8'|'<i8'|'\|b1'", b"'<U2'"),
        (rb"'<f8'|'<i8'|'\|b1'", b"'<f2'"),
    )
    pattern, new = changes[int(rng.integers(len(changes)))]
    length = int.from_bytes(content[8:10], "little")
    head = re.sub(pattern, lambda _: new, content[10 : 10 + length])
    return content[:8] + len(head).to_bytes(2, "little") + head + content[10 + length :]


def case(files, seed, k):
    """File number k: its name, its content and its reader."""
    rng = np.random.default_rng([seed, k])
    name = list(files)[k % len(files)]
    data, read = files[name]
    if name.endswith(".npz") and rng.random() < 0.6:
        return name, inside(data, rng), read
    if name.endswith(".gz") and rng.random() < 0.6:
        return name, gzip.compress(mutated(gzip.decompress(data), rng), mtime=0), read
    return name, mutated(data, rng), read


class TooLong(BaseException):
    """The alarm."""


def ring_alarm(*_):
    raise TooLong


def main():
    seed, first, last = map(int, sys.argv[1:4])
    folder = Path(sys.argv[4])
    files, found, bad = seeds(folder), Counter(), []
    signal.signal(signal.SIGALRM, ring_alarm)
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", ResourceWarning)  # NumPy does not close a damaged archive
    warnings.simplefilter("ignore", InputWarning)  # some edges without a weight
    for k in range(first, last):
        name, data, read = case(files, seed, k)
        path = folder / name
        path.write_bytes(data)
        signal.alarm(SECONDS)
        try:
            read(path)
            found["read"] += 1
        except (InputError, ProblemError) as error:
            found["refused"] += 1
            if "\n" in str(error) or not str(error).strip():
                bad.append((k, name, f"more or less than a line: {str(error)[:100]!r}"))
        except BaseException as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            what = f"{type(error).__name__}: {error} at {Path(where.filename).name}:{where.lineno}"
            bad.append((k, name, what[:300]))
        finally:
            signal.alarm(0)
    print(json.dumps({"found": found, "bad": bad, "kinds": len(files)}))


if __name__ == "__main__":
    main()
