"""Rows of suppliers, accounts and batches, as tests need them.

Whose they are is a customer, or a supplier as the service knows it.
"""

from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.base import Base, new_id
from migration_service.models import (
    Account,
    AccountImportProcess,
    Attempt,
    Batch,
    BatchChunk,
    BatchLine,
    ImportSupplier,
    Ledger,
    OperationsTeam,
    Wave,
    WavePlan,
    WebhookEndpoint,
)
from migration_service.services.reconciliation import comparisons
from migration_service.services.reconciliation.differences import AccountDifference
from migration_service.services.reconciliation.verdict import Verdict, judge
from migration_service.services.setup.suppliers import KnownSupplier, get_import_supplier
from migration_service.services.undo.go_live import Gate, GoLiveOrder, start_go_live
from migration_service.states import EndpointOff
from support.factories import Customer

_Row = TypeVar("_Row", bound=Base)

Owner = Customer | KnownSupplier


def add(session: Session, row: _Row) -> _Row:
    """Insert a row. It then has what the database has set."""
    session.add(row)
    session.flush()
    return row


#: One statement, because each test has a supplier or two.
_MAKE_SUPPLIER = text("""
    WITH made AS (
        INSERT INTO organisation (name) SELECT 'Organisation of ' || CAST(:code AS text)
        WHERE CAST(:organisation_id AS bigint) IS NULL RETURNING id
    ), team AS (
        INSERT INTO operations_team (organisation_id, name)
        SELECT id, 'Team of ' || CAST(:code AS text) FROM made
    )
    INSERT INTO import_supplier (organisation_id, code)
    SELECT coalesce((SELECT id FROM made), CAST(:organisation_id AS bigint)), CAST(:code AS text)
""")


def make_supplier(session: Session, code: str, organisation_id: int | None = None) -> KnownSupplier:
    """Insert an import supplier, with an organisation and its team if no organisation is named."""
    session.execute(_MAKE_SUPPLIER, {"code": code, "organisation_id": organisation_id})
    return get_import_supplier(session, code, organisation_id=None)


def find_supplier(session: Session, owner: Owner) -> KnownSupplier:
    """Return a supplier as the service knows it: the customer's."""
    if isinstance(owner, KnownSupplier):
        return owner
    return get_import_supplier(session, owner.import_supplier, organisation_id=None)


def compare(
    sessions: sessionmaker[Session], known: KnownSupplier, batch_id: UUID | None = None
) -> tuple[Verdict, list[AccountDifference]]:
    """Compare a supplier or a batch. Return the verdict and all accounts that differ."""
    with sessions.begin() as session:
        comparison_id = comparisons.start_comparison(session, known, batch_id)[0].id
    assert comparisons.wait_for_comparison(sessions, comparison_id)
    with sessions.begin() as session:
        kept = comparisons.find_kept(session, known.id, batch_id)
        assert kept is not None
        verdict = judge(session, known.id, batch_id)
    return verdict, list(comparisons.stream_differing(sessions, kept))


def team_of(owner: Owner) -> Any:
    """Return the id of a team, as an expression to insert: the customer's, or the organisation's only one."""
    own = OperationsTeam.organisation_id == owner.organisation_id
    if isinstance(owner, Customer):
        own = OperationsTeam.name == owner.operations_team
    return select(OperationsTeam.id).where(own).scalar_subquery()


def make_process(session: Session, owner: Owner, number: str, **values: Any) -> AccountImportProcess:
    """Insert the import process of an account. It has an empty payload, and was imported."""
    given: dict[str, Any] = {
        "state": "IMPORTED",
        "payload": {},
        "payload_sha256": b"",
        "rules_version": "",
        "profile": "",
    }
    if values.get("state") == "IN_PROGRESS":
        given["attempt_id"] = new_id()
    keys = {"import_supplier_id": find_supplier(session, owner).id, "external_account_number": number}
    return add(session, AccountImportProcess(**keys, **given | values))


def make_attempt(
    session: Session, known: KnownSupplier, process: AccountImportProcess, **values: Any
) -> Attempt:
    """Insert an attempt to create an account: the one in progress, if there is one."""
    given = {"id": process.attempt_id or new_id(), "dry_run": False, "operations_team_id": team_of(known)}
    return add(session, Attempt(account_import_process_id=process.id, **given | values))


def make_plan(session: Session, known: KnownSupplier, *batches: Batch, **values: Any) -> WavePlan:
    """Insert a plan with a wave for each of these batches."""
    keys = {"organisation_id": known.organisation_id, "import_supplier_id": known.id}
    given = {"operations_team_id": team_of(known), "seed": 1, "continue_if_clean": False} | values
    plan = add(session, WavePlan(id=new_id(), **keys, **given))
    for number, batch in enumerate(batches, 1):
        batch.operations_team_id = batch.operations_team_id or plan.operations_team_id
        add(session, Wave(plan_id=plan.id, number=number, batch_id=batch.id))
    return plan


def make_account(session: Session, process: AccountImportProcess, **values: Any) -> Account:
    """Insert the account that was made of a process, without any part."""
    team = (
        select(OperationsTeam.id)
        .join(ImportSupplier, ImportSupplier.organisation_id == OperationsTeam.organisation_id)
        .where(ImportSupplier.id == process.import_supplier_id)
    )
    given = {
        "service_account_number": process.service_account_number or f"A-{process.id}",
        "import_supplier_id": process.import_supplier_id,
        "operations_team_id": team.scalar_subquery(),
        "external_account_number": process.external_account_number,
        "unknown_occupier": True,
    }
    return add(session, Account(account_import_process_id=process.id, **given | values))


def make_created(session: Session, known: KnownSupplier, number: str, **values: Any) -> AccountImportProcess:
    """Insert an account without any part, as its payload says. Return its process, with these values."""
    payload = {"import_supplier": known.code, "external_account_number": number, "unknown_occupier": True}
    given = {"payload": payload, "service_account_number": f"A-{number}"}
    process = make_process(session, known, number, **given | values)
    account = make_account(session, process)
    ledger = Ledger(account_pk=account.id, position=0, ledger_code="ENERGY_LEDGER", ledger_balance=0)
    add(session, ledger)
    return process


def make_batch(session: Session, owner: Owner, **values: Any) -> Batch:
    """Insert a batch without lines. It stages."""
    supplier = find_supplier(session, owner)
    keys = {"organisation_id": supplier.organisation_id, "import_supplier_id": supplier.id}
    given = {"id": new_id(), "mode": "stage", "source": "upload"} | values
    if given["mode"] in ("import", "dry-run"):
        given.setdefault("operations_team_id", team_of(owner))
    batch = add(session, Batch(**keys, **given))
    session.refresh(batch)
    return batch


def build_line(
    batch: Batch, line: int, number: str | None, status: str, *codes: str, **values: Any
) -> BatchLine:
    """Return a line of a batch, with errors that have these codes. It is not inserted yet."""
    given = {"errors": [{"code": code, "detail": "", "attr": None} for code in codes]} if codes else {}
    return BatchLine(
        batch_id=batch.id, line_number=line, external_account_number=number, status=status, **given | values
    )


def make_line(
    session: Session, batch: Batch, line: int, number: str | None, status: str, *codes: str, **values: Any
) -> BatchLine:
    """Insert a line of a batch, with errors that have these codes."""
    return add(session, build_line(batch, line, number, status, *codes, **values))


def add_chunk(
    session: Session, batch: Batch, first_line: int = 1, last_line: int | None = None, **values: Any
) -> BatchChunk:
    """Insert a chunk of a batch, without lines."""
    last_line = last_line or first_line + 8
    keys = {"batch_id": batch.id, "first_line": first_line, "last_line": last_line}
    chunk = add(session, BatchChunk(**keys, **values))
    session.refresh(chunk)
    return chunk


def make_webhook(session: Session, organisation_id: int, name: str) -> WebhookEndpoint:
    """Create a webhook of an organisation that is switched off."""
    endpoint = WebhookEndpoint(
        id=new_id(),
        organisation_id=organisation_id,
        url="https://billing.example/events",
        description=f"Webhook of {name}",
        disabled_at=func.now(),
        disabled_reason=EndpointOff.PERSON,
    )
    return add(session, endpoint)


def read_now(session: Session) -> datetime:
    """Return the time of the database, which stands still in a transaction."""
    return session.execute(select(func.now())).scalar_one()


def set_live(session: Session, code: str, at: datetime | None = None, **values: Any) -> datetime:
    """Let a supplier go live, by default now, and return the moment."""
    supplier = get_import_supplier(session, code, organisation_id=None)
    return start_go_live(session, GoLiveOrder(supplier=supplier, gate=Gate(hours=0), at=at, **values)).live_at
