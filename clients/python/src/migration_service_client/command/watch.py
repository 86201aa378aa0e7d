"""`migration-client watch`, and how a batch or an undo is followed to its end."""

import math
import sys
import time
from typing import Any

import click

from migration_payloads.files.output import say
from migration_service_client import Client
from migration_service_client.command.errors import CannotRunError
from migration_service_client.command.online import Service, online
from migration_service_client.command.output import TELL_EVERY, count, json_option, progress, show_answer
from migration_service_client.command.runs import find_run
from migration_service_client.models import BatchProgressAnswer

#: Statuses of lines that have no outcome yet.
_OPEN = ("PENDING", "DEFERRED")


@click.command()
@click.argument("target", metavar="FILE|BATCH")
@json_option
@online()
def watch(*, target: str, as_json: bool, service: Service) -> None:
    """Show the progress of a FILE that was sent, or of a BATCH, until it ends or is paused.

    The exit status is 0 if the batch completes without a failed line, and 1 otherwise.
    """
    run = find_run(target)
    if run is not None and run.batch_id is None:
        raise CannotRunError(
            f"{target} has no batch to watch. What was sent: migration-client status {target}"
        )
    with service.client() as client:
        watch_batch(client, client.get_batch(str(run.batch_id) if run else target), as_json)


def watch_batch(client: Client, batch: BatchProgressAnswer, as_json: bool) -> None:
    """Show the progress on standard error, and the batch at its end. Exit with 1 unless all succeeded."""
    is_terminal = sys.stderr.isatty()
    told_at = -math.inf
    with progress("Processing" if is_terminal and not as_json else "", batch.lines) as bar:

        def show(found: BatchProgressAnswer) -> None:
            nonlocal told_at
            bar.update(count_done(found) - bar.pos)
            if not is_terminal and not as_json and time.monotonic() - told_at > TELL_EVERY:
                told_at = time.monotonic()
                say(_headline(found), err=True)

        ended = client.wait_for_batch(batch.batch_id, progress=show)
    show_answer(ended, as_json)
    if ended.state != "COMPLETED" or ended.counts.get("FAILED"):
        click.get_current_context().exit(1)


def watch_undo(client: Client, undo: Any, as_json: bool) -> None:
    """Wait for the end of an undo, and show it. Exit with 1 unless every account was undone."""
    ended = client.wait_for_undo(undo.undo_id)
    show_answer(ended, as_json)
    if (ended.counts or {}).get("REVERTED") != ended.accounts:
        click.get_current_context().exit(1)


def count_done(batch: BatchProgressAnswer) -> int:
    """Return the number of lines that have an outcome."""
    return batch.lines - sum(batch.counts.get(it, 0) for it in _OPEN)


def _headline(batch: BatchProgressAnswer) -> str:
    parts = [batch.state, f"{count_done(batch)} of {count(batch.lines, 'line')}"]
    parts.append(f"{batch.counts.get('FAILED', 0)} failed")
    if batch.rate:
        parts.append(f"{batch.rate:.1f} lines/s")
    if batch.time_left_low is not None and batch.time_left_high is not None:
        parts.append(f"{batch.time_left_low:.0f} to {batch.time_left_high:.0f} s left")
    return ", ".join([*parts, *([batch.condition] if batch.condition else [])])
