"""Beat goes on after its broker was away."""

from flask import Flask

from migration_service.blueprints.resources import resources


def test_beat_may_try_again_as_only_that_opens_a_lost_connection_anew(app: Flask) -> None:
    with app.app_context():
        schedule = resources().celery.conf.beat_schedule
    assert schedule
    assert all(entry["options"]["retry"] for entry in schedule.values())
