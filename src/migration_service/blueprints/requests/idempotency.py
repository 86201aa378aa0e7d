"""The header Idempotency-Key: a repeated request gets the first response again if that had an effect.

It follows draft-ietf-httpapi-idempotency-key-header. A response is stored in the transaction of its effect.
Refused requests and dry runs store nothing: if they are repeated, they are carried out again, which is
harmless. docs/suppliers/retries.md lists the endpoints that accept the header.
"""

import json
from collections.abc import Callable
from decimal import Decimal
from functools import wraps
from hashlib import sha256
from typing import Any, cast
from uuid import UUID

from flask import Response, g, jsonify, request
from sqlalchemy.orm import Session
from werkzeug.exceptions import RequestEntityTooLarge, UnsupportedMediaType

from migration_payloads.schemas.base import limit_errors
from migration_service import errors
from migration_service.blueprints.requests.body import (
    add_request_errors,
    document_parameters,
    find_request_errors,
    read_json,
    too_large,
)
from migration_service.blueprints.requests.describing import View
from migration_service.blueprints.requests.description_headers import KEY
from migration_service.blueprints.requests.interface import caller
from migration_service.blueprints.requests.resources import resources
from migration_service.db.sql import OpenTransaction, autocommit
from migration_service.services.idempotency import keys

_KEPT_HEADERS = ("Content-Type", "Location", "X-Warning-Count")

#: The errors of a request with a key, in addition to those of its endpoint.
KEY_ERRORS = (errors.IdempotencyKeyReusedError, errors.IdempotencyRequestInProgressError)


def idempotent(
    replay_attempt: Callable[[UUID], Any] | None = None,
    opened: Callable[[bytes], bytes] = bytes,
) -> Callable[[View], View]:
    """Answer a repeated request with the same Idempotency-Key in the same way as the first one.

    Place it above every decorator that changes the response. `replay_attempt` is for requests that start an
    attempt, and makes the response if the first request did. A second attempt is refused anyway, so their
    keys are only looked up then. `opened` returns the body of an answer from what the view kept of it.
    """

    def find(*, now: bool = True) -> keys.KeptAnswer | keys.EarlierAttempt | None:
        g.keyed_request = _read_request()
        if g.keyed_request is None or not now:
            return None
        with autocommit(resources().Session) as connection:
            return keys.find_answer(connection, g.keyed_request)

    def decorate(view: View) -> View:
        @wraps(view)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if faults := find_key_fault():
                found = limit_errors([*faults, *find_request_errors(view)])
                raise errors.RequestFailedValidationError(errors=found)
            earlier = find(now=replay_attempt is None)
            if earlier is None:
                try:
                    return view(*args, **kwargs)
                except Exception:
                    # The same request may have had its effect in the meantime.
                    earlier = find()
                    if earlier is None:
                        raise
            if isinstance(earlier, keys.KeptAnswer):
                return Response(opened(earlier.body), earlier.status, earlier.headers)
            return replay_attempt(earlier.attempt_id) if replay_attempt else None

        add_request_errors(wrapper, find_key_fault)
        return document_parameters(KEY)(wrapper)

    return decorate


def find_key_fault() -> list[errors.ErrorItem]:
    """Return the error of the request's Idempotency-Key, if it has one that cannot be used."""
    key = read_key()
    fault = None if key is None else keys.find_fault(key)
    return [fault] if fault else []


def read_key() -> str | None:
    """Return the request's Idempotency-Key without quotes around it, or None if it has none."""
    header = request.headers.get("Idempotency-Key", "").strip()
    is_quoted = len(header) > 1 and header[0] == header[-1] == '"'
    return (header[1:-1] if is_quoted else header) if header else None


def keyed_request() -> keys.KeyedRequest | None:
    """Return the current request with its key, or None if it has none."""
    return cast(keys.KeyedRequest | None, g.get("keyed_request"))


def answer_with_effect(
    session: Session,
    body: Any,
    status: int,
    location: str | None = None,
    *,
    closed: Callable[[bytes], bytes] = bytes,
    subject: UUID | None = None,
) -> Response:
    """Return the response with this JSON body, and keep it in the transaction of its effect.

    `closed` and `subject` are those of `keep_with_effect`.
    """
    answer = jsonify(body)
    answer.status_code = status
    if location is not None:
        answer.headers["Location"] = location
    keep_with_effect(session, answer, closed, subject)
    return answer


def keep_with_effect(
    session: Session,
    answer: Response,
    closed: Callable[[bytes], bytes] = bytes,
    subject: UUID | None = None,
) -> None:
    """Store the response in the transaction of its effect, with the body as `closed` returns it.

    Without a key, do nothing. `subject` is the row that is to be removed together with the response.
    """
    if keyed := keyed_request():
        headers = {name: answer.headers[name] for name in _KEPT_HEADERS if name in answer.headers}
        keys.keep_answer(
            OpenTransaction.of(session),
            keyed,
            keys.KeptAnswer(answer.status_code, headers, closed(answer.get_data()), subject),
        )


def _read_request() -> keys.KeyedRequest | None:
    """Return the request with its key, or None if it has none, or if the view will refuse its body."""
    key = read_key()
    if key is None:
        return None
    try:
        is_there = bool(request.get_data(cache=True))  # the view reads it again
    except RequestEntityTooLarge:
        raise too_large() from None
    try:
        body = read_json() if is_there else None
    except (errors.RequestFailedValidationError, UnsupportedMediaType):
        return None
    asked = [request.path, sorted(request.args.items(multi=True)), body]
    if (allowed := caller().import_supplier_ids) is not None:
        # A key that is limited to other suppliers makes a different request, and does not see the stored
        # response.
        asked.append(sorted(allowed))
    names = body if isinstance(body, dict) else {}
    supplier = names.get("import_supplier", names.get("import_supplier_code"))
    number = names.get("external_account_number")
    return keys.KeyedRequest(
        organisation_id=caller().organisation_id,
        endpoint=request.endpoint or "",
        key=key,
        sha256=sha256(json.dumps(_by_value(asked), sort_keys=True).encode()).digest(),
        import_supplier=supplier if _is_storable(supplier) else None,
        external_account_number=number if _is_storable(number) else None,
    )


def _by_value(value: Any) -> Any:
    """Return a JSON value in which equal numbers are written alike: 25, 25.0 and 2.5e1."""
    match value:
        case dict():
            return {name: _by_value(below) for name, below in value.items()}
        case list() | tuple():
            return [_by_value(below) for below in value]
        case Decimal():
            whole = value == value.to_integral_value()
            return int(value) if whole else {"": format(value, "f").rstrip("0")}
    return value


def _is_storable(name: Any) -> bool:
    return isinstance(name, str) and name.isprintable()
