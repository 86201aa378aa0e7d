"""The timeline of PostgreSQL in each entry of the audit, which tells a failover from tampering

Revision ID: 0032
Revises: 0031
"""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"

# The first eight digits of the name of the current WAL file.
_TIMELINE = "('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::bigint"

_GUARD = """
    CREATE OR REPLACE FUNCTION audit_guard() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_TABLE_NAME = 'audit_entry' AND TG_OP = 'INSERT' THEN
            NEW.at := clock_timestamp();
            {more}
            RETURN NEW;
        END IF;
        IF current_setting('migration_service.audit_keeper', true) = 'on'
            AND current_user = (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = TG_RELID)
            AND ((TG_TABLE_NAME = 'audit_entry' AND TG_OP = 'DELETE')
                 OR (TG_TABLE_NAME = 'audit_day' AND TG_OP IN ('INSERT', 'UPDATE')))
        THEN
            RETURN coalesce(NEW, OLD);
        END IF;
        RAISE EXCEPTION 'The audit can be neither changed nor removed.'
            USING ERRCODE = 'insufficient_privilege';
    END $$
"""

# Entries without a timeline keep their hashes.
_HASH = """
    CREATE OR REPLACE FUNCTION audit_hash(of_day date, OUT entries bigint, OUT sha256 bytea)
    LANGUAGE sql STABLE SET search_path = pg_catalog, {schema}, pg_temp AS $$
        SELECT count(*), sha256(coalesce(string_agg(sha256(convert_to((jsonb_build_array(
            id, extract(epoch FROM at), actor_kind, actor, organisation_id, address, request_id, action,
            subject_kind, subject, outcome, code, details, once){more})::text, 'UTF8')), ''::bytea
            ORDER BY id), ''::bytea))
        FROM audit_entry
        WHERE at >= of_day::timestamp AT TIME ZONE 'UTC' AND at < (of_day + 1)::timestamp AT TIME ZONE 'UTC'
    $$
"""
_HASHED_TOO = " || CASE WHEN timeline IS NULL THEN '[]' ELSE to_jsonb(timeline) END"


def upgrade() -> None:
    op.execute("ALTER TABLE audit_entry ADD COLUMN timeline bigint")
    _write_functions(f"NEW.timeline := {_TIMELINE};", _HASHED_TOO)


def downgrade() -> None:
    _write_functions("", "")
    op.execute("ALTER TABLE audit_entry DROP COLUMN timeline")


def _write_functions(set_too: str, hashed_too: str) -> None:
    schema = op.get_bind().scalar(sa.text("SELECT quote_ident(current_schema())"))
    op.execute(_GUARD.format(more=set_too))
    op.execute(_HASH.format(schema=schema, more=hashed_too))
