"""`migration-service`: the operators' command. One module a group of commands."""

import click

from migration_service.cli.samples import samples
from migration_service.cli.up import up


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def main() -> None:
    """Migrate customer accounts from suppliers into the platform, and watch how far it is."""


main.add_command(samples)
main.add_command(up)
