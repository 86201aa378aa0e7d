"""The output of `up` when it is ready: the result of the sample migration, and the addresses."""

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from migration_service_local.console import Output
from migration_service_local.demo.added_data import ADDITIONS, VENDOR
from migration_service_local.demo.batch import IMPORTED
from migration_service_local.demo.client import RequestOutcome
from migration_service_local.demo.first_operator import FIRST_OPERATOR, PASSWORD_FILE

#: The counts of the sample migration.
STEPS = ("validated", "staged", "processed")
_FAILURES_SHOWN = 5


def show_summary(output: Output, outcome: RequestOutcome, accounts: int, seconds: float) -> None:
    """Print the counts and the rate of the sample migration, and the first failures."""
    table = Table(title=f"Sample migration: {accounts} accounts in {seconds:.1f} s", title_justify="left")
    table.add_column("what")
    table.add_column("count", justify="right")
    for what in (*STEPS, *ADDITIONS, IMPORTED, "imported before", "sent again"):
        if outcome.counts[what]:
            table.add_row(what, str(outcome.counts[what]))
    table.add_row("failed", str(len(outcome.failures)))
    created = outcome.counts["processed"] + outcome.counts[IMPORTED]
    table.add_row("accounts per second", f"{created / seconds:.1f}")
    output.show(table)
    if outcome.failures:
        output.alarm("These accounts were not migrated", outcome.failures[:_FAILURES_SHOWN])


@dataclass(frozen=True, slots=True)
class Sample:
    """The sample supplier, the file with its API key, and one of its created accounts, if any."""

    supplier: str
    key_file: Path
    account: str | None


def show_addresses(output: Output, home: Path, settings: Mapping[str, str], sample: Sample | None) -> None:
    """Print the addresses, the files with the passwords, and a command to paste, one per line.

    Keys and passwords are printed only on a terminal. Elsewhere, for example in a log file, the path of the
    file that holds them is printed instead.
    """
    web_url = settings["MIGRATION_SERVICE_WEB_URL"]
    output.show(Rule("Account Migration Import Service", style="green"))
    for name, value in _rows(home, settings, sample, secrets=output.console.is_terminal).items():
        output.show(Text.assemble((f"{name:<20}", "bold"), value))
    if sample and sample.account:
        output.show(Text("\nAsk for the status of a migrated account:", style="bold"))
        for line in client_lines(web_url, sample.key_file, sample.supplier, sample.account):
            output.show(Text(line))
    output.show(Rule(style="green"))
    output.say("serving; Ctrl-C stops everything")


def _rows(home: Path, settings: Mapping[str, str], sample: Sample | None, *, secrets: bool) -> dict[str, str]:
    web_url = settings["MIGRATION_SERVICE_WEB_URL"]
    password = home / PASSWORD_FILE
    rows = {
        "console": f"{web_url}/console/",
        **({"its first user": FIRST_OPERATOR, "password in": str(password)} if password.exists() else {}),
        "interface": f"{web_url}/v1/data-import/",
        "its documentation": f"{web_url}/v1/docs/",
        "Flower": settings["FLOWER_URL"],
        "Flower's user": settings["FLOWER_USER"],
        "Flower's password": (
            settings["FLOWER_PASSWORD"] if secrets else f"FLOWER_PASSWORD in {home / 'settings.json'}"
        ),
        "data (home folder)": str(home),
    }
    if sample is None:
        return rows
    rows |= {"import supplier": sample.supplier, "API key file": str(sample.key_file)}
    if secrets:
        rows["API key"] = sample.key_file.read_text().strip()
    if "SANDBOX_VENDOR_URL" in settings:
        rows["payment vendor"] = f"{VENDOR} (for trials only: it confirms invented payment instructions)"
    return rows


def client_lines(web_url: str, key_file: Path, supplier: str, account: str) -> list[str]:
    """Return two lines for a shell: the address and the key for the client, and a command that uses them."""
    command = str(Path(sys.executable).parent / "migration-client")
    return [
        f"export MIGRATION_CLIENT_URL={web_url} MIGRATION_CLIENT_KEY_FILE={shlex.quote(str(key_file))}",
        shlex.join([command, "accounts", "status", supplier, account]),
    ]
