"""Organisations share nothing: which organisation each table belongs to, and through what."""

from sqlalchemy import insert, select, text
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import Acknowledgement, Batch, ImportSupplier
from migration_service.services.cells.ownership import (
    belongs,
    find_strays,
    other_references,
    owners,
    shared_tables,
    tables,
)
from support.batch_client import BatchClient
from support.factories import Customer

#: Every key beside the owner through which a row could lead to another organisation, and why it does not.
TIES = {
    "account.account_import_process_id -> account_import_process": "creation takes both from the process",
    "account.operations_team_id -> operations_team": "own and shared ones are looked for",
    "attempt.operations_team_id -> operations_team": "the same",
    "batch.operations_team_id -> operations_team": "the same",
    "wave_plan.operations_team_id -> operations_team": "the same",
    "attempt.api_key_id -> api_key": "the key of the caller, who sees own suppliers only",
    "batch.api_key_id -> api_key": "the same",
    "undo.api_key_id -> api_key": "the same",
    "batch.import_supplier_id -> import_supplier": "get_import_supplier looks for own ones",
    "undo.import_supplier_id -> import_supplier": "the same",
    "wave_plan.import_supplier_id -> import_supplier": "the same",
    "undo.batch_id -> batch": "get_owned looks for own ones",
    "wave.batch_id -> batch": "the batch is made with the wave",
    "transaction.ledger_pk -> ledger": "the ledger is looked for in the account",
    "payment_instruction.payment_vendor_pk -> payment_vendor": "own and shared ones are looked for",
}


def test_every_table_belongs_to_one_organisation_and_leads_to_no_other() -> None:
    assert {str(it) for it in other_references()} == set(TIES)
    assert shared_tables() == ["operations_team", "payment_vendor"]
    assert len(tables()) == len(owners()) + 1


def test_a_reference_to_another_organisation_is_found(
    batches: BatchClient, other: Customer, sessions: sessionmaker[Session]
) -> None:
    batch_id = batches.start(batches.supplier.accounts(1))
    owner = batches.supplier.organisation_id()
    with sessions() as session:
        assert find_strays(session.connection(), owner) == []
        theirs = session.query(ImportSupplier).filter_by(code=other.import_supplier).one()
        session.get_one(Batch, batch_id).import_supplier_id = theirs.id
        session.flush()
        assert find_strays(session.connection(), owner) == ["batch.import_supplier_id -> import_supplier"]


def test_rows_belong_through_the_shortest_chain_of_keys(
    customer: Customer, other: Customer, sessions: sessionmaker[Session]
) -> None:
    with sessions() as session:
        for it, reason in ((customer, "ours"), (other, "theirs")):
            supplier = session.query(ImportSupplier).filter_by(code=it.import_supplier).one()
            session.execute(
                insert(Acknowledgement).values(
                    import_supplier_id=supplier.id,
                    external_account_number="1",
                    reason=reason,
                    acknowledged_by="a test",
                )
            )
        condition = belongs("acknowledgement", customer.organisation_id)
        found = session.scalars(select(Acknowledgement.reason).where(text(condition)))
        assert found.all() == ["ours"]
