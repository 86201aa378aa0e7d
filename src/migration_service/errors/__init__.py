"""The errors of the service, each with a stable code. `blueprints.requests.errors` has the HTTP statuses.

Each module has those of its subject. Those of payloads and files are in `migration_payloads.errors`. These
have others below them:

ServiceError
├── InvalidError                          the request cannot be carried out as it is: 400
│   ├── RequestFailedValidationError      a body or a parameter has the errors listed
│   ├── OperatorError                     a command or a form of the console, never an answer
│   ├── BatchFileError
│   │   └── BatchFileTooLargeError        413
│   ├── LineError                         failures that only lines of batches have
│   └── EventCursorError                  carries the cursor from which to read again
├── UnauthenticatedError                  401
├── NotFoundError                         a path names it: 404
├── ConcurrencyLimitReachedError          429
├── BatchQuotaError                       429
└── ServiceUnavailableError               503
"""

from migration_payloads.errors import *
from migration_service.errors.access import *
from migration_service.errors.added_data import *
from migration_service.errors.base import *
from migration_service.errors.batches import *
from migration_service.errors.events import *
from migration_service.errors.imports import *
from migration_service.errors.setup import *
from migration_service.errors.undo import *
