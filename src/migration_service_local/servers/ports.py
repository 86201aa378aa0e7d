"""Ports of this machine, on the loopback address only."""

import secrets
import socket

from migration_service_local.errors import StartError

LOOPBACK = "127.0.0.1"

# Below the range from which systems take the ports of outgoing connections: a server that is started
# again must not find that a client has its port.
_FIRST, _LAST = 20_000, 32_000
_TRIES = 100


def is_free(port: int) -> bool:
    """Whether a server could listen on `port` now."""
    with socket.socket() as listener:
        # As servers do: connections that ended a moment ago are no hindrance.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((LOOPBACK, port))
            listener.listen(1)
        except OSError:
            return False
    return True


def random_free_port() -> int:
    """A free port that programs started at the same moment are unlikely to choose, too."""
    for _ in range(_TRIES):
        port = _FIRST + secrets.randbelow(_LAST - _FIRST)
        if is_free(port):
            return port
    raise StartError(f"No free port was found between {_FIRST} and {_LAST}.")


def next_free_port(preferred: int, *, last: int | None = None) -> int:
    """`preferred`, or the first free port after it (at most `last`, by default a hundred further)."""
    for port in range(preferred, (last or preferred + 100) + 1):
        if is_free(port):
            return port
    raise StartError(f"Port {preferred} and those after it are taken: choose another one.")
