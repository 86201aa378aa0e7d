"""The SQL of a created account as JSON in the form of its payload, generated from the models.

It reads only rows and never payloads, so a comparison with the payload reveals mistakes of the creation, and
values without a column.
"""

from collections.abc import Iterator
from functools import cache
from itertools import count, groupby

from sqlalchemy import Column, text

from migration_service.db.base import Base
from migration_service.models import Account, Ledger
from migration_service.models.part import (
    Part,
    Source,
    parent_column,
    parts_of,
    path_of,
    payload_columns,
    table_of,
)
from migration_service.states import Outcome, TransactionPeriod

#: For the statements that compare: a plan made while the tables were small would read whole tables.
PLAN_EACH_TIME = text("SELECT set_config('plan_cache_mode', 'force_custom_plan', true)")

# Data added later has changed the balance, and is subtracted again.
_ADDED = f"""(
    SELECT coalesce(sum(CASE WHEN type IN ('PAYMENT', 'CREDIT') THEN amount ELSE -amount END), 0)
    FROM "transaction" WHERE ledger_pk = ledger.id AND period = '{TransactionPeriod.ADDED}')"""

#: Joins the supplier of `account`, and the attempt that created it from `process`.
JOIN_ORIGIN = f"""
    LEFT JOIN LATERAL (
        SELECT code, live_at, coalesce(nullif(document_root, '') || '/', '') AS document_root
        FROM import_supplier WHERE id = account.import_supplier_id OFFSET 0) AS supplier ON true
    LEFT JOIN LATERAL (
        SELECT operations_team_id, service_account_number FROM attempt
        WHERE account_import_process_id = process.id AND outcome = '{Outcome.SUCCEEDED}'
        ORDER BY finished_at DESC, id DESC LIMIT 1) AS attempt ON true"""
#: The number that whoever started the attempt was told.
TOLD = "coalesce(attempt.service_account_number, process.service_account_number)"

#: Columns of the account whose expected values are not in the payload. They are present only if wrong.
_GIVEN = {
    "import_supplier": "supplier.code",
    "service_account_number": f"""
        CASE WHEN account.service_account_number IS DISTINCT FROM {TOLD} THEN account.service_account_number
             WHEN process.service_account_number IS DISTINCT FROM {TOLD}
             THEN coalesce(process.service_account_number, '') END""",
    "operations_team_name": """
        CASE WHEN account.operations_team_id <> attempt.operations_team_id
             THEN (SELECT name FROM operations_team WHERE id = account.operations_team_id) END""",
}


@cache
def account_version() -> str:
    """Return the expression for a number that is another one once a row of an account has changed.

    The statement must have `account` and its import `process`. Each row counts with its key and with the
    transaction that wrote it, so whatever inserts, changes or removes one changes the number, even what
    avoids the service. The rows are those that `created_account` reads.
    """
    return f"""{_version(Account, count(1))} # coalesce((
        SELECT bit_xor(uuid_hash_extended(id, CAST(CAST(attempt.xmin AS text) AS bigint))) FROM attempt
        WHERE attempt.account_import_process_id = process.id), 0)"""


def _version(model: type[Base], tables: Iterator[int]) -> str:
    name = model.__tablename__
    # The number of the table keeps rows apart that have the same key in two.
    writer = f'CAST(CAST("{name}".xmin AS text) AS bigint) + {next(tables) << 32}'
    own = f'hashint8extended("{name}".id, {writer})'
    parts = [
        f"""coalesce((SELECT bit_xor({_version(part, tables)}) FROM "{part.__tablename__}"
                      WHERE "{part.__tablename__}".{parent_column(part).name} = "{name}".id), 0)"""
        for part in parts_of(model)
    ]
    return " # ".join([own, *parts])


@cache
def created_account() -> str:
    """Return the expression for an account as JSON, with nulls for absent values.

    The statement must have `account`, its import `process`, and JOIN_ORIGIN. Data added later is left out. A
    resolved document location is present only if it is not the root followed by the path.
    """
    own = [column for column in payload_columns(Account) if column.name not in _ROW_ONLY]
    members = [f"{value} AS {name}" for name, value in _GIVEN.items()]
    members += [f"account.{column.name}" for column in own]
    return _object([*members, *_parts(Account)])


_ROW_ONLY = {"account_import_process_id", "import_supplier_id", "operations_team_id", *_GIVEN}


def _object(members: list[str]) -> str:
    return f"(SELECT row_to_json(made) FROM (SELECT {', '.join(members)}) AS made)"


def _parts(parent: type[Account] | type[Part]) -> Iterator[str]:
    for model in parts_of(parent):
        for source in model.sources:
            yield f"({_rows(model, source)}) AS {source.key}"


def _rows(model: type[Part], source: Source) -> str:
    """Return the SELECT for the rows from one source that belong to a row of the parent table."""
    table = table_of(model)
    name = table.name
    conditions = [f'"{name}".{parent_column(model).name} = "{source.parent.__tablename__}".id']
    conditions += [f"\"{name}\".{column} = '{value}'" for column, value in source.constants]
    # The account that a row also names is present only if it is another one.
    roots = [
        f'CASE WHEN "{name}".{it.name} <> account.id THEN "{name}".{it.name} END AS {it.name}'
        for it in table.columns
        if it.info.get("root")
    ]
    # A second row for a single object shows as a difference.
    chosen = "CASE count(*) WHEN 1 THEN json_agg(made) -> 0 ELSE json_agg(made) END"
    return f"""
        SELECT {chosen if source.single else "json_agg(made)"}
        FROM (SELECT {", ".join([*_members(model), *roots, *_parts(model)])} FROM "{name}"
              WHERE {" AND ".join(conditions)} ORDER BY "{name}".position, "{name}".id) AS made"""


def _members(model: type[Part]) -> Iterator[str]:
    """Yield the members of a row's object. Members with a deeper path are in nested objects."""
    for key, group in groupby(payload_columns(model), key=lambda column: path_of(column)[0]):
        columns = list(group)
        if len(path_of(columns[0])) == 1:
            yield from (f"{_value(model, column)} AS {key}" for column in columns)
        else:
            values = [_value(model, column) for column in columns]
            named = [f"{value} AS {path_of(it)[1]}" for value, it in zip(values, columns, strict=True)]
            yield f"CASE WHEN num_nonnulls({', '.join(values)}) > 0 THEN {_object(named)} END AS {key}"


def _value(model: type[Part], column: Column[object]) -> str:
    value = f'"{model.__tablename__}".{column.name}'
    if document := column.info.get("document"):
        path = next(it for it in payload_columns(model) if path_of(it) == document)
        expected = f"supplier.document_root || ltrim(\"{model.__tablename__}\".{path.name}, '/')"
        return f"CASE WHEN {value} IS DISTINCT FROM {expected} THEN coalesce({value}, '') END"
    if column.info.get("as_text"):
        return f"CAST({value} AS text)"
    if column is table_of(Ledger).c.ledger_balance:
        return f"{value} - {_ADDED}"
    return value
