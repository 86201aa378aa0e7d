"""Limits processes to a share of a processor, so that a small machine can show what a larger one would do.

It needs root, and a kernel with the cpu controller of control groups (either version).
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

_MICROSECONDS = 20_000
_ROOT = Path("/sys/fs/cgroup")


def quota_is_available() -> bool:
    """Return whether processes can be limited here."""
    try:
        with _group("migration-bench-probe", 1.0):
            return True
    except OSError:
        return False


@contextmanager
def limited(processes: Sequence[int], share: float) -> Iterator[None]:
    """Limit each of these processes to this share of one processor within the block."""
    with ExitStack() as over:
        for process in processes:
            group = over.enter_context(_group(f"migration-bench-{process}", share))
            over.callback((group.parent / "cgroup.procs").write_text, str(process))
            (group / "cgroup.procs").write_text(str(process))
        yield


@contextmanager
def _group(name: str, share: float) -> Iterator[Path]:
    quota = str(round(share * _MICROSECONDS))
    older = _ROOT / "cpu"
    group = (older if older.exists() else _ROOT) / name
    group.mkdir()
    try:
        if older.exists():
            (group / "cpu.cfs_period_us").write_text(str(_MICROSECONDS))
            (group / "cpu.cfs_quota_us").write_text(quota)
        else:
            (group / "cpu.max").write_text(f"{quota} {_MICROSECONDS}")
        yield group
    finally:
        group.rmdir()
