"""What ends a command: exit status 2 and one sentence. Exit status 1 is `context.exit(1)`."""

import click

from migration_service_client.command.output import escape
from migration_service_client.errors import ClientError, ServiceError


class CannotRunError(click.ClickException):
    """The command could not run: exit status 2."""

    exit_code = 2


#: How many of the errors are told.
_TOLD = 5


def sentence(error: ClientError) -> str:
    """Return what happened for people."""
    if isinstance(error, ServiceError):
        found = [it for it in error.errors if it.detail != error.detail]
        told = [f"{it.detail} ({it.code}{f' at {it.attr}' if it.attr else ''})" for it in found[:_TOLD]]
        if len(found) > _TOLD:
            told.append(f"And {len(found) - _TOLD} more.")
        refusal = f"The service refuses this: {error.detail or error.code} ({error.code})"
        return escape(" ".join([refusal, *told]))
    return str(error)
