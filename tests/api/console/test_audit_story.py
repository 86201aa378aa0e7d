"""The audit names the person who ordered a batch or an undo, also on each row that it wrote."""

from migration_service.services.access.api_keys import revoke_api_key
from migration_service.services.audit.trail import TrailFilter, stream_trail
from support.batch_client import BatchClient, ndjson
from support.console_client import ConsoleClient
from support.supplier_client import SupplierClient
from support.undo_client import UndoClient


def _story(supplier: SupplierClient, number: str) -> list[tuple[str, str]]:
    """What the audit tells of an account: the action, and what kind of actor acted. Oldest first."""
    with supplier.Session.begin() as session:
        told = [*stream_trail(session, TrailFilter(account=(supplier.code, number)))]
    return [(it["action"], it["actor_kind"]) for it in reversed(told)]


def _of_batch(supplier: SupplierClient, batch_id: str) -> set[tuple[str, str]]:
    with supplier.Session.begin() as session:
        told = [*stream_trail(session, TrailFilter(organisation=supplier.organisation))]
    return {(it["action"], it["actor_kind"]) for it in told if it["subject"] == batch_id}


def _by_person(*actions: str) -> list[tuple[str, str]]:
    return [(action, "operator") for action in actions]


def test_the_rows_of_a_batch_and_of_an_undo_name_the_person_who_ordered_them(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    supplier, (account,) = batches.supplier, batches.supplier.accounts(1)
    fields = {"step": "import", "team": supplier.team}
    started = administrator.upload(supplier.code, ndjson([account]), **fields)
    batch_id = str(started.location).rstrip("/").rsplit("/", 1)[-1]
    batches.work()
    location, _ = administrator.act(f"/batches/{batch_id}/undo/", {"reason": "A test."})
    UndoClient(supplier).work(location.rstrip("/").rsplit("/", 1)[-1])
    number = account["external_account_number"]
    assert _story(supplier, number) == _by_person("account.staged", "account.processed", "account.reverted")
    assert set(_by_person("batch.started", "batch.ordered")) <= _of_batch(supplier, batch_id)


def test_the_rows_of_a_batch_whose_key_was_revoked_name_the_person_who_took_it_over(
    administrator: ConsoleClient, batches: BatchClient, supplier: SupplierClient
) -> None:
    account, *_ = supplier.accounts(1)
    batch_id = batches.start([account], "import")
    administrator.act(f"/batches/{batch_id}/pause/")
    with supplier.Session.begin() as session:
        revoke_api_key(session, supplier.api_key)
    administrator.act(f"/batches/{batch_id}/resume/")
    batches.work()
    number = account["external_account_number"]
    assert _story(supplier, number) == _by_person("account.staged", "account.processed")
    assert _by_person("batch.taken_over")[0] in _of_batch(supplier, batch_id)
