"""What organisations use of all web processes at this moment. Each process notes its part in Redis."""

import os
import socket
import time
from collections.abc import Mapping
from typing import cast

from redis import Redis

from migration_service.connections import log_if_unavailable

_KEY = "migration:present"
#: Milliseconds for which a note holds.
_HOLDS_MS = 3_000
#: Seconds for which Redis is left alone after it was unavailable.
_REST_SECONDS = 10.0

# Notes for the process ARGV[2] the use of each organisation that follows, each by its id and its seconds.
# Returns the same of all other processes, as far as it was noted within the last ARGV[1] milliseconds.
_NOTE = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i = 3, #ARGV, 2 do
  redis.call('HSET', KEYS[1], ARGV[2] .. ' ' .. ARGV[i], (now + ARGV[1]) .. ' ' .. ARGV[i + 1])
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
local found, noted = {}, redis.call('HGETALL', KEYS[1])
for i = 1, #noted, 2 do
  local process, organisation = string.match(noted[i], '^(.*) (%d+)$')
  local expires, used = string.match(noted[i + 1], '^(%S+) (%S+)$')
  if tonumber(expires) < now then
    redis.call('HDEL', KEYS[1], noted[i])
  elseif process ~= ARGV[2] then
    found[#found + 1] = organisation
    found[#found + 1] = used
  end
end
return found
"""


class Presence:
    """Tells the web processes of each other. While Redis is unavailable, each knows only its own use."""

    def __init__(self, redis: Redis, process: str | None = None) -> None:
        self._given = process
        self._host = socket.gethostname()
        self._note = redis.register_script(_NOTE)
        self._rests_until = 0.0

    @property
    def _process(self) -> str:
        # A server that makes the application before it forks shares it among its processes.
        return self._given or f"{self._host}:{os.getpid()}"

    def exchange(self, used: Mapping[int, float]) -> dict[int, float]:
        """Note what organisations use of this process. Return what they use of all other ones together."""
        found: list[bytes] = []
        if time.monotonic() >= self._rests_until:
            self._rests_until = time.monotonic() + _REST_SECONDS
            with log_if_unavailable("web processes do not know what is used of each other"):
                own = [text for name, seconds in used.items() for text in (name, f"{seconds:.4f}")]
                arguments = [_HOLDS_MS, self._process, *own]
                found = cast(list[bytes], self._note(keys=[_KEY], args=arguments))
                self._rests_until = 0.0
        elsewhere: dict[int, float] = {}
        for name, seconds in zip(found[::2], found[1::2], strict=True):
            elsewhere[int(name)] = elsewhere.get(int(name), 0.0) + float(seconds)
        return elsewhere
