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
#: The descriptors that reserve the random ports that this process chose last.
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
    """Return a free port that other programs are unlikely to choose at the same time.

    Its server starts listening only later. Until this process has chosen 32 other ports, no other caller gets
    this one.
    """
    for _ in range(_TRIES):
        port = _FIRST + secrets.randbelow(_LAST - _FIRST)
        if is_free(port) and (reservation := _reserve(f"random port {port}")):
            _chosen.append(reservation.detach())
            if len(_chosen) > _MOST_CHOSEN:
                os.close(_chosen.popleft())
            return port
    raise StartError(f"No free port was found between {_FIRST} and {_LAST}.")


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


class Ports:
    """The ports that one `up` has chosen. Its servers start listening seconds later.

    Until `close`, no other `up` on this machine chooses one of them.
    """

    def __init__(self) -> None:
        self._reserved: list[socket.socket] = []

    def take(self, port: int) -> bool:
        """Reserve `port`. Return False if something listens on it, or another `up` has it."""
        reservation = _reserve(f"port {port}") if is_free(port) else None
        if reservation:
            self._reserved.append(reservation)
        return reservation is not None

    def take_next(self, preferred: int, *, last: int | None = None) -> int:
        """Reserve `preferred`, or the first free port after it up to `last` (default: 100 ports later)."""
        for port in range(preferred, (last or preferred + 100) + 1):
            if self.take(port):
                return port
        raise StartError(f"Port {preferred} and those after it are taken: choose another one.")

    def close(self) -> None:
        """Let others have the ports."""
        for reservation in self._reserved:
            reservation.close()
        self._reserved.clear()
