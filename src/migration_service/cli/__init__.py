"""`migration-service`: the operators' command. One module a group of commands.

Other packages add commands by an entry point in the group `migration_service.commands`, which names a mapping
as `COMMANDS` is.
"""

from importlib.metadata import entry_points

import click

from migration_service.cli.lazy import LazyGroup

_HERE = "migration_service.cli"

#: Every command: where it is, and the first line of its own help.
COMMANDS = {
    "organisations": (
        f"{_HERE}.organisations:organisations",
        "Organisations, which own API keys and import suppliers.",
    ),
    "api-keys": (f"{_HERE}.api_keys:api_keys", "API keys, which organisations obtain their tokens with."),
    "operators": (
        f"{_HERE}.operators:operators",
        "Operators: the people who operate the service, each with a role.",
    ),
    "suppliers": (f"{_HERE}.suppliers:suppliers", "Import suppliers, which accounts are migrated from."),
    "teams": (f"{_HERE}.teams:teams", "Operations teams, which created accounts are linked to."),
    "vendors": (f"{_HERE}.vendors:vendors", "Payment vendors, which payment instructions are verified with."),
    "accounts": (
        f"{_HERE}.accounts:accounts",
        "Single accounts on their way: look at one, take it out, put it back.",
    ),
    "check": (
        f"{_HERE}.check:check",
        "Validate the accounts in FILE, with no server at all.",
    ),
    "batches": (f"{_HERE}.batches:batches", "Batches: whole books of accounts, driven by workers."),
    "reconcile": (
        f"{_HERE}.reconcile:reconcile",
        "Compare what was staged for SUPPLIER with what was created.",
    ),
    "limit": (f"{_HERE}.limit:limit", "How many accounts are processed at once."),
    "audit": (
        f"{_HERE}.audit:audit",
        "The audit: who did what, on what, from where, and with which outcome.",
    ),
    "revisions": (
        f"{_HERE}.revisions:revisions",
        "Revisions, which bring the database's tables up to date.",
    ),
    "doctor": (f"{_HERE}.doctor:doctor", "Check every part of the running service, with advice."),
}


def _added_commands() -> dict[str, tuple[str, str]]:
    added: dict[str, tuple[str, str]] = {}
    for entry in entry_points(group="migration_service.commands"):
        added |= entry.load()
    return added


@click.group(
    cls=LazyGroup,
    commands_at=_added_commands() | COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
def main() -> None:
    """Migrate customer accounts from suppliers into the platform, and watch how far it is."""
