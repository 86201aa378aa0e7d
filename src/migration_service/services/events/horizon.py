"""What holds the horizon back, below which events can be read: the oldest transaction that writes."""

from typing import Any

from sqlalchemy import Row, text
from sqlalchemy.orm import Session

from migration_service.services.events.reading import HORIZON


def find_holder(session: Session) -> Row[Any] | None:
    """Return the oldest transaction of the server that has written something and is still open, if any.

    `seconds`, a float, says for how long it has been running, or, if this role may not see that, has held an
    event back. `name` is the session by its process id, application, role and database, or the name of a
    prepared transaction, and `end_with` the statement that ends it.
    """
    return session.execute(_FIND).one_or_none()


# A transaction that only reads has no number, and holds nothing back. That of this query is one. PostgreSQL
# tells only members of the other role, and of pg_read_all_stats, since when a transaction has been running.
_FIND = text(f"""
    SELECT CAST(coalesce(extract(epoch FROM clock_timestamp() - coalesce(since, (
               SELECT min(held.created_at) FROM organisation CROSS JOIN LATERAL (
                   SELECT created_at FROM event
                   WHERE organisation_id = organisation.id AND generation = 0
                     AND transaction_id >= {HORIZON}
                   ORDER BY generation, transaction_id, event.id LIMIT 1) AS held))), 0)
               AS double precision) AS seconds,
           name, end_with
    FROM (
        SELECT age(backend_xid) AS age, xact_start AS since,
               format('session %s (%s) of role %s in database %s', pid,
                      coalesce(nullif(application_name, ''), 'no application name'),
                      coalesce(usename, backend_type), datname) AS name,
               format('SELECT pg_terminate_backend(%s)', pid) AS end_with
        FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
        UNION ALL
        SELECT age(transaction), prepared, format('prepared transaction %L', gid),
               format('ROLLBACK PREPARED %L', gid)
        FROM pg_prepared_xacts) AS holder
    ORDER BY age DESC LIMIT 1
""")
