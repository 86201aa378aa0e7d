"""Notes the messages that the service publishes, by the tests that run its tasks themselves.

The signal `before_task_publish` is no way to do so: an application of Celery that has published before keeps
the list of receivers that there was then.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from migration_service.tasks.app import MigrationCelery

#: The name of a task, and its arguments.
Message = tuple[str, tuple[Any, ...]]


@contextmanager
def noted_messages() -> Iterator[list[Message]]:
    """Yield a list to which each message is added that is published within the `with` statement."""
    messages: list[Message] = []
    send = MigrationCelery.send_task

    def note(celery: MigrationCelery, task: str, *, args: tuple[Any, ...], **options: Any) -> object:
        messages.append((task, args))
        return send(celery, task, args=args, **options)

    with patch.object(MigrationCelery, "send_task", note):
        yield messages
