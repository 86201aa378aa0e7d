"""What can go wrong.

ClientError
├── ServiceUnreachable    no answer came, as often as the request was sent
├── UnexpectedAnswer      an answer that is not one of the service: from a proxy, or of another version
├── WebhookNotVerified    a webhook that the service did not sign, or that is too old
├── WebhookSecretUnusable a secret that is empty, too short or not Base64
└── ServiceError          an answer of the service, with a class for each code in `codes`
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from migration_service_client.models import Finding


class ClientError(Exception):
    """The base of all errors of this package."""


class ServiceUnreachable(ClientError):
    """No answer came. What was sent may have had its effect: the same request may be sent again."""


class UnexpectedAnswer(ClientError):
    """The answer does not come from the service, or does not have the form that this version knows."""


class WebhookNotVerified(ClientError):
    """The service did not sign this message, or long ago. Answer 401, and do not read it."""


class WebhookSecretUnusable(ClientError):
    """The secret is not one of the service: it is empty, too short, or not Base64. Correct your settings."""


def _finding(item: Mapping[str, Any]) -> "Finding":
    # Imported when something is refused: importing the types of all answers takes a tenth of a second.
    from migration_service_client.models import Finding, Suggestion  # noqa: PLC0415

    suggestions = tuple(
        Suggestion(
            op=it.get("op", ""),
            path=it.get("path", ""),
            value=it.get("value"),
            confidence=it.get("confidence", ""),
            kind=it.get("kind", ""),
        )
        for it in item.get("suggestions") or ()
    )
    code, detail = str(item.get("code", "")), str(item.get("detail", ""))
    return Finding(code=code, detail=detail, attr=item.get("attr"), suggestions=suggestions or None)


class ServiceError(ClientError):
    """An answer with an error.

    `status` is the HTTP status. `errors` has everything that was found, each with `code`, `detail` and
    `attr`, the path to the value at fault, and `suggestions` if a correction is known; so has `warnings`
    for an account. Members that only some answers have are None in the others: the two numbers of
    AccountAlreadyImported, the `cursor` of EventCursorExpired and its like, and what is wrong with
    transactions. `body` has all members of the answer. `request_id` helps the operator to find the request.
    """

    #: The code of the class, which its name says. An error of a code that this version does not know is a
    #: ServiceError.
    code: str = ""

    def __init_subclass__(cls) -> None:
        cls.code = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    def __init__(self, status: int, body: Mapping[str, Any], request_id: str | None = None) -> None:
        self.status = status
        self.body = dict(body)
        self.code = str(body.get("code", self.code))
        self.detail = str(body.get("detail", ""))
        self.errors = tuple(map(_finding, body.get("errors") or ()))
        self.warnings = tuple(map(_finding, body.get("warnings") or ()))
        self.external_account_number: str | None = body.get("external_account_number")
        self.service_account_number: str | None = body.get("service_account_number")
        self.cursor: str | None = body.get("cursor")
        self.error_detail: str | None = body.get("error_detail")
        self.transaction_data: dict[str, Any] | None = body.get("transaction_data")
        self.request_id = request_id
        super().__init__(status, self.code)

    def __str__(self) -> str:
        """Return what is wrong, and where: no value of the payload, so that it may be logged."""
        places = "".join(f"\n  {it.attr or '-'}: {it.code}" for it in self.errors[:20])
        more = f"\n  and {len(self.errors) - 20} more" if len(self.errors) > 20 else ""
        return f"{self.status} {self.code}{places}{more}"
