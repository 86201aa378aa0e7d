"""`migration-service`: what needs the machine or the database. Each group of commands has its own module.

What the interface can do, `migration-client` does.

Other packages add commands with an entry point in the group `migration_service.commands`. It names a mapping
like `COMMANDS`.
"""

import platform
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points, version
from typing import Any

import click

from migration_payloads.files.output import writing
from migration_service.loading import begin_loading, end_loading

_HERE = "migration_service.cli"

# Every command with the first line of its help. A command is in the module of its name.
_LINES = {
    "organisations": "Manage organisations, which own API keys and import suppliers.",
    "api-keys": "Manage the API keys that organisations use to obtain tokens.",
    "operators": "Manage operators: the people who use the console, each with a role.",
    "suppliers": "Manage import suppliers, whose accounts are migrated.",
    "teams": "Manage the operations teams that created accounts are linked to.",
    "vendors": "Manage the payment vendors that verify payment instructions.",
    "accounts": "Show, skip, unskip or erase single accounts.",
    "go-live": "Set when SUPPLIER goes live. From then on its imports cannot be undone.",
    "limit": "Show or set how many accounts may be processed at the same time.",
    "workers": "Drain the workers of a host.",
    "backups": "Say when a backup was taken, so that its age is watched.",
    "audit": "Show, export and verify the audit: who did what, when and from where.",
    "revisions": "Bring the database tables up to date.",
    "doctor": "Check every part of the running service, and advise what to do.",
}

#: Every command: its module and attribute, and the first line of its help.
COMMANDS = {
    name: (f"{_HERE}.{attribute}:{attribute}", line)
    for name, line in _LINES.items()
    for attribute in [name.replace("-", "_")]
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
    # Imported here, because help needs no database.
    from migration_service.db.needed_tables import NEEDED  # noqa: PLC0415

    click.echo(
        f"migration-service {version('migration-service')}, newest revision {NEEDED}, "
        f"Python {platform.python_version()}"
    )
    context.exit()


class LazyGroup(click.Group):
    """A group of commands that are imported when they are called.

    `commands_at` maps the name of a command to (`module:attribute`, one line of help).
    """

    def __init__(self, *args: Any, commands_at: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.commands_at = commands_at

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the given order."""
        return list(self.commands_at)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command."""
        if cmd_name not in self.commands_at:
            return None
        module, attribute = self.commands_at[cmd_name][0].split(":")
        begin_loading()
        command: click.Command = getattr(import_module(module), attribute)
        end_loading()
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. What cannot be written ends it as one sentence with exit status 2."""
        with writing():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing their modules."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_place, line) in self.commands_at.items()])


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
    """Set up the service, its organisations, keys and suppliers, and look after it.

    Batches, waves, reconciliation, undo and webhooks: `migration-client`.
    """
