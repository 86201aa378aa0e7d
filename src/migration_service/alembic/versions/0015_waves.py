"""Waves: a plan that cuts a supplier's pending accounts into batches with windows and decisions

Revision ID: 0015
Revises: 0014
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("batch", sa.Column("runs_until", sa.DateTime(timezone=True), nullable=True))
    op.add_column("batch", sa.Column("lines_per_minute", sa.BigInteger(), nullable=True))
    op.create_table(
        "wave_plan",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("organisation_id", sa.BigInteger(), nullable=False),
        sa.Column("import_supplier_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("operations_team_id", sa.BigInteger(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("continue_if_clean", sa.Boolean(), nullable=False),
        sa.Column("unplanned", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["import_supplier_id"], ["import_supplier.id"], name=op.f("fk_wave_plan_import_supplier_id")
        ),
        sa.ForeignKeyConstraint(
            ["operations_team_id"], ["operations_team.id"], name=op.f("fk_wave_plan_operations_team_id")
        ),
        sa.ForeignKeyConstraint(
            ["organisation_id"], ["organisation.id"], name=op.f("fk_wave_plan_organisation_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_wave_plan")),
    )
    op.create_index(op.f("ix_wave_plan_organisation_id"), "wave_plan", ["organisation_id"], unique=False)
    op.create_index(
        "uq_wave_plan_open",
        "wave_plan",
        ["import_supplier_id"],
        unique=True,
        postgresql_where=sa.text("finished_at IS NULL"),
    )
    op.create_table(
        "wave",
        sa.Column("plan_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("batch_id", sa.Uuid(), nullable=False),
        sa.Column("state", sa.Text(), server_default="PLANNED", nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("time_window", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("strata", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("began_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("reconciled_to", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("differing", sa.BigInteger(), nullable=True),
        sa.Column("open", sa.BigInteger(), nullable=True),
        sa.Column("reconciled_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("decided_by", sa.Text(), nullable=True),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("decision_reason", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "state IN ('PLANNED', 'WAITING', 'RUNNING', 'PAUSED', 'RECONCILING', 'CLEAN', 'DIFFERS', "
            "'APPROVED', 'STOPPED')",
            name=op.f("ck_wave_state"),
        ),
        sa.ForeignKeyConstraint(["batch_id"], ["batch.id"], name=op.f("fk_wave_batch_id")),
        sa.ForeignKeyConstraint(["plan_id"], ["wave_plan.id"], name=op.f("fk_wave_plan_id")),
        sa.PrimaryKeyConstraint("plan_id", "number", name=op.f("pk_wave")),
        sa.UniqueConstraint("batch_id", name=op.f("uq_wave_batch_id")),
    )


def downgrade() -> None:
    op.drop_table("wave")
    op.drop_index(
        "uq_wave_plan_open", table_name="wave_plan", postgresql_where=sa.text("finished_at IS NULL")
    )
    op.drop_index(op.f("ix_wave_plan_organisation_id"), table_name="wave_plan")
    op.drop_table("wave_plan")
    op.drop_column("batch", "lines_per_minute")
    op.drop_column("batch", "runs_until")
