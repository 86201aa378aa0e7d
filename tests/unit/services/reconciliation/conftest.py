"""The suppliers of the tests of reports."""

from unit.services.reporting.conftest import known, other, session, unsorted, within

__all__ = ["known", "other", "session", "unsorted", "within"]
