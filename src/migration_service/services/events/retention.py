"""Removing events at the end of their retention period, from the oldest one on."""

from sqlalchemy import text
from sqlalchemy.orm import Session

from migration_service.services.events.reading import HORIZON


def remove_old_events(session: Session, *, after_days: int, consumer_days: int, limit: int) -> int:
    """Remove at most `limit` events whose transactions began more than `after_days` days ago.

    Return their number. Only the beginning of a feed is removed: up to the first event that is younger, whose
    transaction is not below the horizon, or that a named consumer has not passed. A consumer that has not
    asked for `consumer_days` days is given up. The last event before that place stays, as the mark of what
    was removed: whoever has read up to it, or further, has missed nothing.
    """
    values = {"days": after_days, "consumer_days": consumer_days, "limit": limit}
    return len(session.execute(_REMOVE, values).all())


_REMOVE = text(f"""
    WITH horizon AS MATERIALIZED (SELECT {HORIZON} AS value),
    judged AS (
        SELECT organisation.id AS organisation_id, beginning.*
        FROM organisation LEFT JOIN LATERAL (
            SELECT coalesce(generation, -32768) AS generation, coalesce(transaction_id, 0) AS transaction_id,
                   coalesce(event_id, '00000000-0000-0000-0000-000000000000') AS event_id
            FROM event_consumer
            WHERE organisation_id = organisation.id
              AND asked_at > now() - make_interval(days => :consumer_days)
            ORDER BY 1, 2, 3 LIMIT 1) AS slowest ON true
        CROSS JOIN LATERAL (
            SELECT generation, transaction_id, id,
                   bool_and(created_at < now() - make_interval(days => :days)
                            AND (generation, transaction_id) < (0, (SELECT value FROM horizon))
                            AND (slowest.generation IS NULL OR (generation, transaction_id, id)
                                 <= (slowest.generation, slowest.transaction_id, slowest.event_id)))
                       OVER (ORDER BY generation, transaction_id, id) AS goes
            FROM (SELECT * FROM event WHERE event.organisation_id = organisation.id
                  ORDER BY generation, transaction_id, id LIMIT :limit + 1) AS event) AS beginning),
    doomed AS MATERIALIZED (
        SELECT organisation_id, generation, transaction_id, id
        FROM (SELECT *, lead(goes) OVER (PARTITION BY organisation_id ORDER BY generation, transaction_id, id)
                        AS next_goes FROM judged) AS placed
        WHERE goes AND next_goes LIMIT :limit)
    DELETE FROM event USING doomed
    WHERE event.organisation_id = doomed.organisation_id AND event.generation = doomed.generation
      AND event.transaction_id = doomed.transaction_id AND event.id = doomed.id
    RETURNING 1
""")
