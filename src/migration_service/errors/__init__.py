"""The errors of the service, each with a stable code. `blueprints.requests.errors` has the HTTP statuses.

Those of payloads and files are in `migration_payloads.errors`.

ServiceError                              (payloads)
├── InvalidError                          (payloads) the request cannot be carried out as it is: 400
│   ├── RequestFailedValidationError      (payloads) a body or a parameter has the errors listed
│   │   ├── ParseError                    (payloads) the body is not JSON
│   │   └── AccountFailedValidationError  (payloads) an account payload has the errors listed
│   ├── HostNotAllowedError               (access)
│   ├── AccountAlreadyImportedError       (imports) carries the account's two numbers
│   ├── AccountMarkedToSkipError          (imports)
│   ├── AccountImportInProgressError      (imports)
│   ├── AccountNotStagedError             (imports)
│   ├── NewerVersionStagedError           (imports)
│   ├── AccountErasedError                (imports)
│   ├── AccountCreationFailedError        (imports)
│   ├── AccountNotStorableError           (imports) the database refused a value
│   ├── DryRunSucceededError              (imports)
│   ├── ImportSupplierNotFoundInBodyError (setup)
│   ├── ImportSupplierPausedError         (setup)
│   ├── ImportSupplierCompleteError       (setup)
│   ├── OperationsTeamNotFoundError       (setup)
│   ├── OperatorError                     (base) a command or a form of the console, never an answer
│   │   ├── OrganisationNotFoundError     (setup)
│   │   ├── ApiKeyNotFoundError           (setup)
│   │   ├── ApiKeyEndedError              (setup)
│   │   ├── NetworkInvalidError           (access)
│   │   ├── OperatorNotFoundError         (access)
│   │   ├── AuditCursorError              (access)
│   │   ├── PasswordInvalidError          (access)
│   │   ├── NameTakenError                (setup)
│   │   ├── NameInvalidError              (setup)
│   │   ├── PaymentVendorInvalidError     (setup)
│   │   ├── GoLivePastError               (undo)
│   │   └── GoLiveFarError                (undo)
│   ├── BatchFileError                    (payloads)
│   │   ├── BatchFileFormatError          (payloads)
│   │   └── BatchFileTooLargeError        (payloads) 413
│   │       ├── BatchTooManyLinesError    (payloads)
│   │       └── BatchCompressionError     (payloads)
│   ├── BatchStateError                   (batches)
│   ├── BatchesNotComparableError         (batches)
│   ├── WavePlanOpenError                 (waves)
│   ├── WaveStateError                    (waves)
│   ├── WaveWindowClosedError             (waves)
│   ├── IdempotencyKeyReusedError         (idempotency)
│   ├── IdempotencyRequestInProgressError (idempotency)
│   ├── LineError                         (payloads) failures that only lines of batches have
│   │   ├── LineTooLongError              (payloads)
│   │   ├── LineFailedUnexpectedlyError   (batches)
│   │   ├── ImportSupplierMismatchError   (payloads)
│   │   ├── LineKindMismatchError         (batches)
│   │   ├── DryRunInLineError             (batches)
│   │   ├── NewerVersionRefusedError      (batches)
│   │   ├── PayloadDiffersError           (batches) a warning
│   │   ├── AlreadyAddedError             (batches) a warning
│   │   ├── AccountBusyError              (batches) a warning
│   │   ├── DuplicateLineError            (payloads)
│   │   └── ConflictingLinesError         (payloads)
│   ├── EventCursorInvalidError           (events)
│   ├── EventCursorError                  (events) carries the cursor from which to read again
│   │   ├── EventCursorExpiredError       (events)
│   │   └── EventCursorAheadError         (events)
│   ├── TooManyConsumersError             (events)
│   ├── WebhookUrlError                   (webhooks)
│   ├── TooManyRedeliveriesError          (webhooks)
│   ├── TooManyWebhooksError              (webhooks)
│   ├── UndoStateError                    (undo)
│   ├── NothingToUndoError                (undo)
│   ├── AccountInUndoError                (undo)
│   ├── ImportSupplierLiveError           (undo)
│   ├── AccountNotFoundInBodyError        (added_data)
│   ├── TransactionOutsideOpenPeriodError (added_data)
│   ├── TransactionIdAlreadyUsedError     (added_data)
│   ├── TransactionImportError            (added_data) any of these, in the shape of section 4.9
│   ├── HistoricalStatementAlreadyExistsError (added_data)
│   ├── PaymentVendorNotFoundError        (added_data)
│   ├── PaymentInstructionRejectedError   (added_data)
│   └── PaymentVendorUnreachableError     (added_data)
├── UnauthenticatedError                  (access) 401
│   ├── NotAuthenticatedError             (access) no token
│   ├── ApiKeyRevokedError                (access)
│   ├── RefreshTokenReusedError           (access) its session ends
│   └── TooManySessionsError              (access) its session was ended
├── PermissionDeniedError                 (access) 403
├── NotFoundError                         (base) a path names it: 404
│   ├── ImportSupplierNotFoundError       (setup)
│   ├── AccountNotFoundError              (added_data)
│   ├── AttemptNotFoundError              (imports)
│   ├── BatchNotFoundError                (batches)
│   ├── EventConsumerNotFoundError        (events)
│   ├── TokenSessionNotFoundError         (access)
│   ├── UndoNotFoundError                 (undo)
│   ├── WavePlanNotFoundError             (waves)
│   ├── WaveNotFoundError                 (waves)
│   ├── WebhookNotFoundError              (webhooks)
│   └── WebhookDeliveryNotFoundError      (webhooks)
├── ConcurrencyLimitReachedError          (imports) 429
│   └── NoWorkerAvailableError            (imports)
├── StagedQuotaReachedError               (imports) 429
├── ThrottledError                        (access) 429
├── ShareUsedError                        (access) 429
├── TooManyUploadsError                   (batches) 429
├── BatchQuotaError                       (batches) 429
│   ├── TooManyOpenBatchesError           (batches)
│   └── BatchStorageQuotaError            (batches)
├── PaymentVendorUnavailableError         (added_data) 500: retry unchanged
└── ServiceUnavailableError               (base) 503
    └── UploadStorageFullError            (batches)
"""

from migration_payloads.errors import *
from migration_service.errors.access import *
from migration_service.errors.added_data import *
from migration_service.errors.base import *
from migration_service.errors.batches import *
from migration_service.errors.events import *
from migration_service.errors.idempotency import *
from migration_service.errors.imports import *
from migration_service.errors.setup import *
from migration_service.errors.undo import *
from migration_service.errors.waves import *
from migration_service.errors.webhooks import *
