"""A stand-in for CuPy, so that what is written for a GPU can be tested without one.

Its arrays wrap NumPy's and are as strict as CuPy's: they are not converted unless asked, and do not
mix with arrays of NumPy. The passes over triangle rows are those of the reference, on tables that
lie as they do on a GPU.
"""

import importlib
import sys
import types
from contextlib import contextmanager

import numpy as np

from condgrad.backends import _reference, _reference_fused, _reference_segments, tiles
from condgrad.backends.contract import Drivers
from condgrad.domains.eigen import SMALL

MAKERS = ("asarray", "array", "zeros", "empty", "ones", "full", "eye", "arange", "copyto")
SCALARS = (bool, int, float, np.generic, type(None), str, slice, np.dtype, type)


class ndarray(np.lib.mixins.NDArrayOperatorsMixin):
    __module__ = "cupy"

    def __init__(self, array):
        self._a = array

    def __array__(self, *args, **kwargs):
        raise TypeError("implicit conversion to a NumPy array is not allowed")

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        if method != "__call__":
            raise TypeError(f"{ufunc.__name__}.{method} is not offered")
        return wrapped(ufunc(*plain(inputs), **plain(options)))

    def __array_function__(self, function, types, args, options):
        if function in (np.max, np.min) and "initial" in options:
            raise TypeError("no initial value")
        if function in (np.full, np.eye, np.ones):
            raise TypeError("NumPy hands on a keyword that is not offered")
        free = function.__name__ in MAKERS
        return wrapped(function(*plain(args, free), **plain(options, free)))

    def __getitem__(self, at):
        return wrapped(self._a[plain(at)])

    def __setitem__(self, at, value):
        self._a[plain(at)] = plain(value)

    def __getattr__(self, name):
        if name.startswith("__") or name in ("ctypes", "flat"):
            raise AttributeError(name)
        found = getattr(self._a, name)
        if not callable(found) or isinstance(found, (np.ndarray, np.dtype)):
            return wrapped(found) if isinstance(found, np.ndarray) else found
        return lambda *args, **options: wrapped(found(*plain(args), **plain(options)))

    @property
    def data(self):
        return types.SimpleNamespace(ptr=self._a.ctypes.data)

    def get(self):
        return self._a.copy()

    def __len__(self):
        return len(self._a)

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __bool__(self):
        return bool(self._a)

    def __float__(self):
        return float(self._a)

    def __int__(self):
        return int(self._a)

    def __index__(self):
        return int(self._a)


def plain(value, free=False):
    """What is inside of arguments; arrays of NumPy are refused unless `free`."""
    if isinstance(value, ndarray):
        return value._a
    if isinstance(value, (list, tuple)):
        return type(value)(plain(v, free) for v in value)
    if isinstance(value, dict):
        return {k: plain(v, free) for k, v in value.items()}
    if isinstance(value, np.ndarray) and not free:
        raise TypeError("unsupported type numpy.ndarray")
    assert isinstance(value, (*SCALARS, np.ndarray)) or value is ..., type(value)
    return value


def wrapped(value):
    """Results, all of them arrays."""
    if isinstance(value, tuple):
        return tuple(wrapped(v) for v in value)
    return ndarray(np.asarray(value)) if isinstance(value, (np.ndarray, np.generic)) else value


def offered(package):
    """The functions of a package for these arrays."""

    def find(name):
        found = getattr(package, name)
        if not callable(found) or isinstance(found, type):
            return found
        free = name in MAKERS
        return lambda *args, **options: wrapped(found(*plain(args, free), **plain(options, free)))

    return find


def axpy_at(out, index, weight, y):
    """out[index] += weight·y, as strict about its arguments as the kernel."""
    out, index, y = plain((out, index, y))
    assert index.dtype == np.int64
    assert np.unique(index).size == index.size
    out[index] += y.dtype.type(weight) * y


def twin(name):
    """A kernel for sums over segments, as strict about types as that on a GPU."""
    function = getattr(_reference_segments, name)

    def kernel(starts, first, count, lanes, data, *more):
        assert starts.dtype == np.int64
        assert count > 0
        assert lanes in (1, 2, 4, 8, 16, 32)
        assert name == "segment_sums" or (more[0].dtype, data.dtype) == (np.int32, np.float64)
        return wrapped(function(*plain((starts, first, count, lanes, data, *more))))

    return kernel


def unwrapped(function):
    """A function of NumPy's arrays for these."""
    return lambda *args: wrapped(function(*plain(args)))


class Passes:
    """The passes of the reference on tables in tiles."""

    def __init__(self, kind="triangle"):
        self.others = kind == "perimeter"
        self.family = _reference_fused.fused(f"{kind}_sweep", f"{kind}_add")
        self._add = getattr(_reference, f"{kind}_add")

    def _size(self, n):
        return n * (n - 1) * (n - 2) // (6 if self.others else 2)

    def _open(self, W, *tables):
        n = W.shape[0]
        at = tiles.places(n, np.arange(self._size(n)), self.others)
        outside = np.ones(tables[0].size, bool) if tables else np.zeros(0, bool)
        outside[at] = False
        for table in tables:
            assert not table._a[outside].any()
        return at, [tiles.widened(table._a[at]) for table in tables]

    def _close(self, table, at, values):
        table._a[at] = tiles.narrowed(values) if table.dtype == tiles.HALF else values

    def _kept(self, G, y, own):
        """A*(what rounding to a table does to y)."""
        if y.dtype == tiles.HALF:
            lost = tiles.widened(tiles.narrowed(own)).astype(float) - own
            self._add(G._a, 0, self._size(G.shape[0]), lost)

    def _check(self, n, ends):
        assert self.others or not (np.asarray(ends) % ((n - 1) * (n - 2) // 2)).any()

    def ascend(self, W, G, y, ends, *bounds):
        self._check(W.shape[0], ends)
        at, (own,) = self._open(W, y)
        total = self.family.ascend(W._a, G._a, own, ends, *bounds)
        self._kept(G, y, own)
        self._close(y, at, own)
        return total

    def dual(self, W, G, y, slopes, ends, *scalars):
        self._check(W.shape[0], ends)
        at, (own, gamma) = self._open(W, y, slopes)
        self.family.dual(W._a, G._a, own, gamma, ends, *scalars)
        self._kept(G, y, gamma)
        self._close(y, at, own)
        self._close(slopes, at, gamma)

    def miss(self, W, *rest):
        return self.family.miss(W._a, *rest)

    def merit(self, W, y, *rest):
        return self.family.merit(W._a, self._open(W, y)[1][0], *rest)

    def squares(self, D, slopes, ends):
        self._check(D.shape[0], ends)
        return self.family.squares(D._a, self._open(D, slopes)[1][0], ends)

    def pair(self, W, images, G, y, *rest):
        return self.family.pair(W._a, images, G._a, self._open(W, y)[1][0], *rest)

    def price(self, point, y, start, stop, lower, upper):
        z = np.empty(stop - start)
        sweep = _reference.perimeter_sweep if self.others else _reference.triangle_sweep
        sweep(point._a, start, stop, z)
        return float(np.abs(self._open(point, y)[1][0] * (z - np.clip(z, lower, upper))).sum())

    @property
    def drivers(self):
        """All but the last two."""
        return Drivers(self.ascend, self.dual, self.miss, self.merit, self.squares, self.pair)


def price(*arguments):
    """`Passes.price` of a family."""
    *rest, others = arguments
    return Passes("perimeter" if others else "triangle").price(*rest)


def table_square(y):
    """Σ y² of a table."""
    return float(np.square(tiles.widened(y._a), dtype=np.float64).sum())


class SharedPasses:
    """Those of tables that have some tiles only: of all rows, less what is not of these."""

    def __init__(self, kind, share):
        self.whole, self.share, self.kind = Passes(kind), share, kind

    def _rows(self, n):
        """Where rows lie in the table, and which do."""
        at = tiles.places(n, np.arange(self.whole._size(n)), self.whole.others)
        at = at - self.share[0] * n * tiles.SIDE**2
        return at, (at >= 0) & (at < self.share[1] * n * tiles.SIDE**2)

    def _open(self, n, *tables):
        at, here = self._rows(n)
        found = []
        for table in tables:
            assert table.size == tiles.entries(n, self.share)
            y = np.zeros(at.size, table.dtype)
            y[here] = table._a[at[here]]
            found.append(y)
        return at, here, found

    def _images(self, W):
        z = np.empty(self.whole._size(W.shape[0]))
        getattr(_reference, f"{self.kind}_sweep")(W._a, 0, z.size, z)
        return z

    def _add(self, G, y):
        self.whole._add(G._a, 0, y.size, y)

    def _moved(self, W, G, tables, ends, move):
        """What a pass over all rows does to the rows that are here."""
        n = W.shape[0]
        self.whole._check(n, ends)
        at, here, old = self._open(n, *tables)
        new = [y.copy() for y in old]
        move(W._a, np.zeros_like(G._a), *new, ends)
        for table, y in zip(tables, new, strict=True):
            table._a[at[here]] = y[here]
        change = np.where(here, new[-1] - old[-1], 0.0)
        self._add(G, change)
        return float(np.square(change).sum())

    def ascend(self, W, G, y, ends, *bounds):
        return self._moved(W, G, [y], ends, lambda *a: self.whole.family.ascend(*a, *bounds))

    def dual(self, W, G, y, slopes, ends, *scalars):
        both = [y, slopes]
        self._moved(W, G, both, ends, lambda *a: self.whole.family.dual(*a, *scalars))

    def miss(self, W, start, stop, lower, upper):
        z = self._images(W)[self._rows(W.shape[0])[1]]
        r = z - np.clip(z, lower, upper)
        return float(r @ r), float(z @ z), float(np.abs(r).max(initial=0.0))

    def merit(self, W, y, start, stop, lower, upper, beta):
        _, here, (own,) = self._open(W.shape[0], y)
        x = (self._images(W) + beta * own)[here]
        r = x - np.clip(x, lower, upper)
        return float(r @ r), float(own @ own)

    def squares(self, D, slopes, ends):
        _, _, (own,) = self._open(D.shape[0], slopes)
        return self.whole.family.squares(D._a, own, ends)

    def pair(self, W, images, G, y, start, stop, low, high):
        _, _, (own,) = self._open(W.shape[0], y)
        return self.whole.family.pair(W._a, images, G._a, own, start, stop, low, high)

    @property
    def drivers(self):
        return Drivers(self.ascend, self.dual, self.miss, self.merit, self.squares, self.pair)


def shared(sweep, share):
    """`_cupy_triangles.shared`."""
    return SharedPasses(sweep.removesuffix("_sweep"), share).drivers


@contextmanager
def installed(memory=float(1 << 33), gpus=1):
    """With a module of the name `cupy` that is this one."""
    cupy = types.ModuleType("cupy")
    cupy.__getattr__ = offered(np)
    cupy.ndarray, cupy.linalg = ndarray, types.ModuleType("cupy.linalg")
    cupy.linalg.__getattr__ = offered(np.linalg)
    runtime = types.SimpleNamespace(
        getDeviceCount=lambda: gpus,
        getDevice=lambda: 0,
        getDeviceProperties=lambda i: {"name": b"stand-in"},
        memGetInfo=lambda: (memory, memory),
    )
    cupy.cuda = types.SimpleNamespace(runtime=runtime)
    cupy.get_default_memory_pool = lambda: types.SimpleNamespace(free_bytes=lambda: 0)
    ends = ("", "_triangles", "_segments", "_entries")
    names = ["cupy", *(f"condgrad.backends._cupy{end}" for end in ends)]
    before = {name: sys.modules.pop(name, None) for name in names}
    sys.modules["cupy"] = cupy
    try:
        kernels, triangles = (importlib.import_module(name) for name in names[1:3])
        kinds = ("triangle", "perimeter")
        triangles.DRIVERS = {f"{kind}_sweep": Passes(kind).drivers for kind in kinds}
        triangles.shared = shared
        kernels.triangle_price, kernels.triangle_square = price, table_square
        kernels.own = triangles
        for name in ("earlier", "places", "prefixes"):
            setattr(kernels, name, unwrapped(getattr(_reference_segments, name)))
        for name in ("segment_sums", "product_sums"):
            setattr(kernels, name, twin(name))
        for name in ("axpy", "descended", "interval_ascend", "symmetric_part"):
            setattr(kernels, name, getattr(_reference, name))
        for name in ("symmetrise", "dots"):
            setattr(kernels, name, unwrapped(getattr(_reference_segments, name)))
        kernels.axpy_at = axpy_at
        yield cupy
    finally:
        for name in names:
            sys.modules.pop(name, None)
            if before[name] is not None:
                sys.modules[name] = before[name]


@contextmanager
def alike(monkeypatch):
    """The same with the oracle and the search of the CPU, so that runs can be compared."""
    monkeypatch.setattr("condgrad.domains.eigen.SMALL_GPU", SMALL)
    monkeypatch.setattr("condgrad.methods.balance.GPU_EFFORT", None)
    with installed() as module:
        yield module
