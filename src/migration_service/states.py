"""Enumerations of the states, statuses and modes of the service. They are stored by value."""

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
    """The outcome of an attempt."""

    #: The account was created.
    SUCCEEDED = "SUCCEEDED"
    #: The account would have been created. Everything was rolled back.
    DRY_RUN_SUCCEEDED = "DRY_RUN_SUCCEEDED"
    #: The account could not be created. The attempt has the reason.
    FAILED = "FAILED"
    #: No worker started the attempt in time, and it will never run.
    WITHDRAWN = "WITHDRAWN"


class Report(StrEnum):
    """The extent of the report that validate and stage return."""

    #: The account, every error and every warning.
    FULL = "full"


class AttemptState(StrEnum):
    """The state of an attempt in the interface."""

    #: It is waiting for a worker, or a worker is creating the account.
    IN_PROGRESS = "IN_PROGRESS"
    #: It has an outcome.
    FINISHED = "FINISHED"


class BatchMode(StrEnum):
    """The processing of each account of a batch."""

    #: The payload is validated, and only the result is kept.
    VALIDATE = "validate"
    #: The payload is validated and staged.
    STAGE = "stage"
    #: The payload is validated and staged, and the account is created.
    IMPORT = "import"
    #: Like `import`, but everything is rolled back.
    DRY_RUN = "dry-run"

    @property
    def creates(self) -> bool:
        """Return whether accounts are created, even in a dry run. This needs a team and slots."""
        return self in (BatchMode.IMPORT, BatchMode.DRY_RUN)


class Replace(StrEnum):
    """The accounts that a batch creates again, although they exist."""

    #: Those that differ from a newer version.
    DIFFERING = "differing"


class BatchKind(StrEnum):
    """The kind of data in the lines of a batch. Each line is the body of the single endpoint."""

    #: Account payloads.
    ACCOUNTS = "accounts"
    #: Notes to add to an existing account.
    NOTES = "notes"
    #: Financial transactions to add to an existing account.
    TRANSACTIONS = "transactions"
    #: Historical statements to add to an existing account.
    STATEMENTS = "statements"
    #: A payment instruction to add to an existing account once its vendor has confirmed it.
    PAYMENT_INSTRUCTIONS = "payment-instructions"

    @property
    def is_added_data(self) -> bool:
        """Return whether the lines add data to existing accounts."""
        return self is not BatchKind.ACCOUNTS

    @property
    def queue(self) -> str:
        """Return the queue for its chunks."""
        return "vendors" if self is BatchKind.PAYMENT_INSTRUCTIONS else "batch"


class BatchSource(StrEnum):
    """The source of the payloads of a batch."""

    #: An uploaded file.
    UPLOAD = "upload"
    #: All accounts of the supplier that were pending when the batch was started.
    PENDING = "pending"


class BatchState(StrEnum):
    """The state of a batch. `services.batches.states` has the table of its changes."""

    #: Workers process its chunks.
    RUNNING = "RUNNING"
    #: Its supplier is paused. It continues when the supplier is resumed.
    WAITING = "WAITING"
    #: It was paused, and continues when it is resumed.
    PAUSED = "PAUSED"
    #: Its supplier is complete, so it cannot continue. It can be resumed if that is changed.
    STOPPED = "STOPPED"
    #: It was cancelled. Unprocessed lines stay PENDING for ever.
    CANCELLED = "CANCELLED"
    #: Every line has an outcome.
    COMPLETED = "COMPLETED"


class LineStatus(StrEnum):
    """The status of one line of a batch."""

    #: Not processed yet.
    PENDING = "PENDING"
    #: Mode `validate`: the payload has no errors.
    VALID = "VALID"
    #: Mode `stage`: the payload is stored.
    STAGED = "STAGED"
    #: Mode `import`: the account exists now.
    IMPORTED = "IMPORTED"
    #: Mode `dry-run`: the account would exist now.
    WOULD_IMPORT = "WOULD_IMPORT"
    #: Mode `import` with `replace`: the account existed, and was created again from this version.
    REPLACED = "REPLACED"
    #: Mode `dry-run` with `replace`: the account would have been created again from this version.
    WOULD_REPLACE = "WOULD_REPLACE"
    #: The account already existed, from an earlier batch or a single request. Nothing was changed.
    ALREADY_IMPORTED = "ALREADY_IMPORTED"
    #: An operator marked the account to be skipped. Nothing was changed.
    SKIPPED = "SKIPPED"
    #: Mode `import` of added data: the data was added to the account.
    ADDED = "ADDED"
    #: Mode `dry-run` of added data: the data would have been added to the account.
    WOULD_ADD = "WOULD_ADD"
    #: The account already had all data of the line. Nothing was changed.
    ALREADY_ADDED = "ALREADY_ADDED"
    #: Its account is being created or is waiting in a batch, or a vendor is unavailable. The line is
    #: processed later.
    DEFERRED = "DEFERRED"
    #: The line failed. It has the errors.
    FAILED = "FAILED"

    @property
    def is_open(self) -> bool:
        """Return whether the line has no outcome yet."""
        return self in (LineStatus.PENDING, LineStatus.DEFERRED)


class BatchCondition(StrEnum):
    """The reason why a RUNNING batch makes little or no progress."""

    #: All its open lines are deferred: they wait for an account or a payment vendor, and are retried.
    DEFERRED = "DEFERRED"
    #: No line has been processed for a minute.
    STALLED = "STALLED"
    #: Its workers spend most of their time waiting for a processor, because the machine is busy.
    STARVING = "STARVING"
    #: Workers release its chunks, because no slots are free for them.
    THROTTLED = "THROTTLED"


class WaveState(StrEnum):
    """The state of a wave. `services.waves.states` has the table of its changes."""

    #: An earlier wave of its plan has not ended.
    PLANNED = "PLANNED"
    #: It is next, and waits for its window, for the approval of the previous wave, or for a person.
    WAITING = "WAITING"
    #: Its batch is running.
    RUNNING = "RUNNING"
    #: Its batch was paused by the error threshold, the end of the window, or a person.
    PAUSED = "PAUSED"
    #: Every line has an outcome, and the created accounts are compared with the staged ones.
    RECONCILING = "RECONCILING"
    #: Nothing differs, and nothing is open.
    CLEAN = "CLEAN"
    #: An account differs or is open. A person has to decide.
    DIFFERS = "DIFFERS"
    #: A person approved it. The next wave may start.
    APPROVED = "APPROVED"
    #: A person stopped it and every later wave of the plan.
    STOPPED = "STOPPED"


class WaveWait(StrEnum):
    """The reason for which a WAITING wave waits."""

    #: Its window.
    WINDOW = "window"
    #: A person who approves the previous wave.
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
    """The reason why a sent account or line is open in reconciliation."""

    #: Every line with it was refused, so nothing is staged.
    REFUSED = "REFUSED"
    #: Not decided yet: its line is pending, or its batch only validates.
    WAITING = "WAITING"
    #: It is staged but not created.
    STAGED = "STAGED"
    #: It is staged but not created, and a newer version was refused.
    STAGED_OLDER_VERSION = "STAGED_OLDER_VERSION"
    #: It was created, and a newer version was refused.
    CREATED_OLDER_VERSION = "CREATED_OLDER_VERSION"


class Problem(StrEnum):
    """The reason why a book is not clean, in the order in which people are told."""

    #: Accounts and lines that are neither created in their newest version nor skipped nor acknowledged.
    OPEN = "OPEN"
    #: Lines that were open when they were removed at the end of their retention period.
    REMOVED = "REMOVED"
    #: Created accounts that differ from what was staged, or from what was added to them.
    DIFFERING = "DIFFERING"
    #: Created accounts that no comparison has read since they were created.
    NOT_COMPARED = "NOT_COMPARED"
    #: Created accounts that cannot be compared, if that is all of them.
    NOT_COMPARABLE = "NOT_COMPARABLE"
    #: Measures of the file whose values are in no column of the book.
    UNACCOUNTED = "UNACCOUNTED"
    #: Files that do not match the supplier's control totals.
    CONTROL_TOTALS = "CONTROL_TOTALS"
    #: Accounts that differ from the figures of the old system by more than its tolerance.
    OLD_FIGURES = "OLD_FIGURES"


class Figure(StrEnum):
    """What the old system says of an account. The values are the members of a line of its figures."""

    LEDGER_BALANCES = "ledger_balances"
    LAST_BILLED_TO_DATE = "last_billed_to_date"
    MONTHLY_ADVANCE_AMOUNT = "monthly_advance_amount"
    METER_POINTS = "meter_points"
    OPEN_TRANSACTIONS = "open_transactions"
    LAST_READING_DATE = "last_reading_date"
    #: The account itself, which was not created.
    ACCOUNT = "account"


class FigureBucket(StrEnum):
    """How far a figure of the old system is from that of the created account."""

    EQUAL = "EQUAL"
    #: Amounts that differ by at most a cent, and by at most a euro.
    WITHIN_CENT = "WITHIN_CENT"
    WITHIN_EURO = "WITHIN_EURO"
    #: Everything else: amounts that differ by more, and numbers and dates that differ.
    MORE = "MORE"


class CodeChange(StrEnum):
    """The change in the frequency of an error or warning code from the first to the second of two batches."""

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
    """The change from one batch to another of an account that fails in at least one of them."""

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

    #: No message was published for it, and no worker has claimed it.
    PENDING = "PENDING"
    #: A message was published for it, or a worker has claimed it.
    DISPATCHED = "DISPATCHED"
    #: Every line has an outcome.
    DONE = "DONE"


class Owner(StrEnum):
    """Who is responsible for a created account: exactly one of the two."""

    #: The system that it was migrated from. It can still be undone.
    OLD = "old"
    #: The platform, because the account has gone live.
    NEW = "new"


class GoLiveState(StrEnum):
    """The state of a go-live."""

    #: Its moment has not come, or workers mark its accounts.
    PENDING = "PENDING"
    #: It was cancelled before its moment.
    CANCELLED = "CANCELLED"
    #: Every account has the owner `new`.
    COMPLETED = "COMPLETED"


class UndoState(StrEnum):
    """The state of an undo. `services.undo.states` has the table of its changes."""

    #: Workers process its accounts.
    RUNNING = "RUNNING"
    #: It was cancelled. Reverted accounts stay reverted, and the others were not changed.
    CANCELLED = "CANCELLED"
    #: Every account has an outcome.
    COMPLETED = "COMPLETED"


class UndoOutcome(StrEnum):
    """The outcome of one account of an undo."""

    #: Not processed yet.
    PENDING = "PENDING"
    #: The account no longer exists. Its import is pending again.
    REVERTED = "REVERTED"
    #: Nothing was changed, for the given reasons.
    KEPT = "KEPT"


class UndoBlocker(StrEnum):
    """A reason why an account was KEPT."""

    #: A customer got an e-mail, or may have got one: sending was started, and its result is unknown.
    EMAIL_SENT = "email_sent"
    #: A payment vendor has confirmed an instruction of the account.
    INSTRUCTION_CONFIRMED = "payment_instruction_confirmed"
    #: Notes, transactions or statements were added after the account was created.
    DATA_ADDED = "data_added_later"
    #: Of added data: a transaction was settled since.
    SETTLED = "settled_later"
    #: The supplier has gone live.
    SUPPLIER_LIVE = "import_supplier_live"
    #: The account has gone live before its supplier.
    ACCOUNT_LIVE = "account_live"
    #: The personal data of the account was erased, so that it could not be created again.
    ERASED = "account_erased"
    #: The staged payload was removed at the end of its retention period, so that it could not be created
    #: again.
    PAYLOAD_REMOVED = "payload_removed"
    #: The account with that number no longer exists, or was not created yet.
    NOT_IMPORTED = "account_not_imported"
    #: The account was locked by others each time that a worker tried it.
    BUSY = "account_busy"

    @property
    def may_be_overridden(self) -> bool:
        """Return whether an administrator can override this blocker."""
        return self in (self.EMAIL_SENT, self.INSTRUCTION_CONFIRMED, self.DATA_ADDED, self.SETTLED)


class EmailMoment(StrEnum):
    """When the e-mails to a supplier's customers are sent. Until then they are held."""

    #: When the account is created.
    AT_CREATION = "at_creation"
    #: When the wave that created the account is approved, or the account goes live.
    AT_APPROVAL = "at_approval"
    #: When the account goes live.
    AT_GO_LIVE = "at_go_live"
    #: At a moment that was set.
    AT_MOMENT = "at_moment"


class EmailState(StrEnum):
    """The state of a customer e-mail."""

    #: Nobody has decided that it is sent. An undo withdraws it.
    HELD = "HELD"
    #: To be sent. Earlier attempts may have failed.
    PENDING = "PENDING"
    #: The mail server has accepted it.
    SENT = "SENT"
    #: The mail server will never accept it for this address.
    REFUSED = "REFUSED"


class TransactionPeriod(StrEnum):
    """The origin of a transaction in its ledger."""

    #: In the payload, in the open settlement period.
    OPEN = "OPEN"
    #: In the payload, already settled on a historical statement.
    HISTORICAL = "HISTORICAL"
    #: Added after the account was created (section 4.9).
    ADDED = "ADDED"


class StatementOrigin(StrEnum):
    """The origin of a statement."""

    #: In the payload.
    PAYLOAD = "PAYLOAD"
    #: Added after the account was created (section 4.10).
    ADDED = "ADDED"


class AuditOutcome(StrEnum):
    """The outcome of an act in the audit."""

    DONE = "DONE"
    REFUSED = "REFUSED"


class EndpointOff(StrEnum):
    """Why an endpoint is switched off."""

    #: A person did it.
    PERSON = "PERSON"
    #: It answered with status 410.
    GONE = "GONE"
    #: Nothing was delivered for days.
    FAILING = "FAILING"
    #: The API key that created it was revoked.
    KEY_REVOKED = "KEY_REVOKED"


class DeliveryState(StrEnum):
    """The state of a delivery."""

    #: To be sent. Earlier attempts may have failed.
    PENDING = "PENDING"
    #: The endpoint has answered with a status from 200 to 299.
    DELIVERED = "DELIVERED"
    #: All attempts failed.
    FAILED = "FAILED"


class DeliveryFailure(StrEnum):
    """Why an attempt failed."""

    #: An answer with another status than 200 to 299.
    STATUS = "status"
    #: Status 410, which switches the endpoint off.
    GONE = "gone"
    #: A redirect, which is not followed.
    REDIRECT = "redirect"
    TIMEOUT = "timeout"
    #: The connection was refused or cut.
    CONNECTION = "connection"
    HOST_UNKNOWN = "host_unknown"
    #: The host has an address that is not public.
    ADDRESS_NOT_ALLOWED = "address_not_allowed"
    #: No TLS connection could be established, or the certificate is invalid.
    TLS = "tls"
    #: The answer is not HTTP.
    ANSWER_INVALID = "answer_invalid"
    #: The secret, or the address, cannot be used with the settings of the workers.
    SETTINGS = "settings"
    #: The event was removed at the end of its retention.
    EVENT_REMOVED = "event_removed"


class ReadyFor(StrEnum):
    """What a supplier may be ready for."""

    #: Its next wave.
    WAVE = "next_wave"
    GO_LIVE = "go_live"


class ReadinessCheck(StrEnum):
    """A check before a wave or go-live."""

    TEAM_EXISTS = "team_exists"
    VENDORS_ANSWER = "vendors_answer"
    MAIL_HELD = "mail_held"
    WINDOW_LONG_ENOUGH = "window_long_enough"
    REHEARSAL_CURRENT = "rehearsal_current"
    CONTROL_TOTALS_EQUAL = "control_totals_equal"
    NOTHING_OPEN = "nothing_open"
    DISK_HAS_ROOM = "disk_has_room"
    BACKUP_RECENT = "backup_recent"
    FOUR_EYES = "four_eyes"


class CheckResult(StrEnum):
    """The result of a check."""

    PASSED = "PASSED"
    #: Somebody may accept it with a reason.
    WARNING = "WARNING"
    FAILED = "FAILED"
