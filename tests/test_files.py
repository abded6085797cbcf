"""Files that are whole or not there."""

import os
import stat
import threading

import pytest

from condgrad._files import replaced


def test_a_file_takes_the_place_of_another_when_it_is_whole(tmp_path):
    path = tmp_path / "answer"
    path.write_bytes(b"old")
    with replaced(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new" and os.listdir(tmp_path) == ["answer"]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt, MemoryError])
def test_what_fails_leaves_what_was_there(tmp_path, error):
    path = tmp_path / "answer"
    path.write_bytes(b"old")
    with pytest.raises(error), replaced(path) as file:
        file.write(b"half")
        raise error
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["answer"]


def test_a_rename_that_fails_leaves_nothing_behind(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("no")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no"), replaced(tmp_path / "answer") as file:
        file.write(b"new")
    assert os.listdir(tmp_path) == []


def test_links_are_followed_and_loops_refused(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "answer")
    with replaced(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "answer").read_bytes() == b"new"
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(OSError, match="symbolic links"), replaced(tmp_path / "loop"):
        pass


def test_modes_are_kept_and_devices_written_to(tmp_path):
    path = tmp_path / "answer"
    path.write_bytes(b"old")
    path.chmod(0o640)
    with replaced(path) as file:
        file.write(b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    with replaced(os.devnull) as file:
        file.write(b"new")
    with pytest.raises(IsADirectoryError), replaced(tmp_path):
        pass
    with pytest.raises(FileNotFoundError), replaced(tmp_path / "none" / "answer"):
        pass


def test_many_writers_leave_one_whole_file(tmp_path):
    path = tmp_path / "answer"

    def write(letter):
        with replaced(path) as file:
            for _ in range(100):
                file.write(letter * 100)

    threads = [threading.Thread(target=write, args=(c,)) for c in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    whole = path.read_bytes()
    assert len(whole) == 10_000 and len(set(whole)) == 1 and os.listdir(tmp_path) == ["answer"]
