"""Fills the database with the client, staged accounts, and a million imported accounts."""

import hashlib
from collections.abc import Callable, Iterator, Sequence

import psycopg
from psycopg import sql
from sqlalchemy.orm import Session, sessionmaker

from benchmarks.payloads import NUMBER, SUPPLIER, TEAM, VENDOR
from migration_payloads.profile import Profile
from migration_payloads.schemas.json import parse_json
from migration_payloads.validation import validate_account
from migration_service.config import Settings
from migration_service.db.base import Base
from migration_service.db.engine import make_engine, make_sessionmaker
from migration_service.db.sql import OpenTransaction
from migration_service.models import Account
from migration_service.models.part import Part, parent_column, parts_of, table_of
from migration_service.payment_vendors.protocol import VendorKind
from migration_service.services.access.api_keys import issue_api_key
from migration_service.services.access.tokens import obtain_tokens
from migration_service.services.imports.storing import stage
from migration_service.services.setup.organisations import create_organisation
from migration_service.services.setup.suppliers import (
    KnownSupplier,
    create_import_supplier,
    get_import_supplier,
)
from migration_service.services.setup.teams import create_operations_team
from migration_service.services.setup.vendors import LARGEST_RATE, create_payment_vendor, set_vendor_rate
from migration_service_local.sandbox import SANDBOX_VARIABLE

#: External account numbers below this belong to templates. Those up to FILLED belong to the measures.
TEMPLATES = 10_000
#: The first external account number and key of accounts that only fill the tables.
FILLED = 50_000_000
#: Keys that one account may use in each table.
_STRIDE = 64
#: Accounts that are added in one transaction.
_PORTION = 100_000

#: Stages copies of the templates under the numbers from `first` to `last`, and returns their ids.
STAGE_COPIES = """
    INSERT INTO account_import_process
           (import_supplier_id, external_account_number, payload, payload_sha256, rules_version,
            profile, warnings)
    SELECT t.import_supplier_id, lpad(n::text, 8, '0'),
           t.payload || jsonb_build_object('external_account_number', lpad(n::text, 8, '0')),
           t.payload_sha256, t.rules_version, t.profile, t.warnings
    FROM generate_series(%(first)s::bigint, %(last)s::bigint) n
    JOIN account_import_process t ON t.external_account_number =
         lpad((n %% %(templates)s)::text, 8, '0')
    RETURNING id
"""


def set_up_caller(settings: Settings) -> tuple[str, str]:
    """Create an organisation with a key, a supplier and a team. Return the key and a token."""
    with sessions(settings).begin() as session:
        create_organisation(session, "Benchmark")
        create_import_supplier(
            session, code=SUPPLIER, organisation_name="Benchmark", document_root="s3://bucket/documents"
        )
        create_operations_team(session, TEAM)
        api_key = issue_api_key(session, organisation_name="Benchmark")
        return api_key, obtain_tokens(session, settings, api_key).token


def set_up_vendor(settings: Settings, url: str) -> None:
    """Create the payment vendor at this address, with the highest rate that batches may have."""
    with sessions(settings).begin() as session:
        create_payment_vendor(session, VENDOR, kind=VendorKind.HTTP, url=url, secret_env=SANDBOX_VARIABLE)
        set_vendor_rate(session, VENDOR, LARGEST_RATE)


def set_up_peer(settings: Settings, schema: str, token: str) -> None:
    """The tables of peer a, its own token and supplier, and the accounts that are staged already."""
    digest = hashlib.sha256(token.encode()).digest()
    with psycopg.connect(settings.owner_database_url) as connection:
        connection.execute(schema.encode())
        connection.execute("INSERT INTO peer.token (sha256, organisation_id) VALUES (%s, 1)", [digest])
        connection.execute(
            "INSERT INTO peer.import_supplier (organisation_id, code) VALUES (1, %s)", [SUPPLIER]
        )
        connection.execute(
            "INSERT INTO peer.staged_account (import_supplier_id, external_account_number, payload) "
            "SELECT 1, external_account_number, payload FROM account_import_process"
        )


def sessions(settings: Settings) -> sessionmaker[Session]:
    """Return a sessionmaker as workers have it."""
    engine = make_engine(
        settings.database_url, pool_size=3, max_overflow=0, application_name="migration-bench"
    )
    return make_sessionmaker(engine)


def stage_templates(settings: Settings, texts: Sequence[str]) -> int:
    """Stage these payloads under the numbers from 0 on. Return how many there are."""
    assert len(texts) <= TEMPLATES
    with sessions(settings).begin() as session:
        supplier = get_import_supplier(session, SUPPLIER, organisation_id=None)
        for number, text in enumerate(texts):
            _stage(session, supplier, text.replace(NUMBER, f"{number:08d}"))
    return len(texts)


def _stage(session: Session, supplier: KnownSupplier, text: str) -> None:
    account = validate_account(parse_json(text.encode()), Profile.LENIENT)
    stage(OpenTransaction.of(session), supplier, [account])


def stage_copies(settings: Settings, first: int, count: int, templates: int) -> list[int]:
    """Stage copies of the templates under the numbers from `first` on. Return the ids of their processes."""
    with psycopg.connect(settings.owner_database_url) as connection:
        staged = connection.execute(
            STAGE_COPIES, {"first": first, "last": first + count - 1, "templates": templates}
        ).fetchall()
    with psycopg.connect(settings.owner_database_url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE account_import_process")
    return [row[0] for row in staged]


def vacuum(database_url: str) -> None:
    """Update statistics and visibility maps, so that this is not part of a measurement."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        tables = ", ".join(
            ["account_import_process", "attempt", *(table_of(m).name for m in account_tables())]
        )
        connection.execute(f"VACUUM ANALYZE {tables}")


def write_checkpoint(superuser_url: str) -> None:
    """Write everything to disk that has been changed, so that this is not part of a measurement."""
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")


def account_tables() -> list[type[Base]]:
    """The models that account creation fills, parents first."""
    return [Account, *_below(Account)]


def _below(parent: type[Base]) -> Iterator[type[Base]]:
    for model in parts_of(parent):
        yield model
        yield from _below(model)


def empty_tables(settings: Settings, templates: int) -> None:
    """Delete everything except the templates."""
    with psycopg.connect(settings.owner_database_url) as connection:
        connection.execute("TRUNCATE account, attempt CASCADE")
        connection.execute(
            "DELETE FROM account_import_process WHERE external_account_number >= %s", [f"{templates:08d}"]
        )
    with psycopg.connect(settings.owner_database_url, autocommit=True) as connection:
        connection.execute("VACUUM FULL account_import_process")
    vacuum(settings.database_url)


def fill_accounts(
    superuser_url: str, count: int, *, place: int = 5, check_room: Callable[[], None] = lambda: None
) -> None:
    """Add `count` imported accounts with all their rows. They are copies of an existing one.

    `place` is its place among the existing ones, the largest first. The keys of the copies are computed, and
    no constraint is checked. The rows are the same as if the accounts had been created one by one, but it
    takes minutes instead of an hour. `check_room` is called before each portion of them.
    """
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute("SET synchronous_commit = off")
        process, account = connection.execute(
            "SELECT p.id, a.id FROM account_import_process p JOIN account a "
            "ON a.account_import_process_id = p.id ORDER BY length(p.payload::text) DESC OFFSET %s LIMIT 1",
            [place],
        ).fetchone() or (0, 0)
        for first in range(0, count, _PORTION):
            check_room()
            portion = range(first, min(first + _PORTION, count))
            with connection.transaction():
                _fill_imports(connection, process, portion)
                keys = {"account": [account]}
                for model in account_tables():
                    _fill_table(connection, model, keys, portion)
            connection.execute("CHECKPOINT")  # what was logged of the portion can be overwritten
    check_room()
    vacuum(superuser_url)


def _fill_imports(connection: psycopg.Connection, process: int, portion: range) -> None:
    number = f"lpad(({FILLED} + n)::text, 8, '0')"
    _copy_rows(
        connection,
        "account_import_process",
        {
            "id": f"{FILLED} + n",
            "external_account_number": number,
            "payload": "NULL",
            "service_account_number": f"'B-' || {number}",
        },
        f"t.id = {process}",
        portion,
    )
    _copy_rows(
        connection,
        "attempt",
        {
            "id": "uuidv7(make_interval(secs => n / 1000.0 - 1e6))",
            "account_import_process_id": f"{FILLED} + n",
            "service_account_number": f"'B-' || {number}",
        },
        f"t.account_import_process_id = {process}",
        portion,
    )


def _fill_table(
    connection: psycopg.Connection,
    model: type[Base],
    keys: dict[str, list[int]],
    portion: range,
) -> None:
    table = table_of(model).name
    changed = {}
    if model is Account:
        number = f"lpad(({FILLED} + n)::text, 8, '0')"
        changed["account_import_process_id"] = f"{FILLED} + n"
        changed["external_account_number"] = number
        changed["service_account_number"] = f"'B-' || {number}"
        where = f"t.id = {keys['account'][0]}"
    else:
        assert issubclass(model, Part)
        parent = parent_column(model)
        above = next(iter(parent.foreign_keys)).column.table.name
        if not keys[above]:
            keys[table] = []
            return
        where = f"t.{parent.name} IN ({', '.join(map(str, keys[above]))})"
        changed[parent.name] = _key_of_copy(f"t.{parent.name}", keys[above])
        for column in table_of(model).columns:
            if column.info.get("root") and column.name != parent.name:
                changed[column.name] = f"{FILLED} + n * {_STRIDE}"
        found = connection.execute(f"SELECT t.id FROM {table} t WHERE {where} ORDER BY 1").fetchall()
        keys[table] = [row[0] for row in found]
        if not found:
            return
    changed["id"] = _key_of_copy("t.id", keys[table])
    _copy_rows(connection, table, changed, where, portion)


def _key_of_copy(column: str, keys: list[int]) -> str:
    """Return the key of a copied row, as SQL, from its place among the rows of the account that is copied."""
    assert len(keys) <= _STRIDE
    return f"{FILLED} + n * {_STRIDE} + array_position(ARRAY{keys}::bigint[], {column}) - 1"


def _copy_rows(
    connection: psycopg.Connection, table: str, changed: dict[str, str], where: str, portion: range
) -> None:
    columns = [
        row[0]
        for row in connection.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_name = %s "
            "AND table_schema = 'public'",
            [table],
        )
    ]
    values = ", ".join(changed.get(name, f't."{name}"') for name in columns)
    names = sql.SQL(", ").join(map(sql.Identifier, columns)).as_string(connection)
    connection.execute(
        f"INSERT INTO {table} ({names}) OVERRIDING SYSTEM VALUE "
        f"SELECT {values} FROM generate_series({portion[0]}, {portion[-1]}) n, {table} t WHERE {where}"
    )
