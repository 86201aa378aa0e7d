"""Organisations share nothing: which organisation each table belongs to, and through what."""

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Table

from migration_service.models import Account

TABLES = Account.metadata.tables
ORGANISATION = "organisation"

#: Tables of the whole service: its operators and settings, the chain of the audit, and messages to the people
#: who run it.
OF_THE_SERVICE = {
    *("operator", "operator_organisation", "operator_session", "operator_form"),
    *("service_limit", "backup", "audit_day", "event_history", "alert_email"),
}
#: Tables with rows that belong to an organisation, or to all of them if it is null.
SHARED = {"operations_team", "payment_vendor"}
#: The owners of tables without a foreign key to them. The models say why there is none.
WITHOUT_KEY = {
    **{"batch_line": "batch", "undo_line": "undo", "retired_account_number": "undo_line"},
    **{"webhook_delivery": "webhook_endpoint", "webhook_attempt": "webhook_delivery"},
    **dict.fromkeys(("idempotency_key", "audit_entry", "event", "event_consumer"), ORGANISATION),
}
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
    "webhook_endpoint.api_key_id -> api_key": "the same",
    "batch.import_supplier_id -> import_supplier": "get_import_supplier looks for own ones",
    "undo.import_supplier_id -> import_supplier": "the same",
    "wave_plan.import_supplier_id -> import_supplier": "the same",
    "comparison.import_supplier_id -> import_supplier": "the same",
    "comparison.batch_id -> batch": "get_batch_to_reconcile looks for own ones",
    "undo.batch_id -> batch": "get_owned looks for own ones",
    "wave.batch_id -> batch": "the batch is made with the wave",
    "transaction.ledger_pk -> ledger": "the ledger is looked for in the account",
    "payment_instruction.payment_vendor_pk -> payment_vendor": "own and shared ones are looked for",
}


@dataclass(frozen=True, slots=True)
class Key:
    """A foreign key."""

    table: str
    column: str
    parent: str
    can_be_null: bool

    def __str__(self) -> str:
        return f"{self.table}.{self.column} -> {self.parent}"


def _keys(table: Table) -> Iterator[Key]:
    for column in table.columns:
        for key in column.foreign_keys:
            yield Key(table.name, column.name, key.column.table.name, bool(column.nullable))


def _owners() -> dict[str, Key | None]:
    """Return the owner of each table: the shortest chain of keys to the organisation that are never null."""
    owners: dict[str, Key | None] = {ORGANISATION: None}
    level = {ORGANISATION}
    while level:
        found: dict[str, Key | None] = {}
        for name, table in TABLES.items():
            if name in owners or name in OF_THE_SERVICE:
                continue
            if name in WITHOUT_KEY:
                if WITHOUT_KEY[name] in level:
                    found[name] = None
            elif keys := [
                it for it in _keys(table) if it.parent in level and (name in SHARED or not it.can_be_null)
            ]:
                found[name] = keys[0]
        owners |= found
        level = set(found) - SHARED  # nothing belongs to an organisation through a row that may be shared
    return owners


def test_every_table_belongs_to_one_organisation_and_leads_to_no_other() -> None:
    owners = _owners()
    assert set(TABLES) - set(owners) == OF_THE_SERVICE
    others = {
        str(key)
        for name, owner in owners.items()
        for key in _keys(TABLES[name])
        if key != owner and key.parent in owners
    }
    assert others == set(TIES)
    assert {
        name
        for name, table in TABLES.items()
        if name not in OF_THE_SERVICE
        and any(key.parent == ORGANISATION and key.can_be_null for key in _keys(table))
    } == SHARED
