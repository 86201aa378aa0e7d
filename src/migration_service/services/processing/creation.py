"""Account creation by one SQL statement that turns staged payloads into rows, for one account or many.

The statement is generated from the declarations of the models (`models.part`). Each model has a common table
expression that selects its parts from those of its parent, and an INSERT of their values. A new field is only
a new column, without changes here. PostgreSQL does everything in one round trip. Amounts are converted from
JSONB to NUMERIC directly, so that nothing can round them.
"""

import logging
import re
from base64 import b32encode
from collections.abc import Mapping
from functools import cache
from secrets import token_bytes
from typing import Any

import psycopg
from psycopg.errors import ProgramLimitExceeded
from sqlalchemy import ARRAY, Column, Text, UniqueConstraint
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError

from migration_payloads.schemas.json import encode_json
from migration_service.db.sql import OpenTransaction
from migration_service.errors import AccountNotStorableError, ServiceError
from migration_service.models import Account, part

logger = logging.getLogger(__name__)

_SERVICE_ACCOUNT_NUMBER = re.compile(r"A-[A-Z0-9]{8}", re.ASCII)
_DIALECT = postgresql.dialect()  # type: ignore[no-untyped-call]


def new_service_account_number() -> str:
    """Return `A-` and eight random upper-case letters or digits, which cannot be guessed."""
    return "A-" + b32encode(token_bytes(5)).decode()  # one draw of five bytes: each draw asks the kernel


#: Select this before `create_accounts`, in the same transaction. Planning its statement takes longer than
#: creating an account with it. The plan does not depend on the parameters, but PostgreSQL assumes that it
#: does and would plan again each time.
KEEP_THE_PLAN = "set_config('plan_cache_mode', 'force_generic_plan', true)"


def is_service_account_number(text: str) -> bool:
    """Return whether `text` has the form of a service account number."""
    return _SERVICE_ACCOUNT_NUMBER.fullmatch(text) is not None


def create_accounts(
    transaction: OpenTransaction, teams: Mapping[int, int], *, again: bool = False
) -> dict[int, str]:
    """Create an account from each staged payload, with everything in it (section 4.3).

    `teams` has the operations team to link the account to, by the id of its process. Return the service
    account number of each process. The caller holds the locks of the processes. If the database raises an
    error, nothing is created, and the caller must roll back its transaction or savepoint. With `again` the
    accounts exist without their parts, and keep their row, number and team.
    """
    return dict(transaction.execute(creation_statement(again=again), values_of(teams)))


def values_of(teams: Mapping[int, int]) -> dict[str, list[Any]]:
    """Return the values of the statement, with a new service account number for each process."""
    numbers = [new_service_account_number() for _ in teams]
    return {"process_ids": list(teams), "team_ids": list(teams.values()), "numbers": numbers}


def explain_refusal(error: DBAPIError) -> ServiceError | None:
    """Return the error of an account that the database refused to store, or None for any other failure.

    After None the creation can be retried: the connection was lost, or the new service account number already
    exists, which has a probability of one in a million. A retry uses a new number.
    """
    if not is_refusal(error):
        return None
    # PostgreSQL's message could contain values of the account. The name of the error does not.
    reason = re.sub("([A-Z])", r" \1", type(error.orig).__name__).strip().lower()
    logger.error("The database refused an account: %s", reason)
    return AccountNotStorableError(
        f"The database refused a value of the account: {reason}. The same payload will be refused again. "
        "Correct the account and stage it again."
    )


def is_refusal(error: DBAPIError) -> bool:
    """Return whether the database will refuse to store an account in every retry."""
    cause = error.orig
    if isinstance(cause, psycopg.Error) and cause.diag.constraint_name == NUMBER_KEY:
        return False
    return isinstance(error, (DataError, IntegrityError)) or isinstance(cause, ProgramLimitExceeded)


#: The constraint that refuses a service account number that exists, or has existed.
NUMBER_KEY = next(
    str(it.name)
    for it in part.table_of(Account).constraints
    if isinstance(it, UniqueConstraint) and it.columns.keys() == ["service_account_number"]
)


def creation_statement(*, again: bool = False) -> str:
    """Return the statement of `create_accounts`."""
    created = creation(again=again)
    return f"WITH {created} SELECT account_import_process_id, service_account_number FROM account_rows"


@cache
def creation(*, again: bool = False) -> str:
    """Return the common table expressions that create accounts, which are generated once per process.

    With `again` they create the parts of accounts that exist.
    """
    account_columns = [column for column in part.payload_columns(Account) if column.name not in _GIVEN]
    inserted = ", ".join(["id", *_GIVEN, *(column.name for column in account_columns)])
    selected = ", ".join(["id", *_GIVEN, *(_value(column) for column in account_columns)])
    key, known = "nextval('account_id_seq')", ""
    written = f"INSERT INTO account ({inserted}) SELECT {selected} FROM account_source RETURNING *"
    if again:
        key, known = "known.id", "JOIN account AS known ON known.account_import_process_id = process.id"
        renewed = "".join(f", {column.name} = {_value(column)}" for column in account_columns)
        written = f"""UPDATE account SET created_at = now(){renewed} FROM account_source
            WHERE account.id = account_source.id RETURNING account.*"""
    expressions = [
        # `|| '{}'` only unpacks the payload, once instead of in each expression that reads it.
        f"""account_source AS MATERIALIZED (
            SELECT {key} AS id, process.id AS account_import_process_id,
                   process.import_supplier_id, process.external_account_number,
                   job.operations_team_id, job.service_account_number, process.payload || '{{}}' AS part,
                   coalesce(nullif(supplier.document_root, '') || '/', '') AS document_root
            FROM unnest(%(process_ids)s::bigint[], %(team_ids)s::bigint[], %(numbers)s::text[])
                 AS job (process_id, operations_team_id, service_account_number)
            JOIN account_import_process process ON process.id = job.process_id
            JOIN import_supplier supplier ON supplier.id = process.import_supplier_id {known})""",
        f"account_rows AS ({written})",
    ]
    for model in part.parts_of(Account):
        expressions += _part_expressions(model)
    return ",\n".join(expressions)  # the text consists only of names of tables and columns


#: Columns of the account that come from the source of the statement instead of the payload.
_GIVEN = (
    "account_import_process_id",
    "import_supplier_id",
    "operations_team_id",
    "service_account_number",
    "external_account_number",
)


def _part_expressions(model: type[part.Part]) -> list[str]:
    table = part.table_of(model)
    columns = list(part.payload_columns(model))
    constants = [name for name, _ in model.sources[0].constants]
    parent = part.parent_column(model).name
    root = [column.name for column in table.columns if column.info.get("root")]
    names = ["position", parent, *root, *constants, *(column.name for column in columns)]
    values = ["position", "parent_id", *["account_id"] * len(root), *constants, *map(_value, columns)]
    if any(part.parts_of(model)):  # nested parts need its key
        names, values = ["id", *names], ["id", *values]
    rows = "\nUNION ALL ".join(_rows(model, source) for source in model.sources)
    expressions = [
        f"{table.name}_source AS MATERIALIZED ({rows})",
        f"{table.name}_rows AS (INSERT INTO {table.name} ({', '.join(names)}) "
        f"SELECT {', '.join(values)} FROM {table.name}_source)",
    ]
    for below in part.parts_of(model):
        expressions += _part_expressions(below)
    return expressions


def _rows(model: type[part.Part], source: part.Source) -> str:
    """Return the SELECT of the parts of one source from those of their parents."""
    account_id = "parent.id" if source.parent is Account else "parent.account_id"
    constants = "".join(f", '{value}' AS {name}" for name, value in source.constants)
    below = f"parent.part -> '{source.key}'"
    if source.single:
        elements = f"(SELECT {below} AS part, 1 AS position) element"
    else:
        if source.default:
            default = encode_json(source.default).decode().replace("%", "%%")  # not a parameter
            below = f"coalesce(nullif({below}, '[]'), '{default}'::jsonb)"
        elements = f"jsonb_array_elements({below}) WITH ORDINALITY AS element (part, position)"
    key = f"nextval('{model.__tablename__}_id_seq') AS id, " if any(part.parts_of(model)) else ""
    return (
        f"SELECT {key}parent.id AS parent_id, "
        f"{account_id} AS account_id, parent.document_root, element.part, "
        f"element.position - 1 AS position{constants} "
        f"FROM {source.parent.__tablename__}_source parent CROSS JOIN LATERAL {elements} "
        "WHERE element.part IS NOT NULL"
    )


def _value(column: Column[object]) -> str:
    """Return the SQL expression for a column's value in `part`."""
    if document := column.info.get("document"):
        return f"document_root || ltrim({_text_at(document)}, '/')"
    path = part.path_of(column)
    if isinstance(column.type, ARRAY):
        element = column.type.item_type.compile(_DIALECT)
        items = f"jsonb_array_elements_text({_json_at(path)})"
        return f"CASE WHEN {_json_at(path)} IS NOT NULL THEN ARRAY(SELECT {items}::{element}) END"
    if isinstance(column.type, JSONB):
        return _json_at(path)
    text_value = _text_at(path)
    return text_value if isinstance(column.type, Text) else f"({text_value})::{column.type.compile(_DIALECT)}"


def _json_at(path: tuple[str, ...]) -> str:
    return "part" + "".join(f" -> '{key}'" for key in path)


def _text_at(path: tuple[str, ...]) -> str:
    *above, last = path
    return f"({_json_at(tuple(above))} ->> '{last}')"
