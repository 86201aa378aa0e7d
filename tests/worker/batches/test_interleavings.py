"""Everything that locks a batch, a chunk or its lines, in every order."""

import io
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.orm import Session

from migration_payloads.files.ndjson import FileLimits
from migration_payloads.profile import Profile
from migration_payloads.schemas.json import parse_json
from migration_payloads.validation import validate_account
from migration_service.db.base import new_id
from migration_service.db.sql import OpenTransaction
from migration_service.errors import BatchStateError
from migration_service.models import Account, Batch, BatchChunk, BatchLine
from migration_service.services.batches.control import cancel_batch, pause_batch, resume_batch
from migration_service.services.batches.error_thresholds import NO_THRESHOLD, ErrorThreshold, set_threshold
from migration_service.services.batches.intake.options import BatchOrder
from migration_service.services.batches.intake.spool import SpooledLines
from migration_service.services.batches.intake.upload import start_batch
from migration_service.services.batches.results.counts import count_lines
from migration_service.services.batches.retry import retry_failed
from migration_service.services.batches.states import complete_batches
from migration_service.services.batches.work import chunks
from migration_service.services.batches.work.feed import recover_chunks
from migration_service.services.imports import storing
from migration_service.services.imports.skipping import skip_accounts
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.states import BatchMode, BatchState, ChunkState, ImportState
from support.batch_client import BatchClient, ndjson
from support.interleavings import COMMIT, ROLLBACK, Script, Step, explore


def _account(batches: BatchClient) -> dict[str, Any]:
    (account,) = batches.supplier.accounts()
    return account | {"external_account_number": f"interleaved {uuid4()}"}


def _upload(session: Session, known: KnownSupplier, order: BatchOrder, body: bytes) -> UUID:
    limits = FileLimits(line=100_000, total=100_000)
    lines = SpooledLines(io.BytesIO(body), limits, identity=order.identify(known.code))
    return start_batch(session, known, order, lines)


@dataclass
class Started:
    """A batch of one line whose chunk was dispatched."""

    batches: BatchClient
    batch_id: UUID
    number: str
    claims: dict[str, UUID] = field(default_factory=dict)

    @classmethod
    def start(cls, batches: BatchClient, mode: str = "import") -> "Started":
        account = _account(batches)
        order = BatchOrder(mode=BatchMode(mode), operations_team_name=batches.supplier.team)
        with batches.resources.Session.begin() as session:
            batch_id = _upload(session, batches.supplier.known(), order, ndjson([account]))
        started = cls(batches, batch_id, account["external_account_number"])
        started.change(state=ChunkState.DISPATCHED, dispatched_at=func.now())
        return started

    @property
    def key(self) -> chunks.ChunkKey:
        return chunks.ChunkKey(self.batch_id, 1)

    def change(self, **values: Any) -> None:
        with self.batches.resources.Session.begin() as session:
            self.set(session, **values)

    def set(self, session: Session, **values: Any) -> None:
        session.execute(update(BatchChunk).where(BatchChunk.batch_id == self.batch_id).values(**values))

    def claim(self, worker: str) -> Step:
        """Claim the chunk, and commit. The worker is then so slow that the chunk counts as lost."""

        def claim(session: Session) -> bool:
            self.claims[worker] = new_id()
            claimed = chunks.claim_chunk(session, self.key, [self.claims[worker]])
            if claimed:
                self.set(session, dispatched_at=func.now() - text("interval '1 minute'"))
            session.commit()
            return claimed

        return ("claim and commit", claim)

    def work(self, worker: str) -> Step:
        return ("work", lambda session: chunks.work_on_chunk(session, self.key, [self.claims[worker]]))

    def change_batch(self, name: str, action: Any) -> list[Step]:
        """Apply `action`, return whether that was possible, and commit."""

        def change(session: Session) -> bool:
            batch = session.get_one(Batch, self.batch_id, populate_existing=True)
            try:
                action(session, batch)
                session.flush()
            except BatchStateError:
                return False
            return True

        return [(name, change), COMMIT]

    def work_as(self, worker: str) -> list[Step]:
        return [self.claim(worker), self.work(worker), COMMIT]

    def batch(self) -> Batch:
        with self.batches.resources.Session() as session:
            return session.get_one(Batch, self.batch_id)

    def chunk(self) -> BatchChunk:
        with self.batches.resources.Session() as session:
            return session.get_one(BatchChunk, (self.batch_id, 1))

    def created(self) -> int:
        with self.batches.resources.Session() as session:
            own = select(func.count()).where(Account.external_account_number == self.number)
            return session.scalar(own) or 0

    def counts(self) -> dict[str, int]:
        with self.batches.resources.Session() as session:
            return count_lines(session, [self.batch_id])[self.batch_id]


def test_a_chunk_that_two_workers_claim_and_the_sweep_recovers_is_done_once(batches: BatchClient) -> None:
    def recover(session: Session) -> None:
        recover_chunks(session)
        session.commit()

    def script() -> Script:
        started = Started.start(batches)

        def work_on(session: Session) -> Any:
            left = started.work("other")[1](session)
            session.commit()
            return left

        run = yield {
            "one": started.work_as("one"),
            "other": [started.claim("other"), ("work and commit", work_on)],
            "sweep": [("recover and commit", recover)],
        }
        worked = [run.results["one.work"], run.results["other.work and commit"]]
        assert worked.count(0) <= 1
        assert started.created() == worked.count(0)
        assert started.counts() == ({"IMPORTED": 1} if 0 in worked else {"PENDING": 1})
        chunk = started.chunk()
        if 0 in worked:
            assert (chunk.state, chunk.attempts) == (ChunkState.DONE, None)
        elif run.before("other.claim and commit", "sweep.recover and commit"):
            assert chunk.state == ChunkState.PENDING, "the sweep recovered it from both"
        assert not run.waited, "a session waited for a chunk"

    assert explore(batches.supplier.Session, script) == 60


def test_a_chunk_that_another_worker_locks_for_a_moment_is_processed_all_the_same(
    batches: BatchClient,
) -> None:
    def script() -> Script:
        started = Started.start(batches)
        started.change(attempts=[])
        # So does the choice of the next chunk if its snapshot is older than the choice of another worker.
        locked = select(BatchChunk).where(BatchChunk.batch_id == started.batch_id).with_for_update()
        lock: Step = ("lock", lambda session: session.execute(locked))
        yield {"worker": started.work_as("worker"), "other": [lock, COMMIT]}
        assert started.counts() == {"IMPORTED": 1}

    assert explore(batches.supplier.Session, script) > 5


def test_a_chunk_is_released_without_slots_or_processed_with_them(batches: BatchClient) -> None:
    def script() -> Script:
        started = Started.start(batches)
        release: Step = ("release", lambda session: chunks.release_chunk(session, started.key))
        run = yield {"one": started.work_as("one"), "other": [release, COMMIT]}
        worked = run.results["one.work"] == 0
        assert started.created() == worked
        assert started.chunk().state == (ChunkState.DONE if worked else ChunkState.PENDING)
        assert "other.release" not in run.waited, "a release waited for a worker"
        released_first = run.before("other.release", "one.claim and commit")
        if released_first and run.before("other.commit", "one.claim and commit"):
            assert worked, "a claim after the release was lost"

    explore(batches.supplier.Session, script)


def test_of_two_changes_of_a_batch_the_second_sees_the_first(batches: BatchClient) -> None:
    def script() -> Script:
        started = Started.start(batches)
        run = yield {
            "one": started.change_batch("cancel", cancel_batch),
            "other": started.change_batch("pause", pause_batch),
            "third": started.change_batch("resume", resume_batch),
        }
        batch = started.batch()
        assert run.results["one.cancel"], "a batch could not be cancelled, paused or not"
        assert batch.state == BatchState.CANCELLED
        assert run.results["other.pause"] or not run.results["third.resume"]

    assert explore(batches.supplier.Session, script) > 20


def test_a_batch_that_is_paused_or_cancelled_while_it_ends_keeps_that_state(batches: BatchClient) -> None:
    def script() -> Script:
        started = Started.start(batches, "validate")
        started.change(state=ChunkState.DONE)
        run = yield {
            "person": started.change_batch("cancel", cancel_batch),
            "feeder": [("complete", complete_batches), COMMIT],
        }
        cancelled = run.results["person.cancel"]
        assert started.batch().state == (BatchState.CANCELLED if cancelled else BatchState.COMPLETED)

    assert explore(batches.supplier.Session, script) >= 4


def test_a_line_of_a_batch_that_is_cancelled_meanwhile_is_processed_completely_or_not_at_all(
    batches: BatchClient,
) -> None:
    def script() -> Script:
        started = Started.start(batches)
        run = yield {
            "worker": started.work_as("worker"),
            "person": started.change_batch("cancel", cancel_batch),
        }
        assert started.batch().state == BatchState.CANCELLED
        worked = run.results["worker.work"] == 0
        assert started.created() == worked
        assert started.counts() == ({"IMPORTED": 1} if worked else {"PENDING": 1})
        if run.before("person.commit", "worker.work"):
            assert not worked

    explore(batches.supplier.Session, script)


def test_two_retries_open_a_failed_line_once(batches: BatchClient) -> None:
    def script() -> Script:
        started = Started.start(batches)
        failed = {"status": "FAILED", "errors": [{"code": "account_creation_failed"}]}
        completed = {"state": BatchState.COMPLETED, "finished_at": func.now()}
        with batches.resources.Session.begin() as session:
            session.execute(update(BatchLine).where(BatchLine.batch_id == started.batch_id).values(**failed))
            session.execute(update(Batch).where(Batch.id == started.batch_id).values(**completed))
        started.change(state=ChunkState.DONE, counts={"FAILED": 1})
        retried: list[int] = []

        def retry(session: Session, batch: Batch) -> None:
            retried.append(retry_failed(session, batch).retried)

        yield {name: started.change_batch("retry", retry) for name in ("one", "other")}
        assert sorted(retried) == [0, 1]
        batch = started.batch()
        assert (batch.state, batch.finished_at) == (BatchState.RUNNING, None)
        assert started.counts() == {"PENDING": 1}

    assert explore(batches.supplier.Session, script) >= 4


def test_an_account_that_is_staged_again_while_a_batch_takes_pending_accounts_is_imported_once(
    batches: BatchClient,
) -> None:
    supplier = batches.supplier
    known = supplier.known()

    def script() -> Script:
        payload = _account(batches)
        number = payload["external_account_number"]
        assert supplier.stage(payload).status_code == 201
        answer = batches.post(None, source="pending")
        started = Started(batches, UUID((answer.json or {})["batch_id"]), number)
        (line,) = batches.results(str(started.batch_id))
        assert line["external_account_number"] == number, "accounts of earlier runs are still pending"
        changed = parse_json(msgspec.json.encode(payload | {"billing_address1": "Damrak 2"}))
        account = validate_account(changed, Profile.LENIENT)

        def restage(session: Session) -> ImportState:
            (staged,) = storing.stage(OpenTransaction.of(session), known, [account])
            return staged.state

        run = yield {"worker": started.work_as("worker"), "supplier": [("stage", restage), COMMIT]}
        taken = run.results["supplier.stage"] is ImportState.PENDING
        (line,) = batches.results(str(started.batch_id))
        if line["status"] == "FAILED":
            assert line["errors"][0]["code"] == "account_import_in_progress"
            assert taken, "the batch skipped an account that was not locked"
            assert started.created() == 0
            # Otherwise the batch of the next run would have it, too.
            with supplier.Session.begin() as session:
                skip_accounts(session, known.id, [number])
            return
        assert line["status"] == "IMPORTED"
        with supplier.Session() as session:
            street = select(Account.billing_address1).where(Account.external_account_number == number)
            expected = "Damrak 2" if taken else payload["billing_address1"]
            assert session.scalars(street).one() == expected

    assert explore(supplier.Session, script) > 5


def test_a_threshold_that_is_taken_away_or_reached_while_somebody_cancels(batches: BatchClient) -> None:
    def take_away(session: Session, batch: Batch) -> None:
        set_threshold(session, batch, NO_THRESHOLD)

    def script() -> Script:
        started = Started.start(batches, "validate")
        with batches.resources.Session.begin() as session:
            batch = session.get_one(Batch, started.batch_id)
            set_threshold(session, batch, ErrorThreshold(stop_after_errors="1"))
        started.change(worked_at=func.now(), done=1, failures={"required": 1})
        run = yield {
            "worker": [("read", lambda session: chunks.read_chunk(session, started.key)), COMMIT],
            "person": started.change_batch("cancel", cancel_batch),
            "other": started.change_batch("take away", take_away),
        }
        assert run.results["person.cancel"], "a batch can be cancelled even if its threshold paused it"
        batch = started.batch()
        assert (batch.state, batch.reason) == (BatchState.CANCELLED, None)
        if run.results["other.take away"]:
            assert batch.brake is None
        if run.results["worker.read"] is not None:
            assert run.before("other.commit", "worker.read"), "nobody starts with the threshold reached"

    assert explore(batches.supplier.Session, script) > 20


@pytest.mark.parametrize("end", [COMMIT, ROLLBACK], ids=["commit", "rollback"])
def test_two_uploads_with_one_key_are_one_batch(batches: BatchClient, end: Step) -> None:
    supplier = batches.supplier
    known = supplier.known()

    def script() -> Script:
        order = BatchOrder(mode=BatchMode.VALIDATE, idempotency_key=str(uuid4()))
        start: Step = ("start", lambda session: _upload(session, known, order, b"{}\n{}\n"))
        run = yield {"one": [start, end], "other": [start, COMMIT]}
        one, other = run.results["one.start"], run.results["other.start"]
        with supplier.Session() as session:
            kept = select(Batch.id).where(Batch.idempotency_key == order.idempotency_key)
            assert session.scalars(kept).all() == [other]
            lines = select(func.count()).select_from(BatchLine).where(BatchLine.batch_id == other)
            assert session.scalar(lines) == 2
        if end is COMMIT:
            assert one == other

    explore(supplier.Session, script)
