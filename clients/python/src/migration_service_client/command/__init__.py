"""`migration-client`: the command of suppliers and operators.

A command has a module of its name. The commands of the groups are those of the operations of the interface.

Exit statuses: 0 done, 1 something differs or failed, 2 could not run.
"""

from importlib import import_module
from typing import Any

import click

# Every command with the first line of its help, so that `--help` imports none of them.
_LINES = {
    "check": "Validate the accounts in FILE by all rules of the service.",
    "profile": "Show what the values of FILE are like, path by path.",
    "delta": "Split the book NEW into what is unchanged, changed and new since OLD.",
    "redact": "Write a sample of FILE to OUT without the values of persons.",
    "fix": "Correct the accounts in FILE, as far as a correction is known and you accept it.",
    "convert": "Convert tables to a book of accounts, as BOOK.sql says.",
    "send": "Send FILE, which has an account in each line (NDJSON, plain or gzip).",
    "status": "Show all suppliers or one, a FILE that was sent, the BATCH with this id, or an account.",
    "results": "Show what came of each line of a FILE that was sent, or of the BATCH with this id.",
    "failed": "Print the lines that failed, as they were sent, of a FILE or of the BATCH with this id.",
    "reconcile": "Compare what a SUPPLIER sent, or a FILE, with what was created.",
    "watch": "Show the progress of a FILE that was sent, or of a BATCH, until it ends or is paused.",
    "listen": "Print events as they happen, and forward them to a receiver.",
    "trigger": "Send an example event of this TYPE to a receiver, or let the service send webhook.test.",
    "resend": "Let the service send an event again to a webhook: the delivery or the event with this ID.",
    "doctor": "Check what lies between this machine and the service, and what your key may do.",
    "configure": "Keep the address and the key of a service as the profile NAME.",
}

#: Every group of operations, and the operation that needs no group.
_GROUPS = {
    "accounts": "Validate, store, create, show or erase single accounts.",
    "added-data": "Add data to an account that exists.",
    "suppliers": "Show the import suppliers, whose accounts are migrated.",
    "batches": "Start and control batches, which migrate many accounts or add data to them.",
    "ready": "Check whether a supplier is ready for its next wave, or for go-live.",
    "waves": "Migrate pending accounts in waves, each with a window and an error threshold.",
    "acknowledgements": "Acknowledge refused accounts that will not be migrated, with a reason.",
    "old-figures": "Compare the figures of the old system with the created accounts.",
    "undo": "Undo imports before go-live: remove created accounts and make them pending again.",
    "go-live": "Decide that accounts go live: the platform owns them, and they cannot be undone.",
    "replacements": "Replace created accounts by a newer version before go-live, under the same number.",
    "certificate": "Certify what was migrated, and verify certificates without the service.",
    "webhooks": "Manage webhooks, which send events to servers.",
    "events": "Show events, and who reads them.",
    "sessions": "Show and end the sessions of your API keys.",
    "api-keys": "Show your API key, and what holds for it.",
    "report": "Get a report as one page that can be shared or printed.",
}


class _Commands(click.Group):
    """A group that imports the module of a command when it is called, and ends each error as one sentence."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_LINES, *_GROUPS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _GROUPS:
            from migration_service_client.command.operations import make_command  # noqa: PLC0415

            return make_command(cmd_name, _GROUPS[cmd_name])
        if cmd_name not in _LINES:
            return None
        command: click.Command = getattr(import_module(f"{__name__}.{cmd_name}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, lines in (("Commands", _LINES), ("Groups of commands", _GROUPS)):
            with formatter.section(title):
                formatter.write_dl(list(lines.items()))

    def invoke(self, ctx: click.Context) -> Any:
        # Imported here, because `--help` needs no HTTP library.
        from migration_payloads.files.output import writing  # noqa: PLC0415
        from migration_service_client.command.errors import CannotRunError, sentence  # noqa: PLC0415
        from migration_service_client.errors import ClientError  # noqa: PLC0415

        with writing():
            try:
                return super().invoke(ctx)
            except ClientError as error:
                raise CannotRunError(sentence(error)) from error


@click.group(
    cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(package_name="migration-service-client", prog_name="migration-client")
@click.option(
    "--profile",
    envvar="MIGRATION_CLIENT_PROFILE",
    show_envvar=True,
    metavar="NAME",
    help="The service and the key to use: see configure.",
)
def main(profile: str | None) -> None:
    """Check, send and follow accounts, and control their migration."""
