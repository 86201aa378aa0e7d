"""A payment vendor with timed calls for the metrics, and recorded responses for the doctor."""

import time

from redis import Redis

from migration_service.connections import log_if_unavailable
from migration_service.errors import PaymentInstructionRejectedError, ServiceError
from migration_service.metrics.shared import add_vendor_call
from migration_service.payment_vendors.answers import note_answer, note_failure
from migration_service.payment_vendors.breaker import NotCalledError
from migration_service.payment_vendors.protocol import PaymentInstructionDetails, VendorClient


class CallLog:
    """The log of this process's calls in Redis, where the calls of all processes are summed."""

    def __init__(self) -> None:
        self._redis: Redis | None = None

    def keep_in(self, redis: Redis) -> None:
        """Count calls in this Redis server. Until this is called they are not counted."""
        self._redis = redis

    def add(self, vendor: str, seconds: float, error: BaseException | None) -> None:
        """Count an ended call, with its error if it failed.

        A call never fails because Redis is unavailable.
        """
        if self._redis is None:
            return
        with (
            log_if_unavailable("the call of a payment vendor was not counted"),
            self._redis.pipeline(transaction=False) as pipeline,
        ):
            add_vendor_call(pipeline, vendor, _outcome(error), seconds)
            if error is None or isinstance(error, PaymentInstructionRejectedError):
                note_answer(pipeline, vendor)
            else:
                told = error.detail if isinstance(error, ServiceError) else type(error).__name__
                reason = told.split(". ")[0]  # the rest of the message is for the client
                note_failure(pipeline, vendor, reason, is_open=isinstance(error, NotCalledError))
            pipeline.execute()


def _outcome(error: BaseException | None) -> str:
    if error is None:
        return "confirmed"
    return error.code if isinstance(error, ServiceError) else "error"


#: The composition roots of web processes and workers set its Redis.
CALLS = CallLog()


class MeasuredVendor:
    """A vendor that delegates to `vendor`, and records the duration and outcome of each call under `name`."""

    def __init__(self, name: str, vendor: VendorClient) -> None:
        self._name = name
        self._vendor = vendor

    def retrieve_instruction(self, *, reference: str, type: str) -> PaymentInstructionDetails:
        """Return the result of the vendor, or raise its error."""
        started = time.monotonic()
        try:
            details = self._vendor.retrieve_instruction(reference=reference, type=type)
        except BaseException as error:
            CALLS.add(self._name, time.monotonic() - started, error)
            raise
        CALLS.add(self._name, time.monotonic() - started, None)
        return details
