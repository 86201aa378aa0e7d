"""`migration-service`: the operators' command. Each group of commands has a module of its own.

Other packages add commands with an entry point in the group `migration_service.commands`. It names a mapping
like `COMMANDS`.
"""

import platform
from importlib.metadata import entry_points, version

import click

from migration_service.cli.lazy import LazyGroup

_HERE = "migration_service.cli"

#: Every command: its module and attribute, and the first line of its help.
COMMANDS = {
    "organisations": (
        f"{_HERE}.organisations:organisations",
        "Manage organisations, which own API keys and import suppliers.",
    ),
    "api-keys": (
        f"{_HERE}.api_keys:api_keys",
        "Manage the API keys that organisations use to obtain tokens.",
    ),
    "operators": (
        f"{_HERE}.operators:operators",
        "Manage operators: the people who use the console, each with a role.",
    ),
    "suppliers": (
        f"{_HERE}.suppliers:suppliers",
        "Manage import suppliers, whose accounts are migrated.",
    ),
    "teams": (f"{_HERE}.teams:teams", "Manage the operations teams that created accounts are linked to."),
    "vendors": (f"{_HERE}.vendors:vendors", "Manage the payment vendors that verify payment instructions."),
    "accounts": (
        f"{_HERE}.accounts:accounts",
        "Show, skip, unskip or erase single accounts.",
    ),
    "check": (
        f"{_HERE}.check:check",
        "Validate the accounts in FILE without a server.",
    ),
    "batches": (
        f"{_HERE}.batches:batches",
        "Start and control batches, which migrate many accounts or add data to them.",
    ),
    "waves": (
        f"{_HERE}.waves:waves",
        "Migrate pending accounts in waves, each with a window and an error threshold.",
    ),
    "reconcile": (f"{_HERE}.reconcile:reconcile", "Compare what SUPPLIER sent with what was created."),
    "report": (
        f"{_HERE}.report:report",
        "Write a report as one HTML page that can be shared or printed.",
    ),
    "acknowledgements": (
        f"{_HERE}.acknowledgements:acknowledgements",
        "Acknowledge refused accounts that will not be migrated, with a reason.",
    ),
    "undo": (
        f"{_HERE}.undo:undo",
        "Undo imports before go-live: remove created accounts and make them pending again.",
    ),
    "go-live": (
        f"{_HERE}.go_live:go_live",
        "Set when SUPPLIER goes live. From then on its imports cannot be undone.",
    ),
    "limit": (f"{_HERE}.limit:limit", "Show or set how many accounts may be processed at the same time."),
    "workers": (f"{_HERE}.worker_hosts:workers", "Drain the workers of a host."),
    "audit": (
        f"{_HERE}.audit:audit",
        "Show, export and verify the audit: who did what, when and from where.",
    ),
    "revisions": (
        f"{_HERE}.revisions:revisions",
        "Bring the database tables up to date.",
    ),
    "doctor": (f"{_HERE}.doctor:doctor", "Check every part of the running service, and advise what to do."),
}


def _added_commands() -> dict[str, tuple[str, str]]:
    added: dict[str, tuple[str, str]] = {}
    for entry in entry_points(group="migration_service.commands"):
        added |= entry.load()
    return added


def _show_version(context: click.Context, _option: click.Parameter, asked: bool) -> None:
    """Print the versions of the distribution, of its newest revision, and of Python."""
    if not asked or context.resilient_parsing:
        return
    # Imported here, because no other command needs Alembic.
    from migration_service.db.revisions import newest_revision  # noqa: PLC0415

    click.echo(
        f"migration-service {version('migration-service')}, newest revision {newest_revision()}, "
        f"Python {platform.python_version()}"
    )
    context.exit()


@click.group(
    cls=LazyGroup,
    commands_at=_added_commands() | COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the versions.",
)
def main() -> None:
    """Set up and run the migration of customer accounts, and monitor it."""
