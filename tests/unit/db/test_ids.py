"""Ids of rows: in the order of time, which lists of the newest rows rely on."""

from migration_service.db.base import new_id


def test_ids_are_in_the_order_in_which_they_were_made() -> None:
    ids = [new_id() for _ in range(1_000)]
    assert ids == sorted(set(ids))
