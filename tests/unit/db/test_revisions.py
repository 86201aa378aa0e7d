"""The revisions create the tables of the models; whose they are; the words in SQL text."""

import ast
import logging
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, Table, inspect, text

import migration_service
from migration_payloads.profile import Profile
from migration_service import states as vocabularies
from migration_service.db import revisions
from migration_service.db.base import new_id
from migration_service.db.engine import make_engine
from migration_service.db.needed_tables import NEEDED, current_revision
from migration_service.db.revisions import (
    CannotUpgradeError,
    upgrade,
)
from migration_service.models import Account
from migration_service.payment_vendors.protocol import VendorKind
from migration_service.services.access.operators import OperatorRole
from support.servers import EmbeddedServers, wait_until

_VOCABULARIES = [it for it in vars(vocabularies).values() if isinstance(it, type) and issubclass(it, StrEnum)]
KEEPS_WRITERS_OUT = text("LOCK TABLE alembic_version IN SHARE MODE")


@pytest.fixture
def engine(embedded_servers: EmbeddedServers) -> Iterator[Engine]:
    """A new, empty database."""
    with embedded_servers.new_database() as (_, owner_url):
        engine = make_engine(owner_url, pool_size=1, max_overflow=1, application_name="tests")
        yield engine
        engine.dispose()


def _url(engine: Engine) -> str:
    return engine.url.set(drivername="postgresql").render_as_string(hide_password=False)


def _is_of_the_models(_item: object, _name: str, kind: str, reflected: bool, model: object) -> bool:
    """Return whether the models have it, too: an index is only in the database."""
    return kind != "index" or not reflected or model is not None


def test_a_new_database_has_the_tables_of_the_models(engine: Engine) -> None:
    upgrade(_url(engine))
    upgrade(_url(engine))  # the second time there is nothing to do
    with engine.connect() as connection:
        options = {"compare_type": True, "include_object": _is_of_the_models}
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, Account.metadata) == []


def test_the_words_that_a_column_can_have_are_those_of_an_enumeration(engine: Engine) -> None:
    upgrade(_url(engine))
    vocabularies_of_columns: list[type[StrEnum]] = [*_VOCABULARIES, OperatorRole, Profile, VendorKind]
    enumerations = {frozenset(map(str, it)) for it in vocabularies_of_columns}
    with engine.connect() as connection:
        checks = connection.execute(
            text("SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'c'")
        ).all()
    words = {
        name: frozenset(re.findall(r"'([^']+)'", listed[1]))
        for name, check in checks
        if (listed := re.fullmatch(r"CHECK \(\(\w+ = ANY \(ARRAY\[(.*)\]\)\)\)", check))
    }
    assert len(words) > 20
    assert {name: found for name, found in words.items() if found not in enumerations} == {}


def test_no_constraint_is_deferred_so_that_a_dry_run_finds_every_error(engine: Engine) -> None:
    upgrade(_url(engine))
    with engine.connect() as connection:
        deferrable = connection.execute(text("SELECT conname FROM pg_constraint WHERE condeferrable"))
        assert deferrable.all() == []


@pytest.fixture
def watched(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """A database whose table of revisions each upgrade has to write, and waits a moment for."""
    monkeypatch.setattr(revisions, "LOCK_SECONDS", 0.1)
    monkeypatch.setattr(revisions, "PAUSE_SECONDS", 0.1)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE alembic_version (version_num varchar(32) PRIMARY KEY)"))
    return engine


def test_a_revision_does_not_wait_forever_for_a_long_transaction(watched: Engine) -> None:
    with watched.connect() as somebody:
        somebody.execute(KEEPS_WRITERS_OUT)
        with pytest.raises(CannotUpgradeError, match="nothing was changed"):
            upgrade(_url(watched), timeout=0)
        assert inspect(somebody).get_table_names() == ["alembic_version"]


def test_other_sessions_continue_while_a_revision_waits_and_it_is_applied_afterwards(
    watched: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    waiting = threading.Thread(target=upgrade, args=[_url(watched)])
    with watched.connect() as somebody:
        somebody.execute(KEEPS_WRITERS_OUT)
        waiting.start()
        wait_until(lambda: "a table that another transaction holds" in caplog.text, "the revision waits")
        with watched.begin() as another:
            another.execute(KEEPS_WRITERS_OUT)
    waiting.join()
    with watched.connect() as connection:
        assert current_revision(connection) == NEEDED


def test_a_revision_gives_up_sooner_than_a_request_that_waits_behind_it(engine: Engine) -> None:
    with engine.connect() as connection:
        allowed = connection.scalar(text("SELECT setting::int FROM pg_settings WHERE name = 'lock_timeout'"))
    assert allowed > revisions.LOCK_SECONDS * 1000


TABLES = Account.metadata.tables
ORGANISATION = "organisation"
#: Tables of the whole service: its operators and settings, the chain of the audit, and messages to the people
#: who run it.
OF_THE_SERVICE = {
    *("operator", "operator_organisation", "operator_session"),
    *("service_limit", "backup", "audit_day", "event_history", "alert_email"),
}
#: Tables with rows that belong to an organisation, or to all of them if it is null.
SHARED = {"operations_team", "payment_vendor"}
#: The owners of tables without a foreign key to them. The models say why there is none.
WITHOUT_KEY = {
    **{"batch_line": "batch", "undo_line": "undo", "retired_account_number": "undo_line"},
    **{"old_figure": "old_figures", "certificate_leaf": "certificate"},
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
    "go_live.import_supplier_id -> import_supplier": "the same",
    "wave_plan.import_supplier_id -> import_supplier": "the same",
    "comparison.import_supplier_id -> import_supplier": "the same",
    "comparison.batch_id -> batch": "get_batch_to_reconcile looks for own ones",
    "certificate.import_supplier_id -> import_supplier": "the same",
    "certificate.batch_id -> batch": "the same",
    "undo.batch_id -> batch": "get_owned looks for own ones",
    "go_live.batch_id -> batch": "the same",
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


_SOURCE = Path(migration_service.__file__).parent
_STATES = _SOURCE / "services" / "imports" / "states.py"
_ALSO_MEASURES = {"accounts", "statements", "transactions", *vocabularies.Figure}
_MEMBERS = {member.value for vocabulary in _VOCABULARIES for member in vocabulary} - _ALSO_MEASURES
_SQL = re.compile(r"\b(SELECT|UPDATE|INSERT|DELETE|WHERE|WHEN|IN|AND|OR|IS)\b|[a-z_]+ (=|<>) '")
_CHANGES_STATE = re.compile(r"account_import_process\b[^;]*?\bSET\s+state\b", re.DOTALL)


_QUOTED = re.compile(f"'({'|'.join(map(re.escape, sorted(_MEMBERS)))})'")


def _modules_with(pattern: re.Pattern[str]) -> Iterator[tuple[Path, ast.AST]]:
    """Yield the modules in whose text this is. To parse all of them takes seconds."""
    for path in _SOURCE.rglob("*.py"):
        if "alembic" not in path.parts and pattern.search(source := path.read_text()):
            yield path, ast.parse(source)


def _texts(tree: ast.AST) -> Iterator[str]:
    """Yield every string of a module, with `?` for values that an f-string inserts.

    Docstrings are left out.
    """
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body
        if isinstance(node.body[0], ast.Expr)
    }
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    skipped = docstrings | parts
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "?" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.value


def _literals_in(tree: ast.AST) -> list[str]:
    return [
        found
        for text in _texts(tree)
        if _SQL.search(text)
        for found in re.findall(r"'([\w-]+)'", text)
        if found in _MEMBERS
    ]


def _changes_import_state(tree: ast.AST) -> bool:
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    through_model = "AccountImportProcess" in names and any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "values"
        and any(keyword.arg == "state" for keyword in node.keywords)
        for node in ast.walk(tree)
    )
    return through_model or any(_CHANGES_STATE.search(text) for text in _texts(tree))


def test_no_literal_of_an_enumeration_is_in_sql_text() -> None:
    assert {path: found for path, tree in _modules_with(_QUOTED) if (found := _literals_in(tree))} == {}


def test_one_module_changes_import_states() -> None:
    able = _modules_with(
        re.compile(r"(?s)AccountImportProcess\b.*\.values\(|account_import_process\b.*\bSET\b")
    )
    assert [path for path, tree in able if _changes_import_state(tree)] == [_STATES]


def test_ids_are_in_the_order_in_which_they_were_made() -> None:
    ids = [new_id() for _ in range(1_000)]
    assert ids == sorted(set(ids))
