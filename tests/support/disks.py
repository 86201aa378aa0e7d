"""A disk without room."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def disk_full_at(size: int) -> Iterator[None]:
    """Let no file of this process become larger. The system refuses to write more, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
