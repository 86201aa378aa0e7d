"""A group that imports the module of a command only when the command is called. `--help` stays fast."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from migration_payloads.files.output import writing
from migration_service.loading import begin_loading, end_loading


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
