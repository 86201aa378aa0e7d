"""Ids of rows: in the order of time, which lists of the newest rows rely on."""

import time

from migration_service.db.base import new_id


def test_ids_are_in_the_order_in_which_they_were_made() -> None:
    ids = [new_id() for _ in range(1_000)]
    assert ids == sorted(set(ids))


def test_an_id_has_its_version_and_its_time() -> None:
    before = time.time_ns() // 1_000_000
    made = new_id()
    assert (made.version, made.variant) == (7, "specified in RFC 4122")
    assert before <= made.int >> 80 <= time.time_ns() // 1_000_000
