"""Organisations that are moved to another cell, with their audit

Revision ID: 0033
Revises: 0032
"""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"

_COLUMNS = """
    ALTER TABLE organisation ADD COLUMN closed_at timestamptz, ADD COLUMN moved_to text;
    ALTER TABLE audit_entry ADD COLUMN move_id uuid;
    CREATE INDEX ix_audit_entry_move_id ON audit_entry (move_id) WHERE move_id IS NOT NULL;
"""

# Entries of another cell keep their time and timeline. Whoever adds one has to name a move, and the chain has
# its hashes.
_GUARD = """
    CREATE OR REPLACE FUNCTION audit_guard() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_TABLE_NAME = 'audit_entry' AND TG_OP = 'INSERT' THEN
            {now}
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
_NOW = """
            NEW.at := clock_timestamp();
            NEW.timeline :=
                ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::bigint;"""
_NOW_UNLESS_MOVED = f"IF NEW.move_id IS NULL THEN {_NOW} END IF;"

# A day of this cell has only what was written here.
_HASH = """
    CREATE OR REPLACE FUNCTION audit_hash(of_day date, OUT entries bigint, OUT sha256 bytea)
    LANGUAGE sql STABLE SET search_path = pg_catalog, {schema}, pg_temp AS $$
        SELECT count(*), sha256(coalesce(string_agg(sha256(convert_to((jsonb_build_array(
            id, extract(epoch FROM at), actor_kind, actor, organisation_id, address, request_id, action,
            subject_kind, subject, outcome, code, details, once)
            || CASE WHEN timeline IS NULL THEN '[]' ELSE to_jsonb(timeline) END)::text, 'UTF8')), ''::bytea
            ORDER BY id), ''::bytea))
        FROM audit_entry
        WHERE at >= of_day::timestamp AT TIME ZONE 'UTC' AND at < (of_day + 1)::timestamp AT TIME ZONE 'UTC'
              {condition}
    $$
"""

# Moved entries can be older than the chain. They are removed with the first days of the chain, not before it,
# so that the days of the chain always tell up to when entries were removed.
_REMOVE = """
    CREATE OR REPLACE FUNCTION audit_remove_days(before date) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, {schema}, pg_temp AS $$
    DECLARE
        removed bigint;
        until date;
    BEGIN
        LOCK TABLE audit_day IN SHARE ROW EXCLUSIVE MODE;
        PERFORM set_config('migration_service.audit_keeper', 'on', true);
        until := least(before, (now() AT TIME ZONE 'UTC')::date - 90, (SELECT max(day) + 1 FROM audit_day));
        DELETE FROM audit_entry WHERE at < until::timestamp AT TIME ZONE 'UTC'
            AND EXISTS (SELECT FROM audit_day {condition});
        GET DIAGNOSTICS removed = ROW_COUNT;
        UPDATE audit_day SET removed_at = clock_timestamp() WHERE day < until AND removed_at IS NULL;
        PERFORM set_config('migration_service.audit_keeper', 'off', true);
        RETURN removed;
    END $$
"""


def upgrade() -> None:
    op.execute(_COLUMNS)
    _replace_functions(_NOW_UNLESS_MOVED, "AND move_id IS NULL", "WHERE day < until")


def downgrade() -> None:
    _replace_functions(_NOW, "", "")
    op.execute("ALTER TABLE audit_entry DROP COLUMN move_id")
    op.execute("ALTER TABLE organisation DROP COLUMN closed_at, DROP COLUMN moved_to")


def _replace_functions(now: str, hashed: str, removed: str) -> None:
    schema = op.get_bind().scalar(sa.text("SELECT quote_ident(current_schema())"))
    op.execute(_GUARD.format(now=now))
    op.execute(_HASH.format(schema=schema, condition=hashed))
    op.execute(_REMOVE.format(schema=schema, condition=removed))
