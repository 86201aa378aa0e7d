"""Moving an organisation to another cell: with everything, or not at all."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import pytest
from flask import Flask
from sqlalchemy import make_url, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, sessionmaker

from migration_service.app import create_app
from migration_service.celery_app import create_celery
from migration_service.config import Settings
from migration_service.db.cells import IDS, CellInUseError, number_cell
from migration_service.db.engine import make_engine, make_sessionmaker
from migration_service.db.revisions import upgrade
from migration_service.errors import (
    OrganisationMovedError,
    OrganisationMovingError,
    OrganisationNotMovableError,
)
from migration_service.models import Account, AuditEntry, ImportSupplier, OperationsTeam, Organisation
from migration_service.services.access.api_keys import issue_api_key
from migration_service.services.audit.chain import verify_chain
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.cells import moving
from migration_service.services.cells.copying import KEPT, Copying
from migration_service.services.cells.moving import (
    list_closed_organisations,
    map_keys,
    move_organisation,
    remove_moved_organisation,
    reopen_organisation,
)
from migration_service.services.cells.ownership import belongs, tables
from migration_service.services.setup.organisations import create_organisation
from migration_service.services.setup.suppliers import create_import_supplier, set_status
from migration_service.services.setup.teams import create_operations_team
from migration_service.states import SupplierStatus
from migration_service.tasks.resources import WorkerResources
from migration_service_local.servers.postgres import DATABASE
from support.batch_client import BatchClient
from support.described import DescribedClient
from support.events import read_feed
from support.factories import Customer, close_celery, disconnect, obtain
from support.imported_account import ImportedAccount, refusal_of
from support.servers import EmbeddedServers
from support.supplier_client import SupplierClient
from support.undo_client import UndoClient

#: The shared team has an id of its own in each cell.
_OTHERWISE = ("closed_at", "moved_to", "operations_team_id", "move_id", "once", "generation")
THERE = "https://two.example.com"

Sessions = sessionmaker[Session]


@dataclass
class Cell:
    """Another cell: the same service with a database of its own, whose number is 2."""

    app: Flask
    resources: WorkerResources
    Session: Sessions

    def client_of(self, supplier: SupplierClient) -> SupplierClient:
        """Return a client that sends requests of the same supplier here."""
        return replace(supplier, app=self.app, Session=self.Session)


@contextmanager
def numbered(servers: EmbeddedServers, number: int) -> Iterator[str]:
    """Yield the name of a database with tables and a number, which others can be copies of."""
    with servers.new_database() as (url, owner_url):
        upgrade(owner_url, runtime_role=DATABASE)
        engine = make_engine(owner_url, pool_size=1, max_overflow=0, application_name="tests")
        with engine.begin() as connection:
            number_cell(connection, number)
        engine.dispose()
        yield str(make_url(url).database)


@contextmanager
def cell(servers: EmbeddedServers, settings: Settings, template: str) -> Iterator[Cell]:
    with servers.new_database(template) as (url, _):
        here = replace(settings, database_url=url)
        engine = make_engine(url, pool_size=2, max_overflow=4, application_name="tests")
        app, celery = create_app(here), create_celery(here)
        app.test_client_class = DescribedClient
        yield Cell(app, celery.resources, make_sessionmaker(engine))
        disconnect(app)
        close_celery(celery)
        engine.dispose()


@pytest.fixture(scope="module")
def second(embedded_servers: EmbeddedServers) -> Iterator[str]:
    with numbered(embedded_servers, 2) as template:
        yield template


@pytest.fixture
def two(embedded_servers: EmbeddedServers, migrated: Settings, second: str) -> Iterator[Cell]:
    with cell(embedded_servers, migrated, second) as it:
        yield it


@pytest.fixture
def full(account: ImportedAccount, batches: BatchClient) -> SupplierClient:
    """A supplier with an account to which data was added, a batch of accounts, and an undone account."""
    assert account.post_notes({"body": "A note."}).status_code == 201
    supplier = account.supplier
    done = batches.run(supplier.accounts(3))
    assert done["counts"]["IMPORTED"] == 3, done
    UndoClient(supplier).run(supplier.accounts(1)[0]["external_account_number"])
    for payload in supplier.accounts(5)[3:]:
        assert supplier.stage(payload).status_code == 201
    return supplier


def rows_of(sessions: Sessions, organisation_id: int) -> dict[str, list[str]]:
    """Return the rows of an organisation by table, as text, without what is meant to differ between cells."""
    with sessions() as session:
        found = {}
        for table in tables():
            names = [it.name for it in table.columns if it.name not in _OTHERWISE]
            rows = select(*(table.columns[it] for it in names)).where(
                text(belongs(table.name, organisation_id))
            )
            found[table.name] = sorted(map(str, session.execute(rows)))
        return found


def move(supplier: SupplierClient, two: Cell) -> moving.Move:
    return move_organisation(supplier.Session, two.Session, supplier.organisation, THERE)


def test_everything_of_an_organisation_is_moved_and_only_that(
    full: SupplierClient, customer: Customer, two: Cell
) -> None:
    with two.Session.begin() as session:
        create_operations_team(session, full.team)
    owner = full.organisation_id()
    before, reconciled = rows_of(full.Session, owner), full.reconcile()
    done = move(full, two)
    after = rows_of(two.Session, owner)
    assert done.rows is not None
    assert set(before.pop("audit_entry")) < set(after.pop("audit_entry"))
    assert after == before
    assert {name: len(rows) for name, rows in before.items()} == {
        name: rows for name, rows in done.rows.items() if name != "audit_entry"
    }
    assert len(before["account"]) == 3
    assert two.client_of(full).reconcile() == reconciled
    with two.Session() as session:
        assert [it.code for it in session.scalars(select(ImportSupplier))] == [full.code]
        assert session.scalars(select(OperationsTeam.name)).all() == [full.team]


def test_a_moved_organisation_goes_on_in_its_new_cell(full: SupplierClient, two: Cell) -> None:
    move(full, two)
    there = BatchClient(two.client_of(full), two.resources)
    done = there.run(there.supplier.accounts(6)[5:], name="after the move")
    assert done["state"] == "COMPLETED", done
    with two.Session() as session:
        ids = session.scalars(select(Account.id).order_by(Account.id)).all()
    assert ids[0] < IDS < 2 * IDS <= ids[-1]


def test_its_key_and_its_tokens_say_where_it_is(full: SupplierClient, two: Cell, app: Flask) -> None:
    move(full, two)
    answer = full.get("/import-suppliers/")
    assert refusal_of(answer) == (421, "organisation_moved")
    assert THERE in answer.text
    refused = obtain(app.test_client(), APIKey=full.api_key)
    assert (refused["errorCode"], THERE in refused["errorDescription"]) == ("organisation_moved", True)
    assert obtain(two.app.test_client(), APIKey=full.api_key)["token"]
    assert two.client_of(full).get("/import-suppliers/").status_code == 200  # with the token from before
    with full.Session() as here, two.Session() as there:
        prefix = full.api_key.rpartition("_")[0]
        assert prefix not in map_keys(here)
        assert map_keys(there) == [prefix]


@contextmanager
def closed(supplier: SupplierClient) -> Iterator[None]:
    """The organisation is closed, as while it is copied."""
    moving._close(supplier.Session, supplier.organisation_id())
    yield
    reopen_organisation(supplier.Session, supplier.organisation)


def test_a_closed_organisation_is_read_and_not_written_to(
    full: SupplierClient, batches: BatchClient, app: Flask
) -> None:
    batch_id = batches.start(full.accounts(1), name="waits")
    with closed(full):
        answer = full.stage(full.accounts(5)[4])
        assert refusal_of(answer) == (503, "organisation_moving")
        assert 5 <= int(answer.headers["Retry-After"]) <= 15
        assert full.get("/import-suppliers/").status_code == 200
        assert obtain(app.test_client(), APIKey=full.api_key)["errorCode"] == "organisation_moving"
        assert batches.get(batch_id)["reason"] == "organisation_moving"
        with pytest.raises(OrganisationMovingError), full.Session.begin() as session:
            set_status(session, full.code, SupplierStatus.PAUSED)
        with full.Session() as session:
            assert [name for name, _ in list_closed_organisations(session)] == [full.organisation]
    batches.work()
    assert batches.get(batch_id)["state"] == "COMPLETED"
    assert full.stage(full.accounts(5)[4]).status_code in (200, 201)


def test_the_events_of_before_come_before_those_of_the_new_cell(full: SupplierClient, two: Cell) -> None:
    before = read_feed(full)
    move(full, two)
    there = BatchClient(two.client_of(full), two.resources)
    there.run(there.supplier.accounts(6)[5:])
    after = read_feed(there.supplier)
    assert [it["id"] for it in after[: len(before)]] == [it["id"] for it in before]
    assert len(after) > len(before)


def test_a_running_batch_goes_on_in_the_new_cell(
    full: SupplierClient, batches: BatchClient, two: Cell
) -> None:
    batch_id = batches.start(full.accounts(2), name="goes on")
    batches.dispatch()
    move(full, two)
    there = BatchClient(two.client_of(full), two.resources)
    there.work()
    assert there.get(batch_id)["state"] == "COMPLETED"


def test_the_audit_goes_along_and_its_hashes_show_a_change(
    full: SupplierClient, two: Cell, embedded_servers: EmbeddedServers
) -> None:
    owner = full.organisation_id()
    move(full, two)
    with full.Session() as here, two.Session() as there:
        original = [it.at for it in here.scalars(_entries(owner)) if not it.action.endswith("moved_out")]
        copied = [it for it in there.scalars(_entries(owner)) if it.move_id]
        assert [it.at for it in copied] == original
        assert verify_chain(there).problems == []
        assert verify_chain(here).problems == []
    with two.Session.begin() as session, pytest.raises(DBAPIError, match="InsufficientPrivilege"):
        session.execute(text("UPDATE audit_entry SET actor = 'nobody'"))
    database = two.Session.kw["bind"].url.database
    with embedded_servers.postgres.connect_as_superuser(database) as admin:
        admin.execute("ALTER TABLE audit_entry DISABLE TRIGGER audit_guard")
        admin.execute("UPDATE audit_entry SET actor = 'nobody' WHERE id = %s", [copied[0].id])
    with two.Session() as session:
        (problem,) = verify_chain(session).problems
        assert "was changed" in problem
        session.execute(text("INSERT INTO audit_entry (actor_kind, action, outcome, move_id, at) VALUES"
                             " ('service', 'forged', 'DONE', gen_random_uuid(), '2020-01-01')"))  # fmt: skip
        assert any("has no such move" in it for it in verify_chain(session).problems)


def _entries(owner: int) -> Any:
    return select(AuditEntry).where(AuditEntry.organisation_id == owner).order_by(AuditEntry.id)


class _Killed(BaseException):
    """As SIGKILL: nothing tidies up."""


def _kill_in(name: str, *, before: bool) -> Any:
    original = getattr(moving, name)

    def killed(*arguments: Any, **named: Any) -> Any:
        if not before:
            original(*arguments, **named)
        raise _Killed

    return patch.object(moving, name, killed)


@pytest.mark.parametrize(
    ("step", "before"),
    [
        ("_copy_and_switch", True),
        ("find_strays", True),
        ("count_late_writes", True),
        ("_record_arrival", False),
        ("_open", True),
    ],
)
def test_a_killed_move_is_repeated(full: SupplierClient, two: Cell, step: str, before: bool) -> None:
    with _kill_in(step, before=before), patch.object(moving, "reopen_organisation"), pytest.raises(_Killed):
        move(full, two)
    assert move(full, two).moved_to == THERE
    assert two.client_of(full).get("/import-suppliers/").status_code == 200
    with full.Session() as here, two.Session() as there:
        assert verify_chain(there).problems == []
        for table in tables():
            which = table.select().where(text(belongs(table.name, full.organisation_id())))
            if table.name != "audit_entry":
                assert len(there.execute(which).all()) == len(here.execute(which).all()), table.name


def test_a_move_that_was_killed_between_the_two_commits_is_repeated(full: SupplierClient, two: Cell) -> None:
    # The target has committed its copy, and the source knows nothing of it.
    with _kill_in("_open", before=True), patch.object(moving, "reopen_organisation"), pytest.raises(_Killed):
        move(full, two)
    with full.Session.begin() as session:
        session.execute(text("UPDATE organisation SET moved_to = NULL"))
    rows = move(full, two).rows
    assert rows is not None
    with two.Session() as session:
        assert session.query(Account).count() == rows["account"] == 3
        assert verify_chain(session).problems == []


def test_a_failed_move_leaves_the_organisation_open_where_it_was(full: SupplierClient, two: Cell) -> None:
    def write_late(table: str, _rows: int) -> None:
        if table == "account":
            with full.Session.begin() as session:
                session.execute(text("UPDATE account SET billing_postcode = '1234 AB'"))

    with pytest.raises(OrganisationNotMovableError, match="account"):
        move_organisation(full.Session, two.Session, full.organisation, THERE, write_late)
    assert full.stage(full.accounts(5)[4]).status_code in (200, 201)
    with two.Session() as session:
        assert session.query(Organisation).count() == 0


def test_what_is_read_meanwhile_disturbs_no_move(full: SupplierClient, two: Cell) -> None:
    assert full.get("/events/?consumer=billing&limit=1").status_code == 200

    def read(table: str, _rows: int) -> None:
        if table == "account":
            assert full.get("/events/?consumer=billing&limit=1").status_code == 200
            with full.Session.begin() as session:
                owner = full.organisation_id()
                record(session, AuditAction.ACCOUNT_READ, "account", "1", organisation_id=owner)

    move_organisation(full.Session, two.Session, full.organisation, THERE, read)
    assert two.client_of(full).get("/events/?consumer=billing").status_code == 200


def test_a_difference_between_copy_and_original_is_found(full: SupplierClient, two: Cell) -> None:
    original = Copying._copy_table

    def damage(self: Any, table: Any, columns: Any) -> None:
        original(self, table, columns)
        if table.name == "customer":
            self.target.execute(
                text("UPDATE customer SET family_name = family_name || 'x' WHERE position = 0")
            )

    with (
        patch.object(Copying, "_copy_table", damage),
        pytest.raises(OrganisationNotMovableError, match="table customer differs"),
    ):
        move(full, two)


def test_accounts_in_progress_are_waited_for(
    full: SupplierClient, two: Cell, worker_resources: WorkerResources, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = full.accounts(5)[4]["external_account_number"]
    assert full.process(number).status_code == 202
    monkeypatch.setattr(moving, "QUIET_WITHIN", 0.3)
    with pytest.raises(OrganisationNotMovableError, match="accounts in progress"):
        move(full, two)
    full.work(worker_resources, number)
    move(full, two)


@pytest.mark.parametrize("taken", ["organisation", "supplier"])
def test_names_that_the_target_has_are_refused_before_anything_is_closed(
    full: SupplierClient, two: Cell, taken: str
) -> None:
    with two.Session.begin() as session:
        name = full.organisation if taken == "organisation" else f"Other {secrets.token_hex(4)}"
        create_organisation(session, name)
        if taken == "supplier":
            create_import_supplier(session, code=full.code, organisation_name=name)
    with pytest.raises(OrganisationNotMovableError, match="has these already"):
        move(full, two)
    assert full.stage(full.accounts(5)[4]).status_code in (200, 201)


def test_cells_with_the_same_number_are_refused(full: SupplierClient) -> None:
    with pytest.raises(OrganisationNotMovableError, match="same cell number"):
        move_organisation(full.Session, full.Session, full.organisation, THERE)


def test_an_organisation_comes_back_after_its_rows_were_removed(
    full: SupplierClient, two: Cell, batches: BatchClient
) -> None:
    move(full, two)
    owner = full.organisation_id()
    assert remove_moved_organisation(full.Session, full.organisation) > 100
    left = {name for name, rows in rows_of(full.Session, owner).items() if rows}
    assert left == {*KEPT} - {"retired_account_number"}  # that one belongs through the undo
    with pytest.raises(OrganisationMovedError), full.Session.begin() as session:
        issue_api_key(session, organisation_name=full.organisation)
    move_organisation(two.Session, full.Session, full.organisation, "https://one.example.com")
    assert len(rows_of(full.Session, owner)["account"]) == 3
    assert full.get("/import-suppliers/").status_code == 200
    with full.Session() as session:
        assert verify_chain(session).problems == []


def test_nothing_is_removed_of_an_organisation_that_is_here(full: SupplierClient) -> None:
    with pytest.raises(OrganisationNotMovableError, match="was not moved"):
        remove_moved_organisation(full.Session, full.organisation)


def test_account_numbers_of_cells_never_meet(embedded_servers: EmbeddedServers, migrated: Settings) -> None:
    """One of the eight characters is one that a random number does not have."""
    marks = set()
    for number in (2, 31):
        with numbered(embedded_servers, number) as name, cell(embedded_servers, migrated, name) as it:
            supplier = SupplierClient.create(it.app, it.Session)
            done = BatchClient(supplier, it.resources).run(supplier.accounts(1))
            assert done["counts"]["IMPORTED"] == 1
            with it.Session() as session:
                created = session.scalars(select(Account)).one()
        assert created.id // IDS == number
        marked = [(at, it) for at, it in enumerate(created.service_account_number[2:]) if it in "0189"]
        assert len(marked) == 1
        marks.update(marked)
    assert marks == {(0, "8"), (7, "9")}


def test_a_database_that_is_in_use_gets_no_number(
    embedded_servers: EmbeddedServers, full: SupplierClient, migrated: Settings
) -> None:
    engine = make_engine(migrated.owner_database_url, pool_size=1, max_overflow=0, application_name="tests")
    with engine.begin() as connection, pytest.raises(CellInUseError):
        number_cell(connection, 3)
    engine.dispose()
