"""One class for each code that an answer can have. docs/suppliers/errors.md says what to do.

Written by `make docs` from the description of the interface; do not edit it by hand.
"""

from migration_service_client.errors import ServiceError


class AccountAlreadyImported(ServiceError):
    """The account has been imported. The body has its two numbers."""


class AccountCreationFailed(ServiceError):
    """The account could not be created. It is pending again."""


class AccountErased(ServiceError):
    """The personal data of the account was erased. Nothing can be added to the account."""


class AccountFailedValidation(ServiceError):
    """An account payload is invalid. `errors` lists every error."""


class AccountImportInProgress(ServiceError):
    """The account is being created."""


class AccountInUndo(ServiceError):
    """The account is in another undo that has not ended."""


class AccountMarkedToSkip(ServiceError):
    """An operator marked the account to be skipped."""


class AccountNotFound(ServiceError):
    """The account that a body names has not been imported."""


class AccountNotStaged(ServiceError):
    """No payload is staged for the account."""


class AccountNotStorable(ServiceError):
    """The database refused a value of the account. It will refuse the same payload every time."""


class AttemptNotFound(ServiceError):
    """A path names an attempt that does not exist, or belongs to another organisation."""


class AuthenticationFailed(ServiceError):
    """The token, or the API key, is not valid."""


class BatchCompressionRatioTooHigh(ServiceError):
    """The gzip data of a batch holds far more bytes than account payloads compress to."""


class BatchFileNotNdjson(ServiceError):
    """The file of a batch is in another format, such as a JSON array or CSV. None of its lines was stored."""


class BatchFileTooLarge(ServiceError):
    """The file of a batch has more bytes after decompression than the service accepts."""


class BatchFileUnreadable(ServiceError):
    """The file of a batch cannot be read completely. None of its lines was stored."""


class BatchNotFound(ServiceError):
    """The batch does not exist, or belongs to another organisation."""


class BatchStateConflict(ServiceError):
    """The batch is not in a state that allows this."""


class BatchStorageQuotaReached(ServiceError):
    """The lines of the organisation's batches have reached their storage limit."""


class BatchTooManyLines(ServiceError):
    """The file of a batch has more lines than the service accepts. Blank lines count."""


class BatchesNotComparable(ServiceError):
    """The two batches are of different import suppliers, or of different kinds."""


class CertificateNotFound(ServiceError):
    """The certificate does not exist, or belongs to another organisation."""


class CertificateStateConflict(ServiceError):
    """The certificate cannot be made yet, or has not been made yet."""


class CertificatesNotSetUp(ServiceError):
    """The service has no key to sign certificates."""


class ConcurrencyLimitReached(ServiceError):
    """Too many accounts are being processed at once."""


class DryRunSucceeded(ServiceError):
    """The dry run succeeded. Everything was rolled back."""


class Error(ServiceError):
    """An unexpected error. Nothing was changed."""


class EventConsumerNotFound(ServiceError):
    """The consumer of events does not exist, or belongs to another organisation."""


class EventCursorAhead(ServiceError):
    """The feed has lost the event at the cursor, because the database was restored from a backup."""


class EventCursorExpired(ServiceError):
    """Events that follow the cursor were removed at the end of their retention period."""


class EventCursorInvalid(ServiceError):
    """The cursor was not given by the feed of this organisation."""


class GoLiveInPast(ServiceError):
    """The moment of the go-live is in the past, and that was not confirmed."""


class GoLiveNeedsAnotherPerson(ServiceError):
    """Somebody else has to decide than the person who accepted an exception."""


class GoLiveNotFound(ServiceError):
    """The go-live does not exist, or belongs to another organisation."""


class GoLiveNotReady(ServiceError):
    """Go-live asks for a receipt: a recent comparison in which nothing is open that nobody has accepted."""


class GoLiveStateConflict(ServiceError):
    """The moment of the go-live has come, or it was cancelled, so that it cannot be cancelled."""


class GoLiveTooFar(ServiceError):
    """The moment of the go-live is more than five years from now, so it is probably mistyped."""


class HeadersTooLarge(ServiceError):
    """The headers are larger or more numerous than the service accepts."""


class HistoricalStatementAlreadyExists(ServiceError):
    """The account has a statement with the same statement_id and other content."""


class HostNotAllowed(ServiceError):
    """The request names a host that this service does not answer for."""


class IdempotencyKeyReused(ServiceError):
    """The Idempotency-Key was used before, for another request."""


class IdempotencyRequestInProgress(ServiceError):
    """The first request with this Idempotency-Key is still running."""


class ImportSupplierComplete(ServiceError):
    """The import supplier is complete. No more accounts are expected."""


class ImportSupplierLive(ServiceError):
    """The supplier has gone live. Its accounts belong to the platform, and can no longer be undone."""


class ImportSupplierNotFound(ServiceError):
    """The import supplier does not exist, or belongs to another organisation."""


class ImportSupplierPaused(ServiceError):
    """The import supplier is paused. More accounts are expected later."""


class Invalid(ServiceError):
    """The request cannot be carried out as it is."""


class LengthRequired(ServiceError):
    """The request does not state the length of its body."""


class MethodNotAllowed(ServiceError):
    """The path does not support this method."""


class NewerVersionStaged(ServiceError):
    """A payload of a later extract is staged, or one that was sent after the file of this line."""


class NoReceipt(ServiceError):
    """Nothing has been compared, so there is no receipt."""


class NoWorkerAvailable(ServiceError):
    """No worker took the account in time. Nothing was changed."""


class NotAuthenticated(ServiceError):
    """The request has no token."""


class NotFound(ServiceError):
    """The object that a path names does not exist, or belongs to another organisation."""


class NothingGoesLive(ServiceError):
    """None of the accounts exists and has yet to go live."""


class NothingToReplace(ServiceError):
    """None of the accounts has a newer version that could replace it, or waits to be created."""


class NothingToUndo(ServiceError):
    """None of the accounts exists, so there is nothing to undo."""


class OldFiguresNotFound(ServiceError):
    """No figures of the old system were sent for the import supplier."""


class OperationsTeamNotFound(ServiceError):
    """The operations team does not exist."""


class ParseError(ServiceError):
    """The body is not JSON that this service accepts."""


class PaymentInstructionRejected(ServiceError):
    """The payment vendor does not confirm the instruction."""


class PaymentVendorNotFound(ServiceError):
    """A body names a payment vendor that no operator has set up."""


class PaymentVendorUnavailable(ServiceError):
    """The payment vendor is temporarily unavailable."""


class PaymentVendorUnreachable(ServiceError):
    """The payment vendor cannot be reached until an operator changes something."""


class PermissionDenied(ServiceError):
    """The API key is valid, but may not be used for this."""


class ReadinessNotAcceptable(ServiceError):
    """The check is not a warning that could be accepted."""


class RequestFailedValidation(ServiceError):
    """A body or a parameter is invalid. `errors` lists every error."""


class RequestTooLarge(ServiceError):
    """The body is larger than the service accepts."""


class ServiceUnavailable(ServiceError):
    """A part of the service that this request needs is unavailable. Nothing was changed."""


class SessionNotFound(ServiceError):
    """The session does not exist, or belongs to another organisation."""


class ShareUsed(ServiceError):
    """The organisation uses its whole share of a resource that others need as well (`shares`)."""


class StagedQuotaReached(ServiceError):
    """The organisation has reached its quota of accounts that are staged but not created. None was staged."""


class Throttled(ServiceError):
    """Too many attempts to obtain a token have failed."""


class TooManyEventConsumers(ServiceError):
    """The organisation has as many named consumers of events as it may have."""


class TooManyOpenBatches(ServiceError):
    """The organisation has reached its limit of batches that have not ended."""


class TooManyRedeliveries(ServiceError):
    """The organisation has had as many events sent again within a day as it can have."""


class TooManySessions(ServiceError):
    """The session of the refresh token was ended, because its API key has started too many others since."""


class TooManyUploads(ServiceError):
    """The organisation has reached its limit of simultaneous uploads."""


class TooManyWebhooks(ServiceError):
    """The organisation has as many webhooks as it can have."""


class TransactionIdAlreadyUsed(ServiceError):
    """Another transaction of the account has this transaction_id."""


class TransactionOutsideOpenPeriod(ServiceError):
    """A transaction is dated outside its ledger's open statement period, and may not be moved into it."""


class UndoNotFound(ServiceError):
    """The undo does not exist, or belongs to another organisation."""


class UndoStateConflict(ServiceError):
    """The undo has ended, so it cannot be cancelled."""


class UnsupportedMediaType(ServiceError):
    """This operation does not accept bodies of this type."""


class UploadStorageFull(ServiceError):
    """The disk for incoming uploads is full. Nothing was changed."""


class UriTooLong(ServiceError):
    """The address of the request is longer than the service accepts."""


class WaveNotFound(ServiceError):
    """The plan has no wave of this number."""


class WavePlanNotFinished(ServiceError):
    """The import supplier has a plan whose waves have not all ended."""


class WavePlanNotFound(ServiceError):
    """The wave plan does not exist, or belongs to another organisation."""


class WaveStateConflict(ServiceError):
    """The wave is not in a state that allows this."""


class WaveWindowClosed(ServiceError):
    """The window of the wave is closed."""


class WebhookDeliveryNotFound(ServiceError):
    """The webhook has no delivery with this number. Deliveries are kept for 30 days."""


class WebhookNotFound(ServiceError):
    """The webhook does not exist, or belongs to another organisation."""


class WebhookUrlNotAllowed(ServiceError):
    """The URL of a webhook is not one to which events can be sent."""


#: The class of each code.
BY_CODE: dict[str, type[ServiceError]] = {it.code: it for it in ServiceError.__subclasses__()}
