"""The audit, and what rows keep of who wrote them

Revision ID: 0007
Revises: 0006
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


# Every change is refused, whoever asks; a function of the owner may say that it removes days. With one role
# for everything that is no protection against somebody who means it, but against every mistake.
_GUARD = """
    CREATE FUNCTION audit_guard() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_TABLE_NAME = 'audit_entry' AND TG_OP = 'INSERT' THEN
            NEW.at := clock_timestamp();
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

_TRIGGERS = """
    CREATE TRIGGER audit_guard BEFORE INSERT OR UPDATE OR DELETE ON {table}
        FOR EACH ROW EXECUTE FUNCTION audit_guard();
    CREATE TRIGGER audit_guard_truncate BEFORE TRUNCATE ON {table} EXECUTE FUNCTION audit_guard()
"""

# As JSON of listed columns: a column that a later revision adds changes no hash.
_HASH = """
    CREATE FUNCTION audit_hash(of_day date, OUT entries bigint, OUT sha256 bytea)
    LANGUAGE sql STABLE SET search_path = pg_catalog, {schema}, pg_temp AS $$
        SELECT count(*), sha256(coalesce(string_agg(sha256(convert_to(jsonb_build_array(
            id, extract(epoch FROM at), actor_kind, actor, organisation_id, address, request_id, action,
            subject_kind, subject, outcome, code, details, once)::text, 'UTF8')), ''::bytea ORDER BY id),
            ''::bytea))
        FROM audit_entry
        WHERE at >= of_day::timestamp AT TIME ZONE 'UTC' AND at < (of_day + 1)::timestamp AT TIME ZONE 'UTC'
    $$
"""

# An hour after midnight: a transaction that began before it has ended by then.
_SEAL = """
    CREATE FUNCTION audit_seal_days() RETURNS SETOF audit_day
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, {schema}, pg_temp AS $$
    DECLARE
        last audit_day;
        next date;
    BEGIN
        LOCK TABLE audit_day IN SHARE ROW EXCLUSIVE MODE;
        PERFORM set_config('migration_service.audit_keeper', 'on', true);
        SELECT * INTO last FROM audit_day ORDER BY day DESC LIMIT 1;
        next := coalesce(last.day + 1, (SELECT (min(at) AT TIME ZONE 'UTC')::date FROM audit_entry));
        WHILE clock_timestamp() >= (next + 1)::timestamp AT TIME ZONE 'UTC' + interval '1 hour' LOOP
            INSERT INTO audit_day (day, entries, entries_sha256, chain_sha256)
            SELECT next, hash.entries, hash.sha256,
                   sha256(coalesce(last.chain_sha256, ''::bytea)
                          || convert_to(to_char(next, 'YYYY-MM-DD ') || hash.entries || ' ', 'UTF8')
                          || hash.sha256)
            FROM audit_hash(next) AS hash
            RETURNING * INTO last;
            RETURN NEXT last;
            next := next + 1;
        END LOOP;
        PERFORM set_config('migration_service.audit_keeper', 'off', true);
    END $$
"""

# Whoever took over the service still cannot remove the last ninety days.
_REMOVE = """
    CREATE FUNCTION audit_remove_days(before date) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, {schema}, pg_temp AS $$
    DECLARE
        removed bigint;
        until date;
    BEGIN
        LOCK TABLE audit_day IN SHARE ROW EXCLUSIVE MODE;
        PERFORM set_config('migration_service.audit_keeper', 'on', true);
        until := least(before, (now() AT TIME ZONE 'UTC')::date - 90, (SELECT max(day) + 1 FROM audit_day));
        DELETE FROM audit_entry WHERE at < until::timestamp AT TIME ZONE 'UTC'
            AND EXISTS (SELECT FROM audit_day);
        GET DIAGNOSTICS removed = ROW_COUNT;
        UPDATE audit_day SET removed_at = clock_timestamp() WHERE day < until AND removed_at IS NULL;
        PERFORM set_config('migration_service.audit_keeper', 'off', true);
        RETURN removed;
    END $$
"""


def upgrade() -> None:
    op.create_table(
        "audit_day",
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("entries", sa.BigInteger(), nullable=False),
        sa.Column("entries_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("chain_sha256", sa.LargeBinary(), nullable=False),
        sa.Column(
            "sealed_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("removed_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("day", name=op.f("pk_audit_day")),
    )
    op.create_table(
        "audit_entry",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column(
            "at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("actor_kind", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=True),
        sa.Column("organisation_id", sa.BigInteger(), nullable=True),
        sa.Column("address", sa.Text(), nullable=True),
        sa.Column("request_id", sa.Text(), nullable=True),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject_kind", sa.Text(), nullable=True),
        sa.Column("subject", sa.Text(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("code", sa.Text(), nullable=True),
        sa.Column("details", postgresql.JSONB(), nullable=True),
        sa.Column("once", sa.Text(), nullable=True),
        sa.CheckConstraint("outcome IN ('DONE', 'REFUSED')", name=op.f("ck_audit_entry_outcome")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_entry")),
    )
    op.create_index(op.f("ix_audit_entry_at"), "audit_entry", ["at"], unique=False)
    op.create_index(
        "uq_audit_entry_once",
        "audit_entry",
        ["once"],
        unique=True,
        postgresql_where=sa.text("once IS NOT NULL"),
    )
    op.add_column("account_import_process", sa.Column("staged_by_api_key_id", sa.BigInteger(), nullable=True))
    op.add_column("account_import_process", sa.Column("staged_request_id", sa.Text(), nullable=True))
    op.add_column("account_import_process", sa.Column("staged_address", sa.Text(), nullable=True))
    op.add_column("attempt", sa.Column("address", sa.Text(), nullable=True))
    op.add_column("batch", sa.Column("request_id", sa.Text(), nullable=True))
    op.add_column("batch", sa.Column("address", sa.Text(), nullable=True))
    op.add_column("note", sa.Column("added_at", sa.DateTime(timezone=True), nullable=True))
    # After the column: notes that exist keep no moment rather than a wrong one.
    op.alter_column("note", "added_at", server_default=sa.text("now()"))
    op.add_column("note", sa.Column("api_key_id", sa.BigInteger(), nullable=True))
    op.add_column("note", sa.Column("request_id", sa.Text(), nullable=True))
    op.add_column("note", sa.Column("address", sa.Text(), nullable=True))
    op.add_column("payment_instruction", sa.Column("api_key_id", sa.BigInteger(), nullable=True))
    op.add_column("payment_instruction", sa.Column("request_id", sa.Text(), nullable=True))
    op.add_column("payment_instruction", sa.Column("address", sa.Text(), nullable=True))
    op.add_column("statement", sa.Column("api_key_id", sa.BigInteger(), nullable=True))
    op.add_column("statement", sa.Column("request_id", sa.Text(), nullable=True))
    op.add_column("statement", sa.Column("address", sa.Text(), nullable=True))
    op.add_column("transaction", sa.Column("api_key_id", sa.BigInteger(), nullable=True))
    op.add_column("transaction", sa.Column("request_id", sa.Text(), nullable=True))
    op.add_column("transaction", sa.Column("address", sa.Text(), nullable=True))
    schema = op.get_bind().scalar(sa.text("SELECT quote_ident(current_schema())"))
    op.execute(_GUARD)
    for table in ("audit_entry", "audit_day"):
        op.execute(_TRIGGERS.format(table=table))
    for function in (_HASH, _SEAL, _REMOVE):
        op.execute(function.format(schema=schema))


def downgrade() -> None:
    for function in ("audit_remove_days(date)", "audit_seal_days()", "audit_hash(date)"):
        op.execute(f"DROP FUNCTION {function}")
    op.drop_column("transaction", "address")
    op.drop_column("transaction", "request_id")
    op.drop_column("transaction", "api_key_id")
    op.drop_column("statement", "address")
    op.drop_column("statement", "request_id")
    op.drop_column("statement", "api_key_id")
    op.drop_column("payment_instruction", "address")
    op.drop_column("payment_instruction", "request_id")
    op.drop_column("payment_instruction", "api_key_id")
    op.drop_column("note", "address")
    op.drop_column("note", "request_id")
    op.drop_column("note", "api_key_id")
    op.drop_column("note", "added_at")
    op.drop_column("batch", "address")
    op.drop_column("batch", "request_id")
    op.drop_column("attempt", "address")
    op.drop_column("account_import_process", "staged_address")
    op.drop_column("account_import_process", "staged_request_id")
    op.drop_column("account_import_process", "staged_by_api_key_id")
    op.drop_index(
        "uq_audit_entry_once", table_name="audit_entry", postgresql_where=sa.text("once IS NOT NULL")
    )
    op.drop_index(op.f("ix_audit_entry_at"), table_name="audit_entry")
    op.drop_table("audit_entry")
    op.drop_table("audit_day")
    op.execute("DROP FUNCTION audit_guard()")
