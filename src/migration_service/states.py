"""The states, statuses and modes that the service keeps: one enumeration each, stored by its value."""

from enum import StrEnum


class SupplierStatus(StrEnum):
    """What an import supplier takes (section 3.1)."""

    #: Accepts new accounts for migration.
    ONGOING = "Ongoing"
    #: Migration attempts get an error; more accounts are expected later.
    PAUSED = "Paused"
    #: Migration attempts get an error; no more accounts are expected.
    COMPLETE = "Complete"


class ImportState(StrEnum):
    """Where an account import process is. `services.imports` has the table of its changes."""

    #: Staged; not created yet, or an attempt failed or was rolled back.
    PENDING = "PENDING"
    #: An attempt was accepted and is creating the account.
    IN_PROGRESS = "IN_PROGRESS"
    #: The account exists.
    IMPORTED = "IMPORTED"
    #: An operator took it out.
    SKIPPED = "SKIPPED"


class Outcome(StrEnum):
    """How an attempt ended."""

    #: The account was created.
    SUCCEEDED = "SUCCEEDED"
    #: The account would have been created; everything was rolled back.
    DRY_RUN_SUCCEEDED = "DRY_RUN_SUCCEEDED"
    #: It could not be created; the attempt says why.
    FAILED = "FAILED"
    #: No worker took it in time; it will never run.
    WITHDRAWN = "WITHDRAWN"


class Report(StrEnum):
    """How much validate and stage answer."""

    #: The account, every error and every warning.
    FULL = "full"


class AttemptState(StrEnum):
    """Whether an attempt has ended, as the interface reports it."""

    #: It is waiting for a worker, or a worker is creating the account.
    IN_PROGRESS = "IN_PROGRESS"
    #: It has an outcome.
    FINISHED = "FINISHED"


class BatchMode(StrEnum):
    """How far each account of a batch goes."""

    #: It is validated; nothing of it is kept but the result.
    VALIDATE = "validate"
    #: It is validated and staged.
    STAGE = "stage"
    #: It is validated, staged and created.
    IMPORT = "import"
    #: Everything that `import` does, rolled back.
    DRY_RUN = "dry-run"

    @property
    def creates(self) -> bool:
        """Whether accounts are created, for good or not: this needs a team, and slots."""
        return self in (BatchMode.IMPORT, BatchMode.DRY_RUN)


class BatchSource(StrEnum):
    """Where the payloads of a batch come from."""

    #: A file that was sent with it.
    UPLOAD = "upload"
    #: Everything that the supplier had pending when the batch was started.
    PENDING = "pending"


class BatchState(StrEnum):
    """Where a batch is. `services.batches` has the table of its changes."""

    #: Workers take its chunks.
    RUNNING = "RUNNING"
    #: Its supplier is paused; it goes on by itself.
    WAITING = "WAITING"
    #: Somebody paused it; it goes on when somebody resumes it.
    PAUSED = "PAUSED"
    #: Its supplier is complete, so it cannot go on; it can be resumed if that is changed.
    STOPPED = "STOPPED"
    #: Somebody cancelled it. Lines that were not worked on stay PENDING for ever.
    CANCELLED = "CANCELLED"
    #: Every line has an outcome.
    COMPLETED = "COMPLETED"


class LineStatus(StrEnum):
    """What became of one line of a batch."""

    #: Not worked on yet.
    PENDING = "PENDING"
    #: Mode `validate`: the payload has no errors.
    VALID = "VALID"
    #: Mode `stage`: the payload is stored.
    STAGED = "STAGED"
    #: Mode `import`: the account exists now.
    IMPORTED = "IMPORTED"
    #: Mode `dry-run`: the account would exist now.
    WOULD_IMPORT = "WOULD_IMPORT"
    #: The account existed already, from an earlier batch or a single request. Nothing was changed.
    ALREADY_IMPORTED = "ALREADY_IMPORTED"
    #: An operator marked the account to be skipped. Nothing was changed.
    SKIPPED = "SKIPPED"
    #: The errors of the line say why.
    FAILED = "FAILED"


class BatchCondition(StrEnum):
    """Why a batch that is RUNNING does not get on as it should."""

    #: No line was worked on for a minute.
    STALLED = "STALLED"
    #: Workers give lines back, because requests or other batches hold the slots.
    THROTTLED = "THROTTLED"


class OpenReason(StrEnum):
    """Why something that was sent is open in reconciliation."""

    #: Every line that had it was refused, so nothing is staged.
    REFUSED = "REFUSED"
    #: Nothing decided it yet: its line is pending, or its batch only validates.
    WAITING = "WAITING"
    #: It is staged, and not created.
    STAGED = "STAGED"


class ChunkState(StrEnum):
    """Where a chunk is."""

    #: A row and nothing else: no message, no worker.
    PENDING = "PENDING"
    #: A message was published for it; a worker has it, or will.
    DISPATCHED = "DISPATCHED"
    #: Every line of it has an outcome.
    DONE = "DONE"


class EmailState(StrEnum):
    """Where a customer e-mail is."""

    #: To be sent, perhaps after tries that failed.
    PENDING = "PENDING"
    #: The mail server has taken it.
    SENT = "SENT"
    #: The mail server will never take it for this address.
    REFUSED = "REFUSED"


class TransactionPeriod(StrEnum):
    """How a transaction came to its ledger."""

    #: In the payload, in the settlement period that is open.
    OPEN = "OPEN"
    #: In the payload, settled already on a historical statement.
    HISTORICAL = "HISTORICAL"
    #: Added after the account was created (section 4.9).
    ADDED = "ADDED"


class StatementOrigin(StrEnum):
    """How a statement came to its account."""

    #: In the payload.
    PAYLOAD = "PAYLOAD"
    #: Added after the account was created (section 4.10).
    ADDED = "ADDED"


class Profile(StrEnum):
    """How strict an import supplier wants to be treated."""

    #: Warnings are kept, but refuse nothing.
    LENIENT = "lenient"
    #: Warnings are errors.
    STRICT = "strict"


class AuditOutcome(StrEnum):
    """How an act ended that the audit tells of."""

    DONE = "DONE"
    REFUSED = "REFUSED"
