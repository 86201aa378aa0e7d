"""Teams and vendors belong to organisations, and do not exist for others."""

import secrets
from typing import Any

from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import Attempt
from migration_service.services.setup.teams import create_operations_team
from support.imported_account import ImportedAccount, code_of
from support.supplier_client import SupplierClient
from support.vendor_servers import make_sandbox_vendor


def test_a_team_of_another_organisation_does_not_exist(
    supplier: SupplierClient, another: SupplierClient, sessions: sessionmaker[Session]
) -> None:
    name = f"Team {secrets.token_hex(4)}"
    with sessions.begin() as session:
        create_operations_team(session, name, organisation_name=another.organisation)
    (number,) = supplier.stage_new()
    theirs = supplier.process(number, operations_team_name=name)
    nobodys = supplier.process(number, operations_team_name="x" * len(name))
    assert theirs.status_code == 400
    assert theirs.data.replace(name.encode(), b"x" * len(name)) == nobodys.data
    query = {"mode": "import", "import_supplier": supplier.code, "operations_team_name": name}
    batch = supplier.post("/batches/", query_string=query, data=b"{}\n")
    assert (batch.status_code, code_of(batch)) == (400, "operations_team_not_found")


def test_the_organisations_own_team_is_preferred_to_a_shared_one(
    supplier: SupplierClient, another: SupplierClient, sessions: sessionmaker[Session]
) -> None:
    name = f"Team {secrets.token_hex(4)}"
    with sessions.begin() as session:
        shared = create_operations_team(session, name)
        own = create_operations_team(session, name, organisation_name=supplier.organisation)
    for client, team in ((supplier, own), (another, shared)):
        (number,) = client.stage_new()
        assert client.process(number, operations_team_name=name).status_code == 202
        with sessions() as session:
            attempt = session.get_one(Attempt, client.current_attempt(number))
        assert attempt.operations_team_id == team.id


def test_a_vendor_of_another_organisation_does_not_exist(
    account: ImportedAccount, another: SupplierClient, sessions: sessionmaker[Session], sandbox_url: str
) -> None:
    instruction: dict[str, Any] = {"reference": "card-ok-1", "type": "CARD"}
    theirs, own = (
        make_sandbox_vendor(sessions, sandbox_url, organisation=it.organisation)
        for it in (another, account.supplier)
    )
    refused = account.post_payment_instruction(vendor=theirs, **instruction)
    assert (refused.status_code, code_of(refused)) == (400, "payment_vendor_not_found")
    assert account.post_payment_instruction(vendor=own, **instruction).status_code == 201
