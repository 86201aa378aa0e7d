"""The sample migration: an invented supplier migrates an invented book through the REST interface.

The first fifth is sent account by account to every endpoint. The rest is sent as one batch.
This happens once for each home folder. Its file `demo.json` records the progress, and `sample-api-key` holds
the supplier's key.
"""

import shlex
import sys
import time
from collections.abc import Mapping
from functools import partial
from math import ceil
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.rule import Rule
from rich.table import Table
from rich.text import Text
from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from migration_service import models
from migration_service.payment_vendors.protocol import VendorKind
from migration_service.services.access.api_keys import issue_api_key
from migration_service.services.setup.organisations import create_organisation, get_organisation
from migration_service.services.setup.suppliers import create_import_supplier
from migration_service.services.setup.teams import create_operations_team
from migration_service.services.setup.vendors import create_payment_vendor
from migration_service_client import Client, ClientError, ServiceError
from migration_service_local.console import Output
from migration_service_local.demo import migration
from migration_service_local.demo.first_operator import FIRST_OPERATOR, PASSWORD_FILE, open_session
from migration_service_local.demo.migration import ADDITIONS, VENDOR
from migration_service_local.samples import generate_accounts, write_lines
from migration_service_local.sandbox import SANDBOX_VARIABLE
from migration_service_local.servers.home import Home

ORGANISATION = "Sample Energy"
SUPPLIER = "SAMPLE_ENERGY"
TEAM = "Sample team"

#: The address of the sandbox vendor while it does not run.
NO_ADDRESS = "http://127.0.0.1:1"

#: The file in the home folder that holds the sample supplier's API key, and nothing else.
KEY_FILE = "sample-api-key"
_STATE_FILE = "demo.json"
_SEED = 1
#: One in this many accounts is sent individually, and the others in a batch.
_ONE_IN = 5
_FAILURES_SHOWN = 5


def show_summary(output: Output, outcome: migration.Outcome, accounts: int, seconds: float) -> None:
    """Print the counts and the rate of the sample migration, and the first failures."""
    table = Table(title=f"Sample migration: {accounts} accounts in {seconds:.1f} s", title_justify="left")
    table.add_column("what")
    table.add_column("count", justify="right")
    for what in (*migration.STEPS, *ADDITIONS.values(), migration.IMPORTED, "imported before"):
        if outcome.counts[what]:
            table.add_row(what, str(outcome.counts[what]))
    table.add_row("failed", str(len(outcome.failures)))
    created = outcome.counts[migration.STEPS[-1]] + outcome.counts[migration.IMPORTED]
    table.add_row("accounts per second", f"{created / seconds:.1f}")
    output.show(table)
    if outcome.failures:
        output.alarm("These accounts were not migrated", outcome.failures[:_FAILURES_SHOWN])


def show_addresses(output: Output, home: Path, settings: Mapping[str, str], account: str | None) -> None:
    """Print the addresses, the files with the passwords, and a command to paste, one per line.

    `account` is one that the sample supplier has created, and the command asks for its status.
    Keys and passwords are printed only on a terminal. Elsewhere, for example in a log file, the path of the
    file that holds them is printed instead.
    """
    output.show(Rule("Account Migration Import Service", style="green"))
    for name, value in _rows(home, settings, secrets=output.console.is_terminal).items():
        output.show(Text.assemble((f"{name:<20}", "bold"), value))
    if account and (home / KEY_FILE).exists():
        output.show(Text("\nAsk for the status of a migrated account:", style="bold"))
        for line in client_lines(settings["MIGRATION_SERVICE_WEB_URL"], home / KEY_FILE, account):
            output.show(Text(line))
    output.show(Rule(style="green"))
    output.say("serving; Ctrl-C stops everything")


def _rows(home: Path, settings: Mapping[str, str], *, secrets: bool) -> dict[str, str]:
    web_url = settings["MIGRATION_SERVICE_WEB_URL"]
    password, key_file = home / PASSWORD_FILE, home / KEY_FILE
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
    if not key_file.exists():
        return rows
    rows |= {"import supplier": SUPPLIER, "API key file": str(key_file)}
    if secrets:
        rows["API key"] = key_file.read_text().strip()
    if "SANDBOX_VENDOR_URL" in settings:
        rows["payment vendor"] = f"{VENDOR} (for trials only: it confirms invented payment instructions)"
    return rows


def client_lines(web_url: str, key_file: Path, account: str) -> list[str]:
    """Return two lines for a shell: the address and the key for the client, and a command that uses them."""
    command = str(Path(sys.executable).parent / "migration-client")
    return [
        f"export MIGRATION_CLIENT_URL={web_url} MIGRATION_CLIENT_KEY_FILE={shlex.quote(str(key_file))}",
        shlex.join([command, "accounts", "status", SUPPLIER, account]),
    ]


class SampleMigration:
    """Migrates the sample book into the running service of a home folder."""

    def __init__(self, home: Home, output: Output) -> None:
        self._home = home
        self._output = output
        self._settings = home.read("settings.json")

    def run(self, count: int) -> None:
        """Migrate those of `count` accounts that are missing, then print the results and the addresses.

        A failure is printed, and the service continues.
        """
        try:
            if count:
                self._migrate_missing(count)
        except (migration.MigrationError, ClientError) as error:
            self._output.alarm("The sample migration failed. The service continues", [str(error)])
        account = self._home.read(_STATE_FILE).get("account")
        show_addresses(self._output, self._home.path, self._settings, account)

    def _migrate_missing(self, count: int) -> None:
        state = self._find_or_make_supplier()
        set_up_sandbox_vendor(self._settings["DATABASE_URL"], self._settings["SANDBOX_VENDOR_URL"])
        done = int(state["migrated"])
        if done < count:
            self._migrate(state, done, count)

    def _find_or_make_supplier(self) -> dict[str, str]:
        """Return the progress of earlier starts. If the key is not accepted, create what the sample needs."""
        state = self._home.read(_STATE_FILE)
        if state and self._is_known():
            return state
        self._home.write_text(KEY_FILE, make_sample_supplier(self._settings["DATABASE_URL"]))
        state = {"migrated": "0"}
        self._home.write(_STATE_FILE, state)
        return state

    def _is_known(self) -> bool:
        with self._client() as client:
            try:
                client.get_api_key()
            except ServiceError as error:
                self._output.say(f"The sample supplier gets a new key, as its key was refused: {error}")
                return False
        return True

    def _migrate(self, state: dict[str, str], done: int, count: int) -> None:
        outcome = migration.Outcome()
        started = time.monotonic()
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with (
            self._output.hush(),
            Progress(*columns, console=self._output.console) as progress,
            self._client() as client,
        ):
            bar = progress.add_task("migrating the sample book", total=count - done)
            singles = ceil((count - done) / _ONE_IN)
            generate = partial(generate_accounts, supplier=SUPPLIER, seed=_SEED)
            migration.migrate_singly(
                client, generate(singles, first=done), TEAM, outcome, lambda: progress.advance(bar)
            )
            if (first := done + singles) < count:
                migration.import_as_batch(
                    client,
                    write_lines(generate(count - first, first=first)),
                    outcome,
                    supplier=SUPPLIER,
                    team=TEAM,
                    on_progress=lambda finished: progress.update(bar, completed=singles + finished),
                )
        show_summary(self._output, outcome, count - done, time.monotonic() - started)
        if not outcome.failures:
            finished = state | {"migrated": str(count), "account": outcome.last_account}
            self._home.write(_STATE_FILE, finished)

    def _client(self) -> Client:
        # The environment's proxies cannot reach a server on this machine.
        return Client(self._settings["MIGRATION_SERVICE_WEB_URL"], self._home.read_text(KEY_FILE), proxy="")


def make_sample_supplier(database_url: str) -> str:
    """Create the organisation, the import supplier and the team if they do not exist. Return a new key."""
    with open_session(database_url) as session:
        if not session.scalar(select(models.Organisation.id).where(models.Organisation.name == ORGANISATION)):
            create_organisation(session, ORGANISATION)
        if not session.scalar(select(models.ImportSupplier.id).where(models.ImportSupplier.code == SUPPLIER)):
            create_import_supplier(
                session,
                code=SUPPLIER,
                organisation_name=ORGANISATION,
                document_root="s3://sample-energy/migration",
            )
        if not session.scalar(select(models.OperationsTeam.id).where(models.OperationsTeam.name == TEAM)):
            create_operations_team(session, TEAM)
        return issue_api_key(session, organisation_name=ORGANISATION)


def set_up_sandbox_vendor(database_url: str, url: str) -> None:
    """Create the payment vendor `sandbox`, or update its address: its port may change with each start.

    It belongs to the sample's organisation. No other one can name it.
    """
    with open_session(database_url) as session:
        vendor = _find_sandbox_vendor(session)
        if vendor is None:
            create_payment_vendor(
                session,
                VENDOR,
                kind=VendorKind.HTTP,
                url=url,
                secret_env=SANDBOX_VARIABLE,
                organisation_name=ORGANISATION,
            )
        else:
            vendor.url, vendor.organisation_id = url, get_organisation(session, ORGANISATION).id


def take_down_sandbox_vendor(database_url: str) -> None:
    """Remove the payment vendor `sandbox`. Its server stops, and another program may then use its port.

    If instructions refer to it, it is kept with an address where only root could listen.
    """
    with open_session(database_url) as session:
        vendor = _find_sandbox_vendor(session)
        used = exists().where(models.PaymentInstruction.payment_vendor_pk == models.PaymentVendor.id)
        if vendor is not None and session.scalar(select(used).where(models.PaymentVendor.id == vendor.id)):
            vendor.url = NO_ADDRESS
        elif vendor is not None:
            session.delete(vendor)


def _find_sandbox_vendor(session: Session) -> models.PaymentVendor | None:
    """Return the vendor that an earlier start created, found by its name and its secret's variable."""
    return session.scalar(
        select(models.PaymentVendor).where(
            models.PaymentVendor.name == VENDOR, models.PaymentVendor.secret_env == SANDBOX_VARIABLE
        )
    )
