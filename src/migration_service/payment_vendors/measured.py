"""A payment vendor whose calls are timed for the metrics."""

import time

from migration_service.errors import ServiceError
from migration_service.metrics.process import VENDOR_CALL_SECONDS
from migration_service.payment_vendors.protocol import PaymentInstructionDetails, VendorClient


class MeasuredVendor:
    """A vendor that asks `vendor`, and counts under `name` how long each call took and how it ended."""

    def __init__(self, name: str, vendor: VendorClient) -> None:
        self._name = name
        self._vendor = vendor

    def retrieve_instruction(self, *, reference: str, type: str) -> PaymentInstructionDetails:
        """Return what the vendor returns, and raise what it raises."""
        started = time.monotonic()
        outcome = "error"
        try:
            details = self._vendor.retrieve_instruction(reference=reference, type=type)
            outcome = "confirmed"
            return details
        except ServiceError as error:
            outcome = error.code
            raise
        finally:
            VENDOR_CALL_SECONDS.labels(self._name, outcome).observe(time.monotonic() - started)
