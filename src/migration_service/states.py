"""The states, statuses and modes of the service, an enumeration for each. They are stored by value."""

from enum import StrEnum


class SupplierStatus(StrEnum):
    """Whether an import supplier accepts accounts (section 3.1)."""

    #: Accepts new accounts for migration.
    ONGOING = "Ongoing"
    #: Migration attempts get an error. More accounts are expected later.
    PAUSED = "Paused"
    #: Migration attempts get an error. No more accounts are expected.
    COMPLETE = "Complete"


class ImportState(StrEnum):
    """The state of an account import process. `services.imports.states` has the table of its changes."""

    #: Staged. It was not created yet, or an attempt failed or was rolled back.
    PENDING = "PENDING"
    #: An attempt was accepted and is creating the account.
    IN_PROGRESS = "IN_PROGRESS"
    #: The account exists.
    IMPORTED = "IMPORTED"
    #: An operator excluded it.
    SKIPPED = "SKIPPED"


class StagingResult(StrEnum):
    """The effect of staging a payload."""

    #: It is the first payload of the account.
    STAGED = "STAGED"
    #: It replaced another payload.
    REPLACED = "REPLACED"
    #: The same payload was staged already.
    UNCHANGED = "UNCHANGED"


class Outcome(StrEnum):
    """How an attempt ended."""

    #: The account was created.
    SUCCEEDED = "SUCCEEDED"
    #: The account would have been created. Everything was rolled back.
    DRY_RUN_SUCCEEDED = "DRY_RUN_SUCCEEDED"
    #: It could not be created; the attempt says why.
    FAILED = "FAILED"
    #: No worker took it in time, and it will never run.
    WITHDRAWN = "WITHDRAWN"


class Report(StrEnum):
    """How much validate and stage return."""

    #: The account, every error and every warning.
    FULL = "full"


class AttemptState(StrEnum):
    """Whether an attempt has ended, as the interface reports it."""

    #: It is waiting for a worker, or a worker is creating the account.
    IN_PROGRESS = "IN_PROGRESS"
    #: It has an outcome.
    FINISHED = "FINISHED"


class BatchMode(StrEnum):
    """What is done with each account of a batch."""

    #: It is validated, and only the result is kept.
    VALIDATE = "validate"
    #: It is validated and staged.
    STAGE = "stage"
    #: It is validated, staged and created.
    IMPORT = "import"
    #: Everything that `import` does, rolled back.
    DRY_RUN = "dry-run"

    @property
    def creates(self) -> bool:
        """Return whether accounts are created, also in a dry run. This needs a team, and slots."""
        return self in (BatchMode.IMPORT, BatchMode.DRY_RUN)


class BatchKind(StrEnum):
    """What the lines of a batch are: each is the body of the single endpoint."""

    #: Account payloads, as they are staged.
    ACCOUNTS = "accounts"
    #: Notes to add to an account that exists.
    NOTES = "notes"
    #: Financial transactions to add to an account that exists.
    TRANSACTIONS = "transactions"
    #: Historical statements to add to an account that exists.
    STATEMENTS = "statements"
    #: A payment instruction to add to an account that exists, once its vendor has confirmed it.
    PAYMENT_INSTRUCTIONS = "payment-instructions"

    @property
    def is_added_data(self) -> bool:
        """Return whether the lines add something to accounts that exist."""
        return self is not BatchKind.ACCOUNTS

    @property
    def queue(self) -> str:
        """Return the queue whose workers take its chunks."""
        return "vendors" if self is BatchKind.PAYMENT_INSTRUCTIONS else "batch"


class BatchSource(StrEnum):
    """Where the payloads of a batch come from."""

    #: A file that was sent with it.
    UPLOAD = "upload"
    #: Everything that the supplier had pending when the batch was started.
    PENDING = "pending"


class BatchState(StrEnum):
    """The state of a batch. `services.batches.states` has the table of its changes."""

    #: Workers take its chunks.
    RUNNING = "RUNNING"
    #: Its supplier is paused. It continues when the supplier is resumed.
    WAITING = "WAITING"
    #: It was paused, and continues when it is resumed.
    PAUSED = "PAUSED"
    #: Its supplier is complete, so it cannot continue. It can be resumed if that is changed.
    STOPPED = "STOPPED"
    #: It was cancelled. Lines that were not worked on stay PENDING for ever.
    CANCELLED = "CANCELLED"
    #: Every line has an outcome.
    COMPLETED = "COMPLETED"


class LineStatus(StrEnum):
    """The status of one line of a batch."""

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
    #: The account already existed, from an earlier batch or a single request. Nothing was changed.
    ALREADY_IMPORTED = "ALREADY_IMPORTED"
    #: An operator marked the account to be skipped. Nothing was changed.
    SKIPPED = "SKIPPED"
    #: Mode `import` of added data: what the line adds is on the account now.
    ADDED = "ADDED"
    #: Mode `dry-run` of added data: it would be on the account now.
    WOULD_ADD = "WOULD_ADD"
    #: Everything that the line adds was on the account already. Nothing was changed.
    ALREADY_ADDED = "ALREADY_ADDED"
    #: Its account does not exist yet, and is being created or waits in a batch; or a vendor is unavailable.
    #: It is worked on later.
    DEFERRED = "DEFERRED"
    #: The errors of the line say why.
    FAILED = "FAILED"

    @property
    def is_open(self) -> bool:
        """Return whether the line has no outcome yet."""
        return self in (LineStatus.PENDING, LineStatus.DEFERRED)


class BatchCondition(StrEnum):
    """Why a batch that is RUNNING makes little or no progress."""

    #: All its open lines are deferred: they wait for an account or for a payment vendor, and are tried again.
    DEFERRED = "DEFERRED"
    #: No line was worked on for a minute.
    STALLED = "STALLED"
    #: Its workers are ready and wait for a processor most of the time: the machine is busy with other work.
    STARVING = "STARVING"
    #: Workers release its chunks, because requests or other batches hold the slots.
    THROTTLED = "THROTTLED"


class WaveState(StrEnum):
    """The state of a wave. `services.waves.states` has the table of its changes."""

    #: An earlier wave of its plan is not over.
    PLANNED = "PLANNED"
    #: It is its turn: it waits for its window, for the approval of the wave before, or for a person.
    WAITING = "WAITING"
    #: Its batch runs.
    RUNNING = "RUNNING"
    #: Its batch was paused: by a brake, by the end of the window, or by a person.
    PAUSED = "PAUSED"
    #: Every line has an outcome, and what was created is compared with what was staged.
    RECONCILING = "RECONCILING"
    #: Nothing differs, and nothing is open.
    CLEAN = "CLEAN"
    #: An account differs or is open. A person decides.
    DIFFERS = "DIFFERS"
    #: A person approved it. The next wave may begin.
    APPROVED = "APPROVED"
    #: A person stopped it, and with it every later wave of the plan.
    STOPPED = "STOPPED"


class WaveWait(StrEnum):
    """What a WAITING wave waits for."""

    #: Its window.
    WINDOW = "window"
    #: A person who approves the wave before it.
    APPROVAL = "approval"
    #: A person who starts it, because it has no window.
    PERSON = "person"


class Weekday(StrEnum):
    """A day of the week, in the order of `date.weekday`."""

    MONDAY = "mon"
    TUESDAY = "tue"
    WEDNESDAY = "wed"
    THURSDAY = "thu"
    FRIDAY = "fri"
    SATURDAY = "sat"
    SUNDAY = "sun"


class OpenReason(StrEnum):
    """Why something that was sent is open in reconciliation."""

    #: Every line that had it was refused, so nothing is staged.
    REFUSED = "REFUSED"
    #: Not decided yet: its line is pending, or its batch only validates.
    WAITING = "WAITING"
    #: It is staged, and not created.
    STAGED = "STAGED"
    #: The same, and a newer version was sent that was not taken.
    STAGED_OLDER_VERSION = "STAGED_OLDER_VERSION"
    #: It was created, and a newer version was sent that was not taken.
    CREATED_OLDER_VERSION = "CREATED_OLDER_VERSION"


class CodeChange(StrEnum):
    """How often a code of errors or warnings occurs in the second of two batches, compared with the first."""

    #: Only in the second one.
    CAME = "CAME"
    #: Only in the first one.
    WENT = "WENT"
    #: On more lines.
    GREW = "GREW"
    #: On fewer lines.
    SHRANK = "SHRANK"
    #: On as many lines.
    SAME = "SAME"


class AccountChange(StrEnum):
    """What two batches say about an account that fails in at least one of them."""

    #: It passed in the first one, and fails in the second one.
    NEWLY_BROKEN = "NEWLY_BROKEN"
    #: It failed in the first one, and passes in the second one.
    MENDED = "MENDED"
    #: It fails in both.
    STILL_BROKEN = "STILL_BROKEN"
    #: Only the second one has it, and it fails there.
    ADDED_BROKEN = "ADDED_BROKEN"
    #: Only the first one has it, and it failed there.
    REMOVED_BROKEN = "REMOVED_BROKEN"


class ChunkState(StrEnum):
    """The state of a chunk."""

    #: No message was published for it, and no worker has it.
    PENDING = "PENDING"
    #: A message was published for it, or a worker has it.
    DISPATCHED = "DISPATCHED"
    #: Every line of it has an outcome.
    DONE = "DONE"


class UndoState(StrEnum):
    """The state of an undo. `services.undo.states` has the table of its changes."""

    #: Workers take its accounts.
    RUNNING = "RUNNING"
    #: It was cancelled. Accounts that were reverted stay so, and the others were not touched.
    CANCELLED = "CANCELLED"
    #: Every account has an outcome.
    COMPLETED = "COMPLETED"


class UndoOutcome(StrEnum):
    """What became of one account of an undo."""

    #: Not worked on yet.
    PENDING = "PENDING"
    #: The account does not exist any more. Its import is pending again.
    REVERTED = "REVERTED"
    #: Nothing was changed; the reasons say why.
    KEPT = "KEPT"


class UndoBlocker(StrEnum):
    """Why an account is not reverted: a reason of its outcome KEPT."""

    #: A customer got an e-mail, or may have got it: sending was begun, and its end is not known.
    EMAIL_SENT = "email_sent"
    #: A payment vendor has confirmed an instruction of the account.
    INSTRUCTION_CONFIRMED = "payment_instruction_confirmed"
    #: Notes, transactions or statements were added after the account was created.
    DATA_ADDED = "data_added_later"
    #: The supplier has gone live.
    SUPPLIER_LIVE = "import_supplier_live"
    #: The personal data of the account was erased, so that it could not be created again.
    ERASED = "account_erased"
    #: The staged payload was removed after its retention time, so that it could not be created again.
    PAYLOAD_REMOVED = "payload_removed"
    #: The account of that number does not exist any more, or was not created yet.
    NOT_IMPORTED = "account_not_imported"
    #: Something else held the account each time that a worker took it.
    BUSY = "account_busy"

    @property
    def may_be_overridden(self) -> bool:
        """Return whether an administrator may have the account reverted all the same."""
        return self in (self.EMAIL_SENT, self.INSTRUCTION_CONFIRMED, self.DATA_ADDED)


class EmailState(StrEnum):
    """The state of a customer e-mail."""

    #: To be sent. Earlier tries may have failed.
    PENDING = "PENDING"
    #: The mail server has accepted it.
    SENT = "SENT"
    #: The mail server will never accept it for this address.
    REFUSED = "REFUSED"


class TransactionPeriod(StrEnum):
    """How a transaction was added to its ledger."""

    #: In the payload, in the open settlement period.
    OPEN = "OPEN"
    #: In the payload, already settled on a historical statement.
    HISTORICAL = "HISTORICAL"
    #: Added after the account was created (section 4.9).
    ADDED = "ADDED"


class StatementOrigin(StrEnum):
    """How a statement was added to its account."""

    #: In the payload.
    PAYLOAD = "PAYLOAD"
    #: Added after the account was created (section 4.10).
    ADDED = "ADDED"


class Profile(StrEnum):
    """How strictly the payloads of an import supplier are validated."""

    #: Warnings are kept, but do not refuse an account.
    LENIENT = "lenient"
    #: Warnings are errors.
    STRICT = "strict"


class AuditOutcome(StrEnum):
    """How an act ended that the audit tells of."""

    DONE = "DONE"
    REFUSED = "REFUSED"
