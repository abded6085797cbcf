"""Files of compiled kernels: what is damaged is not there, and no fault of theirs is raised."""

from __future__ import annotations

import pytest

pytest.importorskip("numba")
kept = pytest.importorskip("condgrad.backends._numba_cache", exc_type=ImportError)

KEY, CODE = ("float64", "avx2"), (b"code", {"name": "kernel"})


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "_warned", False)
    found = kept.Files(str(tmp_path), "kernel", "stamp")
    found.save(KEY, CODE)
    return found


def again(files, stamp="stamp"):
    return kept.Files(files._cache_path, "kernel", stamp)


def test_what_was_saved_is_loaded(files):
    assert again(files).load(KEY) == CODE
    assert again(files).load(("float32", "avx2")) is None
    assert again(files, "another source").load(KEY) is None


@pytest.mark.parametrize("end", [".nbi", ".nbc"])
@pytest.mark.parametrize(
    "damage", [lambda b: b[:-1], lambda b: b"", lambda b: b[:9] + b"?" + b[10:]]
)
def test_a_damaged_file_is_not_there(files, tmp_path, end, damage):
    (path,) = (path for path in tmp_path.iterdir() if path.suffix == end)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(UserWarning, match="is damaged"):
        assert again(files).load(KEY) is None
    again(files).save(KEY, CODE)  # and warns no more
    assert again(files).load(KEY) == CODE


def test_code_of_another_kernel_is_not_taken(files):
    files._save_data(files._data_name(1), (("float32", "avx2"), CODE))
    assert again(files).load(KEY) is None


def test_another_folder_is_read(files, tmp_path):
    other = kept.Files(str(tmp_path / "none"), "kernel", "stamp")
    assert other.load(KEY) is None
    other.beside = files
    assert other.load(KEY) == CODE


def test_no_folder(monkeypatch):
    def refuse(function):
        raise RuntimeError("no locator available")

    monkeypatch.setattr(kept, "_warned", False)
    monkeypatch.setattr(kept, "Kept", refuse)

    @kept.njit(cache=True)
    def double(x):
        return 2 * x

    with pytest.warns(UserWarning, match="no locator available"):
        assert double(2) == 4
    assert double(2.0) == 4.0  # compiled again, without a warning


def test_a_disk_that_fills_up(tmp_path, monkeypatch):
    def full(self, path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(kept, "_warned", False)
    monkeypatch.setattr(kept.Files, "_write", full)
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))

    @kept.njit(cache=True)
    def triple(x):
        return 3 * x

    with pytest.warns(UserWarning, match="No space left"):
        assert triple(2) == 6
