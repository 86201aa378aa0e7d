"""The header Idempotency-Key: a repeated request gets the first response again if that had an effect.

It follows draft-ietf-httpapi-idempotency-key-header. A response is stored in the transaction of its effect.
Refused requests and dry runs store nothing: if they are repeated, they are carried out again, which is
harmless. docs/suppliers/retries.md lists the endpoints that accept the header.
"""

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from hashlib import sha256
from typing import Any, cast
from uuid import UUID

from flask import Response, current_app, g, request
from flask_smorest import Blueprint
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session
from werkzeug.exceptions import RequestEntityTooLarge, UnsupportedMediaType

from migration_service.blueprints.requests.auth import caller
from migration_service.blueprints.requests.body import document_parameters, read_json, too_large
from migration_service.blueprints.requests.describing import View
from migration_service.blueprints.requests.description_headers import KEY
from migration_service.blueprints.requests.resources import resources
from migration_service.db.base import new_id
from migration_service.errors import (
    IdempotencyKeyReusedError,
    IdempotencyRequestInProgressError,
    InvalidError,
    RequestFailedValidationError,
)
from migration_service.services.idempotency.keys import (
    EarlierAttempt,
    KeptAnswer,
    KeyedRequest,
    claim_key,
    find_fault,
    keep_answer,
    release_key,
)

logger = logging.getLogger(__name__)

_KEPT_HEADERS = ("Content-Type", "Location", "X-Warning-Count")


@dataclass
class _Claim:
    request: KeyedRequest
    id: UUID
    #: The response was stored together with its effect.
    kept: bool = False


#: The errors of a request with a key, in addition to those of its endpoint.
KEY_ERRORS = (IdempotencyKeyReusedError, IdempotencyRequestInProgressError)


def idempotent(
    blueprint: Blueprint,
    replay_attempt: Callable[[UUID], Any] | None = None,
    as_error: Callable[[InvalidError], InvalidError] = lambda error: error,
) -> Callable[[View], View]:
    """Answer a repeated request with the same Idempotency-Key in the same way as the first one.

    Place it above every decorator that changes the response. `replay_attempt` makes the response if the first
    request started an attempt. `as_error` converts errors about keys to the form of the endpoint's errors.
    """

    def decorate(view: View) -> View:
        @wraps(view)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            try:
                key = read_key()
                keyed = _read_request(key) if key else None
                earlier, claim = _claim(keyed) if keyed else (None, None)
            except InvalidError as error:
                raise as_error(error) from error
            if isinstance(earlier, KeptAnswer):
                return Response(earlier.body, earlier.status, earlier.headers)
            if isinstance(earlier, EarlierAttempt) and replay_attempt:
                return replay_attempt(earlier.attempt_id)
            return _carry_out(claim, lambda: view(*args, **kwargs)) if claim else view(*args, **kwargs)

        return document_parameters(blueprint, KEY)(wrapper)

    return decorate


def read_key() -> str | None:
    """Return the request's Idempotency-Key without quotes around it, or None if it has none.

    Raise RequestFailedValidationError if the key is invalid.
    """
    header = request.headers.get("Idempotency-Key", "").strip()
    if not header:
        return None
    key = header[1:-1] if len(header) > 1 and header[0] == header[-1] == '"' else header
    if fault := find_fault(key):
        raise RequestFailedValidationError(errors=[fault])
    return key


def claim_id() -> UUID | None:
    """Return the id of the current request's claim, or None without a key."""
    return g.claim.id if "claim" in g else None


def keep_with_effect(session: Session, answer: Response) -> None:
    """Store the response in the transaction of its effect. Without a key, do nothing."""
    if "claim" in g:
        claim = cast(_Claim, g.claim)
        keep_answer(session, claim.request, claim.id, _kept(answer))
        claim.kept = True


def _read_request(key: str) -> KeyedRequest | None:
    """Return a description of the request, or None if its body cannot be read. The view reports that."""
    try:
        is_there = bool(request.get_data(cache=True))  # the view reads it again
    except RequestEntityTooLarge:
        raise too_large() from None
    try:
        body = read_json() if is_there else None
    except (RequestFailedValidationError, UnsupportedMediaType):
        return None
    asked = [request.path, sorted(request.args.items(multi=True)), body]
    if (allowed := caller().import_supplier_ids) is not None:
        # A key that is limited to other suppliers makes a different request, and does not see the stored
        # response.
        asked.append(sorted(allowed))
    names = body if isinstance(body, dict) else {}
    supplier = names.get("import_supplier", names.get("import_supplier_code"))
    number = names.get("external_account_number")
    return KeyedRequest(
        organisation_id=caller().organisation_id,
        endpoint=request.endpoint or "",
        key=key,
        sha256=sha256(json.dumps(asked, sort_keys=True, default=str).encode()).digest(),
        import_supplier=supplier if _is_storable(supplier) else None,
        external_account_number=number if _is_storable(number) else None,
    )


def _is_storable(name: Any) -> bool:
    return isinstance(name, str) and name.isprintable()


def _claim(keyed: KeyedRequest) -> tuple[KeptAnswer | EarlierAttempt | None, _Claim]:
    claim = _Claim(keyed, new_id())
    with resources().Session.begin() as session:
        return claim_key(session, keyed, claim.id), claim


def _carry_out(claim: _Claim, view: Callable[[], Any]) -> Response:
    g.claim = claim
    try:
        answer = current_app.make_response(view())
    except Exception as error:  # every error is a response
        answer = current_app.make_response(current_app.handle_user_exception(error))
    if not claim.kept:
        try:
            with resources().Session.begin() as session:
                release_key(session, claim.request, claim.id)
        except SQLAlchemyError as error:
            # The lease expires. The response is still right.
            logger.warning("An Idempotency-Key could not be released: %s", type(error).__name__)
    return answer


def _kept(answer: Response) -> KeptAnswer:
    headers = {name: answer.headers[name] for name in _KEPT_HEADERS if name in answer.headers}
    return KeptAnswer(answer.status_code, headers, answer.get_data())
