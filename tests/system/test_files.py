"""Files that are written whole or not at all."""

import resource
from contextlib import contextmanager

import pytest

from ga3c.system.files import write_atomically


@contextmanager
def full_disk():
    """Files of this process may have ten bytes, as on a disk that is full: also the one that pytest may write to."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_who_reads_the_old_file_reads_it_to_its_end(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, b"the old one")
    with path.open("rb", buffering=0) as reader:
        assert reader.read(4) == b"the "
        write_atomically(path, b"and a new one")
        assert reader.read() == b"old one"
    assert path.read_bytes() == b"and a new one"
    assert list(tmp_path.iterdir()) == [path]


def test_where_the_disk_is_full_the_old_file_stays_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, b"old")
    with full_disk(), pytest.raises(OSError, match="too large"):
        write_atomically(path, b"more than there is room for")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
