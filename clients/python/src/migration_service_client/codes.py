"""One class for each code that an answer can have. docs/suppliers/errors.md says what to do.

Written by `make docs` from the description of the interface; do not edit it by hand.
"""

from migration_service_client.errors import ServiceError


class AccountAlreadyImported(ServiceError):
    """The account has been imported. The body has its two numbers."""

    code = "account_already_imported"


class AccountCreationFailed(ServiceError):
    """The account could not be created. It is pending again."""

    code = "account_creation_failed"


class AccountErased(ServiceError):
    """The personal data of the account was erased. Nothing can be added to the account."""

    code = "account_erased"


class AccountFailedValidation(ServiceError):
    """An account payload is invalid. `errors` lists every error."""

    code = "account_failed_validation"


class AccountImportInProgress(ServiceError):
    """The account is being created."""

    code = "account_import_in_progress"


class AccountInUndo(ServiceError):
    """The account is in another undo that has not ended."""

    code = "account_in_undo"


class AccountMarkedToSkip(ServiceError):
    """An operator marked the account to be skipped."""

    code = "account_marked_to_skip"


class AccountNotFound(ServiceError):
    """The account that a body names has not been imported."""

    code = "account_not_found"


class AccountNotStaged(ServiceError):
    """No payload is staged for the account."""

    code = "account_not_staged"


class AccountNotStorable(ServiceError):
    """The database refused a value of the account. It will refuse the same payload every time."""

    code = "account_not_storable"


class AttemptNotFound(ServiceError):
    """A path names an attempt that does not exist, or belongs to another organisation."""

    code = "attempt_not_found"


class AuthenticationFailed(ServiceError):
    """The token, or the API key, is not valid."""

    code = "authentication_failed"


class BatchCompressionRatioTooHigh(ServiceError):
    """The gzip data of a batch holds far more bytes than account payloads compress to."""

    code = "batch_compression_ratio_too_high"


class BatchFileNotNdjson(ServiceError):
    """The file of a batch is in another format, such as a JSON array or CSV. None of its lines was stored."""

    code = "batch_file_not_ndjson"


class BatchFileTooLarge(ServiceError):
    """The file of a batch has more bytes after decompression than the service accepts."""

    code = "batch_file_too_large"


class BatchFileUnreadable(ServiceError):
    """The file of a batch cannot be read completely. None of its lines was stored."""

    code = "batch_file_unreadable"


class BatchNotFound(ServiceError):
    """The batch does not exist, or belongs to another organisation."""

    code = "batch_not_found"


class BatchStateConflict(ServiceError):
    """The batch is not in a state that allows this."""

    code = "batch_state_conflict"


class BatchStorageQuotaReached(ServiceError):
    """The lines of the organisation's batches have reached their storage limit."""

    code = "batch_storage_quota_reached"


class BatchTooManyLines(ServiceError):
    """The file of a batch has more lines than the service accepts. Blank lines count."""

    code = "batch_too_many_lines"


class BatchesNotComparable(ServiceError):
    """The two batches are of different import suppliers, or of different kinds."""

    code = "batches_not_comparable"


class ConcurrencyLimitReached(ServiceError):
    """Too many accounts are being processed at once."""

    code = "concurrency_limit_reached"


class DryRunSucceeded(ServiceError):
    """The dry run succeeded. Everything was rolled back."""

    code = "dry_run_succeeded"


class Error(ServiceError):
    """An unexpected error. Nothing was changed."""

    code = "error"


class EventConsumerNotFound(ServiceError):
    """The consumer of events does not exist, or belongs to another organisation."""

    code = "event_consumer_not_found"


class EventCursorAhead(ServiceError):
    """The feed has lost the event at the cursor, because the database was restored from a backup."""

    code = "event_cursor_ahead"


class EventCursorExpired(ServiceError):
    """Events that follow the cursor were removed at the end of their retention period."""

    code = "event_cursor_expired"


class EventCursorInvalid(ServiceError):
    """The cursor was not given by the feed of this organisation."""

    code = "event_cursor_invalid"


class HeadersTooLarge(ServiceError):
    """The headers are larger or more numerous than the service accepts."""

    code = "headers_too_large"


class HistoricalStatementAlreadyExists(ServiceError):
    """The account has a statement with the same statement_id and other content."""

    code = "historical_statement_already_exists"


class HostNotAllowed(ServiceError):
    """The request names a host that this service does not answer for."""

    code = "host_not_allowed"


class IdempotencyKeyReused(ServiceError):
    """The Idempotency-Key was used before, for another request."""

    code = "idempotency_key_reused"


class IdempotencyRequestInProgress(ServiceError):
    """The first request with this Idempotency-Key is still running."""

    code = "idempotency_request_in_progress"


class ImportSupplierComplete(ServiceError):
    """The import supplier is complete. No more accounts are expected."""

    code = "import_supplier_complete"


class ImportSupplierLive(ServiceError):
    """The supplier has gone live. Its accounts belong to the platform, and can no longer be undone."""

    code = "import_supplier_live"


class ImportSupplierNotFound(ServiceError):
    """The import supplier does not exist, or belongs to another organisation."""

    code = "import_supplier_not_found"


class ImportSupplierPaused(ServiceError):
    """The import supplier is paused. More accounts are expected later."""

    code = "import_supplier_paused"


class Invalid(ServiceError):
    """The request cannot be carried out as it is."""

    code = "invalid"


class LengthRequired(ServiceError):
    """The request does not state the length of its body."""

    code = "length_required"


class MethodNotAllowed(ServiceError):
    """The path does not support this method."""

    code = "method_not_allowed"


class NewerVersionStaged(ServiceError):
    """A payload of a later extract is staged, or one that was sent after the file of this line."""

    code = "newer_version_staged"


class NoWorkerAvailable(ServiceError):
    """No worker took the account in time. Nothing was changed."""

    code = "no_worker_available"


class NotAuthenticated(ServiceError):
    """The request has no token."""

    code = "not_authenticated"


class NotFound(ServiceError):
    """The object that a path names does not exist, or belongs to another organisation."""

    code = "not_found"


class NothingToUndo(ServiceError):
    """None of the accounts exists, so there is nothing to undo."""

    code = "nothing_to_undo"


class OperationsTeamNotFound(ServiceError):
    """The operations team does not exist."""

    code = "operations_team_not_found"


class ParseError(ServiceError):
    """The body is not JSON that this service accepts."""

    code = "parse_error"


class PaymentInstructionRejected(ServiceError):
    """The payment vendor does not confirm the instruction."""

    code = "payment_instruction_rejected"


class PaymentVendorNotFound(ServiceError):
    """A body names a payment vendor that no operator has set up."""

    code = "payment_vendor_not_found"


class PaymentVendorUnavailable(ServiceError):
    """The payment vendor is temporarily unavailable."""

    code = "payment_vendor_unavailable"


class PaymentVendorUnreachable(ServiceError):
    """The payment vendor cannot be reached until an operator changes something."""

    code = "payment_vendor_unreachable"


class PermissionDenied(ServiceError):
    """The API key is valid, but may not be used for this."""

    code = "permission_denied"


class RequestFailedValidation(ServiceError):
    """A body or a parameter is invalid. `errors` lists every error."""

    code = "request_failed_validation"


class RequestTooLarge(ServiceError):
    """The body is larger than the service accepts."""

    code = "request_too_large"


class ServiceUnavailable(ServiceError):
    """A part of the service that this request needs is unavailable. Nothing was changed."""

    code = "service_unavailable"


class SessionNotFound(ServiceError):
    """The session does not exist, or belongs to another organisation."""

    code = "session_not_found"


class ShareUsed(ServiceError):
    """The organisation uses its whole share of a resource that others need as well (`shares`)."""

    code = "share_used"


class StagedQuotaReached(ServiceError):
    """The organisation has reached its quota of accounts that are staged but not created. None was staged."""

    code = "staged_quota_reached"


class Throttled(ServiceError):
    """Too many attempts to obtain a token have failed."""

    code = "throttled"


class TooManyEventConsumers(ServiceError):
    """The organisation has as many named consumers of events as it may have."""

    code = "too_many_event_consumers"


class TooManyOpenBatches(ServiceError):
    """The organisation has reached its limit of batches that have not ended."""

    code = "too_many_open_batches"


class TooManyRedeliveries(ServiceError):
    """The organisation has had as many events sent again within a day as it can have."""

    code = "too_many_redeliveries"


class TooManySessions(ServiceError):
    """The session of the refresh token was ended, because its API key has started too many others since."""

    code = "too_many_sessions"


class TooManyUploads(ServiceError):
    """The organisation has reached its limit of simultaneous uploads."""

    code = "too_many_uploads"


class TooManyWebhooks(ServiceError):
    """The organisation has as many webhooks as it can have."""

    code = "too_many_webhooks"


class TransactionIdAlreadyUsed(ServiceError):
    """Another transaction of the account has this transaction_id."""

    code = "transaction_id_already_used"


class TransactionOutsideOpenPeriod(ServiceError):
    """A transaction is dated outside its ledger's open statement period, and may not be moved into it."""

    code = "transaction_outside_open_period"


class UndoNotFound(ServiceError):
    """The undo does not exist, or belongs to another organisation."""

    code = "undo_not_found"


class UndoStateConflict(ServiceError):
    """The undo has ended, so it cannot be cancelled."""

    code = "undo_state_conflict"


class UnsupportedMediaType(ServiceError):
    """This operation does not accept bodies of this type."""

    code = "unsupported_media_type"


class UploadStorageFull(ServiceError):
    """The disk for incoming uploads is full. Nothing was changed."""

    code = "upload_storage_full"


class UriTooLong(ServiceError):
    """The address of the request is longer than the service accepts."""

    code = "uri_too_long"


class WaveNotFound(ServiceError):
    """The plan has no wave of this number."""

    code = "wave_not_found"


class WavePlanNotFinished(ServiceError):
    """The import supplier has a plan whose waves have not all ended."""

    code = "wave_plan_not_finished"


class WavePlanNotFound(ServiceError):
    """The wave plan does not exist, or belongs to another organisation."""

    code = "wave_plan_not_found"


class WaveStateConflict(ServiceError):
    """The wave is not in a state that allows this."""

    code = "wave_state_conflict"


class WaveWindowClosed(ServiceError):
    """The window of the wave is closed."""

    code = "wave_window_closed"


class WebhookDeliveryNotFound(ServiceError):
    """The webhook has no delivery with this number. Deliveries are kept for 30 days."""

    code = "webhook_delivery_not_found"


class WebhookNotFound(ServiceError):
    """The webhook does not exist, or belongs to another organisation."""

    code = "webhook_not_found"


class WebhookUrlNotAllowed(ServiceError):
    """The URL of a webhook is not one to which events can be sent."""

    code = "webhook_url_not_allowed"


#: The class of each code.
BY_CODE: dict[str, type[ServiceError]] = {
    "account_already_imported": AccountAlreadyImported,
    "account_creation_failed": AccountCreationFailed,
    "account_erased": AccountErased,
    "account_failed_validation": AccountFailedValidation,
    "account_import_in_progress": AccountImportInProgress,
    "account_in_undo": AccountInUndo,
    "account_marked_to_skip": AccountMarkedToSkip,
    "account_not_found": AccountNotFound,
    "account_not_staged": AccountNotStaged,
    "account_not_storable": AccountNotStorable,
    "attempt_not_found": AttemptNotFound,
    "authentication_failed": AuthenticationFailed,
    "batch_compression_ratio_too_high": BatchCompressionRatioTooHigh,
    "batch_file_not_ndjson": BatchFileNotNdjson,
    "batch_file_too_large": BatchFileTooLarge,
    "batch_file_unreadable": BatchFileUnreadable,
    "batch_not_found": BatchNotFound,
    "batch_state_conflict": BatchStateConflict,
    "batch_storage_quota_reached": BatchStorageQuotaReached,
    "batch_too_many_lines": BatchTooManyLines,
    "batches_not_comparable": BatchesNotComparable,
    "concurrency_limit_reached": ConcurrencyLimitReached,
    "dry_run_succeeded": DryRunSucceeded,
    "error": Error,
    "event_consumer_not_found": EventConsumerNotFound,
    "event_cursor_ahead": EventCursorAhead,
    "event_cursor_expired": EventCursorExpired,
    "event_cursor_invalid": EventCursorInvalid,
    "headers_too_large": HeadersTooLarge,
    "historical_statement_already_exists": HistoricalStatementAlreadyExists,
    "host_not_allowed": HostNotAllowed,
    "idempotency_key_reused": IdempotencyKeyReused,
    "idempotency_request_in_progress": IdempotencyRequestInProgress,
    "import_supplier_complete": ImportSupplierComplete,
    "import_supplier_live": ImportSupplierLive,
    "import_supplier_not_found": ImportSupplierNotFound,
    "import_supplier_paused": ImportSupplierPaused,
    "invalid": Invalid,
    "length_required": LengthRequired,
    "method_not_allowed": MethodNotAllowed,
    "newer_version_staged": NewerVersionStaged,
    "no_worker_available": NoWorkerAvailable,
    "not_authenticated": NotAuthenticated,
    "not_found": NotFound,
    "nothing_to_undo": NothingToUndo,
    "operations_team_not_found": OperationsTeamNotFound,
    "parse_error": ParseError,
    "payment_instruction_rejected": PaymentInstructionRejected,
    "payment_vendor_not_found": PaymentVendorNotFound,
    "payment_vendor_unavailable": PaymentVendorUnavailable,
    "payment_vendor_unreachable": PaymentVendorUnreachable,
    "permission_denied": PermissionDenied,
    "request_failed_validation": RequestFailedValidation,
    "request_too_large": RequestTooLarge,
    "service_unavailable": ServiceUnavailable,
    "session_not_found": SessionNotFound,
    "share_used": ShareUsed,
    "staged_quota_reached": StagedQuotaReached,
    "throttled": Throttled,
    "too_many_event_consumers": TooManyEventConsumers,
    "too_many_open_batches": TooManyOpenBatches,
    "too_many_redeliveries": TooManyRedeliveries,
    "too_many_sessions": TooManySessions,
    "too_many_uploads": TooManyUploads,
    "too_many_webhooks": TooManyWebhooks,
    "transaction_id_already_used": TransactionIdAlreadyUsed,
    "transaction_outside_open_period": TransactionOutsideOpenPeriod,
    "undo_not_found": UndoNotFound,
    "undo_state_conflict": UndoStateConflict,
    "unsupported_media_type": UnsupportedMediaType,
    "upload_storage_full": UploadStorageFull,
    "uri_too_long": UriTooLong,
    "wave_not_found": WaveNotFound,
    "wave_plan_not_finished": WavePlanNotFinished,
    "wave_plan_not_found": WavePlanNotFound,
    "wave_state_conflict": WaveStateConflict,
    "wave_window_closed": WaveWindowClosed,
    "webhook_delivery_not_found": WebhookDeliveryNotFound,
    "webhook_not_found": WebhookNotFound,
    "webhook_url_not_allowed": WebhookUrlNotAllowed,
}
