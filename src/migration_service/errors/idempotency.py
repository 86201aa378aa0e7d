"""Errors about the header Idempotency-Key."""

from migration_payloads.errors import InvalidError


class IdempotencyKeyReusedError(InvalidError):
    """The Idempotency-Key was used before, for another request."""

    code = "idempotency_key_reused"
    default_detail = "This Idempotency-Key was used for another request. Use a new key for each request."
    remedy = "Use a new key for another body, or for other parameters."


class IdempotencyRequestInProgressError(InvalidError):
    """The first request with this Idempotency-Key is still running."""

    code = "idempotency_request_in_progress"
    default_detail = "The first request with this Idempotency-Key is still running. Send it again later."
    remedy = "Send the same request with the same key again after the seconds of `Retry-After`."
