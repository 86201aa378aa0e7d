"""Teams, vendors and instructions belong to organisations, and do not exist for others."""

import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import Attempt, PaymentInstruction
from migration_service.payment_vendors.protocol import VendorKind
from migration_service.services.setup.teams import create_operations_team
from migration_service.services.setup.vendors import create_payment_vendor
from support.imported_account import ImportedAccount
from support.supplier_client import SupplierClient
from support.vendor_servers import run_sandbox

_SECRET = "the-sandbox-secret"


@pytest.fixture(autouse=True)
def sandbox_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWNERSHIP_SANDBOX_SECRET", _SECRET)


@pytest.fixture(scope="module")
def sandbox_url() -> Iterator[str]:
    with run_sandbox(_SECRET) as url:
        yield url


def _body(answer: Any) -> Any:
    return answer.json


def _vendor(sessions: sessionmaker[Session], url: str, organisation: str | None, name: str = "") -> str:
    name = name or f"vendor {secrets.token_hex(4)}"
    with sessions.begin() as session:
        create_payment_vendor(
            session,
            name,
            kind=VendorKind.HTTP,
            url=url,
            secret_env="OWNERSHIP_SANDBOX_SECRET",
            organisation_name=organisation,
        )
    return name


def _instruct(account: ImportedAccount, vendor: str, reference: str) -> tuple[int, str]:
    body = {
        "import_supplier": account.supplier.code,
        "external_account_number": account.number,
        "vendor": vendor,
        "reference": reference,
        "type": "CARD",
    }
    answer = account.supplier.post("/payment-instruction/create/", body)
    assert answer.json is not None
    return answer.status_code, answer.json.get("code", answer.json.get("detail", ""))


def test_a_team_of_another_organisation_does_not_exist(
    supplier: SupplierClient, another: SupplierClient, sessions: sessionmaker[Session]
) -> None:
    name = f"Team {secrets.token_hex(4)}"
    with sessions.begin() as session:
        create_operations_team(session, name, organisation_name=another.organisation)
    (account,) = supplier.accounts()
    supplier.stage(account)
    number = account["external_account_number"]
    theirs = supplier.process(number, operations_team_name=name)
    nobodys = supplier.process(number, operations_team_name="x" * len(name))
    assert theirs.status_code == 400
    assert theirs.data.replace(name.encode(), b"x" * len(name)) == nobodys.data
    query = {"mode": "import", "import_supplier": supplier.code, "operations_team_name": name}
    batch = supplier.post("/batches/", query_string=query, data=b"{}\n")
    assert (batch.status_code, _body(batch)["code"]) == (400, "operations_team_not_found")


def test_the_organisations_own_team_is_preferred_to_a_shared_one(
    supplier: SupplierClient, another: SupplierClient, sessions: sessionmaker[Session]
) -> None:
    name = f"Team {secrets.token_hex(4)}"
    with sessions.begin() as session:
        shared = create_operations_team(session, name)
        own = create_operations_team(session, name, organisation_name=supplier.organisation)
    for client, team in ((supplier, own), (another, shared)):
        (account,) = client.accounts()
        client.stage(account)
        number = account["external_account_number"]
        assert client.process(number, operations_team_name=name).status_code == 202
        with sessions() as session:
            attempt = session.get_one(Attempt, client.current_attempt(number))
        assert attempt.operations_team_id == team.id


def test_a_vendor_of_another_organisation_does_not_exist(
    account: ImportedAccount, another: SupplierClient, sessions: sessionmaker[Session], sandbox_url: str
) -> None:
    theirs = _vendor(sessions, sandbox_url, another.organisation)
    assert _instruct(account, theirs, "card-ok-1") == (400, "payment_vendor_not_found")
    own = _vendor(sessions, sandbox_url, account.supplier.organisation, theirs)
    assert _instruct(account, own, "card-ok-1")[0] == 201


def test_the_account_that_the_vendor_names_must_match_and_is_stored(
    account: ImportedAccount, sessions: sessionmaker[Session], sandbox_url: str
) -> None:
    vendor = _vendor(sessions, sandbox_url, account.supplier.organisation)
    assert _instruct(account, vendor, "card-account-1")[1] == "payment_instruction_rejected"
    assert _instruct(account, vendor, f"card-account-{account.number}")[0] == 201
    with sessions() as session:
        kept = session.scalars(
            select(PaymentInstruction).where(PaymentInstruction.reference == f"card-account-{account.number}")
        ).all()
    assert [(it.account_reference, it.customer_reference) for it in kept] == [(account.number, None)]
    assert kept[0].api_key_id is not None
