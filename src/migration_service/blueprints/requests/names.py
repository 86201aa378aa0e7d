"""The names in the path of a request: the code of an import supplier, and the number of an account."""

from flask import request

from migration_service.schemas.identifiers import require_identifier

_NAMES = ("import_supplier_code", "external_account_number")


def check_names() -> None:
    """Raise RequestFailedValidationError if a name in the path is invalid, for `Blueprint.before_request`.

    Register it after `require_token`, so that clients without a token get no other error.
    """
    for name, text in (request.view_args or {}).items():
        if name in _NAMES:
            require_identifier(text, name)
