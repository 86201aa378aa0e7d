"""Finds free ports of this machine, on the loopback address only."""

import os
import secrets
import socket
import sys
from collections import deque

from migration_service_local.errors import StartError

LOOPBACK = "127.0.0.1"

# Below the range of ports for outgoing connections. Otherwise a client could take the port of a server that
# is being restarted.
_FIRST, _LAST = 20_000, 32_000
_TRIES = 100
#: The descriptors that reserve the ports that this process chose last.
_chosen: deque[int] = deque()
_MOST_CHOSEN = 32


def is_free(port: int) -> bool:
    """Return True if a server could listen on `port` now."""
    with socket.socket() as listener:
        # As servers do, so that recently closed connections do not matter.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((LOOPBACK, port))
            listener.listen(1)
        except OSError:
            return False
    return True


def random_free_port() -> int:
    """Reserve a free port that other programs are unlikely to choose at the same time, and return it.

    A server starts listening only later. Until this process has chosen 32 other ports, no other caller gets
    this one.
    """
    for _ in range(_TRIES):
        port = _FIRST + secrets.randbelow(_LAST - _FIRST)
        if _take(port, f"random port {port}"):
            return port
    raise StartError(f"No free port was found between {_FIRST} and {_LAST}.")


def take_port(port: int) -> bool:
    """Reserve `port` like a random one. Return False if something listens on it, or it is reserved."""
    return _take(port, f"port {port}")


def take_next_port(preferred: int, *, last: int | None = None) -> int:
    """Reserve `preferred`, or the first free port after it up to `last` (default: 100 ports later)."""
    for port in range(preferred, (last or preferred + 100) + 1):
        if take_port(port):
            return port
    raise StartError(f"Port {preferred} and those after it are taken: choose another one.")


def _take(port: int, name: str) -> bool:
    reservation = _reserve(name) if is_free(port) else None
    if reservation is None:
        return False
    _chosen.append(reservation.detach())
    if len(_chosen) > _MOST_CHOSEN:
        os.close(_chosen.popleft())
    return True


def _reserve(name: str) -> socket.socket | None:
    """Return an object that reserves the name on this machine until it is closed. None if the name is taken.

    Linux has socket names that belong to no file and vanish with the process. On other systems, the first
    server that listens gets the port.
    """
    reservation = socket.socket(socket.AF_UNIX)
    if sys.platform == "linux":
        try:
            reservation.bind(f"\0migration-service {name}")
        except OSError:
            reservation.close()
            return None
    return reservation
