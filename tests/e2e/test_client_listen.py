"""`migration-client listen` while it, the receiver and the service are started again and again.

MIGRATION_SERVICE_CLIENT_FAULTS=20 makes a long run of it, with so many restarts of each.
"""

import os
import sys
from functools import partial
from pathlib import Path
from random import Random

import pytest

from drill.faults import FAULTS
from drill.scene import SUPPLIER, Scene
from migration_service.db.engine import make_engine, make_sessionmaker
from migration_service.schemas.events import EventType
from migration_service.services.events.recording import record
from migration_service_local.servers.ports import random_free_port
from support.client_command import start_command
from support.receivers import Receiver, receiving
from support.servers import wait_until

pytestmark = pytest.mark.long

_RESTARTS = int(os.environ.get("MIGRATION_SERVICE_CLIENT_FAULTS", "3"))
_EVENTS = 30
_OF_SUPPLIER = "SELECT organisation_id FROM import_supplier WHERE code = %s"
_SINCE = """
    SELECT id::text FROM event WHERE organisation_id = %s AND type = 'batch.ended' AND id::text <> ALL (%s)
    ORDER BY generation, transaction_id, id
"""


@pytest.mark.timeout(60 + 120 * _RESTARTS)
def test_every_event_is_forwarded_once_over_restarts_of_both_sides(scene: Scene, tmp_path: Path) -> None:
    [(organisation_id,)] = scene.query(_OF_SUPPLIER, SUPPLIER)
    before = [id_ for (id_,) in scene.query(_SINCE, organisation_id, [])]
    port, chance, received = random_free_port(), Random(_RESTARTS), list[str]()
    (tmp_path / "secret").write_text("whsec_" + "c2VjcmV0" * 4)
    arguments = ["listen", "--forward-to", f"http://127.0.0.1:{port}/", "--types", "batch.ended"]
    arguments += ["--journal", "listen.journal", "--secret-file", "secret"]
    engine = make_engine(scene.database_url, pool_size=1, max_overflow=0, application_name="tests")
    sessions = make_sessionmaker(engine)

    def tell() -> None:
        for _ in range(_EVENTS):
            with sessions.begin() as session:
                record(session, EventType.BATCH_ENDED, {}, organisation_id=organisation_id)

    listener = start_command(scene, tmp_path, *arguments)
    journal = tmp_path / "listen.journal"
    wait_until(lambda: journal.exists() and journal.read_text().count("\n") > 1, "it listens")
    for number in range(_RESTARTS):
        tell()
        with receiving(port) as receiver:
            if number % 2:
                receiver.answer(500)
                wait_until(partial(len, receiver.requests), "an event that is refused", 150)
                receiver.requests.clear()
                receiver.answer(204)
            _receive(receiver, chance.randrange(1, _EVENTS))
            listener.kill()
            listener.communicate()
            received += _ids(receiver)
        if number == 0 or _RESTARTS > 3:
            FAULTS["web server killed"](scene, chance)
        listener = start_command(scene, tmp_path, *arguments)
    with receiving(port) as receiver:
        tell()
        told = [id_ for (id_,) in scene.query(_SINCE, organisation_id, before)]
        wait_until(lambda: {*received, *receiver.ids()} >= {*told}, "all events", 150)
        listener.terminate()
        output, _ = listener.communicate(timeout=60)
        received += _ids(receiver)
    engine.dispose()
    assert (listener.returncode, "Stopped." in output) == (0, True)
    assert list(dict.fromkeys(received)) == told
    # One that the killed command had sent and not noted yet comes once more, with the same id.
    repeated = len(received) - len(told)
    assert repeated <= _RESTARTS
    if _RESTARTS > 3:
        sys.stdout.write(f"{len(told)} events, {repeated} repeated after {_RESTARTS} restarts\n")


def _receive(receiver: Receiver, events: int) -> None:
    wait_until(lambda: len(receiver.requests) >= events, "some events", 150)


def _ids(receiver: Receiver) -> list[str]:
    """Return the ids of the messages of the receiver, which must be signed rightly."""
    receiver.verified("whsec_" + "c2VjcmV0" * 4)
    return receiver.ids()
