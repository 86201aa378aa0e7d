"""Answers that are read while they come: one thread receives them, another takes what came."""

import queue
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from migration_service_client.conversations import Answer, NoAnswer

#: Chunks that wait until they are taken.
_AHEAD = 4


class Stream:
    """The body of an answer. Whoever receives it waits while nobody takes what came."""

    def __init__(self, is_cancelled: Callable[[], bool] | None = None) -> None:
        self._items: queue.Queue[Any] = queue.Queue(_AHEAD)
        self._is_cancelled = is_cancelled
        self._closed = False

    def put(self, item: Answer | NoAnswer | BaseException | bytes | None) -> None:
        """Add the answer, then the chunks of its body, then None, or what ended it too early."""
        while True:
            try:
                return self._items.put(item, timeout=1)
            except queue.Full:
                if self.is_closed():
                    return None

    def take(self) -> Any:
        """Return the next chunk, None at the end, or NoAnswer if the connection broke."""
        item = self._items.get()
        if isinstance(item, BaseException):
            raise item
        return item

    def answer(self) -> Answer | NoAnswer:
        """Return a good answer when it begins, and one that is an error with its whole body."""
        try:
            answer: Answer | NoAnswer = self.take()
            if isinstance(answer, NoAnswer):
                return answer
            if answer.is_ok:
                return replace(answer, stream=self)
            body = b""
            while (chunk := self.take()) is not None:
                if isinstance(chunk, NoAnswer):
                    return chunk
                body += chunk
            return replace(answer, body=body)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Receive no more."""
        self._closed = True

    def is_closed(self) -> bool:
        """Return whether nothing is taken any longer."""
        return self._closed or (self._is_cancelled is not None and self._is_cancelled())
