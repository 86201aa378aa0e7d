"""The options of `up`."""

from dataclasses import dataclass
from pathlib import Path

DEFAULT_WEB_PORT = 8000
DEFAULT_FLOWER_PORT = 5555


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Numbers of processes and threads."""

    web_workers: int = 2
    web_threads: int = 320
    interactive_workers: int = 2
    batch_workers: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions(Scale):
    """The options of `up`. If a port is None, the default one is used, or the next free one."""

    home: Path
    sample: int = 100
    web_port: int | None = None
    flower_port: int | None = None
    database_url: str | None = None
    redis_url: str | None = None
    secret_key: str | None = None
