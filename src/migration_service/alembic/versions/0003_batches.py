"""Batches, their lines and their chunks

Revision ID: 0003
Revises: 0002
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "batch_line",
        sa.Column("batch_id", sa.Uuid(), nullable=False),
        sa.Column("line_number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=True),
        sa.Column("external_account_number", sa.Text(), nullable=True),
        sa.Column("account_import_process_id", sa.BigInteger(), nullable=True),
        sa.Column("status", sa.Text(), server_default="PENDING", nullable=False),
        sa.Column("service_account_number", sa.Text(), nullable=True),
        sa.Column("errors", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("warnings", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.CheckConstraint(
            "status IN ('PENDING', 'VALID', 'STAGED', 'IMPORTED', 'WOULD_IMPORT', 'ALREADY_IMPORTED', "
            "'SKIPPED', 'FAILED')",
            name=op.f("ck_batch_line_status"),
        ),
        sa.PrimaryKeyConstraint("batch_id", "line_number", name=op.f("pk_batch_line")),
        postgresql_with={"toast_tuple_target": "128", "fillfactor": "50"},
    )
    op.create_table(
        "batch",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("organisation_id", sa.BigInteger(), nullable=False),
        sa.Column("import_supplier_id", sa.BigInteger(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("operations_team_id", sa.BigInteger(), nullable=True),
        sa.Column("api_key_id", sa.BigInteger(), nullable=True),
        sa.Column("state", sa.Text(), server_default="RUNNING", nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("lines", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("idempotency_key", sa.Text(), nullable=True),
        sa.Column("request_sha256", sa.LargeBinary(), nullable=True),
        sa.Column("lines_removed_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("mode IN ('validate', 'stage', 'import', 'dry-run')", name=op.f("ck_batch_mode")),
        sa.CheckConstraint(
            "operations_team_id IS NOT NULL OR mode IN ('validate', 'stage')",
            name=op.f("ck_batch_team_to_create"),
        ),
        sa.CheckConstraint("source IN ('upload', 'pending')", name=op.f("ck_batch_source")),
        sa.CheckConstraint(
            "state IN ('RUNNING', 'WAITING', 'PAUSED', 'STOPPED', 'CANCELLED', 'COMPLETED')",
            name=op.f("ck_batch_state"),
        ),
        sa.ForeignKeyConstraint(["api_key_id"], ["api_key.id"], name=op.f("fk_batch_api_key_id")),
        sa.ForeignKeyConstraint(
            ["import_supplier_id"], ["import_supplier.id"], name=op.f("fk_batch_import_supplier_id")
        ),
        sa.ForeignKeyConstraint(
            ["operations_team_id"], ["operations_team.id"], name=op.f("fk_batch_operations_team_id")
        ),
        sa.ForeignKeyConstraint(
            ["organisation_id"], ["organisation.id"], name=op.f("fk_batch_organisation_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_batch")),
        sa.UniqueConstraint("organisation_id", "idempotency_key", name="uq_batch_idempotency_key"),
    )
    op.create_index(op.f("ix_batch_import_supplier_id"), "batch", ["import_supplier_id"], unique=False)
    op.create_index(
        "ix_batch_open",
        "batch",
        ["created_at"],
        unique=False,
        postgresql_where=sa.text("finished_at IS NULL"),
    )
    op.create_table(
        "batch_chunk",
        sa.Column("batch_id", sa.Uuid(), nullable=False),
        sa.Column("first_line", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("last_line", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), server_default="PENDING", nullable=False),
        sa.Column("dispatched_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("attempts", sa.ARRAY(sa.Uuid()), nullable=True),
        sa.Column("tries", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("counts", postgresql.JSONB(astext_type=sa.Text()), server_default="{}", nullable=False),
        sa.Column(
            "error_counts", postgresql.JSONB(astext_type=sa.Text()), server_default="{}", nullable=False
        ),
        sa.Column(
            "warning_counts", postgresql.JSONB(astext_type=sa.Text()), server_default="{}", nullable=False
        ),
        sa.Column("worked", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("state IN ('PENDING', 'DISPATCHED', 'DONE')", name=op.f("ck_batch_chunk_state")),
        sa.ForeignKeyConstraint(
            ["batch_id"], ["batch.id"], name=op.f("fk_batch_chunk_batch_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("batch_id", "first_line", name=op.f("pk_batch_chunk")),
    )
    op.create_index(
        "ix_batch_chunk_open",
        "batch_chunk",
        ["batch_id", "first_line"],
        unique=False,
        postgresql_where=sa.text("state <> 'DONE'"),
    )
    op.create_index(
        "ix_batch_chunk_working",
        "batch_chunk",
        ["batch_id"],
        unique=False,
        postgresql_where=sa.text("attempts IS NOT NULL"),
    )


def downgrade() -> None:
    op.drop_index(
        "ix_batch_chunk_working", table_name="batch_chunk", postgresql_where=sa.text("attempts IS NOT NULL")
    )
    op.drop_index(
        "ix_batch_chunk_open", table_name="batch_chunk", postgresql_where=sa.text("state <> 'DONE'")
    )
    op.drop_table("batch_chunk")
    op.drop_index("ix_batch_open", table_name="batch", postgresql_where=sa.text("finished_at IS NULL"))
    op.drop_index(op.f("ix_batch_import_supplier_id"), table_name="batch")
    op.drop_table("batch")
    op.drop_table("batch_line")
