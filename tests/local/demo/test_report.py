"""What a sample shows and leaves behind, and its sandbox vendor."""

import io
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from migration_service.config import Settings
from migration_service.errors import PaymentVendorNotFoundError
from migration_service.models import Account, Organisation, PaymentInstruction, PaymentVendor
from migration_service.services.setup.organisations import get_organisation
from migration_service.services.setup.vendors import get_payment_vendor
from migration_service.tasks.resources import WorkerResources
from migration_service_local.console import Output, Terminal
from migration_service_local.demo.migration import VENDOR
from migration_service_local.demo.sample import (
    KEY_FILE,
    NO_ADDRESS,
    ORGANISATION,
    SUPPLIER,
    client_lines,
    make_sample_supplier,
    set_up_sandbox_vendor,
    show_addresses,
    take_down_sandbox_vendor,
)
from support.factories import make_customer
from support.imported_account import ImportedAccount
from support.supplier_client import SupplierClient

SETTINGS = {
    "MIGRATION_SERVICE_WEB_URL": "http://127.0.0.1:8000",
    "FLOWER_URL": "http://127.0.0.1:5555",
    "FLOWER_USER": "operator",
    "FLOWER_PASSWORD": "password-of-flower",
    "SANDBOX_VENDOR_URL": "http://127.0.0.1:8090",
}


def printed(home: Path, account: str | None, *, terminal: bool) -> str:
    written = io.StringIO()
    console = Terminal(file=written, force_terminal=terminal, soft_wrap=True, highlight=False, no_color=True)
    show_addresses(Output(console), home, SETTINGS, account)
    return written.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_only_a_terminal_shows_the_key_and_the_password(tmp_path: Path, *, terminal: bool) -> None:
    nothing = printed(tmp_path, "100", terminal=terminal)
    assert "for trials only" not in nothing
    assert "migration-client" not in nothing
    key_file = tmp_path / KEY_FILE
    key_file.write_text("key-of-sample\n")
    text = printed(tmp_path, "100", terminal=terminal)
    assert "accounts status SAMPLE_ENERGY 100" in text
    assert "accounts status" not in printed(tmp_path, None, terminal=terminal)
    assert ("key-of-sample" in text) == ("password-of-flower" in text) == terminal
    assert str(key_file) in text
    assert (f"FLOWER_PASSWORD in {tmp_path / 'settings.json'}" in text) != terminal
    assert "sandbox (for trials only" in text


def test_the_lines_to_paste_are_words_of_a_shell(tmp_path: Path) -> None:
    key_file = tmp_path / "a key"
    given, status = client_lines("http://127.0.0.1:8000", key_file, "10/0 3")
    url, given_file = (it.partition("=")[2] for it in shlex.split(given)[1:])
    assert (url, given_file) == ("http://127.0.0.1:8000", str(key_file))
    assert shlex.split(status)[1:] == ["accounts", "status", SUPPLIER, "10/0 3"]


@pytest.fixture
def database_url(migrated: Settings) -> Iterator[str]:
    make_sample_supplier(migrated.database_url)
    set_up_sandbox_vendor(migrated.database_url, "http://127.0.0.1:8090")
    yield migrated.database_url
    take_down_sandbox_vendor(migrated.database_url)


def _vendor(sessions: sessionmaker[Session]) -> PaymentVendor | None:
    with sessions() as session:
        return session.scalar(select(PaymentVendor).where(PaymentVendor.name == VENDOR))


def test_it_belongs_to_the_samples_organisation_and_goes_when_the_service_stops(
    database_url: str, sessions: sessionmaker[Session]
) -> None:
    customer = make_customer(sessions)
    with sessions() as session:
        own, other = (get_organisation(session, name).id for name in (ORGANISATION, customer.organisation))
        assert get_payment_vendor(session, own, VENDOR).url == "http://127.0.0.1:8090"
        with pytest.raises(PaymentVendorNotFoundError):
            get_payment_vendor(session, other, VENDOR)
    take_down_sandbox_vendor(database_url)
    assert _vendor(sessions) is None
    take_down_sandbox_vendor(database_url)  # again: nothing to do


def test_one_that_instructions_refer_to_stays_without_an_address_until_the_next_start(
    database_url: str,
    supplier: SupplierClient,
    worker_resources: WorkerResources,
    sessions: sessionmaker[Session],
) -> None:
    account = ImportedAccount.create(supplier, worker_resources)
    with sessions.begin() as session:
        vendor = session.scalars(select(PaymentVendor).where(PaymentVendor.name == VENDOR)).one()
        assert vendor.organisation_id == session.scalar(
            select(Organisation.id).where(Organisation.name == ORGANISATION)
        )
        owner = session.scalars(
            select(Account).where(Account.external_account_number == account.number)
        ).one()
        session.add(
            PaymentInstruction(
                account_pk=owner.id,
                payment_vendor_pk=vendor.id,
                reference="card-ok-1",
                type="CARD",
                details={},
            )
        )
    take_down_sandbox_vendor(database_url)
    stayed = _vendor(sessions)
    assert stayed is not None
    assert stayed.url == NO_ADDRESS
    set_up_sandbox_vendor(database_url, "http://127.0.0.1:8091")
    again = _vendor(sessions)
    assert again is not None
    assert (again.id, again.url) == (stayed.id, "http://127.0.0.1:8091")
