"""Undo until go-live, and account numbers that are never given out again

Revision ID: 0012
Revises: 0011
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

# Once for each statement, whatever the number of accounts that it creates. Creation draws another number when
# the unique constraint of the table refuses one, so the trigger raises the same error.
_KEEP_RETIRED = """
    CREATE FUNCTION refuse_retired_account_numbers() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF EXISTS (SELECT FROM created JOIN retired_account_number USING (service_account_number)) THEN
            RAISE EXCEPTION 'The number of a reverted account is never given out again.'
                USING ERRCODE = 'unique_violation', CONSTRAINT = 'uq_account_service_account_number',
                      TABLE = 'account';
        END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER refuse_retired_account_numbers AFTER INSERT ON account
        REFERENCING NEW TABLE AS created
        FOR EACH STATEMENT EXECUTE FUNCTION refuse_retired_account_numbers()
"""


def upgrade() -> None:
    op.add_column("import_supplier", sa.Column("live_at", sa.DateTime(timezone=True), nullable=True))
    op.create_table(
        "undo",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("organisation_id", sa.BigInteger(), nullable=False),
        sa.Column("import_supplier_id", sa.BigInteger(), nullable=False),
        sa.Column("batch_id", sa.Uuid(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("overrides", sa.ARRAY(sa.Text()), server_default="{}", nullable=False),
        sa.Column("state", sa.Text(), server_default="RUNNING", nullable=False),
        sa.Column("accounts", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("started_by", sa.Text(), nullable=True),
        sa.Column("api_key_id", sa.BigInteger(), nullable=True),
        sa.Column("request_id", sa.Text(), nullable=True),
        sa.Column("address", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("dispatched_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("state IN ('RUNNING', 'CANCELLED', 'COMPLETED')", name=op.f("ck_undo_state")),
        sa.ForeignKeyConstraint(
            ["organisation_id"], ["organisation.id"], name=op.f("fk_undo_organisation_id")
        ),
        sa.ForeignKeyConstraint(
            ["import_supplier_id"], ["import_supplier.id"], name=op.f("fk_undo_import_supplier_id")
        ),
        sa.ForeignKeyConstraint(["batch_id"], ["batch.id"], name=op.f("fk_undo_batch_id")),
        sa.ForeignKeyConstraint(["api_key_id"], ["api_key.id"], name=op.f("fk_undo_api_key_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_undo")),
    )
    op.create_index(op.f("ix_undo_batch_id"), "undo", ["batch_id"], unique=False)
    op.create_index(op.f("ix_undo_import_supplier_id"), "undo", ["import_supplier_id"], unique=False)
    op.create_index(
        "ix_undo_open", "undo", ["created_at"], unique=False, postgresql_where=sa.text("finished_at IS NULL")
    )
    op.create_table(
        "undo_line",
        sa.Column("undo_id", sa.Uuid(), nullable=False),
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("account_import_process_id", sa.BigInteger(), nullable=False),
        sa.Column("service_account_number", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), server_default="PENDING", nullable=False),
        sa.Column("reasons", sa.ARRAY(sa.Text()), nullable=True),
        sa.Column("tries", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("tried_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("outcome IN ('PENDING', 'REVERTED', 'KEPT')", name=op.f("ck_undo_line_outcome")),
        sa.PrimaryKeyConstraint("undo_id", "position", name=op.f("pk_undo_line")),
    )
    op.create_index(
        "ix_undo_line_pending",
        "undo_line",
        ["undo_id", "position"],
        unique=False,
        postgresql_where=sa.text("outcome = 'PENDING'"),
    )
    op.create_table(
        "retired_account_number",
        sa.Column("service_account_number", sa.Text(), nullable=False),
        sa.Column("retired_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("service_account_number", name=op.f("pk_retired_account_number")),
    )
    op.create_index(
        "ix_idempotency_key_account",
        "idempotency_key",
        ["import_supplier", "external_account_number"],
        unique=False,
        postgresql_where=sa.text("external_account_number IS NOT NULL"),
    )
    op.execute(_KEEP_RETIRED)


def downgrade() -> None:
    op.execute("DROP TRIGGER refuse_retired_account_numbers ON account")
    op.execute("DROP FUNCTION refuse_retired_account_numbers")
    op.drop_index(
        "ix_idempotency_key_account",
        table_name="idempotency_key",
        postgresql_where=sa.text("external_account_number IS NOT NULL"),
    )
    op.drop_table("retired_account_number")
    op.drop_table("undo_line")
    op.drop_table("undo")
    op.drop_column("import_supplier", "live_at")
